"""Intervals over repetitions (seeds, inputs): means, and slopes of power laws."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

_LEVEL = 0.95
_LARGEST_LOG = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Interval:
    """A value with the interval that holds the true one with 95 % confidence.

    With one observation there is none: low and high are nan.
    """

    value: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """Whether it is of any values at all."""
        return math.isfinite(self.value)

    @property
    def shown(self) -> str:
        """The interval in words; "not run" if there is nothing in it."""
        return str(self) if self.known else "not run"

    @property
    def limits(self) -> tuple[float | None, float | None, float | None]:
        """Value, low and high as a claim has them: None for what is not known."""
        value, low, high = (
            each if math.isfinite(each) else None for each in (self.value, self.low, self.high)
        )
        return value, low, high

    def within(self, least: float, most: float) -> "Interval":
        """The interval cut to what the value can be at all."""
        low, high = (min(max(each, least), most) for each in (self.low, self.high))
        return Interval(self.value, low, high, self.count)

    def no_finer_than(self, step: float) -> "Interval":
        """The interval of a value that comes in steps: equal repetitions do not make it exact."""
        low, high = min(self.low, self.value - step), max(self.high, self.value + step)
        return self if math.isnan(self.low) else Interval(self.value, low, high, self.count)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean(values: Sequence[float]) -> Interval:
    """The arithmetic mean with Student's interval."""
    kept = np.asarray(values, dtype=float)
    if len(kept) == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    centre = float(kept.mean())
    if len(kept) == 1:
        return Interval(centre, math.nan, math.nan, 1)
    half = float(stats.t.ppf(0.5 + _LEVEL / 2, len(kept) - 1) * kept.std(ddof=1))
    half /= math.sqrt(len(kept))
    return Interval(centre, centre - half, centre + half, len(kept))


def geometric_mean(values: Sequence[float]) -> Interval:
    """The geometric mean with Student's interval for the logarithms: for errors over decades."""
    logs = mean([math.log(max(value, 1e-300)) for value in values])
    # an error of 0 among others makes an interval beyond all numbers
    value, low, high = (
        math.inf if log > _LARGEST_LOG else math.exp(log)
        for log in (logs.value, logs.low, logs.high)
    )
    return Interval(value, low, high, logs.count)


def slope(x: Sequence[float], y: Sequence[float]) -> Interval:
    """The exponent of y = c x^slope: least squares of the logarithms, Student's interval."""
    if len(x) < 2:
        return Interval(math.nan, math.nan, math.nan, len(x))
    a, b = np.log(x), np.log(y)
    around = a - a.mean()
    spread = float(around @ around)
    centre = float(around @ b) / spread
    if len(x) == 2:
        return Interval(centre, math.nan, math.nan, 2)
    residual = b - b.mean() - centre * around
    error = math.sqrt(float(residual @ residual) / (len(x) - 2) / spread)
    half = float(stats.t.ppf(0.5 + _LEVEL / 2, len(x) - 2)) * error
    return Interval(centre, centre - half, centre + half, len(x))
