"""The program that runs a package client for us, and ends it when we end, however that comes.

Started by its path, `python client.py COMMAND ...`, as it imports nothing of ours. The end of its
input is what the death of its parent looks like, also by kill -9; the client would otherwise go on
downloading for nobody.
"""

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

_PATIENCE = 5.0  # seconds to end in good order


def main(command: list[str]) -> int:
    """Run the client with nothing to read; its exit code."""
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
        # Ctrl-C reaches the client as well; what it means is its own and our parent's decision
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=watch, daemon=True).start()
        code = client.wait()
    return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
