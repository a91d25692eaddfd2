"""Settings of models for real data: a frozen dataclass by the name of a preset, and changes."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from attnrate.errors import InputError, require_choice, require_number
from attnrate.settings import by

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Settings = TypeVar("Settings", bound=DataclassInstance)
else:
    Settings = TypeVar("Settings")


def require_share(name: str, value: object) -> float:
    """`value` as a float, or an InputError unless it lies in [0, 1)."""
    number = require_number(name, value)
    if not 0 <= number < 1:
        raise InputError(f"{name} must be at least 0 and below 1", number, f"Pass {name}=0.1.")
    return number


#: Numbers from 0 on, below 1
Share = Annotated[float, by(require_share)]


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
    return replace(given, **changes)  # type: ignore[no-any-return]
