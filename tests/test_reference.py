"""Every public name: typed parameters, a docstring that stands by itself, a page, a run example.

The list of names is `src/attnrate/__init__.pyi`; each of its sections is a
page of docs/reference.
"""

import ast
import doctest
import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import griffe
import numpy.typing as npt
import pandas as pd
import pytest
from matplotlib.figure import Figure

import attnrate as ar
from attnrate.data import registry
from attnrate.figures.drawing import Drawing

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
ENTRY = re.compile(r"^::: attnrate\.(\w+)$", re.MULTILINE)
NAMES = [*ar.__all__]
CALLED = [
    name
    for name in NAMES
    if inspect.isroutine(getattr(ar, name)) or inspect.isclass(getattr(ar, name))
]
ERRORS = [
    name
    for name in CALLED
    if inspect.isclass(getattr(ar, name)) and issubclass(getattr(ar, name), BaseException)
]
EXPLAINED = [name for name in CALLED if name not in ERRORS]
#: Examples that train on downloaded data
ON_REAL_DATA = {
    *("train", "trained", "Trained", "photographs", "sentences"),
    *("model_weights", "sample_text", "sample_series"),
}
#: An error shows whatever it was given
ERROR_VALUES = {("InputError", "value")}
#: The rows of a store, which users receive and do not make, hold tables of plain JSON values
STORED = {("Finished", "settings"), ("Finished", "result"), ("Failed", "settings")}
#: What results name in their types and import for type checkers alone
FOR_CHECKERS = {
    **{"pd": pd, "Drawing": Drawing, "Figure": Figure},
    **{"Advice": ar.Advice, "Compressed": ar.Compressed},
}
#: What a docstring does not begin with: it leans on its neighbour, or says what a thing is not
LEANING = re.compile(r"^(The same|Likewise|As above|Also|Not |No longer|And |But )")
#: Words that a reader stumbles over
STUMBLING = re.compile(
    r"\b(unless told|is told|are told|tells? of|foretell|so many as|so manieth|of which the)\b"
)


def has_constructor(thing: type) -> bool:
    """Whether a class has a constructor of its own; Python gives protocols one that is none."""
    protocol = getattr(thing, "_is_protocol", False)
    return "__init__" in vars(thing) and not typing.is_typeddict(thing) and not protocol


