"""Pivoted cross approximation: a function of two variables from a few of its rows and columns.

Phase 1  `find_cross`: Gaussian elimination on the implicit matrix rho(u_i, v_j). Each step takes
         the columns of the worst of a set of sampled entries, the rows through their pivots, and
         the columns through those rows' pivots: a few slices of rho a pivot, so the cost is grid x
         rank, not grid². A grid that a few slices fill is eliminated whole, with the best pivots.
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

#: Entries of a matrix that is asked for and eliminated whole
_SMALL = 1 << 14
#: Columns taken in one step, and the pivots among them that are too weak beside the first
_TOGETHER = 24
_WEAKEST = 0.001
#: Nodes beyond which one side is not refined further
_MOST_NODES = 1 << 17
#: Refinements in a row that may fail to resolve more
_PATIENCE = 3
#: Bisections towards a place where something is missed, and the panels they may make
_FOCUS_DEPTH = 14
_FOCUS_PANELS = 64
#: Entries of one side's slices (nodes x rank) beyond which it is not refined further
_MOST_ENTRIES = 1 << 25


#: One side of a cross: its slices at any points
SliceFunction = Callable[[Float[Array, "points d"]], Float[Array, "points rank"]]


@dataclass(frozen=True, eq=False)
class Pivots:
    """Where pivots stand in a matrix, and the eliminated columns and rows through them."""

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
    """rho ~ left(u) right(v): pivots at the crossings, `complete` when nothing sampled is left.

    `u` and `v` are the points of the pivots, which stand in the matrix of two grids.
    """

    rho: Evaluator
    pivots: Pivots
    u: Float[Array, "rank d"]
    v: Float[Array, "rank e"]
    scale: float
    complete: bool

    @property
    def rank(self) -> int:
        """How many crossings."""
        return len(self.u)

    @property
    def fall(self) -> float:
        """The last pivot over the first."""
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
    """Crossings until every sampled entry is below `tolerance` x the largest value seen.

    `complete` is False when `most` crossings were not enough.
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
        # zero at every sample: looked at much more closely before that is believed
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
        # with the rows the noise of every slice that is asked for later
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
    """block upper⁻¹ for a small upper triangular matrix, in place."""
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
    """Entries drawn at random, and what the crossings so far leave of them."""
    size = effort * (len(u) + len(v)) // 2
    i, j = generator.integers(len(u), size=size), generator.integers(len(v), size=size)
    return i, j, rho.pairs(u[i], v[j]) - np.einsum("ks,ks->s", left.T[:, i], right[:, j])


def _worst_columns(
    at_j: Int[Array, " s"], rest: Float[Array, " s"], n: int, most: int
) -> Int[Array, " columns"]:
    """The columns of the worst sampled entries, the worst first, no two of them close together."""
    order = at_j[np.argsort(-np.abs(rest))]
    _, first = np.unique(order * (4 * _TOGETHER) // n, return_index=True)
    return order[np.sort(first)][:most]


def _pivot_rows(block: Float[Array, "m k"], least: float) -> list[int]:
    """The row of the largest entry of each column, the columns before it eliminated.

    Columns with nothing above `least`, or too weak beside the first, are left out.
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
    """Complete pivoting on a matrix that is known whole, down to `least`; `rest` is used up."""
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
    """Whether slices of rho at these v are rough, in half of the panels at most."""
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
    """One axis with panels bisected until they show what is at those places; whether they do.

    `slices` gives rho along this axis through each of the places, and `truth` is rho there. Panels
    are bisected in which the polynomial of a slice misses its place or is not resolved; those of a
    kink never are.
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
    """Refine `grid` until the slices (`values` on it), weighted by `sizes`, are resolved.

    Returns the grid, the slices on it, and the L² norm of what is still unresolved.
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
        # a kink loses more than half with every bisection; what does not is noise of the slices
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
