"""What the cache holds, opened; or made, when it is not there or broken."""

import gzip
import shutil
import zlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from attnrate.data.registry import FetchError, one_at_a_time, work_folder
from attnrate.terminal import say

T = TypeVar("T")


class OutdatedError(Exception):
    """What is in the cache can be made better now; the message says why."""


# what a file that is broken or missing raises, unlike a disk or a memory that fails
_BROKEN = (FileNotFoundError, EOFError, ValueError, KeyError, zlib.error, gzip.BadGzipFile)


def opened_or_made(
    place: Path,
    open_it: Callable[[Path], T],
    fill: Callable[[Path], object],
    what: str,
    needed: int,
    lock: str | None = None,
) -> T:
    """What `open_it` makes of `place`, after `fill` has made it when it was missing or broken.

    `fill` gets a path for the file or folder, which is moved to `place` when it is complete. The
    path is in a folder that may hold other files on the way and is gone afterwards; `needed` are
    the bytes that all of them take. What is broken is deleted, and said; what is outdated when its
    successor is there. With `lock`, which folders need, only one process makes it, and the others
    find it made; one that only reads needs no lock, and no leave to write.
    """
    with suppress(OutdatedError):
        found = _opened(place, open_it, what, delete=lock is None)
        if found is not None:
            return found
    with one_at_a_time(lock) if lock else nullcontext():
        before = place.with_name(f"{place.name}-before")
        if before.exists() and not place.exists():  # a run that was making it anew was killed
            before.replace(place)
        try:
            found = _opened(place, open_it, what, delete=True)
            if found is not None:
                return found
        except OutdatedError as problem:
            say(f"{what} in the cache {problem} and is made again")
        with work_folder(needed) as work:
            fill(work / place.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            _delete(before)
            if lock and place.exists():
                place.replace(before)
            (work / place.name).replace(place)
            _delete(before)
    return open_it(place)


def _opened(place: Path, open_it: Callable[[Path], T], what: str, delete: bool) -> T | None:
    if not place.exists():
        return None
    try:
        return open_it(place)
    except _BROKEN:
        if delete:
            _delete(place)
            say(f"{what} in the cache was corrupt and has been deleted")
        return None
    except OSError as problem:
        raise FetchError(
            f"{what} in the cache cannot be read ({problem.strerror or problem})",
            place,
            "Nothing was deleted; see that there is memory, and that the disk works.",
        ) from problem


def _delete(place: Path) -> None:
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
