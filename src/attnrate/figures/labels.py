"""Words beside points of a drawing, placed where they cover neither each other nor the points.

Each word takes the cheapest of many places around its point, given where the others are, until none
moves any more. To leave the panel or to lie on another word is dearest; to lie on a point is dear;
to lie on a line and to be far away cost a little. All lengths are in points of the printed figure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from attnrate.figures.style import light
from attnrate.figures.words import clean

_LETTERS = 8.0  # as ticks have
_DISTANCES = np.array((6.0, 9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 65.0, 85.0))
_ANGLES = 2 * np.pi * np.arange(16) / 16
_FIRST_LED = 2 * len(_ANGLES)  # from the third distance on, a thin line leads to the point
_MARKER, _AIR = 4.0, 2.5  # what stays free around a point and around a word
_STEP = 3.0  # between the places along a line that a word should not cover
_ROUNDS = 10
_FORBIDDEN, _ON_POINT, _ON_LINE = 1e6, 1e3, 2.0


@dataclass(frozen=True)
class Label:
    """A word for the point (x, y) of a panel, in the units of its axes."""

    x: float
    y: float
    word: str


@dataclass(frozen=True, eq=False)
class _Room:
    """The places around a point that its word could take.

    `shifts` lead from the point to the middle of the word, `boxes` are the word's left, lower,
    right and upper ends there, and `costs` what each place costs, wherever the other words are.
    """

    shifts: Float[np.ndarray, "places 2"]
    boxes: Float[np.ndarray, "places 4"]
    costs: Float[np.ndarray, " places"]


def label_points(axes: Axes, labels: Sequence[Label]) -> None:
    """Write a word beside each of some points of a panel.

    Args:
        axes: A panel in which all else is drawn already, of a figure that keeps its size.
        labels: The words and their points; those at no place of the panel are left out.

    """
    figure = axes.get_figure(root=True)
    labels = [one for one in labels if _has_place(axes, one)]
    if figure is None or not labels:
        return
    figure.draw_without_rendering()  # only then it is known where the points are
    unit = figure.dpi / 72
    points = axes.transData.transform([(one.x, one.y) for one in labels]) / unit
    panel, lines = np.array(axes.bbox.extents) / unit, _along_lines(axes, unit)
    words = [clean(one.word).replace("$", r"\$") for one in labels]
    rooms = []
    for point, word in zip(points, words, strict=True):
        tried = axes.text(0, 0, word, fontsize=_LETTERS)
        size = np.array(tried.get_window_extent().size) / unit
        rooms.append(_room(point, size, panel, points, lines))
        tried.remove()
    line: dict[str, Any] = {"arrowstyle": "-", "color": light("muted"), "linewidth": 0.6}
    line |= {"shrinkA": 0, "shrinkB": _MARKER}
    taken = [*enumerate(_settled(rooms))]
    # the farthest first: a line that leads to a point lies below the words on its way
    for number, place in sorted(taken, key=lambda each: -each[1]):
        shift = rooms[number].shifts[place]
        written = axes.annotate(
            words[number],
            (labels[number].x, labels[number].y),
            xytext=(float(shift[0]), float(shift[1])),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=_LETTERS,
            arrowprops=line if place >= _FIRST_LED else None,
            path_effects=[withStroke(linewidth=2.0, foreground="white")],
        )
        written.set_in_layout(False)  # it lies within the panel, which must not move for it


def _has_place(axes: Axes, one: Label) -> bool:
    """Whether the point can be drawn: finite, and positive along a logarithmic axis."""
    along = (one.x, axes.get_xscale()), (one.y, axes.get_yscale())
    return all(math.isfinite(value) and (scale != "log" or value > 0) for value, scale in along)


def _along_lines(axes: Axes, unit: float) -> Float[np.ndarray, "steps 2"]:
    """Places along all lines of a panel, a step apart."""
    found = [np.zeros((0, 2))]
    for line in axes.get_lines():
        if line.get_linestyle() in ("None", "none", ""):
            continue
        ends = line.get_transform().transform(line.get_xydata()) / unit
        ends = ends[np.isfinite(ends).all(1)]
        for start, end in pairwise(ends):
            steps = max(2, int(np.linalg.norm(end - start) / _STEP))
            found.append(start + np.linspace(0, 1, steps)[:, None] * (end - start))
    return np.concatenate(found)


def _room(
    point: Float[np.ndarray, "2"],
    size: Float[np.ndarray, "2"],
    panel: Float[np.ndarray, "4"],
    points: Float[np.ndarray, "points 2"],
    lines: Float[np.ndarray, "steps 2"],
) -> _Room:
    """The places of a word of some size around its point, the nearest first."""
    far = np.repeat(_DISTANCES, len(_ANGLES))
    ways = np.tile(np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], 1), (len(_DISTANCES), 1))
    shifts = ways * (far[:, None] + size / 2)
    middle, half = point + shifts, size / 2 + _AIR
    boxes = np.hstack([middle - half, middle + half])
    outside = (boxes[:, :2] < panel[:2]).any(1) | (boxes[:, 2:] > panel[2:]).any(1)
    costs = (
        far
        + _FORBIDDEN * outside
        + _ON_POINT * _covered(boxes, points, _MARKER).sum(1)
        + _ON_LINE * _covered(boxes, lines, 0.0).sum(1)
    )
    return _Room(shifts, boxes, costs)


def _covered(
    boxes: Float[np.ndarray, "boxes 4"], points: Float[np.ndarray, "points 2"], margin: float
) -> Bool[np.ndarray, "boxes points"]:
    """Which points lie in which boxes, or less than a margin beside them."""
    low, high = boxes[:, None, :2] - margin, boxes[:, None, 2:] + margin
    inside: np.ndarray = np.all((low < points) & (points < high), axis=-1)
    return inside


def _settled(rooms: Sequence[_Room]) -> list[int]:
    """The place that each word takes."""
    taken = [int(room.costs.argmin()) for room in rooms]
    for _ in range(_ROUNDS):
        before = [*taken]
        for number, room in enumerate(rooms):
            others = [own.boxes[taken[i]] for i, own in enumerate(rooms) if i != number]
            there = np.reshape(others, (-1, 4))
            apart = room.boxes[:, None, :2] < there[:, 2:], room.boxes[:, None, 2:] > there[:, :2]
            on_others = np.logical_and(*apart).all(-1).sum(1)
            taken[number] = int((room.costs + _FORBIDDEN * on_others).argmin())
        if taken == before:
            break
    return taken
