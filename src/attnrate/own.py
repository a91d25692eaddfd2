"""A user's own function or class as a kind: imported by "module:name", checked, known by its code.

    target.kind = "mymodule:my_target"

Such a word comes from settings that the user writes: a spec, NAME=VALUE, a call. Nothing is
imported because a store or a page names it.
"""

import ast
import functools
import hashlib
import inspect
import linecache
import symtable
import sys
import textwrap
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from attnrate.errors import InputError, hint, require_whole
from attnrate.settings import By, Number, Switch, by, checked

#: The hexadecimal digits of a fingerprint
_DIGITS = 12
#: The plain values that settings can hold, alone or in tables and lists
_PLAIN = (bool, int, float, str, type(None))
#: The sources of functions and classes as they were read first: what runs is that, whatever the
#: file holds now
_sources: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_EXAMPLE = "As def my_target(slope: float, length: int = 16) -> ar.Target."


def look_in(folder: str | Path) -> None:
    """Find modules in this folder too, after all other places.

    The folder joins `sys.path` for good, so that modules which are imported later, and the workers
    of a sweep, find their neighbours.

    Args:
        folder: The folder with the user's modules.

    """
    place = str(Path(folder).resolve())
    if place not in sys.path:
        sys.path.append(place)


@dataclass(frozen=True)
class _Asked:
    """A word "module:name" of the user's, and how messages speak of it.

    Attributes:
        called: The setting or option that holds the word.
        word: The word.
        example: How the setting or option is written.
        places: Where modules are looked for.

    """

    called: str
    word: str
    example: str
    places: str

    def refused(self, what: str, way_out: str) -> InputError:
        """The error of a word that cannot be used."""
        return InputError(f"{self.called}{what}", self.word, way_out)


def load(part: str, word: str, option: str | None = None) -> Callable[..., Any]:
    """Import the function or class that "module:name" stands for.

    Args:
        part: The table that names it, for messages: "target".
        word: The module's dotted name, a colon, the name in the module.
        option: The option of the command line that names it, instead of a table: "--adapter".

    Returns:
        The function or class. InputError if the module is not found or fails, or if it has no such
        function.

    """
    if option is None:
        example = f'{part}.kind = "mymodule:my_{part}"'
        asked = _Asked(f"{part}.kind", word, example, "the current folder or into that of the spec")
    else:
        example = f"{option} mymodule:My{part.title()}"
        asked = _Asked(option, word, example, "the current folder")
    module, _, name = word.partition(":")
    if not all(one.isidentifier() for one in (*module.split("."), *name.split("."))):
        what = " must be MODULE:NAME for a function or class of your own"
        raise asked.refused(what, f"As {asked.example}.")
    if module.endswith(".py"):
        way_out = f"Did you mean {module.removesuffix('.py')}:{name}?"
        raise asked.refused(" must name a module, without .py", way_out)
    with suppress(OSError):  # the current folder may have been removed
        look_in(Path.cwd())
    found = _module(asked, module)
    _require_not_hidden(asked, found)
    made: Any = found
    for step in name.split("."):
        made = getattr(made, step, None)
    if not callable(made):
        there = [one for one, value in vars(found).items() if _is_of(value, module)]
        place = getattr(found, "__file__", None) or module
        raise asked.refused(f": there is no function or class {name} in {place}", hint(name, there))
    return made  # type: ignore[no-any-return]


def _module(asked: _Asked, module: str) -> types.ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name and f"{module}.".startswith(f"{problem.name}."):
            file = f"{problem.name.replace('.', '/')}.py"
            raise asked.refused(
                f": there is no module {problem.name}",
                f"Put {file} into {asked.places}, or install it.",
            ) from None
        raise _failed(asked, module, problem) from problem
    except (Exception, SystemExit) as problem:
        raise _failed(asked, module, problem) from problem


def _require_not_hidden(asked: _Asked, found: types.ModuleType) -> None:
    """Raise an InputError if the current folder has a module of that name and another was found."""
    file = getattr(found, "__file__", None)
    here = Path(f"{found.__name__}.py")
    try:
        hidden = here.is_file() and (file is None or not here.samefile(file))
    except OSError:  # the current folder or the file may have been removed
        return
    if hidden:
        what = f": {here} of the current folder is hidden by another module, {file}"
        raise asked.refused(what, "Rename yours.")


