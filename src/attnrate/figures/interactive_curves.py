"""Panels of series for plotly: traces, intervals, reference lines and axes."""

import math

from attnrate.figures import geometry
from attnrate.figures.figure import Curves, Figure, Series
from attnrate.figures.layout import Json, Place, axis_of, escaped, first, plain_numbers
from attnrate.figures.style import Look, key_of, light, line_dashes, looks_of
from attnrate.figures.words import clean, number, with_interval


def traces(panel: Curves, figure: Figure, place: Place, named: set[object]) -> list[Json]:
    """The series of a panel with their intervals, the faint ones behind, the paper's in front."""
    looks = looks_of(figure)
    order = {"faint": 0, "measured": 1, "theory": 2, "paper": 3}
    found: list[Json] = []
    pairs = zip(panel.series, geometry.points_of(panel), strict=True)
    for series, points in sorted(pairs, key=lambda pair: order[pair[0].style]):
        look, rank = looks[key_of(series)], list(looks).index(key_of(series))
        own: Json = {"xaxis": place.x, "yaxis": place.y, "legendgroup": f"series {rank}"}
        bars = geometry.has_bars(panel, series)
        if not bars and any(math.isfinite(v) for v in points.high):
            found.append(own | _band(points, look))
        trace = own | _series(panel, series, points, look)
        if bars and any(math.isfinite(v) for v in points.high):
            trace["error_y"] = _bars(points, look)
        # In order of mention, whatever is drawn first
        trace["legendrank"] = 1000 + rank
        trace["showlegend"] = first(named, key_of(series))
        found.append(trace)
    return found


def _series(panel: Curves, series: Series, points: geometry.Points, look: Look) -> Json:
    label = series.label + (" (no values)" if points.empty else "")
    joined = not (panel.ticks is not None and look.marker)  # nothing lies between categories
    trace: Json = {
        "type": "scatter",
        "name": escaped(label, 60),
        "x": plain_numbers(points.x),
        "y": plain_numbers(points.y),
        "mode": "+".join(["lines"] * joined + ["markers"] * bool(look.marker)),
        "line": {"color": light(look.colour), "dash": look.dash, "width": look.width},
        "opacity": look.opacity,
        "hoverinfo": "text",
        "hovertext": [
            _hover(panel, series, i) if y is not None else ""
            for i, y in enumerate(plain_numbers(points.y))
        ],
    }
    if points.alone and not look.marker:
        # a line of one point would not be seen
        stroke = {"color": light(look.colour), "width": look.width}
        trace["mode"] = "lines+markers"
        trace["marker"] = {"symbol": "line-ew", "size": 14, "line": stroke}
    if look.marker:
        paper = series.style == "paper"
        trace["marker"] = {
            "symbol": look.marker,
            "size": 10 if paper else 7,
            "color": light(look.fill),
            "line": {"color": light(look.colour), "width": 2 if paper else 0},
            "maxdisplayed": 0 if len(points.x) <= geometry.MOST_BARS else geometry.MOST_MARKERS,
        }
    return trace


def _hover(panel: Curves, series: Series, i: int) -> str:
    x = series.x[i]
    at = number(x)
    if panel.ticks is not None and 0 <= round(x) < len(panel.ticks):
        at = escaped(panel.ticks[round(x)])
    low = None if series.low is None else series.low[i]
    high = None if series.high is None else series.high[i]
    return "<br>".join(
        [
            f"<b>{escaped(series.label, 50)}</b>",
            f"{escaped(panel.x_label, 50)}: {at}" if clean(panel.x_label) else at,
            f"{escaped(panel.y_label, 50)}: {with_interval(series.y[i], low, high)}",
        ]
    )


def _bars(points: geometry.Points, look: Look) -> Json:
    rows = list(zip(points.y, points.low, points.high, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": plain_numbers([max(high - y, 0.0) for y, _, high in rows]),
        "arrayminus": plain_numbers([max(y - low, 0.0) for y, low, _ in rows]),
        "color": light(look.colour),
        "thickness": 1.3,
        "width": 3,
    }


def _band(points: geometry.Points, look: Look) -> Json:
    rows = zip(points.x, points.low, points.high, strict=True)
    ends = [row for row in rows if all(map(math.isfinite, row))]
    least = min((y for y in points.y if y > 0), default=1.0) * 1e-9  # stands for zero on a log axis
    return {
        "type": "scatter",
        "x": [x for x, _, _ in ends] + [x for x, _, _ in reversed(ends)],
        "y": [high for *_, high in ends] + [low or least for _, low, _ in reversed(ends)],
        "mode": "lines",
        "line": {"width": 0, "color": light(look.colour)},
        "fill": "toself",
        "fillcolor": light(look.colour),
        "opacity": 0.18,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def lines(panel: Curves, figure: Figure, place: Place, named: set[object]) -> list[Json]:
    """The reference lines of a panel, as shapes."""
    dashes = line_dashes(figure)
    shapes = []
    for line in panel.lines:
        across: list[Json] = []
        if line.y is not None and math.isfinite(line.y):
            x_whole = {"xref": f"{place.x} domain", "x0": 0, "x1": 1}
            across.append({**x_whole, "yref": place.y, "y0": line.y, "y1": line.y})
        if line.x is not None and math.isfinite(line.x):
            y_whole = {"yref": f"{place.y} domain", "y0": 0, "y1": 1}
            across.append({**y_whole, "xref": place.x, "x0": line.x, "x1": line.x})
        for ends in across:
            shapes.append(
                {
                    "type": "line",
                    "layer": "below",
                    "line": {"color": light("muted"), "dash": dashes[line.label], "width": 1.5},
                    "name": escaped(line.label, 60),
                    "legendgroup": f"line {list(dashes).index(line.label)}",
                    "legendrank": 3000,
                    "showlegend": first(named, ("line", line.label)),
                    **ends,
                }
            )
    return shapes


def axes(
    panel: Curves, place: Place, both: tuple[geometry.Axis, geometry.Axis] | None = None
) -> Json:
    """The two axes of a panel; `both` where other things than its series decide on them."""
    found = {}
    x_axis, y_axis = both or geometry.axes_of(panel)
    rows = (
        (place.x_name, place.x_domain, place.y, panel.x_label, panel.x_scale, x_axis),
        (place.y_name, place.y_domain, place.x, panel.y_label, panel.y_scale, y_axis),
    )
    for name, domain, anchor, label, scale, axis in rows:
        log = scale == "log"
        own = axis_of(domain, anchor, label) | {
            "type": scale,
            "range": [math.log10(v) if log else v for v in (axis.low, axis.high)],
        }
        if axis.ticks is not None:
            width = place.tick_letters // max(len(axis.ticks), 1)
            own["tickvals"] = [at for at, _ in axis.ticks]
            own["ticktext"] = [escaped(word, max(width, 8)) for _, word in axis.ticks]
        elif axis.step is not None:
            own |= {"tick0": 0, "dtick": axis.step}
        found[name] = own
    if panel.ticks is not None:
        found[place.x_name]["showgrid"] = False
    return found
