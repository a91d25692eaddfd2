"""The rules a reader relies on: who imports whom, and that the map shows what is there."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "attnrate"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The order of docs/architecture.md, with the rooms that are still to come.
ROOMS = [
    *(
        "errors",
        "extras",
        "found",
        "readable",
        "settings",
        "own",
        "kinds",
        "words",
        "shown",
        "calling",
        "typed",
        "files",
        "folders",
        "statistics",
        "progress",
        "figures",
        "pages",
    ),
    *(
        "targets",
        "models",
        "data",
        "theory",
        "fitting",
        "training",
        "spectra",
        "compress",
        "choose",
    ),
    *("experiments", "report", "reproduction", "cli"),
]
#: A file has one subject; an experiment, told from top to bottom, may be longer
MOST_LINES, MOST_LINES_OF_AN_EXPERIMENT = 450, 650


#: The one door from a room to what is built on it, opened when it is used: advice to a cut model
DOORS = {"spectra/below.py": {"compress"}}


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


def drawn_rooms(page: str) -> list[str]:
    """The rooms of the drawing in docs/architecture.md, in its order."""
    drawing = re.search(r"```\nsrc/attnrate/\n(.*?)```", page, re.DOTALL)
    assert drawing, "the page has lost its drawing"
    lines = [line for line in drawing.group(1).splitlines() if line.startswith("  ")]
    files = [name.strip().removesuffix(".py") for name in lines[0].split("   ")[0].split(",")]
    return files + [line.split()[0].rstrip("/").removesuffix(".py") for line in lines[1:]]


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
        assert imported - DOORS.get(name_of(path), set()) <= {*ROOMS[: ROOMS.index(room) + 1]}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_first_what_it_is_about_and_stays_short(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.startswith('"""')
    assert ast.get_docstring(ast.parse(source))
    most = MOST_LINES_OF_AN_EXPERIMENT if "paper" in path.parts else MOST_LINES
    assert len(source.splitlines()) <= most


def test_the_drawing_has_the_rooms_in_import_order_and_no_other() -> None:
    drawn = drawn_rooms((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert drawn == ROOMS
    there = {
        path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name[0] not in "_."
    }
    assert there - {"__init__.pyi", "py.typed"} == {*ROOMS}


@pytest.mark.parametrize("room", [room for room in ROOMS if (PACKAGE / room).is_dir()])
def test_a_room_says_what_is_in_it(room: str) -> None:
    assert ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8")))


def named_functions(page: str) -> list[str]:
    """What the journeys name as code: `room.file.thing`, or `file.thing` within the last room."""
    journeys = page.partition("## The journeys")[2].partition("\n## ")[0]
    return sorted({name for name in re.findall(r"`([A-Za-z_.]+)`", journeys) if "." in name})


def resolves(name: str) -> bool:
    """Whether the name is that of a module, or of something in one, seen from any room."""
    for start in ("attnrate", *(f"attnrate.{room}" for room in ROOMS)):
        path, found = start.split("."), None
        try:
            found = import_module(start)
            for part in name.split("."):
                path.append(part)
                if not hasattr(found, part):
                    import_module(".".join(path))
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return True
    return False


PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", named_functions(PAGE))
def test_the_journeys_pass_functions_that_are_there(name: str) -> None:
    assert resolves(name)
    assert not resolves(f"{name}_gone")
