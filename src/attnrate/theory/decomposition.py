"""The result of a POD: singular values and functions, and how they are put together.

Every way of computing one (`search.py`, `kinks.py`, `matrix.py`) ends here, with weighted singular
vectors on two grids. How many values are returned is decided here alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import hypot, nan
from typing import TYPE_CHECKING, Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from attnrate.settings import Natural, by, checked
from attnrate.shown import Shown
from attnrate.theory.decay import Decay, Level, fit_decay
from attnrate.theory.domain import Samples, real_array
from attnrate.theory.evaluate import Evaluator
from attnrate.theory.fresh import RESOLUTION, Factor
from attnrate.theory.panels import Array
from attnrate.theory.singular import Beyond, Side
from attnrate.words import Gauge

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

EPS = float(np.finfo(float).eps)
#: A result counts as converged when this many values are certain, even if more were requested
_LEAST_CERTAIN = 50
#: Points at which singular functions are evaluated
Points: TypeAlias = Annotated[npt.ArrayLike, by(real_array)]


@dataclass(frozen=True)
class Request:
    """The checked arguments of `pod` that decide which values are returned."""

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
        """The number of values that are wanted, and the number of these that are certain.

        Wanted are values above rtol·sigma_1 and above the rounding of rho itself, at most max_rank.
        Certain are the first of these, as far as their `doubt` is within the accuracy asked for.
        """
        if sigma.size == 0 or norm == 0.0:
            return 0, 0
        floor = max(self.rtol * sigma[0], 64 * EPS * norm)
        wanted = min(int(np.sum(sigma > floor)), self.max_rank)
        return wanted, int(np.argmin(np.append(doubt[:wanted] <= self.rtol * norm, False)))

    def ungauged(self, matrix: Float[Array, "m n"], weights: Float[Array, " n"]) -> Array:
        """Weighted nodal values without what the gauge leaves out: their means over v."""
        if self.gauge == "none":
            return matrix
        one = np.sqrt(weights / np.sum(weights))  # P = I - 1⊗1
        return np.asarray(matrix.T - np.multiply.outer(one, one @ matrix.T)).T


@dataclass(frozen=True, eq=False, repr=False)
class Pod(Shown):
    """The singular values and functions of a coupling: rho(u, v) = Σ_k sigma_k phi_k(u) psi_k(v).

    phi_k and psi_k are orthonormal in L² of the two domains (Eq. 10). `pod` makes one. A Pod can be
    copied and pickled; over samples it keeps rho, which must then be a function that can be pickled
    (one of a module, no lambda).

    Attributes:
        sigma: The singular values, descending: those above rtol·sigma_1, at most max_rank. The
            array is read-only.
        error: A bound on the error of each singular value, in the units of rho.
        converged: Whether error ≤ rtol·norm.
        rest: The root of the sum of squares of the singular values that are not in `sigma`.
        norm: The L² norm of rho.
        rtol: The relative accuracy that was asked for.
        gauge: What was left out of rho: "softmax" (its mean over v) or "none".
        evaluations: The number of pairs (u, v) at which rho was evaluated; the number of entries
            of a matrix.
        resolution: A share of the domain. Smaller features of rho may have been missed; larger ones
            were met by the fresh pairs at which the result was checked, with 95 % confidence. 0
            where rho was evaluated at all pairs of samples.

    Examples:
        >>> import numpy as np
        >>> p = ar.pod(lambda u, v: 1 + 2 * np.sin(2 * np.pi * u) * np.sin(2 * np.pi * v), (0, 1))
        >>> p.sigma.round(6).tolist()
        [1.0, 1.0]
        >>> print(p)
        POD of rank 2: sigma = 1, 1
          converged, error of sigma at most ...
        >>> p.tail(1) < 1.001
        True

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

    def __post_init__(self) -> None:
        self.sigma.flags.writeable = False

    @property
    def rank(self) -> int:
        """The number of singular values: those above rtol·sigma_1, at most max_rank."""
        return len(self.sigma)

    @property
    def residual(self) -> float:
        """A bound on the L² norm of rho minus the terms of this Pod (modulo the gauge, if any)."""
        return self.rest + self.error

    @checked
    def phi(self, u: Points) -> Float[Array, "*shape rank"]:
        """phi_1, …, phi_rank at any points of the first domain.

        Args:
            u: Points: numbers, or arrays with a last axis of d coordinates. For a matrix they are
                numbers of rows.

        Returns:
            The values: the shape of the points, then one axis of length rank.

        """
        return self._u(np.asarray(u))

    @checked
    def psi(self, v: Points) -> Float[Array, "*shape rank"]:
        """psi_1, …, psi_rank at any points of the second domain.

        Args:
            v: Points: numbers, or arrays with a last axis of d coordinates. For a matrix they are
                numbers of columns.

        Returns:
            The values: the shape of the points, then one axis of length rank.

        """
        return self._v(np.asarray(v))

    @checked
    def __call__(self, u: Points, v: Points) -> Float[Array, "*shape"]:
        """Σ_k sigma_k phi_k(u) psi_k(v), where u and v broadcast against each other."""
        left, right = self._u(np.asarray(u)), self._v(np.asarray(v))
        return np.asarray(np.sum(left * self.sigma * right, axis=-1))

    @checked
    def tail(self, r: Natural) -> float:
        """(Σ_{k>r} sigma_k²)^½: the least L² error of any rank-r approximation (Eq. 11).

        Args:
            r: A rank, from 0 on.

        """
        return hypot(*self.sigma[r:], self.rest)

    @checked
    def truncate(self, r: Natural) -> "Pod":
        """The first r terms; the others count in `rest`.

        Args:
            r: The number of terms to keep, from 0 on.

        """
        kept = min(r, self.rank)
        return replace(
            self,
            sigma=self.sigma[:kept],
            rest=self.tail(kept),
            _u=self._u.first(kept),
            _v=self._v.first(kept),
        )

    @checked
    def decay(self, level: Level = 0.95) -> Decay:
        """The law by which the singular values fall, or that there is none.

        A spectrum that ends well above rtol has finite rank. Two cases are no evidence for that:
        samples have no more singular values than there are samples, so that a rank above half of
        their number is not claimed; and where the result has not converged, what was missed may go
        on, and values below `error` are not known.

        Args:
            level: The confidence of the interval, between 0 and 1.

        Returns:
            The law with its parameter; see `fit_decay`.

        """
        if not self.converged and self.rank:
            return fit_decay(self.sigma[: max(1, int(np.sum(self.sigma > self.error)))], level)
        sizes = [len(d.points) for d in (self._u.grid, self._v.grid) if isinstance(d, Samples)]
        most = min(sizes, default=np.inf) / 2
        ends = self.rest <= 10 * self.rtol * self.norm
        clear = self.rank == 0 or self.sigma[-1] > 1e4 * self.rtol * self.sigma[0]
        found = fit_decay(np.append(self.sigma, 0.0) if ends and clear else self.sigma, level)
        if found.rank is not None and found.rank > most:
            return fit_decay(self.sigma[: found.rank], level)
        return found

    def to_frame(self) -> "pd.DataFrame":
        """One row per singular value: sigma, the tail beyond it, the share of energy up to it.

        Returns:
            A table with the index k = 1, 2, … and the columns sigma, tail and energy.

        """
        import pandas as pd

        tails = np.array([self.tail(k) for k in range(self.rank + 1)])
        total = tails[0] or 1.0
        return pd.DataFrame(
            {"sigma": self.sigma, "tail": tails[1:], "energy": 1 - (tails[1:] / total) ** 2},
            index=pd.RangeIndex(1, self.rank + 1, name="k"),
        )

    def plot(self) -> "Drawing":
        """The singular values and the tails beyond them, on a logarithmic scale.

        Returns:
            A matplotlib figure, which a notebook shows.

        """
        from attnrate.figures.draw import draw
        from attnrate.figures.figure import Curves, Figure, Line, Series

        k = tuple(range(1, self.rank + 1))

        def known(values: Iterable[float]) -> tuple[float, ...]:
            # what is below the error is noise
            return tuple(value if value > self.error else nan for value in values)

        state = "" if self.converged else "NOT CONVERGED, "
        panel = Curves(
            f"{state}error of σ at most {self.error:.0e}",
            "rank k",
            "singular value, tail",
            (
                Series("singular value σ_k", k, known(self.sigma.tolist())),
                Series(
                    "tail beyond k: (Σ σ²)^½ over j > k",
                    k,
                    known(map(self.tail, k)),
                    style="theory",
                ),
            ),
            y_scale="log",
            lines=() if self.converged else (Line("error: nothing below is known", y=self.error),),
        )
        title = f"POD of rank {self.rank}{self._gauge_words()}"
        return draw(Figure("pod", title, "", (panel,)))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing | None":
        return self.plot() if self.rank else None

    def _gauge_words(self) -> str:
        return ", modulo the softmax gauge" if self.gauge == "softmax" else ""

    def __str__(self) -> str:
        shown = ", ".join(f"{s:.6g}" for s in self.sigma[:6]) + (", …" if self.rank > 6 else "")
        state = "converged"
        if not self.converged:
            above = int(np.sum(self.sigma > self.error))
            state = f"NOT CONVERGED, {above:,} of the values above their error"
        beyond = f", beyond rank {self.rank}: {self.rest:.2g}"
        matrix = isinstance(self._u.grid, Samples) and self._u.beyond is None
        text = (
            f"POD of rank {self.rank}{self._gauge_words()}: "
            f"{f'sigma = {shown}' if self.rank else 'no singular value is above zero'}\n"
            f"  {state}, error of sigma at most {self.error:.1e}"
            f"{beyond if self.rest > self.rtol * self.norm else ''}; "
            f"{self.evaluations:,} {'entries of the matrix' if matrix else 'evaluations of rho'}"
        )
        if self.resolution > 0.0:
            share = f"1/{round(1 / self.resolution):,}"
            text += f"\n  a feature of less than {share} of the domain may have been missed"
        return text


def enough(certain: int, wanted: int) -> bool:
    """Whether this number of certain values is an answer; those after them are known as a tail."""
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
    """Make a Pod from singular triples whose vectors are orthonormal in weighted nodal values.

    Args:
        rho: The coupling.
        left: The left singular vectors on the grid of u.
        right: The right singular vectors on the grid of v.
        sigma: The singular values, descending.
        doubt: For each value, by how much it may be off.
        norm: The L² norm of rho.
        ask: The arguments of `pod`.
        beyond: The sum of the squares of singular values that are not in `sigma`.
        least: An error that every value has at least.
        resolution: The share of the domain below which features may have been missed.

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

    sides = (
        Side(gu, phi, Beyond(rho, "u", gu, gv, psi, kept, ask.gauge)),
        Side(gv, psi, Beyond(rho, "v", gu, gv, phi, kept, ask.gauge)),
    )
    # a grid needs no rho to go on, so that the result does not hold it
    u, v = (
        side if isinstance(side.grid, Samples) else replace(side, beyond=None) for side in sides
    )
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
        _u=u,
        _v=v,
    )
