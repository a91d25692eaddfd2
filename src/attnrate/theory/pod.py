"""POD (Eq. 10, 11): the singular value decomposition of a function of two variables.

Phase 1  a pivoted cross approximation finds the points through which rho is known (`cross.py`);
Phase 2  the slices through them are resolved on adaptive Legendre panels (`panels.py`);
Phase 3  QR of both sides and the SVD of a small core give sigma, phi and psi;
Phase 4  the result is tried at points that did not make it, and phase 1 begins again if it fails.
A coupling that is not of low rank because of kinks goes to `galerkin.py` instead of phases 1-3.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr, svd

from attnrate.errors import AccuracyWarning, InputError, require_choice, require_whole
from attnrate.theory.cross import Cross, SliceFunction, find_cross, holds, kinked, resolve
from attnrate.theory.domain import Domain, Region, Samples, as_domain
from attnrate.theory.evaluate import Evaluator, numbers_only
from attnrate.theory.galerkin import corrected, crossed_blocks, nodal_matrix
from attnrate.theory.panels import Array, Grid, panel_rule, product_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Gauge = Literal["softmax"] | None
_EPS = float(np.finfo(float).eps)
#: Fresh points of phase 4
_FRESH = 400
#: Rounds of phases 1 to 4
_ROUNDS = 8
#: Nodes on which a cross is looked for, by dimension, before the coupling counts as not low-rank
_CROSS_NODES = {1: 2048, 2: 4096, 3: 32768}
#: Samples up to which the whole matrix is decomposed
_DENSE_SAMPLES = 1024
_LARGEST_DENSE = 6000
#: Galerkin unknowns: where it starts and where it stops
_GALERKIN_NODES = (256, 1024)
#: Singular values that must be certified for a coupling with kinks to count as converged
_GALERKIN_VALUES = 50


@dataclass(frozen=True, eq=False)
class _Side:
    """Singular functions of one variable: nodal values, and how to go elsewhere from them."""

    domain: Domain
    values: Float[Array, "nodes rank"]
    extend: Callable[[Float[Array, "points d"], Float[Array, "nodes rank"]], Array]

    def __call__(self, points: object) -> Float[Array, "*shape rank"]:
        array = np.asarray(points, dtype=float)
        plain = numbers_only(self.domain)
        shape = array.shape if plain else array.shape[:-1]
        if not plain and (array.ndim == 0 or array.shape[-1] != self.domain.d):
            raise InputError(
                f"points must have shape (..., {self.domain.d})", array.shape, "One row a point."
            )
        flat = array.reshape(-1, self.domain.d)
        return self.extend(flat, self.values).reshape(*shape, self.values.shape[1])

    def first(self, r: int) -> "_Side":
        return replace(self, values=self.values[:, :r])


@dataclass(frozen=True, eq=False)
class Pod:
    """rho(u, v) = Σ_k sigma_k phi_k(u) psi_k(v), phi and psi orthonormal in L².

    `error` estimates the largest error of the returned singular values (absolute); `rest` is the
    root of the sum of squares of those not returned. When `converged`, error <= rtol·‖rho‖.
    """

    sigma: Float[Array, " rank"]
    error: float
    converged: bool
    rest: float
    norm: float
    rtol: float
    gauge: Gauge
    evaluations: int
    _u: _Side = field(repr=False)
    _v: _Side = field(repr=False)

    @property
    def rank(self) -> int:
        """How many singular values are returned: those above rtol·sigma_1, at most max_rank."""
        return len(self.sigma)

    def phi(self, u: object) -> Float[Array, "*shape rank"]:
        """phi_1 … phi_rank at any points of the first domain: shape of the points, then rank."""
        return self._u(u)

    def psi(self, v: object) -> Float[Array, "*shape rank"]:
        """psi_1 … psi_rank at any points of the second domain: shape of the points, then rank."""
        return self._v(v)

    def __call__(self, u: object, v: object) -> Float[Array, "*shape"]:
        """Σ_k sigma_k phi_k(u) psi_k(v), broadcasting u against v."""
        return np.asarray(np.sum(self.phi(u) * self.sigma * self.psi(v), axis=-1))

    def tail(self, r: int) -> float:
        """(Σ_{k>r} sigma_k²)^½: the least L² error of any rank-r approximation (Eq. 11)."""
        r = require_whole("r", r, 0)
        return float(np.sqrt(np.sum(self.sigma[r:] ** 2) + self.rest**2))

    def truncate(self, r: int) -> "Pod":
        """The first r terms; the others move into `rest`."""
        r = min(require_whole("r", r, 0), self.rank)
        return replace(
            self,
            sigma=self.sigma[:r],
            rest=self.tail(r),
            _u=self._u.first(r),
            _v=self._v.first(r),
        )

    def to_frame(self) -> "pd.DataFrame":
        """A row a singular value: sigma, the tail beyond it, the share of energy up to it."""
        import pandas as pd

        tails = np.array([self.tail(k) for k in range(self.rank + 1)])
        total = tails[0] ** 2 or 1.0
        return pd.DataFrame(
            {"sigma": self.sigma, "tail": tails[1:], "energy": 1 - tails[1:] ** 2 / total},
            index=pd.RangeIndex(1, self.rank + 1, name="k"),
        )

    def plot(self) -> "Figure":
        """The spectrum and its tail on a logarithmic scale."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        k = np.arange(1, self.rank + 1)
        axes.semilogy(k, self.sigma, "o", ms=4, color="#1b4965", label="σₖ")
        tails = [self.tail(r) for r in k]
        axes.semilogy(k, tails, "--", color="#ca6702", label="tail beyond k, (Σ σ²)^½")
        if self.rank:
            axes.axhline(max(self.error, _EPS * self.norm), color="0.6", lw=1, label="error")
            axes.set_ylim(bottom=max(self.error, _EPS * self.norm) / 3)
        axes.set_xlabel("k")
        axes.set_ylabel("singular value")
        gauge = ", modulo the softmax gauge" if self.gauge else ""
        axes.set_title(f"POD: rank {self.rank}{gauge}", fontsize=11)
        axes.legend(frameon=False)
        return figure

    def __str__(self) -> str:
        shown = ", ".join(f"{s:.6g}" for s in self.sigma[:6]) + (", …" if self.rank > 6 else "")
        state = "converged" if self.converged else "NOT CONVERGED"
        beyond = f", beyond them {self.rest:.2g}" if self.rest > self.rtol * self.norm else ""
        gauge = ", modulo the softmax gauge" if self.gauge else ""
        return (
            f"POD of rank {self.rank}{gauge}: sigma = {shown}\n"
            f"  {state}, error of sigma about {self.error:.1e}{beyond}; "
            f"{self.evaluations:,} evaluations of rho"
        )


