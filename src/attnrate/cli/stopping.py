"""Ctrl-C, TERM and HUP as one orderly way to stop a command, from its first moment to its last."""

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
    """Somebody has asked this process to stop.

    Python remembers a plain KeyboardInterrupt that has passed through `exec` of a string, as
    dataclasses and namedtuples call it, and dies by SIGINT at its end although it was caught.
    """


class Stopping:
    """Whether somebody has asked this process to stop; `Stopped` is raised then.

    A signal that is ignored, as by nohup or in the background of a shell, stays ignored.
    """

    def __init__(self) -> None:
        self.asked = False
        self._signals: list[int] = []

    def begin(self) -> None:
        """Listen from now on; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        defaults = (signal.SIG_DFL, signal.default_int_handler)
        for number in (getattr(signal, name, None) for name in _NAMES):
            if number is not None and signal.getsignal(number) in defaults:
                signal.signal(number, self._stop)
                self._signals.append(number)
        sys.unraisablehook = self._raise_later

    def end(self) -> None:
        """Nothing is left to be stopped, and the exit code is known: ignore what comes now.

        Python takes back every handler but this one at its end, and would die by the signal.
        """
        for number in self._signals:
            signal.signal(number, signal.SIG_IGN)
        sys.unraisablehook = sys.__unraisablehook__

    def _stop(self, number: int, frame: FrameType | None) -> NoReturn:
        self.asked = True
        raise Stopped

    def _raise_later(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """An interruption that came where Python cannot pass it on comes again a moment later."""
        if not self.asked or not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        timer = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()
