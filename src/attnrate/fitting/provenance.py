"""The provenance of a result: versions, and the git commit that attnrate runs from."""

import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PATIENCE = 5.0  # seconds for git to answer
_PACKAGE = Path(__file__).resolve().parents[1]


def provenance() -> dict[str, str | bool | None]:
    """The versions of attnrate, torch and Python, and the git commit; found once per process.

    `git_changed` says whether files of the package differ from the commit. `git_commit` and
    `git_changed` are None when attnrate does not run from a git checkout, or when git is not
    installed or does not answer.
    """
    return dict(_found())


@functools.cache
def _found() -> dict[str, str | bool | None]:
    import torch

    commit, changed = _git_state(_PACKAGE)
    return {
        "attnrate": _version(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "git_commit": commit,
        "git_changed": changed,
    }


def _version() -> str | None:
    try:
        return version("attnrate")
    except PackageNotFoundError:  # run from a folder, without having been installed
        return None


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """The commit that is checked out, and whether any file in `folder` differs from it."""
    # A repository may merely contain the folder that attnrate was installed into.
    if _git(folder, "ls-files", "--error-unmatch", "--", "__init__.py") is None:
        return None, None
    said = _git(folder, "status", "--porcelain=v2", "--branch", "--", ".")
    lines = (said or "").splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    if not commits or commits[0] == "(initial)":
        return None, None
    return commits[0], any(not line.startswith("#") for line in lines)


def _git(folder: Path, *words: str) -> str | None:
    """The output of a git command in the folder; None when it fails."""
    # Within a git hook such variables name another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            # no hook for file changes: it could be any program
            ["git", "-c", "core.fsmonitor=false", *words],
            cwd=folder,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
