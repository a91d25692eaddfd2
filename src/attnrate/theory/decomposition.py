"""The result of a POD: singular values and functions, and how they are put together.

Every way of computing one (`search.py`, `kinks.py`, `matrix.py`) ends here, in weighted singular
vectors on two grids; the gauge and the count of values are decided in one place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import hypot
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.theory.decay import DecayFit, fit_decay
from attnrate.theory.domain import Mesh, Samples, real_array
from attnrate.theory.evaluate import Evaluator, numbers_only
from attnrate.theory.fresh import RESOLUTION, Factor
from attnrate.theory.panels import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Gauge: TypeAlias = Literal["softmax"] | None
EPS = float(np.finfo(float).eps)
#: Singular values that must be certain, where more were asked for, for a result to have converged
_LEAST_CERTAIN = 50


def as_gauge(gauge: object) -> Gauge:
    """`gauge` itself, or an InputError when it is neither None nor "softmax"."""
    require_choice("gauge", gauge, (None, "softmax"))
    return None if gauge is None else "softmax"


@dataclass(frozen=True)
class Request:
    """What was asked of `pod`, checked."""

    rtol: float
    max_rank: int
    gauge: Gauge

    @property
    def fine(self) -> float:
        """Tolerance of the single steps, so that together they stay below rtol."""
        return max(self.rtol / 8, 16 * EPS)

    def count(
        self, sigma: Float[Array, " k"], doubt: Float[Array, " k"], norm: float
    ) -> tuple[int, int]:
        """How many values are wanted, and how many of these, from the first on, are certain.

        Wanted are values above rtol·sigma_1 and above the rounding of rho itself, at most max_rank;
        certain are those whose `doubt` is within the accuracy asked for.
        """
        if sigma.size == 0 or norm == 0.0:
            return 0, 0
        floor = max(self.rtol * sigma[0], 64 * EPS * norm)
        wanted = min(int(np.sum(sigma > floor)), self.max_rank)
        return wanted, int(np.argmin(np.append(doubt[:wanted] <= self.rtol * norm, False)))

    def ungauged(self, matrix: Float[Array, "m n"], weights: Float[Array, " n"]) -> Array:
        """Weighted nodal values with what the gauge does not see, their means over v, taken out."""
        if self.gauge is None:
            return matrix
        one = np.sqrt(weights / np.sum(weights))  # P = I - 1⊗1
        return np.asarray(matrix.T - np.multiply.outer(one, one @ matrix.T)).T


@dataclass(frozen=True, eq=False)
class Side:
    """Singular functions of one variable, by their values on the nodes of a grid or at samples."""

    grid: Mesh
    values: Float[Array, "nodes rank"]
    #: beyond samples: the first functions at any points, from the points and how many functions
    beyond: Callable[[Float[Array, "points d"], int], Array]

    def __call__(self, points: object) -> Float[Array, "*shape rank"]:
        """The functions at `points`, one more axis than the points have."""
        array = real_array("points", points)
        d, rank = self.grid.d, self.values.shape[1]
        plain = numbers_only(self.grid)
        if not plain and (array.ndim == 0 or array.shape[-1] != d):
            raise InputError(f"points must have shape (..., {d})", array.shape, "One row a point.")
        shape, flat = array.shape if plain else array.shape[:-1], array.reshape(-1, d)
        if isinstance(self.grid, Samples):
            return self.beyond(flat, rank).reshape(*shape, rank)
        return self.grid.interpolate(self.values, flat).reshape(*shape, rank)

    def first(self, r: int) -> "Side":
        """The first r functions."""
        return replace(self, values=self.values[:, :r])


@dataclass(frozen=True, eq=False)
class Pod:
    """rho(u, v) = Σ_k sigma_k phi_k(u) psi_k(v), phi and psi orthonormal in L².

    `error` bounds the error of the returned singular values (absolute), and `rest` is the root of
    the sum of squares of those not returned; together, `residual`, they bound what the returned
    terms leave of rho in L². When `converged`, error <= rtol·‖rho‖. A feature of rho that covers
    less than `resolution` of the domain may have been missed; larger ones were met by the fresh
    pairs at which the result was tried, with 95 % confidence. It is 0 where rho was
    asked at all pairs of samples.
    """

    sigma: Float[Array, " rank"]
    error: float
    converged: bool
    rest: float
    norm: float
    rtol: float
    gauge: Gauge
    evaluations: int
    resolution: float
    _u: Side = field(repr=False)
    _v: Side = field(repr=False)

    @property
    def rank(self) -> int:
        """How many singular values are returned: those above rtol·sigma_1, at most max_rank."""
        return len(self.sigma)

    @property
    def residual(self) -> float:
        """A bound on the L² norm of rho minus the returned terms (modulo the gauge, if any)."""
        return self.rest + self.error

    def phi(self, u: object) -> Float[Array, "*shape rank"]:
        """phi_1 … phi_rank at any points of the first domain: shape of the points, then rank."""
        return self._u(u)

    def psi(self, v: object) -> Float[Array, "*shape rank"]:
        """psi_1 … psi_rank at any points of the second domain: shape of the points, then rank."""
        return self._v(v)

    def __call__(self, u: object, v: object) -> Float[Array, "*shape"]:
        """Σ_k sigma_k phi_k(u) psi_k(v), broadcasting u against v."""
        return np.asarray(np.sum(self.phi(u) * self.sigma * self.psi(v), axis=-1))

    def tail(self, r: object) -> float:
        """(Σ_{k>r} sigma_k²)^½: the least L² error of any rank-r approximation (Eq. 11)."""
        return hypot(*self.sigma[require_whole("r", r, 0) :], self.rest)

    def truncate(self, r: object) -> "Pod":
        """The first r terms; the others move into `rest`."""
        kept = min(require_whole("r", r, 0), self.rank)
        return replace(
            self,
            sigma=self.sigma[:kept],
            rest=self.tail(kept),
            _u=self._u.first(kept),
            _v=self._v.first(kept),
        )

    def decay(self, level: float = 0.95) -> DecayFit:
        """The law that sigma follows; a spectrum that ends well above rtol has finite rank.

        Not so where it ends because samples do: as many values as there are samples (one less under
        the softmax gauge, which takes the mean over v out) say nothing of the rank of rho. Nor
        where it has not converged: what was missed may go on, and values below the error are not
        known.
        """
        if not self.converged and self.rank:
            return fit_decay(self.sigma[: max(1, int(np.sum(self.sigma > self.error)))], level)
        gauged = 0 if self.gauge is None else 1
        sides = ((self._u.grid, 0), (self._v.grid, gauged))
        sizes = [len(d.points) - less for d, less in sides if isinstance(d, Samples)]
        ends = self.rest <= 10 * self.rtol * self.norm and self.rank < min(sizes, default=np.inf)
        clear = self.rank == 0 or self.sigma[-1] > 1e4 * self.rtol * self.sigma[0]
        return fit_decay(np.append(self.sigma, 0.0) if ends and clear else self.sigma, level)

    def to_frame(self) -> "pd.DataFrame":
        """A row a singular value: sigma, the tail beyond it, the share of energy up to it."""
        import pandas as pd

        tails = np.array([self.tail(k) for k in range(self.rank + 1)])
        total = tails[0] or 1.0
        return pd.DataFrame(
            {"sigma": self.sigma, "tail": tails[1:], "energy": 1 - (tails[1:] / total) ** 2},
            index=pd.RangeIndex(1, self.rank + 1, name="k"),
        )

    def plot(self) -> "Figure":
        """The spectrum and its tail on a logarithmic scale."""
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.subplots()
        k = np.arange(1, self.rank + 1)
        tails = np.array([self.tail(r) for r in range(1, self.rank + 1)])
        seen = tails > 10 * self.error  # a tail of rounding size is no tail
        axes.semilogy(k, self.sigma, "o", ms=4, color="#1b4965", label="σₖ")
        axes.semilogy(k[seen], tails[seen], "_", ms=9, color="#ca6702", label="tail beyond k")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("k")
        axes.set_ylabel("singular value σₖ, tail (Σ σ²)^½")
        gauge = ", modulo the softmax gauge" if self.gauge else ""
        axes.set_title(f"POD: rank {self.rank}{gauge}; error of σ {self.error:.0e}", fontsize=11)
        axes.legend(frameon=False)
        return figure

    def __str__(self) -> str:
        shown = ", ".join(f"{s:.6g}" for s in self.sigma[:6]) + (", …" if self.rank > 6 else "")
        state = "converged" if self.converged else "NOT CONVERGED"
        beyond = f", beyond them {self.rest:.2g}" if self.rest > self.rtol * self.norm else ""
        gauge = ", modulo the softmax gauge" if self.gauge else ""
        text = (
            f"POD of rank {self.rank}{gauge}: sigma = {shown}\n"
            f"  {state}, error of sigma at most {self.error:.1e}{beyond}; "
            f"{self.evaluations:,} evaluations of rho"
        )
        if self.resolution > 0.0:
            share = f"1/{round(1 / self.resolution):,}"
            text += f"\n  a feature of less than {share} of the domain may have been missed"
        return text


def enough(certain: int, wanted: int) -> bool:
    """Whether so many certain values are an answer, those after them being known as a tail."""
    return certain >= min(wanted, _LEAST_CERTAIN)


def assemble(
    rho: Evaluator,
    left: Factor,
    right: Factor,
    sigma: Float[Array, " k"],
    doubt: Float[Array, " k"],
    norm: float,
    ask: Request,
    *,
    beyond: float = 0.0,
    least: float = 0.0,
    resolution: float = RESOLUTION,
) -> Pod:
    """A Pod from singular triples whose vectors are orthonormal in weighted nodal values.

    `doubt` is by how much each value may be off, and `least` an error that all of them have.
    `norm` is that of rho, and `beyond` the sum of the squares of values that are not in `sigma`.
    """
    gu, gv = left.grid, right.grid
    wanted, certain = ask.count(sigma, doubt, norm)
    keep = certain if enough(certain, wanted) else wanted
    # at least what rounding may cost, here and in rho
    error = max(float(np.max(doubt[:keep], initial=least)), 8 * EPS * norm)
    phi = left.values[:, :keep] / np.sqrt(gu.weights)[:, None]
    psi = right.values[:, :keep] / np.sqrt(gv.weights)[:, None]
    # a decomposition has a free sign per term; fix it so that results are reproducible
    sign = np.sign(phi[np.argmax(np.abs(phi), axis=0), np.arange(keep)]) if keep else np.ones(0)
    phi, psi = phi * sign, psi * sign
    kept = sigma[:keep]

    # Nyström: phi = (1/sigma) ∫ rho(·, v) psi(v) dv continues phi beyond the samples, and likewise
    # psi. Under the gauge psi has no mean but for rounding, which 1/sigma would blow up: the mean
    # over v is taken out of rho on both sides.
    def beyond_u(points: Array, r: int) -> Array:
        rows = rho.outer(points, gv.nodes)
        if ask.gauge == "softmax":
            rows = rows - (rows @ gv.weights / gv.volume)[:, None]
        return np.asarray((rows * gv.weights) @ psi[:, :r] / kept[:r])

    def beyond_v(points: Array, r: int) -> Array:
        moments = (phi[:, :r].T * gu.weights) / kept[:r, None]
        rows = rho.outer(gu.nodes, points)
        if ask.gauge == "softmax":
            rows = rows - (rho.outer(gu.nodes, gv.nodes) @ gv.weights / gv.volume)[:, None]
        return np.asarray((moments @ rows).T)

    return Pod(
        sigma=kept * rho.unit,
        error=error * rho.unit,
        converged=error <= ask.rtol * norm,
        rest=float(np.sqrt(np.sum(sigma[keep:] ** 2) + beyond)) * rho.unit,
        norm=norm * rho.unit,
        rtol=ask.rtol,
        gauge=ask.gauge,
        evaluations=rho.watch.evaluations,
        resolution=resolution,
        _u=Side(gu, phi, beyond_u),
        _v=Side(gv, psi, beyond_v),
    )
