"""Errors of finished fits over sizes and seeds: means, ratios, exponents, power laws, curves."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from attnrate.experiments.contract import Done, select
from attnrate.figures.figure import Cell, Curves, Series, Style, Table
from attnrate.statistics import Interval, geometric_mean, level_now, mean, slope

#: The error by which fits are judged
MSE = "E mean_t |H_t - Ĥ_t|²"
#: Range of exponents that is searched; an interval that reaches an end of it is open there
LEAST, MOST = 0.01, 8.0
_EXPONENTS = np.geomspace(LEAST, MOST, 5000)
T = TypeVar("T")


@dataclass(frozen=True)
class Diverged(Interval):
    """The unknown value of fits that all diverged, where an empty interval would read "not run"."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    count: int = 0

    @property
    def shown(self) -> str:
        """The word that stands for the value in sentences and tables."""
        return "diverged"


#: The value of fits that all diverged
DIVERGED = Diverged()


class Fits(tuple[Done[Any, Any], ...]):
    """Finished jobs whose outcomes have an `error`, which is None if the fit diverged.

    Every label has a `seed`; where errors are compared over sizes it also has a `size`.
    """

    def where(self, **wanted: object) -> "Fits":
        """Select the fits whose labels have these values."""
        return Fits(select(self, **wanted))

    def mean(self, **wanted: object) -> Interval:
        """Average the errors with these labels over seeds, geometrically; nan if there are none."""
        found = self.where(**wanted)
        return DIVERGED if found.diverged else geometric_mean(errors(found))

    def over(self, others: Iterable[Done[Any, Any]], *names: str) -> list[float]:
        """Divide errors by those of `others`, pairing fits that agree in the named fields."""
        return paired(self, others, *names)

    def ratio(self, others: "Fits", *names: str) -> Interval:
        """Average the ratios of `over` geometrically."""
        if self.diverged or (self and others.diverged):
            return DIVERGED
        return geometric_mean(self.over(others, *names))

    @property
    def errors(self) -> list[float]:
        """The errors of the fits that did not diverge."""
        return errors(self)

    @property
    def diverged(self) -> bool:
        """Whether there are fits and all of them diverged."""
        return bool(self) and not errors(self)

    @property
    def sizes(self) -> list[int]:
        """The distinct sizes in increasing order."""
        return sorted({one.label.size for one in self})

    @property
    def points(self) -> list[tuple[int, float]]:
        """(size, error) of every fit that did not diverge, ordered by size; one point per seed."""
        return [(size, error) for size in self.sizes for error in errors(self.where(size=size))]

    @property
    def slope(self) -> Interval:
        """The exponent b of error ~ size^b, with its interval."""
        return DIVERGED if self.diverged else slope_of(self.points)

    @property
    def by_seed(self) -> dict[int, float]:
        """The error of each seed, for fits that differ in nothing but the seed."""
        return {int(one.label.seed): error for one in self for error in errors([one])}

    def series(self, label: str) -> Series:
        """Make a curve of the mean error over sizes, with intervals over seeds."""
        means = [(float(size), self.mean(size=size)) for size in self.sizes]
        return curve(label, [(size, found) for size, found in means if found.known])

    @property
    def seeds(self) -> set[int]:
        """The distinct seeds."""
        return {int(one.label.seed) for one in self}

    @property
    def steps(self) -> str:
        """The number of training steps, as text that follows a comma; empty if it is unknown."""
        steps = [one.outcome.steps for one in self if one.outcome.steps]
        if not steps:
            return ""
        few, many = min(steps), max(steps)
        return f", {many:,} steps" if few == many else f", {few:,} to {many:,} steps"


_NO_FITS = Fits()


def errors(fits: Iterable[Done[Any, Any]]) -> list[float]:
    """List the errors of the fits that did not diverge."""
    return [one.outcome.error for one in fits if one.outcome.error is not None]


def paired(
    above: Iterable[Done[Any, Any]], below: Iterable[Done[Any, Any]], *names: str
) -> list[float]:
    """Divide each error of `above` by each error of `below` whose label agrees in these fields."""

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


def listed(found: Mapping[str, Interval | str], fits: Fits = _NO_FITS) -> str:
    """List names with what was found for each: "name: value; name: value".

    Where nothing was found the text is "diverged" if all of `fits` diverged, else "not run".
    """
    words = {n: one.shown if isinstance(one, Interval) else one for n, one in found.items()}
    nothing = DIVERGED.shown if fits.diverged else "not run"
    return "; ".join(f"{name}: {one}" for name, one in words.items()) or nothing


def cell_of(found: Interval) -> Cell:
    """The value of an interval as a cell of a table: a number, "diverged", or None if unknown."""
    return found.shown if isinstance(found, Diverged) else found.limits[0]


