"""Violins: as wide as the density of their values, as high as these reach, within their axes."""

import math

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from attnrate.figures.draw import draw
from attnrate.figures.figure import Figure, Series, Violins
from attnrate.figures.sketch import sketch
from attnrate.figures.violins import outlines_of


def violins(*values: tuple[float, ...], log: bool = False, series: tuple = ()) -> Violins:
    places = tuple(float(k) for k in range(1, len(values) + 1))
    return Violins("", "k", "σ", "inputs", places, values, series, "log" if log else "linear")


def test_the_width_is_the_density_of_the_values() -> None:
    draws = np.random.default_rng(1).normal(size=150)
    (one,) = outlines_of(violins(tuple(draws.tolist())))
    density = gaussian_kde(draws)(one.heights)
    # the two take the deviation of a sample and of a population
    assert one.halves == pytest.approx(max(one.halves) * density / density.max(), rel=0.02)
    assert (one.heights[0], one.heights[-1]) == (draws.min(), draws.max())
    assert one.median == pytest.approx(np.median(draws))


def test_on_a_logarithmic_axis_the_density_is_that_of_the_logarithms() -> None:
    powers = np.random.default_rng(2).normal(size=100)
    (plain,) = outlines_of(violins(tuple(powers.tolist())))
    (log,) = outlines_of(violins(tuple((10**powers).tolist()), log=True))
    assert np.log10(log.heights) == pytest.approx(plain.heights, abs=1e-9)
    assert log.halves == pytest.approx(plain.halves)


def test_neighbours_do_not_overlap() -> None:
    panel = Violins("", "", "", "", (1.0, 3.0, 3.5), ((1.0, 2.0, 2.5),) * 3)
    for one in outlines_of(panel):
        assert max(one.halves) < 0.25


def test_equal_values_are_a_dash_and_no_value_is_nothing() -> None:
    found = outlines_of(violins((0.3,), (), (0.0, math.nan, math.inf)))
    assert [one.heights for one in found] == [[0.3, 0.3], [0.0, 0.0]]
    assert outlines_of(violins((), (0.0, -1.0), log=True)) == []


def test_the_axes_show_all_violins_and_series() -> None:
    line = Series("law", (1.0, 9.0), (5.0, 1e-4))
    panel = violins((1.0, 2.0), (0.01, 30.0), log=True, series=(line,))
    (frame,) = sketch(Figure("", "", "", (panel,))).frames
    x, y = frame.x, frame.y
    assert x.low < 0.5
    assert x.high > 9.0
    assert x.step == 2
    assert y.low < 1e-4
    assert y.high > 30.0


def test_a_drawing_has_a_shape_for_each_violin_and_all_in_its_legend(
    figures: tuple[Figure, ...],
) -> None:
    drawing = draw(figures[3])
    shapes = [[len(one.get_paths()) for one in axes.collections] for axes in drawing.axes]
    assert shapes == [[3], [3]]
    texts = [text.get_text() for text in drawing.legends[0].get_texts()]
    assert texts == ["inputs", "median", "pooled", "law"]


def test_violins_without_values_say_so() -> None:
    (legend,) = draw(Figure("a", "", "", (violins((), ()),))).legends
    assert legend.get_texts()[0].get_text() == "inputs (no values)"
