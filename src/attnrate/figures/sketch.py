"""A figure laid out as marks in frames, once for every way to paint it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from attnrate.figures.axes import (
    MOST_NUMBERED,
    axis_over,
    drawable,
    placed_axis,
    whole_step,
)
from attnrate.figures.figure import (
    Curves,
    Figure,
    Graph,
    Line,
    Matrix,
    Number,
    Rows,
    Series,
    Violins,
)
from attnrate.figures.marks import Area, Axis, Cells, Frame, Mark, Path, Rule, Sketch
from attnrate.figures.style import DIVERGING, SEQUENTIAL, Key, Look, key_of, looks_of
from attnrate.figures.violins import distance, outlines_of
from attnrate.figures.words import clean, escaped, fixed, number, with_interval

#: With more points than this, intervals are a band
MOST_BARS = 30
#: About how many markers a longer series has on its line
MOST_MARKERS = 20

_CAP = 0.11  # half of a cap at the end of a bar, of the distance between two rows
_DODGE = 0.14  # between series at one category
_BELOW = 1e-300  # stands for zero on a logarithmic axis
_MARGIN = 0.08  # around a graph, of its size
_NO_VALUES = " (no values)"
_Point = tuple[Number, Number, Number, Number]  # x, y and the ends of the interval


def sketch(figure: Figure) -> Sketch:
    """The panels of a figure as frames, and their common legend in order of mention."""
    looks = looks_of(figure)
    frames: list[Frame] = []
    legend: dict[Key, Mark] = {}
    for panel in figure.panels:
        if isinstance(panel, Curves):
            frame = _curves(panel, looks)
        elif isinstance(panel, Rows):
            frame = _rows(panel, looks)
        elif isinstance(panel, Violins):
            frame = _violins(panel, looks)
        else:
            frame = _matrix(panel) if isinstance(panel, Matrix) else _graph(panel)
        # a panel does not repeat the title of its figure
        twice = clean(panel.title) == clean(figure.title)
        frames.append(replace(frame, title="" if twice else panel.title))
        for mark in frame.marks:
            # one that is drawn stands in the legend rather than one without values
            if mark.label is not None and (mark.key not in legend or legend[mark.key].empty):
                legend[mark.key] = mark
    return Sketch(figure.title, frames, legend)


def _curves(panel: Curves, looks: Mapping[Key, Look]) -> Frame:
    """A panel of series with its reference lines, as a frame."""
    rules = [mark for line in panel.lines for mark in _rules(panel, line, looks[key_of(line)])]
    return _framed(panel, [*_series(panel, looks), *rules])


def _rows(panel: Rows, looks: Mapping[Key, Look]) -> Frame:
    """A panel of rows as a frame: that of upright series at categories, turned."""
    lines = tuple(Line(line.label, x=line.y, y=line.x) for line in panel.lines)
    names = panel.title, panel.y_label, panel.x_label
    upright = _curves(
        Curves(*names, panel.series, y_scale=panel.x_scale, lines=lines, ticks=panel.rows), looks
    )
    # the first row is at the top
    down = replace(upright.x, low=upright.x.high, high=upright.x.low)
    return Frame(upright.y, down, [one for mark in upright.marks for one in _turned(mark)])


def _turned(mark: Mark) -> Iterator[Mark]:
    """A mark with its axes exchanged; bars become a line with gaps below it."""
    if isinstance(mark, Rule):
        yield replace(mark, axis="x" if mark.axis == "y" else "y")
    elif isinstance(mark, Area):
        yield replace(mark, shapes=[[(y, x) for x, y in shape] for shape in mark.shapes])
    else:
        if mark.low is not None and mark.high is not None:
            thin = replace(
                mark.look, layer=mark.look.layer - 0.1, dash="solid", width=1.1, marker=None
            )
            along, across = _bars(mark.x, mark.low, mark.high)
            yield Path(thin, mark.key, None, along, across)
        yield replace(mark, x=mark.y, y=mark.x, low=None, high=None)


def _bars(
    rows: Sequence[Number], low: Sequence[Number], high: Sequence[Number]
) -> tuple[list[Number], list[Number]]:
    """Bars with a cap at each end, as the points of one line with gaps."""
    along: list[Number] = []
    across: list[Number] = []
    for row, first, last in zip(rows, low, high, strict=True):
        if math.isnan(first):
            continue
        # on a logarithmic axis zero lies far to the left
        begin = first if first else _BELOW
        for ends, sides in (
            ((begin, last), (row, row)),
            ((begin, begin), (row - _CAP, row + _CAP)),
            ((last, last), (row - _CAP, row + _CAP)),
        ):
            along += [*ends, math.nan]
            across += [*sides, math.nan]
    return along, across


def _framed(
    panel: Curves, marks: list[Mark], xs: Iterable[Number] = (), ys: Iterable[Number] = ()
) -> Frame:
    """A frame with these marks, whose axes also reach the further values xs and ys."""
    x_values, y_values = [*xs], [*ys]
    ends: list[Number] = []
    for mark in marks:
        if isinstance(mark, Path):
            x_values += mark.x
            y_values += mark.y
            ends += [*(mark.low or ()), *(mark.high or ())]
        elif isinstance(mark, Area):
            ends += [y for shape in mark.shapes for _, y in shape if y != _BELOW]
        else:
            (x_values if mark.axis == "x" else y_values).append(mark.at)
    if panel.ticks is not None:
        x_axis = placed_axis(panel.x_label, panel.ticks, "words")
    else:
        x_axis = axis_over(panel.x_label, x_values, scale=panel.x_scale)
    return Frame(x_axis, axis_over(panel.y_label, y_values, ends, panel.y_scale), marks)


def _series(panel: Curves, looks: Mapping[Key, Look]) -> Iterator[Mark]:
    """The marks of each series and its intervals; at categories, series stand side by side."""
    drawn = [[*_points(series, panel)] for series in panel.series]
    places = _dodged(panel, drawn)
    for series, points, x in zip(panel.series, drawn, places, strict=True):
        look, key = looks[key_of(series)], key_of(series)
        if panel.ticks is not None and look.marker:
            look = replace(look, dash=None)  # nothing lies between two categories
        y = [y for _, y, *_ in points]
        hover = ["" if math.isnan(y[i]) else _hover(panel, series, i) for i in range(len(y))]
        path = Path(look, key, series.label, x, y, hover)
        band = _band(points)
        few = len(x) <= MOST_BARS or panel.ticks is not None
        if band and few and series.style in ("measured", "paper"):
            low, high = [low for *_, low, _ in points], [high for *_, high in points]
            path = replace(path, low=low, high=high)
        elif band:
            pale = replace(look, layer=look.layer - 0.1, opacity=0.18, width=0.0)
            yield Area(pale, key, None, band)
        every = max(1, len(x) // MOST_MARKERS)
        yield replace(path, every=every, label=series.label + _NO_VALUES * path.empty)
        if look.marker is None and sum(not math.isnan(value) for value in y) == 1:
            # a line of one point would not be seen
            dash = replace(look, dash=None, marker="dash", size=14.0, edge=look.width)
            yield replace(path, look=dash, label=None)


def _dodged(panel: Curves, drawn: list[list[_Point]]) -> list[list[Number]]:
    """The x of the points of each series; those that share a category stand around its tick."""
    places = [[x for x, *_ in points] for points in drawn]
    if panel.ticks is None:
        return places
    sharing: dict[Number, list[int]] = {}
    for i, (series, own) in enumerate(zip(panel.series, places, strict=True)):
        if series.style != "faint":
            for at in {x for x in own if not math.isnan(x)}:
                sharing.setdefault(at, []).append(i)
    shifts = {
        (i, at): (place - (len(those) - 1) / 2) * min(_DODGE, 0.7 / len(those))
        for at, those in sharing.items()
        for place, i in enumerate(those)
    }
    return [[x + shifts.get((i, x), 0.0) for x in own] for i, own in enumerate(places)]


def _points(series: Series, panel: Curves) -> Iterator[_Point]:
    """The (x, y, low, high) of a series as they are drawn, with nan where nothing is drawn.

    On a logarithmic axis an interval that reaches below zero leaves the panel at its lower edge:
    its low is zero.
    """
    nothing = (math.nan,) * len(series.x)
    rows = zip(series.x, series.y, series.low or nothing, series.high or nothing, strict=True)
    for x, y, low, high in rows:
        if not (drawable(x, panel.x_scale) and drawable(y, panel.y_scale)):
            yield math.nan, math.nan, math.nan, math.nan
        elif math.isfinite(low) and drawable(high, panel.y_scale):
            yield x, y, low if panel.y_scale == "linear" else max(low, 0.0), high
        else:
            yield x, y, math.nan, math.nan


def _band(points: list[_Point]) -> list[list[tuple[Number, Number]]]:
    """The intervals as a band: one shape for each run of points without a gap."""
    shapes = []
    for there, part in groupby(points, key=lambda row: not math.isnan(row[3])):
        if there:
            ends = [*part]
            upper = [(x, high) for x, *_, high in ends]
            shapes.append(upper + [(x, low or _BELOW) for x, _, low, _ in reversed(ends)])
    return shapes


def _hover(panel: Curves, series: Series, place: int) -> str:
    """The text that is shown where the reader points at a value of a series."""
    x = series.x[place]
    at = number(x)
    if panel.ticks is not None and 0 <= round(x) < len(panel.ticks):
        at = escaped(panel.ticks[round(x)])
    low = None if series.low is None else series.low[place]
    high = None if series.high is None else series.high[place]
    return _said(panel, series.label, at, with_interval(series.y[place], low, high))


def _said(panel: Curves | Violins, label: str, at: str, value: str) -> str:
    """The text that is shown where the reader points: label, x and value."""
    where = f"{escaped(panel.x_label, 50)}: {at}" if clean(panel.x_label) else at
    return f"<b>{escaped(label, 50)}</b><br>{where}<br>{escaped(panel.y_label, 50)}: {value}"


def _rules(panel: Curves, line: Line, look: Look) -> list[Mark]:
    """The marks of a reference line; a path without points if it has no place on the axes."""
    found: list[Mark] = []
    if line.y is not None and drawable(line.y, panel.y_scale):
        found.append(Rule(look, key_of(line), line.label, "y", line.y))
    if line.x is not None and drawable(line.x, panel.x_scale):
        found.append(Rule(look, key_of(line), line.label, "x", line.x))
    return found or [Path(look, key_of(line), line.label + _NO_VALUES, [math.nan], [math.nan])]


def _violins(panel: Violins, looks: Mapping[Key, Look]) -> Frame:
    """A panel of violins with their medians and the series across them, as a frame."""
    outlines, room = outlines_of(panel), distance(panel) / 2
    xs = [end for one in outlines for end in (one.x - room, one.x + room)]
    ys = [height for one in outlines for height in (one.heights[0], one.heights[-1])]
    across = Curves("", panel.x_label, panel.y_label, panel.series, y_scale=panel.y_scale)
    frame = _framed(across, [*_series(across, looks)], xs, ys)
    x_axis = frame.x
    if all(one.x.is_integer() for one in outlines) and x_axis.high - x_axis.low > 1:
        x_axis = replace(x_axis, step=whole_step(x_axis.low, x_axis.high))
    middles = [with_interval(one.median, one.low, one.high) for one in outlines]
    hover = [
        _said(panel, panel.label, number(one.x), f"median {middle}<br>in brackets the middle 90 %")
        for one, middle in zip(outlines, middles, strict=True)
    ]
    areas = Area(
        Look("c4", width=0.7, opacity=0.45),
        ("violins", panel.label),
        panel.label + _NO_VALUES * (not outlines),
        [one.corners for one in outlines],
    )
    medians = Path(
        Look("ink", 2.9, marker="dash", size=4.0, edge=1.0),
        ("median",),
        "median",
        [one.x for one in outlines],
        [one.median for one in outlines],
        hover,
    )
    return replace(frame, x=x_axis, marks=[areas, medians, *frame.marks])


def _matrix(panel: Matrix) -> Frame:
    """A matrix as a frame, rows from top to bottom; its cells are squares unless it is long."""
    rows, columns = len(panel.values), max(map(len, panel.values), default=0)
    across = placed_axis(panel.x_label, [*map(str, range(columns))], "cells")
    down = placed_axis(panel.y_label, [*map(str, panel.numbers)], "cells")
    frame = Frame(across, replace(down, low=down.high, high=down.low))
    if not columns:
        return frame
    x, y = escaped(panel.x_label, 50) or "column", escaped(panel.y_label, 50) or "row"
    names = [f"<br>{escaped(name, 50)}" for name in panel.row_names or ()] or [""] * rows
    unit = f"<br>{escaped(panel.label, 50)}" if panel.label else ""
    hover = [
        [f"{y} {i}, {x} {j}{named}<br><b>{number(v)}</b>{unit}" for j, v in enumerate(row)]
        for i, named, row in zip(panel.numbers, names, panel.values, strict=True)
    ]
    words = _cell_words(panel) if max(rows, columns) <= MOST_NUMBERED else None
    if panel.words is not None:
        words = [[*row] for row in panel.words]
    cells = Cells(panel.values, *shades(panel), panel.label, words, hover)
    squarish = 1 / 3 <= rows / columns <= 3
    return replace(frame, cells=cells, shape=rows / columns if squarish else None)


def shades(panel: Matrix) -> tuple[float, float, tuple[str, ...]]:
    """The range of a matrix and its scale of colours, symmetric where it has both signs."""
    finite = [v for row in panel.values for v in row if math.isfinite(v)]
    low = float(min(finite, default=0.0) if panel.low is None else panel.low)
    high = float(max(finite, default=1.0) if panel.high is None else panel.high)
    if low < 0 < high:
        most = max(-low, high)
        return -most, most, DIVERGING
    return low, high if high != low else low + 1.0, SEQUENTIAL


def _cell_words(panel: Matrix) -> list[list[str]]:
    """The numbers in the cells, all with one number of decimals."""
    finite = [v for row in panel.values for v in row if math.isfinite(v)]
    most = max(map(abs, finite), default=0.0)
    decade = math.floor(math.log10(most)) if most > 0 else 0
    form = f".{max(0, 1 - decade)}f" if -2 <= decade <= 4 else ".0e"
    form = ".2f" if decade == 0 else form
    form = "d" if all(isinstance(v, int) for v in finite) else form
    return [[fixed(v, form) if math.isfinite(v) else "" for v in row] for row in panel.values]


def _graph(panel: Graph) -> Frame:
    """A graph as a frame: right links as solid arrows, wrong ones dashed, and the points."""
    places = [*panel.points, *panel.ends]
    x_axis, y_axis = _margined([x for x, _ in places]), _margined([y for _, y in places])
    return Frame(x_axis, y_axis, [*_links(panel), *_dots(panel)], equal=True)


def _margined(values: list[Number]) -> Axis:
    """An axis without a label that shows all values, with a margin."""
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    room = _MARGIN * (max(finite) - min(finite)) or 1.0
    return Axis("", min(finite) - room, max(finite) + room)


def _links(panel: Graph) -> Iterator[Mark]:
    """The right links, then the wrong ones; the legend shows the strongest of each kind."""
    finite = [weight if math.isfinite(weight) else 0.0 for *_, weight in panel.links]
    most = max(finite, default=1.0) or 1.0
    names = escaped(panel.points_label, 40), escaped(panel.ends_label, 40)
    order = sorted(range(len(finite)), key=lambda place: (not panel.right[place], -finite[place]))
    first = {panel.right[place]: place for place in reversed(order)}
    for place in order:
        (start, end, weight), right = panel.links[place], panel.right[place]
        share = min(max(finite[place] / most, 0.0), 1.0)
        kind, colour, dash = ("right", "c0", "solid") if right else ("wrong", "c1", "dash")
        # the strongest on top
        look = Look(colour, 2.0 + share / 2, dash, 0.3 + 2.4 * share, 0.25 + 0.7 * share)
        look = replace(look, marker="arrow", fill=colour, size=5 + 6 * share, edge=0.0)
        (x0, y0), (x1, y1) = panel.points[start], panel.ends[end]
        words = f"{names[0]} {start} to {names[1]} {end}<br>weight <b>{number(weight)}</b>"
        yield Path(
            look,
            ("link", right),
            f"{kind} link" if place == first[right] else None,
            # the middle can be pointed at
            [x0, (x0 + x1) / 2, x1],
            [y0, (y0 + y1) / 2, y1],
            [f"<b>{kind} link</b><br>{words}"] * 3,
        )


def _dots(panel: Graph) -> Iterator[Mark]:
    """The points of a graph, of both kinds."""
    kinds = (
        (panel.points, panel.points_label, "circle", "c7"),
        (panel.ends, panel.ends_label, "square", "c2"),
    )
    for places, label, symbol, colour in kinds:
        look = Look("background", 3.0, marker=symbol, fill=colour, size=7.0, edge=1.0)
        name = escaped(label, 40)
        hover = [
            f"<b>{name} {i}</b><br>({number(x)}, {number(y)})" for i, (x, y) in enumerate(places)
        ]
        x, y = [x for x, _ in places], [y for _, y in places]
        yield Path(look, ("point", label, symbol), label, x, y, hover)
