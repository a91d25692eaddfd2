"""Pivoted cross approximation: a function of two variables from a few of its rows and columns.

Phase 1  `find_cross`: Gaussian elimination on the implicit matrix rho(u_i, v_j). Each step takes
         the columns of the worst of a set of sampled entries, the rows through their pivots, and
         the columns through the pivots of those rows: a few slices of rho per pivot, so the cost
         is grid x rank, not grid². A small grid is eliminated whole, with complete pivoting.
Phase 2  `resolve`: the pivots are points of the domain, so the slices through them are functions;
         each side's grid is refined until those functions are resolved.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dgetrf

from attnrate.theory.domain import Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import FULL_ORDER, Array, Axis, Grid

#: The most entries of a matrix that is evaluated and eliminated whole
_SMALL = 1 << 14
#: The most columns per step; a pivot below this share of the first of its step is dropped
_TOGETHER = 24
_WEAKEST = 0.001
#: The most nodes of one side
_MOST_NODES = 1 << 17
#: The number of successive refinements that may fail to resolve more
_PATIENCE = 3
#: The most bisections towards a place with an error, and the most panels that they make
_FOCUS_DEPTH = 14
_FOCUS_PANELS = 64
#: The most entries of the slices of one side (nodes x rank)
_MOST_ENTRIES = 1 << 25


#: One side of a cross: its slices at any points
SliceFunction = Callable[[Float[Array, "points d"]], Float[Array, "points rank"]]


@dataclass(frozen=True, eq=False)
class Pivots:
    """The places of pivots in a matrix, and the eliminated columns and rows through them."""

    rows: list[int]
    columns: list[int]
    left: Float[Array, "m rank"]
    right: Float[Array, "rank n"]

    @property
    def lower(self) -> Float[Array, "rank rank"]:
        """The lower triangular factor of the matrix at the pivots, with a unit diagonal."""
        return self.left[self.rows]

    @property
    def upper(self) -> Float[Array, "rank rank"]:
        """The upper triangular factor of the matrix at the pivots."""
        return self.right[:, self.columns]


@dataclass(frozen=True, eq=False)
class Cross:
    """An approximation of rho from its slices through some points: rho(u, v) ≈ left(u) right(v).

    Args:
        rho: The coupling.
        pivots: The pivots of the elimination, in the matrix of two grids.
        u: The points u of the pivots.
        v: The points v of the pivots.
        scale: The largest size of rho that was seen.
        complete: Whether every sampled entry of the residual is within the tolerance.

    """

    rho: Evaluator
    pivots: Pivots
    u: Float[Array, "rank d"]
    v: Float[Array, "rank e"]
    scale: float
    complete: bool

    @property
    def rank(self) -> int:
        """The number of pivots."""
        return len(self.u)

    @property
    def fall(self) -> float:
        """The ratio of the last pivot to the first."""
        pivots = np.diagonal(self.pivots.upper)
        return float(abs(pivots[-1] / pivots[0])) if self.rank else 0.0

    def left(self, u: Float[Array, "m d"]) -> Float[Array, "m rank"]:
        """The column functions at u, eliminated: rho(u, v_J) upper⁻¹."""
        if self.rank == 0:
            return np.zeros((len(u), 0))
        rows, upper = self.rho.outer(u, self.v).T, self.pivots.upper
        solved: Array = solve_triangular(upper, rows, trans="T", check_finite=False)
        return solved.T

    def right(self, v: Float[Array, "n e"]) -> Float[Array, "n rank"]:
        """The row functions at v, eliminated: (lower⁻¹ rho(u_I, v))ᵀ."""
        if self.rank == 0:
            return np.zeros((len(v), 0))
        rows = self.rho.outer(self.u, v)
        solved: Array = solve_triangular(
            self.pivots.lower, rows, lower=True, unit_diagonal=True, check_finite=False
        )
        return solved.T

    def holds(self, u: Float[Array, "s d"], v: Float[Array, "s e"], tolerance: float) -> bool:
        """Whether the cross agrees with rho at points off the grid that made it."""
        gap = self.rho.pairs(u, v) - np.sum(self.left(u) * self.right(v), axis=1)
        return bool(np.max(np.abs(gap)) <= tolerance * self.scale)


def find_cross(
    rho: Evaluator,
    u: Float[Array, "m d"],
    v: Float[Array, "n e"],
    tolerance: float,
    most: int,
    generator: np.random.Generator,
) -> Cross:
    """Add pivots until every sampled entry of the residual is small.

    Args:
        rho: The coupling.
        u: The grid of u.
        v: The grid of v.
        tolerance: The size of the residual that is allowed, over the largest value seen.
        most: The most pivots; the cross is not `complete` if they do not suffice.
        generator: Draws the sampled entries.

    """
    m, n = len(u), len(v)
    most = min(most, m, n)
    if m * n <= _SMALL:
        rest = rho.outer(u, v)
        scale = float(np.max(np.abs(rest)))
        pivots = _eliminate(rest, tolerance * scale, most)
        complete = bool(np.max(np.abs(rest)) <= tolerance * scale)
        return Cross(rho, pivots, u[pivots.rows], v[pivots.columns], scale, complete)
    left, right = np.empty((m, most), order="F"), np.empty((most, n))
    rows: list[int] = []
    columns: list[int] = []
    at_i, at_j, rest = _sampled(rho, u, v, left[:, :0], right[:0], generator)
    if not rest.any():
        # zero at every sample: sample much more densely before believing that rho is zero
        at_i, at_j, rest = _sampled(rho, u, v, left[:, :0], right[:0], generator, effort=32)
    scale = float(np.max(np.abs(rest)))
    second_look = False
    while True:
        k = len(rows)
        if np.max(np.abs(rest)) <= tolerance * scale:
            if second_look:
                break
            # the entries that steered the elimination are not the ones that end it
            second_look = True
            at_i, at_j, rest = _sampled(rho, u, v, left[:, :k], right[:k], generator)
            scale = max(scale, float(np.max(np.abs(rest))))
            continue
        second_look = False
        if k == most:
            break
        chosen = _worst_columns(at_j, rest, n, min(_TOGETHER, most - k))
        block = rho.outer(u, v[chosen]) - left[:, :k] @ right[:k, chosen]
        through = _pivot_rows(block, tolerance * scale)
        # the largest entries of those rows are better pivots: without them the rows grow, and
        # with the rows the noise of every later slice
        strips = rho.outer(u[through], v) - left[through, :k] @ right[:k]
        across = _eliminate(strips, tolerance * scale, len(through))
        new = len(across.rows)
        if new == 0:
            break
        fresh = slice(k, k + new)
        block = rho.outer(u, v[across.columns]) - left[:, :k] @ right[:k, across.columns]
        left[:, fresh] = _right_solve(block, across.upper)
        right[fresh] = across.right
        rows += [through[i] for i in across.rows]
        columns += across.columns
        scale = max(scale, abs(float(across.right[0, across.columns[0]]))) if k == 0 else scale
        rest = rest - np.einsum("ks,ks->s", left.T[fresh, at_i], right[fresh, at_j])
    complete = bool(np.max(np.abs(rest)) <= tolerance * scale)
    pivots = Pivots(rows, columns, left[:, :k], right[:k])
    return Cross(rho, pivots, u[rows], v[columns], scale, complete)


def _right_solve(block: Float[Array, "m k"], upper: Float[Array, "k k"]) -> Float[Array, "m k"]:
    """Compute block upper⁻¹ in place, for a small upper triangular matrix."""
    for t in range(len(upper)):
        block[:, t] -= block[:, :t] @ upper[:t, t]
        block[:, t] /= upper[t, t]
    return block


def _sampled(
    rho: Evaluator,
    u: Float[Array, "m d"],
    v: Float[Array, "n e"],
    left: Float[Array, "m k"],
    right: Float[Array, "k n"],
    generator: np.random.Generator,
    effort: int = 1,
) -> tuple[Int[Array, " s"], Int[Array, " s"], Float[Array, " s"]]:
    """Entries drawn at random (rows, columns), and their residuals after the pivots so far."""
    size = effort * (len(u) + len(v)) // 2
    i, j = generator.integers(len(u), size=size), generator.integers(len(v), size=size)
    return i, j, rho.pairs(u[i], v[j]) - np.einsum("ks,ks->s", left.T[:, i], right[:, j])


def _worst_columns(
    at_j: Int[Array, " s"], rest: Float[Array, " s"], n: int, most: int
) -> Int[Array, " columns"]:
    """The columns of the largest residuals, the largest first, no two of them close together."""
    order = at_j[np.argsort(-np.abs(rest))]
    _, first = np.unique(order * (4 * _TOGETHER) // n, return_index=True)
    return order[np.sort(first)][:most]


def _pivot_rows(block: Float[Array, "m k"], least: float) -> list[int]:
    """For each column, the row of its largest entry after the columns before it are eliminated.

    Columns without an entry above `least`, or with a weak pivot, are left out.
    """
    while block.shape[1]:
        factors, swaps, _ = dgetrf(block)
        pivots = np.abs(np.diagonal(factors))
        strong = pivots > max(least, _WEAKEST * pivots[0])
        if strong.all():
            order = np.arange(len(block))
            for j, i in enumerate(swaps):
                order[[j, i]] = order[[i, j]]
            return [int(i) for i in order[: len(pivots)]]
        # a weak column would still take its row away from those after it
        block = block[:, : len(pivots)][:, strong]
    return []


def _eliminate(rest: Float[Array, "m n"], least: float, most: int) -> Pivots:
    """Eliminate a whole matrix with complete pivoting, down to `least`; `rest` is overwritten."""
    rows: list[int] = []
    columns: list[int] = []
    left, right = np.empty((len(rest), most)), np.empty((most, rest.shape[1]))
    for k in range(most):
        i, j = divmod(int(np.argmax(np.abs(rest))), rest.shape[1])
        if abs(rest[i, j]) <= least:
            break
        left[:, k], right[k] = rest[:, j] / rest[i, j], rest[i]
        rest -= np.multiply.outer(left[:, k], right[k])
        rows.append(i)
        columns.append(j)
    return Pivots(rows, columns, left[:, : len(rows)], right[: len(rows)])


def kinked(rho: Evaluator, axis: Axis, v: Float[Array, "slices e"]) -> bool:
    """Whether slices of rho are rough in at most half of the panels: a kink, not noise."""
    slices = rho.outer(axis.nodes[:, None], v)
    slices = slices / np.sqrt(axis.weights @ slices**2 + np.finfo(float).tiny)
    rough = np.sum(axis.missed_by_column(slices) > 1e-10, axis=0)
    return bool(1 <= np.max(rough, initial=0) <= axis.panels // 2)


def focused(
    grid: Grid,
    at: Float[Array, "places d"],
    truth: Float[Array, " places"],
    slices: Callable[[Float[Array, "nodes d"]], Float[Array, "nodes places"]],
    tolerance: float,
) -> tuple[Grid, bool]:
    """Bisect the panels of one axis until they resolve rho at some places.

    A panel is bisected if the polynomial of a slice in it misses its place or is not resolved;
    panels with a kink are never resolved.

    Args:
        grid: A grid of one axis.
        at: The places.
        truth: rho at the places.
        slices: Gives rho along this axis through each of the places.
        tolerance: The error that is allowed.

    Returns:
        The refined grid, and whether it resolves rho at the places.

    """
    (axis,) = grid.axes
    grid = Grid((axis.with_order(FULL_ORDER).cut(-(-axis.order // FULL_ORDER)),))
    for _ in range(_FOCUS_DEPTH):
        (axis,) = grid.axes
        values = slices(grid.nodes)
        off = np.abs(np.diagonal(grid.interpolate(values, at)) - truth) > tolerance
        chosen = np.any(axis.missed_by_column(values) > tolerance, axis=1)
        chosen[axis.locate(at[:, 0])[0][off]] = True
        chosen &= axis.wide()
        if not chosen.any():
            return grid, True
        if axis.panels + chosen.sum() > _FOCUS_PANELS:
            break
        grid = Grid((axis.refined(chosen)[0],))
    return grid, False


def resolve(
    grid: Grid | Samples,
    slices: SliceFunction,
    values: Float[Array, "nodes rank"],
    sizes: Float[Array, " rank"],
    tolerance: float,
) -> tuple[Grid | Samples, Float[Array, "new_nodes rank"], float]:
    """Refine a grid until slices of rho are resolved on it.

    Args:
        grid: The grid; samples are returned as they are.
        slices: The slices as functions.
        values: The slices on the grid.
        sizes: The weight of each slice.
        tolerance: The L² norm that may stay unresolved, per panel.

    Returns:
        The refined grid, the slices on it, and the L² norm of what is still unresolved.

    """
    if isinstance(grid, Samples) or values.shape[1] == 0:
        return grid, values, 0.0
    least, stalled = np.inf, 0
    while True:
        missing = grid.unresolved(values * sizes)
        smooth = False
        if grid.d == 1:
            (axis,) = grid.axes
            at_edges = slices(axis.edges[:, None])
            missing = (np.hypot(missing[0], axis.hidden(values * sizes, at_edges * sizes)),)
            smooth = axis.falls(values * sizes)
        total = float(np.sqrt(sum(np.sum(norm**2) for norm in missing)))
        # a kink loses more than half with every bisection; noise of the slices does not
        stalled = stalled + 1 if total > 0.7 * least else 0
        least = min(least, total)
        if stalled > _PATIENCE:
            break
        step = grid.refined(missing, tolerance, smooth)
        if step is None:
            break
        finer, kept = step
        if len(kept) > _MOST_NODES or len(kept) * values.shape[1] > _MOST_ENTRIES:
            break
        grid = finer
        new = np.empty((len(kept), values.shape[1]))
        new[kept >= 0] = values[kept[kept >= 0]]
        new[kept < 0] = slices(grid.nodes[kept < 0])
        values = new
    return grid, values, total
