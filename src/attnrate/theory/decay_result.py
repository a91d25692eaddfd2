"""What is known about the decay of a spectrum: its law, its parameter with an interval, and why."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.theory.decay_curves import Curve, Vector, abscissa

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Law: TypeAlias = Literal["power", "exponential", "superexponential", "finite rank", "none"]
"""The laws by which singular values may fall; "none" if none of the others describes them."""

SMOOTH = {"power": "alpha", "exponential": "rate", "superexponential": "order"}
"""The laws that have a curve, each with the name of its parameter."""


def _require_exponent(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not np.isfinite(value):
        raise InputError(f"{name} must be a finite number", value, f"Pass e.g. {name}=1.0.")
    return float(value)


def _require_ranks(name: str, values: object) -> Vector:
    return real_vector(name, values, name + "[{}]", "Pass ranks such as np.arange(1.0, 51.0).")


@dataclass(frozen=True, kw_only=True, repr=False)
class Decay(Shown):
    """The law by which a spectrum sigma_1 ≥ sigma_2 ≥ … falls, with its parameter and the reason.

    `fit_decay` and `Pod.decay` make one. Exactly one of `alpha`, `rate`, `order` and `rank` is set,
    according to the law; all are None where there is no law.

    Attributes:
        law: "power", "exponential", "superexponential", "finite rank" or "none".
        alpha: The exponent of a power law, sigma_k ~ (k + shift)^-alpha.
        rate: The rate of an exponential, sigma_k ~ e^{-rate k}.
        rank: The rank, where all further values are zero or at the level of rounding.
        shift: The shift of a power law; 0 where there is no strong evidence for one.
        interval: The confidence interval (low, high) of alpha or rate. None for an order: it
            describes the fitted curve, which leaves out a slow factor of the Bessel functions, so
            that intervals contained the order of real Bessel spectra in half of the cases only.
        level: The confidence of the interval, 0.95 by default.
        C1: `envelope(alpha)` of a power law: sigma_k ≤ C1 k^-alpha for every k.
        used: The first and the last k that entered the fit.
        clear: The number of values that stand clear of the numerical floor.
        floor: The largest value that was taken for rounding; None where there is none.
        scores: The Bayesian information criterion of each law; smaller is better. "none" is that of
            the best curve of any other form.
        reason: Why this law, in a sentence.
        sigma: The spectrum.
        order: The order of a superexponential, sigma_k ~ I_k(turn)^order, with the modified Bessel
            function I: e^{-order k log k} for k beyond `turn`.
        turn: Where k log k takes over from k² in a superexponential.
        noise_floor: A floor f well above rounding that lifts the end of the law to
            (law^join + f^join)^(1/join); None where there is no evidence for one.
        join: The power with which the floor is joined to the law: 1 or 2, or 0 without a floor.

    Examples:
        >>> import numpy as np
        >>> decay = ar.fit_decay(3.0 / np.arange(1, 41) ** 2)
        >>> decay.law, round(decay.alpha, 6), round(decay.C1, 6)
        ('power', 2.0, 3.0)
        >>> float(decay.predict([100.0])[0].round(9))
        0.0003

    """

    law: Law
    alpha: float | None = None
    rate: float | None = None
    rank: int | None = None
    shift: float = 0.0
    interval: tuple[float, float] | None = None
    level: float
    C1: float | None = None
    used: tuple[int, int] | None = None
    clear: int
    floor: float | None
    scores: dict[str, float] = field(default_factory=dict)
    reason: str
    sigma: Vector = field(repr=False, compare=False)
    order: float | None = None
    turn: float | None = None
    noise_floor: float | None = None
    join: int = 0

    @checked
    def envelope(self, alpha: Annotated[float, by(_require_exponent)]) -> float:
        """Eq. 12 for one spectrum: the least c with sigma_k ≤ c k^-alpha for every k ≥ 1.

        It is sup_k sigma_k k^alpha. (The paper prints s ≥ 0 and means s ≥ 1.) The supremum runs
        over every value clear of the floor, including those at the ends that did not enter the fit,
        because an envelope has to hold there too. Beyond the last value it holds as far as the law.

        Args:
            alpha: An exponent.

        """
        return envelope(self.sigma[: self.clear], alpha)

    @checked
    def predict(self, k: Annotated[npt.ArrayLike, by(_require_ranks)]) -> Float[np.ndarray, " n"]:
        """The fitted law at ranks k, with its floor if it has one.

        Args:
            k: Ranks, from 1 on; need not be whole.

        Returns:
            The singular values that the law gives.

        Raises:
            InputError: The law is "none" or "finite rank", which have no curve.

        """
        at = np.asarray(k)
        value = self.alpha or self.rate or self.order
        if self.used is None or value is None:
            raise InputError("there is no smooth law to evaluate", self.law, self.reason)
        lo, hi = self.used
        bend = self.shift if self.turn is None else self.turn
        x = abscissa(self.law, index(self.sigma)[lo - 1 : hi], bend)
        y = np.log(self.sigma[lo - 1 : hi])
        bare, floor = y, -np.inf
        if self.noise_floor is not None:
            floor = float(np.log(self.noise_floor))
            # Values at the floor say nothing of the law's size; the largest one always counts.
            clear = np.maximum(y - floor, np.where(np.arange(y.size) == 0, 0.1, 0.0))
            kept = clear > np.log(2.0) if np.any(clear > np.log(2.0)) else clear >= clear.max()
            bare = floor + clear[kept] + np.log(-np.expm1(-self.join * clear[kept])) / self.join
            x = x[kept]
        size = float(np.mean(bare + value * x))
        law = Curve(y, 2, self.law, size, value, bend, floor, self.join)
        return np.asarray(np.exp(law.at(at)), dtype=np.float64)

    def to_frame(self) -> "pd.DataFrame":
        """One row per singular value.

        Returns:
            A table with the columns k, sigma, fitted (the law; NaN where there is none) and used
            (whether the value entered the fit).

        """
        import pandas as pd

        k = np.arange(1, self.sigma.size + 1)
        lo, hi = self.used or (1, 0)
        smooth = self.law in SMOOTH
        fitted = self.predict(index(self.sigma)) if smooth else np.full(k.size, np.nan)
        return pd.DataFrame(
            {"k": k, "sigma": self.sigma, "fitted": fitted, "used": (k >= lo) & (k <= hi)}
        )

    def plot(self) -> "Drawing":
        """The spectrum and its law on logarithmic axes.

        The axis of k is linear where the law is an exponential or faster, so that an exponential is
        a straight line; else it is logarithmic, so that a power law is one.

        Returns:
            A matplotlib figure, which a notebook shows.

        """
        from attnrate.figures.draw import draw
        from attnrate.figures.figure import Curves, Figure, Line, Series

        k = index(self.sigma)
        values = np.where(self.sigma > 0, self.sigma, np.nan)
        series = [Series("singular value σ_k", tuple(k.tolist()), tuple(values.tolist()))]
        if self.law in SMOOTH and self.used is not None:
            within = k[self.used[0] - 1 : self.used[1]]
            law = tuple(self.predict(within).tolist())
            label = f"{self.law}: {self._parameter()}"
            series.append(Series(label, tuple(within.tolist()), law, style="theory"))
        floors = (("numerical floor", self.floor), ("noise floor", self.noise_floor))
        panel = Curves(
            "",
            "rank k",
            "singular value σ_k",
            tuple(series),
            "linear" if self.law in ("exponential", "superexponential") else "log",
            "log",
            tuple(Line(label, y=value) for label, value in floors if value),
        )
        words = {"none": "no law of decay", "finite rank": f"finite rank {self.rank}"}
        title = words.get(self.law, f"Law of decay: {self.law}")
        return draw(Figure("decay", title[0].upper() + title[1:], "", (panel,)))

    def _figure(self) -> "Drawing | None":
        return self.plot() if np.any(self.sigma > 0) else None

    def _parameter(self) -> str:
        if self.law == "finite rank":
            return f"rank = {self.rank}"
        shown = f"{SMOOTH[self.law]} = {self.alpha or self.rate or self.order:.4g}"
        if self.interval is None:
            return shown
        lo, hi = self.interval
        return f"{shown} [{lo:.4g}, {hi:.4g}] at {self.level:.0%}"

    def __str__(self) -> str:
        used = "" if self.used is None else f", k = {self.used[0]}..{self.used[1]}"
        C1 = "" if self.C1 is None else f", C1 = {self.C1:.4g}"
        parameter = "" if self.law == "none" else f": {self._parameter()}"
        lifted = "" if self.noise_floor is None else f", noise floor = {self.noise_floor:.3g}"
        law = "no law is certain" if self.law == "none" else self.law
        return f"{law}{parameter}{C1}{lifted}{used}\n  {self.reason}"


def envelope(values: Vector, alpha: float | int) -> float:
    """C1^(alpha) = sup_k sigma_k k^alpha (Eq. 12, which prints s ≥ 0 and means s ≥ 1).

    It is computed in logarithms, because k^alpha may overflow.
    """
    positive = values[values > 0.0]
    if positive.size == 0:
        return 0.0
    return float(np.exp(np.max(np.log(positive) + alpha * np.log(index(positive)))))


def index(values: Vector) -> Vector:
    """The ranks k = 1, 2, … of the values."""
    return np.arange(1, values.size + 1, dtype=np.float64)


def real_vector(name: str, values: object, entry: str, remedy: str) -> Vector:
    """`values` as a float64 vector, or an InputError that says what is wrong.

    Args:
        name: What the vector is called in a message.
        values: What was given.
        entry: How one value is called, with {} for its index.
        remedy: What to pass instead of something that is no vector.

    """
    try:
        given = np.asarray(values)
        vector = given.astype(np.float64, casting="safe" if given.dtype.kind == "c" else "unsafe")
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a vector of real numbers", values, remedy) from None
    if vector.ndim != 1 or vector.size == 0:
        wanted = "one-dimensional, with at least one value"
        raise InputError(f"{name} must be {wanted}", vector.shape, remedy)
    wrong = ~np.isfinite(vector)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"{entry.format(i)} is not finite", float(vector[i]), remedy)
    return vector
