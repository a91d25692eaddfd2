"""Domains of a coupling: intervals, boxes, disjoint unions of intervals (Eq. 7), and samples.

Intervals, boxes and unions carry length (Lebesgue measure), as in the paper; samples carry the
empirical probability measure, weight 1/N each, the estimate that Braun (2005) justifies.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from numbers import Real
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.settings import by, checked
from attnrate.theory.panels import Array, Grid, product_grid

C = TypeVar("C", bound=Callable[..., Any])
Interval: TypeAlias = tuple[float, float]
#: The number of Gauss-Legendre nodes per interval of the first grid, by dimension
_START = {1: 32, 2: 16, 3: 8}
_MOST_DIMENSIONS = max(_START)
_WRITTEN = "Write it as (0.0, 1.0)."


def _interval(what: str, pair: object) -> Interval:
    """A pair of finite numbers a < b as floats, or an InputError that begins with `what`."""
    if not isinstance(pair, Sequence | np.ndarray) or isinstance(pair, str) or len(pair) != 2:
        raise InputError(f"{what} must be a pair (a, b)", pair, _WRITTEN)
    if not all(isinstance(end, Real | np.number) and not np.isnan(float(end)) for end in pair):
        nested = all(isinstance(end, Sequence) and not isinstance(end, str) for end in pair)
        way_out = f"Leave out the outer brackets: {pair[0]}, {pair[1]}." if nested else _WRITTEN
        raise InputError(f"{what} must have finite numbers as ends", pair, way_out)
    a, b = float(pair[0]), float(pair[1])
    if not (isfinite(a) and isfinite(b)):
        raise InputError(
            f"{what} must be bounded, with finite ends",
            (a, b),
            "Pass Samples(points) drawn from the law of the tokens; or change variables: where q "
            "is the quantile function of that law, decompose rho(q(s), q(t)) on (0, 1).",
        )
    if not a < b:
        kind = "empty" if a == b else "reversed"
        raise InputError(f"{what} is {kind}", (a, b), "The left end must be below the right end.")
    return a, b


@dataclass(frozen=True)
class Region:
    """A bounded domain in R^d, d ≤ 3: a product of axes, each a union of disjoint intervals.

    It carries length (area, volume). `box` and `union` make one.

    Attributes:
        axes: For each coordinate, its intervals (a, b) from left to right.

    Examples:
        >>> region = ar.union((0, 1), (2, 4))
        >>> region.d, region.volume
        (1, 3.0)

    """

    axes: tuple[tuple[Interval, ...], ...]

    @property
    def d(self) -> int:
        """The dimension."""
        return len(self.axes)

    def start_grid(self) -> Grid:
        """The coarsest grid, with which `pod` begins."""
        return product_grid(self.axes, _START[self.d], 1)

    @property
    def volume(self) -> float:
        """The length, area or volume of the domain."""
        return float(np.prod([sum(b - a for a, b in axis) for axis in self.axes]))

    def place(self, unit: Float[Array, "count d"]) -> Float[Array, "count d"]:
        """Map points of [0, 1]^d into the domain, uniformly in length along each axis.

        Args:
            unit: Points of the unit cube, one per row.

        """
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
        """Draw points uniformly from the domain.

        Args:
            count: The number of points.
            generator: The source of randomness.

        """
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


def _require_samples(_: str, values: object) -> Float[Array, "..."]:
    points = real_array("samples", values)
    if points.ndim not in (1, 2) or points.size == 0:
        raise InputError(
            "samples must have shape (N,) or (N, d) with N >= 1",
            points.shape,
            "Pass one row per sample.",
        )
    if not np.all(np.isfinite(points)):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(points))[0])
        what = f"sample {where} is not finite"
        raise InputError(what, float(points[where]), "Leave out its row.")
    return points


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Samples:
    """Points that stand for the law they were drawn from: weight 1/N each, in any dimension.

    On samples the singular values of ρ are those of the matrix ρ(u_i, v_j)/√(NM), an estimate of
    the spectrum under the law of the samples (Braun 2005). They are the way to decompose couplings
    in more than three dimensions or under a law without bounds, such as a Gaussian.

    Args:
        points: The samples, shape (N,) for numbers or (N, d) for points, one row per sample.

    Raises:
        InputError: The points are no finite real numbers, or have another shape.

    Examples:
        >>> import numpy as np
        >>> points = np.random.default_rng(0).normal(size=(200, 8))
        >>> ar.Samples(points)
        200 samples in R^8
        >>> ar.pod(lambda u, v: (u * v).sum(-1), ar.Samples(points)).rank
        8

    """

    points: Float[Array, "..."]

    @checked
    def __init__(self, points: Annotated[npt.ArrayLike, by(_require_samples)]) -> None:
        object.__setattr__(self, "points", points)

    def __repr__(self) -> str:
        return f"{len(self.points)} samples in R^{self.d}"

    @property
    def d(self) -> int:
        """The dimension."""
        return 1 if self.points.ndim == 1 else self.points.shape[1]

    @property
    def nodes(self) -> Float[Array, "nodes d"]:
        """The points, one per row."""
        return self.points.reshape(len(self.points), -1)

    @property
    def weights(self) -> Float[Array, " nodes"]:
        """The weight 1/N of each point."""
        return np.full(len(self.points), 1.0 / len(self.points))

    @property
    def volume(self) -> float:
        """The sum of the weights: 1."""
        return 1.0

    def draw(self, count: int, generator: np.random.Generator) -> Float[Array, "count d"]:
        """Draw samples with replacement.

        Args:
            count: The number of points.
            generator: The source of randomness.

        """
        return self.nodes[generator.integers(len(self.points), size=count)]


@runtime_checkable
class HasArray(Protocol):
    """What can become a numpy array: a tensor of torch, a Series or DataFrame of pandas."""

    def __array__(self) -> npt.NDArray[Any]:
        """Return the values as a numpy array."""
        ...


Domain: TypeAlias = Region | Samples
#: Where functions on a domain are known: at the nodes of a grid, or at the samples
Mesh: TypeAlias = Grid | Samples

DomainLike: TypeAlias = (
    Region | Samples | Sequence[float] | Sequence[Sequence[float]] | npt.NDArray[Any] | HasArray
)
"""What can be given for a domain of u or v.

