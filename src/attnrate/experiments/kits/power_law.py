"""A power law that falls to a constant, y = a m^-b + c: least squares, with the interval of b."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from attnrate.statistics import Interval

_LEVEL = 0.95
#: Exponents that are looked at; an interval that reaches an end is open there
LEAST, MOST = 0.01, 8.0
_EXPONENTS = np.geomspace(LEAST, MOST, 5000)


@dataclass(frozen=True)
class PowerLaw:
    """y = a m^-b + c; `b` has the interval of all exponents that fit about as well.

    `p_flat` is how probable so good a fit would be if y did not depend on m at all (F test).
    """

    a: float
    b: Interval
    c: float
    p_flat: float

    @property
    def bounded(self) -> bool:
        """Whether the data bound b on both sides."""
        return None not in self.limits

    @property
    def seen(self) -> bool:
        """Whether y depends on m, falling."""
        return self.a > 0 and self.p_flat <= 1 - _LEVEL

    @property
    def limits(self) -> tuple[float | None, float | None, float | None]:
        """b with its interval as a claim has them; None where the data do not bound it."""
        low = self.b.low if self.b.low > LEAST else None
        return self.b.value, low, self.b.high if self.b.high < MOST else None

    def __str__(self) -> str:
        """b with its interval; an end that was only not looked beyond is told as such."""
        _, low, high = self.limits
        ends = f"≤ {LEAST}" if low is None else f"{low:.3g}", f"≥ {MOST:g}"
        return f"{self.b.value:.3g} [{ends[0]}, {ends[1] if high is None else f'{high:.3g}'}]"

    def at(self, m: float | int) -> float:
        """The value of the law."""
        return float(self.a * m**-self.b.value + self.c)


def fit_power_law(
    m: Sequence[float | int], y: Sequence[float | int], relative: bool = False
) -> PowerLaw | None:
    """The law of the values y at m; None for fewer than four values or three different m.

    For every b the best a and c are linear least squares. The interval holds all b whose sum of
    squares is not larger than the least by more than the F distribution allows; with as many values
    as parameters and one more there is such an interval, though a wide one. `relative` is for
    errors over decades: residuals count as shares of y, and c is not negative.
    """
    x, values = np.asarray(m, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 4 or len(set(x.tolist())) < 3:
        return None
    weight = values**-2.0 if relative else np.ones_like(values)
    powers = x ** -_EXPONENTS[:, None]
    centres, centre = powers @ weight / weight.sum(), float(values @ weight / weight.sum())
    around, off = powers - centres[:, None], values - centre
    a = around @ (weight * off) / (np.square(around) @ weight)
    c = centre - a * centres
    if relative:
        through_zero = powers @ (weight * values) / (np.square(powers) @ weight)
        a, c = np.where(c < 0, through_zero, a), np.maximum(c, 0.0)
    squares = np.square(values - a[:, None] * powers - c[:, None]) @ weight
    best, free = int(np.argmin(squares)), len(x) - 3
    # the rounding of exact data is no evidence
    least = max(float(squares[best]), 1e-24 * float(np.square(values) @ weight))
    allowed = least * (1 + float(stats.f.ppf(_LEVEL, 1, free)) / free)
    # with the neighbours on either side: the exponents looked at are no finer than that
    inside = np.flatnonzero(squares <= allowed)
    low, high = _EXPONENTS[max(inside[0] - 1, 0)], _EXPONENTS[min(inside[-1] + 1, len(squares) - 1)]
    gain = (float(np.square(off) @ weight) - least) / 2 / (least / free)
    return PowerLaw(
        float(a[best]),
        Interval(float(_EXPONENTS[best]), float(low), float(high), len(x)),
        float(c[best]),
        float(stats.f.sf(max(gain, 0.0), 2, free)),
    )
