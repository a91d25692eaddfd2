"""POD (Eq. 10, 11): the singular value decomposition of a function of two variables.

Phase 1  a pivoted cross approximation finds the points through which rho is known (`cross.py`);
Phase 2  the slices through them are resolved on adaptive Legendre panels (`panels.py`);
Phase 3  QR of both sides and the SVD of a small core give sigma, phi and psi;
Phase 4  the result is tried at points that did not make it, and phase 1 begins again if it fails.
A coupling that is not of low rank because of kinks goes to `kinks.py` instead of phases 1-3.
"""

import warnings
from functools import partial

import numpy as np
from scipy.linalg import qr, svd

from attnrate.errors import AccuracyWarning, InputError, require_choice, require_whole
from attnrate.theory.cross import Cross, SliceFunction, find_cross, holds, kinked, resolve
from attnrate.theory.decomposition import (
    EPS,
    FRESH,
    Gauge,
    Pod,
    Request,
    assemble,
    count_values,
    without_constants,
)
from attnrate.theory.domain import Domain, Region, Samples, as_domain
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.kinks import decompose_kinked
from attnrate.theory.panels import FULL_ORDER, Array, Axis, Grid

#: Rounds of phases 1 to 4
_ROUNDS = 8
#: Where a cross is looked for before the coupling counts as not of low rank: on one axis with
#: polynomials of these orders, then on panels; in 2 and 3 dimensions up to so many nodes
_CROSS_ORDERS = (128, 256)
_CROSS_PANELS = 64
#: Panels on which slices are searched for kinks
_KINK_PANELS = 16
_CROSS_NODES = {2: 4096, 3: 32768}
#: Samples up to which the whole matrix is decomposed
_DENSE_SAMPLES = 1024
_LARGEST_DENSE = 6000


def pod(
    rho: object,
    u: object,
    v: object = None,
    *,
    rtol: object = 1e-12,
    max_rank: object = 512,
    gauge: object = None,
) -> Pod:
    """The SVD of rho on u x v (Eq. 10): sigma, phi and psi, with an estimate of the error.

    rho is a vectorised function of numpy arrays, a torch module, or a coupling of a target. u and v
    are domains as in `as_domain`; v defaults to u. Singular values below rtol·sigma_1 are dropped,
    and at most max_rank are returned. With gauge="softmax" the constants in v are projected out,
    rho - mean_v rho, because softmax does not see them; that gives the smallest tail for every
    rank among all rho + c(u).
    """
    du = as_domain(u, "u")
    dv = du if v is None else as_domain(v, "v")
    if isinstance(rtol, bool) or not isinstance(rtol, int | float) or not 0 < rtol < 1:
        raise InputError("rtol must lie between 0 and 1", rtol, "The default is 1e-12.")
    most = require_whole("max_rank", max_rank, 1)
    require_choice("gauge", gauge, (None, "softmax"))
    modulo: Gauge = None if gauge is None else "softmax"
    evaluator = Evaluator(rho, du, dv)
    result = _decompose(evaluator, du, dv, Request(max(float(rtol), 64 * EPS), most, modulo))
    result = result.scaled(evaluator.unit)
    if not result.converged:
        warnings.warn(
            f"the POD did not converge: the singular values are uncertain by {result.error:.2g} "
            f"({result.error / max(result.norm, 1e-300):.1e} of the norm of rho), "
            f"asked for {rtol:.1e}. Raise rtol, or look for where rho is rough.",
            AccuracyWarning,
            stacklevel=2,
        )
    return result


