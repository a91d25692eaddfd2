"""Couplings with kinks: Galerkin on panels, with the blocks that a kink crosses integrated exactly.

min(u, v) or |u - v| has no low rank, yet its singular functions are smooth. On piecewise
polynomials of high order the Galerkin matrix ∫∫ rho p_i(u) p_j(v) therefore has singular values
that converge fast, provided that its entries are accurate. Away from a kink these are the weighted
nodal values themselves. A block in which rho is not resolved is integrated by nested adaptive
quadrature: for each u along v, bisecting towards wherever rho is not smooth, then along u.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.theory.breaks import Ask, find_breaks
from attnrate.theory.decomposition import EPS
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.panels import (
    EDGES,
    Array,
    Axis,
    missed,
    orthonormal_legendre,
    panel_rule,
)

#: The most bisections of one interval; 2^-50 of a panel is below rounding
_DEEPEST = 50
_BATCH = 1 << 14
#: The most intervals of one level, per row or block, that are bisected further
_MOST_INTERVALS = 16
#: After this many bisections an interval is so short that a few nodes resolve smooth functions
_DEEP = 3
_FEW_NODES = 16
#: The number of moments along v that are searched for breaks along u
_FIRST_MOMENTS = 4


@dataclass(frozen=True, eq=False)
class GalerkinMatrix:
    """rho in the orthonormal nodal basis of two axes, and the energy outside this basis."""

    matrix: Float[Array, "m n"]
    #: ∫∫ rho² minus the squared Frobenius norm, of each block that a kink crosses; 0 elsewhere
    missed_by_block: Float[Array, "panels_u panels_v"]
    #: estimated L² norm of what quadrature left unresolved
    unresolved: float

    @property
    def missed(self) -> float:
        """∫∫ rho² minus the squared Frobenius norm."""
        return float(np.sum(self.missed_by_block))


@dataclass(frozen=True, eq=False)
class Blocks:
    """A coupling on the blocks that the panels of two axes make."""

    rho: Evaluator
    u: Axis
    v: Axis

    def nodal_matrix(self) -> Float[Array, "m n"]:
        """sqrt(w_i) rho(u_i, v_j) sqrt(w_j): the Galerkin matrix wherever rho is resolved."""
        u, v = self.u, self.v
        values = self.rho.outer_near_one(u.nodes[:, None], v.nodes[:, None])
        return np.asarray(np.sqrt(u.weights)[:, None] * values * np.sqrt(v.weights))

    def missed(self, matrix: Float[Array, "m n"]) -> Float[Array, "panels_u panels_v"]:
        """For each block, the estimated L² error of its polynomials along u and along v."""
        u, v = self.u, self.v
        blocks = matrix.reshape(u.panels, u.order, v.panels, v.order)
        last_u = np.einsum("pk,apbq->akbq", u.rule.transform[:, u.order // 2 :], blocks)
        last_v = np.einsum("apbq,ql->apbl", blocks, v.rule.transform[:, v.order // 2 :])
        missed_u = missed(np.sqrt(np.sum(last_u**2, axis=3)).transpose(0, 2, 1))
        missed_v = missed(np.sqrt(np.sum(last_v**2, axis=1)))
        hidden_u = _hidden(self.rho.outer(u.edges[:, None], v.nodes[:, None]), matrix, u, v)
        hidden_v = _hidden(self.rho.outer(u.nodes[:, None], v.edges[:, None]).T, matrix.T, v, u).T
        return np.asarray(np.sqrt(missed_u**2 + missed_v**2 + hidden_u**2 + hidden_v**2))

    def corrected(
        self,
        nodal: Float[Array, "m n"],
        crossed: Bool[Array, "panels_u panels_v"],
        tolerance: float,
    ) -> GalerkinMatrix:
        """The nodal matrix in which crossed blocks are replaced by adaptive integrals."""
        u, v, beyond = self.u, self.v, np.zeros(crossed.shape)
        if not crossed.any():
            return GalerkinMatrix(nodal, beyond, 0.0)
        matrix = nodal.copy()
        block_u, block_v = np.nonzero(crossed)
        with self.rho.watch.free():  # a spent budget ends the bisections, and counts as unresolved
            moments, energy, unresolved = self._moments(block_u, block_v, tolerance)
        blocks = matrix.reshape(u.panels, u.order, v.panels, v.order)
        for i, (a, b) in enumerate(zip(block_u, block_v, strict=True)):
            blocks[a, :, b, :] = u.rule.transform @ moments[i] @ v.rule.transform.T
            beyond[a, b] = max(0.0, float(energy[i] - np.sum(moments[i] ** 2)))
        # a difference of two sums of squares is not known below their rounding
        known = 64 * EPS * float(np.sum(matrix**2))
        return GalerkinMatrix(matrix, beyond * (np.sum(beyond) > known), unresolved)

    def _moments(
        self, block_u: Int[Array, " blocks"], block_v: Int[Array, " blocks"], tolerance: float
    ) -> tuple[Float[Array, "blocks p q"], Float[Array, " blocks"], float]:
        """∫∫ rho P_i(u) P_j(v) and ∫∫ rho² over each block, adaptive along u."""
        u, v = self.u, self.v
        moments = np.zeros((len(block_u), u.order, v.order))
        energy = np.zeros(len(block_u))
        unresolved = 0.0
        centre, width = (u.left + u.right)[block_u] / 2, (u.right - u.left)[block_u]
        # intervals in the coordinates [-1, 1] of a block: high polynomials punish rounding there
        owner, a, b = _whole(len(block_u))
        rule = u.rule
        for depth in range(_DEEPEST):
            local, half = _nodes(a, b, rule.nodes)
            nodes = centre[owner][:, None] + width[owner][:, None] / 2 * local
            length = half * width[owner] / 2
            along = np.repeat(block_v[owner], u.order)
            rows, row_error = self._row_moments(nodes.ravel(), along, tolerance / 16)
            rows = rows.reshape(len(owner), u.order, v.order + 1)
            last = np.einsum("kp,opj->okj", rule.last_half, rows[:, :, :-1])
            error = missed(np.sqrt(length[:, None] * np.sum(last**2, axis=2))) * _felt(
                half, u.order
            )
            # rows carry the error and rounding of the inner integrals, which no bisection removes
            flaw = np.max(row_error.reshape(len(owner), -1), axis=1)
            flaw += 16 * EPS * np.max(np.abs(rows), axis=(1, 2))
            noise = np.sqrt(length * v.order) * flaw
            done = (error <= tolerance + noise) | _last(self.rho, depth, len(owner) / len(block_u))
            unresolved += float(np.sum((error + noise)[done] ** 2))
            basis = orthonormal_legendre(local, u.order) * np.sqrt(2 / width[owner])[:, None, None]
            weighted = length[:, None] * rule.weights
            part = np.einsum("op,opi,opj->oij", weighted, basis, rows[:, :, :-1])
            np.add.at(moments, owner[done], part[done])
            np.add.at(energy, owner[done], np.einsum("op,op->o", weighted, rows[:, :, -1])[done])
            if done.all():
                break
            # the first moments are smooth except where a kink leaves the block, and continuous
            # there
            owner, a, b = _split(owner, a, b, ~done, rule.nodes, rows[:, :, :_FIRST_MOMENTS])
        return moments, energy, float(np.sqrt(unresolved))

    def _row_moments(
        self, at: Float[Array, " rows"], panel: Int[Array, " rows"], tolerance: float
    ) -> tuple[Float[Array, "rows moments"], Float[Array, " rows"]]:
        """For each row u = at: ∫ rho(u, v) P_j(v) dv over its panel, and ∫ rho² dv, adaptive."""
        v = self.v
        result, error = np.zeros((len(at), v.order + 1)), np.zeros(len(at))
        centre, width = (v.left + v.right)[panel] / 2, (v.right - v.left)[panel]
        row, a, b = _whole(len(at))
        # the diagonal is where kinks usually are: cut there first
        diagonal = 2 * (at - centre) / width
        cut = np.flatnonzero(np.abs(diagonal) < 1)
        row, a = np.append(row, cut), np.append(a, diagonal[cut])
        b = np.append(np.where(np.abs(diagonal) < 1, diagonal, 1.0), np.ones(len(cut)))
        for depth in range(_DEEPEST):
            rule = panel_rule(v.order if depth < _DEEP else min(v.order, _FEW_NODES))
            local, half = _nodes(a, b, rule.nodes)
            nodes = centre[row][:, None] + width[row][:, None] / 2 * local
            length = half * width[row] / 2
            here = np.broadcast_to(at[row][:, None], nodes.shape)
            values = np.concatenate(
                [
                    self.rho.pairs(here[i : i + _BATCH, :, None], nodes[i : i + _BATCH, :, None])
                    for i in range(0, len(row), _BATCH)
                ]
            )
            edges = centre[row][:, None] + width[row][:, None] / 2 * _nodes(a, b, EDGES)[0]
            off = self.rho.pairs(here[:, :2, None], edges[:, :, None]) - values @ rule.edge.T
            gap = length * (1 - rule.nodes[-1])
            left_over = missed(np.sqrt(length)[:, None] * np.abs(values @ rule.last_half.T))
            left_over = np.hypot(left_over, np.sqrt(gap * np.sum(off**2, axis=1)))
            left_over *= _felt(half, v.order)
            rounding = 4 * EPS * np.sqrt(length) * np.max(np.abs(values), axis=1)
            done = (left_over <= tolerance + rounding) | _last(self.rho, depth, len(row) / len(at))
            owner = row[done]
            basis = orthonormal_legendre(local[done], v.order)
            basis *= np.sqrt(2 / width[owner])[:, None, None]
            weighted = (length[:, None] * rule.weights * values)[done]
            np.add.at(result[:, :-1], owner, np.einsum("rq,rqj->rj", weighted, basis))
            np.add.at(result[:, -1], owner, np.sum(weighted * values[done], axis=1))
            np.add.at(error, owner, left_over[done])
            if done.all():
                break

            def ask(
                which: Int[Array, " n"],
                where: Float[Array, " n"],
                middle: Array = centre[row] + width[row] / 2 * (a + b) / 2,
                reach: Array = width[row] / 2 * half,
                at_row: Array = at[row],
            ) -> Float[Array, "n c"]:
                points = middle[which] + reach[which] * where
                return self.rho.pairs(at_row[which][:, None], points[:, None])[:, None]

            row, a, b = _split(row, a, b, ~done, rule.nodes, values[..., None], ask)
        return result, error


def _hidden(
    at_edges: Float[Array, "edges n"], matrix: Float[Array, "m n"], along: Axis, other: Axis
) -> Float[Array, "panels others"]:
    """For each block, the L² error between the ends of its panels and their outermost nodes."""
    values = matrix / np.sqrt(along.weights)[:, None]
    off = along.off_edges(values, at_edges * np.sqrt(other.weights))
    by_block = np.sum(off**2, axis=1).reshape(along.panels, other.panels, other.order)
    return np.asarray(np.sqrt(along.gap()[:, None] * np.sum(by_block, axis=2)))


def _felt(half: Float[Array, " n"], order: int) -> Float[Array, " n"]:
    """The share of an L² error on a short interval that reaches the moments.

    The interval lies in [-1, 1] and has half-length `half`. |∫_I e P_j| ≤ ‖e‖ ‖P_j‖_I, and
    Σ_j ‖P_j‖²_I ≤ |I| order²/2: an error on a short interval matters less to integrals than to the
    function.
    """
    return np.asarray(np.minimum(1.0, order * np.sqrt(half)))


def _whole(count: int) -> tuple[Int[Array, " n"], Float[Array, " n"], Float[Array, " n"]]:
    return np.arange(count), np.full(count, -1.0), np.ones(count)


def _nodes(
    a: Float[Array, " n"], b: Float[Array, " n"], rule: Float[Array, " p"]
) -> tuple[Float[Array, "n p"], Float[Array, " n"]]:
    half = (b - a) / 2
    return (a + b)[:, None] / 2 + half[:, None] * rule, half


def _split(
    owner: Int[Array, " n"],
    a: Float[Array, " n"],
    b: Float[Array, " n"],
    chosen: Bool[Array, " n"],
    nodes: Float[Array, " q"],
    values: Float[Array, "n q c"],
    ask: Ask | None = None,
) -> tuple[Int[Array, " m"], Float[Array, " m"], Float[Array, " m"]]:
    """Cut the chosen intervals in two: where their values break, or in the middle."""
    open_ones = np.flatnonzero(chosen)
    found, place = find_breaks(
        nodes,
        values[open_ones],
        None if ask is None else lambda which, where: ask(open_ones[which], where),
    )
    place = np.where(found, place, 0.0)
    left, right = a[open_ones], b[open_ones]
    middle = (left + right) / 2 + (right - left) / 2 * place
    starts, ends = np.column_stack([left, middle]).ravel(), np.column_stack([middle, right]).ravel()
    return np.repeat(owner[open_ones], 2), starts, ends


def _last(rho: Evaluator, depth: int, intervals: float) -> bool:
    """Whether to stop bisecting; the unresolved remainder then counts as error.

    A few kinks leave a few intervals per row or block; many more intervals are a sign of noise.
    """
    return depth == _DEEPEST - 1 or intervals > _MOST_INTERVALS or rho.watch.spent
