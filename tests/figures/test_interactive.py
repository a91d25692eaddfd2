"""Figures for plotly: valid, complete, and obeying nothing that stands in a text."""

import json
import math

import plotly.graph_objects as go
import pytest

from attnrate.figures.draw import draw
from attnrate.figures.figure import Curves, Figure, Line, Matrix, Series, Violins
from attnrate.figures.interactive import interactive
from attnrate.figures.layout import WIDTHS, Width
from attnrate.figures.style import COLOURS


@pytest.mark.parametrize("width", WIDTHS)
def test_plotly_knows_every_setting(figures: tuple[Figure, ...], width: Width) -> None:
    for figure in figures:
        go.Figure(interactive(figure, width))  # raises for a name or value it does not know


def test_it_shows_every_finite_value_of_every_series(figures: tuple[Figure, ...]) -> None:
    traces = interactive(figures[0])["data"]
    for panel in figures[0].panels:
        assert isinstance(panel, Curves)
        for series in panel.series:
            (trace,) = [t for t in traces if t.get("name", "").split(" (no ")[0] == series.label]
            log = panel.y_scale == "log"
            kept = [y for y in series.y if math.isfinite(y) and (y > 0 or not log)]
            assert [y for y in trace["y"] if y is not None] == kept


def test_the_legend_has_each_name_once(figures: tuple[Figure, ...]) -> None:
    for figure in figures[:2]:
        drawn = interactive(figure)
        entries = [*drawn["data"], *drawn["layout"]["shapes"]]
        names = [entry["name"] for entry in entries if entry.get("showlegend")]
        assert len(names) == len({*names})
    assert {*names} == {"right link", "wrong link", "u", "v"}
    ranked = sorted(interactive(figures[3])["data"], key=lambda one: one["legendrank"])
    assert [one["name"] for one in ranked if one["showlegend"]] == [
        *("inputs", "median", "pooled", "law")
    ]


def test_only_layouts_differ_between_widths(figures: tuple[Figure, ...]) -> None:
    for figure in figures:
        drawn = [interactive(figure, width) for width in WIDTHS]
        assert drawn[0]["data"] == drawn[1]["data"] == drawn[2]["data"]
        assert drawn[0]["layout"]["height"] > drawn[2]["layout"]["height"]


def test_hover_says_what_one_sees() -> None:
    series = Series("trained", (0.0, 1.0), (0.5, 0.25), (0.4, 0.2), (0.6, 0.3))
    panel = Curves("", "order", "error", (series,), ticks=("as it is", "swapped"))
    (trace,) = interactive(Figure("a", "", "", (panel,)))["data"]
    assert trace["hovertext"][1] == "<b>trained</b><br>order: swapped<br>error: 0.25 [0.2, 0.3]"


def test_a_violin_tells_its_median_and_quantiles() -> None:
    values = tuple(i / 100 for i in range(101))
    panel = Violins("", "k", "σ", "inputs", (3.0,), (values,))
    shape, medians = interactive(Figure("a", "", "", (panel,)))["data"]
    assert (medians["x"], medians["y"]) == ([3.0], [0.5])
    assert "k: 3<br>σ: median 0.5 [0.05, 0.95]" in medians["hovertext"][0]
    assert (min(shape["y"]), max(shape["y"])) == (0.0, 1.0)


def test_violins_keep_apart_by_gaps_and_those_without_values_are_left_out(
    figures: tuple[Figure, ...],
) -> None:
    first = [one for one in interactive(figures[3])["data"] if one["xaxis"] == "x"]
    (shape,) = [one for one in first if one["name"] == "inputs"]
    (medians,) = [one for one in first if one["name"] == "median"]
    assert shape["x"].count(None) == 2
    assert medians["x"] == [1.0, 2.0, 3.0]


def test_a_cell_says_its_row_and_what_its_shade_stands_for() -> None:
    panel = Matrix("", "head", "layer", ((3, 4),), label="rank", row_names=("encoder.0",))
    drawn = interactive(Figure("a", "", "", (panel,)))
    (cells,) = drawn["data"]
    assert cells["hovertext"][0][1] == "layer 0, head 1<br>encoder.0<br><b>4</b><br>rank"
    assert drawn["layout"]["coloraxis"]["colorbar"]["title"]["text"] == "rank"
    assert cells["text"] == [["3", "4"]]


def test_text_from_outside_is_escaped(figures: tuple[Figure, ...]) -> None:
    text = json.dumps(interactive(figures[2]))
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script" in text


def test_every_colour_has_a_partner_in_dark(figures: tuple[Figure, ...]) -> None:
    known = {pair[0] for pair in COLOURS.values()}

    def colours(value: object) -> set[str]:
        if isinstance(value, dict):
            return set().union(*map(colours, value.values()), set())
        if isinstance(value, list):
            return set().union(*map(colours, value), set())
        return {value} if isinstance(value, str) and value.startswith("#") else set()

    for figure in figures:
        assert colours(interactive(figure)) <= known


@pytest.mark.parametrize(
    ("y", "seen"), [((1.0,), True), ((1.0, math.nan), True), ((1.0, 2.0), False)]
)
def test_a_line_of_one_point_can_be_seen(y: tuple[float, ...], seen: bool) -> None:
    series = Series("bound", tuple(float(i) for i in range(len(y))), y, style="theory")
    figure = Figure("f", "", "", (Curves("", "x", "y", (series,)),))
    assert any("markers" in trace["mode"] for trace in interactive(figure)["data"]) == seen
    go.Figure(interactive(figure))
    lines = draw(figure).axes[0].get_lines()
    assert any(line.get_marker() == "_" for line in lines) == seen


def test_a_reference_line_without_a_place_says_so_in_both_legends() -> None:
    lines = (Line("floor", y=0.0), Line("both", x=1.0, y=2.0))
    series = Series("s", (1.0, 2.0), (1.0, 2.0))
    figure = Figure("f", "", "", (Curves("", "x", "y", (series,), y_scale="log", lines=lines),))
    drawn = interactive(figure)
    entries = [*drawn["data"], *drawn["layout"]["shapes"]]
    shown = sorted((one for one in entries if one["showlegend"]), key=lambda one: one["legendrank"])
    assert [one["name"] for one in shown] == ["s", "floor (no values)", "both"]
    assert len(drawn["layout"]["shapes"]) == 2
    texts = [text.get_text() for text in draw(figure).legends[0].get_texts()]
    assert texts == ["s", "floor (no values)", "both"]
