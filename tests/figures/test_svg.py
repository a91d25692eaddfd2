"""Figures as SVG: valid, every value at its place, and obeying nothing that stands in a text."""

import math
import re
from xml.etree import ElementTree

import pytest

from attnrate.figures.figure import Curves, Figure, Line, Matrix, Rows, Series, Violins
from attnrate.figures.shades import shade
from attnrate.figures.style import COLOURS
from attnrate.figures.svg import painted

Element = ElementTree.Element
KNOWN = {"svg", "path", "text", "title", "g"}


def panels(figure: Figure) -> list[Element]:
    return [ElementTree.fromstring(panel) for panel in painted(figure).panels]


def only(panel: Curves | Matrix | Rows | Violins) -> Element:
    (found,) = panels(Figure("a", "", "", (panel,)))
    return found


def points(path: Element) -> list[tuple[float, float]]:
    """The places that a line of straight pieces goes through."""
    found = re.findall(r"[ML](-?[0-9.]+) (-?[0-9.]+)", path.get("d", ""))
    return [(float(x), float(y)) for x, y in found]


def titles(element: Element) -> list[str]:
    return [title.text or "" for title in element.iter("title")]


def test_every_figure_is_valid_and_has_only_shapes_and_words(figures: tuple[Figure, ...]) -> None:
    for figure in figures:
        found = panels(figure)
        assert len(found) == len(figure.panels)
        for panel in found:
            assert {one.tag for one in panel.iter()} <= KNOWN
            for one in panel.iter():
                assert {*one.attrib} & {"href", "onload", "onerror", "src", "id"} == set()


def test_text_from_outside_stays_text(figures: tuple[Figure, ...]) -> None:
    hostile = figures[2]
    shown = painted(hostile)
    assert "<script" not in "".join(shown.panels)
    assert "<b>" not in "".join(shown.panels)
    words = "".join("".join(panel.itertext()) for panel in panels(hostile))
    assert "<script>" in words
    assert "\x1b" not in words
    assert any("<script>" in label for _, label in shown.legend)


def test_all_colours_are_those_of_the_palette(figures: tuple[Figure, ...]) -> None:
    drawn = painted(figures[0])
    markup = "".join(drawn.panels) + "".join(sample for sample, _ in drawn.legend)
    assert {*re.findall(r"var\(--(\w+)\)", markup)} <= {*COLOURS}
    assert re.findall("#[0-9a-f]{3,6}", markup) == []


def test_a_power_law_is_a_straight_line_on_logarithmic_axes() -> None:
    k = (1.0, 2.0, 4.0, 8.0)
    series = Series("a", k, tuple(x**-2 for x in k), style="theory")
    panel = only(Curves("", "k", "σ", (series,), "log", "log"))
    (line,) = [one for one in panel.iter("path") if one.get("stroke-dasharray")]
    (x0, y0), *rest = points(line)
    assert len(rest) == 3
    for step, (x, y) in enumerate(rest, start=1):
        assert x - x0 == pytest.approx(step * (rest[0][0] - x0), abs=0.3)
        assert y - y0 == pytest.approx(step * (rest[0][1] - y0), abs=0.3)
    assert rest[0][0] > x0
    assert rest[0][1] > y0  # downward


def test_what_is_not_finite_is_a_gap_and_markers_say_their_values() -> None:
    series = Series("trained", (1.0, 2.0, 3.0), (0.5, math.nan, 0.25), (0.4, 0, 0.2), (0.6, 1, 0.3))
    panel = only(Curves("", "order", "error", (series,)))
    assert titles(panel) == [
        "trained\norder: 1\nerror: 0.5 [0.4, 0.6]",
        "trained\norder: 3\nerror: 0.25 [0.2, 0.3]",
    ]
    (line,) = [one for one in panel.iter("path") if (one.get("d") or "").count("M") == 2][-2:-1]
    assert len(points(line)) == 2


def test_a_line_across_lies_at_its_value() -> None:
    series = Series("a", (0.0, 10.0), (0.0, 10.0), style="theory")
    panel = only(Curves("", "x", "y", (series,), lines=(Line("half", x=5.0),)))
    inner = panel.find("svg")
    assert inner is not None
    dashed = [one for one in inner.iter("path") if one.get("stroke-dasharray")]
    (rule,) = [one for one in dashed if "V" in (one.get("d") or "")]
    (at,) = points(rule)
    assert at[0] == pytest.approx(float(inner.get("width", "0")) / 2, abs=0.1)


