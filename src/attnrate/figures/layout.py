"""Where the panels of a figure stand on the page, at each width of a screen."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from attnrate.figures.marks import Frame, Sketch
from attnrate.figures.style import light
from attnrate.figures.words import clean, escaped, wrapped

Json = dict[str, Any]
Width = Literal["narrow", "medium", "wide"]
WIDTHS: tuple[Width, ...] = get_args(Width)
#: The width in pixels from which a figure is medium, and wide
BREAKS = {"medium": 560, "wide": 860}

_MOST_COLUMNS: dict[str, int] = {"narrow": 1, "medium": 2, "wide": 3}
_PIXELS: dict[str, float] = {"narrow": 340.0, "medium": 640.0, "wide": 1060.0}
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP = 66, 14, 28
_PLOT, _NARROW_PLOT, _TITLE_LINE, _BELOW, _TICK_LINE = 300.0, 260.0, 20, 52, 15
_GAP = 82  # between columns: ticks and title of the axis
_BAR, _BAR_LABEL = 36.0, 22.0  # a colour bar with its numbers, and with words beside them
_ROOMY = 280  # pixels
_LETTER = 6.9


@dataclass(frozen=True)
class Place:
    """Where a panel stands in a figure.

    `suffix` is what plotly adds to the names of its axes, `x` and `y` are its shares of the
    figure's width and height, and `letters` is the number of letters that fit side by side below.
    """

    suffix: str
    x: tuple[float, float]
    y: tuple[float, float]
    letters: int


def layout_of(found: Sketch, width: Width) -> tuple[Json, list[Place]]:
    """The layout of plotly without axes, and the place of each panel."""
    columns = found.columns(_MOST_COLUMNS[width])
    pixels = min(_PIXELS[width], 700.0) if columns == 1 else _PIXELS[width]
    inner = pixels - _MARGIN_LEFT - _MARGIN_RIGHT
    column = (inner - (columns - 1) * _GAP) / columns
    letters = int(column / _LETTER)
    titles = [wrapped(frame.title, int(column / 7.6)) for frame in found.frames]
    boxes: list[tuple[float, float, float, float]] = []  # left, right, top and bottom, in pixels
    bottom = below = 0.0
    for first in range(0, len(found.frames), columns):
        row = found.frames[first : first + columns]
        top = bottom + below + 6 + _TITLE_LINE * max(map(len, titles[first : first + columns]))
        for i, frame in enumerate(row):
            free, wide, high = _size(frame, column, _NARROW_PLOT if width == "narrow" else _PLOT)
            left = i * (column + _GAP) + free
            boxes.append((left, left + wide, top, top + high))
        bottom = max(end for *_, end in boxes[first:])
        below = _BELOW + _TICK_LINE * max(_tick_lines(frame, letters) for frame in row)
    places = [
        Place(
            str(i + 1) if i else "",
            (left / inner, min(1.0, right / inner)),
            (max(0.0, 1 - end / bottom), 1 - top / bottom),
            letters,
        )
        for i, (left, right, top, end) in enumerate(boxes)
    ]
    notes = [_note(lines, place) for lines, place in zip(titles, places, strict=True)]
    legend_high = 12 + 20 * _legend_rows(found, pixels)
    # What stands below the last row is part of the margin, as plotly counts it.
    margin = below + legend_high
    text = {"color": light("ink"), "size": 13}
    return {
        "height": round(bottom + _MARGIN_TOP + margin),
        "margin": {"l": _MARGIN_LEFT, "r": _MARGIN_RIGHT, "t": _MARGIN_TOP, "b": margin},
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
        "showlegend": bool(found.legend),
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


def _size(frame: Frame, wide: float, high: float) -> tuple[float, float, float]:
    """The free room on the left of a panel, its width and its height, in pixels."""
    free = 0.0
    if frame.cells is not None:
        bar = _BAR + (_BAR_LABEL if frame.cells.label else 0)
        # As much on the left as the colour bar takes, so that cells are centred, if there is room
        free = bar if wide > _ROOMY else 0.0
        wide -= bar + free
    if frame.shape is None:
        return free, wide, high
    within = min(wide, high / frame.shape)
    return free + (wide - within) / 2, within, within * frame.shape


def _tick_lines(frame: Frame, letters: int) -> int:
    """The number of lines that the words below the categories need beyond the first."""
    words = [word for _, word in frame.x.ticks or ()]
    if frame.x.kind != "words" or not words:
        return 0
    width = max(8, letters // len(words))
    lines = [wrapped(word, width) for word in words]
    # Words that do not fit side by side are turned by plotly and need more room.
    turned = any(len(line) > width for word in lines for line in word)
    return max(map(len, lines)) - 1 + 3 * turned


def _note(lines: list[str], place: Place) -> Json:
    """The title of a panel as an annotation of plotly."""
    return {
        "text": "<br>".join(map(escaped, lines)),
        "xref": "paper",
        "yref": "paper",
        "x": sum(place.x) / 2,
        "y": place.y[1],
        "xanchor": "center",
        "yanchor": "bottom",
        "yshift": 4,
        "showarrow": False,
        "font": {"size": 14},
    }


def _legend_rows(found: Sketch, pixels: float) -> int:
    """The approximate number of rows of the legend, whose columns plotly makes equally wide."""
    labels = [clean(mark.label or "") for mark in found.legend.values()]
    widest = max((min(len(label), 60) for label in labels), default=0) * _LETTER + 45
    return math.ceil(len(labels) / max(1, int(pixels / widest)))
