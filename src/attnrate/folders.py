"""Output folders: new, empty, or marked as made by the same command; and filling them at once."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnrate.errors import InputError
from attnrate.files import replaced

MARK = "attnrate.json"
FORMAT = 1
#: How the names of unfinished files in an output folder begin
_LEFT = (".attnrate-", f".{MARK}.")
Mark = dict[str, Any]


def as_path(folder: object) -> Path:
    """The name of a folder as a path; an InputError for anything else."""
    if not isinstance(folder, str | os.PathLike) or not str(folder):
        raise InputError("the output must be the name of a folder", folder)
    return Path(folder)


def look_at(folder: object, command: str) -> tuple[Path, Mark | None]:
    """Find out whether a command may write into a folder; nothing is changed.

    Returns:
        The path, and the mark that an earlier run of the command has left there; None for a new or
        empty folder. A file, or a folder with something else in it, is an InputError.

    """
    place = as_path(folder)
    try:
        if not place.exists():
            return place, None
        if not place.is_dir():
            raise InputError("the output must be a folder, this is a file", str(place))
        # unfinished files of a killed run do not make the folder somebody else's
        held = any(not path.name.startswith(_LEFT) for path in place.iterdir())
        return place, read_mark(place, command) if held else None
    except OSError as problem:
        raise _refused(place, problem) from None


def read_mark(
    place: Path,
    command: str,
    way_out: str = "Name a new or empty folder, or one of an earlier run.",
) -> Mark:
    """The mark that a command has left in a folder; an InputError for any other folder."""
    try:
        mark = json.loads((place / MARK).read_text(encoding="utf-8"))
        ours = mark["made_by"] == f"attnrate {command}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        mark, ours = {}, False
    if not ours:
        raise InputError(
            f"this folder was not made by attnrate {command}, so nothing in it is touched",
            str(place),
            way_out,
        )
    if mark.get("format") != FORMAT:
        raise InputError(
            "this folder has another format", mark.get("format"), "Use that version of attnrate."
        )
    return dict(mark)


def write_mark(place: Path, command: str, more: Mapping[str, Any]) -> None:
    """Mark a folder as made by a command; the folder is made if it is not there."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        mark = {"made_by": f"attnrate {command}", "format": FORMAT, **more}
        with replaced(place / MARK) as beside:
            beside.write_text(json.dumps(mark) + "\n", encoding="utf-8")
    except OSError as problem:
        raise _refused(place, problem) from None


def make_folder(place: Path) -> None:
    """Make a folder and those above it, if they are not there."""
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _refused(place, problem) from None


@contextmanager
def filled_at_once(folder: object, command: str) -> Iterator[Path]:
    """A temporary folder to write into, whose files are moved to `folder` at the end.

    A new folder appears as a whole. In a folder that is there, files of the same names are replaced
    and others stay. If the writing fails, nothing is changed; if the moving fails, some of the
    earlier files may be gone.
    """
    place, _ = look_at(folder, command)
    try:
        near = next(each for each in (place.absolute(), *place.absolute().parents) if each.exists())
        with tempfile.TemporaryDirectory(prefix=".attnrate-", dir=near) as beside:
            fresh = Path(beside) / "new"
            write_mark(fresh, command, {})
            yield fresh
            if place.exists():
                _move(fresh, place, Path(beside))
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                fresh.rename(place)
    except OSError as problem:
        raise _refused(place, problem) from None


def _move(fresh: Path, place: Path, aside: Path) -> None:
    """Move the content of `fresh` into `place`; folders that it replaces are moved to `aside`."""
    for one in sorted(fresh.iterdir()):
        goal = place / one.name
        if goal.is_dir() and not goal.is_symlink():
            shutil.move(goal, aside / f"old-{one.name}")
        one.replace(goal)


def _refused(place: Path, problem: OSError) -> InputError:
    said = problem.strerror or str(problem)
    return InputError(f"the output folder cannot be made or written to ({said})", str(place))
