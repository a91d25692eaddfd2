"""The certificate of a decomposition: its error at points that were not used to compute it.

16,384 pairs (u, v) are drawn in 256 blocks of 8 x 8, so that the functions of each side are needed
at 2,048 points only. The points of a side are a lattice: on every axis one lies in each 1/2,048 of
its length, so that no strip of that width is missed. Which u meets which v is drawn at random, so
that a feature is met in proportion to its share of the domain, whatever its shape. A thin set of
the plane can slip through a lattice; sides of more than one dimension are therefore also compared
along 8 whole slices each way, at 8,192 points each. A few more pairs lie on the edges and in the
corners.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import log, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.theory.domain import Domain, Mesh, Region, Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import EDGES, Array, lagrange

#: A feature of at least this share of the domain is met by some pair: certainly if it is a strip
#: across an interval, with at least 95 % confidence if it has another shape
RESOLUTION = 1 / 2048
_POINTS = 2048
_TOGETHER = 8
_INSIDE = _POINTS * _TOGETHER
_SLICES = 8
_SLICE_POINTS = 8192
#: The number of points on the edges of a side, in addition to its corners
_AT_EDGES = 64
#: The probability that the bound on the error fails for the points drawn
_DOUBT = 0.005
#: Korobov lattices: the multiplier with the least P_2 in two and three dimensions, of those tried
_MULTIPLIER = {_POINTS: 495, _SLICE_POINTS: 2529}
SideName = Literal["u", "v"]


@dataclass(frozen=True, eq=False)
class Factor:
    """Functions of one variable, by their values on the nodes of a grid or at samples."""

    grid: Mesh
    values: Float[Array, "nodes rank"]


@dataclass(frozen=True, eq=False)
class Misses:
    """rho minus its approximation at fresh pairs.

    Args:
        every: The differences: first at the pairs inside, block after block, then at those on
            slices, then at those on the edges and in the corners.
        along: The number of pairs on slices; 0 where both sides have one dimension.
        u: The points u of the pairs.
        v: The points v of the pairs.
        volume: The volume of the domain of pairs.

    """

    every: Float[Array, " all"]
    along: int
    u: Float[Array, "all d"]
    v: Float[Array, "all e"]
    volume: float

    def norm(self, where: Bool[Array, " all"] | None = None, ranged: bool = True) -> float:
        """An upper limit of the L² norm of the error, at 99.5 % confidence.

        It is the empirical Bernstein bound (Maurer and Pontil 2009) on the mean of the squares,
        with the largest square seen as their range: an error that was met a few times only may be
        larger elsewhere.

        Args:
            where: Pairs that count; by default all of them.
            ranged: Whether the range is added; False for errors that are known to be met in
                proportion to their size.

        """
        size = self.every if where is None else np.where(where, self.every, 0.0)
        largest = float(np.max(np.abs(size)))
        squares = (size / (largest or 1.0)) ** 2  # 1e±200² is no number
        doubt = log(2 / _DOUBT)
        means = squares[:_INSIDE].reshape(-1, _TOGETHER**2).mean(axis=1)
        # the mean over the pairs inside may be off by the spread of the blocks
        likely = float(means.mean()) + sqrt(2 * doubt * float(np.var(means)) / len(means))
        if self.along:
            likely = max(likely, float(squares[_INSIDE : _INSIDE + self.along].mean()))
        return largest * sqrt(self.volume * (likely + ranged * 7 * doubt / (3 * _INSIDE)))

    def share(self, least: float) -> float:
        """The share of the pairs inside with an error of more than `least`."""
        return float(np.mean(np.abs(self.every[:_INSIDE]) > least))

    def worst(self, most: int, least: float) -> Int[Array, " worst"]:
        """The pairs with the largest errors: at most `most`, with errors of more than `least`."""
        size = np.abs(self.every)
        order = np.argsort(-size, kind="stable")[:most]
        return np.asarray(order[size[order] > least])


class FreshPairs:
    """Pairs of points of two domains with rho at each, for comparison with approximations."""

    def __init__(self, rho: Evaluator, u: Domain, v: Domain) -> None:
        self._u, self._v = _Points(u, "u", _POINTS), _Points(v, "v", _POINTS)
        generator = np.random.default_rng(17)
        self._blocks = _blocks(generator), _blocks(generator)
        self._edges = _edge_pairs(self._u, self._v, generator)
        at_u = [self._u.at[np.repeat(self._blocks[0], _TOGETHER, axis=1).ravel()]]
        at_v = [self._v.at[np.tile(self._blocks[1], (1, _TOGETHER)).ravel()]]
        self._along: tuple[_Points, _Points] | None = None
        if max(u.d, v.d) > 1:
            self._along = _Points(u, "u", _SLICE_POINTS), _Points(v, "v", _SLICE_POINTS)
            at_u += [np.tile(self._along[0].lattice, (_SLICES, 1)), self._u.repeated(_SLICE_POINTS)]
            at_v += [self._v.repeated(_SLICE_POINTS), np.tile(self._along[1].lattice, (_SLICES, 1))]
        at_u.append(self._u.at[self._edges[0]])
        at_v.append(self._v.at[self._edges[1]])
        self.at = np.concatenate(at_u), np.concatenate(at_v)
        self._values, self._unit = rho.pairs(*self.at), rho.unit
        self._volume = u.volume * v.volume

    def largest(self, rho: Evaluator) -> float:
        """The largest size of rho at these pairs, in the present unit of rho."""
        return float(np.max(np.abs(self._values))) * (self._unit / rho.unit)

    def misses(self, rho: Evaluator, left: Factor, right: Factor) -> Misses:
        """rho minus Σ_k left_k(u) right_k(v) at every pair, in the present unit of rho."""
        a, b = self._u.values(left), self._v.values(right)
        blocks = np.matmul(a[self._blocks[0]], b[self._blocks[1]].transpose(0, 2, 1))
        slices = np.zeros((0, _SLICE_POINTS))
        if self._along is not None:
            # a slice is one function, the sum of those of its side: only this sum is interpolated
            slices = np.concatenate(
                [self._along[0].slices(left, b), self._along[1].slices(right, a)]
            )
        edges = np.einsum("pk,pk->p", a[self._edges[0]], b[self._edges[1]])
        approximated = np.concatenate([blocks.ravel(), slices.ravel(), edges])
        every = self._values * (self._unit / rho.unit) - approximated
        return Misses(every, slices.size, *self.at, self._volume)


class _Points:
    """Points of one side: a lattice of `count` of them, then corners, then points on the edges."""

    def __init__(self, domain: Domain, side: SideName, count: int) -> None:
        self._key = side, count, domain.d if isinstance(domain, Region) else 1
        unit = _unit_points(*self._key)
        #: for samples, which of them
        self._index: Int[Array, " points"] | None = None
        if isinstance(domain, Samples):
            self._index = (unit[:, 0] * len(domain.points)).astype(int)
            self.at = domain.nodes[self._index]
        else:
            self.at = domain.place(unit)
        self.lattice = self.at[:count]

    def values(self, factor: Factor) -> Float[Array, "points rank"]:
        """The functions of `factor` at all these points."""
        grid = factor.grid
        if isinstance(grid, Samples):
            assert self._index is not None
            return np.asarray(factor.values[self._index])
        if len(grid.axes) == 1 and grid.axes[0].panels == 1 and grid.axes[0].order % 2 == 0:
            return _at_mirrored(self._key, factor.values)
        return grid.interpolate(factor.values, self.at)

    def slices(
        self, factor: Factor, others: Float[Array, "others rank"]
    ) -> Float[Array, "slices points"]:
        """The slices through the first points of the other side, on the lattice of this side."""
        summed = replace(factor, values=factor.values @ others[:_SLICES].T)
        return self.values(summed)[: len(self.lattice)].T

    def repeated(self, times: int) -> Float[Array, "many d"]:
        """The first points, through which slices go, each repeated `times` times."""
        return np.repeat(self.at[:_SLICES], times, axis=0)


@lru_cache(maxsize=16)
def _unit_points(side: SideName, count: int, d: int) -> Float[Array, "points d"]:
    """A shifted lattice in the unit cube, in any order, then its corners, then points on faces."""
    generator = np.random.default_rng([count, d, side == "u"])
    # just inside: rho may be infinite on the edge itself, which no integral sees
    ends = (1 + EDGES) / 2
    if d == 1:
        # each point is followed by its mirror image, which halves the work of `_at_mirrored`; with
        # this shift no gap is wider than 1/count, neither in the middle nor at the ends
        left = (generator.permutation(count // 2) + generator.uniform(0.5, 1.0)) / count
        half = np.append(left, np.full(1 + _AT_EDGES // 2, ends[0]))
        return np.column_stack([half, 1 - half]).reshape(-1, 1)
    steps = np.cumprod([1, *[_MULTIPLIER[count]] * (d - 1)]) % count
    lattice = (np.arange(count)[:, None] * steps / count + generator.uniform(size=d)) % 1.0
    corners = np.array(list(product(ends, repeat=d)))
    faces = generator.uniform(size=(_AT_EDGES, d))
    rows, axis = np.arange(_AT_EDGES), generator.integers(d, size=_AT_EDGES)
    faces[rows, axis] = generator.choice(ends, _AT_EDGES)
    return np.concatenate([lattice[generator.permutation(count)], corners, faces])


_Key = tuple[SideName, int, int]


@lru_cache(maxsize=8)
def _even_and_odd(key: _Key, order: int) -> tuple[Array, Array]:
    """The matrices from sums and differences of mirrored nodal values to those at the points."""
    basis = lagrange(2 * _unit_points(*key)[::2, 0] - 1, order)
    left, right = basis[:, : order // 2], basis[:, ::-1][:, : order // 2]
    return (left + right) / 2, (left - right) / 2


def _at_mirrored(key: _Key, values: Float[Array, "order rank"]) -> Float[Array, "points rank"]:
    """Interpolate values on the nodes of a single panel to the points of a side.

    Nodes and points lie symmetrically about the middle, so that the even and the odd part of a
    polynomial each take a quarter of the products.
    """
    half = len(values) // 2
    left, right = values[:half], values[::-1][:half]
    to_even, to_odd = _even_and_odd(key, len(values))
    even, odd = to_even @ (left + right), to_odd @ (left - right)
    result = np.empty((2 * len(even), values.shape[1]))
    np.add(even, odd, out=result[::2])
    np.subtract(even, odd, out=result[1::2])
    return result


def _blocks(generator: np.random.Generator) -> Int[Array, "blocks together"]:
    """For each block, the points of one side that it has."""
    return generator.permutation(_POINTS).reshape(-1, _TOGETHER)


def _edge_pairs(
    u: _Points, v: _Points, generator: np.random.Generator
) -> tuple[Int[Array, " pairs"], Int[Array, " pairs"]]:
    """Corners with corners; points on the edges with points inside, and with each other."""
    ends_u, ends_v = np.arange(_POINTS, len(u.at)), np.arange(_POINTS, len(v.at))
    corners_u, corners_v = ends_u[:-_AT_EDGES], ends_v[:-_AT_EDGES]
    faces_u, faces_v = ends_u[-_AT_EDGES:], ends_v[-_AT_EDGES:]
    any_u, any_v = (generator.integers(_POINTS, size=_AT_EDGES) for _ in "uv")
    return (
        np.concatenate([np.repeat(corners_u, len(corners_v)), faces_u, any_u, faces_u]),
        np.concatenate([np.tile(corners_v, len(corners_u)), any_v, faces_v, faces_v]),
    )
