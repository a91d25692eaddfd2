"""What is known of a spectrum's decay: its law, the parameter with its interval, and why."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.theory.decay_curves import Curve, Vector, abscissa

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Law = Literal["power", "exponential", "superexponential", "finite rank", "none"]

SMOOTH = {"power": "alpha", "exponential": "rate", "superexponential": "order"}
"""The laws that have a curve, each with the name of its parameter."""


@dataclass(frozen=True, kw_only=True)
class DecayFit:
    """The law of a spectrum sigma_1 >= sigma_2 >= ..., with an interval for its parameter.

    One of these is set, the others are None: `alpha` (power: sigma_k ~ (k + shift)^-alpha), `rate`
    (exponential: sigma_k ~ e^{-rate k}), `order` (superexponential: sigma_k ~ I_k(turn)^order,
    that is e^{-order k log k} for k beyond `turn`) or `rank` (finite rank). `interval` holds
    (lo, hi) for alpha or rate at confidence `level`. It is None for an order, which describes the
    curve that was fitted: that curve leaves out a slow factor of I_k, so that intervals held the
    order of real Bessel spectra in half of the cases only. `used` is the first and last k that
    entered the fit, `clear` how many values stand clear of the numerical floor, `floor` the largest
    value that was taken for rounding. `scores` is the criterion of each law (smaller is better;
    "none" is the best rival that is no law), `reason` says why this law. `C1` is `envelope(alpha)`
    for a power law, else None. `noise_floor` is a floor f well above rounding that lifts the law to
    (law^join + f^join)^(1/join), None (and `join` 0) where there is no evidence for one.
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

    def envelope(self, alpha: float | int) -> float:
        """Eq. 12 for one spectrum: the least c with sigma_k <= c k^-alpha for every k >= 1.

        It is sup_k sigma_k k^alpha. The paper prints s >= 0 and means s >= 1. The supremum runs
        over every value clear of the floor, also those at the ends that did not enter the fit: an
        envelope has to hold there too. Beyond the last value it holds as far as the law does.
        """
        if not np.isfinite(alpha):
            raise InputError("alpha must be a finite number", alpha, "Pass e.g. alpha=1.0.")
        return envelope(self.sigma[: self.clear], alpha)

    def predict(self, k: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """The fitted law, with its floor if it has one, at ranks k.

        Raises InputError where there is no smooth law to evaluate.
        """
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
        return np.asarray(np.exp(law.at(k)), dtype=np.float64)

    def to_frame(self) -> "pd.DataFrame":
        """One row a value: k, sigma, the fitted law (NaN where there is none), and `used`."""
        import pandas as pd

        k = np.arange(1, self.sigma.size + 1)
        lo, hi = self.used or (1, 0)
        smooth = self.law in SMOOTH
        fitted = self.predict(index(self.sigma)) if smooth else np.full(k.size, np.nan)
        return pd.DataFrame(
            {"k": k, "sigma": self.sigma, "fitted": fitted, "used": (k >= lo) & (k <= hi)}
        )

    def plot(self) -> "Figure":
        """The spectrum and its law on logarithmic axes, as a figure without pyplot state."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.5, 4.0), layout="constrained")
        axes = figure.subplots()
        k = index(self.sigma)
        shown = self.sigma > 0
        axes.plot(k[shown], self.sigma[shown], "o", ms=3, color="0.45", label="singular values")
        if self.law in SMOOTH and self.used is not None:
            within = k[self.used[0] - 1 : self.used[1]]
            axes.plot(within, self.predict(within), "k-", lw=1.5, label=self._parameter())
        if self.floor is not None and self.floor > 0:
            axes.axhline(self.floor, color="0.6", ls=":", label="numerical floor")
        if self.noise_floor is not None:
            axes.axhline(self.noise_floor, color="0.6", ls="--", label="noise floor")
        if shown.any():
            axes.set_yscale("log")
        axes.set_xscale("linear" if self.law in ("exponential", "superexponential") else "log")
        axes.set(xlabel="rank k", ylabel="singular value σ_k", title=f"law: {self.law}")
        axes.legend()
        return figure

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
        return f"{self.law}{parameter}{C1}{lifted}{used}\n  {self.reason}"


def envelope(values: Vector, alpha: float | int) -> float:
    """C1^(alpha) = sup_k sigma_k k^alpha (Eq. 12, which prints s >= 0 and means s >= 1).

    In logarithms, because k^alpha may overflow.
    """
    positive = values[values > 0.0]
    if positive.size == 0:
        return 0.0
    return float(np.exp(np.max(np.log(positive) + alpha * np.log(index(positive)))))


def index(values: Vector) -> Vector:
    """k = 1, 2, ... of the values."""
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
