"""Panels of series and of violins drawn with matplotlib."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, MultipleLocator, NullLocator

from attnrate.figures import geometry, violins
from attnrate.figures.draw_shared import DASHES, INK, MARKERS, MUTED, Legend, text_in_lines
from attnrate.figures.figure import Curves, Figure, Series, Violins
from attnrate.figures.style import VIOLIN, Look, key_of, light, line_dashes, looks_of


def draw_curves(
    axes: Axes, panel: Curves, figure: Figure, legend: Legend, tick_letters: int
) -> None:
    """The series of a panel, its reference lines and its axes; `tick_letters` fit below it."""
    _draw_axes(axes, panel, geometry.axes_of(panel))
    if panel.ticks is not None:
        _write_categories(axes, panel.ticks, tick_letters)
    _draw_all_series(axes, panel, figure, legend)
    dashes = line_dashes(figure)
    for line in panel.lines:
        how = {"color": MUTED, "linestyle": DASHES[dashes[line.label]], "linewidth": 1.2}
        if line.y is not None:
            axes.axhline(line.y, zorder=1.5, **how)
        if line.x is not None:
            axes.axvline(line.x, zorder=1.5, **how)
        legend["line", line.label] = Line2D([], [], **how), line.label


def draw_violins(axes: Axes, panel: Violins, figure: Figure, legend: Legend) -> None:
    """The violins with their medians, and the series across them."""
    across = panel.across
    _draw_axes(axes, across, violins.axes_of(panel))
    colour = light(VIOLIN)
    outlines = violins.outlines_of(panel)
    for one in outlines:
        left = [one.x - half for half in one.halves]
        right = [one.x + half for half in one.halves]
        how: dict[str, Any] = {"facecolor": colour, "edgecolor": colour, "linewidth": 0.7}
        axes.fill_betweenx(one.heights, left, right, alpha=0.45, zorder=2.0, **how)
    dots: dict[str, Any] = {"linestyle": "none", "marker": "_", "color": INK, "markersize": 4.0}
    axes.plot([one.x for one in outlines], [one.median for one in outlines], zorder=2.9, **dots)
    label = panel.label + ("" if outlines else " (no values)")
    legend.setdefault(("violins", panel.label), (Patch(color=colour, alpha=0.45), label))
    legend.setdefault("median", (Line2D([], [], **dots | {"markersize": 7.0}), "median"))
    _draw_all_series(axes, across, figure, legend)


def _draw_axes(axes: Axes, panel: Curves, both: tuple[geometry.Axis, geometry.Axis]) -> None:
    _set_axis(axes, "x", panel.x_scale, both[0])
    _set_axis(axes, "y", panel.y_scale, both[1])
    axes.set_xlabel(text_in_lines(panel.x_label, 52))
    axes.set_ylabel(text_in_lines(panel.y_label, 42))
    axes.grid(axis="y" if panel.ticks is not None else "both")
    axes.set_axisbelow(True)


def _draw_all_series(axes: Axes, panel: Curves, figure: Figure, legend: Legend) -> None:
    looks = looks_of(figure)
    for series, points in zip(panel.series, geometry.points_of(panel), strict=True):
        look = looks[key_of(series)]
        handle = _draw_series(axes, panel, series, points, look)
        label = series.label + (" (no values)" if points.empty else "")
        if key_of(series) not in legend or not points.empty:
            legend[key_of(series)] = handle, label


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
        "linestyle": DASHES[look.dash],
        "linewidth": look.width,
        "alpha": look.opacity,
        "zorder": layer + 0.1,
    }
    if panel.ticks is not None and look.marker:
        how["linestyle"] = "none"  # nothing lies between two categories
    if look.marker:
        how |= {
            "marker": MARKERS[look.marker],
            "markevery": max(1, len(points.x) // geometry.MOST_MARKERS),
            "markersize": 6.5 if series.style == "paper" else 5.0,
            "markerfacecolor": light(look.fill),
            "markeredgewidth": 1.6 if series.style == "paper" else 0.8,
        }
    axes.plot(points.x, points.y, **how)
    if points.alone and not look.marker:
        # a line of one point would not be seen
        axes.plot(points.x, points.y, **how | {"marker": "_", "markersize": 14.0})
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
    words = [text_in_lines(word, max(room, 6)) for word in ticks]
    how: dict[str, Any] = {}
    if any(len(line) > room for word in words for line in word.split("\n")):
        words = [text_in_lines(word, 22) for word in ticks]
        how = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(ticks)), labels=words, **how)
