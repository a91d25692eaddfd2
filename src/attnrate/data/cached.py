"""Opening what is in the cache, or making it when it is missing or broken."""

import gzip
import shutil
import zlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TypeVar

from attnrate.data.registry import FetchError, one_at_a_time, work_folder
from attnrate.progress import QUIET, Progress, say

T = TypeVar("T")


class OutdatedError(Exception):
    """Data in the cache should be made again, because they can be better now; says why."""


# the errors of a file that is broken or missing, unlike those of a failing disk or memory
_BROKEN = (FileNotFoundError, EOFError, ValueError, KeyError, zlib.error, gzip.BadGzipFile)


def opened_or_made(
    place: Path,
    open_it: Callable[[Path], T],
    fill: Callable[[Path], object],
    what: str,
    needed: int,
    lock: str | None = None,
) -> T:
    """Open data in the cache, after making them if they are missing, broken or outdated.

    Broken data are deleted, with a message. Outdated data are deleted when new ones are there.
    Reading needs no lock and no right to write.

    Args:
        place: The file or folder in the cache.
        open_it: Opens it. It raises an OutdatedError for data that should be made again.
        fill: Makes the file or folder at the path that it is given, which is moved to `place` when
            it is complete. It may put other files beside it; they are deleted afterwards.
        what: What the data are called in messages.
        needed: The number of bytes that all files take while the data are made.
        lock: The name of a lock, so that only one process makes the data and others wait for them.
            Folders need one.

    Returns:
        What `open_it` returns.

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
        with work_folder(needed) as work, Progress(f"making {what}", after=QUIET):
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
            "Nothing was deleted. Check that there is memory left and that the disk works.",
        ) from problem


def _delete(place: Path) -> None:
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
