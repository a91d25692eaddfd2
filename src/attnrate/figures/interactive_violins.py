"""Panels of violins for plotly: outlines, medians with their quantiles, the series across them."""

from attnrate.figures import interactive_curves, violins
from attnrate.figures.figure import Figure, Violins
from attnrate.figures.layout import Json, Place, escaped, first
from attnrate.figures.style import VIOLIN, light
from attnrate.figures.words import number, with_interval

MEDIAN = "median"


def traces(panel: Violins, figure: Figure, place: Place, named: set[object]) -> list[Json]:
    """All outlines as one trace, their medians as another, then the series."""
    outlines = violins.outlines_of(panel)
    own: Json = {"type": "scatter", "xaxis": place.x, "yaxis": place.y}
    shapes: Json = {
        **own,
        "name": escaped(panel.label + ("" if outlines else " (no values)"), 60),
        **_shape(outlines),
        "mode": "lines",
        "line": {"width": 1, "color": light(VIOLIN)},
        "fill": "toself",
        "fillcolor": light(VIOLIN),
        "opacity": 0.5,
        "hoverinfo": "skip",
        "legendgroup": f"violins {escaped(panel.label)}",
        "legendrank": 900,
        "showlegend": first(named, ("violins", panel.label)),
    }
    medians: Json = {
        **own,
        "name": MEDIAN,
        "x": [one.x for one in outlines],
        "y": [one.median for one in outlines],
        "mode": "markers",
        "marker": {
            "symbol": "line-ew",
            "size": 4,
            "line": {"width": 1.5, "color": light("ink")},
        },
        "hoverinfo": "text",
        "hovertext": [_hover(panel, one) for one in outlines],
        "legendgroup": "violins' medians",
        "legendrank": 901,
        "showlegend": first(named, MEDIAN),
    }
    return [shapes, medians, *interactive_curves.traces(panel.across, figure, place, named)]


def axes(panel: Violins, place: Place) -> Json:
    """The two axes of a panel."""
    return interactive_curves.axes(panel.across, place, violins.axes_of(panel))


def _shape(outlines: list[violins.Outline]) -> dict[str, list[float | None]]:
    """One line around each violin; the gaps between them keep them apart."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for one in outlines:
        if xs:
            xs.append(None)
            ys.append(None)
        xs += [_short(one.x + half) for half in one.halves]
        xs += [_short(one.x - half) for half in reversed(one.halves)]
        heights = [_short(height) for height in one.heights]
        ys += heights + heights[::-1]
    return {"x": xs, "y": ys}


def _short(value: float) -> float:
    """Five digits are more than can be seen, and keep the page small."""
    return float(f"{value:.5g}")


def _hover(panel: Violins, one: violins.Outline) -> str:
    middle = with_interval(one.median, one.low, one.high)
    return "<br>".join(
        [
            f"<b>{escaped(panel.label, 50)}</b>",
            f"{escaped(panel.x_label, 50)}: {number(one.x)}",
            f"{escaped(panel.y_label, 50)}: median {middle}",
            "in brackets the middle 90 %",
        ]
    )
