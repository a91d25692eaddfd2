"""What is said to people on the way, beside the results."""

import sys


def say(message: str) -> None:
    """A message on stderr."""
    sys.stderr.write(f"attnrate: {message}\n")
    sys.stderr.flush()
