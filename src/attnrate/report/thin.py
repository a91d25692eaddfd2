"""Panels with too few points for a picture, said as a sentence.

A line through two points shows a trend where there is none to see, so such a panel is not drawn on
the page. The files of its figure have it all the same.
"""

import math
from dataclasses import replace

from attnrate.figures.figure import Curves, Figure, Number, Panel, Series
from attnrate.figures.words import number

_FEW = 2  # points of a curve


def pruned(figure: Figure) -> tuple[Figure | None, tuple[str, ...]]:
    """The figure without its thin panels, None if nothing is left, and these as sentences."""
    thin = [panel for panel in figure.panels if is_thin(panel)]
    kept = tuple(panel for panel in figure.panels if not is_thin(panel))
    said = tuple(_sentence(panel) for panel in thin if isinstance(panel, Curves))
    return (replace(figure, panels=kept) if kept else None), said


def is_thin(panel: Panel) -> bool:
    """Whether no curve of the panel, theory included, has more than two points.

    Points at categories are no curve, and what the paper reports does not count.
    """
    if not isinstance(panel, Curves) or panel.ticks is not None:
        return False
    counts = [len(_points(one)) for one in panel.series if one.style != "paper"]
    return 0 < max(counts, default=0) <= _FEW


def _points(series: Series) -> list[tuple[Number, Number]]:
    """The points of a series that are drawn."""
    pairs = zip(series.x, series.y, strict=True)
    return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


def _sentence(panel: Curves) -> str:
    """The points of every curve, as text."""
    parts = []
    for one in panel.series:
        at = [f"{number(y)} at {_place(x)}" for x, y in _points(one)]
        if at:
            parts.append(f"{one.label}: {' and '.join(at)}")
    title = f"{panel.title}: " if panel.title else ""
    return f"{title}{panel.y_label} against {panel.x_label}: {'; '.join(parts)}."


def _place(x: Number) -> str:
    """A place on the axis, a whole number as one."""
    return number(int(x)) if float(x).is_integer() else number(x)
