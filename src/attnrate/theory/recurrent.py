"""How hard a linear functional is for a recurrent network: C_RNN (Eq. 76-79)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy import special

from attnrate.errors import InputError
from attnrate.settings import Count, by, checked
from attnrate.shown import Shown
from attnrate.targets.checks import Numbers
from attnrate.theory.decay_curves import LEAST_VALUES
from attnrate.theory.decay_result import real_vector


def _require_kernel(name: str, kernel: object) -> object:
    """`kernel` itself if it is a function, else its values as a vector; or an InputError."""
    return kernel if callable(kernel) else _values(kernel)


def _values(values: object) -> Float[np.ndarray, " lags"]:
    remedy = "Pass rho(0), rho(1), ..., or a function of the array of lags."
    return real_vector("the kernel", values, "the kernel at lag {}", remedy)


#: A kernel rho: its first values, or a function of the integer array of lags
RNNKernel = Annotated[
    Numbers | Callable[[npt.NDArray[np.int64]], Numbers],
    by(_require_kernel),
]
Series = Float[np.ndarray, " e"]
Column = Callable[[Series], Series]

HORIZON = 1 << 16
"""The number of lags at which a kernel that is a function is evaluated."""

UNDERFLOW = -690.0
"""log|rho| below which float64 no longer holds the kernel: zeros after it may be underflow."""

BLOCKS = 48
"""The number of peaks that are kept of a long envelope."""

EVIDENCE = 10.0
"""By how much a less simple law of decay must win in n log(mean square misfit): "very strong"
evidence on the scale of Kass & Raftery (1995)."""

LEVEL = 0.95
"""The confidence level of the interval for the decay time, if the misfit is noise."""

ROUNDING = 1e-9
"""Misfits of log|rho| below this are rounding and count as no evidence."""

WORDS = {
    "short": "fewer than 8 peaks do not show a decay, so C1 and C_RNN are infinite",
    "slower": "no exponential decay is seen, so C1 and C_RNN are infinite",
    "exponential": "exponential decay",
    "faster": "faster than any exponential, so the decay time is 0",
}


@dataclass(frozen=True, repr=False)
class RNNComplexity(Shown):
    """C_RNN = C1 C2 (Eq. 78) of a linear functional: C1 measures its memory, C2 its size.

    Attributes:
        C1: 1 + the decay time of the kernel, inf{beta} of Eq. 76.
        C2: sup_t e^{t/C1} |rho(t)| (Eq. 77).
        interval: Bounds of the decay time, C1 - 1.
        note: How the decay time was found, in a sentence.

    Examples:
        >>> ar.rnn_complexity(lambda s: 0.5**s)
        C_RNN = 2.4427: C1 = 2.4427 (decay time in [1.443, 1.443]), C2 = 1
          exponential decay: decay time 1.4427, extrapolated from 65536 values of the function.

    """

    C1: float
    C2: float
    interval: tuple[float, float]
    note: str

    @property
    def value(self) -> float:
        """C_RNN; infinite for a kernel outside the space of Eq. 79: no exponential decay."""
        return float("inf") if np.isinf(self.C1) else self.C1 * self.C2

    @checked
    def rate(self, m: Count, d: Count = 1) -> float:
        """The paper's bound d C_RNN / m on the error of a linear RNN.

        Args:
            m: The number of hidden units, 1 or more.
            d: The dimension of the inputs.

        Returns:
            The bound; infinite where C_RNN is.

        """
        return d * self.value / m

    def __str__(self) -> str:
        lo, hi = self.interval
        return (
            f"C_RNN = {self.value:.6g}: C1 = {self.C1:.6g} (decay time in [{lo:.4g}, {hi:.4g}]), "
            f"C2 = {self.C2:.6g}\n  {self.note}"
        )


@checked
def rnn_complexity(kernel: RNNKernel) -> RNNComplexity:
    """C1, C2 and C_RNN of a linear functional y(t) = Σ_s rho(s) x(t-s).

    Eq. 76: C1 = 1 + inf{beta > 0 : e^{t/beta} |rho(t)| -> 0}. Eq. 77: C2 = sup_t e^{t/C1} |rho(t)|.
    Eq. 78: C_RNN = C1 C2. The infimum is called the decay time here.

    Finitely many values do not decide a limit, so the decay time is extrapolated. The upper
    envelope of log|rho| is fitted by e^{-s/beta} s^p (a polynomial factor does not change the decay
    time), by laws that decay slower than any exponential (the decay time and C_RNN are infinite)
    and by laws that decay faster than any (the decay time is 0); the simplest law that fits is
    taken. A kernel that drops to zero and stays there has finite support, decay time 0 and C1 = 1.

    Args:
        kernel: rho: a vector of its first values, or a function that takes the integer array of
            lags 0, ..., 65535 and gives one value for each.

    Returns:
        C1 and C2, with an interval for the decay time and a note on how it was found.

    Raises:
        InputError: If the kernel has values that are not finite, or a wrong shape.

    Examples:
        >>> import numpy as np
        >>> found = ar.rnn_complexity(lambda s: np.exp(-s / 3))
        >>> round(found.value, 6), round(found.rate(m=8), 6)
        (4.0, 0.5)
        >>> ar.rnn_complexity(lambda s: 1 / (1 + s)).value
        inf

    """
    source, values = "array", kernel
    if callable(kernel):
        source = "function"
        with np.errstate(all="ignore"):
            values = kernel(np.arange(HORIZON, dtype=np.int64))
    rho = _values(values)
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
    """C2 (Eq. 77), computed in logarithms: e^{t/C1} overflows where |rho(t)| underflows."""
    top = float(np.max(logs + np.arange(logs.size) / C1))
    return float(np.exp(top)) if top < -UNDERFLOW else float("inf")


def _decay_time(logs: Float[np.ndarray, " t"]) -> tuple[str, float, float, float]:
    """The kind of decay, the lower bound of the decay time, the decay time, its upper bound."""
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
    """The exponential rate of the longest stretch that all later stretches agree with.

    Eq. 76 asks for the limit, and an early rate may not be that of the limit.

    Returns:
        The rate, its lower and its upper bound.

    """
    starts = [start for start in (0, t.size // 4, t.size // 2) if t.size - start >= 5]
    (rate, half), *later = (_rate(t[start:], y[start:]) for start in starts)
    while not all(abs(rate - other) <= wide + half for other, wide in later):
        (rate, half), *later = later
    ends = [rate - half, rate + half, *(other for other, _ in later)]
    return rate, min(ends), max(ends)


def _envelope(logs: Float[np.ndarray, " t"]) -> tuple[Series, Series]:
    """Lags and log|rho| where no later value is larger: the limit of Eq. 76 depends on these peaks.

    A long envelope is thinned to one peak per block: the highest above the trend.
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
    """The exponential rate and half the width of its interval.

    The fit has a polynomial factor only where the evidence for one is very strong.
    """
    plain, longer = (_fit(t, y, columns) for columns in ((np.positive,), (np.positive, np.log1p)))
    needed = t.size * np.log(plain.misfit / longer.misfit) > EVIDENCE
    design, solution, misfit = longer if needed else plain
    freedom = t.size - design.shape[1]
    spread = np.sqrt(np.linalg.pinv(design.T @ design)[1, 1] * misfit * t.size / freedom)
    half = float(special.stdtrit(freedom, 0.5 + LEVEL / 2.0)) * spread
    return -float(solution[1]), float(half)


class _Fit(NamedTuple):
    """A fit of log|rho| by columns; `misfit` is the mean square of what is left, plus rounding."""

    design: Float[np.ndarray, "e p"]
    solution: Float[np.ndarray, " p"]
    misfit: float


def _fit(t: Series, y: Series, columns: tuple[Column, ...]) -> _Fit:
    """Fit y by a constant and the columns, in the least squares."""
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
"""For each kind of decay, the functions that log|rho| is a combination of, besides a constant."""