def test_a_matrix_has_a_cell_for_each_value_in_its_shade() -> None:
    values = ((0.0, 1.0), (math.nan, 3.0))
    panel = only(Matrix("", "head", "layer", values, 0, 4, "dimensions", ("first", "second")))
    (cells,) = [g for g in panel.iter("g") if g.get("class") == "cells"]
    drawn = [*cells.iter("path")]
    assert [one.get("class") for one in drawn] == [shade(v, 0.0, 4.0) for v in (0, 1, 3)]
    assert titles(cells)[2] == "layer 1, head 1\nsecond\n3\ndimensions"
    assert [text.text for text in cells.iter("text")] == ["0.00", "1.00", "3.00"]
    (third,) = points(drawn[2])
    (second,) = points(drawn[1])
    assert third[0] == second[0]
    assert third[1] > second[1]


def test_a_matrix_of_many_cells_has_a_shape_for_each_shade_and_no_words() -> None:
    values = tuple(tuple(float(i * j) for j in range(60)) for i in range(60))
    panel = only(Matrix("", "head", "layer", values))
    (cells,) = [g for g in panel.iter("g") if g.get("class") == "cells"]
    assert len([*cells]) == len({shade(v, 0.0, 59.0**2) for row in values for v in row})
    assert sum((one.get("d") or "").count("M") for one in cells) == 3600
    assert titles(cells) == []


@pytest.mark.parametrize("size", [3, 60])
def test_a_matrix_shows_words_of_its_own_whatever_its_size(size: int) -> None:
    words = (("▲", "", "<b>\x1b"),) + (("", "", ""),) * (size * size)
    panel = Matrix("", "", "", ((1.0, -1.0, 0.0),) * (size * size + 1), words=words)
    (shown,) = panels(Figure("", "", "", (panel,)))
    (cells,) = [g for g in shown.iter("g") if g.get("class") == "cells"]
    assert [text.text for text in cells.iter("text")] == ["▲", "<b>"]


def test_the_legend_has_each_name_once(figures: tuple[Figure, ...]) -> None:
    names = [[label for _, label in painted(figure).legend] for figure in figures]
    for own in (names[0], names[1], names[3]):
        assert len(own) == len({*own})
    assert {*names[1]} == {"right link", "wrong link", "u", "v"}
    assert names[3] == ["inputs", "median", "pooled", "law"]
    for figure in figures:
        for sample, _ in painted(figure).legend:
            assert len([*ElementTree.fromstring(sample).iter("path")]) >= 1


def test_axes_have_words_within_the_picture(figures: tuple[Figure, ...]) -> None:
    for figure in (figures[0], figures[1], figures[3]):
        for panel in panels(figure):
            wide, high = map(float, panel.get("viewBox", "").split()[2:])
            own = [one for one in panel if one.tag == "text" and one.get("x")]
            assert own
            for text in own:
                assert 0 <= float(text.get("x", "")) <= wide
                assert 0 <= float(text.get("y", "")) <= high


def test_rows_stand_below_each_other_with_values_and_intervals_across() -> None:
    series = Series("a", (0.0, 1.0), (1.0, 3.0), (0.5, 2.0), (2.0, 4.0))
    panel = only(Rows("", "error", "", ("first", "second"), (series,), lines=(Line("l", x=3.0),)))
    placed = {one.text: float(one.get("y", "nan")) for one in panel.iter("text")}
    assert placed["first"] < placed["second"]
    inner = panel.find("svg")
    assert inner is not None
    bars = next(one for one in inner.iter("path") if one.get("stroke") == "var(--c0)")
    ends = points(bars)
    # a bar and two caps for each row
    assert len(ends) == 12
    (low, row), (high, same), *_ = ends
    assert row == same
    assert row + float(inner.get("y", "nan")) + 4 == pytest.approx(placed["first"], abs=0.2)
    markers = [one for one in inner.iter("path") if one.find("title") is not None]
    assert len(markers) == 2
    rule = next(one for one in inner.iter("path") if one.get("stroke") == "var(--muted)")
    at = float(re.match(r"M([0-9.]+) 0V", rule.get("d", ""))[1])  # type: ignore[index]
    left, right = ends[6][0], ends[7][0]
    # 3 is in the middle of 2 and 4
    assert at == pytest.approx((left + right) / 2, abs=0.2)
    assert (high - low) / (right - left) == pytest.approx(1.5 / 2, abs=0.01)


def test_the_name_of_a_row_leaves_room_for_the_values() -> None:
    panel = only(Rows("", "error", "", ("long " * 40,), (Series("a", (0.0,), (1.0,)),)))
    inner = panel.find("svg")
    assert inner is not None
    assert float(inner.get("width", "nan")) > 180
    assert any((one.text or "").endswith("…") for one in panel.iter("text"))
