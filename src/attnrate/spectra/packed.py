"""Layers as named arrays and plain facts, for files and for other processes, and back again.

Arrays with the same content are kept once: layers often share a position bias, and without
held-out inputs the moments that cuts are made from are those of all inputs. Nothing that is read
back is trusted: names, types and shapes are checked against each other.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
import torch

from attnrate.spectra.cut import Cut
from attnrate.spectra.estimate import Gram
from attnrate.spectra.layer import LayerSpectra, Stage
from attnrate.words import GAUGES, Gauge

Array = np.ndarray
#: Plain values of JSON by name
Facts: TypeAlias = dict[str, Any]
_STAGES: tuple[Stage, ...] = ("logits", "plain")
_SIDES = ("query", "key")
_PLAIN: dict[str, Any] = {
    each.name: each.type for each in fields(LayerSpectra) if each.type in (str, int, float, bool)
}
_GRAM = tuple(each.name for each in fields(Gram))
_CUT = tuple(each.name for each in fields(Cut))
#: The least value of each whole number
_LEAST = {"number": 0, "heads": 1, "groups": 1, "m_h": 1, "m_v": 1, "run": 1}


class BrokenError(Exception):
    """Facts or arrays that do not make the layers of a model; the message says why."""


@dataclass
class Packed:
    """Arrays by name, each content once.

    Attributes:
        arrays: The arrays that are kept.
        same: The names of other arrays, each with the name of the one that has its content.

    """

    arrays: dict[str, Array] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)

    def put(self, name: str, array: Array) -> None:
        """Keep an array under a name."""
        whole = np.ascontiguousarray(array)
        content = whole.dtype.str, whole.shape, hashlib.sha256(whole.data).digest()
        if self._known.setdefault(content, name) == name:
            self.arrays[name] = whole
        else:
            self.same[name] = self._known[content]

    def layers(self, given: Iterable[LayerSpectra]) -> list[Facts]:
        """Keep the arrays of layers; return the facts that `unpack` needs beside them."""
        return [self._layer(str(place), layer) for place, layer in enumerate(given)]

    def _layer(self, place: str, layer: LayerSpectra) -> Facts:
        self.put(f"{place}.tokens", layer.tokens)
        for (stage, gauge), values in layer.sigma.items():
            self.put(f"{place}.sigma.{stage}.{gauge}", values)
        for stage, moments in layer.moments.items():
            for side, gram in zip(_SIDES, moments, strict=True):
                self._gram(f"{place}.moments.{stage}.{side}", gram)
        for side in _SIDES:
            self._gram(f"{place}.{side}", getattr(layer, side))
        for number, cut in enumerate(layer.cuts.values()):
            for part in _CUT:
                self.put(f"{place}.cuts.{number}.{part}", getattr(cut, part))
        if layer.bias is not None:
            self.put(f"{place}.bias", layer.bias)
        return {name: kind(getattr(layer, name)) for name, kind in _PLAIN.items()} | {
            "sigma": [list(key) for key in layer.sigma],
            "moments": list(layer.moments),
            "cuts": list(layer.cuts),
            "bias": layer.bias is not None,
        }

    def _gram(self, name: str, gram: Gram) -> None:
        for part in _GRAM:
            self.put(f"{name}.{part}", getattr(gram, part).cpu().numpy())


def unpack(facts: object, arrays: Mapping[str, Array]) -> tuple[LayerSpectra, ...]:
    """The layers that `Packed.layers` has kept.

    Args:
        facts: What `Packed.layers` returned, possibly by way of JSON.
        arrays: All arrays by name, `same` resolved.

    Returns:
        The layers, bit for bit.

    Raises:
        BrokenError: Something is missing, of another type or of another shape.

    """
    found = [
        _Reader(str(place), _table(each), arrays).layer()
        for place, each in enumerate(_list(facts, "layers"))
    ]
    for what in ("name", "number"):
        values = [getattr(layer, what) for layer in found]
        if len({*values}) < len(values):
            raise BrokenError(f"two layers have the same {what}")
    return tuple(found)


class _Reader:
    """One layer, read from its facts and arrays."""

    def __init__(self, place: str, facts: Facts, arrays: Mapping[str, Array]) -> None:
        self._place, self._facts, self._arrays = place, facts, arrays
        self._plain = {name: _plain(facts, name, kind) for name, kind in _PLAIN.items()}
        self.heads, self.groups = self._plain["heads"], self._plain["groups"]
        if self.heads % self.groups:
            raise BrokenError(f"{self.heads} heads cannot share {self.groups} key heads")

    def layer(self) -> LayerSpectra:
        tokens = self._array("tokens", "iu", (None,))
        if not len(tokens):
            raise BrokenError("a layer has no inputs")
        return LayerSpectra(
            **self._plain,
            tokens=tokens,
            sigma=self._sigma(len(tokens)),
            moments={
                stage: (
                    self._gram(f"moments.{stage}.query", self.heads),
                    self._gram(f"moments.{stage}.key", self.groups),
                )
                for stage in self._stages()
            },
            query=self._gram("query", self.heads),
            key=self._gram("key", self.groups),
            cuts=self._cuts(),
            bias=self._bias(),
        )

    def _stages(self) -> list[Stage]:
        given = _list(self._facts.get("moments"), "moments")
        found = [stage for stage in _STAGES if stage in given]
        if found[:1] != ["logits"] or len(found) != len(given):
            raise BrokenError("the stages of a layer are not known")
        return found

    def _sigma(self, inputs: int) -> dict[tuple[Stage, Gauge], Array]:
        given = [tuple(_list(key, "sigma")) for key in _list(self._facts.get("sigma"), "sigma")]
        wanted = [(stage, gauge) for stage in self._stages() for gauge in GAUGES]
        if given != wanted:
            raise BrokenError("the spectra of a layer are not those of its stages and gauges")
        sizes = self.heads, self._plain["m_h"]
        return {
            (stage, gauge): _finite(
                self._array(
                    f"sigma.{stage}.{gauge}",
                    "f",
                    (inputs if stage == "logits" else None, *sizes),
                )
            )
            for stage, gauge in wanted
        }

    def _gram(self, name: str, heads: int) -> Gram:
        size = self._plain["m_h"]
        shapes = {"spread": (heads, size, size), "mean": (heads, size), "count": (heads,)}
        arrays = {
            part: _finite(self._array(f"{name}.{part}", "d", shape))
            for part, shape in shapes.items()
        }
        if (arrays["count"] < 0).any():
            raise BrokenError("a number of vectors is negative")
        return Gram(**{part: torch.from_numpy(array) for part, array in arrays.items()})

    def _cuts(self) -> dict[float, Cut]:
        shares = _list(self._facts.get("cuts"), "cuts")
        if not all(isinstance(each, float) and 0 < each < 1 for each in shares):
            raise BrokenError("cuts are not at shares of the energy")
        if len({*shares}) < len(shares):
            raise BrokenError("two cuts are at the same share of the energy")
        return {share: self._cut(f"cuts.{number}") for number, share in enumerate(shares)}

    def _cut(self, name: str) -> Cut:
        ranks = self._array(f"{name}.ranks", "iu", (None, self.heads))
        others = (self._array(f"{name}.{part}", "f", ranks.shape) for part in _CUT[1:])
        return Cut(ranks, *others)

    def _bias(self) -> Array | None:
        there = _plain(self._facts, "bias", bool)
        return self._array("bias", "f", (self.heads, None, None)) if there else None

    def _array(self, name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
        """The array of that name; a BrokenError unless it has one of the kinds, and the shape."""
        found = self._arrays.get(f"{self._place}.{name}")
        if found is None:
            raise BrokenError(f"the array {self._place}.{name} is missing")
        fits = len(found.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, found.shape, strict=True)
        )
        if not fits or not (found.dtype.kind in kinds or found.dtype.char in kinds):
            said = f"{found.dtype} {found.shape}"
            raise BrokenError(f"the array {self._place}.{name} has another type or shape: {said}")
        return found


def _plain(facts: Facts, name: str, kind: Any) -> Any:
    """A value of that name and type, within its limits."""
    value: Any = facts.get(name)
    if type(value) is not kind:
        raise BrokenError(f"{name} is missing or of another type")
    if kind is int and value < _LEAST.get(name, 0):
        raise BrokenError(f"{name} is {value}")
    if kind is float and not math.isfinite(value):
        raise BrokenError(f"{name} is {value}")
    return value


def _finite(array: Array) -> Array:
    if not np.isfinite(array).all():
        raise BrokenError("some numbers are not finite")
    return array


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise BrokenError(f"{name} is missing or of another type")
    return value


def _table(value: object) -> Facts:
    if not isinstance(value, dict):
        raise BrokenError("a layer is missing or of another type")
    return value
