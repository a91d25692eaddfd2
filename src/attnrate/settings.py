"""Settings: parameters whose types say what they take, for Python, NAME=VALUE and TOML alike.

The signature of a `checked` function or dataclass is the one place where its settings are defined:
their names, types, limits and defaults. A wrong value is an InputError that names the setting, the
value and the way out. `kinds.py` opens such functions to tables of settings.
"""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, PlainValidator, ValidationError, validate_call

from attnrate.errors import InputError, hint, require_number, require_whole
from attnrate.readable import readable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)
else:
    D = TypeVar("D")

P = ParamSpec("P")
R = TypeVar("R")
#: What the names of settings begin with in messages of the call that is checked now, and of the
#: next one: "target." where a table of settings is behind it
_within: ContextVar[str] = ContextVar("within", default="")
_next_within: ContextVar[str] = ContextVar("next_within", default="")
#: The longest description of a type in the remedy of a missing setting
_SHORT = 60
#: A table of settings by name, as plain values
Table = Mapping[str, Any]
Scalar: TypeAlias = str | float | int | bool | None
Setting: TypeAlias = (
    Scalar | Sequence[Scalar] | Sequence[Sequence[Scalar]] | Mapping[str, Scalar | Sequence[Scalar]]
)
"""The value of one setting: a number, a word, True or False, or a list or table of these."""
Settings: TypeAlias = Mapping[str, Setting | Callable[..., object]]
"""A table of settings by name, as `build_target`, `build_model` and sweeps take them.

The value of a setting is a number, a word, True or False, None, or a list or table of these. `kind`
may also be a function or class of your own. Type checkers need the name where a table is kept in a
variable: `settings: ar.Settings = {"kind": "spectral", "alpha": 1.0, "rank": 3}`.
"""


class By(PlainValidator):
    """A check of a value as part of an annotated type; `by` makes it.

    Args:
        require: A function of the parameter's name, the value and the limits.
        limits: Further arguments of the function.

    """

    def __init__(self, require: Callable[..., object], limits: tuple[object, ...]) -> None:
        # pydantic gives a ValidationInfo, whose type cannot be checked at run time
        def check(value: object, info: Any) -> object:
            return require(_within.get() + info.field_name, value, *limits)

        super().__init__(check)
        named = ", ".join([require.__name__.lstrip("_"), *map(repr, limits)])
        object.__setattr__(self, "_shown", f"by({named})")

    def __repr__(self) -> str:
        return str(vars(self)["_shown"])


def by(require: Callable[..., object], *limits: object) -> By:
    """The check of an annotated type: a value becomes `require(name, value, *limits)`.

    Args:
        require: A function of the parameter's name, the value and the limits. It gives the value
            that the checked function receives, or raises InputError.
        *limits: Further arguments of the function.

    Returns:
        A mark for `Annotated`: Annotated[int, by(require_whole, 1)].

    """
    return By(require, limits)


def _require_switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        way_out = "Pass True or False (true or false in TOML)."
        raise InputError(f"{name} must be True or False", value, way_out)
    return value


#: Whole numbers from 1 on, and from 0 on
Count = Annotated[int, by(require_whole, 1)]
Natural = Annotated[int, by(require_whole, 0)]
#: Finite numbers: any, and those greater than 0
Number = Annotated[float, by(require_number)]
Positive = Annotated[float, by(require_number, 0.0)]
#: True or False, and no number that could stand for them
Switch = Annotated[bool, by(_require_switch)]


def checked(function: Callable[P, R], within: str = "") -> Callable[P, R]:
    """Make a function that refuses what the types of its parameters do not allow.

    Args:
        function: Any function; its annotations are checked by pydantic.
        within: A prefix for the names of its parameters in messages, as "recipe.".

    Returns:
        A function of the same signature. It raises InputError for a wrong value, and TypeError
        for arguments that are missing or too many, as Python does.

    """
    signature = inspect.signature(function)
    # not before the first call, because some types are made below the functions that name them
    valid = functools.cache(
        lambda: validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)
    )

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            raise TypeError(_misfit(function, signature, args, kwargs)) from None
        prefix = within or _next_within.get()
        tokens = _within.set(prefix), _next_within.set("")
        try:
            return valid()(*args, **kwargs)
        except ValidationError as problem:
            raise _input_error(problem, given, function, prefix) from None
        finally:
            _within.reset(tokens[0])
            _next_within.reset(tokens[1])

    call.is_checked = True  # type: ignore[attr-defined]
    call.__signature__ = readable(function, signature)  # type: ignore[attr-defined]
    return call


@contextmanager
def names_within(prefix: str) -> Iterator[None]:
    """Let the messages of the next `checked` call name its parameters with a prefix, "target."."""
    token = _next_within.set(prefix)
    try:
        yield
    finally:
        _next_within.reset(token)


