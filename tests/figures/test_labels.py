"""Words beside points: none covers another one or a point, and all are within their panel."""

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from attnrate.figures.draw import draw
from attnrate.figures.drawing import Drawing
from attnrate.figures.figure import Curves, Figure, Scale, Series
from attnrate.figures.labels import Label, label_points

WORDS = ("whole", "cut", "int8 keys", "4-bit keys", "cut + int8 keys", "cut + 4-bit keys")


def labelled(points: list[tuple[float, float]], y_scale: Scale = "linear") -> Drawing:
    x, y = (tuple(float(point[i]) for point in points) for i in (0, 1))
    panel = Curves("", "x", "y", (Series("points", x, y),), y_scale=y_scale)
    drawing = draw(Figure("a", "A", "", (panel,)))
    label_points(drawing.axes[0], [Label(*each) for each in zip(x, y, WORDS, strict=False)])
    return drawing


def boxes(drawing: Drawing) -> list[Bbox]:
    """Where the words stand, in pixels, without the lines that lead to them."""
    drawing.draw_without_rendering()
    return [Text.get_window_extent(text) for text in drawing.axes[0].texts]


def overlapping(found: list[Bbox]) -> int:
    pairs = [(a, b) for i, a in enumerate(found) for b in found[:i]]
    return sum(Bbox.intersection(a, b) is not None for a, b in pairs)


numbers = st.floats(0.0, 100.0)


@settings(max_examples=25)
@given(st.lists(st.tuples(numbers, numbers), min_size=6, max_size=6))
def test_no_word_lies_on_another_or_leaves_its_panel(points: list[tuple[float, float]]) -> None:
    drawing = labelled(points)
    found = boxes(drawing)
    assert len(found) == 6
    assert overlapping(found) == 0
    panel = drawing.axes[0].bbox
    assert all(panel.x0 <= box.x0 and box.x1 <= panel.x1 for box in found)
    assert all(panel.y0 <= box.y0 and box.y1 <= panel.y1 for box in found)


def test_six_words_at_one_place_stand_around_it() -> None:
    drawing = labelled([(3.0, 4.0)] * 6)
    assert overlapping(boxes(drawing)) == 0
    led = [
        text
        for text in drawing.axes[0].texts
        if isinstance(text, Annotation) and text.arrow_patch is not None
    ]
    assert 0 < len(led) < 6


@pytest.mark.parametrize("y_scale", ["linear", "log"])
def test_no_word_lies_on_a_point(y_scale: Scale) -> None:
    points = [(1.0, 1.0), (1.2, 1.1), (1.4, 1.2), (1.1, 1.0), (2.0, 900.0), (1.3, 1.15)]
    drawing = labelled(points, y_scale)
    places = drawing.axes[0].transData.transform(points)
    assert not any(box.contains(*place) for box in boxes(drawing) for place in places)


def test_words_stay_apart_when_the_file_has_another_resolution() -> None:
    drawing = labelled([(10.0 * i, float(i % 2)) for i in range(6)])
    drawing.savefig(io.BytesIO(), format="png", dpi=40)
    drawing.set_dpi(40)
    assert overlapping(boxes(drawing)) == 0


def test_labels_leave_the_panel_where_it_is() -> None:
    points = [(0.0, 0.0), (1.0, 1.0)]
    panel = Curves("", "x", "y", (Series("points", (0.0, 1.0), (0.0, 1.0)),))
    bare = draw(Figure("a", "A", "", (panel,)))
    bare.draw_without_rendering()
    drawing = labelled(points)
    drawing.draw_without_rendering()
    assert np.allclose(drawing.axes[0].bbox.extents, bare.axes[0].bbox.extents)
    label_points(drawing.axes[0], [])
    assert len(drawing.axes[0].texts) == 2


@pytest.mark.parametrize(("y_scale", "shown"), [("linear", ["whole", "cut"]), ("log", ["whole"])])
def test_a_point_that_cannot_be_drawn_has_no_word(y_scale: Scale, shown: list[str]) -> None:
    drawing = labelled([(1.0, 2.0), (2.0, 0.0), (3.0, math.nan), (math.inf, 1.0)], y_scale)
    assert sorted(text.get_text() for text in drawing.axes[0].texts) == sorted(shown)


def test_a_dollar_sign_starts_no_formula() -> None:
    drawing = draw(Figure("a", "A", "", (Curves("", "x", "y", ()),)))
    label_points(drawing.axes[0], [Label(0.5, 0.5, "$\\frac$")])
    drawing.draw_without_rendering()
