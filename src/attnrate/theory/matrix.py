"""POD over samples: the singular value decomposition of the matrix of all pairs.

A matrix of up to a thousand rows or so is decomposed whole. Where few values of a larger one are
asked for they are found in a block Krylov space (Musco and Musco 2015), which is extended until
what the triples leave of their equation A v = sigma u is small enough: within that distance of
every sigma there is a singular value.
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr, svd

from attnrate.theory.decomposition import Pod, Request, assemble
from attnrate.theory.domain import Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.fresh import Factor
from attnrate.theory.panels import Array

#: Samples up to which the whole matrix is decomposed
DENSE_SAMPLES = 1024
#: The share of all values up to which it pays to look for the largest ones alone
_SHARE = 0.25
#: Columns of a block: narrow ones make a space of high powers, wide ones use the processor well
_BLOCK = 32
#: A space has at most three times as many dimensions as values are asked for, and so many more
_MORE = 256


def decompose_samples(rho: Evaluator, du: Samples, dv: Samples, ask: Request) -> Pod:
    """The SVD of rho(u_i, v_j)/sqrt(N M): the whole of it, or the values that are asked for."""
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
        # values that hardly fall: all of them are cheaper than a space that holds the largest
        left, sigma, right, doubt = _whole(rho, matrix)
    # those that are not returned, which the Frobenius norm knows even where they were not computed
    every = float(np.sum(matrix**2)) if len(sigma) < size else float(np.sum(sigma**2))
    beyond = max(0.0, every - float(np.sum(sigma**2)))
    sides = Factor(du, left), Factor(dv, right)
    # every pair was asked for, so that nothing is too small to be seen
    return assemble(rho, *sides, sigma, doubt, norm, ask, beyond=beyond, resolution=0.0)


_Triples = tuple[Float[Array, "m r"], Float[Array, " k"], Float[Array, "n r"], Float[Array, " k"]]


def _whole(rho: Evaluator, matrix: Float[Array, "m n"]) -> _Triples:
    """All singular triples, which are off by rounding only."""
    rho.watch.phase = f"all values of a matrix of {len(matrix)} x {matrix.shape[1]}"
    left, sigma, right = svd(matrix, full_matrices=False, check_finite=False)
    return left, sigma, right.T, np.zeros(len(sigma))


def _largest(rho: Evaluator, matrix: Float[Array, "m n"], ask: Request, norm: float) -> _Triples:
    """The largest singular triples, and by how much each may be off; vectors of those asked for.

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
    """Columns = space · within + basis · beside, with an orthonormal basis beside the space."""
    within, beside = np.zeros((space.shape[1], columns.shape[1])), np.eye(columns.shape[1])
    for _ in range(2):  # the second time takes out what rounding has left
        part = space.T @ columns
        columns, factor = qr(columns - space @ part, mode="economic", check_finite=False)
        within, beside = within + part @ beside, factor @ beside
    return columns, within, beside
