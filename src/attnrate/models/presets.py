"""Settings of models for real data: a frozen dataclass by the name of a preset, and changes."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from attnrate.errors import InputError, require_choice, require_number, require_whole

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)
else:
    Settings = TypeVar("Settings")


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


def check_whole(values: Mapping[str, object], *names: str, least: int = 1) -> list[int]:
    """These settings, or an InputError for the first that is no whole number from `least` on."""
    return [require_whole(name, values[name], least) for name in names]


def check_share(values: Mapping[str, object], name: str) -> None:
    """An InputError unless the setting lies in [0, 1)."""
    number = require_number(name, values[name])
    if not 0 <= number < 1:
        raise InputError(f"{name} must be at least 0 and below 1", number, f"Pass {name}=0.1.")
