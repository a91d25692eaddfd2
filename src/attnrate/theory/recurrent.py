"""How hard a linear functional is for a recurrent network: C_RNN (Eq. 76-79)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from attnrate.errors import InputError, require_whole
from attnrate.theory.decay_curves import LEAST_VALUES
from attnrate.theory.decay_result import real_vector

Series = Float[np.ndarray, " e"]
Column = Callable[[Series], Series]

HORIZON = 1 << 16
"""A kernel given as a function is followed to this lag at most."""

UNDERFLOW = -690.0
"""log|rho| below which float64 no longer holds the kernel: a zero after it is no finite support."""

BLOCKS = 48
"""A long envelope is thinned to this many peaks."""

EVIDENCE = 10.0
"""A less simple decay must win by this much in n log(mean square misfit) to be believed ("very
strong" on the scale of Kass & Raftery 1995)."""

LEVEL = 0.95
"""Confidence of the interval for the decay time, as far as the misfit is noise."""

ROUNDING = 1e-9
"""Misfits of log|rho| below this are rounding, and no evidence."""

WORDS = {
    "short": "no decay can be told from fewer than 8 peaks, so C1 and C_RNN are infinite",
    "slower": "no exponential decay is seen, so C1 and C_RNN are infinite",
    "exponential": "exponential decay",
    "faster": "faster than any exponential, so the decay time is 0",
}


@dataclass(frozen=True)
class RNNComplexity:
    """C_RNN = C1 * C2 (Eq. 78): C1 measures the memory, C2 the size of the kernel rho.

    `interval` brackets the decay time inf{beta} of Eq. 76, so C1 - 1; `note` says how it was found.
    """

    C1: float
    C2: float
    interval: tuple[float, float]
    note: str

    @property
    def value(self) -> float:
        """C_RNN; infinite when the kernel does not decay exponentially (outside Eq. 79's space)."""
        return float("inf") if np.isinf(self.C1) else self.C1 * self.C2

    def rate(self, m: int, d: int = 1) -> float:
        """The paper's bound d * C_RNN / m on the error of a linear RNN with m hidden units."""
        return require_whole("d", d, 1) * self.value / require_whole("m", m, 1)

    def __str__(self) -> str:
        lo, hi = self.interval
        return (
            f"C_RNN = {self.value:.6g}: C1 = {self.C1:.6g} (decay time in [{lo:.4g}, {hi:.4g}]), "
            f"C2 = {self.C2:.6g}\n  {self.note}"
        )


def rnn_complexity(kernel: object) -> RNNComplexity:
    """C1, C2 and C_RNN of the kernel rho of y(t) = sum_s rho(s) x(t-s).

    Eq. 76: C1 = 1 + inf{beta > 0 : e^{t/beta} |rho(t)| -> 0}. Eq. 77: C2 = sup_t e^{t/C1} |rho(t)|.
    Eq. 78: C_RNN = C1 C2. Call inf{beta} the decay time.

    `kernel` is rho as a function of an integer array s >= 0, followed to lag 65536, or a vector of
    its first values. A limit is no property of finitely many values, so the decay time is
    extrapolated: the upper envelope of log|rho| is fitted by e^{-s/beta} s^p (a polynomial factor
    is not slower decay), by laws that decay slower than any exponential (decay time infinite, hence
    C_RNN infinite) and faster than any (decay time 0), and the simplest that fits is taken.
    `interval` and `note` say how far the answer is supported. A kernel that vanishes suddenly has
    finite support, decay time 0 and C1 = 1.
    """
    source, values = "array", kernel
    if callable(kernel):
        source = "function"
        with np.errstate(all="ignore"):
            values = kernel(np.arange(HORIZON))
    remedy = "Pass rho(0), rho(1), ..., or a function of the array of lags."
    rho = real_vector("the kernel", values, "the kernel at lag {}", remedy)
    if callable(kernel) and rho.size != HORIZON:
        raise InputError(
            f"the kernel must return one value for each of {HORIZON} lags",
            rho.shape,
            "Write it with numpy functions of the array of lags.",
        )
    nonzero = np.flatnonzero(rho)
    if nonzero.size == 0:
        return RNNComplexity(1.0, 0.0, (0.0, 0.0), f"the {source} is zero everywhere.")
    last = int(nonzero[-1])
    logs = np.full(last + 1, -np.inf)
    logs[nonzero] = np.log(np.abs(rho[nonzero]))
    given = f"extrapolated from {rho.size} values of the {source}"
    if last + 1 < rho.size and logs[last] > UNDERFLOW:
        note = f"finite support: zero beyond lag {last} ({given}), so the decay time is 0."
        return RNNComplexity(1.0, _c2(logs, 1.0), (0.0, 0.0), note)
    kind, low, time, high = _decay_time(logs)
    found = f"decay time {time:.6g}, " if kind == "exponential" else ""
    note = f"{WORDS[kind]}: {found}{given}."
    return RNNComplexity(1.0 + time, _c2(logs, 1.0 + time), (low, high), note)


def _c2(logs: Float[np.ndarray, " t"], C1: float) -> float:
    """Eq. 77 in logarithms, since e^{t/C1} overflows where |rho(t)| underflows."""
    top = float(np.max(logs + np.arange(logs.size) / C1))
    return float(np.exp(top)) if top < -UNDERFLOW else float("inf")


def _decay_time(logs: Float[np.ndarray, " t"]) -> tuple[str, float, float, float]:
    """The kind of decay, and the decay time between its bounds."""
    t, y = _envelope(logs)
    if t.size < LEAST_VALUES:
        return "short", 0.0, float("inf"), float("inf")
    misfit = {
        kind: min(_fit(t, y, columns).misfit for columns in shapes)
        for kind, shapes in SHAPES.items()
    }
    kind = "slower"
    for other in ("exponential", "faster"):
        if t.size * np.log(misfit[kind] / misfit[other]) > EVIDENCE:
            kind = other
    if kind == "faster":
        return kind, 0.0, 0.0, 0.0
    rate, low, high = _settled_rate(t, y)
    if kind == "slower" or rate <= 0.0:
        return "slower", float("inf"), float("inf"), float("inf")
    return kind, 1.0 / high, 1.0 / rate, 1.0 / low if low > 0.0 else float("inf")


def _settled_rate(t: Series, y: Series) -> tuple[float, float, float]:
    """The rate from the longest stretch that later ones agree with, and its bounds.

    What holds early may not hold in the limit, and the limit is what Eq. 76 asks for.
    """
    starts = [start for start in (0, t.size // 4, t.size // 2) if t.size - start >= 5]
    (rate, half), *later = (_rate(t[start:], y[start:]) for start in starts)
    while not all(abs(rate - other) <= wide + half for other, wide in later):
        (rate, half), *later = later
    ends = [rate - half, rate + half, *(other for other, _ in later)]
    return rate, min(ends), max(ends)


def _envelope(logs: Float[np.ndarray, " t"]) -> tuple[Series, Series]:
    """Lags and log|rho| where no later value is larger: a limit sees the peaks only.

    Long envelopes are thinned to one peak a block, taken against the blocks' own trend.
    """
    later = np.maximum.accumulate(logs[::-1])[::-1]
    keep = np.isfinite(logs) & (logs >= later) & (logs > UNDERFLOW)
    t, y = np.flatnonzero(keep).astype(np.float64), logs[keep]
    if t.size <= 2 * BLOCKS:
        return t, y
    design, solution, _ = _fit(t, y, SHAPES["exponential"][0])
    trend = design @ solution
    edges = np.linspace(0, t.size, BLOCKS + 1).astype(int)
    peaks = [int(a + np.argmax((y - trend)[a:b])) for a, b in pairwise(edges)]
    return t[peaks], y[peaks]


def _rate(t: Series, y: Series) -> tuple[float, float]:
    """The exponential rate and half its interval; a polynomial factor only where it is needed."""
    plain, longer = (_fit(t, y, columns) for columns in ((np.positive,), (np.positive, np.log1p)))
    needed = t.size * np.log(plain.misfit / longer.misfit) > EVIDENCE
    design, solution, misfit = longer if needed else plain
    freedom = t.size - design.shape[1]
    spread = np.sqrt(np.linalg.pinv(design.T @ design)[1, 1] * misfit * t.size / freedom)
    half = float(special.stdtrit(freedom, 0.5 + LEVEL / 2.0)) * spread
    return -float(solution[1]), float(half)


class _Fit(NamedTuple):
    """log|rho| as a combination of columns; `misfit` is the mean square, at least rounding."""

    design: Float[np.ndarray, "e p"]
    solution: Float[np.ndarray, " p"]
    misfit: float


def _fit(t: Series, y: Series, columns: tuple[Column, ...]) -> _Fit:
    """A constant and the columns fitted to y by least squares."""
    design = np.stack([np.ones_like(t), *(column(t) for column in columns)], axis=1)
    scale = np.max(np.abs(design), axis=0)
    solution = np.linalg.lstsq(design / scale, y, rcond=None)[0] / scale
    return _Fit(design, solution, float(np.mean((y - design @ solution) ** 2)) + ROUNDING**2)


SHAPES: dict[str, tuple[tuple[Column, ...], ...]] = {
    "slower": (
        (np.log1p, lambda t: 1.0 / (1.0 + t)),
        (np.log1p, lambda t: np.sqrt(1.0 + t)),
        (np.log1p, lambda t: np.log1p(t) ** 2),
    ),
    "exponential": ((np.positive, np.log1p),),
    "faster": ((np.positive, np.square), (np.positive, lambda t: t * np.log1p(t))),
}
"""What log|rho| is a combination of, besides a constant, for each kind of decay."""
