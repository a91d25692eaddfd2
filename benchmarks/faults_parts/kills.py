"""Commands killed at random moments, by KILL, TERM and INT, begun again and at last let finish.

KILL comes at any moment from the start of the process on. TERM and INT come from the moment on at
which the command listens to them: before that it is Python itself that is starting, which ends by
the signal or with a traceback of its own. Every second INT goes to the workers, too, as Ctrl-C in a
terminal does. Each folder is killed in four times, and then the command must finish with what an
undisturbed run finishes with; what was finished before a kill is there after it, unchanged.

Only a kill that meets a command at work counts. The moment is drawn from the time that the command
takes in such a folder: that of a whole run less what is finished already. Where it was over by then
all the same, the run is judged as one that nothing disturbed, and another moment is drawn.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from faults_parts import works
from faults_parts.processes import Ended, run, took_over
from faults_parts.tally import Seen, judged
from faults_parts.works import WORKS, Found, Work

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_A_FOLDER = 4
_TRIES = 6
_SHARE = 0.9  # of the time that a command is thought to take
#: Seconds in which a command ends that was told to stop when its work was done already
_ENDING = 3.0


@dataclass(frozen=True)
class Undisturbed:
    """What a command finishes with, and its seconds: until it listens, in all, with nothing to do.

    `started` is also the part of them that is Python's.
    """

    finished: Found
    started: float
    seconds: float
    nothing_to_do: float

    def expected(self, found: Found) -> float:
        """Expected seconds of the command in a folder where this much is finished."""
        left = 1 - len(found) / max(1, len(self.finished))
        return self.nothing_to_do + max(0.0, left * (self.seconds - self.nothing_to_do))


def run_all(
    place: Path, count: int, seed: int, only: int | None, tell: Callable[[Seen], None]
) -> list[str]:
    """Kill `count` commands; return what could not be tried."""
    if not Path("/proc/self/status").exists():
        return ["kills: there is no /proc to watch processes by"]
    shared = place / "shared"
    works.made_up_cifar10(shared)
    works.toy_debian(place / "programs", place / "shop")
    (place / "kills").mkdir()
    missed = []
    for number, work in enumerate(WORKS):
        first, end = (round(count * n / len(WORKS)) for n in (number, number + 1))
        if only is None or first <= only < end:
            for seen in _killed(work, range(first, end), place / "kills", shared, seed, only):
                if isinstance(seen, Seen):
                    tell(seen)
                else:
                    missed.append(seen)
    return [f"kills: {len(missed)}, which never met a command at work ({missed})"] if missed else []


def _killed(
    work: Work, numbers: range, place: Path, shared: Path, seed: int, only: int | None
) -> Iterator[Seen | int]:
    """Run one case; return the record, or the number of a kill that always came too late."""
    folder = _new(place / f"{work.name}-whole")
    started = 0.0

    def listen(process: "subprocess.Popen[bytes]") -> bool:
        nonlocal started
        begin = time.monotonic()
        took_over(process)
        started = time.monotonic() - begin
        return False

    whole = _run(work, folder, shared, listen)
    expected = work.finished(folder)
    yield _seen(work, numbers[0], "undisturbed", whole, (0,), {}, expected)
    again = _run(work, folder, shared)
    yield _seen(work, numbers[0], "finished before", again, (0,), expected, work.finished(folder))
    times = Undisturbed(expected, started, whole.seconds, again.seconds)
    for begin in range(numbers.start, numbers.stop, _A_FOLDER):
        group = range(begin, min(begin + _A_FOLDER, numbers.stop))
        if only is None or only in group:
            yield from _killed_in(
                work, group, _new(place / f"{work.name}-{begin}"), times, shared, seed
            )


def _killed_in(
    work: Work, group: range, folder: Path, times: Undisturbed, shared: Path, seed: int
) -> Iterator[Seen | int]:
    """Kill a command in one folder, again and again, and let it finish."""
    for number in group:
        draw = random.Random(f"{seed}/kills/{number}")
        for _ in range(_TRIES):
            before = work.finished(folder)
            seen, met = _kill(work, number, folder, times, shared, draw, before)
            yield seen
            if met:
                break
        else:
            yield number
    before = work.finished(folder)
    last = _run(work, folder, shared)
    found = work.finished(folder)
    seen = _seen(work, group[-1], "finished after kills", last, (0,), before, found)
    if _differs(work, times.finished, found):
        faults = tuple({*seen.faults, "lost"})
        wanted, there = sorted(times.finished.items())[:9], sorted(found.items())[:9]
        said = f"{last.err[-1500:]}\n{wanted} undisturbed, here {there}"
        seen = Seen(**{**vars(seen), "faults": faults, "said": said})
    yield seen


def _kill(
    work: Work,
    number: int,
    folder: Path,
    times: Undisturbed,
    shared: Path,
    draw: random.Random,
    before: Found,
) -> tuple[Seen, bool]:
    """Kill the command once; return the record, and whether the command was at work."""
    which = _SIGNALS[number % 3]
    everybody = which is signal.SIGINT and draw.random() < 0.5
    least = 0.0 if which is signal.SIGKILL else times.started
    wait = draw.uniform(0, max(0.0, _SHARE * times.expected(before) - least))

    def disturb(process: "subprocess.Popen[bytes]") -> bool:
        if which is not signal.SIGKILL and not took_over(process):
            return False
        time.sleep(wait)
        if process.poll() is not None:
            return False
        if everybody:
            os.killpg(process.pid, which)
        else:
            process.send_signal(which)
        return True

    ended = _run(work, folder, shared, disturb)
    met = ended.signalled and ended.code != 0
    # a command that had just ended is a right end of its own; so is one that ends meanwhile
    stopped = -9 if which is signal.SIGKILL else 130
    allowed = (stopped,) if ended.signalled and ended.after > _ENDING else (0, stopped)
    to = " to all" if everybody else ""
    what = f"{which.name}{to} after {wait:.2f} s" + ("" if met else ", over by then")
    return _seen(work, number, what, ended, allowed, before, work.finished(folder), met), met


def _run(
    work: Work,
    folder: Path,
    shared: Path,
    disturb: Callable[["subprocess.Popen[bytes]"], bool] | None = None,
) -> Ended:
    return run(work.words(folder), folder, works.environment(work, folder, shared), disturb)


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
    killed: bool = False,
) -> Seen:
    faults = [*judged(ended.code, ended.err, allowed)]
    if ended.code is None:
        faults = ["over time"]
    elif ended.code < 0 and ended.code not in allowed:
        faults.append("crashed")
    if ended.left:
        faults.append("left running")
    if any(after.get(name) != value for name, value in before.items()):
        faults.append("lost")
    return Seen(
        *("kills", work.name if killed else f"{work.name}, not killed", number),
        f"{what}; {len(before)} finished before, {len(after)} after",
        *(ended.code, tuple(faults), ended.err[-2500:] if faults else "", ended.seconds),
    )