def slope_of(found: Sequence[tuple[int, float]], least: int = 2) -> Interval:
    """Fit y = c x^slope; the result is unknown for fewer than `least` distinct x."""
    if len({x for x, _ in found}) < least:
        return slope([], [])
    return slope([float(x) for x, _ in found], [y for _, y in found])


def curve(label: str, points: Sequence[tuple[float, Interval]], group: str | None = None) -> Series:
    """Make a curve of measured values with their intervals.

    An interval over two decades or more is not drawn: it would only stretch the axis.
    """
    drawn = [one.decades is None for _, one in points]
    return Series(
        label,
        tuple(x for x, _ in points),
        tuple(one.value for _, one in points),
        tuple(one.low if d else math.nan for (_, one), d in zip(points, drawn, strict=True)),
        tuple(one.high if d else math.nan for (_, one), d in zip(points, drawn, strict=True)),
        group=group,
    )


def table_of(
    title: str, items: Iterable[T], columns: Mapping[str, Callable[[T], Cell]], note: str = ""
) -> Table:
    """Make a table with one row per item; `columns` maps each heading to the cell of an item."""
    rows = tuple(tuple(cell(one) for cell in columns.values()) for one in items)
    return Table(title, tuple(columns), rows, note)


def spread(values: Sequence[float]) -> Interval:
    """The mean of the values, with their least and largest value in place of an interval."""
    return Interval(mean(values).value, min(values), max(values), len(values))


def line(
    label: str,
    points: Iterable[tuple[float | int, float]],
    style: Style = "measured",
    group: str | None = None,
) -> Series:
    """Make a curve of values without intervals."""
    found = list(points)
    x, y = tuple(float(size) for size, _ in found), tuple(value for _, value in found)
    return Series(label, x, y, style=style, group=group)


def error_panel(title: str, axis: str, series: Iterable[Series]) -> Curves:
    """Make a panel of errors over sizes with logarithmic axes."""
    return Curves(title, axis, f"error {MSE}", tuple(series), "log", "log")


@dataclass(frozen=True)
class PowerLaw:
    """A fitted law y = a m^-b + c.

    The interval of `b` holds all exponents that fit about as well. `p_flat` is the p-value of
    an F test against a constant y: how often a fit this good would occur if y did not depend on
    m.
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
        """Whether y clearly falls with m."""
        return self.a > 0 and self.p_flat <= 1 - level_now()

    @property
    def limits(self) -> tuple[float | None, float | None, float | None]:
        """(b, low, high) as a claim stores them; None for an end that the data do not bound."""
        low = self.b.low if self.b.low > LEAST else None
        return self.b.value, low, self.b.high if self.b.high < MOST else None

    def __str__(self) -> str:
        """b with its interval; an end at the limit of the search is shown as ≤ or ≥."""
        _, low, high = self.limits
        ends = f"≤ {LEAST}" if low is None else f"{low:.3g}", f"≥ {MOST:g}"
        return f"{self.b.value:.3g} [{ends[0]}, {ends[1] if high is None else f'{high:.3g}'}]"

    def at(self, m: float | int) -> float:
        """Evaluate the law at m."""
        return float(self.a * m**-self.b.value + self.c)


def fit_power_law(
    m: Sequence[float | int], y: Sequence[float | int], relative: bool = False
) -> PowerLaw | None:
    """Fit y = a m^-b + c; None for fewer than four values or three distinct m.

    For each b the best a and c follow from linear least squares. The interval of b holds every
    exponent whose sum of squares exceeds the least one by no more than the F distribution
    allows; four values are enough for an interval, though a wide one. With `relative`, for
    errors that spread over decades, residuals are divided by y and c is not negative.
    """
    x, values = np.asarray(m, dtype=float), np.asarray(y, dtype=float)
    if len(x) < 4 or len(set(x.tolist())) < 3:
        return None
    from scipy import stats  # half a second, which other commands need not spend

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
    # for exact data the sum of squares is rounding error, which must not count as evidence
    least = max(float(squares[best]), 1e-24 * float(np.square(values) @ weight))
    allowed = least * (1 + float(stats.f.ppf(level_now(), 1, free)) / free)
    # include the neighbours on both sides, because the grid of exponents is no finer than that
    inside = np.flatnonzero(squares <= allowed)
    low, high = _EXPONENTS[max(inside[0] - 1, 0)], _EXPONENTS[min(inside[-1] + 1, len(squares) - 1)]
    gain = (float(np.square(off) @ weight) - least) / 2 / (least / free)
    return PowerLaw(
        float(a[best]),
        Interval(float(_EXPONENTS[best]), float(low), float(high), len(x)),
        float(c[best]),
        float(stats.f.sf(max(gain, 0.0), 2, free)),
    )
