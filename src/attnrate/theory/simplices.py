"""Piecewise-linear interpolation in two and three variables, as ReLU networks.

A grid with n equal cells along every side of a box is cut into simplices by the planes x_i = k h_i
and x_i/h_i - x_j/h_j = k (Kuhn's triangulation). On each of them the interpolant is linear. A
simplex with circumradius R has an error of at most R² sup|D²g| / 2 (Waldron 1998), and scaled to
unit cells each of these has R² = d/4. Hence, with the side lengths S on the diagonal,

    sup|g - ĝ| <= d/8 · sup|S D²g S| / n²,

which in one variable is the (b-a)² sup|g''| / (8 n²) of `Interpolant`.

The interpolant is the sum of g(t) hat(ξ - t) over the nodes t, ξ the coordinates counted in cells,
and hat(z) = relu(1 - R(z)) with R(z) = max(0, z_1, …, z_d) - min(0, z_1, …, z_d), the range of
{0, z_1, …, z_d}. Its values therefore stay in the convex hull of those at the nodes.

- d = 2: R is half the sum of the distances between 0, z_1 and z_2, that is
  relu(z_1) + relu(z_2) + relu(z_1 - z_2) - z_1 once |z| = 2 relu(z) - z is put in. Two hidden
  layers.
- d = 3: max(0, z_1, z_2, z_3) = relu(z_1) + relu(z_3 + relu(z_2 - z_3) - relu(z_1)), and the same
  for -z. Three hidden layers.

All units of the first layer, relu(ξ_i - k) and relu(ξ_i - ξ_j - k), are shared by the nodes, and
all layers but the last by the components of g. On a union of intervals a layer before them bends
each axis so that cells and gaps have the length 1; no token is in a gap.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import prod

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError
from attnrate.theory.domain import Interval, Region
from attnrate.theory.panels import Array

#: The most weights of one layer: 270 MB in float64
_MOST_WEIGHTS = 1 << 25


def units_of(region: Region, n: int) -> int:
    """The number of hidden units, in all layers, of the network with n cells per interval."""
    points = [len(axis) * (n + 1) for axis in region.axes]
    nodes = prod(points)
    bends = sum(2 * len(axis) - 1 for axis in region.axes) if _has_gaps(region) else 0
    ridges = sum(p - 1 for p in points) + sum(p + q - 3 for p, q in combinations(points, 2))
    between = 2 * nodes + points[0] - 1 if region.d == 3 else 0
    return bends + ridges + between + nodes


def pieces_of(intervals: tuple[Interval, ...], m_ff: int) -> int:
    """The number of linear pieces on each interval, for a network of m_ff units."""
    pieces = (m_ff + 1) // len(intervals) - 1
    if pieces < 1:
        raise InputError(
            f"m_ff must be at least {2 * len(intervals) - 1} to reach {len(intervals)} intervals",
            m_ff,
            "A network bends at least once in each interval and once in each gap.",
        )
    return pieces


def cells_of(region: Region, m_ff: int) -> int:
    """The most cells per interval for which m_ff hidden units are enough."""
    if region.d == 1:
        return pieces_of(region.axes[0], m_ff)
    least = units_of(region, 1)
    if m_ff < least:
        raise InputError(
            f"m_ff must be at least {least} to reach one cell of a grid in {region.d} variables",
            m_ff,
            f"Pass m_ff={least} or more; the network has that many hidden units in all its layers.",
        )
    low, high = 1, 2
    while units_of(region, high) <= m_ff:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if units_of(region, middle) <= m_ff else (low, middle)
    return low


def looseness(region: Region, exponent: float) -> float:
    """The largest m_ff^exponent / n² over all m_ff, n the cells that m_ff units allow.

    With it error <= c / n² becomes error <= looseness c / m_ff^exponent, for exponent <= 2/d.
    """
    # the quotient is largest just before a cell is added, and falls in n for these exponents
    return max(float(_most_units(region, n) ** exponent) / n**2 for n in range(1, 65))


def _most_units(region: Region, n: int) -> int:
    """The largest m_ff for which there are n cells per interval and no more."""
    if region.d == 1:
        return (n + 2) * len(region.axes[0]) - 2
    return units_of(region, n + 1) - 1


def grid_nodes(region: Region, n: int) -> Float[Array, "nodes d"]:
    """The nodes of the grid with n equal cells along every interval of every axis."""
    axes = [_axis_nodes(axis, n) for axis in region.axes]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, region.d)


def mesh_network(region: Region, n: int, values: Float[torch.Tensor, "nodes k"]) -> nn.Sequential:
    """The ReLU network in float64 that interpolates values at `grid_nodes` on the simplices."""
    points = [len(axis) * (n + 1) for axis in region.axes]
    nodes = prod(points)
    ridges = _Ridges.of(points)
    hat_inputs = 2 * nodes + points[0] - 1 if region.d == 3 else ridges.count
    if nodes * hat_inputs > _MOST_WEIGHTS:
        raise InputError(
            f"a layer of {nodes:,} by {hat_inputs:,} weights is too large; m_ff is {{value}}",
            units_of(region, n),
            "Pass a smaller m_ff: jackson_bound needs no network, and takes any.",
        )
    layers: list[_Affine] = []
    to_cells = _scaled(region, n)
    if _has_gaps(region):
        bend, to_cells = _bent(region, n)
        layers.append(bend)
    layers.append(_after(ridges.layer(), to_cells))
    at = np.array(list(product(*map(range, points))), dtype=int)
    layers += _hats_of_two(ridges, at) if region.d == 2 else _hats_of_three(ridges, at, points[0])
    made: list[nn.Module] = []
    for layer in layers:
        made += [_linear(layer), nn.ReLU()]
    read = _Affine(values.T.numpy(), np.zeros(values.shape[1]))
    return nn.Sequential(*made, _linear(read))


@dataclass(frozen=True, eq=False)
class _Affine:
    """x -> weight x + bias."""

    weight: Float[Array, "out inputs"]
    bias: Float[Array, " out"]


def _after(outer: _Affine, inner: _Affine) -> _Affine:
    return _Affine(outer.weight @ inner.weight, outer.weight @ inner.bias + outer.bias)


def _linear(layer: _Affine) -> nn.Linear:
    linear = nn.Linear(layer.weight.shape[1], layer.weight.shape[0], dtype=torch.float64)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(np.ascontiguousarray(layer.weight)))
        linear.bias.copy_(torch.from_numpy(np.ascontiguousarray(layer.bias)))
    return linear


def _has_gaps(region: Region) -> bool:
    return any(len(axis) > 1 for axis in region.axes)


def _axis_nodes(axis: tuple[tuple[float, float], ...], n: int) -> Float[Array, " points"]:
    return np.concatenate([np.linspace(a, b, n + 1) for a, b in axis])


def _scaled(region: Region, n: int) -> _Affine:
    """x -> ξ, the coordinates counted in cells from the lower corner of a box."""
    low, high = (np.array([axis[0][end] for axis in region.axes]) for end in (0, 1))
    scale = n / (high - low)
    return _Affine(np.diag(scale), -low * scale)


def _bent(region: Region, n: int) -> tuple[_Affine, _Affine]:
    """A hidden layer, and the ξ that it makes: each axis bends where a gap begins or ends."""
    rows, shifts, slopes = [], [], []
    for i, axis in enumerate(region.axes):
        ends = [end for interval in axis for end in interval]
        # every interval has n cells, every gap is one
        cells = [n if k % 2 == 0 else 1 for k in range(len(ends) - 1)]
        steep = [c / (b - a) for c, (a, b) in zip(cells, pairwise(ends), strict=True)]
        for k, start in enumerate(ends[:-1]):
            rows.append(np.eye(region.d)[i])
            shifts.append(-start)
            slopes.append((i, steep[k] - (steep[k - 1] if k else 0.0)))
    read = np.zeros((region.d, len(rows)))
    for column, (i, change) in enumerate(slopes):
        read[i, column] = change
    return _Affine(np.stack(rows), np.array(shifts)), _Affine(read, np.zeros(region.d))


@dataclass(frozen=True, eq=False)
class _Ridges:
    """The first layer: relu(ξ_i - k) and relu(ξ_i - ξ_j - k) for all k at which they bend inside.

    On the grid ξ_i is relu(ξ_i - 0) itself, so every hinge of these directions is affine in them.
    """

    points: tuple[int, ...]
    index: dict[tuple[int, int, int], int]

    @classmethod
    def of(cls, points: list[int]) -> "_Ridges":
        # (i, i, k) stands for ξ_i - k, (i, j, k) for ξ_i - ξ_j - k
        keys = [(i, i, k) for i, p in enumerate(points) for k in range(p - 1)]
        for (i, p), (j, q) in combinations(enumerate(points), 2):
            keys += [(i, j, k) for k in range(2 - q, p - 1)]
        return cls(tuple(points), {key: place for place, key in enumerate(keys)})

    @property
    def count(self) -> int:
        """The number of units."""
        return len(self.index)

    def layer(self) -> _Affine:
        """The layer as a function of ξ."""
        weight, bias = np.zeros((self.count, len(self.points))), np.zeros(self.count)
        for (i, j, k), place in self.index.items():
            weight[place, i] = 1.0
            if j != i:
                weight[place, j] = -1.0
            bias[place] = -k
        return _Affine(weight, bias)

    def coordinate(self, into: _Affine, i: int, k: Array, factor: float) -> None:
        """Add factor (ξ_i - k) to every row of an affine function of the units."""
        into.weight[:, self.index[i, i, 0]] += factor
        into.bias[:] -= factor * k

    def hinge(self, into: _Affine, i: int, j: int, k: Array, factor: float) -> None:
        """Add factor relu(ξ_i - ξ_j - k), or relu(ξ_i - k) where j = i, to every row."""
        p, q = self.points[i], self.points[j]
        low = 0 if i == j else 1 - q
        inside = (k < p - 1) & ((k > low) | (i == j))
        rows = np.flatnonzero(inside)
        into.weight[rows, [self.index[i, j, int(each)] for each in k[rows]]] += factor
        for row in np.flatnonzero((k == low) & ~inside):
            # never negative on the grid, so the hinge is open everywhere
            into.weight[row, self.index[i, i, 0]] += factor
            into.weight[row, self.index[j, j, 0]] -= factor
            into.bias[row] -= factor * low


def _blank(rows: int, columns: int, bias: float = 0.0) -> _Affine:
    return _Affine(np.zeros((rows, columns)), np.full(rows, bias))


def _hats_of_two(ridges: _Ridges, at: Array) -> list[_Affine]:
    """1 - R at every node: its relu is the hat."""
    hat = _blank(len(at), ridges.count, 1.0)
    t, s = at.T
    ridges.hinge(hat, 0, 0, t, -1.0)
    ridges.hinge(hat, 1, 1, s, -1.0)
    ridges.hinge(hat, 0, 1, t - s, -1.0)
    ridges.coordinate(hat, 0, t, 1.0)
    return [hat]


def _hats_of_three(ridges: _Ridges, at: Array, points: int) -> list[_Affine]:
    """The second summands of max and -min at every node, and then 1 - R."""
    nodes, t, s, r = len(at), *at.T
    top, bottom = _blank(nodes, ridges.count), _blank(nodes, ridges.count)
    # z_3 + relu(z_2 - z_3) - relu(z_1)
    ridges.coordinate(top, 2, r, 1.0)
    ridges.hinge(top, 1, 2, s - r, 1.0)
    ridges.hinge(top, 0, 0, t, -1.0)
    # -z_3 + relu(z_3 - z_2) - relu(-z_1), in hinges of the other sign
    ridges.coordinate(bottom, 1, s, -1.0)
    ridges.hinge(bottom, 1, 2, s - r, 1.0)
    ridges.hinge(bottom, 0, 0, t, -1.0)
    ridges.coordinate(bottom, 0, t, 1.0)
    passed = _blank(points - 1, ridges.count)
    passed.weight[np.arange(points - 1), [ridges.index[0, 0, k] for k in range(points - 1)]] = 1.0
    middle = _Affine(
        np.concatenate([top.weight, bottom.weight, passed.weight]),
        np.concatenate([top.bias, bottom.bias, passed.bias]),
    )
    # 1 - (relu(z_1) + top) - (relu(z_1) - z_1 + bottom)
    hat = _blank(nodes, 2 * nodes + points - 1, 1.0)
    every = np.arange(nodes)
    hat.weight[every, every] = hat.weight[every, nodes + every] = -1.0
    bent = np.flatnonzero(t < points - 1)
    hat.weight[bent, 2 * nodes + t[bent]] -= 2.0
    hat.weight[:, 2 * nodes] += 1.0
    hat.bias[:] -= t
    return [middle, hat]
