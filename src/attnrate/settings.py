"""Settings: parameters whose types say what they take, for Python, NAME=VALUE and TOML alike.

The signature of a `checked` function or dataclass is the one place where its settings are defined:
their names, types, limits and defaults. A wrong value is an InputError that names the setting, the
value and the way out. `Kinds` opens such functions to tables of settings, by a word:

    @TARGETS.add("ramp")
    @checked
    def ramp(slope: Positive, length: Count = 16) -> Target: ...

    TARGETS.make({"kind": "ramp", "slope": 2.0})
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import ConfigDict, PlainValidator, ValidationError, validate_call

from attnrate.errors import InputError, hint, require_number, require_whole
from attnrate.found import modules_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)
else:
    D = TypeVar("D")

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=Callable[..., Any])
M = TypeVar("M", bound=Callable[..., Any])
#: What the names of settings begin with in messages of the call that is checked now, and of the
#: next one: "target." where a table of settings is behind it
_within: ContextVar[str] = ContextVar("within", default="")
_next_within: ContextVar[str] = ContextVar("next_within", default="")
#: A table of settings by name, as plain values
Table = Mapping[str, Any]


def by(require: Callable[..., object], *limits: object) -> PlainValidator:
    """What `require(name, value, *limits)` makes of a value, as part of an annotated type."""

    # pydantic gives a ValidationInfo, whose type cannot be checked at run time
    def check(value: object, info: Any) -> object:
        return require(_within.get() + info.field_name, value, *limits)

    return PlainValidator(check)


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
    """The function, called only with what the types of its parameters allow.

    Args:
        function: Any function; its annotations are checked by pydantic.
        within: What the names of its parameters begin with in messages, as "recipe.".

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
        given = signature.bind(*args, **kwargs).arguments
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
    return call


def checked_fields(within: str = "") -> Callable[[type[D]], type[D]]:
    """Make the constructor of a dataclass `checked`."""

    def mark(kind: type[D]) -> type[D]:
        kind.__init__ = checked(kind.__init__, within)  # type: ignore[method-assign]
        return kind

    return mark


def _input_error(
    problem: ValidationError, given: Mapping[str, Any], function: Callable[..., Any], within: str
) -> InputError:
    """The first thing that pydantic found wrong, in our words."""
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
    shown = getattr(wanted, "__name__", str(wanted))
    return InputError(f"{within}{name} must be {shown}", given[name], found[0]["msg"] + ".")


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
        besides: Names that may stand among the settings and are somebody else's.
        why: What the message adds of a name that is not known.

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
            raise InputError(f"{part}.{name} is missing", dict(settings), f"Set {part}.{name}.")
    return {name: settings.get(name, default) for name, default in known.items()}


def changed(base: D, changes: Table, part: str) -> D:
    """A dataclass with some of its fields changed; InputError for a field that it does not have.

    Lists become tuples, since JSON has no tuples, and what is frozen should hold no lists.
    """
    _require_known(part, changes, [field.name for field in fields(base)])
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in changes.items()}
    return replace(base, **plain)


def _require_known(part: str, settings: Table, known: Collection[str], why: str = "") -> None:
    for name, value in settings.items():
        if name not in known:
            raise InputError(f"{part}.{name} is not known{why}", value, hint(name, known))


class Kinds(Generic[C]):
    """The functions or classes of one room that tables of settings can name, by their `kind`.

    They are found by being there: each file of the room adds its own, which must be `checked`.

    Args:
        part: What the tables are called: "target", "model".
        room: The package whose files have them.
        without: Parameters that are no settings, because they are no plain values or because
            whoever makes the thing decides them.
        besides: Names that the tables of all kinds may have and that are no parameters.

    """

    def __init__(
        self, part: str, room: str, without: Collection[str], besides: Collection[str] = ()
    ) -> None:
        self._part, self._room = part, room
        self._without, self._besides = without, ("kind", *besides)
        self._known: dict[str, C] = {}

    def add(self, kind: str) -> Callable[[M], M]:
        """Mark a function or class as the one that settings call `kind`; no two may have it."""

        def mark(made: M) -> M:
            called = vars(made).get("__init__", made)
            if not hasattr(called, "is_checked"):
                raise TypeError(f"{made.__qualname__}, {self._part}.kind = {kind!r}: not @checked")
            other = self._known.get(kind)
            if other is not None and other.__module__ != made.__module__:
                places = f"{other.__module__} and {made.__module__}"
                raise TypeError(f"{self._part}.kind = {kind!r} is taken: {places}")
            self._known[kind] = made  # type: ignore[assignment]
            return made

        return mark

    def of(self, settings: Table) -> C:
        """The function or class that the settings name; InputError if there is none."""
        kind, known = settings.get("kind"), self._found
        if not isinstance(kind, str) or kind not in known:
            what = f"{self._part}.kind is " + ("missing" if kind is None else "not known")
            raise InputError(what, kind, hint(str(kind), known))
        return known[kind]

    def complete(self, settings: Table) -> dict[str, Any]:
        """The settings with the defaults of their kind filled in."""
        why = f" for {self._part}.kind = {settings.get('kind')!r}"
        made = self.of(settings)
        full = filled(self._part, settings, made, self._without, self._besides, why)
        return {"kind": settings["kind"], **full}

    def make(self, settings: Table, *args: Any) -> Any:
        """What the kind makes of its settings, after `args`."""
        given = {name: v for name, v in settings.items() if name not in self._besides}
        made = self.of(settings)
        token = _next_within.set(f"{self._part}.")
        try:
            return made(*args, **given)
        finally:
            _next_within.reset(token)

    @functools.cached_property
    def _found(self) -> dict[str, C]:
        modules_of(self._room)
        return self._known