(a, b) is an interval, a list of pairs a box, an array of numpy, torch or pandas samples, one
row per sample. `box`,
`union` and `Samples` say the same in words; a list of pairs is never a union.
"""


def _of_intervals(what: str, unions: bool = False) -> Callable[[C], C]:
    """Make a function of pairs refuse what is no interval; `what` names one, {} is its index.

    With `unions` a region of one axis may stand for a pair.
    """

    def side(i: int, pair: object) -> Interval | Region:
        if unions and isinstance(pair, Region) and pair.d == 1:
            return pair
        return _interval(what.format(i), pair)

    def mark(function: C) -> C:
        @functools.wraps(function)
        def call(*pairs: object) -> Region:
            made: Region = function(*(side(i, pair) for i, pair in enumerate(pairs)))
            return made

        return call  # type: ignore[return-value]

    return mark


@_of_intervals("side {} of the box", unions=True)
def box(*sides: Sequence[float] | Region) -> Region:
    """A box in R^d, d ≤ 3, from its sides; with unions as sides, a union of boxes.

    Tensor grids grow as nodes^d; in more than three dimensions take `Samples` of the law of the
    tokens.

    Args:
        *sides: One pair (a, b) per coordinate, a < b, both finite, or one `union` of intervals.

    Returns:
        The domain [a_1, b_1] × … × [a_d, b_d], with its volume as the measure. With unions as sides
        it is the union of the boxes that have one interval of each coordinate as sides.

    Raises:
        InputError: A side is no pair of finite numbers a < b, or there are more than three.

    Examples:
        >>> square = ar.box((0, 1), (0, 1))
        >>> ar.pod(lambda u, v: (u * v).sum(-1), square).rank
        2
        >>> ar.box(ar.union((0, 1), (2, 4)), (0, 1)).volume
        3.0

    """
    if not 1 <= len(sides) <= _MOST_DIMENSIONS:
        raise InputError(
            f"a box needs 1 to {_MOST_DIMENSIONS} sides",
            len(sides),
            "In more dimensions pass Samples(points) drawn from the law of the inputs.",
        )
    return Region(tuple(_axis(side) for side in sides))


def _axis(side: Sequence[float] | Region) -> tuple[Interval, ...]:
    """The intervals of one side of a box: one, or those of a union."""
    return side.axes[0] if isinstance(side, Region) else ((float(side[0]), float(side[1])),)


@_of_intervals("interval {} of the union")
def union(*intervals: Sequence[float]) -> Region:
    """A union of disjoint intervals on the line (Eq. 7), with length as the measure.

    Args:
        *intervals: Pairs (a, b), a < b, both finite, in any order; no two may touch.

    Returns:
        The domain.

    Raises:
        InputError: An interval is no pair of finite numbers a < b, or two of them overlap.

    Examples:
        >>> ar.union((2, 3), (0, 1)).axes
        (((0.0, 1.0), (2.0, 3.0)),)

    """
    if not intervals:
        raise InputError("a union needs at least one interval", intervals, "union((0, 1), (2, 3))")
    ordered = sorted((float(a), float(b)) for a, b in intervals)
    for one, two in pairwise(ordered):
        if two[0] <= one[1]:
            raise InputError(
                "the intervals of a union must be disjoint", (one, two), "Leave a gap between them."
            )
    return Region((tuple(ordered),))


def as_domain(value: object, what: str = "the domain") -> Domain:
    """A domain from a `DomainLike`, or an InputError in which it is called `what`."""
    if isinstance(value, Region | Samples):
        return value
    if hasattr(value, "__array__"):  # of numpy, torch or pandas
        return Samples(np.asarray(value.detach().cpu() if hasattr(value, "detach") else value))
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
