"""Outlines of violins: as wide as the density of their values, as high as their range."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attnrate.figures.axes import drawable
from attnrate.figures.figure import Scale, Violins

_HEIGHTS = 33  # points on each side of an outline
_HALF = 0.42  # of the distance between two places


@dataclass(frozen=True)
class Outline:
    """A violin at `x`: half of its width at each height, its median, and two quantiles.

    `low` and `high` are the 5 % and 95 % quantiles. Equal values make a dash.
    """

    x: float
    heights: list[float]
    halves: list[float]
    median: float
    low: float
    high: float

    @property
    def corners(self) -> list[tuple[float, float]]:
        """The outline as a shape: up along its right side, down along its left."""
        sides = [*zip(self.halves, self.heights, strict=True)]
        right = [(self.x + half, height) for half, height in sides]
        return right + [(self.x - half, height) for half, height in reversed(sides)]


def outlines_of(panel: Violins) -> list[Outline]:
    """The outlines of all violins that have a value which can be drawn.

    Widths are densities along the axis, which may be logarithmic.
    """
    widest = _HALF * distance(panel)
    found = []
    for x, values in zip(panel.x, panel.values, strict=True):
        kept = np.array([v for v in values if drawable(v, panel.y_scale)], dtype=float)
        if math.isfinite(x) and len(kept):
            found.append(_outline(float(x), kept, widest, panel.y_scale))
    return found


def distance(panel: Violins) -> float:
    """The smallest distance between two places of x; 1 where there is only one."""
    places = sorted({float(x) for x in panel.x if math.isfinite(x)})
    return min((after - before for before, after in pairwise(places)), default=1.0)


def _outline(x: float, values: np.ndarray, widest: float, scale: Scale) -> Outline:
    """The outline of one violin, by a Gaussian kernel."""
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
