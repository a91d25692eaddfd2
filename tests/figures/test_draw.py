"""Figures for papers: complete, legible on logarithmic axes, the same bytes each time."""

import math
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context

from attnrate.figures.axes import log_ticks, whole_step
from attnrate.figures.draw import draw, save_figure
from attnrate.figures.figure import Curves, Figure, Matrix, Rows, Series
from attnrate.figures.interactive import interactive
from attnrate.figures.marks import Area
from attnrate.figures.marks import Path as Drawn
from attnrate.figures.sketch import shades, sketch
from attnrate.figures.style import COLOURS, DIVERGING, SEQUENTIAL, key_of, looks_of


def series_of(figure: Figure) -> list[Series]:
    return [s for panel in figure.panels if isinstance(panel, Curves) for s in panel.series]


def test_every_series_line_and_link_is_in_the_legend(figures: tuple[Figure, ...]) -> None:
    for figure in figures[:2]:
        drawing = draw(figure)
        (legend,) = drawing.legends
        shown = {text.get_text().removesuffix(" (no values)") for text in legend.get_texts()}
        wanted = {series.label for series in series_of(figure)}
        assert wanted <= shown
    assert {"right link", "wrong link", "u", "v"} <= shown


def test_a_series_without_values_says_so(figures: tuple[Figure, ...]) -> None:
    texts = [text.get_text() for text in draw(figures[0]).legends[0].get_texts()]
    assert "nothing (no values)" in texts


def test_the_legend_stands_below_all_panels(figures: tuple[Figure, ...]) -> None:
    drawing = draw(figures[0])
    drawing.draw_without_rendering()
    top = drawing.legends[0].get_window_extent().y1
    assert all(axes.get_tightbbox().y0 >= top for axes in drawing.axes if axes.axison)


def test_a_figure_gives_the_same_bytes_again_in_another_process(
    figures: tuple[Figure, ...], tmp_path: Path
) -> None:
    figure = Figure("one", "One", "", figures[1].panels)
    program = f"""
from pathlib import Path
from math import nan
from attnrate.figures.figure import *
from attnrate.figures.draw import save_figure
save_figure({figure!r}, Path({str(tmp_path / "b")!r}))
"""
    for name in "ab":
        (tmp_path / name).mkdir()
    with rc_context({"font.size": 30, "axes.grid": True}):
        paths = save_figure(figure, tmp_path / "a")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
    assert [path.name for path in paths] == ["one.png", "one.svg"]
    for path in paths:
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert paths[0].read_bytes().startswith(b"\x89PNG")


def test_hostile_text_is_drawn_and_stays_in_its_folder(
    figures: tuple[Figure, ...], tmp_path: Path
) -> None:
    for path in save_figure(figures[2], tmp_path):
        assert path.parent == tmp_path
        assert path.exists()
    tree = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert not [node for node in tree.iter() if node.tag.endswith("script")]
    assert len([*tmp_path.iterdir()]) == 2


def test_a_dollar_sign_is_a_dollar_sign() -> None:
    figure = Figure("a", "costs $5 or $6", "", (Curves("$x", "$y_", "$\\frac$", ()),))
    draw(figure).draw_without_rendering()


@pytest.mark.parametrize("count", range(8))
def test_any_number_of_panels_can_be_drawn(count: int) -> None:
    panel = Matrix("m", "", "", ((1.0, 2.0),))
    drawing = draw(Figure("a", "A", "", (panel,) * count))
    images = [axes for axes in drawing.axes if axes.images]
    assert len(images) == count


def test_small_matrices_have_their_numbers_and_large_ones_do_not() -> None:
    def words(size: int) -> list[str]:
        panel = Matrix("m", "", "", ((0.25,) * size,) * size)
        return [text.get_text() for text in draw(Figure("a", "A", "", (panel,))).axes[0].texts]

    assert words(12) == ["0.25"] * 144
    assert words(13) == []


@pytest.mark.parametrize("size", [3, 13])
def test_a_matrix_shows_words_of_its_own_whatever_its_size(size: int) -> None:
    words = (("▲", "", "$"),) + (("",) * 3,) * (size - 1)
    panel = Matrix("m", "", "", ((1.0, -1.0, 0.0),) * size, words=words)
    figure = Figure("a", "A", "", (panel,))
    shown = [text.get_text() for text in draw(figure).axes[0].texts]
    assert shown[:3] == ["▲", "", r"\$"]
    assert interactive(figure)["data"][0]["text"][0] == ["▲", "", "&#36;"]


def test_a_matrix_of_both_signs_has_zero_in_the_middle_of_its_colours() -> None:
    assert shades(Matrix("", "", "", ((-1.0, 3.0),))) == (-3.0, 3.0, DIVERGING)
    assert shades(Matrix("", "", "", ((1.0, 3.0),), low=0.0)) == (0.0, 3.0, SEQUENTIAL)


def test_the_paper_has_one_look_that_nothing_else_has(figures: tuple[Figure, ...]) -> None:
    looks = looks_of(figures[0])
    for series in series_of(figures[0]):
        look = looks[key_of(series)]
        assert (look.colour == "paper") == (series.style == "paper")
        assert (look.marker == "diamond") == (series.style == "paper")


