"""Figures for papers: plain-data figures drawn with matplotlib, as PNG and SVG.

No pyplot and no settings of the user take part, so the same figure always gives the same bytes.
"""

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FixedFormatter, FixedLocator, MultipleLocator, NullLocator

from attnrate.experiments.plots import Curves, Figure, Graph, Matrix, Series
from attnrate.report import geometry
from attnrate.report.files import safe_name, write_whole
from attnrate.report.style import (
    RIGHT_LINK,
    WRONG_LINK,
    Look,
    key_of,
    light,
    line_dashes,
    looks_of,
)
from attnrate.report.words import clean, wrapped

_DPI = 150
_PANEL = (4.3, 3.5)  # inches
_WIDTHS = {1: 6.2, 2: 9.2, 3: 12.4}
_TICK_LETTERS = {1: 72, 2: 50, 3: 46}  # that fit side by side below a panel
_INK, _MUTED, _RULE = light("ink"), light("muted"), light("rule")
_SETTINGS: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "grid.color": _RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "attnrate",
    "svg.fonttype": "path",
}
_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4.5, 2)),
    "dot": (0, (1, 1.6)),
    "dashdot": (0, (5, 1.8, 1, 1.8)),
    "longdash": (0, (8, 2.5)),
    "longdashdot": (0, (8, 2, 1, 2)),
}
_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "pentagon": "p",
    "x": "X",
    "hexagon": "h",
    "cross": "P",
    "diamond": "D",
}
Legend = dict[object, tuple[Artist, str]]


def draw(figure: Figure) -> Drawing:
    """The figure in matplotlib: panels in rows of up to three, one legend below all of them."""
    with _our_settings():
        columns = geometry.columns_of(figure)
        rows = max(1, math.ceil(len(figure.panels) / columns))
        drawing = Drawing(layout="constrained")
        grid = drawing.subplots(rows, columns, squeeze=False)
        legend: Legend = {}
        for place, axes in enumerate(grid.flat):
            if place >= len(figure.panels):
                axes.set_axis_off()
                continue
            panel = figure.panels[place]
            if isinstance(panel, Curves):
                _draw_curves(axes, panel, figure, legend, _TICK_LETTERS[columns])
            elif isinstance(panel, Matrix):
                _draw_matrix(axes, panel)
            else:
                _draw_graph(axes, panel, legend)
            if clean(panel.title) != clean(figure.title):
                axes.set_title(_text(panel.title, 46))
        width = _WIDTHS[columns]
        lines = _draw_legend(drawing, legend, width)
        drawing.set_size_inches(width, rows * _PANEL[1] + 0.22 * lines + 0.35)
        title = _text(figure.title, int(width * 11))
        drawing.suptitle(title, fontsize=11.5, fontweight="bold")
        return drawing


def save_figure(figure: Figure, folder: Path) -> tuple[Path, Path]:
    """Write <name>.png and <name>.svg into the folder; the same figure gives the same bytes."""
    drawing = draw(figure)
    paths = tuple(folder / f"{safe_name(figure.name)}.{kind}" for kind in ("png", "svg"))
    empty = {"Software": None}, {"Date": None, "Creator": None}
    for path, metadata in zip(paths, empty, strict=True):
        data = io.BytesIO()
        with _our_settings(), warnings.catch_warnings():
            # Letters that the font lacks are drawn as boxes; the page still has them.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            drawing.savefig(data, format=path.suffix[1:], dpi=_DPI, metadata=metadata)
        write_whole(path, data.getvalue())
    return paths[0], paths[1]


@contextmanager
def _our_settings() -> Iterator[None]:
    with matplotlib.style.context(["default", _SETTINGS]):
        yield


def _text(text: str, width: int) -> str:
    """Text from outside, in lines; a dollar sign starts no formula."""
    return "\n".join(wrapped(text, width)).replace("$", r"\$")


