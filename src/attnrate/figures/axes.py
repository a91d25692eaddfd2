"""Ranges and ticks of axes: all values are shown, and the ticks can be read."""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from attnrate.figures.figure import Number, Scale
from attnrate.figures.marks import Axis
from attnrate.figures.words import power

#: The largest number of sizes on a logarithmic axis that have a tick each
MOST_SIZES = 9
#: The largest number of rows or columns that have a number each
MOST_NUMBERED = 12


def drawable(value: Number, scale: Scale) -> bool:
    """Whether a value can be drawn on an axis of that scale: finite, and positive on a log axis."""
    return math.isfinite(value) and (scale == "linear" or value > 0)


def axis_over(
    label: str, values: Sequence[Number], ends: Sequence[Number] = (), scale: Scale = "linear"
) -> Axis:
    """An axis that shows all values, and the ends of intervals as far as there is room for them.

    Intervals that reach far beyond the values are cut at the axis, so that the values stay apart.
    """
    kept = [_to(v, scale) for v in values if drawable(v, scale)]
    if not kept:
        return Axis(label, *((1.0, 10.0) if scale == "log" else (0.0, 1.0)), scale)
    a, b = min(kept), max(kept)
    room = max((b - a) / 2, 1.0 if scale == "log" else 0.5 * max(abs(a), abs(b)))
    reach = [_to(v, scale) for v in ends if drawable(v, scale)]
    low = max(min([a, *reach]), a - room)
    high = min(max([b, *reach]), b + room)
    pad = 0.06 * (high - low) or (0.3 if scale == "log" else 0.1 * abs(a) or 1.0)
    low, high = low - pad, high + pad
    if scale == "log":
        return Axis(label, 10**low, 10**high, scale, log_ticks(10**low, 10**high, values))
    whole = all(float(v).is_integer() for v in values if math.isfinite(v))
    return Axis(label, low, high, step=whole_step(low, high) if whole and high - low > 1 else None)


def _to(value: Number, scale: Scale) -> Number:
    """The place of a value along an axis of that scale."""
    return math.log10(value) if scale == "log" else value


def placed_axis(label: str, words: Sequence[str], kind: Literal["words", "cells"]) -> Axis:
    """An axis with words at 0, 1, 2, …; where there are many cells, only some have their word."""
    many = kind == "cells" and len(words) > MOST_NUMBERED
    step = whole_step(0.0, float(len(words))) if many else 1
    ticks = [(float(place), words[place]) for place in range(0, len(words), step)]
    return Axis(label, -0.5, max(len(words), 1) - 0.5, ticks=ticks, kind=kind)


def whole_step(low: float, high: float) -> int:
    """The distance between ticks at whole numbers, such that there are about nine at most."""
    least = (high - low) / 9
    decade = 10 ** max(0, math.floor(math.log10(least)))
    return next(int(m * decade) for m in (1, 2, 5, 10) if m * decade >= least)


def log_ticks(low: float, high: float, values: Iterable[Number]) -> list[tuple[Number, str]]:
    """Ticks of a logarithmic axis, as (place, word).

    They lie at the values themselves if these are few whole numbers, otherwise at powers of ten or
    at 1, 2, 5 times these. A short axis gets more digits, until it has at least two ticks.
    """
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
        for parts in (2, 5, 10, 20, 50, 100, 200, 500, 1000):
            if sum(low <= place <= high for place in places) < 2:
                places = [m / parts * 10.0**k for k in decades for m in range(parts, 10 * parts)]
    places = [place for place in places if low <= place <= high]
    plain = all(1e-3 < place < 1e5 for place in places)
    return [(place, _tick_word(place, plain)) for place in places]


def _tick_word(value: Number, plain: bool) -> str:
    """The word at a tick: a plain number, or one with a power of ten."""
    exponent = math.floor(math.log10(value) + 1e-9)
    if plain or 0 <= exponent <= 1:
        return f"{value:.6g}"
    mantissa = f"{value / 10.0**exponent:.4g}"
    return power(exponent) if mantissa == "1" else f"{mantissa}×{power(exponent)}"