def _failed(asked: _Asked, module: str, problem: BaseException) -> InputError:
    """What went wrong in the user's module when it was imported, with its line."""
    lines = [f for f in traceback.extract_tb(problem.__traceback__) if f.name == "<module>"]
    where = f", {lines[-1].filename}:{lines[-1].lineno}" if lines else ""
    said = "".join(traceback.format_exception_only(problem)).strip().splitlines()[-1]
    what = f": the module {module} fails when it is imported ({said}{where})"
    return asked.refused(what, f"Mend it; python -c 'import {module}' shows the whole error.")


def _is_of(value: object, module: str) -> bool:
    """Whether a value is a function or class that the module defines."""
    named = inspect.isfunction(value) or inspect.isclass(value)
    return named and getattr(value, "__module__", None) == module


def is_importable(made: Callable[..., Any]) -> bool:
    """Whether other processes find a function or class by the names of its module and itself."""
    found: Any = sys.modules.get(made.__module__)
    for step in made.__qualname__.split("."):
        found = getattr(found, step, None)
    return made.__module__ != "__main__" and found is made


def opened(
    called: str,
    made: Callable[..., Any],
    given: Collection[str],
    without: Collection[str],
    taken: Collection[str],
) -> Callable[..., Any]:
    """Make a user's function or class `checked`, so that a table of settings can call it.

    Where a parameter is simply an int, float, bool or str, its value must be of that type and
    finite; a whole number may stand for a float.

    Args:
        called: What messages call it: "target.kind = 'mymodule:ramp'".
        made: The function or class.
        given: Parameters that it must have and whose values its caller decides.
        without: Parameters that are no settings; these must have defaults.
        taken: Names that settings use for something else.

    Returns:
        A function with the same parameters, which are all checked. InputError if one has no type,
        or a type whose values cannot stand in settings.

    """
    signature, hints = _signature(called, made)
    for name in given:
        if name not in signature:
            example = ", ".join(f"{one}: int" for one in given)
            raise InputError(
                f"{called} must have the parameter {name}", [*signature], f"As ({example}, …)."
            )
    wanted: dict[str, Any] = {}
    for name, parameter in signature.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InputError(
                f"{called} must name its parameters, without * and /", str(parameter), _EXAMPLE
            )
        if name in taken:
            raise InputError(
                f"{called} has a parameter that settings use otherwise", name, "Rename it."
            )
        if name in given or (name in without and parameter.default is not parameter.empty):
            wanted[name] = Any
            continue
        if name not in hints:
            raise InputError(f"{called}: a parameter has no type", name, _EXAMPLE)
        wanted[name] = _from_plain(called, name, hints[name])
    if hasattr(made.__init__ if inspect.isclass(made) else made, "is_checked"):
        return made

    @functools.wraps(made, updated=())
    def make(*args: Any, **kwargs: Any) -> Any:
        return made(*args, **kwargs)

    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(annotation=wanted[name]) for name, parameter in signature.items()]
    )
    make.__annotations__ = wanted
    return checked(make)


def _signature(
    called: str, made: Callable[..., Any]
) -> tuple[Mapping[str, inspect.Parameter], dict[str, Any]]:
    """The parameters of a function or class, and their types."""
    try:
        signature = inspect.signature(made).parameters
        typed = made.__init__ if inspect.isclass(made) else made
        return signature, get_type_hints(inspect.unwrap(typed), include_extras=True)
    except (NameError, TypeError, ValueError) as problem:
        raise InputError(f"{called}: its types cannot be read", str(problem), _EXAMPLE) from None


def _from_plain(called: str, name: str, annotation: Any) -> Any:
    """The type with a check of ours for every int, float, bool and str in it."""
    strict = {int: _Whole, float: Number, bool: Switch, str: _Word}
    if annotation in strict:
        return strict[annotation]
    origin: Any = get_origin(annotation)
    inner = get_args(annotation)
    if annotation is type(None) or origin is Literal:
        return annotation
    if origin is Annotated and any(isinstance(one, By) for one in inner[1:]):
        return annotation
    if origin is Annotated:
        return Annotated[(_from_plain(called, name, inner[0]), *inner[1:])]
    if origin in (Union, types.UnionType):
        return Union[tuple(_from_plain(called, name, one) for one in inner)]  # noqa: UP007
    if inspect.isclass(origin) and issubclass(origin, (Sequence, Mapping)):
        parts = tuple(one if one is Ellipsis else _from_plain(called, name, one) for one in inner)
        generic: Any = origin
        return generic[parts]
    shown = inspect.formatannotation(annotation)
    raise InputError(
        f"{called}: settings cannot hold a value of the type of its parameter {name}",
        shown,
        "Use int, float, bool, str, Literal, and lists, tuples and dicts of them.",
    )


