"""Figures for papers: marks and axes painted by matplotlib, as PNG and SVG.

No pyplot and no settings of the user take part, so the same figure always gives the same bytes.
"""

import io
import math
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path as File
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, MultipleLocator, NullLocator

from attnrate.figures.drawing import Drawing
from attnrate.figures.figure import Figure
from attnrate.figures.marks import Area, Axis, Cells, Frame, Mark, Rule, Sketch
from attnrate.figures.sketch import sketch
from attnrate.figures.style import Look, light
from attnrate.figures.words import wrapped
from attnrate.files import safe_name, write_whole

_DPI = 150
_HEIGHT = 3.5  # inches of a panel
_WIDTHS = {1: 6.2, 2: 9.2, 3: 12.4}
_TICK_LETTERS = {1: 72, 2: 50, 3: 46}  # letters that fit side by side below a panel
_DASHES: dict[str | None, Any] = {
    None: "none",
    "solid": "-",
    "dash": (0, (4.5, 2)),
    "dot": (0, (1, 1.6)),
    "dashdot": (0, (5, 1.8, 1, 1.8)),
    "longdash": (0, (8, 2.5)),
    "longdashdot": (0, (8, 2, 1, 2)),
}
_SYMBOLS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "pentagon": "p",
    "x": "X",
    "hexagon": "h",
    "cross": "P",
    "diamond": "D",
    "dash": "_",
}
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
_our_settings = partial(matplotlib.style.context, ["default", _SETTINGS])


def draw(figure: Figure) -> Drawing:
    """Draw a figure by matplotlib: panels in rows of up to three, one legend below all of them."""
    found = sketch(figure)
    columns = found.columns()
    rows = max(1, math.ceil(len(found.frames) / columns))
    with _our_settings():
        drawing = Drawing(layout="constrained")
        grid = drawing.subplots(rows, columns, squeeze=False)
        for place, axes in enumerate(grid.flat):
            if place < len(found.frames):
                _paint_frame(axes, found.frames[place], _TICK_LETTERS[columns])
            else:
                axes.set_axis_off()
        width = _WIDTHS[columns]
        lines = _paint_legend(drawing, found, width)
        drawing.set_size_inches(width, rows * _HEIGHT + 0.22 * lines + 0.35)
        title = _lines(found.title, int(width * 11))
        drawing.suptitle(title, fontsize=11.5, fontweight="bold")
        return drawing


def save_figure(figure: Figure, folder: File) -> tuple[File, File]:
    """Write NAME.png and NAME.svg into the folder and return their paths.

    Equal figures give equal bytes.
    """
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
        # The places of all parts are found while the first file is drawn, and hold for the second.
        drawing.set_layout_engine("none")
    return paths[0], paths[1]


def _lines(text: str, width: int) -> str:
    """Text from outside in lines of about `width` letters, in which a dollar starts no formula."""
    return "\n".join(wrapped(text, width)).replace("$", r"\$")


def _paint_frame(axes: Axes, frame: Frame, letters: int) -> None:
    """Paint one panel; `letters` is the number of letters that fit side by side below it."""
    for mark in frame.marks:
        _paint(axes, mark)
    if frame.cells is not None:
        _paint_cells(axes, frame.cells, frame.shape or 1.0)
    axes.set_box_aspect(frame.shape)
    if frame.equal:
        axes.set_aspect("equal", adjustable="datalim")
    _set_axis(axes, "x", frame.x, 52)
    _set_axis(axes, "y", frame.y, 42)
    if frame.x.kind == "words":
        _write_words(axes, [word for _, word in frame.x.ticks or ()], letters)
    if frame.y.kind == "words":
        named = frame.y.ticks or []
        axes.set_yticks([at for at, _ in named], labels=[_lines(word, 26) for _, word in named])
    axes.set_axisbelow(True)
    if frame.title:
        axes.set_title(_lines(frame.title, 46))


def _set_axis(axes: Axes, which: str, axis: Axis, letters: int) -> None:
    """Set scale, range, label and ticks of the axis "x" or "y"."""
    own = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)(axis.scale)
    # auto: equal units may widen the range
    (axes.set_xlim if which == "x" else axes.set_ylim)(axis.low, axis.high, auto=True)
    own.set_label_text(_lines(axis.label, letters))
    own.grid(axis.kind == "numbers")
    if axis.ticks is not None:
        own.set_major_locator(FixedLocator([place for place, _ in axis.ticks]))
        own.set_major_formatter(FixedFormatter([word for _, word in axis.ticks]))
        own.set_minor_locator(NullLocator())
    elif axis.step is not None:
        own.set_major_locator(MultipleLocator(axis.step))
    if axis.kind == "cells":
        own.set_tick_params(length=0)
        axes.spines[:].set_visible(False)