def _draw_curves(
    axes: Axes, panel: Curves, figure: Figure, legend: Legend, tick_letters: int
) -> None:
    looks, dashes = looks_of(figure), line_dashes(figure)
    x_axis, y_axis = geometry.axes_of(panel)
    _set_axis(axes, "x", panel.x_scale, x_axis)
    _set_axis(axes, "y", panel.y_scale, y_axis)
    if panel.ticks is not None:
        _write_categories(axes, panel.ticks, tick_letters)
    axes.set_xlabel(_text(panel.x_label, 52))
    axes.set_ylabel(_text(panel.y_label, 42))
    axes.grid(axis="y" if panel.ticks is not None else "both")
    axes.set_axisbelow(True)
    for series, points in zip(panel.series, geometry.points_of(panel), strict=True):
        look = looks[key_of(series)]
        handle = _draw_series(axes, panel, series, points, look)
        label = series.label + (" (no values)" if points.empty else "")
        if key_of(series) not in legend or not points.empty:
            legend[key_of(series)] = handle, label
    for line in panel.lines:
        how = {"color": _MUTED, "linestyle": _DASHES[dashes[line.label]], "linewidth": 1.2}
        if line.y is not None:
            axes.axhline(line.y, zorder=1.5, **how)
        if line.x is not None:
            axes.axvline(line.x, zorder=1.5, **how)
        legend["line", line.label] = Line2D([], [], **how), line.label


def _draw_series(
    axes: Axes, panel: Curves, series: Series, points: geometry.Points, look: Look
) -> Artist:
    colour = light(look.colour)
    layer = {"faint": 2.0, "measured": 2.2, "theory": 2.5, "paper": 2.8}[series.style]
    if geometry.has_bars(panel, series):
        below = [y - low for y, low in zip(points.y, points.low, strict=True)]
        above = [high - y for y, high in zip(points.y, points.high, strict=True)]
        axes.errorbar(
            points.x,
            points.y,
            yerr=[[max(v, 0.0) for v in below], [max(v, 0.0) for v in above]],
            fmt="none",
            ecolor=colour,
            elinewidth=1.1,
            capsize=2.5,
            zorder=layer,
        )
    else:
        axes.fill_between(
            points.x, points.low, points.high, color=colour, alpha=0.18, linewidth=0, zorder=layer
        )
    how: dict[str, Any] = {
        "color": colour,
        "linestyle": _DASHES[look.dash],
        "linewidth": look.width,
        "alpha": look.opacity,
        "zorder": layer + 0.1,
    }
    if panel.ticks is not None and look.marker:
        how["linestyle"] = "none"  # nothing lies between two categories
    if look.marker:
        how |= {
            "marker": _MARKERS[look.marker],
            "markevery": max(1, len(points.x) // geometry.MOST_MARKERS),
            "markersize": 6.5 if series.style == "paper" else 5.0,
            "markerfacecolor": light(look.fill),
            "markeredgewidth": 1.6 if series.style == "paper" else 0.8,
        }
    axes.plot(points.x, points.y, **how)
    return Line2D([], [], **how | {"markevery": None})


def _set_axis(axes: Axes, which: str, scale: str, axis: geometry.Axis) -> None:
    own = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)(scale)
    (axes.set_xlim if which == "x" else axes.set_ylim)(axis.low, axis.high)
    if axis.ticks is not None:
        own.set_major_locator(FixedLocator([place for place, _ in axis.ticks]))
        own.set_major_formatter(FixedFormatter([word for _, word in axis.ticks]))
        own.set_minor_locator(NullLocator())
    elif axis.step is not None:
        own.set_major_locator(MultipleLocator(axis.step))


def _write_categories(axes: Axes, ticks: tuple[str, ...], letters: int) -> None:
    """The words below the categories: in lines if they fit side by side, else turned."""
    room = letters // max(len(ticks), 1) - 1
    words = [_text(word, max(room, 6)) for word in ticks]
    how: dict[str, Any] = {}
    if any(len(line) > room for word in words for line in word.split("\n")):
        words = [_text(word, 22) for word in ticks]
        how = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(ticks)), labels=words, **how)


