"""The program of a process that reads packages: a package a line, answered by its pairs on a line.

Started as `python -m attnrate.data.reader` by `readers.py`. The end of its input, which is also
what its parent's death looks like, ends it at once, even in the middle of a package; what it was
writing is taken away first.
"""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from queue import SimpleQueue
from typing import BinaryIO

from attnrate.data.catalogues import messages
from attnrate.data.clean import cleaned
from attnrate.data.registry import FetchError, Package


def main() -> None:
    """Answer packages until the input ends."""
    # Ctrl-C reaches every process of the terminal; what it means is the parent's decision
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    # a parent that is gone reads no answers; and the thread that listens would hold up a usual end
    with suppress(SystemExit, BrokenPipeError):
        while True:
            replies.write(answer(waiting.get()) + b"\n")
            replies.flush()
    os._exit(0)


def answer(request: bytes) -> bytes:
    """The pairs of a package, or the error that it came to; both sides are JSON on one line."""
    package = Package(**json.loads(request))
    try:
        said: dict[str, object] = asdict(cleaned(messages(package)))
    except FetchError as problem:
        told = {"what": problem.what, "file": str(problem.file), "remedy": problem.remedy}
        said = {"error": type(problem).__name__, **told}
    return json.dumps(said).encode()


def _listen(requests: BinaryIO, waiting: "SimpleQueue[bytes]") -> None:
    for line in requests:
        waiting.put(line)
    if not hasattr(signal, "pthread_kill"):  # Windows
        os._exit(0)
    # to the thread that works, whatever call it waits in
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _leave(number: int, frame: object) -> None:
    """Unwind the work, so that its folder is taken away; nothing is left to be said."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    main()
