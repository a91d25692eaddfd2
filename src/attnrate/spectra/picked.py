"""The attention layers that a request names, by number or by name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from attnrate.errors import InputError, require_whole

Layers: TypeAlias = int | str | Iterable[int | str]
"""Attention layers of a model: one number or name, or several."""


def require_layers(name: str, value: object) -> Layers | None:
    """`value` itself; an InputError when it cannot be numbers or names of layers."""
    if value is None or isinstance(value, Iterable):
        return value
    return require_whole(name, value, 0)


@dataclass(frozen=True)
class Picked:
    """The layers that were asked for, by number or name; all of them if `asked` is None."""

    asked: tuple[int | str, ...] | None

    @classmethod
    def of(cls, layers: Layers | None) -> "Picked":
        """The layers of a request; an InputError for one that names none, or no number."""
        if layers is None:
            return cls(None)
        asked = (layers,) if isinstance(layers, str | int) else tuple(layers)
        if not asked:
            raise InputError("no layer was named", layers, "Name some, or leave layers out.")
        for layer in asked:
            if not isinstance(layer, str):
                require_whole("layers", layer, 0)
        return cls(asked)

    def has(self, number: int, name: str) -> bool:
        """Whether a layer is among those that were asked for."""
        return self.asked is None or number in self.asked or name in self.asked

    def check(self, names: Sequence[str]) -> None:
        """Raise an InputError when a layer that was asked for is not among those that ran."""
        for layer in self.asked or ():
            if isinstance(layer, str) and layer not in names:
                raise InputError("no layer has this name", layer, f"Known: {', '.join(names)}.")
            if not isinstance(layer, str):
                require_whole("layers", layer, 0, len(names) - 1)