def _write_words(axes: Axes, words: list[str], letters: int) -> None:
    """Write the words below the categories: in lines if they fit side by side, else turned."""
    room = letters // max(len(words), 1) - 1
    shown = [_lines(word, max(room, 6)) for word in words]
    how: dict[str, Any] = {}
    if any(len(line) > room for word in shown for line in word.split("\n")):
        shown = [_lines(word, 22) for word in words]
        how = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(words)), labels=shown, **how)


def _paint(axes: Axes, mark: Mark) -> None:
    """Paint one mark."""
    how = _style(mark.look) | {"zorder": mark.look.layer}
    if isinstance(mark, Rule):
        (axes.axhline if mark.axis == "y" else axes.axvline)(mark.at, **how)
    elif isinstance(mark, Area):
        filled = {name: how[name] for name in ("color", "alpha", "linewidth", "zorder")}
        axes.add_collection(PolyCollection(mark.shapes, **filled), autolim=False)
    elif mark.look.marker == "arrow":
        start, *_, end = zip(mark.x, mark.y, strict=True)
        # to shrink it more would turn round the arrow between two close points
        ends: dict[str, Any] = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 2}
        axes.add_patch(FancyArrowPatch(start, end, mutation_scale=mark.look.size, **ends, **how))
    else:
        axes.plot(mark.x, mark.y, **how, markevery=mark.every)
        if mark.low is not None and mark.high is not None:
            below = [max(y - low, 0.0) for y, low in zip(mark.y, mark.low, strict=True)]
            above = [max(high - y, 0.0) for y, high in zip(mark.y, mark.high, strict=True)]
            bars: dict[str, Any] = {"fmt": "none", "elinewidth": 1.1, "capsize": 2.5}
            bars |= {"ecolor": how["color"], "zorder": mark.look.layer - 0.1}
            axes.errorbar(mark.x, mark.y, yerr=[below, above], **bars)


def _style(look: Look) -> dict[str, Any]:
    """A look as keyword arguments of matplotlib."""
    how: dict[str, Any] = {
        "color": light(look.colour),
        "alpha": look.opacity,
        "linestyle": _DASHES[look.dash],
        "linewidth": look.width,
    }
    if look.marker in _SYMBOLS:
        how |= {
            "marker": _SYMBOLS[look.marker],
            "markersize": look.size,
            "markerfacecolor": light(look.fill),
            "markeredgewidth": look.edge,
        }
    return how


def _paint_cells(axes: Axes, cells: Cells, shape: float) -> None:
    """Paint the cells of a matrix by shades, with their words, and a bar of the shades."""
    colours: Colormap = LinearSegmentedColormap.from_list(
        "attnrate", [light(name) for name in cells.shades]
    )
    image = axes.imshow(
        cells.values,
        cmap=colours.with_extremes(bad=_RULE),
        vmin=cells.low,
        vmax=cells.high,
        aspect="auto",
        interpolation="nearest",
    )
    # within the panel's own frame, so that the bar is as high as the matrix
    wide = 0.045 * max(1.0, shape)
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0.0, wide, 1.0)))
    bar.outline.set_visible(False)
    bar.set_label(_lines(cells.label, 42))
    # in points: room for four or five letters, or for one alone
    alone = all(len(word) < 2 for line in cells.words or () for word in line)
    size = min(8.0, (190 if alone else 62) / max(np.shape(cells.values)))
    for row, line in enumerate(cells.words or ()):
        for column, word in enumerate(line):
            shade = image.to_rgba(np.array(cells.values[row][column]))
            dark = 0.3 * shade[0] + 0.59 * shade[1] + 0.11 * shade[2] < 0.55
            where: dict[str, Any] = {"ha": "center", "va": "center"}
            text = _lines(word, 40) if word else ""
            axes.text(column, row, text, size=size, color="white" if dark else _INK, **where)


def _paint_legend(drawing: Drawing, found: Sketch, width: float) -> int:
    """Draw the legend below the panels and return its number of lines."""
    labels = [_lines(mark.label or "", 70) for mark in found.legend.values()]
    if not labels:
        return 0
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(len(labels), 5, int(width / (0.066 * longest + 0.6))))
    drawing.legend(
        [_sample(mark) for mark in found.legend.values()],
        labels,
        loc="outside lower center",
        ncols=columns,
        fontsize=8.5,
        handlelength=2.8,
        columnspacing=1.6,
    )
    lines = sum(label.count("\n") for label in labels)
    return math.ceil(len(labels) / columns) + lines


def _sample(mark: Mark) -> Artist:
    """The sample of a mark that stands in the legend."""
    look = mark.look
    if isinstance(mark, Area):
        return Patch(color=light(look.colour), alpha=look.opacity)
    if look.marker == "arrow":
        look = replace(look, width=1.8, opacity=1.0)
    if look.marker == "dash":
        look = replace(look, size=7.0)  # a shorter one would not be seen
    return Line2D([], [], **_style(look))
