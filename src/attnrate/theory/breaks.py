"""The place where a function of one variable breaks, a kink or a jump, from a few evaluations.

Bisecting an interval towards a kink needs all nodes of smaller and smaller intervals. Here the gap
between two nodes in which the break must lie is read off the values: on both sides of it, and only
there, six neighbouring values lie on a polynomial. These two polynomials are continued into the
gap. If the function can be evaluated again, one point per step shows which of the two it follows;
that finds a jump as well. If evaluation is expensive and the function is known to be continuous,
the break is where the two polynomials meet.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.theory.panels import Array

#: The number of neighbouring values that make a polynomial
_STENCIL = 6
#: The sides of a break must be smoother than the break by this factor
_CLEAN = 1e-3
#: The number of halvings after which a gap between two nodes is of the size of rounding
_STEPS = 48
#: Searching where two polynomials meet: the points of a round, and the number of rounds, each of
#: which keeps a quarter
_LOOKS = np.linspace(0.0, 1.0, 9)
_ROUNDS = 14

#: Evaluates some rows, each at one point: takes the rows and the points
Ask = Callable[[Int[Array, " rows"], Float[Array, " rows"]], Float[Array, "rows c"]]


def find_breaks(
    nodes: Float[Array, " q"], values: Float[Array, "rows q c"], ask: Ask | None = None
) -> tuple[Bool[Array, " rows"], Float[Array, " rows"]]:
    """Find the break of each row, where it has one and is smooth on both sides.

    Args:
        nodes: Points of [-1, 1].
        values: Functions at the nodes; those of one row, c of them, break at the same place.
        ask: Evaluates the functions; without it they must be continuous.

    Returns:
        For each row whether it breaks between two nodes, and where.

    """
    sizes = _differences(nodes, values)
    before = np.maximum.accumulate(sizes, axis=1)
    after = np.maximum.accumulate(sizes[:, ::-1], axis=1)[:, ::-1]
    # gap g lies after node g: windows 0 .. g-5 are left of it, windows g+1 .. are right of it
    gaps = np.arange(_STENCIL - 1, len(nodes) - _STENCIL)
    beside = np.maximum(before[:, gaps - _STENCIL + 1], after[:, gaps + 1])
    best = np.argmin(beside, axis=1)
    rows = np.arange(len(values))
    found = beside[rows, best] <= _CLEAN * before[:, -1]
    place = np.zeros(len(values))
    if found.any():
        place[found] = _between(nodes, values[found], gaps[best[found]], rows[found], ask)
    return found, place


def _differences(
    nodes: Float[Array, " q"], values: Float[Array, "rows q c"]
) -> Float[Array, "rows windows"]:
    """For every window of six neighbouring values, their distance from a polynomial of degree 4."""
    windows = len(nodes) - _STENCIL + 1
    weights = np.zeros((windows, len(nodes)))
    for w in range(windows):
        weights[w, w : w + _STENCIL] = _barycentric(nodes[w : w + _STENCIL])
    off = np.einsum("wq,rqc->rwc", weights, values)
    return np.asarray(np.sqrt(np.sum(off**2, axis=2)))


def _barycentric(points: Float[Array, "*rows six"]) -> Float[Array, "*rows six"]:
    """Barycentric weights, the largest scaled to 1."""
    gap = points[..., :, None] - points[..., None, :]
    gap = gap + np.eye(points.shape[-1])
    weights = 1 / np.prod(gap, axis=-1)
    return np.asarray(weights / np.max(np.abs(weights), axis=-1, keepdims=True))


def _between(
    nodes: Float[Array, " q"],
    values: Float[Array, "rows q c"],
    gap: Int[Array, " rows"],
    rows: Int[Array, " rows"],
    ask: Ask | None,
) -> Float[Array, " rows"]:
    """The place in its gap where each row breaks."""
    low, high = nodes[gap], nodes[gap + 1]
    here = np.arange(len(rows))[:, None]
    sides = []
    for first in (gap - _STENCIL + 1, gap + 1):
        index = first[:, None] + np.arange(_STENCIL)
        points = nodes[index]
        sides.append((points, _barycentric(points), values[here, index]))
    if ask is None:
        return _meeting(sides, low, high)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        seen = ask(rows, middle)
        off_left, off_right = (
            np.sum((_continued(side, middle) - seen) ** 2, axis=1) for side in sides
        )
        left = off_left <= off_right
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return np.asarray((low + high) / 2)


def _meeting(
    sides: list[tuple[Array, Array, Array]], low: Float[Array, " rows"], high: Float[Array, " rows"]
) -> Float[Array, " rows"]:
    """The place where the polynomials of the two sides are closest to each other."""
    for _ in range(_ROUNDS):
        tried = low[:, None] + (high - low)[:, None] * _LOOKS
        apart = np.stack(
            [
                np.sum((_continued(sides[0], at) - _continued(sides[1], at)) ** 2, axis=1)
                for at in tried.T
            ]
        )
        best = np.argmin(apart, axis=0)
        centre, reach = tried[np.arange(len(best)), best], (high - low) / 8
        low, high = np.maximum(low, centre - reach), np.minimum(high, centre + reach)
    return np.asarray((low + high) / 2)


def _continued(
    side: tuple[Array, Array, Array], at: Float[Array, " rows"]
) -> Float[Array, "rows c"]:
    """The polynomial through six values, at a point beside them."""
    points, weights, values = side
    gap = at[:, None] - points
    terms = weights / np.where(gap == 0, np.finfo(float).tiny, gap)
    continued = np.einsum("rs,rsc->rc", terms, values) / np.sum(terms, axis=1)[:, None]
    return np.asarray(continued)
