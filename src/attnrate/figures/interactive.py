"""Figures for the page: plain-data figures as the JSON that plotly.js draws.

The content is that of `draw`. Colours are those of the light palette, without transparency, so that
the page can exchange each for its partner in dark. On a narrow screen the panels stand below each
other: `interactive` is asked for each of the widths, and the page takes the one that fits.
"""

from typing import Any

from attnrate.figures import interactive_curves, interactive_others, interactive_violins
from attnrate.figures.figure import Curves, Figure, Graph, Matrix, Violins
from attnrate.figures.layout import Width, layout_of
from attnrate.figures.style import key_of
from attnrate.figures.words import clean


def interactive(figure: Figure, width: Width = "wide") -> dict[str, Any]:
    """The figure as plotly JSON, {"data": [...], "layout": {...}}; `data` suits every width."""
    layout, places = layout_of(figure, width, _legend_labels(figure))
    traces: list[dict[str, Any]] = []
    shapes: list[dict[str, Any]] = []
    named: set[object] = set()  # what the legend has already
    for panel, place in zip(figure.panels, places, strict=True):
        if isinstance(panel, Curves):
            traces += interactive_curves.traces(panel, figure, place, named)
            shapes += interactive_curves.lines(panel, figure, place, named)
            layout |= interactive_curves.axes(panel, place)
        elif isinstance(panel, Violins):
            traces += interactive_violins.traces(panel, figure, place, named)
            layout |= interactive_violins.axes(panel, place)
        elif isinstance(panel, Matrix):
            traces.append(interactive_others.matrix(panel, place))
            layout |= interactive_others.matrix_axes(panel, place)
        else:
            traces += interactive_others.graph(panel, place, named)
            layout |= interactive_others.graph_axes(place)
    return {"data": traces, "layout": {**layout, "shapes": shapes}}


def _legend_labels(figure: Figure) -> list[str]:
    labels: dict[object, str] = {}
    for panel in figure.panels:
        if isinstance(panel, Violins):
            labels |= {("violins", panel.label): panel.label, "median": interactive_violins.MEDIAN}
        if isinstance(panel, (Curves, Violins)):
            labels |= {key_of(series): series.label for series in panel.series}
        if isinstance(panel, Curves):
            labels |= {("line", line.label): line.label for line in panel.lines}
        elif isinstance(panel, Graph):
            labels |= {("link", right): "right link" for right in panel.right}
            labels |= {("point", name): name for name in (panel.points_label, panel.ends_label)}
    return [clean(label) for label in labels.values()]
