"""Piecewise Legendre grids: where functions are sampled, integrated, resolved and evaluated.

An axis is cut into panels with `order` Gauss-Legendre nodes each; a grid is the tensor product of
axes. On one panel the nodal values of a polynomial and its Legendre coefficients are related by an
orthogonal matrix, so that a panel is *resolved* when its last coefficients are small, and an
unresolved panel is bisected. Kinks at fixed places are met by panels that shrink towards them.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from math import sqrt

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.errors import InputError

Array = np.ndarray
#: A panel narrower than this share of its axis is not bisected further, because of rounding.
NARROWEST = 2.0**-46
#: Gauss-Legendre nodes leave gaps at the ends of a panel in which a kink can hide. The
#: polynomial is therefore compared with the function here too (inside, for jumps at the very end).
EDGES = np.array([-1.0, 1.0]) * (1 - 1e-6)
#: The number of nodes per panel before panels are bisected, and the most nodes per panel when the
#: function is smooth: one polynomial has no seams, and needs fewer nodes than several.
FULL_ORDER = 32
HIGHEST_ORDER = 256


@dataclass(frozen=True, eq=False)
class PanelRule:
    """Gauss-Legendre nodes on [-1, 1] with the matrix from weighted values to coefficients."""

    nodes: Float[Array, " order"]
    weights: Float[Array, " order"]
    #: transform[i, j] = sqrt(weight_i) P_j(node_i), P_j orthonormal: an orthogonal matrix
    transform: Float[Array, "order order"]
    #: from plain nodal values to the last half of the coefficients of orthonormal polynomials
    last_half: Float[Array, "half order"]
    #: values[edges] = edge @ values[nodes]: the polynomial continued to just inside both ends
    edge: Float[Array, "two order"]


@lru_cache(maxsize=16)
def panel_rule(order: int) -> PanelRule:
    """The Gauss-Legendre rule with `order` nodes, computed once."""
    nodes, _ = np.polynomial.legendre.leggauss(order)
    for _ in range(2):
        # Newton's method: beyond order 50 or so the library's nodes have lost three digits
        both = orthonormal_legendre(nodes, order + 1)[:, -2:] / np.sqrt([order - 0.5, order + 0.5])
        slope = order * (both[:, 0] - nodes * both[:, 1]) / (1 - nodes**2)
        nodes = nodes - both[:, 1] / slope
    values = orthonormal_legendre(nodes, order)
    # Christoffel: the weights that make the transform orthogonal
    weights = 1 / np.sum(values**2, axis=1)
    transform = np.sqrt(weights)[:, None] * values
    analysis = transform.T * np.sqrt(weights)
    edge = orthonormal_legendre(EDGES, order) @ analysis
    return PanelRule(nodes, weights, transform, analysis[order // 2 :], edge)


def orthonormal_legendre(t: Float[Array, "*shape"], order: int) -> Float[Array, "*shape order"]:
    """P_0 … P_{order-1} at t in [-1, 1], orthonormal in L²(-1, 1), by the three-term recurrence."""
    values = np.empty((order, *t.shape))
    values[0] = sqrt(0.5)
    if order > 1:
        values[1] = sqrt(1.5) * t
    for j in range(1, order - 1):
        # (j+1) p_{j+1} = (2j+1) t p_j - j p_{j-1}, rescaled to unit norm
        up = sqrt((2 * j + 1) * (2 * j + 3)) / (j + 1)
        down = j / (j + 1) * sqrt((2 * j + 3) / (2 * j - 1))
        values[j + 1] = up * t * values[j] - down * values[j - 1]
    return np.moveaxis(values, 0, -1)


def lagrange(t: Float[Array, " points"], order: int) -> Float[Array, "points order"]:
    """The Lagrange polynomials of the Gauss-Legendre nodes at t, by the barycentric formula."""
    rule = panel_rule(order)
    # barycentric weights up to a common factor (Wang and Xiang, 2012)
    signs = 1.0 - 2.0 * (np.arange(order) % 2)
    weights = signs * np.sqrt((1 - rule.nodes**2) * rule.weights)
    gap = t[:, None] - rule.nodes
    hit = gap == 0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = weights / gap
        values = terms / np.sum(terms, axis=1, keepdims=True)
    return np.asarray(np.where(np.any(hit, axis=1, keepdims=True), hit.astype(float), values))


def missed(coefficients: Float[Array, "*shape half"]) -> Float[Array, "*shape"]:
    """Estimate the error of a Legendre series from the sizes of its last coefficients.

    The last quarter is compared with the one before it. If it has fallen tenfold the decay is
    geometric and goes on; else the function is rough there, and the error is as large as that
    quarter. Quarters, because single coefficients of a kink oscillate and those of an even function
    vanish.
    """
    middle = coefficients.shape[-1] // 2
    before = np.linalg.norm(coefficients[..., :middle], axis=-1)
    after = np.linalg.norm(coefficients[..., middle:], axis=-1)
    ratio = np.divide(after, before, out=np.ones_like(after), where=before > after)
    return np.asarray(after * np.where(ratio < 0.1, ratio, 1.0))


@dataclass(frozen=True, eq=False)
class Axis:
    """One coordinate: panels [left_k, right_k], sorted and disjoint, `order` nodes in each."""

    left: Float[Array, " panels"]
    right: Float[Array, " panels"]
    order: int

    @cached_property
    def nodes(self) -> Float[Array, " nodes"]:
        """All Gauss-Legendre nodes, panel after panel."""
        return self._placed(self.rule.nodes)

    @cached_property
    def edges(self) -> Float[Array, " two_panels"]:
        """Points just inside both ends of every panel, panel after panel."""
        return self._placed(EDGES)

    @cached_property
    def weights(self) -> Float[Array, " nodes"]:
        """The weights of `nodes`: they integrate with respect to length."""
        return np.asarray(self.half[:, None] * self.rule.weights).ravel()

    @property
    def rule(self) -> PanelRule:
        """The Gauss-Legendre rule of every panel."""
        return panel_rule(self.order)

    @property
    def half(self) -> Float[Array, " panels"]:
        """Half of the length of every panel."""
        return np.asarray((self.right - self.left) / 2)

    @property
    def panels(self) -> int:
        """The number of panels."""
        return len(self.left)

    @property
    def length(self) -> float:
        """The measure of the axis."""
        return float(np.sum(self.right - self.left))

    def with_order(self, order: int) -> "Axis":
        """These panels with another number of nodes each."""
        return Axis(self.left, self.right, order)

    def refined(
        self, chosen: Bool[Array, " panels"], smooth: bool = False
    ) -> tuple["Axis", Int[Array, " new_nodes"]]:
        """Raise the order, or bisect the chosen panels.

        Returns:
            The new axis and, for each of its nodes, the index of that node before, or -1.

        """
        if not chosen.any():
            return self, np.arange(len(self.nodes))
        if self.order < FULL_ORDER or (smooth and self.order < HIGHEST_ORDER):
            raised = self.with_order(max(FULL_ORDER, 2 * self.order))
            return raised, np.full(len(raised.nodes), -1)
        middle = ((self.left + self.right) / 2)[chosen]
        left, right = np.sort(np.append(self.left, middle)), np.sort(np.append(self.right, middle))
        old = np.repeat(np.arange(self.panels), 1 + chosen)[:, None]
        kept = np.where(chosen[old], -1, old * self.order + np.arange(self.order))
        return Axis(left, right, self.order), kept.ravel()

    def cut(self, parts: int) -> "Axis":
        """Cut every panel into equal parts."""
        steps = np.linspace(0.0, 1.0, parts + 1)
        edges = self.left[:, None] + (self.right - self.left)[:, None] * steps
        edges[:, -1] = self.right
        return Axis(edges[:, :-1].ravel(), edges[:, 1:].ravel(), self.order)

    def gap(self) -> Float[Array, " panels"]:
        """The lengths between the ends of the panels and their outermost nodes."""
        return np.asarray(self.half * (1 - self.rule.nodes[-1]))

    def wide(self) -> Bool[Array, " panels"]:
        """For each panel, whether it can still be bisected."""
        return np.asarray(self.right - self.left > NARROWEST * (self.right[-1] - self.left[0]))

    def locate(
        self, t: Float[Array, " points"]
    ) -> tuple[Int[Array, " points"], Float[Array, " points"]]:
        """For each point its panel, and its coordinate in [-1, 1] within the panel."""
        panel = np.clip(np.searchsorted(self.left, t, side="right") - 1, 0, self.panels - 1)
        slack = 1e-12 * (self.right[-1] - self.left[0])
        outside = ~((t >= self.left[panel] - slack) & (t <= self.right[panel] + slack))
        if np.any(outside):
            raise InputError(
                "a point lies outside the domain of the decomposition",
                float(t[np.argmax(outside)]),
                f"The domain spans {self.left[0]:g} to {self.right[-1]:g}.",
            )
        width = self.right[panel] - self.left[panel]
        local = (2 * t - self.left[panel] - self.right[panel]) / width
        return panel, np.clip(local, -1.0, 1.0)

    def hidden(
        self, values: Float[Array, "nodes k"], at_edges: Float[Array, "two_panels k"]
    ) -> Float[Array, " panels"]:
        """The L² norm of the error between the ends of each panel and its outermost nodes."""
        off = self.off_edges(values, at_edges)
        return np.asarray(np.sqrt(self.gap() * np.sum(off**2, axis=(1, 2))))

    def off_edges(
        self, values: Float[Array, "nodes k"], at_edges: Float[Array, "two_panels k"]
    ) -> Float[Array, "panels two k"]:
        """The polynomial of each panel minus the function, at the edges of the panel."""
        continued = self.rule.edge @ self._by_panel(values)
        return np.asarray(continued - at_edges.reshape(continued.shape))

    def missed_by_column(self, values: Float[Array, "nodes k"]) -> Float[Array, "panels k"]:
        """The estimated L² error of each panel, for each column."""
        size = np.abs(self.rule.last_half @ self._by_panel(values))
        return missed(np.sqrt(self.half)[:, None, None] * size.transpose(0, 2, 1))

    def falls(self, values: Float[Array, "nodes k"]) -> bool:
        """Whether the coefficients fall towards their end, as those of a smooth function do."""
        size = np.abs(self.rule.last_half @ self._by_panel(values))
        before, after = np.split(size, 2, axis=1)
        return bool(np.linalg.norm(after) < 0.3 * np.linalg.norm(before))

    def _by_panel(self, values: Float[Array, "nodes k"]) -> Float[Array, "panels order k"]:
        return values.reshape(self.panels, self.order, -1)

    def _placed(self, local: Float[Array, " p"]) -> Float[Array, " all"]:
        """Points of every panel, panel after panel, by their coordinates in [-1, 1]."""
        centre = (self.left + self.right) / 2
        return np.asarray(centre[:, None] + self.half[:, None] * local).ravel()


@dataclass(frozen=True, eq=False)
class Grid:
    """The tensor product of axes; nodes in row-major order, with their weights."""

    axes: tuple[Axis, ...]

    @cached_property
    def nodes(self) -> Float[Array, "nodes d"]:
        """All nodes, one per row."""
        mesh = np.meshgrid(*(axis.nodes for axis in self.axes), indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=-1)

    @cached_property
    def weights(self) -> Float[Array, " nodes"]:
        """The weights of all nodes: products of the weights along the axes."""
        return _products([axis.weights for axis in self.axes])

    @property
    def d(self) -> int:
        """Dimension."""
        return len(self.axes)

    @property
    def volume(self) -> float:
        """The measure of the domain."""
        return float(np.prod([axis.length for axis in self.axes]))

    def finer(self) -> "Grid":
        """A grid with a higher order or, at full order, with every panel cut in two."""
        return Grid(tuple(axis.refined(np.ones(axis.panels, bool))[0] for axis in self.axes))

    def _by_panel(self, values: Float[Array, "nodes k"]) -> Float[Array, "..."]:
        shape = [n for axis in self.axes for n in (axis.panels, axis.order)]
        return values.reshape(*shape, values.shape[1])

    def unresolved(self, values: Float[Array, "nodes k"]) -> tuple[Float[Array, " _"], ...]:
        """For each axis and panel, the estimated L² error over all columns."""
        norms = []
        for i, axis in enumerate(self.axes):
            moved = np.moveaxis(self._by_panel(values), (2 * i, 2 * i + 1), (0, 1))
            along = moved.reshape(axis.panels, axis.order, -1)
            others = _products([a.weights for j, a in enumerate(self.axes) if j != i])
            weight = np.repeat(others, values.shape[1])
            squares = np.matmul(axis.rule.last_half, along) ** 2 @ weight
            norms.append(missed(np.sqrt(axis.half[:, None] * squares)))
        return tuple(norms)

    def refined(
        self, missing: tuple[Float[Array, " _"], ...], tolerance: float, smooth: bool = False
    ) -> tuple["Grid", Int[Array, " new_nodes"]] | None:
        """Refine panels whose error exceeds `tolerance`; None when there are none to refine."""
        chosen = [
            (norm > tolerance) & axis.wide() for axis, norm in zip(self.axes, missing, strict=True)
        ]
        if not any(c.any() for c in chosen):
            return None
        parts = [axis.refined(c, smooth) for axis, c in zip(self.axes, chosen, strict=True)]
        kept = np.zeros(1, dtype=int)
        for old, (_, index) in zip(self.axes, parts, strict=True):
            known = (kept[:, None] >= 0) & (index[None, :] >= 0)
            joint = kept[:, None] * len(old.nodes) + index[None, :]
            kept = np.where(known, joint, -1).ravel()
        return Grid(tuple(axis for axis, _ in parts)), kept

    def interpolate(
        self, values: Float[Array, "nodes k"], points: Float[Array, "points d"]
    ) -> Float[Array, "points k"]:
        """The piecewise polynomial through `values`, at any points of the domain."""
        by_panel = self._by_panel(values)
        located = [axis.locate(points[:, i]) for i, axis in enumerate(self.axes)]
        bases = [
            lagrange(local, axis.order) for axis, (_, local) in zip(self.axes, located, strict=True)
        ]
        result = np.empty((len(points), values.shape[1]))
        shape = [axis.panels for axis in self.axes]
        cell = np.ravel_multi_index([panel for panel, _ in located], shape)
        order = np.argsort(cell, kind="stable")
        starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
        for run in np.split(order, starts[1:]) if len(points) else []:
            where = np.unravel_index(cell[run[0]], shape)
            index = tuple(n for w in where for n in (w, slice(None)))
            basis = np.ones((len(run), 1))
            for own in bases:
                basis = (basis[:, :, None] * own[run, None, :]).reshape(len(run), -1)
            result[run] = basis @ by_panel[index].reshape(basis.shape[1], -1)
        return result


def product_grid(
    axes: tuple[tuple[tuple[float, float], ...], ...], order: int, pieces: int
) -> Grid:
    """A grid over the product of unions of intervals, each interval cut into `pieces` panels."""
    ends = [np.array(intervals) for intervals in axes]
    edges = [np.linspace(pairs[:, 0], pairs[:, 1], pieces + 1, axis=1) for pairs in ends]
    return Grid(tuple(Axis(e[:, :-1].ravel(), e[:, 1:].ravel(), order) for e in edges))


def _products(factors: list[Float[Array, " _"]]) -> Float[Array, " all"]:
    """The products of one entry of each factor, in row-major order."""
    return reduce(lambda so_far, own: np.multiply.outer(so_far, own).ravel(), factors, np.ones(1))
