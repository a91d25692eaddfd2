"""Settings of models for real data: a frozen dataclass by the name of a preset, with changes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from attnrate.errors import InputError, require_choice, require_number
from attnrate.settings import by, changed

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


def preset_of(presets: Mapping[str, Settings]) -> Callable[[str, object], Settings]:
    """A check for `by` that takes settings, or the name of a preset for the preset's settings."""
    kind: Any = type(next(iter(presets.values())))

    def require(name: str, given: object) -> Settings:
        if isinstance(given, str):
            require_choice("preset", given, tuple(presets))
            return presets[given]
        if not isinstance(given, kind):
            raise InputError(
                f"{name} must be {kind.__name__} or a preset's name",
                given,
                f"Presets: {', '.join(presets)}.",
            )
        return given  # type: ignore[no-any-return]

    return require


def with_changes(
    given: Any, presets: Mapping[str, Settings], changes: Mapping[str, Any]
) -> Settings:
    """The settings, or those of the preset of that name, with some of them changed."""
    chosen: Settings = presets[given] if isinstance(given, str) else given
    return changed(chosen, changes, type(chosen).__name__)
