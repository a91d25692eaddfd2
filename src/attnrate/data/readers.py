"""Processes that read and clean packages while their parent fetches others.

Reading is work of Python itself (catalogues, patterns), so threads would wait for each other. Each
process is a new Python that runs this file. A process made by `fork` would inherit the locks of the
caller's threads, torch's among them; one that `multiprocessing` starts in another way would run the
user's script again, for which few scripts are written. A package is sent to a process as a line of
JSON; its pairs, or its error, come back as a line.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import IO, BinaryIO, cast

from attnrate.data.catalogues import messages
from attnrate.data.clean import Cleaned, cleaned
from attnrate.data.registry import ArchiveError, FetchError, Package, UnreachableError

_ERRORS = {kind.__name__: kind for kind in (FetchError, ArchiveError, UnreachableError)}
_GRACE = 5.0  # seconds that a process has to delete what it was writing


class Readers:
    """A fixed number of processes that each read one package at a time; to be closed after use."""

    def __init__(self, count: int) -> None:
        self._all = [_start() for _ in range(count)]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._all:
            self._idle.put(process)
        self._closing = False
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="reader")

    def read(self, package: Package) -> "Future[Cleaned]":
        """A future of the pairs of a package, or of the FetchError that reading it raises."""
        return self._threads.submit(self._ask, package)

    def close(self) -> None:
        """End every process, whatever it is doing."""
        self._closing = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in tuple(self._all):
            process.terminate()
        for process in tuple(self._all):
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._threads.shutdown()
        for process in self._all:
            with suppress(BrokenPipeError), process:
                pass  # waits for its end and closes its pipes

    def _ask(self, package: Package) -> Cleaned:
        process = self._idle.get()
        if process.poll() is not None:
            process = _start()
            self._all.append(process)
        if self._closing:  # set before this one could be seen
            process.terminate()
        try:
            with suppress(BrokenPipeError):  # a dead process is noticed below
                requests = cast(IO[bytes], process.stdin)
                requests.write(json.dumps(asdict(package)).encode() + b"\n")
                requests.flush()
            line = cast(IO[bytes], process.stdout).readline()
        finally:
            self._idle.put(process)
        if not line.endswith(b"\n"):
            code = process.wait()
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise FetchError(
                f"a process that was reading a package ended early ({how})",
                package.file,
                "Check that there is memory left, and run it again, perhaps with one worker.",
            )
        said = json.loads(line)
        if "error" in said:
            raise _ERRORS[said.pop("error")](**said)
        return Cleaned(said["messages"], [(english, german) for english, german in said["pairs"]])


def _start() -> "subprocess.Popen[bytes]":
    # modules are found where this process finds them, in whatever folder the new one runs
    places = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "attnrate.data.readers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": places},
    )


def main() -> None:
    """Answer requests until the input ends, as it also does when the parent dies.

    The process then ends at once, even in the middle of a package; what it was writing is deleted
    first.
    """
    # Ctrl-C reaches every process of the terminal, and the parent decides what it means
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to stderr, because stdout is for answers
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    # a dead parent reads no answers; os._exit, because the listening thread would delay a usual end
    with suppress(SystemExit, BrokenPipeError):
        while True:
            replies.write(_answer(waiting.get()) + b"\n")
            replies.flush()
    os._exit(0)


def _answer(request: bytes) -> bytes:
    try:
        said = asdict(cleaned(messages(Package(**json.loads(request)))))
    except FetchError as problem:
        said = {"error": type(problem).__name__} | asdict(problem) | {"file": str(problem.file)}
    return json.dumps(said).encode()


def _listen(requests: BinaryIO, waiting: "SimpleQueue[bytes]") -> None:
    for line in requests:
        waiting.put(line)
    if not hasattr(signal, "pthread_kill"):  # Windows
        os._exit(0)
    # the signal interrupts the working thread, whatever it waits for
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _leave(number: int, frame: object) -> None:
    """End the work in such a way that its temporary folder is deleted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main()
