"""Ctrl-C, TERM and HUP stop a command in one orderly way, from its first moment to its last."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

#: The exit code of a command that was stopped from outside
STOPPED = 130
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_AGAIN = 0.05  # seconds


class Stopped(KeyboardInterrupt):
    """The process was asked to stop by a signal.

    It is a class of its own because Python remembers a plain KeyboardInterrupt that has passed
    through `exec` of a string, which dataclasses and namedtuples call, and then dies by SIGINT at
    its end although the exception was caught.
    """


class Stopping:
    """Listens to the signals that ask the process to stop, and raises `Stopped` for them.

    `asked` says whether one has come. A signal that is ignored, as under nohup or in the background
    of a shell, stays ignored.
    """

    def __init__(self) -> None:
        self.asked = False
        self._signals: list[int] = []

    def begin(self) -> None:
        """Listen from now on; in any thread but the main one, where Python cannot, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        defaults = (signal.SIG_DFL, signal.default_int_handler)
        for number in (getattr(signal, name, None) for name in _NAMES):
            if number is not None and signal.getsignal(number) in defaults:
                signal.signal(number, self._stop)
                self._signals.append(number)
        sys.unraisablehook = self._raise_later

    def end(self) -> None:
        """Ignore signals from now on: the work is done and its exit code is known.

        At its end Python removes every handler of ours, and a signal would then kill the process
        and change its exit code; a signal that is ignored stays so.
        """
        for number in self._signals:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = sys.__unraisablehook__

    def _stop(self, number: int, frame: FrameType | None) -> NoReturn:
        """Handle a signal."""
        self.asked = True
        raise Stopped

    def _raise_later(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Send an interruption again a moment later that came where Python cannot raise it."""
        if not self.asked or not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        timer = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()