def checked_fields(within: str = "") -> Callable[[type[D]], type[D]]:
    """Make the constructor of a dataclass `checked`."""

    def mark(kind: type[D]) -> type[D]:
        kind.__init__ = checked(kind.__init__, within)  # type: ignore[method-assign]
        return kind

    return mark


def _input_error(
    problem: ValidationError, given: Mapping[str, Any], function: Callable[..., Any], within: str
) -> InputError:
    """The first fault that pydantic found, as an InputError."""
    found = problem.errors(include_url=False)
    place = found[0]["loc"][0]
    name = [*given][place] if isinstance(place, int) else place
    for one in found:
        ours = one.get("ctx", {}).get("error")
        if one["loc"][0] == place and isinstance(ours, InputError):
            return ours
    wanted = get_type_hints(function)[name]
    choices = _choices(wanted)
    if choices:
        listed = ", ".join(map(repr, choices))
        return InputError(f"{within}{name} is not known", given[name], f"Choose one of {listed}.")
    shown = in_words(wanted)
    return InputError(f"{within}{name} must be {shown}", given[name], f"Pass {shown}.")


def in_words(wanted: Any) -> str:
    """A type in words, as "a function or None"."""
    plain = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    if wanted in (None, type(None)):
        return "None"
    if wanted in plain:
        return plain[wanted]
    origin: Any = get_origin(wanted)
    if origin is Annotated:
        return in_words(get_args(wanted)[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, get_args(wanted))))
    if origin is Literal:
        return " or ".join(map(repr, get_args(wanted)))
    if Callable in (wanted, origin):
        return "a function"
    if inspect.isclass(wanted) and origin is None:
        return f"{'an' if wanted.__name__[0] in 'AEIOU' else 'a'} {wanted.__name__}"
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(wanted))


def _misfit(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Table,
) -> str:
    """Why arguments do not fit a function: those that are missing, unknown or too many."""
    called = function.__qualname__.removesuffix(".__init__") + "()"
    own = [*signature.parameters.values()]
    known = [one.name for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    takes = [one.name for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]
    for name in kwargs:
        if name in takes[: len(args)]:
            return f"{called} got several values for the argument {name!r}"
        if name not in known:
            near = hint(name, [one for one in known if one != "self"])
            return f"{called} got an unexpected keyword argument {name!r}. {near}"
    if len(args) > len(takes):
        bound = takes[:1] == ["self"]
        most, got = len(takes) - bound, len(args) - bound
        return f"{called} takes at most {most} positional arguments but {got} were given"
    needed = [one.name for one in own if one.name in known and one.default is one.empty]
    lacking = [repr(n) for n in needed if n not in takes[: len(args)] and n not in kwargs]
    if len(lacking) == 1:
        return f"{called} is missing the required argument {lacking[0]}"
    listed = f"{', '.join(lacking[:-1])} and {lacking[-1]}"
    return f"{called} is missing {len(lacking)} required arguments: {listed}"


def _choices(wanted: Any) -> tuple[Any, ...]:
    """The words that a type allows, if it is a Literal or a union with one."""
    if get_origin(wanted) is Literal:
        return get_args(wanted)
    return tuple(word for part in get_args(wanted) for word in _choices(part))


def filled(
    part: str,
    settings: Table,
    function: Callable[..., Any],
    without: Collection[str] = (),
    besides: Collection[str] = (),
    why: str = "",
) -> dict[str, Any]:
    """The settings of a function with its defaults filled in, in the order of its parameters.

    Args:
        part: What the settings are of, for messages: "target.mix".
        settings: Values by name.
        function: Its parameters are what can be set.
        without: Parameters that are no settings.
        besides: Names that the settings may have and that are no parameters.
        why: What the message adds where a name is not known.

    Returns:
        A value for every parameter. InputError for a name that the function does not have, and
        for one that is missing.

    """
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in without
    }
    _require_known(part, settings, [*known, *besides], why)
    for name, default in known.items():
        if default is inspect.Parameter.empty and name not in settings:
            kind = in_words(get_type_hints(inspect.unwrap(function)).get(name, Any))
            to = f" to {kind}" if kind != "Any" and len(kind) < _SHORT else ""
            raise InputError(f"{part}.{name} is missing", dict(settings), f"Set {part}.{name}{to}.")
    return {name: settings.get(name, default) for name, default in known.items()}


def changed(base: D, changes: Table, part: str) -> D:
    """Copy a dataclass with some of its fields changed.

    Lists become tuples, since JSON has no tuples, and what is frozen should hold no lists.

    Args:
        base: The dataclass.
        changes: New values by name.
        part: What messages call the dataclass: "recipe".

    Returns:
        The copy. InputError for a field that it does not have.

    """
    _require_known(part, changes, [field.name for field in fields(base)])
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in changes.items()}
    return replace(base, **plain)


def _require_known(part: str, settings: Table, known: Collection[str], why: str = "") -> None:
    for name, value in settings.items():
        if name not in known:
            raise InputError(f"{part}.{name} is not known{why}", value, hint(name, known))
