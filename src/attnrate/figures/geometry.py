"""What a figure shows, worked out once for both ways to draw it: values, ranges, ticks, grid."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from attnrate.figures.figure import Curves, Figure, Matrix, Number, Scale, Series
from attnrate.figures.style import DIVERGING, SEQUENTIAL
from attnrate.figures.words import fixed, power

#: A matrix with more rows or columns than this shows shades only
ANNOTATED = 12
#: With more points than this, intervals are a band
MOST_BARS = 30
#: A longer series has about so many markers on its line
MOST_MARKERS = 20
#: At most so many sizes on a logarithmic axis have a tick each
MOST_SIZES = 9
_DODGE = 0.14  # between series at one category


@dataclass(frozen=True)
class Points:
    """The values of a series as they are drawn: nan where there is nothing to draw.

    `low` and `high` are nan where there is no interval. On a logarithmic axis an interval that
    reaches zero or less has low = 0: it leaves the panel below.
    """

    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]

    @property
    def empty(self) -> bool:
        """Whether nothing of the series can be drawn."""
        return all(math.isnan(y) for y in self.y)

    @property
    def alone(self) -> bool:
        """Whether there is a single point to be drawn."""
        return sum(not math.isnan(y) for y in self.y) == 1


@dataclass(frozen=True)
class Axis:
    """The range of an axis, and its ticks where they are chosen here: (place, words)."""

    low: float
    high: float
    ticks: list[tuple[float, str]] | None
    step: int | None = None


def points_of(panel: Curves) -> list[Points]:
    """The values of every series of a panel, in its order."""
    shown = [one for one in panel.series if one.style != "faint"]
    found = []
    for series in panel.series:
        shift = 0.0
        if panel.ticks is not None and series in shown:
            shift = (shown.index(series) - (len(shown) - 1) / 2) * min(_DODGE, 0.7 / len(shown))
        found.append(_points(series, panel, shift))
    return found


def has_bars(panel: Curves, series: Series) -> bool:
    """Whether the intervals of a series are bars; else they are a band."""
    few = len(series.x) <= MOST_BARS or panel.ticks is not None
    return series.style in ("measured", "paper") and few


def _points(series: Series, panel: Curves, shift: float) -> Points:
    nothing = (math.nan,) * len(series.x)
    rows = zip(series.x, series.y, series.low or nothing, series.high or nothing, strict=True)
    xs, ys, lows, highs = [], [], [], []
    for x, y, low, high in rows:
        seen = drawable(x, panel.x_scale) and drawable(y, panel.y_scale)
        between = seen and math.isfinite(low) and drawable(high, panel.y_scale)
        if between and panel.y_scale == "log":
            low = max(low, 0.0)
        xs.append(x + shift if seen else math.nan)
        ys.append(y if seen else math.nan)
        lows.append(low if between else math.nan)
        highs.append(high if between else math.nan)
    return Points(xs, ys, lows, highs)


def drawable(value: Number, scale: Scale) -> bool:
    """Whether a value has a place on an axis of that scale."""
    return math.isfinite(value) and (scale == "linear" or value > 0)


def axes_of(panel: Curves) -> tuple[Axis, Axis]:
    """The x axis and the y axis of a panel."""
    points = points_of(panel)
    xs = [x for one in points for x in one.x] + [a.x for a in panel.lines if a.x is not None]
    ys = [y for one in points for y in one.y] + [a.y for a in panel.lines if a.y is not None]
    ends = [v for one in points for v in (*one.low, *one.high)]
    if panel.ticks is not None:
        named = [(float(i), word) for i, word in enumerate(panel.ticks)]
        x_axis = Axis(-0.5, max(len(named), 1) - 0.5, named)
    else:
        x_axis = axis_over(xs, [], panel.x_scale)
    return x_axis, axis_over(ys, ends, panel.y_scale)


def axis_over(values: Sequence[float], ends: Sequence[float], scale: Scale) -> Axis:
    """An axis that shows all values, and of their intervals what does not squash the values."""
    kept = [_to(v, scale) for v in values if drawable(v, scale)]
    if not kept:
        return Axis(*((1.0, 10.0) if scale == "log" else (0.0, 1.0)), None)
    a, b = min(kept), max(kept)
    room = max((b - a) / 2, 1.0 if scale == "log" else 0.5 * max(abs(a), abs(b)))
    reach = [_to(v, scale) for v in ends if drawable(v, scale)]
    low = max(min([a, *reach]), a - room)
    high = min(max([b, *reach]), b + room)
    pad = 0.06 * (high - low) or (0.3 if scale == "log" else 0.1 * abs(a) or 1.0)
    low, high = low - pad, high + pad
    if scale == "log":
        return Axis(10**low, 10**high, log_ticks(10**low, 10**high, values))
    whole = all(float(v).is_integer() for v in values if math.isfinite(v))
    return Axis(low, high, None, whole_step(low, high) if whole and high - low > 1 else None)


def _to(value: float, scale: Scale) -> float:
    return math.log10(value) if scale == "log" else value


def whole_step(low: float, high: float) -> int:
    """The distance of at most about nine ticks at whole numbers."""
    least = (high - low) / 9
    decade = 10 ** max(0, math.floor(math.log10(least)) if least > 0 else 0)
    return next(int(m * decade) for m in (1, 2, 5, 10) if m * decade >= least)


def log_ticks(low: float, high: float, values: Iterable[float]) -> list[tuple[float, str]]:
    """Ticks that can be read: at the sizes if they are few, at powers of ten, or at 1, 2, 5."""
    kept = sorted({v for v in values if math.isfinite(v) and v > 0})
    if 1 < len(kept) <= MOST_SIZES and all(float(v).is_integer() for v in kept):
        places = [v for i, v in enumerate(kept) if i == 0 or v > 1.15 * kept[i - 1]]
    else:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        every = max(1, round(math.log10(high / low) / 6))
        places = [10.0**k for k in decades if k % every == 0]
        for inner in ((1, 2, 5), tuple(range(1, 10))):
            if sum(low <= place <= high for place in places) < 3:
                places = [m * 10.0**k for k in decades for m in inner]
    places = [place for place in places if low <= place <= high]
    plain = all(1e-3 < place < 1e5 for place in places)
    return [(place, _tick_word(place, plain)) for place in places]


def _tick_word(value: float, plain: bool) -> str:
    exponent = math.floor(math.log10(value) + 1e-9)
    if plain or 0 <= exponent <= 1:
        return f"{value:.6g}"
    mantissa = round(value / 10.0**exponent)
    return power(exponent) if mantissa == 1 else f"{mantissa}×{power(exponent)}"


def shades(panel: Matrix) -> tuple[float, float, tuple[str, ...]]:
    """The range of a matrix and its scale of colours: symmetric when it has both signs."""
    finite = [v for row in panel.values for v in row if math.isfinite(v)]
    low = float(min(finite, default=0.0) if panel.low is None else panel.low)
    high = float(max(finite, default=1.0) if panel.high is None else panel.high)
    if low < 0 < high:
        most = max(-low, high)
        return -most, most, DIVERGING
    if low == high:
        high = low + 1.0
    return low, high, SEQUENTIAL


def size_of(panel: Matrix) -> tuple[int, int]:
    """Rows and columns of a matrix."""
    return len(panel.values), max(map(len, panel.values), default=0)


def squarish(panel: Matrix) -> bool:
    """Whether the cells of a matrix are drawn as squares; those of a long one are stretched."""
    rows, columns = size_of(panel)
    return rows > 0 and columns > 0 and 1 / 3 <= rows / columns <= 3


def cell_words(panel: Matrix) -> list[list[str]] | None:
    """The numbers in the cells, with equally many decimals; None for a large matrix."""
    if not 0 < max(size_of(panel)) <= ANNOTATED:
        return None
    finite = [v for row in panel.values for v in row if math.isfinite(v)]
    most = max(map(abs, finite), default=0.0)
    decade = math.floor(math.log10(most)) if most > 0 else 0
    form = f".{max(0, 1 - decade)}f" if -2 <= decade <= 4 else ".0e"
    form = ".2f" if decade == 0 else form
    form = "d" if all(isinstance(v, int) for v in finite) else form
    return [[fixed(v, form) if math.isfinite(v) else "" for v in row] for row in panel.values]


def columns_of(figure: Figure, most: int = 3) -> int:
    """How many panels stand side by side: four as two by two, else up to `most`."""
    count = max(1, len(figure.panels))
    return min(2 if count == 4 else 3, count, most)


def index_ticks(count: int) -> list[int]:
    """Which rows or columns of a matrix, counted from 0, have their number beside them."""
    if count <= ANNOTATED:
        return list(range(count))
    step = whole_step(0.0, float(count))
    return list(range(0, count, step))
