"""Commands called within this process: stdout, stderr and exit code, in a time that is limited.

Long work is replaced at its edge, after all of the request has been checked: a sweep and a
reproduction before their first worker is started, a training before its data is fetched, a fit of
more than 20 steps before its first step, a download before its client is started. Such a call ends
with the message of `EdgeError` and the exit code 1.
"""

import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from attnrate.errors import AttnrateError

#: Bytes of address space that one call may use before the system says no
MEMORY = 12 << 30
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
_NOBODY = "65534"
_PATIENCE = 240.0  # seconds for a case, with all that is imported before the first
#: Seconds of the clock for one of the processor's, beyond which a call waits for something
_WAITING = 6.0
#: Exit code of a process that asks for another to go on, as one that was broken off may be odd
AFRESH = 75


class EdgeError(AttnrateError):
    """The request is right, and its long work would begin here."""


class OvertimeError(BaseException):
    """A call takes longer than it may; no `except Exception` catches this."""


@dataclass(frozen=True)
class Called:
    """How a call ended."""

    code: int | None
    out: str
    err: str
    overtime: bool = False


def call(words: list[str], seconds: float = 20.0) -> Called:
    """Run `attnrate WORDS` in this process, as its command line does.

    `seconds` are of the processor, as others may work on the machine; by the clock a call may take
    `_WAITING` times as long, so that one that only waits is found, too.
    """
    from attnrate.cli import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    kept = sys.argv, sys.stdout, sys.stderr, os.getcwd(), dict(os.environ)
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    sys.argv, sys.stdout, sys.stderr = ["attnrate", *words], out, err
    for timer, number, most in _timers(seconds):
        signal.signal(number, _too_long)
        signal.setitimer(timer, most, 1.0)
    code: int | None = None
    overtime = False
    try:
        # warnings are shown as in a new process, each time
        with warnings.catch_warnings():
            main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except OvertimeError:
        overtime = True
    except BaseException:
        # what Python would print at the end of the process, with its exit code
        err.write(traceback.format_exc())
        code = 1
    finally:
        for timer, *_ in _timers(seconds):
            signal.setitimer(timer, 0)
        sys.argv, sys.stdout, sys.stderr = kept[:3]
        os.chdir(kept[3])
        os.environ.clear()
        os.environ.update(kept[4])
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Called(code, _text(out), _text(err), overtime)


def _timers(seconds: float) -> tuple[tuple[int, int, float], ...]:
    """The timers of the processor and of the clock, with the signals that they send."""
    return (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, _WAITING * seconds),
    )


def _text(stream: io.TextIOWrapper) -> str:
    if stream.closed:
        return ""
    raw = stream.buffer
    return raw.getvalue().decode("utf-8", "replace") if isinstance(raw, io.BytesIO) else ""


def _too_long(number: int, frame: FrameType | None) -> NoReturn:
    raise OvertimeError


@contextmanager
def edges() -> Iterator[None]:
    """Replace long work by EdgeError while the context is open."""
    from unittest.mock import patch

    from attnrate.data import registry
    from attnrate.fitting import fit, sweep
    from attnrate.training import epochs
    from attnrate.training import train as training

    def stop(*_: object, **__: object) -> NoReturn:
        raise EdgeError("the work would begin here")

    steps = fit._started

    def few(*given: object, **more: object) -> object:
        recipe = given[2]
        if recipe.steps * recipe.batch * given[0].length > 40_000:  # type: ignore[attr-defined]
            stop()
        return steps(*given, **more)  # type: ignore[arg-type]

    def no_client(package: registry.Package, work: Path) -> NoReturn:
        raise registry._no_client(package)

    with (
        patch.object(sweep._Running, "run_all", stop),
        patch.object(training, "_on_images", stop),
        patch.object(training, "_on_sentences", stop),
        patch.object(epochs, "_epoch", stop),
        patch.object(fit, "_started", few),
        patch.object(registry, "_run", no_client),
    ):
        yield


def limit_memory() -> None:
    """Make the system refuse memory beyond MEMORY, so that the process is not killed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def harmless(command: list[str]) -> tuple[list[str], str | None]:
    """The command under a user who may read everything and write almost nothing.

    Also returns what is left out. Hostile paths such as /dev/null must not be tried by root,
    who could replace them.
    """
    if os.geteuid() != 0:
        return command, None
    program = shutil.which("setpriv")
    if program is None:
        return command, "paths below /dev, as this is root and there is no setpriv"
    drop = [program, "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"]
    drop += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    if subprocess.run([*drop, "true"], capture_output=True, check=False).returncode:
        return command, "paths below /dev, as this is root and may not become another user"
    return [*drop, *command], None


def _killed_after(child: "subprocess.Popen[str]") -> threading.Timer:
    timer = threading.Timer(_PATIENCE, child.kill)
    timer.daemon = True
    timer.start()
    return timer


def run_in_child(
    command: list[str],
    total: int,
    tell: Callable[[str], None],
    lost: Callable[[int, int], None],
    first: int = 0,
) -> None:
    """Run `total` cases in a process; `tell` gets its lines, `lost` a case that killed it.

    The command gets the number of the first case as its last word and prints one line per case.
    """
    done = 0
    while done < total:
        with subprocess.Popen(
            [*command, str(first + done)], stdout=subprocess.PIPE, text=True, errors="replace"
        ) as child:
            assert child.stdout is not None
            # work that never comes back to Python hears no alarm
            watch = _killed_after(child)
            for line in child.stdout:
                watch.cancel()
                if line.startswith("{"):
                    tell(line)
                    done += 1
                watch = _killed_after(child)
            watch.cancel()
        if child.returncode == AFRESH:
            continue
        if child.returncode == 70:
            raise SystemExit("the process that calls commands failed by itself; see above")
        if done < total:
            lost(done, child.returncode)
            done += 1


def warm(calls: tuple[tuple[str, ...], ...]) -> None:
    """Import what commands import, so that the time of a call is its own; `calls` are right ones.

    They are run in the current folder, and show that what is tried does work undisturbed.
    """
    for name in (
        "torch",
        "pandas",
        "transformers",
        "matplotlib.pyplot",
        "pytorch_optimizer",
        "ray",
    ):
        with suppress(ImportError):
            import_module(name)
    for words in calls:
        done = call([*words], 60.0)
        if done.code:
            raise RuntimeError(f"attnrate {' '.join(words)}: {done.err}")
