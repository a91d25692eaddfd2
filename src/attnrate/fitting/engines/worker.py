"""The program of a local worker: it reads one job per line from its parent and answers by a line.

It is started as `python -m attnrate.fitting.engines.worker FUNCTION`. The first line holds the
user's functions that it cannot import (see `ship.py`), as base64. The end of its input, which also
comes when the parent dies, ends it at once, even in the middle of a job.
"""

import base64
import os
import signal
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

from attnrate.fitting.engines import execute, load

READY = b"ready\n"


def main(function: str) -> None:
    """Answer jobs until the input ends."""
    # Ctrl-C reaches every process of the terminal; what it means is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _own_channels()
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    run = load(function, base64.b64decode(waiting.get()))
    _answer(replies, READY)
    while True:
        settings = waiting.get()
        _answer(replies, execute(run, settings.decode()).encode() + b"\n")


def _own_channels() -> tuple[BinaryIO, BinaryIO]:
    """Input and output for the parent only. What a job prints goes to the standard error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return requests, replies


def _listen(requests: BinaryIO, waiting: "SimpleQueue[bytes]") -> None:
    for line in requests:
        waiting.put(line)
    os._exit(0)


def _answer(replies: BinaryIO, line: bytes) -> None:
    try:
        replies.write(line)
        replies.flush()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
