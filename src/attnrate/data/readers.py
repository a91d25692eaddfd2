"""Processes that read and clean packages, beside a parent that fetches them.

Reading is Python's own work (catalogues, patterns), so threads would wait for each other. Each
process is a new Python (reader.py): one made by `fork` would inherit the locks of whatever threads
the caller has, torch's among them, and one made by `multiprocessing` otherwise would run the user's
script again, which few scripts are written for. Packages and pairs go between them as JSON.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from queue import SimpleQueue
from threading import Lock
from typing import IO, cast

from attnrate.data.clean import Cleaned
from attnrate.data.registry import ArchiveError, FetchError, Package, UnreachableError

_ERRORS = {kind.__name__: kind for kind in (FetchError, ArchiveError, UnreachableError)}
_GRACE = 5.0  # seconds for a process to take away what it was writing


class Readers:
    """A fixed number of processes; each reads one package at a time."""

    def __init__(self, count: int) -> None:
        self._all = [_start() for _ in range(count)]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._all:
            self._idle.put(process)
        self._closing = False
        self._hiring = Lock()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reader")

    def read(self, package: Package) -> "Future[Cleaned]":
        """What will be the pairs of a package, or the FetchError that `messages` raises for it."""
        return self._threads.submit(self._ask, package)

    def close(self) -> None:
        """End every process, whatever it is doing."""
        with self._hiring:
            self._closing = True
        for process in self._all:
            process.terminate()
        for process in self._all:
            _end(process)
        self._threads.shutdown(cancel_futures=True)

    def _ask(self, package: Package) -> Cleaned:
        process = self._idle.get()
        try:
            with suppress(BrokenPipeError):  # one that is dead gives no answer either
                requests = cast(IO[bytes], process.stdin)
                requests.write(json.dumps(asdict(package)).encode() + b"\n")
                requests.flush()
            line = cast(IO[bytes], process.stdout).readline()
            if not line.endswith(b"\n"):
                raise self._lost(process, package)
        finally:
            self._idle.put(self._living(process))
        said = json.loads(line)
        if "error" in said:
            raise _ERRORS[said.pop("error")](**said)
        pairs = [(english, german) for english, german in said["pairs"]]
        return Cleaned(said["messages"], pairs)

    def _lost(self, process: "subprocess.Popen[bytes]", package: Package) -> FetchError:
        code = process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return FetchError(
            f"a process that read a package ended before it had done so ({how})",
            package.file,
            "See that there is memory, and run the same again, perhaps with one worker.",
        )

    def _living(self, process: "subprocess.Popen[bytes]") -> "subprocess.Popen[bytes]":
        """The process, or another in the place of one that has died."""
        with self._hiring:
            if process.poll() is None or self._closing:
                return process
            self._all.remove(process)
            _end(process)
            self._all.append(_start())
            return self._all[-1]


@contextmanager
def readers(count: int) -> Iterator[Readers]:
    """Processes that read packages; none is left afterwards, however the work ended."""
    crew = Readers(count)
    try:
        yield crew
    finally:
        crew.close()


def _start() -> "subprocess.Popen[bytes]":
    # modules are found as they are found here, whatever folder this is run in
    places = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "attnrate.data.reader"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": places},
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Wait for a process that has been asked to end; one that does not is killed."""
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(BrokenPipeError):
        cast(IO[bytes], process.stdin).close()
    # its output is closed by the thread that reads it, or here when none does
    with suppress(ValueError, OSError):
        cast(IO[bytes], process.stdout).close()