def _require_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        whole = isinstance(value, float) and value.is_integer()
        way_out = f"Write {name}={int(value)}." if whole else f"Pass {name}=1, for example."  # type: ignore[call-overload]
        raise InputError(f"{name} must be a whole number", value, way_out)
    return require_whole(name, value, -(2**63))


def _require_word(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be a word", value, f'Pass {name}="{value}".')
    return value


_Whole = Annotated[int, by(_require_integer)]
_Word = Annotated[str, by(_require_word)]


def fingerprint(called: str, made: Callable[..., Any]) -> str:
    """Twelve hexadecimal digits that change with the code of a function or class.

    They are a hash of its source and of the functions, classes and plain values that it uses of its
    own module, or of its notebook, directly or through each other. What it uses of other modules
    does not count.

    Args:
        called: What messages call it: "target.kind = 'mymodule:ramp'".
        made: The function or class.

    Returns:
        The digits. InputError if the source cannot be read.

    """
    sources: dict[str, str] = {}
    _gather(called, inspect.unwrap(made), sources)
    text = "\0".join(f"{name}\0{sources[name]}" for name in sorted(sources))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _gather(called: str, thing: Any, sources: dict[str, str]) -> None:
    """Add the source of a function or class, and what it uses of its module, to `sources`."""
    if thing.__qualname__ in sources:
        return
    try:
        source = _sources.get(thing) or textwrap.dedent(_source(thing))
    except (OSError, TypeError):
        raise InputError(
            f"{called}: its source cannot be read, so a later edit would go unnoticed",
            thing.__qualname__,
            "Write it in a file or in a cell of a notebook.",
        ) from None
    sources[thing.__qualname__] = _sources[thing] = source
    scope = _scope(thing)
    for name in sorted(_names(source) & {*scope}):
        value = scope[name]
        inner = inspect.unwrap(value) if callable(value) else value
        if _is_of(inner, thing.__module__):
            _gather(called, inner, sources)
        elif isinstance(value, _PLAIN) or (isinstance(value, tuple | list) and _all_plain(value)):
            sources[name] = repr(value)


def _source(thing: Any) -> str:
    """The source of a function or class; OSError or TypeError if it cannot be read.

    Python finds no source of a class in a notebook; it stands around the code of its methods.
    """
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        codes = [v.__code__ for v in vars(thing).values() if inspect.isfunction(v)]
        if not inspect.isclass(thing) or not codes:
            raise
    text = "".join(linecache.getlines(codes[0].co_filename))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.ClassDef)
            and node.name == thing.__name__
            and node.lineno <= codes[0].co_firstlineno <= (node.end_lineno or 0)
        ):
            return ast.get_source_segment(text, node) or ""
    raise OSError(f"no source of {thing.__qualname__}")


def _all_plain(values: Sequence[Any]) -> bool:
    return all(isinstance(one, _PLAIN) for one in values)


def _scope(thing: Any) -> dict[str, Any]:
    """The names that the code of a function or class can see."""
    if not inspect.isfunction(thing):
        return vars(sys.modules[thing.__module__])
    return {**thing.__globals__, **inspect.getclosurevars(thing).nonlocals}


@functools.lru_cache(maxsize=256)
def _names(source: str) -> set[str]:
    """The names that a piece of source takes from around it, not its parameters and variables.

    Those of a lambda in the middle of a call are left out.
    """
    try:
        tree = ast.parse(source)
        return {*_taken(symtable.symtable(source, "<source>", "exec"))}
    except SyntaxError as problem:
        if "nonlocal" not in str(problem):
            return set()
    # a function within another one, whose variables it sets: all names, rather than too few
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _taken(table: symtable.SymbolTable) -> Iterator[str]:
    """The names that a block and the blocks within it take from around the source."""
    inner = table.get_type() == "function"
    for symbol in table.get_symbols():
        if symbol.is_global() if inner else symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _taken(child)