def _draw_matrix(axes: Axes, panel: Matrix) -> None:
    low, high, scale = geometry.shades(panel)
    colours: Colormap = LinearSegmentedColormap.from_list(
        "attnrate", [light(name) for name in scale]
    )
    colours = colours.with_extremes(bad=_RULE)
    rows, columns = geometry.size_of(panel)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(_text(panel.x_label, 52))
    axes.set_ylabel(_text(panel.y_label, 42))
    for own, count in ((axes.xaxis, columns), (axes.yaxis, rows)):
        places = geometry.index_ticks(count)
        own.set_major_locator(FixedLocator(places))
        own.set_major_formatter(FixedFormatter([str(place) for place in places]))
    axes.tick_params(length=0)
    if not rows or not columns:
        return
    aspect: Literal["equal", "auto"] = "equal" if geometry.squarish(panel) else "auto"
    image = axes.imshow(
        panel.values, cmap=colours, vmin=low, vmax=high, aspect=aspect, interpolation="nearest"
    )
    bar = axes.figure.colorbar(image, ax=axes, fraction=0.05, pad=0.03)
    bar.outline.set_visible(False)
    words = geometry.cell_words(panel)
    if words is None:
        return
    size = min(8.0, 62 / max(rows, columns))
    for row, line in enumerate(words):
        for column, word in enumerate(line):
            shade = image.to_rgba(np.array(panel.values[row][column]))
            dark = 0.3 * shade[0] + 0.59 * shade[1] + 0.11 * shade[2] < 0.55
            where: dict[str, Any] = {"ha": "center", "va": "center"}
            axes.text(column, row, word, size=size, color="white" if dark else _INK, **where)


def _draw_graph(axes: Axes, panel: Graph, legend: Legend) -> None:
    axes.set_aspect("equal", adjustable="datalim")
    axes.grid()
    axes.set_axisbelow(True)
    axes.margins(0.08)
    looks: dict[bool, dict[str, Any]] = {
        True: {"color": light(RIGHT_LINK), "linestyle": "-"},
        False: {"color": light(WRONG_LINK), "linestyle": (0, (3, 1.5))},
    }
    for right, look in looks.items():
        if right in panel.right:
            label = "right link" if right else "wrong link"
            legend.setdefault(label, (Line2D([], [], linewidth=1.8, **look), label))
    most = max((weight for *_, weight in panel.links if math.isfinite(weight)), default=1.0) or 1.0
    for (start, end, weight), right in zip(panel.links, panel.right, strict=True):
        share = min(max(weight / most, 0.0), 1.0) if math.isfinite(weight) else 0.0
        arrow = FancyArrowPatch(
            panel.points[start],
            panel.ends[end],
            arrowstyle="-|>",
            mutation_scale=5 + 6 * share,
            # more would turn round the arrow between two close points
            shrinkA=0,
            shrinkB=2,
            linewidth=0.3 + 2.4 * share,
            alpha=0.25 + 0.7 * share,
            zorder=2.0 + share / 2,
            **looks[right],
        )
        axes.add_patch(arrow)
    kinds = (
        (panel.points, panel.points_label, "o", "c7"),
        (panel.ends, panel.ends_label, "s", "c2"),
    )
    for places, label, marker, colour in kinds:
        dots: dict[str, Any] = {
            "linestyle": "none",
            "marker": marker,
            "markersize": 7,
            "color": light(colour),
            "markeredgecolor": "white",
        }
        axes.plot([x for x, _ in places], [y for _, y in places], zorder=3, **dots)
        legend.setdefault(("point", label, marker), (Line2D([], [], **dots), label))


def _draw_legend(drawing: Drawing, legend: Legend, width: float) -> int:
    """Draw the legend below the panels; how many lines it has."""
    if not legend:
        return 0
    labels = [_text(label, 70) for _, label in legend.values()]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(len(labels), 5, int(width / (0.066 * longest + 0.6))))
    drawing.legend(
        [handle for handle, _ in legend.values()],
        labels,
        loc="outside lower center",
        ncols=columns,
        fontsize=8.5,
        handlelength=2.8,
        columnspacing=1.6,
    )
    lines = sum(label.count("\n") for label in labels)
    return math.ceil(len(labels) / columns) + lines