def public_callables(name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A public function; of a public class its constructor and the methods that it adds."""
    thing = getattr(ar, name)
    if not inspect.isclass(thing):
        yield name, thing
        return
    if has_constructor(thing):
        yield name, thing.__init__
    for word, value in vars(thing).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if getattr(function, "__module__", "").startswith("matplotlib."):
            continue  # it puts a method `set` into every class that derives from its figures
        if inspect.isfunction(function) and (not word.startswith("_") or word == "__call__"):
            yield f"{name}.{word}", function


def untyped(annotation: Any) -> bool:
    """Whether an annotation lets everything pass, somewhere in it."""
    if annotation == npt.ArrayLike:
        return False
    if annotation in (Any, object, inspect.Parameter.empty):
        return True
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        return untyped(get_args(annotation)[0])
    if origin in (typing.Literal, None) or getattr(origin, "__module__", "") == "numpy":
        return False
    inner = get_args(annotation)
    if origin is not None and getattr(origin, "__name__", "") == "Callable" and len(inner) == 2:
        # the result of a listener is dropped, and a constructor may take anything
        inner = tuple(inner[0]) if isinstance(inner[0], list) else ()
    return any(untyped(one) for one in inner)


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters of a function with their types, without self."""
    hints = get_type_hints(inspect.unwrap(function), localns=FOR_CHECKERS, include_extras=True)
    names = [*inspect.signature(function).parameters]
    return {
        name: hints.get(name, inspect.Parameter.empty)
        for name in names
        if name not in ("self", "cls")
    }


def sections(text: str | None) -> dict[str, Any]:
    """The parts of a docstring in Google's convention, by their kind."""
    found = griffe.Docstring(inspect.cleandoc(text or "")).parse("google", warnings=False)
    return {part.kind.value: part.value for part in found}


def test_the_check_of_types_sees_what_lets_everything_pass() -> None:
    loose = [Any, object, list[Any], dict[str, object], int | Any, Callable[[object], int]]
    strict = [int, list[str], npt.ArrayLike, Callable[[int], object], typing.Literal["a"]]
    assert [untyped(one) for one in loose] == [True] * len(loose)
    assert [untyped(one) for one in strict] == [False] * len(strict)


@pytest.mark.parametrize("name", CALLED)
def test_no_public_parameter_lets_everything_pass(name: str) -> None:
    loose = [
        f"{place}({parameter})"
        for place, function in public_callables(name)
        for parameter, annotation in parameters(function).items()
        if untyped(annotation) and (name, parameter) not in ERROR_VALUES | STORED
    ]
    assert loose == []


def test_every_public_name_has_one_entry_in_the_reference() -> None:
    entries = [name for page in PAGES for name in ENTRY.findall(page.read_text("utf-8"))]
    assert sorted(entries) == sorted(NAMES)


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_docstring_names_arguments_and_result(name: str) -> None:
    thing = getattr(ar, name)
    found = sections(thing.__doc__)
    assert "text" in found, f"{name} has no docstring of its own"
    assert "examples" in found, f"{name} has no example (a section 'Examples:')"
    if inspect.isclass(thing):
        return
    documented = [one.name for one in found.get("parameters", [])]
    assert documented == [("*" * stars(thing, one)) + one for one in parameters(thing)], (
        f"the section 'Args:' of {name}"
    )
    if get_type_hints(inspect.unwrap(thing), localns=FOR_CHECKERS)["return"] is not type(None):
        assert "returns" in found, f"{name} has no section 'Returns:'"


def stars(function: Callable[..., Any], parameter: str) -> int:
    kind = inspect.signature(function).parameters[parameter].kind
    return {inspect.Parameter.VAR_POSITIONAL: 1, inspect.Parameter.VAR_KEYWORD: 2}.get(kind, 0)


@pytest.mark.parametrize("name", [name for name in EXPLAINED if inspect.isclass(getattr(ar, name))])
def test_a_class_explains_its_arguments_or_fields_and_its_methods(name: str) -> None:
    thing = getattr(ar, name)
    found = sections(thing.__doc__)
    kinds = ("parameters", "attributes")
    explained = {one.name.lstrip("*") for kind in kinds for one in found.get(kind, [])}
    fields = [one for one in getattr(thing, "__dataclass_fields__", {}) if not one.startswith("_")]
    made = [*parameters(thing.__init__)] if has_constructor(thing) else []
    asked = {one for one in (*fields, *made) if not one.startswith("_")}
    assert asked - explained == set(), f"missing in 'Args:' or 'Attributes:' of {name}"
    for place, function in public_callables(name):
        if function is thing.__init__ or place.endswith("__call__") or place.endswith(".forward"):
            continue
        of = sections(function.__doc__)
        assert "text" in of, f"{place} has no docstring"
        documented = [one.name.lstrip("*") for one in of.get("parameters", [])]
        assert documented == [*parameters(function)], f"the section 'Args:' of {place}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.realdata if name in ON_REAL_DATA else ())
        for name in EXPLAINED
    ],
)
def test_an_example_of_the_reference_gives_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lacking: list[str] = []

    def refused(package: registry.Package, work: Path) -> None:
        lacking.append(package.file)
        raise registry.UnreachableError("tests fetch nothing", package.file)

    monkeypatch.setattr(registry, "_run", refused)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    text = inspect.cleandoc(getattr(ar, name).__doc__ or "")
    test = doctest.DocTestParser().get_doctest(text, {"ar": ar}, name, None, 0)
    said: list[str] = []
    result = runner.run(test, out=said.append)
    if lacking:
        pytest.skip(f"{lacking[0]} is not in the cache, and tests fetch nothing")
    assert result.attempted > 0, f"{name} has no example"
    assert result.failed == 0, "".join(said)


@functools.cache
def docstrings() -> list[tuple[str, str]]:
    """Every docstring of the package with its place."""
    found = []
    for path in sorted((ROOT / "src" / "attnrate").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node)
                if text:
                    where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                    found.append((where, text))
    return found


def test_no_docstring_leans_on_its_neighbour() -> None:
    leaning = [f"{where}: {text[:60]}" for where, text in docstrings() if LEANING.match(text)]
    assert leaning == []


def test_no_docstring_has_a_word_that_readers_stumble_over() -> None:
    found = [f"{where}: {m.group()}" for where, t in docstrings() if (m := STUMBLING.search(t))]
    assert found == []
