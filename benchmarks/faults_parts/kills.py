"""Commands killed at random moments, by KILL, TERM and INT, begun again and at last let finish.

KILL comes at any moment from the start of the process on. TERM and INT come from the moment on at
which the command listens to them: before that it is Python itself that is starting, which ends by
the signal or with a traceback of its own. Each folder is killed in up to four times, and then the
command must finish with what an undisturbed run finishes with; what was finished before a kill is
there after it, unchanged.
"""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from faults_parts import works
from faults_parts.processes import Ended, run, took_over
from faults_parts.tally import ALLOWED, Seen, judged
from faults_parts.works import WORKS, Found, Work

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_A_FOLDER = 4


def run_all(
    place: Path, count: int, seed: int, only: int | None, tell: Callable[[Seen], None]
) -> list[str]:
    """Kill `count` commands; what could not be tried."""
    if not Path("/proc/self/status").exists():
        return ["kills: there is no /proc to watch processes by"]
    shared = place / "shared"
    works.made_up_cifar10(shared)
    works.toy_debian(place / "programs", place / "shop")
    (place / "kills").mkdir()
    first = 0
    for work in WORKS:
        times = max(1, round(work.share * count / 100))
        if only is None or first <= only < first + times:
            for seen in _killed(work, first, times, place / "kills", shared, seed):
                tell(seen)
        first += times
    return []


def _killed(
    work: Work, first: int, times: int, place: Path, shared: Path, seed: int
) -> Iterator[Seen]:
    draw = random.Random(f"{seed}/kills/{work.name}")
    folder = _new(place / f"{work.name}-whole")
    whole = run(work.words(folder), folder, works.environment(work, folder, shared))
    expected = work.finished(folder)
    yield _seen(work, first, "undisturbed", whole, (0,), {}, expected)
    for number in range(first, first + times):
        if (number - first) % _A_FOLDER == 0:
            folder = _new(place / f"{work.name}-{number}")
        which = _SIGNALS[number % 3]
        wait = draw.uniform(0, whole.seconds)
        before = work.finished(folder)

        def disturb(
            process: "subprocess.Popen[bytes]", which: signal.Signals = which, wait: float = wait
        ) -> bool:
            begin = time.monotonic()
            if which is not signal.SIGKILL and not took_over(process):
                return False
            left = wait - (time.monotonic() - begin) if which is signal.SIGKILL else 0.85 * wait
            time.sleep(max(0.0, left))
            if process.poll() is not None:
                return False
            process.send_signal(which)
            return True

        ended = run(work.words(folder), folder, works.environment(work, folder, shared), disturb)
        # a command that had just ended is a right end of its own; so is one that ends meanwhile
        allowed = (0, -9) if which is signal.SIGKILL else (0, 130)
        what = f"{which.name} after {wait:.2f} s" + ("" if ended.signalled else ", over by then")
        yield _seen(work, number, what, ended, allowed, before, work.finished(folder))
        if (number - first) % _A_FOLDER == _A_FOLDER - 1 or number == first + times - 1:
            before = work.finished(folder)
            last = run(work.words(folder), folder, works.environment(work, folder, shared))
            found = work.finished(folder)
            seen = _seen(work, number, "finished after kills", last, (0,), before, found)
            if _differs(work, expected, found):
                faults = tuple({*seen.faults, "lost"})
                said = (
                    f"{sorted(expected.items())[:9]} undisturbed, here {sorted(found.items())[:9]}"
                )
                seen = Seen(
                    **{**vars(seen), "faults": faults, "said": f"{last.err[-1500:]}\n{said}"}
                )
            yield seen


def _differs(work: Work, expected: Found, found: Found) -> bool:
    """Moments at which trials were finished differ; names, weights and data must not."""
    if work.name in ("train", "data"):
        return expected != found
    return expected.keys() != found.keys()


def _new(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _seen(
    work: Work,
    number: int,
    what: str,
    ended: Ended,
    allowed: tuple[int, ...],
    before: Found,
    after: Found,
) -> Seen:
    faults = [*judged(ended.code, ended.err, allowed)]
    if ended.code is None:
        faults = ["over time"]
    if ended.left:
        faults.append("left running")
    if any(after.get(name) != value for name, value in before.items()):
        faults.append("lost")
    said = ended.err[-2500:] if faults else ""
    code = ended.code
    assert {*ALLOWED} >= {*allowed} - {-9}
    return Seen(
        *("kills", work.name, number, f"{what}; {len(before)} finished before, {len(after)} after"),
        *(code, tuple(faults), said, ended.seconds),
    )
