"""Matrices and graphs for plotly."""

import math
from collections.abc import Sequence

from attnrate.figures import geometry
from attnrate.figures.figure import Graph, Matrix
from attnrate.figures.layout import Json, Place, axis_of, escaped, first, plain_numbers
from attnrate.figures.style import RIGHT_LINK, WRONG_LINK, light
from attnrate.figures.words import number

_NARROWEST = 180  # pixels of a matrix on a phone


def matrix(panel: Matrix, place: Place) -> Json:
    """The cells of a matrix, with their numbers if they are few."""
    words = geometry.cell_words(panel)
    x, y = escaped(panel.x_label, 50) or "column", escaped(panel.y_label, 50) or "row"
    names = [f"<br>{escaped(name, 50)}" for name in panel.row_names or ()]
    names = names or [""] * len(panel.values)
    unit = f"<br>{escaped(panel.label, 50)}" if panel.label else ""
    trace: Json = {
        "type": "heatmap",
        "xaxis": place.x,
        "yaxis": place.y,
        "name": escaped(panel.title),
        "z": [plain_numbers(row) for row in panel.values],
        "coloraxis": f"coloraxis{place.x[1:]}",
        "hoverinfo": "text",
        "hovertext": [
            [f"{y} {i}, {x} {j}{named}<br><b>{number(v)}</b>{unit}" for j, v in enumerate(row)]
            for i, named, row in zip(panel.numbers, names, panel.values, strict=True)
        ],
        "hoverongaps": False,
    }
    if words is not None:
        longest = max((len(word) for row in words for word in row), default=1) or 1
        size = max(8, min(12, int(_NARROWEST / geometry.size_of(panel)[1] / (0.68 * longest))))
        trace |= {"text": words, "texttemplate": "%{text}", "textfont": {"size": size}}
    return trace


def matrix_axes(panel: Matrix, place: Place) -> Json:
    """The axes of a matrix, rows from top to bottom, and its scale of colours."""
    low, high, scale = geometry.shades(panel)
    columns = geometry.size_of(panel)[1]
    found: Json = {}
    numbers: Sequence[int]
    for name, domain, anchor, label, numbers in (
        (place.x_name, place.x_domain, place.y, panel.x_label, range(columns)),
        (place.y_name, place.y_domain, place.x, panel.y_label, panel.numbers),
    ):
        ticks = geometry.index_ticks(len(numbers))
        found[name] = axis_of(domain, anchor, label) | {
            "tickvals": ticks,
            "ticktext": [str(numbers[i]) for i in ticks],
            "showgrid": False,
            "showline": False,
            "ticks": "",
        }
    found[place.y_name]["autorange"] = "reversed"
    found[f"coloraxis{place.x[1:]}"] = {
        "cmin": low,
        "cmax": high,
        "colorscale": [[i / (len(scale) - 1), light(name)] for i, name in enumerate(scale)],
        "colorbar": {
            "x": place.x_domain[1],
            "xanchor": "left",
            "xpad": 6,
            "y": sum(place.y_domain) / 2,
            "len": place.y_domain[1] - place.y_domain[0],
            "ypad": 0,
            "thickness": 10,
            "outlinewidth": 0,
            "tickfont": {"size": 11},
            "title": {"text": escaped(panel.label, 44), "side": "right", "font": {"size": 12}},
        },
    }
    return found


def graph(panel: Graph, place: Place, named: set[object]) -> list[Json]:
    """The links as arrows, the right ones solid, the wrong ones dashed, and the points."""
    own = {"type": "scatter", "xaxis": place.x, "yaxis": place.y, "hoverinfo": "text"}
    names = escaped(panel.points_label, 40), escaped(panel.ends_label, 40)
    most = max((weight for *_, weight in panel.links if math.isfinite(weight)), default=1.0) or 1.0
    # The strongest link of its kind stands for all in the legend, and on top of the others.
    traces: list[Json] = []
    links = sorted(zip(panel.links, panel.right, strict=True), key=lambda pair: -pair[0][2])
    for (start, end, weight), right in links:
        share = min(max(weight / most, 0.0), 1.0) if math.isfinite(weight) else 0.0
        (x0, y0), (x1, y1) = panel.points[start], panel.ends[end]
        kind = "right" if right else "wrong"
        colour = light(RIGHT_LINK if right else WRONG_LINK)
        words = f"{names[0]} {start} to {names[1]} {end}<br>weight <b>{number(weight)}</b>"
        traces.append(
            {
                **own,
                "name": f"{kind} link",
                "legendgroup": kind,
                "legendrank": 1000 + (not right),
                "showlegend": first(named, ("link", right)),
                "mode": "lines+markers",
                "x": [x0, (x0 + x1) / 2, x1],
                "y": [y0, (y0 + y1) / 2, y1],
                "line": {
                    "color": colour,
                    "width": 0.5 + 3.0 * share,
                    "dash": "solid" if right else "dash",
                },
                "marker": {
                    "symbol": "arrow",
                    "angleref": "previous",
                    "size": [0, 0, 6 + 8 * share],
                    "standoff": [0, 0, 5],
                    "color": colour,
                    "opacity": 1,
                },
                "opacity": 0.25 + 0.7 * share,
                "hovertext": f"<b>{kind} link</b><br>{words}",
            }
        )
    traces.reverse()
    kinds = (
        (panel.points, names[0], "circle", "c7"),
        (panel.ends, names[1], "square", "c2"),
    )
    for places, name, symbol, colour in kinds:
        traces.append(
            {
                **own,
                "name": name,
                "legendgroup": f"{symbol} {name}",
                "legendrank": 1002,
                "showlegend": first(named, (symbol, name)),
                "mode": "markers",
                "x": plain_numbers([x for x, _ in places]),
                "y": plain_numbers([y for _, y in places]),
                "marker": {
                    "symbol": symbol,
                    "size": 11,
                    "color": light(colour),
                    "line": {"color": light("background"), "width": 1},
                },
                "hovertext": [
                    f"<b>{name} {i}</b><br>({number(x)}, {number(y)})"
                    for i, (x, y) in enumerate(places)
                ],
            }
        )
    return traces


def graph_axes(place: Place) -> Json:
    """Two axes with the same unit."""
    x_axis = axis_of(place.x_domain, place.y, "") | {"constrain": "domain"}
    y_axis = axis_of(place.y_domain, place.x, "") | {"constrain": "domain", "scaleanchor": place.x}
    return {place.x_name: x_axis, place.y_name: y_axis}
