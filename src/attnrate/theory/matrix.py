"""POD over samples, and of a matrix: the singular value decomposition of all pairs.

A matrix of up to 1,024 rows or columns is decomposed whole. If few values of a larger one are asked
for, they are found in a block Krylov space (Musco and Musco 2015). The space is extended until the
triples satisfy their equation A v = sigma u closely enough: within the distance that remains, every
sigma has a singular value near it.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr, svd

from attnrate.calling import Called
from attnrate.theory.decomposition import Pod, Request, assemble
from attnrate.theory.domain import Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.fresh import Factor
from attnrate.theory.panels import Array
from attnrate.theory.singular import Side
from attnrate.theory.watch import Watch

#: The most samples of which the whole matrix is decomposed
DENSE_SAMPLES = 1024
#: The share of all values up to which it pays to look for the largest ones alone
_SHARE = 0.25
#: Columns of a block: narrow ones make a space of high powers, wide ones use the processor well
_BLOCK = 32
#: A space has at most three times as many dimensions as values are asked for, plus this number
_MORE = 256


def decompose_samples(rho: Evaluator, du: Samples, dv: Samples, ask: Request) -> Pod:
    """The SVD of rho(u_i, v_j)/sqrt(N M): all of it, or only the values that are asked for."""
    rho.watch.phase = f"the matrix of {len(du.points)} x {len(dv.points)} samples"
    with rho.watch.free():
        values = rho.outer_near_one(du.nodes, dv.nodes)
    matrix = values / np.sqrt(values.size)
    norm = float(np.linalg.norm(matrix))
    matrix = ask.ungauged(matrix, dv.weights)
    size = min(matrix.shape)
    few = size > DENSE_SAMPLES and ask.max_rank <= _SHARE * size
    found = _largest(rho, matrix, ask, norm) if few else _whole(rho, matrix)
    left, sigma, right, doubt = found
    wanted, certain = ask.count(sigma, doubt, norm)
    if certain < wanted and not rho.watch.timed:
        # the values hardly fall: computing all of them is cheaper than a space for the largest
        left, sigma, right, doubt = _whole(rho, matrix)
    # the Frobenius norm gives the sum of squares of the values that were not computed
    every = float(np.sum(matrix**2)) if len(sigma) < size else float(np.sum(sigma**2))
    beyond = max(0.0, every - float(np.sum(sigma**2)))
    sides = Factor(du, left), Factor(dv, right)
    # every pair was evaluated, so that no feature was missed
    return assemble(rho, *sides, sigma, doubt, norm, ask, beyond=beyond, resolution=0.0)


@dataclass(frozen=True, eq=False)
class _Entries:
    """A matrix as a function of the numbers of its rows and columns."""

    values: Float[Array, "m n"]

    def __call__(self, i: Float[Array, "..."], j: Float[Array, "..."]) -> Float[Array, "..."]:
        return np.asarray(self.values[i.astype(int), j.astype(int)])


def decompose_matrix(
    values: Float[Array, "m n"], u: Samples | None, v: Samples | None, ask: Request, watch: Watch
) -> Pod:
    """The POD of a matrix of values rho(u_i, v_j), known at its rows and columns only.

    Args:
        values: The matrix.
        u: What the rows belong to; by default their numbers 0, 1, ….
        v: What the columns belong to; by default their numbers 0, 1, ….
        ask: The arguments of `pod`.
        watch: Counts the entries, and may end the search.

    """
    du, dv = (Samples(np.arange(float(size))) for size in values.shape)
    rho = Evaluator(Called(_Entries(values)), du, dv, watch)
    found = decompose_samples(rho, du, dv, ask)
    return replace(found, _u=Side(u or du, found._u.values), _v=Side(v or dv, found._v.values))


_Triples = tuple[Float[Array, "m r"], Float[Array, " k"], Float[Array, "n r"], Float[Array, " k"]]


def _whole(rho: Evaluator, matrix: Float[Array, "m n"]) -> _Triples:
    """All singular triples, with errors of rounding only."""
    rho.watch.phase = f"all values of a matrix of {len(matrix)} x {matrix.shape[1]}"
    left, sigma, right = svd(matrix, full_matrices=False, check_finite=False)
    return left, sigma, right.T, np.zeros(len(sigma))


def _largest(rho: Evaluator, matrix: Float[Array, "m n"], ask: Request, norm: float) -> _Triples:
    """The largest singular values, by how much each may be off, and the vectors asked for.

    Blocks of Golub and Kahan: with orthonormal columns on both sides AᵀQ = P Lᵀ, and AP = Q L but
    for the last block, which leaves the space.
    """
    m, n = matrix.shape
    block = min(_BLOCK, m, n)
    most = min(m, n, 3 * ask.max_rank + _MORE)
    q, p = np.empty((m, most), order="F"), np.empty((n, most), order="F")
    core = np.zeros((most, most))
    start = matrix @ np.random.default_rng(0).normal(size=(n, block))
    added = _beside(q[:, :0], start)[0]
    k, look = 0, ask.max_rank + 2 * block
    looked, known = 0, 0
    while True:
        before, fresh, k = slice(k), slice(k, k + block), k + block
        q[:, fresh] = added
        p[:, fresh], within, own = _beside(p[:, before], matrix.T @ added)
        core[fresh, before], core[fresh, fresh] = within.T, own.T
        added, _, outside = _beside(q[:, :k], matrix @ p[:, fresh])
        rho.watch.phase = f"the largest values, in a space of {k} dimensions"
        with rho.watch.free():
            rho.watch.check()
        ended = k + block > most or rho.watch.spent
        if not ended and k < look:
            continue
        a, sigma, b = svd(core[:k, :k], full_matrices=False, check_finite=False)
        # only the image of the last block leaves the space, and with it A v - sigma u
        doubt = np.linalg.norm(outside @ b[:, fresh].T, axis=0)
        wanted, certain = ask.count(sigma, doubt, norm)
        if ended or certain == wanted:
            return q[:, :k] @ a[:, :wanted], sigma, p[:, :k] @ b[:wanted].T, doubt
        # a look costs as much as several blocks: the next one comes when all should be certain
        each = (k - looked) / max(1, certain - known)
        look = k + int(np.clip((wanted - certain) * each, block, k // 4))
        looked, known = k, certain


def _beside(
    space: Float[Array, "m k"], columns: Float[Array, "m b"]
) -> tuple[Float[Array, "m b"], Float[Array, "k b"], Float[Array, "b b"]]:
    """Split columns into space · within + basis · beside, basis orthonormal to the space."""
    within, beside = np.zeros((space.shape[1], columns.shape[1])), np.eye(columns.shape[1])
    for _ in range(2):  # the second time takes out what rounding has left
        part = space.T @ columns
        columns, factor = qr(columns - space @ part, mode="economic", check_finite=False)
        within, beside = within + part @ beside, factor @ beside
    return columns, within, beside
