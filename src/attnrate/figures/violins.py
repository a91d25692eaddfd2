"""Outlines of violins and the axes around them, worked out once for both ways to draw them."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attnrate.figures import geometry
from attnrate.figures.figure import Scale, Violins

_HEIGHTS = 33  # points on each side of an outline
_HALF = 0.42  # of the distance between two places


@dataclass(frozen=True)
class Outline:
    """A violin: half its width at each height, and the quantiles that sum it up.

    Values that are all the same make a dash. `low` and `high` are the 5 % and 95 % quantiles.
    """

    x: float
    heights: list[float]
    halves: list[float]
    median: float
    low: float
    high: float


def outlines_of(panel: Violins) -> list[Outline]:
    """Every violin that has a value which can be drawn; widths are densities along the axis."""
    widest = _HALF * _distance(panel)
    found = []
    for x, values in zip(panel.x, panel.values, strict=True):
        kept = np.array([v for v in values if geometry.drawable(v, panel.y_scale)], dtype=float)
        if math.isfinite(x) and len(kept):
            found.append(_outline(float(x), kept, widest, panel.y_scale))
    return found


def axes_of(panel: Violins) -> tuple[geometry.Axis, geometry.Axis]:
    """The x axis and the y axis of a panel, wide enough for violins and series."""
    outlines, series = outlines_of(panel), geometry.points_of(panel.across)
    room = _distance(panel) / 2
    xs = [end for one in outlines for end in (one.x - room, one.x + room)]
    xs += [x for one in series for x in one.x]
    ys = [height for one in outlines for height in (one.heights[0], one.heights[-1])]
    ys += [y for one in series for y in one.y]
    ends = [v for one in series for v in (*one.low, *one.high)]
    places = [one.x for one in outlines]
    x_axis = geometry.axis_over(xs, [], "linear")
    if all(place.is_integer() for place in places) and x_axis.high - x_axis.low > 1:
        step = geometry.whole_step(x_axis.low, x_axis.high)
        x_axis = geometry.Axis(x_axis.low, x_axis.high, None, step)
    return x_axis, geometry.axis_over(ys, ends, panel.y_scale)


def _distance(panel: Violins) -> float:
    """The least distance between two places."""
    places = sorted({float(x) for x in panel.x if math.isfinite(x)})
    return min((after - before for before, after in pairwise(places)), default=1.0)


def _outline(x: float, values: np.ndarray, widest: float, scale: Scale) -> Outline:
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    along = np.log10(values) if scale == "log" else values
    spread = float(along.std())
    if spread <= 1e-9 * max(1.0, float(np.abs(along).max())):
        return Outline(x, [median, median], [widest, widest], median, low, high)
    at = np.linspace(along.min(), along.max(), _HEIGHTS)
    # Scott's rule, which matplotlib's own violins follow
    width = spread * len(along) ** -0.2
    density = np.exp(-0.5 * ((at[:, None] - along) / width) ** 2).sum(-1)
    heights = 10**at if scale == "log" else at
    halves = widest * density / density.max()
    return Outline(x, heights.tolist(), halves.tolist(), median, low, high)
