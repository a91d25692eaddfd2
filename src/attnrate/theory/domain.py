"""Domains of a coupling: intervals, boxes, disjoint unions of intervals (Eq. 7), and samples.

Intervals, boxes and unions carry length (Lebesgue measure), as in the paper; samples carry the
empirical probability measure, weight 1/N each, the estimate that Braun (2005) justifies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from numbers import Real
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.theory.panels import Array, Grid, product_grid

Interval: TypeAlias = tuple[float, float]
#: Gauss-Legendre nodes on each interval to start from, by dimension
_START = {1: 32, 2: 16, 3: 8}
_MOST_DIMENSIONS = max(_START)


def _interval(what: str, pair: object) -> Interval:
    if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
        raise InputError(f"{what} must be a pair (a, b)", pair, "Write it as (0.0, 1.0).")
    if not all(isinstance(end, Real | np.number) and isfinite(end) for end in pair):
        raise InputError(f"{what} must have finite ends", tuple(pair), "Write it as (0.0, 1.0).")
    a, b = float(pair[0]), float(pair[1])
    if not a < b:
        kind = "empty" if a == b else "reversed"
        raise InputError(f"{what} is {kind}", (a, b), "The left end must be below the right end.")
    return a, b


@dataclass(frozen=True)
class Region:
    """A product of axes, each a union of disjoint intervals; made by `box`, `union` or a pair."""

    axes: tuple[tuple[Interval, ...], ...]

    @property
    def d(self) -> int:
        """Dimension."""
        return len(self.axes)

    def start_grid(self) -> Grid:
        """The coarsest grid that `pod` begins with."""
        return product_grid(self.axes, _START[self.d], 1)

    @property
    def volume(self) -> float:
        """The measure of the whole."""
        return float(np.prod([sum(b - a for a, b in axis) for axis in self.axes]))

    def place(self, unit: Float[Array, "count d"]) -> Float[Array, "count d"]:
        """The points of [0, 1]^d carried here, in proportion to length along each axis."""
        columns = []
        for intervals, share in zip(self.axes, unit.T, strict=True):
            lengths = np.array([b - a for a, b in intervals])
            ends = np.cumsum(lengths)
            along = share * ends[-1]
            which = np.searchsorted(ends, along, side="right").clip(0, len(intervals) - 1)
            left = np.array([a for a, _ in intervals])
            columns.append(left[which] + along - (ends - lengths)[which])
        return np.stack(columns, axis=-1)

    def draw(self, count: int, generator: np.random.Generator) -> Float[Array, "count d"]:
        """Points drawn uniformly with respect to length."""
        return self.place(generator.uniform(size=(count, self.d)))


def real_array(what: str, values: object) -> Float[Array, "..."]:
    """`values` as an array of float64, or an InputError when they are no real numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must be real numbers", values, "Pass an array of floats.")
    return array.astype(float)


@dataclass(frozen=True, eq=False, init=False)
class Samples:
    """Points of an empirical measure, weight 1/N each, in any dimension.

    `points` has shape (N,) for numbers, and rho is then called on numbers, or (N, d).
    """

    points: Float[Array, "..."]

    def __init__(self, points: object) -> None:
        points = real_array("samples", points)
        if points.ndim not in (1, 2) or points.size == 0:
            raise InputError(
                "samples must have shape (N,) or (N, d) with N >= 1",
                points.shape,
                "Pass one row a sample.",
            )
        if not np.all(np.isfinite(points)):
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(points))[0])
            raise InputError(f"sample {where} is not finite", float(points[where]))
        object.__setattr__(self, "points", points)

    @property
    def d(self) -> int:
        """Dimension."""
        return 1 if self.points.ndim == 1 else self.points.shape[1]

    @property
    def nodes(self) -> Float[Array, "nodes d"]:
        """The points, a row each."""
        return self.points.reshape(len(self.points), -1)

    @property
    def weights(self) -> Float[Array, " nodes"]:
        """Weight 1/N each."""
        return np.full(len(self.points), 1.0 / len(self.points))

    @property
    def volume(self) -> float:
        """A probability measure."""
        return 1.0

    def draw(self, count: int, generator: np.random.Generator) -> Float[Array, "count d"]:
        """Samples drawn with replacement."""
        return self.nodes[generator.integers(len(self.points), size=count)]


Domain: TypeAlias = Region | Samples
#: Where functions on a domain are known: at the nodes of a grid, or at the samples
Mesh: TypeAlias = Grid | Samples


def box(*sides: object) -> Region:
    """A box in R^d from its sides: `box((0, 1), (0, 1))`. At most three dimensions.

    Tensor grids grow as nodes^d; above three dimensions take `Samples` of the input law.
    """
    if not 1 <= len(sides) <= _MOST_DIMENSIONS:
        raise InputError(
            f"a box needs 1 to {_MOST_DIMENSIONS} sides",
            len(sides),
            "In more dimensions pass Samples(points) drawn from the law of the inputs.",
        )
    return Region(tuple((_interval(f"side {i} of the box", s),) for i, s in enumerate(sides)))


def union(*intervals: object) -> Region:
    """A union of pairwise disjoint intervals (Eq. 7): `union((0, 1), (2, 3))`."""
    if not intervals:
        raise InputError("a union needs at least one interval", intervals, "union((0, 1), (2, 3))")
    checked = sorted(_interval(f"interval {i} of the union", p) for i, p in enumerate(intervals))
    for one, two in pairwise(checked):
        if two[0] <= one[1]:
            raise InputError(
                "the intervals of a union must be disjoint", (one, two), "Leave a gap between them."
            )
    return Region((tuple(checked),))


def as_domain(value: object, what: str = "the domain") -> Domain:
    """A domain from what users write.

    (a, b) is an interval, a list of pairs a box, a numpy array samples; `box`, `union` and
    `Samples` say it in words (a list of pairs is never a union).
    """
    if isinstance(value, Region | Samples):
        return value
    if isinstance(value, np.ndarray):
        return Samples(value)
    if (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes | bytearray)
        and len(value) > 0
    ):
        if all(isinstance(side, Sequence | np.ndarray) for side in value):
            return box(*value)
        return Region(((_interval(what, value),),))
    raise InputError(
        f"{what} is not understood",
        value,
        "Pass (a, b), a list of pairs for a box, union((a, b), (c, d)), or Samples(points).",
    )
