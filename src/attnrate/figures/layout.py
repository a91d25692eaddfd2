"""Where the panels of a figure stand on the page, and what all panels for plotly share."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnrate.figures.figure import Curves, Figure, Matrix, Number, Panel
from attnrate.figures.geometry import columns_of, size_of, squarish
from attnrate.figures.style import light
from attnrate.figures.words import clean, wrapped

Json = dict[str, Any]
Width = Literal["narrow", "medium", "wide"]
WIDTHS: tuple[Width, ...] = get_args(Width)
#: From how many pixels on a figure is medium or wide
BREAKS = {"medium": 560, "wide": 860}

_MOST_COLUMNS: dict[str, int] = {"narrow": 1, "medium": 2, "wide": 3}
_PIXELS: dict[str, float] = {"narrow": 340.0, "medium": 640.0, "wide": 1060.0}
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP = 66, 14, 28
_PLOT, _NARROW_PLOT, _TITLE_LINE, _BELOW, _TICK_LINE = 300.0, 260.0, 20, 52, 15
_GAP = 82  # between columns: ticks and title of the axis
_BAR, _BAR_LABEL = 36, 22  # a colour bar with its numbers, and with words beside them
_ROOMY = 280  # pixels
_LETTER = 6.9


@dataclass(frozen=True)
class Place:
    """A panel's axes as plotly names them ("x2", "xaxis2") and their shares of the figure."""

    x: str
    y: str
    x_name: str
    y_name: str
    x_domain: tuple[float, float]
    y_domain: tuple[float, float]
    tick_letters: int


def layout_of(figure: Figure, width: Width, legend: list[str]) -> tuple[Json, list[Place]]:
    """The layout without axes, and the place of each panel."""
    columns = columns_of(figure, _MOST_COLUMNS[width])
    pixels = min(_PIXELS[width], 700.0) if columns == 1 else _PIXELS[width]
    inner = pixels - _MARGIN_LEFT - _MARGIN_RIGHT
    column = (inner - (columns - 1) * _GAP) / columns
    panels = list(figure.panels)
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    titles = [[_title(panel, figure, column) for panel in row] for row in rows]
    above = [_TITLE_LINE * max(len(lines) for lines in row) + 6 for row in titles]
    letters = int(column / _LETTER)
    below = [_BELOW + _TICK_LINE * max(_tick_lines(p, letters) for p in row) for row in rows]
    most = _PLOT if width != "narrow" else _NARROW_PLOT
    sizes = [[_size(panel, column, most) for panel in row] for row in rows]
    plots = [max(high for *_, high in row) for row in sizes]
    # What stands below the last row is part of the margin, as plotly counts it.
    total = sum(above) + sum(below[:-1]) + sum(plots)

    places: list[Place] = []
    notes, top = [], 0.0
    for titles_of_row, sizes_of_row, over, plot, under in zip(
        titles, sizes, above, plots, below, strict=True
    ):
        for i, (lines, one) in enumerate(zip(titles_of_row, sizes_of_row, strict=True)):
            free, wide, high = one
            left = i * (column + _GAP) + free
            x_domain = left / inner, min(1.0, (left + wide) / inner)
            y_domain = max(0.0, 1 - (top + over + high) / total), 1 - (top + over) / total
            name = str(len(places) + 1) if places else ""
            places.append(
                Place(
                    f"x{name}",
                    f"y{name}",
                    f"xaxis{name}",
                    f"yaxis{name}",
                    x_domain,
                    y_domain,
                    letters,
                )
            )
            notes.append(_note(lines, sum(x_domain) / 2, y_domain[1]))
        top += over + plot + under
    legend_high = 12 + 20 * _legend_rows(legend, pixels)
    bottom = sum(below[-1:]) + legend_high
    text = {"color": light("ink"), "size": 13}
    return {
        "height": round(total + _MARGIN_TOP + bottom),
        "margin": {"l": _MARGIN_LEFT, "r": _MARGIN_RIGHT, "t": _MARGIN_TOP, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", **text},
        "hoverlabel": {
            "bgcolor": light("card"),
            "bordercolor": light("muted"),
            "font": text,
            "align": "left",
        },
        "hovermode": "closest",
        "modebar": {
            "bgcolor": "rgba(0,0,0,0)",
            "color": light("muted"),
            "activecolor": light("ink"),
        },
        # On a phone a finger on a plot scrolls the page.
        "dragmode": False if width == "narrow" else "zoom",
        "showlegend": bool(legend),
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0.5,
            "xanchor": "center",
            "bgcolor": "rgba(0,0,0,0)",
            "font": {"size": 12},
            "maxheight": legend_high + 200,  # plotly would cut it off at half of the figure
        },
        "annotations": notes,
    }, places


