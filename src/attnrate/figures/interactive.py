"""Figures for the page: marks and axes as the JSON that plotly.js draws.

Colours are those of the light palette, without transparency, so that the page can exchange each for
its partner in dark. On a narrow screen the panels stand below each other: `interactive` is asked
for each of the widths, and the page takes the one that fits.
"""

import math
from collections.abc import Sequence
from typing import Any

from attnrate.figures.figure import Figure, Number
from attnrate.figures.layout import Json, Place, Width, layout_of
from attnrate.figures.marks import Area, Axis, Cells, Frame, Path, Rule
from attnrate.figures.sketch import sketch
from attnrate.figures.style import Look, light
from attnrate.figures.words import escaped

_PIXELS = 1.25  # pixels on a page for one point in print
#: Symbols that plotly names or sizes differently: their name there, and a factor of the size
_SYMBOLS = {"dash": ("line-ew", 1 / 1.4), "diamond": ("diamond", math.sqrt(2) / 1.3)}
_NARROWEST = 180  # pixels of a matrix on a phone


def interactive(figure: Figure, width: Width = "wide") -> dict[str, Any]:
    """The figure as plotly JSON, {"data": […], "layout": {…}}; `data` is equal for every width."""
    found = sketch(figure)
    layout, places = layout_of(found, width)
    traces: list[Json] = []
    shapes: list[Json] = []
    ranks = {key: rank for rank, key in enumerate(found.legend)}
    for frame, place in zip(found.frames, places, strict=True):
        layout |= _axes(frame, place)
        own = {"xaxis": f"x{place.suffix}", "yaxis": f"y{place.suffix}"}
        if frame.cells is not None:
            colours = f"coloraxis{place.suffix}"
            traces.append(own | {"coloraxis": colours} | _cells(frame.cells))
            layout[colours] = _shades(frame.cells, place)
        for mark in sorted(frame.marks, key=lambda mark: mark.look.layer):
            entry: Json = {
                "name": escaped(mark.label or "", 60),
                "legendgroup": str(ranks[mark.key]),
                # in order of mention, whatever is drawn first
                "legendrank": 1000 + ranks[mark.key],
                "showlegend": found.legend[mark.key] is mark,
            }
            if isinstance(mark, Rule):
                shapes.append(entry | _rule(mark, place.suffix))
            else:
                trace = _path(mark) if isinstance(mark, Path) else _area(mark)
                traces.append(own | entry | {"opacity": mark.look.opacity} | trace)
    return {"data": traces, "layout": {**layout, "shapes": shapes}}


def _path(mark: Path) -> Json:
    """A path as a trace of plotly: its line, its markers, its intervals."""
    look = mark.look
    drawn = {"lines": look.dash, "markers": look.marker}
    trace: Json = {
        "type": "scatter",
        "x": _numbers(mark.x),
        "y": _numbers(mark.y),
        "mode": "+".join(name for name, how in drawn.items() if how is not None),
        "line": _line(look),
        "hoverinfo": "text",
        "hovertext": list(mark.hover),
    }
    if look.marker is not None:
        symbol, factor = _SYMBOLS.get(look.marker, (look.marker, 1.0))
        size = round(_PIXELS * factor * look.size, 2)
        trace["marker"] = {
            "symbol": symbol,
            "size": size,
            "color": light(look.fill),
            "line": {"color": light(look.colour), "width": _PIXELS * look.edge},
            "maxdisplayed": 0 if mark.every == 1 else math.ceil(len(mark.x) / mark.every),
        }
        if look.marker == "arrow":
            before = [0] * (len(mark.x) - 1)
            heads = {"size": [*before, size], "standoff": [*before, 5], "opacity": 1}
            trace["marker"] |= {"angleref": "previous", **heads}
    if mark.low is not None and mark.high is not None:
        rows = [*zip(mark.y, mark.low, mark.high, strict=True)]
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": _numbers([max(high - y, 0.0) for y, _, high in rows]),
            "arrayminus": _numbers([max(y - low, 0.0) for y, low, _ in rows]),
            "color": light(look.colour),
            "thickness": 1.3,
            "width": 3,
        }
    return trace


def _area(mark: Area) -> Json:
    """Filled shapes as one trace of plotly."""
    # the gap after each shape keeps it from the next
    corners = [corner for shape in mark.shapes for corner in (*shape, (math.nan, math.nan))]
    corners = corners[:-1] or [(math.nan, math.nan)]
    return {
        "type": "scatter",
        "x": _numbers([_short(x) for x, _ in corners]),
        "y": _numbers([_short(y) for _, y in corners]),
        "mode": "lines",
        "line": _line(mark.look),
        "fill": "toself",
        "fillcolor": light(mark.look.colour),
        "hoverinfo": "skip",
    }


