"""From the queries and keys of some forward passes to the numbers of a step, head by head."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from attnrate.spectra.capture import Call, Kept, Site
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.measures import SHARES, rank_of, stable_rank, tails
from attnrate.words import Gauge

Tensor = torch.Tensor
Array = np.ndarray
#: What is measured of each head
MEASURES = ("rank99", "stable_rank", "tail", "sigma_1")
#: The columns of a table of heads over steps
COLUMNS = ("step", "layer", "name", "head", "m_h", "tokens", *MEASURES, "tail_beyond")
_BLOCK = 2**24  # numbers that are held in float64 at a time: 128 MB
Row = dict[str, int | float | str]
"""One head at one step, by the names of the columns."""


@dataclass(frozen=True)
class Sums:
    """The second moments of a layer's queries, times the scale of its logits, and of its keys."""

    number: int
    name: str
    query: Gram
    key: Gram

    @classmethod
    def of(cls, number: int, site: Site, call: Call, kept: Kept) -> "Sums":
        """The moments of one call, over all of its inputs together."""
        query, key = _pooled(call.query, kept[0]), _pooled(call.key, kept[1])
        # the scale may be learned, and then differs from step to step
        scaled = Gram(call.scale**2 * query.spread, call.scale * query.mean, query.count)
        return cls(number, site.name, scaled, key)

    def joined(self, other: "Sums") -> "Sums":
        """The moments of both."""
        both = self.query.joined(other.query), self.key.joined(other.key)
        return Sums(self.number, self.name, *both)


def _pooled(x: Float[Tensor, "rows heads T m"], kept: Bool[Tensor, "rows T"] | None) -> Gram:
    """The moments of all rows together, block by block: a copy of everything may not fit."""
    each = (
        Gram.of(x[part], None if kept is None else kept[part[::2]]).pooled() for part in _blocks(x)
    )
    return functools.reduce(Gram.joined, each)


def _blocks(x: Float[Tensor, "rows heads T m"]) -> Iterator[tuple[slice, slice, slice]]:
    rows, heads, T, m = x.shape
    tokens = max(1, _BLOCK // (heads * m))
    inputs = max(1, tokens // max(T, 1))
    for row in range(0, rows, inputs):
        for token in range(0, T, tokens):
            yield slice(row, row + inputs), slice(None), slice(token, token + tokens)


class Pool:
    """The moments of the layers of a model, summed over calls."""

    def __init__(self) -> None:
        self.layers: dict[str, Sums] = {}

    def add(self, more: Sums) -> None:
        """Add the moments of a layer."""
        before = self.layers.get(more.name)
        self.layers[more.name] = more if before is None else before.joined(more)

    def join(self, other: "Pool") -> None:
        """Add the moments of other passes."""
        for sums in other.layers.values():
            self.add(sums)


@dataclass(frozen=True)
class LayerRecord:
    """The heads of one layer at one step; values that are not finite stand for a broken head."""

    step: int
    layer: int
    name: str
    m_h: int
    tokens: int
    tail_beyond: int
    rank99: Float[Array, " heads"]
    stable_rank: Float[Array, " heads"]
    tail: Float[Array, " heads"]
    sigma_1: Float[Array, " heads"]

    @property
    def is_finite(self) -> bool:
        """Whether queries and keys of all heads were finite."""
        return bool(np.isfinite(self.sigma_1).all())

    def rows(self) -> Iterator[Row]:
        """One row per head, with the columns in their order."""
        for head in range(len(self.rank99)):
            found: Row = {"head": head}
            for name in COLUMNS:
                if name in MEASURES:
                    value = float(getattr(self, name)[head])
                    whole = name == "rank99" and math.isfinite(value)
                    found[name] = int(value) if whole else value
                elif name != "head":
                    found[name] = getattr(self, name)
            yield {name: found[name] for name in COLUMNS}


@dataclass(frozen=True)
class Record:
    """What was measured at one step: the layers in the order in which they run."""

    step: int
    layers: tuple[LayerRecord, ...]

    @classmethod
    def of(cls, step: int, pool: Pool, beyond: int | float, gauge: Gauge) -> "Record":
        """The record of a step from the moments of its passes."""
        order = sorted(pool.layers.values(), key=lambda sums: sums.number)
        return cls(step, tuple(_measured(step, sums, beyond, gauge) for sums in order))

    def rows(self) -> Iterator[Row]:
        """One row per head."""
        for layer in self.layers:
            yield from layer.rows()

    def scalars(self, each_head: bool) -> dict[str, float]:
        """Numbers by name, for tools that draw one curve per name.

        Of each layer the median over heads, and of rank99 the least and the largest too; with
        `each_head` also the numbers of every head.
        """
        found: dict[str, float] = {}
        for layer in self.layers:
            place = f"attnrate/{layer.name}"
            found[f"{place}/rank99_median"] = float(np.median(layer.rank99))
            found[f"{place}/rank99_min"] = float(layer.rank99.min())
            found[f"{place}/rank99_max"] = float(layer.rank99.max())
            for name in ("stable_rank", "tail", "sigma_1"):
                found[f"{place}/{name}_median"] = float(np.median(getattr(layer, name)))
            for head in range(len(layer.rank99) if each_head else 0):
                for name in MEASURES:
                    found[f"{place}/head{head}/{name}"] = float(getattr(layer, name)[head])
        every = np.concatenate([layer.rank99 for layer in self.layers])
        return {"attnrate/rank99_median": float(np.median(every)), **found}


def rank_beyond(beyond: int | float, m_h: int) -> int:
    """The rank beyond which the tail of a head is taken.

    `beyond` is a whole number, or a share of the head size, rounded up.
    """
    return min(m_h, math.ceil(beyond * m_h) if 0 < beyond < 1 else int(beyond))


def _measured(step: int, sums: Sums, beyond: int | float, gauge: Gauge) -> LayerRecord:
    query, key = sums.query.cpu(), sums.key.cpu()
    shared = len(query.count) // len(key.count)
    broken = ~_finite(query) | ~_finite(key).repeat_interleave(shared, 0)
    gauged, whole = spectra(_mended(query), _mended(key), 1.0)
    sigma = (gauged if gauge == "softmax" else whole).numpy()
    m_h = sigma.shape[-1]
    rank = rank_beyond(beyond, m_h)
    measured = {
        "rank99": rank_of(sigma, SHARES[0]).astype(float),
        "stable_rank": stable_rank(sigma),
        "tail": tails(sigma)[:, rank],
        "sigma_1": sigma[:, 0],
    }
    return LayerRecord(
        step=step,
        layer=sums.number,
        name=sums.name,
        m_h=m_h,
        tokens=int(query.count.max()),
        tail_beyond=rank,
        **{name: np.where(broken.numpy(), math.nan, value) for name, value in measured.items()},
    )


def _finite(gram: Gram) -> Bool[Tensor, " heads"]:
    return torch.isfinite(gram.spread).flatten(1).all(-1)


def _mended(gram: Gram) -> Gram:
    """The moments with zeros for heads that are not finite, which have no eigenvalues."""
    good = _finite(gram)
    if bool(good.all()):
        return gram
    spread = torch.where(good[:, None, None], gram.spread, 0.0)
    return Gram(spread, torch.where(good[:, None], gram.mean, 0.0), gram.count)