def _size(panel: Panel, wide: float, high: float) -> tuple[float, float, float]:
    """Free room on the left, width and height of a panel; the cells of a matrix are square."""
    if not isinstance(panel, Matrix):
        return 0.0, wide, high
    bar = _BAR + (_BAR_LABEL if panel.label else 0)
    # As much on the left as the colour bar takes, so that the matrix is centred, if there is room
    free = bar if wide > _ROOMY else 0
    wide -= bar + free
    if not squarish(panel):
        return free, wide, high
    rows, columns = size_of(panel)
    cell = min(wide / columns, high / rows)
    return free + (wide - cell * columns) / 2, cell * columns, cell * rows


def _title(panel: Panel, figure: Figure, pixels: float) -> list[str]:
    if clean(panel.title) == clean(figure.title):
        return [""]
    return wrapped(panel.title, int(pixels / 7.6))


def _tick_lines(panel: Panel, letters: int) -> int:
    """How many lines the words below the categories need beyond the first."""
    if not isinstance(panel, Curves) or not panel.ticks:
        return 0
    width = max(8, letters // len(panel.ticks))
    # Words that do not fit side by side are turned by plotly and need more room.
    turned = any(len(line) > width for tick in panel.ticks for line in wrapped(tick, width))
    return max(len(wrapped(tick, width)) for tick in panel.ticks) - 1 + 3 * turned


def _note(lines: list[str], x: float, y: float) -> Json:
    """A panel's title."""
    return {
        "text": "<br>".join(map(_literal, lines)),
        "xref": "paper",
        "yref": "paper",
        "x": x,
        "y": y,
        "xanchor": "center",
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "font": {"size": 14},
    }


def _legend_rows(labels: list[str], pixels: float) -> int:
    """About how many rows the legend has; plotly makes all its columns equally wide."""
    if not labels:
        return 0
    widest = max(min(len(label), 60) for label in labels) * _LETTER + 45
    return math.ceil(len(labels) / max(1, int(pixels / widest)))


def _literal(text: str) -> str:
    """Neither HTML nor, between dollar signs, a formula."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def escaped(text: str, width: int = 1000) -> str:
    """Text from outside for plotly, which reads a little HTML: lines, nothing else obeyed."""
    return "<br>".join(map(_literal, wrapped(text, width)))


def plain_numbers(values: Sequence[Number]) -> list[Number | None]:
    """The values with None for what cannot be drawn."""
    return [value if math.isfinite(value) else None for value in values]


def first(named: set[object], key: object) -> bool:
    """Whether the legend lacks this entry so far; from now on it has it."""
    new = key not in named
    named.add(key)
    return new


def axis_of(domain: tuple[float, float], anchor: str, label: str) -> Json:
    """What every axis has."""
    return {
        "domain": list(domain),
        "anchor": anchor,
        "title": {"text": escaped(label, 44), "standoff": 8},
        "gridcolor": light("rule"),
        "linecolor": light("muted"),
        "tickcolor": light("muted"),
        "showline": True,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "automargin": True,
        "exponentformat": "power",
    }