def _rule(mark: Rule, suffix: str) -> Json:
    """A line across the panel as a shape of plotly."""
    along, across = mark.axis, "y" if mark.axis == "x" else "x"
    return {
        "type": "line",
        "layer": "below",
        "line": _line(mark.look),
        f"{along}ref": f"{along}{suffix}",
        f"{along}0": mark.at,
        f"{along}1": mark.at,
        f"{across}ref": f"{across}{suffix} domain",
        f"{across}0": 0,
        f"{across}1": 1,
    }


def _cells(cells: Cells) -> Json:
    """A matrix as a heat map of plotly."""
    trace: Json = {
        "type": "heatmap",
        "z": [_numbers(row) for row in cells.values],
        "hoverinfo": "text",
        "hovertext": cells.hover,
        "hoverongaps": False,
    }
    if cells.words is not None:
        columns = max(map(len, cells.words))
        longest = max(len(word) for row in cells.words for word in row) or 1
        size = max(8, min(12, int(_NARROWEST / columns / (0.68 * longest))))
        text = [[escaped(word) for word in row] for row in cells.words]
        trace |= {"text": text, "texttemplate": "%{text}", "textfont": {"size": size}}
    return trace


def _shades(cells: Cells, place: Place) -> Json:
    """The scale of colours and the bar that shows it, as high as the matrix."""
    last = len(cells.shades) - 1
    return {
        "cmin": cells.low,
        "cmax": cells.high,
        "colorscale": [[i / last, light(name)] for i, name in enumerate(cells.shades)],
        "colorbar": {
            "x": place.x[1],
            "xanchor": "left",
            "xpad": 6,
            "y": sum(place.y) / 2,
            "len": place.y[1] - place.y[0],
            "ypad": 0,
            "thickness": 10,
            "outlinewidth": 0,
            "tickfont": {"size": 11},
            "title": {"text": escaped(cells.label, 44), "side": "right", "font": {"size": 12}},
        },
    }


def _axes(frame: Frame, place: Place) -> Json:
    """Both axes of a panel, as plotly's layout has them."""
    x, y = f"x{place.suffix}", f"y{place.suffix}"
    x_axis = {"domain": list(place.x), "anchor": y} | _axis(frame.x, place.letters)
    y_axis = {"domain": list(place.y), "anchor": x} | _axis(frame.y, place.letters)
    if frame.equal:
        x_axis |= {"constrain": "domain"}
        y_axis |= {"constrain": "domain", "scaleanchor": x}
    return {f"xaxis{place.suffix}": x_axis, f"yaxis{place.suffix}": y_axis}


def _axis(axis: Axis, letters: int) -> Json:
    """One axis; its ticks have `letters` letters in all to be read side by side."""
    ends = axis.low, axis.high
    own: Json = {
        "title": {"text": escaped(axis.label, 44), "standoff": 8},
        "type": axis.scale,
        "range": [math.log10(end) if axis.scale == "log" else end for end in ends],
        "gridcolor": light("rule"),
        "linecolor": light("muted"),
        "tickcolor": light("muted"),
        "showgrid": axis.kind == "numbers",
        "showline": axis.kind != "cells",
        "zeroline": False,
        "ticks": "" if axis.kind == "cells" else "outside",
        "ticklen": 4,
        "automargin": True,
        "exponentformat": "power",
    }
    if axis.ticks is not None:
        width = max(letters // max(len(axis.ticks), 1), 8)
        own["tickvals"] = [at for at, _ in axis.ticks]
        own["ticktext"] = [escaped(word, width) for _, word in axis.ticks]
    elif axis.step is not None:
        own |= {"tick0": 0, "dtick": axis.step}
    return own


def _line(look: Look) -> Json:
    """The line of a look: colour, width in pixels, dash."""
    line = {"color": light(look.colour), "width": round(_PIXELS * look.width, 2)}
    return line if look.dash is None else line | {"dash": look.dash}


def _numbers(values: Sequence[Number]) -> list[Number | None]:
    """The values, with None for those that are not finite."""
    return [value if math.isfinite(value) else None for value in values]


def _short(value: Number) -> float:
    """The value to five digits: more than can be seen, and short, which keeps the page small."""
    return float(f"{value:.5g}")