def _decompose(rho: Evaluator, du: Domain, dv: Domain, ask: Request) -> Pod:
    if _both_samples(du, dv, _DENSE_SAMPLES):
        return _dense_samples(rho, du, dv, ask)
    generator = np.random.default_rng(0)
    gu, gv = _start(du), _start(dv)
    best: Pod | None = None
    for _ in range(_ROUNDS):
        most = min(len(g.nodes) * (5 if isinstance(g, Samples) else 3) // 5 for g in (gu, gv))
        budget = (ask.fine, min(most, 1024))
        look = partial(find_cross, rho, gu.nodes, gv.nodes, *budget, generator)
        cross = look()
        while rho.change_unit(cross.scale):
            cross = look()
        finer = (_finer(gu, cross), _finer(gv, cross))
        stuck = finer == (None, None)
        fresh = du.draw(FRESH // 4, generator), dv.draw(FRESH // 4, generator)
        # zero wherever rho was seen so far: it is looked at more closely before that is believed
        unseen = cross.scale == 0.0 and not stuck
        sound = cross.complete and not unseen and holds(cross, rho, *fresh, 100 * ask.rtol)
        if isinstance(du, Region) and isinstance(dv, Region) and du.d == dv.d == 1 and not unseen:
            assert isinstance(gu, Grid)
            # a kink in a part of the domain can be of full rank there and yet complete and sound
            suspect = len(gu.nodes) >= _CROSS_ORDERS[0] and (not sound or cross.rank > most // 4)
            if (stuck and not sound) or (
                suspect and kinked(cross, rho, Grid((_in_panels(gu.axes[0], _KINK_PANELS),)))
            ):
                return decompose_kinked(rho, du, dv, ask, generator)
        if not sound and stuck and _both_samples(du, dv, _LARGEST_DENSE):
            return _dense_samples(rho, du, dv, ask)
        if sound or stuck:
            best = _from_cross(rho, cross, (du, gu), (dv, gv), ask, generator)
            if best.converged or stuck:
                break
        gu, gv = finer[0] or gu, finer[1] or gv
    assert best is not None
    return best


def _from_cross(
    rho: Evaluator,
    cross: Cross,
    u_side: tuple[Domain, Grid | Samples],
    v_side: tuple[Domain, Grid | Samples],
    ask: Request,
    generator: np.random.Generator,
) -> Pod:
    """Phases 2 to 4 for a cross that was found on the grids of the two sides."""
    (du, gu), (dv, gv) = u_side, v_side
    left, right = (SliceFunction(cross, rho, side) for side in "uv")
    size_left = np.sqrt(gu.weights @ cross.on_u**2)
    size_right = np.sqrt(gv.weights @ cross.on_v**2)
    norm = _frobenius(cross.on_u, gu.weights, cross.on_v, gv.weights)
    ru, left_values, miss_u = resolve(gu, left, cross.on_u, size_right, ask.fine * norm)
    rv, right_values, miss_v = resolve(gv, right, cross.on_v, size_left, ask.fine * norm)
    residual = _fresh_residual(
        rho, (du, ru, left, left_values), (dv, rv, right, right_values), generator
    )
    error = float(np.hypot(residual, np.hypot(miss_u, miss_v)))
    return _from_factors(rho, (du, ru, left_values), (dv, rv, right_values), error, ask)


def _start(domain: Domain) -> Grid | Samples:
    return domain if isinstance(domain, Samples) else domain.start_grid()


def _finer(grid: Grid | Samples, cross: Cross) -> Grid | None:
    """The next grid on which a cross is looked for, or None where it would be too large."""
    if isinstance(grid, Samples):
        return None
    if len(grid.axes) == 1:
        (axis,) = grid.axes
        # pivots that have hardly fallen say that the next order will not be enough either
        for order in _CROSS_ORDERS[1:] if cross.fall > 0.01 else _CROSS_ORDERS:
            if axis.order < order and axis.panels * order <= 4 * _CROSS_ORDERS[-1]:
                return Grid((axis.with_order(order),))
        if axis.panels >= _CROSS_PANELS:
            return None
        return Grid((_in_panels(axis, _CROSS_PANELS),))
    finer = grid.finer()
    return finer if len(finer.nodes) <= _CROSS_NODES[len(grid.axes)] else None


def _in_panels(axis: Axis, panels: int) -> Axis:
    return axis.with_order(FULL_ORDER).cut(-(-panels // axis.panels))


def _both_samples(du: Domain, dv: Domain, most: int) -> bool:
    return all(isinstance(domain, Samples) and len(domain.points) <= most for domain in (du, dv))


def _frobenius(left: Array, wu: Array, right: Array, wv: Array) -> float:
    """‖left rightᵀ‖ in L², from the factors."""
    gram = ((left.T * wu) @ left) * ((right.T * wv) @ right)
    return float(np.sqrt(max(0.0, float(np.sum(gram)))))


def _fresh_residual(
    rho: Evaluator,
    u_side: tuple[Domain, Grid | Samples, SliceFunction, Array],
    v_side: tuple[Domain, Grid | Samples, SliceFunction, Array],
    generator: np.random.Generator,
) -> float:
    """Phase 4: the L² norm of rho minus its approximation, estimated at fresh random points."""
    points, factors, volume = [], [], 1.0
    for domain, grid, slices, values in (u_side, v_side):
        at = domain.draw(FRESH, generator)
        points.append(at)
        factors.append(slices(at) if isinstance(grid, Samples) else grid.interpolate(values, at))
        volume *= grid.volume
    gap = rho.pairs(points[0], points[1]) - np.sum(factors[0] * factors[1], axis=1)
    return float(np.sqrt(np.mean(gap**2) * volume))


def _from_factors(
    rho: Evaluator,
    u_side: tuple[Domain, Grid | Samples, Array],
    v_side: tuple[Domain, Grid | Samples, Array],
    error: float,
    ask: Request,
) -> Pod:
    """Phase 3: QR of both sides, then the SVD of a small core."""
    (du, gu, left), (dv, gv, right) = u_side, v_side
    q_left, r_left = qr(np.sqrt(gu.weights)[:, None] * left, mode="economic", check_finite=False)
    weighted = np.sqrt(gv.weights)[:, None] * right
    if ask.gauge == "softmax":
        # orthogonal to the constants by Householder; subtracted means would leave eps/sigma of them
        weighted = np.column_stack([np.sqrt(gv.weights), weighted])
    q_right, r_right = qr(weighted, mode="economic", check_finite=False)
    constants = int(ask.gauge == "softmax")
    core = r_left @ r_right[:, constants:].T
    norm = float(np.linalg.norm(core))
    q_right, core = q_right[:, constants:], core[:, constants:]
    a, sigma, bt = svd(core, full_matrices=False, check_finite=False)
    error = max(error, EPS * norm)
    keep = count_values(sigma, norm, ask)
    sides = (du, gu, q_left @ a), (dv, gv, q_right @ bt.T)
    judged = (error, error <= ask.rtol * norm, norm)
    return assemble(rho, *sides, sigma, keep, 0.0, judged, ask)


def _dense_samples(rho: Evaluator, du: Domain, dv: Domain, ask: Request) -> Pod:
    """Samples: the matrix itself, weighted by 1/sqrt(N M)."""
    assert isinstance(du, Samples)
    assert isinstance(dv, Samples)
    values = rho.outer(du.nodes, dv.nodes)
    if rho.change_unit(float(np.max(np.abs(values)))):
        return _dense_samples(rho, du, dv, ask)
    matrix = values / np.sqrt(len(du.nodes) * len(dv.nodes))
    norm = float(np.linalg.norm(matrix))
    if ask.gauge == "softmax":
        matrix = without_constants(matrix.T, dv.weights).T
    left, sigma, right = svd(matrix, full_matrices=False, check_finite=False)
    judged = (EPS * norm, True, norm)
    keep = count_values(sigma, norm, ask)
    return assemble(rho, (du, du, left), (dv, dv, right.T), sigma, keep, 0.0, judged, ask)