def pod(
    rho: object,
    u: object,
    v: object = None,
    *,
    rtol: float = 1e-12,
    max_rank: int = 512,
    gauge: Gauge = None,
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
    max_rank = require_whole("max_rank", max_rank, 1)
    require_choice("gauge", gauge, (None, "softmax"))
    evaluator = Evaluator(rho, du, dv)
    result = _decompose(evaluator, du, dv, _Request(max(float(rtol), 64 * _EPS), max_rank, gauge))
    if not result.converged:
        warnings.warn(
            f"the POD did not converge: the singular values are uncertain by {result.error:.2g} "
            f"({result.error / max(result.norm, 1e-300):.1e} of the norm of rho), "
            f"asked for {rtol:.1e}. Raise rtol, or look for where rho is rough.",
            AccuracyWarning,
            stacklevel=2,
        )
    return result


@dataclass(frozen=True)
class _Request:
    rtol: float
    max_rank: int
    gauge: Gauge

    @property
    def fine(self) -> float:
        """Tolerance of the single steps, so that together they stay below rtol."""
        return max(self.rtol / 8, 16 * _EPS)


def _decompose(rho: Evaluator, du: Domain, dv: Domain, ask: _Request) -> Pod:
    if isinstance(du, Samples) and isinstance(dv, Samples):
        if max(len(du.points), len(dv.points)) <= _DENSE_SAMPLES:
            return _dense_samples(rho, du, dv, ask)
    generator = np.random.default_rng(0)
    gu, gv = _start(du), _start(dv)
    best: Pod | None = None
    for _ in range(_ROUNDS):
        finer = (_finer(gu), _finer(gv))
        stuck = finer == (None, None)
        most = min(len(g.nodes) // (1 if isinstance(g, Samples) else 2) for g in (gu, gv))
        cross = find_cross(rho, gu.nodes, gv.nodes, ask.fine / 4, min(most, 1024), generator)
        if not cross.complete and _both_lines(du, dv):
            assert isinstance(gu, Grid)
            if stuck or (gu.axes[0].panels >= 8 and kinked(cross, rho, gu)):
                return _by_galerkin(rho, du, dv, ask, generator)
        if not cross.complete and stuck and isinstance(du, Samples) and isinstance(dv, Samples):
            if max(len(du.points), len(dv.points)) <= _LARGEST_DENSE:
                return _dense_samples(rho, du, dv, ask)
        fresh = du.draw(_FRESH // 8, generator), dv.draw(_FRESH // 8, generator)
        if stuck or (cross.complete and holds(cross, rho, *fresh, 100 * ask.rtol)):
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
    ask: _Request,
    generator: np.random.Generator,
) -> Pod:
    """Phases 2 to 4 for a cross that was found on the grids of the two sides."""
    (du, gu), (dv, gv) = u_side, v_side
    left, right = (SliceFunction(cross, rho, side) for side in "uv")
    first_left, first_right = left(gu.nodes), right(gv.nodes)
    size_left = np.sqrt(gu.weights @ first_left**2)
    size_right = np.sqrt(gv.weights @ first_right**2)
    norm = _frobenius(first_left, gu.weights, first_right, gv.weights)
    ru, left_values, miss_u = resolve(gu, left, first_left, size_right, ask.fine * norm)
    rv, right_values, miss_v = resolve(gv, right, first_right, size_left, ask.fine * norm)
    residual = _fresh_residual(
        rho, (du, ru, left, left_values), (dv, rv, right, right_values), generator
    )
    error = float(np.hypot(residual, np.hypot(miss_u, miss_v)))
    return _from_factors(rho, (du, ru, left_values), (dv, rv, right_values), error, ask)


def _start(domain: Domain) -> Grid | Samples:
    return domain if isinstance(domain, Samples) else domain.start_grid()


def _finer(grid: Grid | Samples) -> Grid | None:
    """About four times the nodes, or None where that would be too many."""
    if isinstance(grid, Samples):
        return None
    finer = grid.finer() if len(grid.axes) > 1 else grid.finer().finer()
    # a union of many intervals starts with many nodes and may be refined once all the same
    least = 4 * sum(axis.order * axis.panels for axis in grid.axes if axis.panels == 1)
    return finer if len(finer.nodes) <= max(_CROSS_NODES[len(grid.axes)], least) else None


def _both_lines(du: Domain, dv: Domain) -> bool:
    return all(isinstance(domain, Region) and domain.d == 1 for domain in (du, dv))


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
        at = domain.draw(_FRESH, generator)
        points.append(at)
        factors.append(slices(at) if isinstance(grid, Samples) else grid.interpolate(values, at))
        volume *= grid.volume
    gap = rho.pairs(points[0], points[1]) - np.sum(factors[0] * factors[1], axis=1)
    return float(np.sqrt(np.mean(gap**2) * volume))


def _extension(
    grid: Grid | Samples, continue_samples: Callable[[Array, Array], Array]
) -> Callable[[Array, Array], Array]:
    if isinstance(grid, Samples):
        return continue_samples

    def interpolate(points: Array, values: Array) -> Array:
        return grid.interpolate(values, points)

    return interpolate


def _assemble(
    rho: Evaluator,
    u_side: tuple[Domain, Grid | Samples, Array],
    v_side: tuple[Domain, Grid | Samples, Array],
    sigma: Array,
    keep: int,
    extra: float,
    judged: tuple[float, bool, float],
    ask: _Request,
) -> Pod:
    """A Pod from orthonormal weighted singular vectors of the two sides."""
    (du, gu, left), (dv, gv, right) = u_side, v_side
    error, converged, norm = judged
    phi = left[:, :keep] / np.sqrt(gu.weights)[:, None]
    psi = right[:, :keep] / np.sqrt(gv.weights)[:, None]
    # a decomposition has a free sign per term; fix it so that results are reproducible
    sign = np.sign(phi[np.argmax(np.abs(phi), axis=0), np.arange(keep)]) if keep else np.ones(0)
    phi, psi = phi * sign, psi * sign
    kept = sigma[:keep]

    # Nyström: phi = (1/sigma) ∫ rho(·, v) psi(v) dv continues phi beyond the samples, and likewise
    # psi. psi has no mean under the gauge, so rho needs no projection in the first; in the second
    # the mean over v is taken out of what comes back.
    def continue_phi(points: Array, values: Array) -> Array:
        r = values.shape[1]
        return (rho.outer(points, gv.nodes) * gv.weights) @ psi[:, :r] / kept[:r]

    def continue_psi(points: Array, values: Array) -> Array:
        r = values.shape[1]
        moments = (phi[:, :r].T * gu.weights) / kept[:r, None]
        rows = rho.outer(gu.nodes, points)
        if ask.gauge == "softmax":
            rows = rows - (rho.outer(gu.nodes, gv.nodes) @ gv.weights / gv.volume)[:, None]
        return np.asarray((moments @ rows).T)

    return Pod(
        sigma=kept,
        error=error,
        converged=converged,
        rest=float(np.sqrt(np.sum(sigma[keep:] ** 2) + extra)),
        norm=norm,
        rtol=ask.rtol,
        gauge=ask.gauge,
        evaluations=rho.count,
        _u=_Side(du, phi, _extension(gu, continue_phi)),
        _v=_Side(dv, psi, _extension(gv, continue_psi)),
    )


def _without_constants(weighted: Array, weights: Array) -> Array:
    """The weighted nodal values of functions of v with their means taken out (P = I - 1⊗1)."""
    one = np.sqrt(weights / np.sum(weights))
    return weighted - np.multiply.outer(one, one @ weighted)


def _from_factors(
    rho: Evaluator,
    u_side: tuple[Domain, Grid | Samples, Array],
    v_side: tuple[Domain, Grid | Samples, Array],
    error: float,
    ask: _Request,
) -> Pod:
    """Phase 3: QR of both sides, then the SVD of a small core."""
    (du, gu, left), (dv, gv, right) = u_side, v_side
    norm = _frobenius(left, gu.weights, right, gv.weights)
    q_left, r_left = qr(np.sqrt(gu.weights)[:, None] * left, mode="economic", check_finite=False)
    weighted = np.sqrt(gv.weights)[:, None] * right
    if ask.gauge == "softmax":
        weighted = _without_constants(weighted, gv.weights)
    q_right, r_right = qr(weighted, mode="economic", check_finite=False)
    a, sigma, bt = svd(r_left @ r_right.T, check_finite=False)
    error = max(error, _EPS * norm)
    keep = _count(sigma, norm, ask)
    sides = (du, gu, q_left @ a), (dv, gv, q_right @ bt.T)
    judged = (error, error <= ask.rtol * norm or norm == 0.0, norm)
    return _assemble(rho, *sides, sigma, keep, 0.0, judged, ask)


def _count(sigma: Array, norm: float, ask: _Request) -> int:
    """Values above rtol·sigma_1 and above the rounding of rho itself, at most max_rank."""
    if sigma.size == 0 or norm == 0.0:
        return 0
    floor = max(ask.rtol * sigma[0], 64 * _EPS * norm)
    return min(int(np.sum(sigma > floor)), ask.max_rank)


def _dense_samples(rho: Evaluator, du: Samples, dv: Samples, ask: _Request) -> Pod:
    """Samples: the matrix itself, weighted by 1/sqrt(N M)."""
    matrix = rho.outer(du.nodes, dv.nodes) / np.sqrt(len(du.nodes) * len(dv.nodes))
    norm = float(np.linalg.norm(matrix))
    if ask.gauge == "softmax":
        matrix = _without_constants(matrix.T, dv.weights).T
    left, sigma, right = svd(matrix, full_matrices=False, check_finite=False)
    judged = (_EPS * norm, True, norm)
    keep = _count(sigma, norm, ask)
    return _assemble(rho, (du, du, left), (dv, dv, right.T), sigma, keep, 0.0, judged, ask)


def _by_galerkin(
    rho: Evaluator, du: Domain, dv: Domain, ask: _Request, generator: np.random.Generator
) -> Pod:
    """Kinks: Galerkin on ever more panels, keeping the values whose functions are resolved."""
    assert isinstance(du, Region) and isinstance(dv, Region)
    start, stop = _GALERKIN_NODES
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
        crossed = crossed_blocks(nodal, au, av, tolerance)
        if not last and crossed.sum() > 6 * (au.panels + av.panels):
            cut *= 2
            continue
        built = corrected(rho, nodal, crossed, au, av, tolerance)
        matrix = built.matrix
        if ask.gauge == "softmax":
            matrix = _without_constants(matrix.T, gv.weights).T
        left, sigma, right_t = svd(matrix, full_matrices=False, check_finite=False)
        # Rayleigh-Ritz: a singular value is wrong by about the square of what its functions miss
        missed = sum(
            np.sum((panel_rule(order).transform[:, -2:].T @ part.reshape(axis.panels, order, -1))
                   ** 2, axis=(0, 1))
            for axis, part in ((au, left), (av, right_t.T))
        )
        doubt = sigma * missed + built.unresolved + _EPS * norm
        wanted = _count(sigma, norm, ask)
        certain = int(np.argmin(np.append(doubt[:wanted] <= ask.rtol * norm, False)))
        if certain == wanted or last:
            break
        cut *= 2
    good = certain >= min(wanted, _GALERKIN_VALUES)
    keep = certain if good else wanted
    error = float(np.max(doubt[:keep], initial=_EPS * norm))
    judged = (error, good, norm)
    sides = (du, gu, left), (dv, gv, right_t.T)
    result = _assemble(rho, *sides, sigma, keep, built.missed, judged, ask)
    if ask.gauge is None and not _tail_agrees(rho, result, du, dv, gu.volume * gv.volume, generator):
        return replace(result, converged=False, error=max(error, result.rest))
    return result


def _tail_agrees(
    rho: Evaluator,
    result: Pod,
    du: Region,
    dv: Region,
    volume: float,
    generator: np.random.Generator,
) -> bool:
    """Phase 4 for a spectrum that goes on: the residual at fresh points must be the known tail."""
    u, v = du.draw(4 * _FRESH, generator), dv.draw(4 * _FRESH, generator)
    gap = (rho.pairs(u, v) - result(u[:, 0], v[:, 0])) ** 2 * volume
    spread = float(np.std(gap)) / np.sqrt(len(gap))
    return bool(abs(float(np.mean(gap)) - result.rest**2) <= 6 * spread + (_EPS * result.norm) ** 2)
