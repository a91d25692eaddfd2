"""Matrices and graphs drawn with matplotlib."""

import math
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FixedFormatter, FixedLocator

from attnrate.figures import geometry
from attnrate.figures.draw_shared import INK, RULE, Legend, text_in_lines
from attnrate.figures.figure import Graph, Matrix
from attnrate.figures.style import RIGHT_LINK, WRONG_LINK, light


def draw_matrix(axes: Axes, panel: Matrix) -> None:
    """The cells of a matrix by shades, with their numbers if they are few."""
    low, high, scale = geometry.shades(panel)
    colours: Colormap = LinearSegmentedColormap.from_list(
        "attnrate", [light(name) for name in scale]
    )
    colours = colours.with_extremes(bad=RULE)
    rows, columns = geometry.size_of(panel)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(text_in_lines(panel.x_label, 52))
    axes.set_ylabel(text_in_lines(panel.y_label, 42))
    for own, numbers in ((axes.xaxis, range(columns)), (axes.yaxis, panel.numbers)):
        places = geometry.index_ticks(len(numbers))
        own.set_major_locator(FixedLocator(places))
        own.set_major_formatter(FixedFormatter([str(numbers[place]) for place in places]))
    axes.tick_params(length=0)
    if not rows or not columns:
        return
    aspect: Literal["equal", "auto"] = "equal" if geometry.squarish(panel) else "auto"
    image = axes.imshow(
        panel.values, cmap=colours, vmin=low, vmax=high, aspect=aspect, interpolation="nearest"
    )
    # within the panel's own frame, so that the bar is as high as the matrix
    wide = 0.045 * max(1.0, rows / columns if aspect == "equal" else 1.0)
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.03, 0.0, wide, 1.0)))
    bar.outline.set_visible(False)
    bar.set_label(text_in_lines(panel.label, 42))
    words = geometry.cell_words(panel)
    if words is None:
        return
    size = min(8.0, 62 / max(rows, columns))
    for row, line in enumerate(words):
        for column, word in enumerate(line):
            shade = image.to_rgba(np.array(panel.values[row][column]))
            dark = 0.3 * shade[0] + 0.59 * shade[1] + 0.11 * shade[2] < 0.55
            where: dict[str, Any] = {"ha": "center", "va": "center"}
            axes.text(column, row, word, size=size, color="white" if dark else INK, **where)


def draw_graph(axes: Axes, panel: Graph, legend: Legend) -> None:
    """Points, and links as arrows: the right ones solid, the wrong ones dashed."""
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
