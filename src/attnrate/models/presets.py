"""Settings of models for real data: a frozen dataclass by the name of a preset, and changes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from attnrate.errors import InputError, require_choice, require_number, require_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)
else:
    Settings = TypeVar("Settings")


@dataclass(frozen=True)
class CheckedSettings:
    """Settings that are checked by their types when they are made, and before by `as_settings`.

    Whole numbers are at least 1, those of `from_zero` at least 0; floats lie in [0, 1).
    """

    from_zero: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self.check(vars(self))

    @classmethod
    def check(cls, values: Mapping[str, object]) -> None:
        """An InputError for the first setting that cannot be."""
        kinds = get_type_hints(cls)
        for each in fields(cls):
            name, kind, value = each.name, kinds[each.name], values[each.name]
            if get_origin(kind) is Literal:
                require_choice(name, value, get_args(kind))
            elif kind is int or (kind == int | None and value is not None):
                require_whole(name, value, 0 if name in cls.from_zero else 1)
            elif kind is float and not 0 <= (number := require_number(name, value)) < 1:
                remedy = f"Pass {name}=0.1."
                raise InputError(f"{name} must be at least 0 and below 1", number, remedy)


def as_settings(
    presets: Mapping[str, Settings], given: object, changes: Mapping[str, object]
) -> Settings:
    """Settings from a preset's name or from themselves, with some of them changed."""
    kind: Any = type(next(iter(presets.values())))
    if isinstance(given, str):
        require_choice("preset", given, tuple(presets))
        given = presets[given]
    if not isinstance(given, kind):
        raise InputError(
            f"settings must be {kind.__name__} or a preset's name",
            given,
            f"Presets: {', '.join(presets)}.",
        )
    known = {each.name for each in fields(kind)}
    for name, value in changes.items():
        if name not in known:
            raise InputError(
                f"{kind.__name__} has no setting {name!r}", value, f"It has {sorted(known)}."
            )
    plain = {name: _plain(value) for name, value in changes.items()}
    # before the class itself sees them, so that a value of a wrong type is told in our own words
    kind.check({each.name: getattr(given, each.name) for each in fields(kind)} | plain)
    return replace(given, **plain)  # type: ignore[no-any-return]


def _plain(value: object) -> object:
    """What can be compared and written to JSON: a tuple for a list, an int for one of NumPy's."""
    if isinstance(value, list):
        return tuple(value)
    if hasattr(value, "__index__") and not isinstance(value, bool):
        return int(value.__index__())
    return value
