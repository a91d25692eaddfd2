"""Files that are written whole or not at all, locks between processes, and safe file names."""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attnrate.errors import StoreError


class LockError(StoreError):
    """A lock file cannot be made."""


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A temporary file that takes the place of `path` when the context ends without an error.

    It lies in the same folder under a name of its own, so that two processes do not disturb each
    other. After an error it is deleted, and `path` is as before.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    os.close(handle)
    try:
        yield Path(name)
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; a StoreError if the disk is full or cannot be written."""
    try:
        with replaced(path) as beside:
            beside.write_bytes(data)
    except OSError as problem:
        raise StoreError(
            f"a file could not be written ({problem.strerror or problem})",
            path,
            "Make room, or check who may write there, and run the same command again.",
        ) from problem


@contextmanager
def alone(path: Path, wait: bool) -> Iterator[None]:
    """A lock that only one process holds at a time, by a lock file.

    Other processes wait, or get a StoreError if `wait` is false. The lock ends with the process,
    however that ends; the file stays and means nothing.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _require_no_link(path)
        lock.acquire(timeout=-1 if wait else 0)
    except (OSError, NotImplementedError) as problem:
        if isinstance(problem, Timeout):
            raise _at_work(path) from None
        said = getattr(problem, "strerror", None) or problem
        raise LockError(
            f"a lock could not be made ({said})", path, "Check who may write there, and make room."
        ) from problem
    try:
        yield
    finally:
        lock.release()


def _at_work(path: Path) -> StoreError:
    return StoreError(
        "another process is at work here", path.parent, "Let it end, or name another folder."
    )


def _require_no_link(path: Path) -> None:
    """Raise an OSError for a lock file that is a link.

    Some versions of filelock would empty the file that it leads to.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise OSError(errno.EEXIST, "there is a link, or something else that is no lock file")


def _umask() -> int:
    # The only way to ask for it is to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def safe_name(name: str) -> str:
    """The name with "-" in place of all characters that mean something in paths, URLs or HTML."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".") or "-"


def safe_names(names: Iterable[str]) -> list[str]:
    """Safe names that all differ, also in lower case; a name that is taken gets a number."""
    taken: set[str] = set()
    found = []
    for name in names:
        safe, count = safe_name(name), 1
        while safe.lower() in taken:
            count += 1
            safe = f"{safe_name(name)}-{count}"
        taken.add(safe.lower())
        found.append(safe)
    return found
