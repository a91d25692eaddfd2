"""Means, differences and slopes over repetitions (seeds, inputs), with 95 % intervals."""

import functools
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

#: The level of intervals where nothing else is said
LEVEL = 0.95
_level: ContextVar[float] = ContextVar("the level of intervals", default=LEVEL)
_WIDE = 2  # decades from which on the ends of an interval say next to nothing
_LARGEST_LOG = math.log(sys.float_info.max)


@contextmanager
def at_level(level: float) -> Iterator[None]:
    """Give all intervals that are computed inside the block another level than 95 %.

    Claims that are looked at again and again need wider intervals, and only those who look know how
    wide (see experiments/looks.py). What computes the intervals need not know that it is repeated.

    Args:
        level: The probability with which an interval holds the true value, between 0 and 1.

    """
    token = _level.set(level)
    try:
        yield
    finally:
        _level.reset(token)


def level_now() -> float:
    """The level of intervals: 0.95, or that of the innermost block of `at_level`."""
    return _level.get()


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

    @property
    def decades(self) -> int | None:
        """The decades that the interval spans if these are two or more, else None.

        Such an interval, as of two seeds, says next to nothing: its ends are not worth printing.
        """
        return decades(self.low, self.high)

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
        if self.decades is not None:
            return f"{self.value:.3g} (interval over {self.decades} decades)"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def __repr__(self) -> str:
        return str(self)


def decades(low: float, high: float) -> int | None:
    """The decades between the ends of an interval of positive values; None if fewer than two.

    Args:
        low: The lower end.
        high: The upper end.

    """
    if not (0 < low < high < math.inf) or math.log10(high) - math.log10(low) < _WIDE:
        return None
    return round(math.log10(high) - math.log10(low))


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
    half = float(_half_width(len(kept) - 1.0) * kept.std(ddof=1))
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
        >>> print(ar.geometric_mean([0.05, 0.1, 0.2]))
        0.1 [0.0179, 0.559]
        >>> print(ar.geometric_mean([0.01, 0.1, 1.0]))
        0.1 (interval over 5 decades)

    """
    logs = mean([math.log(max(value, 1e-300)) for value in values])
    # zeros among the values may make an interval beyond the range of floats
    value, low, high = (
        math.inf if log > _LARGEST_LOG else math.exp(log)
        for log in (logs.value, logs.low, logs.high)
    )
    return Interval(value, low, high, logs.count)


@dataclass(frozen=True)
class Difference:
    """The difference of two means.

    Attributes:
        interval: The difference, second minus first, with Student's 95 % interval.
        error: The standard error of the difference; nan if there are too few observations for one.
        freedom: The degrees of freedom of Student's distribution.

    """

    interval: Interval
    error: float
    freedom: float

    def chance(self, beyond: float = 0.0) -> float:
        """The p-value of the claim that the true difference is at most `beyond` in size.

        It is twice that of Student's one-sided test on the side on which the difference lies. So
        the claim is given up with probability 5 % at most where it is true, and a difference that
        is then called larger than `beyond` or less than -`beyond` has the right sign.

        Args:
            beyond: The largest size that counts as no difference; 0 gives the usual t-test.

        Returns:
            A number between 0 and 1; 1 if there are too few observations for an interval.

        """
        if math.isnan(self.error):
            return 1.0
        size = abs(self.interval.value) - beyond
        if size <= 0:
            return 1.0
        if self.error == 0:
            return 0.0
        # imported here and below, so that what only shows numbers starts quickly
        from scipy import special

        return min(1.0, 2 * float(special.stdtr(self.freedom, -size / self.error)))


def paired_difference(
    before: Sequence[float], after: Sequence[float], rounding: float = 0.0
) -> Difference:
    """Return the mean of after - before over repetitions that both share, one by one.

    Args:
        before: The first observations.
        after: The second observations, as many, in the same order.
        rounding: The step in which the values are measured, 1 for whole numbers. Equal observations
            do not make such a value exact: each counts with at least the variance step²/12 of a
            number that was rounded to it. 0 stands for values that are measured exactly.

    Returns:
        The difference; its interval needs two observations.

    """
    apart = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    spread = float(apart.var(ddof=1)) if len(apart) > 1 else math.nan
    spread = max(spread, 2 * rounding**2 / 12) if len(apart) > 1 else spread
    centre = float(apart.mean()) if len(apart) else math.nan
    return _difference(centre, spread / max(len(apart), 1), len(apart) - 1.0, len(apart))


def difference(
    before: Sequence[float], after: Sequence[float], rounding: float = 0.0
) -> Difference:
    """Return the difference of the means of two independent samples, after - before.

    The interval is Welch's: the samples may differ in their variances and in their sizes.

    Args:
        before: The first sample.
        after: The second sample.
        rounding: The step in which the values are measured, as for `paired_difference`.

    Returns:
        The difference; its interval needs two observations in each sample. `count` is the number
        of observations in the smaller sample.

    """
    samples = [np.asarray(each, dtype=float) for each in (before, after)]
    counts = [len(each) for each in samples]
    one, two = (float(each.mean()) if len(each) else math.nan for each in samples)
    if min(counts) < 2:
        return _difference(two - one, math.nan, math.nan, min(counts))
    least = rounding**2 / 12
    shares = [
        max(float(each.var(ddof=1)), least) / n for each, n in zip(samples, counts, strict=True)
    ]
    # Welch and Satterthwaite: the degrees of freedom of a weighted sum of variances; each share by
    # the sum of both, so that squares of tiny variances do not vanish
    both = sum(shares)
    parts = [(share / both) ** 2 / (n - 1) for share, n in zip(shares, counts, strict=True) if both]
    return _difference(two - one, both, 1 / sum(parts) if parts else 1.0, min(counts))


def _difference(centre: float, variance: float, freedom: float, count: int) -> Difference:
    """A difference with the variance of its estimate; nan stands for an unknown variance."""
    error = math.sqrt(variance) if variance >= 0 else math.nan
    half = _half_width(freedom) * error if count > 1 else math.nan
    return Difference(Interval(centre, centre - half, centre + half, count), error, freedom)


@functools.lru_cache(maxsize=64)  # the heads of a model have one number of inputs
def t_quantile(freedom: int | float, chance: float = 0.5 + LEVEL / 2) -> float:
    """Give the quantile of Student's t.

    Args:
        freedom: The degrees of freedom.
        chance: The chance of a value below it; by default that of the upper end of a 95 % interval.

    Returns:
        The value.

    """
    from scipy import special  # scipy.stats has the same numbers and takes half a second longer

    return float(special.stdtrit(freedom, chance))


def _half_width(freedom: float) -> float:
    """Half of the width of an interval of the present level, in standard errors."""
    return t_quantile(freedom, 0.5 + level_now() / 2)


def false_discovery(chances: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's adjusted p-values of several tests.

    If the tests whose adjusted p-value is at most q are called discoveries, then at most the share
    q of the discoveries is false on average. This holds for tests that are independent, or that
    depend on each other positively.

    Args:
        chances: The p-values.

    Returns:
        The adjusted p-values, in the same order.

    """
    if not chances:
        return []
    from scipy import stats

    return [float(each) for each in stats.false_discovery_control(chances)]


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
    half = _half_width(len(x) - 2.0) * error
    return Interval(centre, centre - half, centre + half, len(x))
