"""The search for the slices that determine a coupling: phases 1 to 4 of `pod.py`, in rounds.

Each round finds a cross on its grids and tests the result at fresh pairs. If the test fails
everywhere, the grids are refined everywhere; if it fails in a few places, as with a ridge, a peak
or a disc, they are refined there. The best answer so far is kept, so that a budget can end the
search at any time.
"""

from contextlib import nullcontext
from functools import cached_property, partial
from typing import Literal

import numpy as np
from jaxtyping import Int
from scipy.linalg import qr, svd

from attnrate.theory.cross import Cross, find_cross, focused, kinked, resolve
from attnrate.theory.decomposition import Pod, Request, assemble
from attnrate.theory.domain import Domain, Mesh, Region, Samples
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.fresh import Factor, FreshPairs, Misses
from attnrate.theory.kinks import decompose_kinked
from attnrate.theory.matrix import DENSE_SAMPLES, decompose_samples
from attnrate.theory.panels import FULL_ORDER, Array, Axis, Grid
from attnrate.theory.watch import BudgetSpent

_ROUNDS = 8
#: Grids on which a cross is searched before the coupling counts as not of low rank: on one axis
#: polynomials of these orders, then this number of panels; in 2 and 3 dimensions at most this
#: number of nodes
_CROSS_ORDERS = (128, 256)
_CROSS_PANELS = 64
_CROSS_NODES = {2: 4096, 3: 32768}
#: The number of panels on which slices are searched for kinks, and the number of slices
_KINK_PANELS = 16
_SLICES = 16
#: The number of points with the largest errors for which the grids are refined in one round
_PLACES = 8
#: A local feature that adds more terms than this is not of low rank
_FEW_TERMS = 8
#: The number of points off the grid at which a cross is tested before its slices are resolved
_FEW = 50
#: Errors at less than this share of the fresh pairs count as local
_LOCAL = 0.2
#: The most samples of which all pairs may be evaluated
_MOST_SAMPLES = 6000
#: The rank beyond which evaluating all pairs of samples is cheaper than slices
_SAMPLES_RANK = 256


def search(rho: Evaluator, du: Domain, dv: Domain, ask: Request) -> Pod:
    """The decomposition of rho on du x dv, to the accuracy asked for or until the budget ends."""
    looking = _Search(rho, du, dv, ask)
    if looking.samples and max(len(side.points) for side in looking.samples) <= DENSE_SAMPLES:
        return decompose_samples(rho, *looking.samples, ask)
    try:
        while not looking.done:
            looking.round()
    except BudgetSpent:
        pass
    return looking.result()


