"""Singular functions of one variable: on a grid, at samples, and beyond the samples."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from attnrate.errors import InputError
from attnrate.theory.domain import Mesh, Samples
from attnrate.theory.evaluate import Evaluator, numbers_only
from attnrate.theory.panels import Array
from attnrate.words import Gauge


@dataclass(frozen=True, eq=False)
class Beyond:
    """What continues singular functions of one variable beyond the samples, by Nyström's formula.

    phi_k(u) = (1/sigma_k) ∫ rho(u, v) psi_k(v) dv, and likewise psi_k. Under the gauge psi has no
    mean but for rounding, which 1/sigma would blow up: the mean over v is taken out of rho for
    both.

    Args:
        rho: The coupling.
        of: Which functions are continued, those of "u" or those of "v".
        u: The grid or samples of u.
        v: The grid or samples of v.
        others: The functions of the other variable at its nodes.
        sigma: The singular values.
        gauge: What is left out of rho.

    """

    rho: Evaluator
    of: Literal["u", "v"]
    u: Mesh
    v: Mesh
    others: Float[Array, "nodes rank"]
    sigma: Float[Array, " rank"]
    gauge: Gauge

    def __call__(self, points: Float[Array, "points d"]) -> Float[Array, "points rank"]:
        """The functions at any points, one row per point."""
        if self.of == "u":
            values = self.rho.outer(points, self.v.nodes)
            if self.gauge == "softmax":
                values = values - self._means(values)
            return np.asarray((values * self.v.weights) @ self.others / self.sigma)
        values = self.rho.outer(self.u.nodes, points)
        if self.gauge == "softmax":
            values = values - self._means(self.rho.outer(self.u.nodes, self.v.nodes))
        moments = (self.others.T * self.u.weights) / self.sigma[:, None]
        return np.asarray((moments @ values).T)

    def _means(self, values: Float[Array, "points nodes"]) -> Float[Array, "points 1"]:
        """The means over v."""
        return np.asarray(values @ self.v.weights / self.v.volume)[:, None]

    def first(self, r: int) -> "Beyond":
        """What continues the first r functions."""
        return replace(self, others=self.others[:, :r], sigma=self.sigma[:r])


@dataclass(frozen=True, eq=False)
class Side:
    """Singular functions of one variable, by their values on the nodes of a grid or at samples.

    Args:
        grid: The grid or the samples.
        values: The functions there, one column per function.
        beyond: What continues them beyond samples; None for a grid, on which they are piecewise
            polynomials, and for the rows of a matrix, beyond which nothing is known.

    """

    grid: Mesh
    values: Float[Array, "nodes rank"]
    beyond: Beyond | None = None

    def __call__(self, array: Float[Array, "..."]) -> Float[Array, "*shape rank"]:
        """The functions at points: the shape of the points, then one axis for the functions."""
        d, rank = self.grid.d, self.values.shape[1]
        plain = numbers_only(self.grid)
        if not plain and (array.ndim == 0 or array.shape[-1] != d):
            raise InputError(
                f"points must have shape (..., {d})", array.shape, "Pass one row per point."
            )
        shape, flat = array.shape if plain else array.shape[:-1], array.reshape(-1, d)
        if not isinstance(self.grid, Samples):
            found = self.grid.interpolate(self.values, flat)
        elif self.beyond is None:
            found = self.values[_rows(self.grid, flat)]
        else:
            found = self.beyond(flat)
        return found.reshape(*shape, rank)

    def first(self, r: int) -> "Side":
        """The first r functions."""
        beyond = None if self.beyond is None else self.beyond.first(r)
        return replace(self, values=self.values[:, :r], beyond=beyond)


def _rows(samples: Samples, points: Float[Array, "points d"]) -> Int[Array, " points"]:
    """Which of the samples each point is; an InputError for a point that is none of them."""
    known = {row.tobytes(): i for i, row in reversed([*enumerate(samples.nodes + 0.0)])}
    found = [known.get(row.tobytes(), -1) for row in points + 0.0]
    if -1 in found:
        raise InputError(
            "rho is a matrix, known at its rows and columns only; this point is none of them",
            points[found.index(-1)].tolist(),
            f"Pass one of the samples: {_named(samples)}.",
        )
    return np.array(found, dtype=int)


def _named(samples: Samples) -> str:
    """The samples in words: numbers of rows as 0, 1, …, others by what they are."""
    count = len(samples.points)
    if np.array_equal(samples.points, np.arange(count)):
        return f"a whole number from 0 to {count - 1}"
    return f"the {samples} that were given"
