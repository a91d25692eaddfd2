"""POD of couplings with kinks or jumps: Galerkin on ever more panels (see `galerkin.py`).

Only singular values whose functions are resolved are returned; the rest is known as a tail, and
the residual at fresh points must agree with it.
"""

from dataclasses import replace

import numpy as np
from scipy.linalg import svd

from attnrate.theory.decomposition import (
    EPS,
    FRESH,
    Pod,
    Request,
    assemble,
    count_values,
    without_constants,
)
from attnrate.theory.domain import Region
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.galerkin import GalerkinMatrix, corrected, missed_by_block, nodal_matrix
from attnrate.theory.panels import panel_rule, product_grid

#: Galerkin unknowns: where it starts and where it stops
_NODES = (256, 1024)
#: Singular values that must be certified for a result to count as converged
_VALUES = 50


def decompose_kinked(
    rho: Evaluator, du: Region, dv: Region, ask: Request, generator: np.random.Generator
) -> Pod:
    """Kinks: Galerkin on ever more panels, keeping the values whose functions are resolved."""
    start, stop = _NODES
    pieces = max(len(du.axes[0]), len(dv.axes[0]))
    order = 32 if pieces <= 16 else 16
    cut = max(1, start // (order * pieces))
    while True:
        gu, gv = product_grid(du.axes, order, cut), product_grid(dv.axes, order, cut)
        (au,), (av,) = gu.axes, gv.axes
        last = 2 * max(len(au.nodes), len(av.nodes)) > max(stop, 2 * order * pieces)
        nodal = nodal_matrix(rho, au, av)
        norm = float(np.linalg.norm(nodal))
        tolerance = ask.fine * norm / np.sqrt(au.panels + av.panels)
        rough = missed_by_block(rho, nodal, au, av)
        crossed = rough > tolerance
        if not last and crossed.sum() > 6 * (au.panels + av.panels):
            cut *= 2
            continue
        if 2 * crossed.sum() > crossed.size:
            # kinks along curves do not cross most blocks: rho is rough, and integrals take ages
            built = GalerkinMatrix(nodal, 0.0, float(np.linalg.norm(rough)))
        else:
            built = corrected(rho, nodal, crossed, au, av, tolerance)
        matrix = built.matrix
        norm = float(np.sqrt(np.sum(matrix**2) + built.missed))
        if ask.gauge == "softmax":
            matrix = without_constants(matrix.T, gv.weights).T
        left, sigma, right_t = svd(matrix, full_matrices=False, check_finite=False)
        # Rayleigh-Ritz: a singular value is wrong by about the square of what its functions miss
        missed = sum(
            np.sum(
                (panel_rule(order).transform[:, -2:].T @ part.reshape(axis.panels, order, -1)) ** 2,
                axis=(0, 1),
            )
            for axis, part in ((au, left), (av, right_t.T))
        )
        doubt = sigma * missed + built.unresolved + EPS * norm
        wanted = count_values(sigma, norm, ask)
        certain = int(np.argmin(np.append(doubt[:wanted] <= ask.rtol * norm, False)))
        if certain == wanted or last:
            break
        cut *= 2
    good = certain >= min(wanted, _VALUES)
    keep = certain if good else wanted
    error = float(np.max(doubt[:keep], initial=EPS * norm))
    judged = (error, good, norm)
    sides = (du, gu, left), (dv, gv, right_t.T)
    result = assemble(rho, *sides, sigma, keep, built.missed, judged, ask)
    volume = gu.volume * gv.volume
    if not _tail_agrees(rho, result, du, dv, volume, generator, ask.gauge is not None):
        return replace(result, converged=False, error=max(error, result.rest))
    return result


def _tail_agrees(
    rho: Evaluator,
    result: Pod,
    du: Region,
    dv: Region,
    volume: float,
    generator: np.random.Generator,
    gauged: bool,
) -> bool:
    """Phase 4 for a spectrum that goes on: no more may be left at fresh points than the tail.

    The residual lives in a thin band around a kink, so its mean is known only roughly; what is
    looked for is a feature that the panels have not seen. Modulo the gauge, differences between two
    points v are compared, in which c(u) cancels and whose squares are twice as large.
    """
    u, v = du.draw(8 * FRESH, generator), dv.draw(8 * FRESH, generator)
    off = rho.pairs(u, v) - result(u[:, 0], v[:, 0])
    if gauged:
        other = dv.draw(8 * FRESH, generator)
        off = (off - rho.pairs(u, other) + result(u[:, 0], other[:, 0])) / np.sqrt(2.0)
    gap = off**2 * volume
    spread = float(np.std(gap)) / np.sqrt(len(gap))
    return bool(np.mean(gap) <= 4 * result.rest**2 + 6 * spread + 64 * EPS * result.norm**2)
