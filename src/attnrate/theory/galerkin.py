"""Couplings with kinks: Galerkin on panels, with the blocks that a kink crosses integrated exactly.

min(u, v) or |u - v| has no low rank, yet its singular functions are smooth. On piecewise
polynomials of high order the Galerkin matrix ∫∫ rho p_i(u) p_j(v) therefore has singular values
that converge fast, provided that its entries are right. Away from a kink they are the weighted
nodal values themselves. A block in which rho is not resolved is integrated by nested adaptive
quadrature: for each u along v, bisecting towards wherever rho is not smooth, then along u.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import Array, Axis, decay_estimate, orthonormal_legendre, panel_rule

#: Bisections of one interval; 2^-50 of a panel is below rounding
_DEEPEST = 50
_BATCH = 1 << 14
#: Intervals at one level beyond which no more are bisected: what is left counts as error
_MOST_INTERVALS = 1 << 16
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class GalerkinMatrix:
    """rho in the orthonormal nodal basis of two axes, and the energy that the basis misses."""

    matrix: Float[Array, "m n"]
    #: ∫∫ rho² minus the squared Frobenius norm, summed over the blocks a kink crosses
    missed: float
    #: estimated L² norm of what quadrature left unresolved
    unresolved: float


def crossed_blocks(
    matrix: Float[Array, "m n"], u: Axis, v: Axis, tolerance: float
) -> Bool[Array, "panels_u panels_v"]:
    """Blocks in which the polynomials miss more than `tolerance`, in either direction."""
    blocks = matrix.reshape(u.panels, u.order, v.panels, v.order)
    last_u = np.einsum("pk,apbq->akbq", panel_rule(u.order).transform[:, -4:], blocks)
    last_v = np.einsum("apbq,ql->apbl", blocks, panel_rule(v.order).transform[:, -4:])
    missed_u = decay_estimate(np.sqrt(np.sum(last_u**2, axis=3)).transpose(0, 2, 1))
    missed_v = decay_estimate(np.sqrt(np.sum(last_v**2, axis=1)))
    return np.asarray(np.hypot(missed_u, missed_v) > tolerance)


def nodal_matrix(rho: Evaluator, u: Axis, v: Axis) -> Float[Array, "m n"]:
    """sqrt(w_i) rho(u_i, v_j) sqrt(w_j): the Galerkin matrix wherever rho is resolved."""
    values = rho.outer(u.nodes[:, None], v.nodes[:, None])
    return np.sqrt(u.weights)[:, None] * values * np.sqrt(v.weights)


def corrected(
    rho: Evaluator,
    nodal: Float[Array, "m n"],
    crossed: Bool[Array, "panels_u panels_v"],
    u: Axis,
    v: Axis,
    tolerance: float,
) -> GalerkinMatrix:
    """The nodal matrix with its crossed blocks replaced by adaptive integrals."""
    matrix = nodal.copy()
    block_u, block_v = np.nonzero(crossed)
    moments, energy, unresolved = _block_moments(rho, u, v, block_u, block_v, tolerance)
    blocks = matrix.reshape(u.panels, u.order, v.panels, v.order)
    to_nodal_u, to_nodal_v = panel_rule(u.order).transform, panel_rule(v.order).transform
    missed = 0.0
    for i, (a, b) in enumerate(zip(block_u, block_v, strict=True)):
        blocks[a, :, b, :] = to_nodal_u @ moments[i] @ to_nodal_v.T
        missed += max(0.0, float(energy[i] - np.sum(moments[i] ** 2)))
    return GalerkinMatrix(matrix, missed, unresolved)


def _block_moments(
    rho: Evaluator,
    u: Axis,
    v: Axis,
    block_u: Int[Array, " blocks"],
    block_v: Int[Array, " blocks"],
    tolerance: float,
) -> tuple[Float[Array, "blocks p q"], Float[Array, " blocks"], float]:
    """∫∫ rho P_i(u) P_j(v) and ∫∫ rho² over each block, adaptive along u."""
    rule = panel_rule(u.order)
    moments = np.zeros((len(block_u), u.order, v.order))
    energy = np.zeros(len(block_u))
    unresolved = 0.0
    owner = np.arange(len(block_u))
    a, b = u.left[block_u], u.right[block_u]
    for depth in range(_DEEPEST):
        half = (b - a) / 2
        nodes = (a + b)[:, None] / 2 + half[:, None] * rule.nodes
        rows, row_error = _row_moments(
            rho,
            nodes.ravel(),
            np.repeat(v.left[block_v[owner]], u.order),
            np.repeat(v.right[block_v[owner]], u.order),
            v.order,
            tolerance / 16,
        )
        rows = rows.reshape(len(owner), u.order, v.order + 1)
        last = np.einsum("kp,opj->okj", rule.analysis[-4:], rows[:, :, :-1])
        error = decay_estimate(np.sqrt(half[:, None] * np.sum(last**2, axis=2)))
        # rows carry the error of the inner integrals, which no bisection along u removes
        noise = np.sqrt(half) * np.max(row_error.reshape(len(owner), -1), axis=1)
        done = (error <= tolerance + noise) | _give_up(depth, len(owner))
        unresolved += float(np.sum((error + noise)[done] ** 2))
        panel = block_u[owner]
        width = u.right[panel] - u.left[panel]
        local = (2 * nodes - (u.left[panel] + u.right[panel])[:, None]) / width[:, None]
        basis = orthonormal_legendre(local, u.order) * np.sqrt(2 / width)[:, None, None]
        weighted = half[:, None] * rule.weights
        part = np.einsum("op,opi,opj->oij", weighted, basis, rows[:, :, :-1])
        np.add.at(moments, owner[done], part[done])
        np.add.at(energy, owner[done], np.einsum("op,op->o", weighted, rows[:, :, -1])[done])
        if done.all():
            break
        owner = np.repeat(owner[~done], 2)
        middle = ((a + b) / 2)[~done]
        a = np.column_stack([a[~done], middle]).ravel()
        b = np.column_stack([middle, b[~done]]).ravel()
    return moments, energy, float(np.sqrt(unresolved))


def _give_up(depth: int, intervals: int) -> bool:
    return depth == _DEEPEST - 1 or intervals > _MOST_INTERVALS


def _row_moments(
    rho: Evaluator,
    at: Float[Array, " rows"],
    left: Float[Array, " rows"],
    right: Float[Array, " rows"],
    order: int,
    tolerance: float,
) -> tuple[Float[Array, "rows moments"], Float[Array, " rows"]]:
    """For each row u = at: ∫ rho(u, v) P_j(v) dv over [left, right], and ∫ rho² dv, adaptive."""
    rule = panel_rule(order)
    result, error = np.zeros((len(at), order + 1)), np.zeros(len(at))
    # the diagonal is where kinks usually are: cut there first
    cuts = (at > left) & (at < right)
    row = np.concatenate([np.arange(len(at)), np.flatnonzero(cuts)])
    a = np.concatenate([left, at[cuts]])
    b = np.concatenate([np.where(cuts, at, right), right[cuts]])
    for depth in range(_DEEPEST):
        if len(row) == 0:
            break
        half = (b - a) / 2
        nodes = (a + b)[:, None] / 2 + half[:, None] * rule.nodes
        places = np.stack(np.broadcast_arrays(at[row][:, None], nodes))
        values = np.concatenate(
            [
                rho.pairs(places[0, i : i + _BATCH, :, None], places[1, i : i + _BATCH, :, None])
                for i in range(0, len(row), _BATCH)
            ]
        )
        last = np.sqrt(half)[:, None] * np.abs(values @ rule.analysis[-4:].T)
        left_over = decay_estimate(last)
        rounding = 4 * _EPS * np.sqrt(half) * np.max(np.abs(values), axis=1)
        done = (left_over <= tolerance + rounding) | _give_up(depth, len(row))
        owner = row[done]
        width = (right - left)[owner]
        local = (2 * nodes[done] - (left + right)[owner][:, None]) / width[:, None]
        basis = orthonormal_legendre(local, order) * np.sqrt(2 / width)[:, None, None]
        weighted = (half[:, None] * rule.weights)[done] * values[done]
        np.add.at(result[:, :-1], owner, np.einsum("rq,rqj->rj", weighted, basis))
        np.add.at(result[:, -1], owner, np.sum(weighted * values[done], axis=1))
        np.add.at(error, owner, left_over[done])
        middle = ((a + b) / 2)[~done]
        row, a, b = (
            np.repeat(row[~done], 2),
            np.column_stack([a[~done], middle]).ravel(),
            np.column_stack([middle, b[~done]]).ravel(),
        )
    return result, error
