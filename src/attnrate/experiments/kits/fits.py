"""Errors of finished fits over sizes and seeds: means, ratios, exponents, power laws, curves."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy import stats

from attnrate.experiments.contract import Done, select
from attnrate.figures.figure import Cell, Curves, Series, Style, Table
from attnrate.statistics import Interval, geometric_mean, mean, slope

#: The error that fits are judged by
MSE = "E mean_t |H_t - Ĥ_t|²"
_LEVEL = 0.95
#: Exponents that are looked at; an interval that reaches an end is open there
LEAST, MOST = 0.01, 8.0
_EXPONENTS = np.geomspace(LEAST, MOST, 5000)
T = TypeVar("T")


class Fits(tuple[Done[Any, Any], ...]):
    """Finished jobs whose outcomes have an `error`, None if the fit diverged.

    Labels have a seed, and a size where errors over sizes are asked for.
    """

    def where(self, **wanted: object) -> "Fits":
        """Those whose labels have these values."""
        return Fits(select(self, **wanted))

    def mean(self, **wanted: object) -> Interval:
        """The geometric mean of the errors with these labels, over seeds; nan if there are none."""
        return geometric_mean(errors(self.where(**wanted)))

    def over(self, others: Iterable[Done[Any, Any]], *names: str) -> list[float]:
        """The error of each over that of every one of the others that agrees in these fields."""
        return paired(self, others, *names)

    @property
    def sizes(self) -> list[int]:
        """The different sizes, in order."""
        return sorted({one.label.size for one in self})

    @property
    def points(self) -> list[tuple[int, float]]:
        """(size, error) of every fit that did not diverge, by size; every seed is a point."""
        return [(size, error) for size in self.sizes for error in errors(self.where(size=size))]

    @property
    def slope(self) -> Interval:
        """The exponent of the error in the size."""
        return slope_of(self.points)

    @property
    def by_seed(self) -> dict[int, float]:
        """The errors of fits that differ in their seeds alone, by seed."""
        return {int(one.label.seed): error for one in self for error in errors([one])}

    def series(self, label: str) -> Series:
        """Errors over the sizes that have any, with intervals over seeds."""
        means = [(float(size), self.mean(size=size)) for size in self.sizes]
        return curve(label, [(size, found) for size, found in means if found.known])

    @property
    def seeds(self) -> set[int]:
        """The different seeds."""
        return {int(one.label.seed) for one in self}

    @property
    def steps(self) -> str:
        """How many steps they took, after a comma; nothing where none is known."""
        steps = [one.outcome.steps for one in self if one.outcome.steps]
        if not steps:
            return ""
        few, many = min(steps), max(steps)
        return f", {many:,} steps" if few == many else f", {few:,} to {many:,} steps"


def errors(fits: Iterable[Done[Any, Any]]) -> list[float]:
    """The errors of those fits that did not diverge."""
    return [one.outcome.error for one in fits if one.outcome.error is not None]


def paired(
    above: Iterable[Done[Any, Any]], below: Iterable[Done[Any, Any]], *names: str
) -> list[float]:
    """error / error of every two fits, one of each list, whose labels agree in these fields."""

    def place(fit: Done[Any, Any]) -> tuple[object, ...]:
        return tuple(getattr(fit.label, name) for name in names)

    found: dict[tuple[object, ...], list[float]] = {}
    for one in below:
        found.setdefault(place(one), []).extend(errors([one]))
    return [
        a / b if b else math.inf
        for one in above
        for a in errors([one])
        for b in found.get(place(one), [])
    ]


def listed(found: Mapping[str, object]) -> str:
    """Names with what was found of each, in words; "not run" where there is nothing."""
    words = {n: one.shown if isinstance(one, Interval) else one for n, one in found.items()}
    return "; ".join(f"{name}: {one}" for name, one in words.items()) or "not run"


def slope_of(found: Sequence[tuple[int, float]], least: int = 2) -> Interval:
    """The exponent of y = c x^slope through the points; nothing for too few different x."""
    if len({x for x, _ in found}) < least:
        return slope([], [])
    return slope([float(x) for x, _ in found], [y for _, y in found])


def curve(label: str, points: Sequence[tuple[float, Interval]], group: str | None = None) -> Series:
    """Measured values with their intervals, over x."""
    return Series(
        label,
        tuple(x for x, _ in points),
        tuple(one.value for _, one in points),
        tuple(one.low for _, one in points),
        tuple(one.high for _, one in points),
        group=group,
    )


def table_of(
    title: str, items: Iterable[T], columns: Mapping[str, Callable[[T], Cell]], note: str = ""
) -> Table:
    """A table with a row for each item; every column says what its cell of an item is."""
    rows = tuple(tuple(cell(one) for cell in columns.values()) for one in items)
    return Table(title, tuple(columns), rows, note)


def spread(values: Sequence[float]) -> Interval:
    """The mean of the values, with the least and the largest of them in place of an interval."""
    return Interval(mean(values).value, min(values), max(values), len(values))


def line(
    label: str,
    points: Iterable[tuple[float | int, float]],
    style: Style = "measured",
    group: str | None = None,
) -> Series:
    """Values over sizes, without intervals."""
    found = list(points)
    x, y = tuple(float(size) for size, _ in found), tuple(value for _, value in found)
    return Series(label, x, y, style=style, group=group)


def error_panel(title: str, axis: str, series: Iterable[Series]) -> Curves:
    """A panel of errors over sizes, both in logarithms."""
    return Curves(title, axis, f"error {MSE}", tuple(series), "log", "log")


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
