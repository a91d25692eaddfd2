"""POD over samples: the singular value decomposition of the matrix of all pairs.

A matrix of up to a thousand rows or so is decomposed whole. Where few values of a larger one are
asked for they are found in a block Krylov space (Musco and Musco 2015), which is extended until
what the triples leave of their equation A v = sigma u is small enough: within that distance of
every sigma there is a singular value.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr, svd

from attnrate.theory.decomposition import (
    EPS,
    Pod,
    Request,
    assemble,
    count_values,
    without_constants,
)
from attnrate.theory.domain import Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import Array

#: Samples up to which the whole matrix is decomposed
DENSE_SAMPLES = 1024
#: The share of all values up to which it pays to look for the largest ones alone
_SHARE = 0.25
#: Columns of a block: the least, and how many blocks the values that are asked for take
_LEAST_BLOCK = 16
_BLOCKS = 4
#: A space has at most twice as many dimensions as values are asked for, and so many more
_MORE = 256
#: Values that must be certain for a result to count as converged
_VALUES = 50


def decompose_samples(rho: Evaluator, du: Samples, dv: Samples, ask: Request) -> Pod:
    """The SVD of rho(u_i, v_j)/sqrt(N M): the whole of it, or the values that are asked for."""
    rho.watch.phase = f"the matrix of {len(du.points)} x {len(dv.points)} samples"
    with rho.watch.free():
        values = rho.outer(du.nodes, dv.nodes)
        if rho.change_unit(float(np.max(np.abs(values)))):
            values = rho.outer(du.nodes, dv.nodes)
    matrix = values / np.sqrt(values.size)
    norm = float(np.linalg.norm(matrix))
    if ask.gauge == "softmax":
        matrix = without_constants(matrix.T, dv.weights).T
    size = min(matrix.shape)
    if size > DENSE_SAMPLES and ask.max_rank <= _SHARE * size:
        left, sigma, right, doubt = _largest(rho, matrix, ask, norm)
    else:
        left, sigma, right_t = svd(matrix, full_matrices=False, check_finite=False)
        right, doubt = right_t.T, np.zeros(size)
    wanted = count_values(sigma, norm, ask)
    certain = int(np.argmin(np.append(doubt[:wanted] <= ask.rtol * norm, False)))
    keep = certain if certain >= min(wanted, _VALUES) else wanted
    # those that are not returned, which the Frobenius norm knows even where they were not computed
    every = float(np.sum(matrix**2)) if len(sigma) < size else float(np.sum(sigma**2))
    beyond = max(0.0, every - float(np.sum(sigma**2)))
    error = max(float(np.max(doubt[:keep], initial=0.0)), EPS * norm)
    judged = (error, error <= ask.rtol * norm, norm)
    made = assemble(rho, (du, du, left), (dv, dv, right), sigma, keep, beyond, judged, ask)
    return replace(made, resolution=0.0)  # every pair was asked for


def _largest(
    rho: Evaluator, matrix: Float[Array, "m n"], ask: Request, norm: float
) -> tuple[Float[Array, "m k"], Float[Array, " k"], Float[Array, "n k"], Float[Array, " k"]]:
    """The largest singular triples, and by how much each may be off."""
    size = min(matrix.shape)
    block = min(max(_LEAST_BLOCK, -(-ask.max_rank // _BLOCKS)), size)
    most = min(size, 2 * ask.max_rank + _MORE)
    generator = np.random.default_rng(0)
    start = matrix @ generator.normal(size=(matrix.shape[1], block))
    space, images = np.empty((len(matrix), 0)), np.empty((matrix.shape[1], 0))
    while True:
        added = _beside(space, start)
        space = np.column_stack([space, added])
        images = np.column_stack([images, matrix.T @ added])
        start = matrix @ images[:, -added.shape[1] :]
        dimension = space.shape[1]
        rho.watch.phase = f"the largest values, in a space of {dimension} dimensions"
        ended = dimension + block > most or _late(rho)
        # a look costs as much as several blocks
        if not ended and (dimension < 2 * ask.max_rank or dimension % (4 * block)):
            continue
        q, r = qr(images, mode="economic", check_finite=False)
        a, sigma, b = svd(r.T, full_matrices=False, check_finite=False)
        # only the image of the last block leaves the space, and with it A v - sigma u
        outside = start - space @ (space.T @ start)
        doubt = np.linalg.norm(outside @ a[-added.shape[1] :], axis=0)
        doubt = doubt / np.maximum(sigma, EPS * norm)
        wanted = count_values(sigma, norm, ask)
        if ended or np.max(doubt[:wanted], initial=0.0) <= ask.rtol * norm:
            return space @ a, sigma, q @ b.T, doubt


def _late(rho: Evaluator) -> bool:
    with rho.watch.free():
        rho.watch.check()
    return rho.watch.spent


def _beside(space: Float[Array, "m k"], columns: Float[Array, "m b"]) -> Float[Array, "m b"]:
    """An orthonormal basis of what the columns have beside an orthonormal space."""
    for _ in range(2):  # the second time takes out what rounding has left
        columns = columns - space @ (space.T @ columns)
        columns = qr(columns, mode="economic", check_finite=False)[0]
    return columns
