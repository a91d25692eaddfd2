"""The command line: one thin layer over the package. Heavy imports wait for the command.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong, 130 stopped by Ctrl-C, TERM or HUP.
"""

import os
import sys

from attnrate.cli.stopping import STOPPED, Stopping
from attnrate.errors import AttnrateError, InputError, is_out_of_memory

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process with its exit code.

    Errors that attnrate raises on purpose are printed as messages without a traceback. So is what
    the system refuses: memory, a file, the disk to which the output goes.
    """
    stopping = Stopping()
    try:
        stopping.begin()
        code = _said(_run(stopping))
    except KeyboardInterrupt:
        code = STOPPED
    finally:
        stopping.end()
    sys.exit(code)


def _run(stopping: Stopping) -> int:
    """Run the command and return its exit code."""
    try:
        # imported here, so that a signal that comes meanwhile is met, too
        from attnrate.cli.commands import app

        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt as stopped:
        return _message(str(stopped) or "stopped", STOPPED)
    except InputError as problem:
        return _message(str(problem), 2)
    except AttnrateError as problem:
        return _message(str(problem), 1)
    except Exception as problem:
        # libraries make errors of their own of an interruption within them
        if stopping.asked:
            return _message("stopped", STOPPED)
        if is_out_of_memory(problem):
            return _message("there is not enough memory for this; ask for something smaller", 1)
        if isinstance(problem, OSError):
            where = "" if problem.filename is None else f": {problem.filename!r}"
            return _message(f"the system refused ({problem.strerror or problem}){where}", 1)
        raise
    return 0


def _message(text: str, code: int) -> int:
    """Write a message on stderr and return the exit code."""
    try:
        sys.stderr.write(f"attnrate: {text}\n")
        sys.stderr.flush()
    except OSError:  # stderr is closed: there is nobody to write to
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return code


def _said(code: int) -> int:
    """The exit code, or 1 where the output cannot be written (a full disk, a closed pipe)."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as problem:
        # Python would try once more at its end, and fail with a code of its own
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        said = getattr(problem, "strerror", None) or problem
        return code or _message(f"the output could not be written ({said})", 1)
    return code
