"""POD of couplings with kinks or jumps: Galerkin on panels (see `galerkin.py`).

Panels are bisected where the singular functions need it. Blocks with an error at fresh pairs are
treated like the blocks that a kink visibly crosses: they are integrated adaptively. Only singular
values whose functions are resolved are returned; the others are known as a tail.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import svd

from attnrate.theory.decomposition import EPS, Pod, Request, assemble, enough
from attnrate.theory.domain import Region
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.fresh import Factor, FreshPairs
from attnrate.theory.galerkin import Blocks, GalerkinMatrix
from attnrate.theory.panels import Array, Grid, product_grid

#: The number of Galerkin unknowns at the start, and the most of them
_NODES = (256, 1024)
#: How often blocks may be added because of errors at fresh pairs
_LOOKS = 3


@dataclass(frozen=True, eq=False)
class _Projection:
    """rho projected on the polynomials of two axes, and its errors at fresh pairs."""

    built: GalerkinMatrix
    #: the L² norm of the error that fresh pairs show and the integrals miss
    hidden: float
    #: the blocks in which fresh pairs show such an error
    suspect: Bool[Array, "panels_u panels_v"]
    #: a bound on the L² norm of all errors at fresh pairs
    shown: float


def decompose_kinked(
    rho: Evaluator, du: Region, dv: Region, ask: Request, pairs: FreshPairs
) -> Pod:
    """Decompose rho by Galerkin's method on more and more panels."""
    start, stop = _NODES
    pieces = max(len(du.axes[0]), len(dv.axes[0]))
    order = 32 if pieces <= 16 else 16
    most = max(stop, 2 * order * pieces)
    cut = max(1, start // (order * pieces))
    gu, gv = product_grid(du.axes, order, cut), product_grid(dv.axes, order, cut)
    while True:
        (au,), (av,) = gu.axes, gv.axes
        full = 2 * max(len(au.nodes), len(av.nodes)) > most
        rho.watch.phase = f"kinks, {len(au.nodes)} x {len(av.nodes)} unknowns"
        projected = _project(rho, gu, gv, ask, pairs, full)
        if projected is None:
            gu, gv = gu.finer(), gv.finer()
            continue
        built = projected.built
        norm = float(np.sqrt(np.sum(built.matrix**2) + built.missed))
        matrix = ask.ungauged(built.matrix, gv.weights)
        left, sigma, right_t = svd(matrix, full_matrices=False, check_finite=False)
        # Rayleigh-Ritz: a singular value is wrong by about the square of what its functions miss
        missing = [
            axis.missed_by_column(part / np.sqrt(axis.weights)[:, None])
            for axis, part in ((au, left), (av, right_t.T))
        ]
        doubt = sigma * sum(np.sum(part**2, axis=0) for part in missing)
        doubt = doubt + built.unresolved + projected.hidden + EPS * norm
        wanted, certain = ask.count(sigma, doubt, norm)
        rho.watch.error = float(np.max(doubt[:wanted], initial=EPS * norm))
        if certain == wanted or rho.watch.spent:
            break
        lost = [
            np.max(sigma[certain:wanted] * part[:, certain:wanted] ** 2, axis=1, initial=0.0)
            + projected.hidden * np.any(projected.suspect, axis=other)
            for part, other in zip(missing, (1, 0), strict=True)
        ]
        finer = _finer((gu, gv), lost, ask.rtol * norm, most)
        if finer is None:
            break
        gu, gv = finer
    least = 0.0
    if not enough(certain, wanted):
        # the integrals may be off as well: errors at fresh pairs beyond them count as error
        least = float(np.sqrt(max(0.0, projected.shown**2 - built.missed)))
    sides = Factor(gu, left), Factor(gv, right_t.T)
    return assemble(rho, *sides, sigma, doubt, norm, ask, beyond=built.missed, least=least)


def _project(
    rho: Evaluator, gu: Grid, gv: Grid, ask: Request, pairs: FreshPairs, full: bool
) -> _Projection | None:
    """The Galerkin matrix; None where too many blocks are crossed, and finer ones come first."""
    (au,), (av,) = gu.axes, gv.axes
    blocks = Blocks(rho, au, av)
    with rho.watch.free():
        nodal = blocks.nodal_matrix()
        rough = blocks.missed(nodal)
    tolerance = ask.fine * float(np.linalg.norm(nodal)) / np.sqrt(au.panels + av.panels)
    crossed = rough > tolerance
    if not full and crossed.sum() > 6 * (au.panels + av.panels):
        return None
    met = au.locate(pairs.at[0][:, 0])[0], av.locate(pairs.at[1][:, 0])[0]
    area = np.multiply.outer(au.right - au.left, av.right - av.left)
    right = Factor(gv, np.diag(1 / np.sqrt(gv.weights)))
    for _ in range(_LOOKS):
        if 2 * crossed.sum() > crossed.size:
            # kinks along curves do not cross most blocks: rho is rough, and integrals would take
            # too long
            built = GalerkinMatrix(nodal, np.zeros(crossed.shape), float(np.linalg.norm(rough)))
        else:
            built = blocks.corrected(nodal, crossed, tolerance)
        left = Factor(gu, built.matrix / np.sqrt(gu.weights)[:, None])
        misses = pairs.misses(rho, left, right)
        # Markov's inequality: in a block of this area with squared L² error E, at most n E/(area t)
        # of n pairs are expected to have a squared error above t. If less than a hundredth of a
        # pair is expected and one is seen, it has met a feature that the integrals missed
        count, worst = np.zeros(area.shape), np.zeros(area.shape)
        np.add.at(count, met, 1.0)
        np.maximum.at(worst, met, misses.every**2)
        suspect = worst * area > 100 * count * built.missed_by_block + (8 * tolerance) ** 2
        if not np.any(suspect & ~crossed) or rho.watch.spent:
            break
        crossed = crossed | suspect
    # the error in a block with a kink is in the tail; elsewhere there should be none
    hidden = misses.norm((suspect | ~crossed)[met])
    return _Projection(built, hidden, suspect, misses.norm(ranged=False))


def _finer(
    grids: tuple[Grid, Grid], lost: list[Float[Array, " _"]], tolerance: float, most: int
) -> tuple[Grid, Grid] | None:
    """Bisect panels that lose more than their part of the tolerance; None if there is none."""
    finer: list[Grid] = []
    for grid, part in zip(grids, lost, strict=True):
        (axis,) = grid.axes
        chosen = (part > 0.1 * tolerance / axis.panels) & axis.wide()
        # the panels that lose most, as far as there is room
        order = np.argsort(-np.where(chosen, part, 0.0), kind="stable")
        chosen[order[max(0, most // axis.order - axis.panels) :]] = False
        finer.append(Grid((axis.refined(chosen)[0],)))
    changed = any(len(a.nodes) > len(b.nodes) for a, b in zip(finer, grids, strict=True))
    return (finer[0], finer[1]) if changed else None
