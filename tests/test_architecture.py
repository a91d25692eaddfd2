"""The rules a reader relies on: who imports whom, and that the map shows what is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "attnrate"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The order of docs/architecture.md, with the rooms that are still to come.
ROOMS = [
    *(
        "errors",
        "files",
        "typed",
        "targets",
        "models",
        "theory",
        "fitting",
        "spectra",
        "data",
        "experiments",
    ),
    *("report", "cli"),
]
MOST_LINES = 450


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str) -> set[str]:
    """The rooms of attnrate that a module imports, anywhere in it; "" is the package itself."""
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written with the full name"
            module = node.module or ""
            below = module == "attnrate"
            imported |= {f"attnrate.{a.name}" for a in node.names} if below else {module}
    return {
        parts[1] if len(parts) > 1 else ""
        for parts in (name.split(".") for name in imported)
        if parts[0] == "attnrate"
    }


def drawn_files(page: str) -> list[str]:
    """The files of the drawing in docs/architecture.md, as paths below src/attnrate."""
    drawing = re.search(r"```\nsrc/attnrate/\n(.*?)```", page, re.DOTALL)
    assert drawing, "the page has lost its drawing"
    room, files = "", []
    for line in drawing.group(1).splitlines():
        if not line.strip():
            continue
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        if indent == 2:
            room = name if name.endswith("/") else ""
        if not name.endswith("/"):
            files.append(room + name)
    return files


def test_the_check_of_imports_sees_every_way_to_write_one() -> None:
    source = """
import attnrate.models.rnn as rnn
from attnrate.theory.pod import pod
from attnrate import fitting
import numpy.linalg, attnrate
def later():
    from attnrate.cli import main
"""
    assert imported_rooms(source) == {"models", "theory", "fitting", "", "cli"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    room, imported = room_of(path), imported_rooms(path.read_text(encoding="utf-8"))
    if room == "__init__":
        assert imported <= {*ROOMS}
    elif room == "cli":
        assert imported <= {"", *ROOMS}
    else:
        assert imported <= {*ROOMS[: ROOMS.index(room) + 1]}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_first_what_it_is_about_and_stays_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith('"""')
    assert ast.get_docstring(ast.parse(source))
    assert len(source.splitlines()) <= MOST_LINES


def test_the_drawing_shows_every_file_once_and_no_other() -> None:
    drawn = drawn_files((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    there = [
        name_of(path)
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert {*there} - {*drawn} == set(), "files that the drawing lacks"
    assert {*drawn} - {*there} == set(), "files that only the drawing has"
    assert len(drawn) == len(there)


def test_the_drawing_has_the_rooms_in_import_order() -> None:
    drawn = drawn_files((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    rooms = list(dict.fromkeys(name.split("/")[0].removesuffix(".py") for name in drawn))
    known = [room for room in rooms if room in ROOMS]
    assert known == sorted(known, key=ROOMS.index)
    assert {*rooms} - {*known} == {"__init__", "__init__.pyi", "py.typed"}
