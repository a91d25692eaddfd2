"""A program that runs a package client, and ends it when its parent process ends, however.

It is started by its path, `python client.py COMMAND ...`, and imports nothing of attnrate. When its
parent dies, even by kill -9, its input ends; it then ends the client, which would otherwise go on
downloading for nobody.
"""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

_PATIENCE = 5.0  # seconds that the client has to end by itself


def main(command: list[str]) -> int:
    """Run the client with an empty input, and return its exit code."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as client:

        def end(number: int = 0, frame: FrameType | None = None) -> None:
            client.terminate()

        def watch() -> None:
            while os.read(0, 1024):
                pass
            end()
            try:
                client.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                client.kill()

        signal.signal(signal.SIGTERM, end)
        # Ctrl-C reaches the client and the parent as well, and they decide what it means
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=watch, daemon=True).start()
        code = client.wait()
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