def test_series_of_one_group_share_a_colour_and_no_two_look_alike() -> None:
    series = [Series(f"s{i}", (1.0,), (1.0,), group=f"g{i // 2}") for i in range(16)]
    looks = looks_of(Figure("a", "", "", (Curves("", "", "", tuple(series)),)))
    found = [looks[key_of(one)] for one in series]
    assert all(found[i].colour == found[i + 1].colour for i in range(0, 16, 2))
    assert len({look.colour for look in found}) == 8
    assert len({*found}) == 16


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_lines_stand_out_from_the_background(theme: int) -> None:
    text = ("ink", "muted", "link", "good", "amended", "even", "bad", "unknown", "aside")
    for name in text:
        for ground in ("background", "card"):
            assert contrast(COLOURS[name][theme], COLOURS[ground][theme]) >= 4.5, name
    for name in ("paper", *(f"c{i}" for i in range(8))):
        assert contrast(COLOURS[name][theme], COLOURS["background"][theme]) >= 3, name


def test_a_colour_in_light_has_one_partner_in_dark() -> None:
    assert len({pair[0] for pair in COLOURS.values()}) == len(COLOURS)


@given(st.floats(1e-30, 1e30), st.floats(1.01, 1e40))
def test_a_logarithmic_axis_has_a_few_ticks_all_within_it(low: float, ratio: float) -> None:
    ticks = log_ticks(low, low * ratio, [low, low * ratio])
    assert len(ticks) <= 12
    assert all(low <= place <= low * ratio for place, _ in ticks)
    assert len({word for _, word in ticks}) == len(ticks)
    if ratio >= 10:
        assert len(ticks) >= 2


def test_sizes_are_their_own_ticks() -> None:
    assert [word for _, word in log_ticks(0.9, 20.0, [1.0, 2.0, 4.0, 8.0, 16.0])] == [
        "1",
        "2",
        "4",
        "8",
        "16",
    ]


@given(st.floats(0, 1e6), st.floats(1, 1e6))
def test_whole_ticks_are_at_most_ten(low: float, span: float) -> None:
    assert span / whole_step(low, low + span) <= 9.001
    assert span / whole_step(low, low + span) >= 1


def test_an_interval_to_infinity_does_not_squash_the_values() -> None:
    """With two seeds an interval can span forty decades."""
    series = Series("s", (1.0, 2.0), (1e-3, 1e-4), (1e-30, 0.0), (1e30, 1.0))
    (frame,) = sketch(Figure("", "", "", (Curves("", "", "", (series,), y_scale="log"),))).frames
    axis = frame.y
    assert axis.low < 1e-4 < 1e-3 < axis.high
    assert math.log10(axis.high / axis.low) < 5


def test_what_cannot_be_drawn_on_a_logarithmic_axis_is_left_out() -> None:
    series = Series("s", (0.0, 1.0, 2.0, 3.0), (1.0, 0.0, math.inf, 5.0))
    figure = Figure("", "", "", (Curves("", "", "", (series,), "log", "log"),))
    (points,) = sketch(figure).frames[0].marks
    assert isinstance(points, Drawn)
    assert [math.isnan(y) for y in points.y] == [True, True, True, False]


def test_a_band_that_reaches_zero_leaves_a_logarithmic_panel_and_has_a_part_beside_each_gap() -> (
    None
):
    many = tuple(float(k) for k in range(1, 41))
    high = tuple(math.nan if k == 20 else 2 / k for k in many)
    series = Series("s", many, tuple(1 / k for k in many), (0.0,) * 40, high)
    found = sketch(Figure("", "", "", (Curves("", "", "", (series,), y_scale="log"),)))
    band, line = found.frames[0].marks
    assert isinstance(band, Area)
    assert [len(shape) for shape in band.shapes] == [2 * 19, 2 * 20]
    assert min(y for _, y in band.shapes[0]) < 1e-100
    assert found.frames[0].y.low > 1 / 80
    assert [*found.legend.values()] == [line]


def test_points_of_one_category_stand_around_its_label() -> None:
    series = (
        Series("a", (0.0, 1.0, 2.0), (1.0, 2.0, math.nan)),
        Series("b", (1.0,), (3.0,)),
        Series("c", (2.0,), (4.0,)),
    )
    panel = Curves("", "x", "y", series, ticks=("alone", "shared", "alone again"))
    (frame,) = sketch(Figure("f", "", "", (panel,))).frames
    places: dict[int, list[float]] = {}
    for mark in frame.marks:
        assert isinstance(mark, Drawn)
        for x in mark.x:
            if not math.isnan(x):
                places.setdefault(round(x), []).append(x - round(x))
    assert places[0] == places[2] == [0.0]
    assert sum(places[1]) == pytest.approx(0.0)
    assert places[1][0] < places[1][1]


def test_rows_begin_at_the_top_and_have_their_names_as_written() -> None:
    series = Series("a", (0.0, 1.0), (1.0, 3.0), (0.5, 2.0), (2.0, 4.0))
    (axes,) = draw(Figure("r", "", "", (Rows("", "x", "", ("$a_1$", "b"), (series,)),))).axes
    low, high = axes.get_ylim()
    assert low > high
    assert [one.get_text() for one in axes.get_yticklabels()] == [r"\$a_1\$", "b"]
    marked = [one for one in axes.get_lines() if one.get_marker() == "o"]
    assert [[*one.get_xdata()] for one in marked] == [[1.0, 3.0]]
