"""Marks: the few shapes that every panel is drawn with, and the axes in which they stand.

A look says how a mark is drawn, by names of colours, dashes and symbols (style.py). A value that is
nan is a gap. The texts "hover", which the page shows where its reader points, are in the little
HTML of `words.escaped`. A painter needs to know only what is here, and not what a figure shows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnrate.figures.figure import Number, Scale
from attnrate.figures.style import Key, Look


@dataclass(frozen=True, eq=False)
class _Mark:
    """What all marks have: a look, the key of their entry in the legend, and its words.

    A mark whose label is None is not in the legend.
    """

    look: Look
    key: Key
    label: str | None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be drawn."""
        return False


@dataclass(frozen=True, eq=False)
class Path(_Mark):
    """A line through points, markers at the points, or both, as the look says.

    The marker "arrow" stands at the end only. `low` and `high` are the ends of bars, which lie just
    below the line. With `every` = 2 each second marker is left out. `hover` has one text per point.
    """

    x: Sequence[Number]
    y: Sequence[Number]
    hover: Sequence[str] = ()
    low: Sequence[Number] | None = None
    high: Sequence[Number] | None = None
    every: int = 1

    @property
    def empty(self) -> bool:
        """Whether no point has a value."""
        return all(map(math.isnan, self.y))


@dataclass(frozen=True, eq=False)
class Area(_Mark):
    """Shapes filled with a colour, each by the (x, y) of its corners."""

    shapes: Sequence[Sequence[tuple[Number, Number]]]

    @property
    def empty(self) -> bool:
        """Whether there is no shape."""
        return not self.shapes


@dataclass(frozen=True, eq=False)
class Rule(_Mark):
    """A line across the whole panel, at a value of one axis."""

    axis: Literal["x", "y"]
    at: Number


Mark = Path | Area | Rule


@dataclass(frozen=True, eq=False)
class Cells:
    """A matrix by shades from `low` to `high`, with a labelled bar of the shades beside it.

    Row 0 is at y = 0 and column 0 at x = 0. `words` are written into the cells; None writes none.
    """

    values: Sequence[Sequence[Number]]
    low: float
    high: float
    shades: tuple[str, ...]
    label: str
    words: list[list[str]] | None
    hover: list[list[str]]


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with its ticks.

    `ticks` are (place, word). Where they are None, ticks lie at multiples of `step`; where that is
    None too, the painter chooses. An axis of "words" has no grid, one of "cells" no line either.
    """

    label: str
    low: float
    high: float
    scale: Scale = "linear"
    ticks: list[tuple[Number, str]] | None = None
    step: int | None = None
    kind: Literal["numbers", "words", "cells"] = "numbers"


@dataclass(frozen=True, eq=False)
class Frame:
    """A panel: its axes with its marks, in the order of the legend, or with its cells.

    `shape` is height over width, where that matters. If `equal`, one unit is as long on both axes.
    """

    x: Axis
    y: Axis
    marks: Sequence[Mark] = ()
    cells: Cells | None = None
    shape: float | None = None
    equal: bool = False
    title: str = ""


@dataclass(frozen=True, eq=False)
class Sketch:
    """A figure as frames, with the mark that stands for each entry of their common legend."""

    title: str
    frames: list[Frame]
    legend: dict[Key, Mark]

    def columns(self, most: int = 3) -> int:
        """The number of panels side by side: at most three and `most`; four are two by two."""
        count = max(1, len(self.frames))
        return min(2 if count == 4 else 3, count, most)
