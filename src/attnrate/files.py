"""Files that are written whole or not at all, and places where one process works at a time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnrate.errors import StoreError


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of `path` at the end; on failure it is gone.

    It is beside its place, under a name of its own: two processes cannot spoil each other's.
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
    """Write the file as a whole; a disk that is full or may not be written is a StoreError."""
    try:
        with replaced(path) as beside:
            beside.write_bytes(data)
    except OSError as problem:
        raise StoreError(
            f"a file could not be written ({problem.strerror or problem})",
            path,
            "Make room, or see who may write there, and run the same again.",
        ) from problem


@contextmanager
def alone(path: Path, wait: bool) -> Iterator[None]:
    """Only one process at a time gets past a lock file; others wait, or are told with StoreError.

    The lock ends with the process, however that ends; the file stays and means nothing.
    """
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        raise StoreError(
            "another process is at work here", path.parent, "Let it end, or name another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _umask() -> int:
    # The only way to ask for it is to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
