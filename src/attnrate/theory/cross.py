"""Pivoted cross approximation: a function of two variables from a few of its rows and columns.

Phase 1  `find_cross`: Gaussian elimination on the implicit matrix rho(u_i, v_j). Each step starts
         from the worst of a set of sampled entries, improves the pivot by a rook's moves, and asks
         rho for about three slices, so the cost is grid x rank, never grid². A grid so small that
         a dozen slices fill it is eliminated whole, with the best pivot at every step.
Phase 2  `resolve`: the pivots are points of the domain, so the slices through them are functions;
         each side's grid is refined until those functions are resolved.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import solve_triangular

from attnrate.theory.domain import Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import Array, Grid

#: Entries of a matrix that is asked for and eliminated whole
_SMALL = 1 << 14
#: Entries of a matrix that is asked for whole once slices of a coarser one were too many
_TABLE = 1 << 18
#: Nodes beyond which one side is not refined further
_MOST_NODES = 1 << 17
#: Entries of one side's slices (nodes x rank) beyond which it is not refined further
_MOST_ENTRIES = 1 << 25


@dataclass(frozen=True, eq=False)
class Cross:
    """rho ~ left(u) right(v): pivots at the crossings, `complete` when nothing sampled is left."""

    u: Float[Array, "rank d"]
    v: Float[Array, "rank e"]
    #: rho at the pivots = lower @ upper, both triangular; `lower` has a unit diagonal
    lower: Float[Array, "rank rank"]
    upper: Float[Array, "rank rank"]
    #: the column and row functions on the grids on which they were found
    on_u: Float[Array, "m rank"]
    on_v: Float[Array, "n rank"]
    scale: float
    complete: bool

    @property
    def rank(self) -> int:
        """How many crossings."""
        return len(self.u)

    def left(self, rho: Evaluator, u: Float[Array, "m d"]) -> Float[Array, "m rank"]:
        """The column functions at u, eliminated: rho(u, v_J) upper⁻¹."""
        if self.rank == 0:
            return np.zeros((len(u), 0))
        columns = rho.outer(u, self.v)
        solved: Array = solve_triangular(self.upper, columns.T, trans="T", check_finite=False)
        return solved.T

    def right(self, rho: Evaluator, v: Float[Array, "n e"]) -> Float[Array, "n rank"]:
        """The row functions at v, eliminated: (lower⁻¹ rho(u_I, v))ᵀ."""
        if self.rank == 0:
            return np.zeros((len(v), 0))
        rows = rho.outer(self.u, v)
        solved: Array = solve_triangular(
            self.lower, rows, lower=True, unit_diagonal=True, check_finite=False
        )
        return solved.T


def find_cross(
    rho: Evaluator,
    u: Float[Array, "m d"],
    v: Float[Array, "n e"],
    tolerance: float,
    most: int,
    generator: np.random.Generator,
    whole: bool = False,
) -> Cross:
    """Crossings until every sampled entry is below `tolerance` x the largest value seen.

    `complete` is False when `most` crossings were not enough. `whole` says that many are expected:
    a matrix of moderate size is then asked for at once, which is less than three slices a crossing.
    """
    m, n = len(u), len(v)
    most = min(most, m, n)
    if m * n <= _SMALL:
        return _eliminate(rho.outer(u, v), u, v, tolerance, most)
    table = rho.outer(u, v) if whole and m * n <= _TABLE else None
    left, right = np.empty((m, most), order="F"), np.empty((most, n))
    chosen_rows: list[int] = []
    chosen_columns: list[int] = []

    def column(j: int) -> Float[Array, " m"]:
        k = len(chosen_rows)
        values = rho.outer(u, v[j : j + 1])[:, 0] if table is None else table[:, j]
        return np.asarray(values - left[:, :k] @ right[:k, j])

    def row(i: int) -> Float[Array, " n"]:
        k = len(chosen_rows)
        values = rho.outer(u[i : i + 1], v)[0] if table is None else table[i]
        return np.asarray(values - left[i, :k] @ right[:k])

    def sample() -> tuple[Int[Array, " s"], Int[Array, " s"], Float[Array, " s"]]:
        k = len(chosen_rows)
        i, j = generator.integers(m, size=2 * (m + n)), generator.integers(n, size=2 * (m + n))
        known = np.einsum("ks,ks->s", left.T[:k, i], right[:k, j]) if k else 0.0
        return i, j, (rho.pairs(u[i], v[j]) if table is None else table[i, j]) - known

    at_i, at_j, rest = sample()
    scale = float(np.max(np.abs(rest)))
    second_look = False
    while True:
        worst = int(np.argmax(np.abs(rest)))
        if abs(rest[worst]) <= tolerance * scale:
            if second_look:
                break
            # the entries that steered the elimination are not the ones that end it
            second_look = True
            at_i, at_j, rest = sample()
            scale = max(scale, float(np.max(np.abs(rest))))
            continue
        if len(chosen_rows) == most:
            break
        second_look = False
        c = column(j := int(at_j[worst]))
        r = row(i := int(np.argmax(np.abs(c))))
        if (better := int(np.argmax(np.abs(r)))) != j:
            c = column(j := better)
            if (better := int(np.argmax(np.abs(c)))) != i:
                r = row(i := better)
        pivot = float(c[i])
        if pivot == 0.0:
            break
        k = len(chosen_rows)
        left[:, k], right[k] = c / pivot, r
        chosen_rows.append(i)
        chosen_columns.append(j)
        scale = max(scale, abs(pivot)) if k == 0 else scale
        rest = rest - left[at_i, k] * right[k, at_j]

    k = len(chosen_rows)
    return Cross(
        u=u[chosen_rows],
        v=v[chosen_columns],
        lower=left[chosen_rows, :k],
        upper=right[:k, chosen_columns],
        on_u=left[:, :k],
        on_v=right[:k].T,
        scale=scale,
        complete=bool(np.max(np.abs(rest)) <= tolerance * scale),
    )


def _eliminate(
    rest: Float[Array, "m n"],
    u: Float[Array, "m d"],
    v: Float[Array, "n e"],
    tolerance: float,
    most: int,
) -> Cross:
    """The crossings of a matrix that is known whole; `rest` is used up."""
    scale = float(np.max(np.abs(rest)))
    rows: list[int] = []
    columns: list[int] = []
    left, right = np.empty((len(u), most)), np.empty((most, len(v)))
    for k in range(most + 1):
        i, j = divmod(int(np.argmax(np.abs(rest))), len(v))
        if abs(rest[i, j]) <= tolerance * scale or k == most:
            break
        left[:, k], right[k] = rest[:, j] / rest[i, j], rest[i]
        rest -= np.multiply.outer(left[:, k], right[k])
        rows.append(i)
        columns.append(j)
    k = len(rows)
    return Cross(
        u=u[rows],
        v=v[columns],
        lower=left[rows, :k],
        upper=right[:k, columns],
        on_u=left[:, :k],
        on_v=right[:k].T,
        scale=scale,
        complete=bool(abs(rest[i, j]) <= tolerance * scale),
    )


def holds(
    cross: Cross,
    rho: Evaluator,
    u: Float[Array, "s d"],
    v: Float[Array, "s e"],
    tolerance: float,
) -> bool:
    """Whether the cross agrees with rho at points off the grid that made it."""
    gap = rho.pairs(u, v) - np.sum(cross.left(rho, u) * cross.right(rho, v), axis=1)
    return bool(np.max(np.abs(gap)) <= tolerance * cross.scale)


def kinked(cross: Cross, rho: Evaluator, grid: Grid) -> bool:
    """Whether slices of rho are rough at a place or two at most (one axis)."""
    slices = rho.outer(grid.nodes, cross.v[:16])
    counts = []
    for column in slices.T:
        rough = grid.unresolved(column[:, None])[0] > 1e-10 * np.sqrt(grid.weights @ column**2)
        counts.append(int(rough.sum()))
    return 1 <= max(counts) <= 2


def resolve(
    grid: Grid | Samples,
    slices: "SliceFunction",
    values: Float[Array, "nodes rank"],
    sizes: Float[Array, " rank"],
    tolerance: float,
) -> tuple[Grid | Samples, Float[Array, "new_nodes rank"], float]:
    """Refine `grid` until the slices (`values` on it), weighted by `sizes`, are resolved.

    Returns the grid, the slices on it, and the L² norm of what is still unresolved.
    """
    if isinstance(grid, Samples) or values.shape[1] == 0:
        return grid, values, 0.0
    while True:
        missing = _missing(grid, slices, values, sizes)
        step = grid.refined(missing, tolerance)
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
    return grid, values, float(np.sqrt(sum(np.sum(norm**2) for norm in missing)))


def _missing(
    grid: Grid, slices: "SliceFunction", values: Array, sizes: Array
) -> tuple[Float[Array, " panels"], ...]:
    missing = grid.unresolved(values * sizes)
    if len(grid.axes) > 1:
        return missing
    at_edges = slices(grid.axes[0].edges[:, None])
    return (np.hypot(missing[0], grid.hidden(values * sizes, at_edges * sizes)),)


class SliceFunction:
    """One side of a cross as a function of points."""

    def __init__(self, cross: Cross, rho: Evaluator, side: str) -> None:
        self._function = cross.left if side == "u" else cross.right
        self._rho = rho

    def __call__(self, points: Float[Array, "m d"]) -> Float[Array, "m rank"]:
        """The slices at `points`."""
        return self._function(self._rho, points)