class _Search:
    """The state of a search: the grids of the next round and the best answer so far."""

    def __init__(self, rho: Evaluator, du: Domain, dv: Domain, ask: Request) -> None:
        self._rho, self._du, self._dv, self._ask = rho, du, dv, ask
        self._generator = np.random.default_rng(0)
        self._gu, self._gv = (d if isinstance(d, Samples) else d.start_grid() for d in (du, dv))
        #: the two sides where both are samples, and where both are intervals or unions of them
        self.samples: tuple[Samples, Samples] | None = None
        self._intervals: tuple[Region, Region] | None = None
        if isinstance(du, Samples) and isinstance(dv, Samples):
            self.samples = du, dv
        elif isinstance(du, Region) and isinstance(dv, Region) and du.d == dv.d == 1:
            self._intervals = du, dv
        self._rounds = 0
        #: whether the grids were refined for a local feature, and whether they then resolve it
        self._focused: Literal["no", "resolved", "failed"] = "no"
        self._best: Pod | None = None
        #: the last cross and its grids, until it is tested
        self._untried: tuple[Cross, Mesh, Mesh] | None = None
        self._rank = 0
        self.done = False

    @cached_property
    def _pairs(self) -> FreshPairs:
        with self._rho.watch.free():
            return FreshPairs(self._rho, self._du, self._dv)

    def result(self) -> Pod:
        """The best answer so far; a cross that the budget left untested is returned untested."""
        if self._untried is not None:
            with self._rho.watch.free():
                self._try(refine=False)
        assert self._best is not None
        return self._best

    def round(self) -> None:
        """Run one round: find a cross, test it if it is sound, and choose the next grids."""
        rho, ask = self._rho, self._ask
        self._rounds += 1
        cross = self._find_cross()
        finer = (_finer(self._gu, cross), _finer(self._gv, cross))
        stuck = finer == (None, None) or self._rounds == _ROUNDS
        few = self._du.draw(_FEW, self._generator), self._dv.draw(_FEW, self._generator)
        # rho was zero at every point so far: sample it more densely before believing that
        unseen = cross.scale == 0.0 and not stuck
        sound = cross.complete and not unseen and cross.holds(*few, 100 * ask.rtol)
        # a kink in a part of the domain can have full rank there and still be complete and sound
        large = cross.rank > _most_rank(self._gu, self._gv) // 4
        suspect = len(self._gu.nodes) >= _CROSS_ORDERS[0] and (not sound or large)
        if not unseen and self._intervals:
            look = suspect and self._focused != "resolved"
            (axis,) = self._intervals[0].start_grid().axes
            panels = _in_panels(axis, _KINK_PANELS)
            if (look and kinked(rho, panels, cross.v[:_SLICES])) or (stuck and not sound):
                result = decompose_kinked(rho, *self._intervals, ask, self._pairs)
                return self._keep(result, last=True)
        if self.samples and not sound and self._matrix_pays:
            return self._keep(decompose_samples(rho, *self.samples, ask), last=True)
        if sound or stuck:
            misses = self._try()
            if self.done:
                return None
            least = 10 * ask.rtol * max(cross.scale, self._pairs.largest(rho))
            found = misses.worst(_PLACES, least)
            if self._intervals and len(found) and misses.share(least) < _LOCAL:
                if self._focused == "failed" or stuck:  # a kink along a curve
                    result = decompose_kinked(rho, *self._intervals, ask, self._pairs)
                    return self._keep(result, last=True)
                finer, seen = self._focus(misses, found, least)
                self._focused = "resolved" if seen else "failed"
            elif stuck:
                self.done = True
        self._gu, self._gv = finer[0] or self._gu, finer[1] or self._gv
        return None

    def _find_cross(self) -> Cross:
        """Phase 1, in a unit in which rho is near 1."""
        grids = self._gu.nodes, self._gv.nodes
        most = min(_most_rank(self._gu, self._gv), 1024)
        if self._matrix_pays:
            most = min(most, _SAMPLES_RANK)
        elif self._focused == "failed":
            # a strip or a box adds a few terms; a feature that adds more is not of low rank
            most = min(most, self._rank + _FEW_TERMS)
        look = partial(find_cross, self._rho, *grids, self._ask.fine, most, self._generator)
        # the first cross is free, so that there is an answer whatever the budget
        with self._rho.watch.free() if self._rounds == 1 else nullcontext():
            cross = look()
            while self._rho.change_unit(max(cross.scale, self._pairs.largest(self._rho))):
                cross = look()
        self._untried, self._rank = (cross, self._gu, self._gv), cross.rank
        return cross

    def _try(self, refine: bool = True) -> Misses:
        """Run phases 2 to 4 for the last cross; keep the answer if it is the best so far."""
        assert self._untried is not None
        cross, gu, gv = self._untried
        rho, ask = self._rho, self._ask
        on_u, on_v = cross.pivots.left, cross.pivots.right.T
        size_left, size_right = np.sqrt(gu.weights @ on_u**2), np.sqrt(gv.weights @ on_v**2)
        norm = _frobenius(on_u, gu.weights, on_v, gv.weights)
        tolerance = ask.fine * norm if refine else np.inf
        ru, left_values, miss_u = resolve(gu, cross.left, on_u, size_right, tolerance)
        rv, right_values, miss_v = resolve(gv, cross.right, on_v, size_left, tolerance)
        sides = Factor(ru, left_values), Factor(rv, right_values)
        misses = self._pairs.misses(rho, *sides)
        error = float(np.hypot(misses.norm(), np.hypot(miss_u, miss_v)))
        self._keep(_from_factors(rho, *sides, error, ask))
        return misses

    def _keep(self, result: Pod, last: bool = False) -> None:
        """Keep a result if it is the best so far; end the search if it converged or is the last."""
        self._untried = None
        if self._best is None or result.residual < self._best.residual:
            self._best = result
            self._rho.watch.error = result.error
        self.done = last or self._best.converged

    @property
    def _matrix_pays(self) -> bool:
        """Whether both sides are samples, few enough for all pairs to be evaluated."""
        if self.samples is None:
            return False
        m, n = (len(side.points) for side in self.samples)
        return max(m, n) <= _MOST_SAMPLES and self._rho.watch.affords(m * n)

    def _focus(
        self, misses: Misses, found: Int[Array, " places"], least: float
    ) -> tuple[tuple[Grid, Grid], bool]:
        """Bisect panels around errors; return the grids and whether they resolve them."""
        at_u, at_v = misses.u[found], misses.v[found]
        truth = self._rho.pairs(at_u, at_v)
        grids, seen = [], True
        for grid, at, slices in (
            (self._gu, at_u, lambda points: self._rho.outer(points, at_v)),
            (self._gv, at_v, lambda points: self._rho.outer(at_u, points).T),
        ):
            assert isinstance(grid, Grid)
            refined, shown = focused(grid, at, truth, slices, least)
            grids.append(refined)
            seen = seen and shown
        return (grids[0], grids[1]), seen


def _most_rank(gu: Mesh, gv: Mesh) -> int:
    """The largest rank at which a cross on these grids determines rho between their nodes."""
    return min(len(g.nodes) * (5 if isinstance(g, Samples) else 3) // 5 for g in (gu, gv))


def _finer(grid: Mesh, cross: Cross) -> Grid | None:
    """The next grid on which a cross is searched, or None where it would be too large."""
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


def _frobenius(left: Array, wu: Array, right: Array, wv: Array) -> float:
    """‖left rightᵀ‖ in L², from the factors."""
    gram = ((left.T * wu) @ left) * ((right.T * wv) @ right)
    return float(np.sqrt(max(0.0, float(np.sum(gram)))))


def _from_factors(rho: Evaluator, left: Factor, right: Factor, error: float, ask: Request) -> Pod:
    """Phase 3: QR of both sides, then the SVD of a small core."""
    gu, gv = left.grid, right.grid
    weighted_u = np.sqrt(gu.weights)[:, None] * left.values
    weighted_v = np.sqrt(gv.weights)[:, None] * right.values
    q_left, r_left = qr(weighted_u, mode="economic", check_finite=False)
    if ask.gauge == "softmax":
        # orthogonal to the constants by Householder; subtracted means would leave eps/sigma of them
        weighted_v = np.column_stack([np.sqrt(gv.weights), weighted_v])
    q_right, r_right = qr(weighted_v, mode="economic", check_finite=False)
    constants = int(ask.gauge == "softmax")
    core = r_left @ r_right[:, constants:].T
    norm = float(np.linalg.norm(core))
    q_right, core = q_right[:, constants:], core[:, constants:]
    a, sigma, bt = svd(core, full_matrices=False, check_finite=False)
    sides = Factor(gu, q_left @ a), Factor(gv, q_right @ bt.T)
    return assemble(rho, *sides, sigma, np.zeros_like(sigma), norm, ask, least=error)
