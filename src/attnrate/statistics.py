"""Means and slopes of power laws over repetitions (seeds, inputs), with 95 % intervals."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

_LEVEL = 0.95
_LARGEST_LOG = math.log(sys.float_info.max)


@dataclass(frozen=True, repr=False)
class Interval:
    """An estimate with the interval that holds the true value with 95 % confidence.

    Attributes:
        value: The estimate; nan if there were no observations.
        low: The lower end of the interval; nan if there are too few observations for one.
        high: The upper end of the interval; nan if there are too few observations for one.
        count: The number of observations.

    Examples:
        >>> found = ar.mean([1.0, 2.0, 3.0])
        >>> print(found)
        2 [-0.484, 4.48]
        >>> found.known
        True

    """

    value: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """Whether there were any observations."""
        return math.isfinite(self.value)

    @property
    def shown(self) -> str:
        """The estimate and its interval in words; "not run" if there were no observations."""
        return str(self) if self.known else "not run"

    @property
    def limits(self) -> tuple[float | None, float | None, float | None]:
        """Value, low and high; None for what is not known."""
        value, low, high = (
            each if math.isfinite(each) else None for each in (self.value, self.low, self.high)
        )
        return value, low, high

    def within(self, least: float, most: float) -> "Interval":
        """Cut the interval to the range of possible values.

        Args:
            least: The least possible value.
            most: The greatest possible value.

        """
        low, high = (min(max(each, least), most) for each in (self.low, self.high))
        return Interval(self.value, low, high, self.count)

    def no_finer_than(self, step: float) -> "Interval":
        """Widen the interval of a value that is measured in steps to one step on either side.

        Equal repetitions do not make such a value exact.

        Args:
            step: The size of a step.

        """
        low, high = min(self.low, self.value - step), max(self.high, self.value + step)
        return self if math.isnan(self.low) else Interval(self.value, low, high, self.count)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.value:.3g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def __repr__(self) -> str:
        return str(self)


def mean(values: Sequence[float]) -> Interval:
    """Return the arithmetic mean with Student's 95 % interval.

    Args:
        values: The observations.

    Returns:
        The mean. With one observation there is no interval, with none the mean is nan.

    Examples:
        >>> print(ar.mean([0.1, 0.2, 0.3]))
        0.2 [-0.0484, 0.448]

    """
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
    """Return the geometric mean with Student's 95 % interval of the logarithms.

    It suits errors, which differ by factors rather than by amounts.

    Args:
        values: The observations, greater than 0; zeros count as 1e-300.

    Returns:
        The mean. With one observation there is no interval, with none the mean is nan.

    Examples:
        >>> print(ar.geometric_mean([0.01, 0.1, 1.0]))
        0.1 [0.000328, 30.5]

    """
    logs = mean([math.log(max(value, 1e-300)) for value in values])
    # zeros among the values may make an interval beyond the range of floats
    value, low, high = (
        math.inf if log > _LARGEST_LOG else math.exp(log)
        for log in (logs.value, logs.low, logs.high)
    )
    return Interval(value, low, high, logs.count)


def slope(x: Sequence[float], y: Sequence[float]) -> Interval:
    """Return the exponent of the power law y = c x^slope, by least squares of the logarithms.

    Args:
        x: Abscissas, greater than 0.
        y: Values, greater than 0, as many as x.

    Returns:
        The exponent with Student's 95 % interval, which needs three points.

    Examples:
        >>> print(ar.slope([1.0, 2.0, 4.0], [1.0, 0.25, 0.0625]))
        -2 [-2, -2]

    """
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
