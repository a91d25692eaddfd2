"""An answer as figures: every class and model at its place, with its bracket; light on holes."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_choices import SIZES, linear_choice, raced_choice, refused_choice
from made_samples import row, series

from attnrate.choose.drawn import _scale, figures_of, kernel_figure, ladder_figure, race_figure
from attnrate.choose.kernel import Kernel
from attnrate.choose.planning import Course
from attnrate.choose.race import race_of
from attnrate.choose.result import Choice
from attnrate.errors import InputError
from attnrate.figures.draw import draw
from attnrate.figures.drawing import Drawing
from attnrate.figures.figure import Curves, Figure, Rows, Series, figure_from_plain, figure_to_plain
from attnrate.figures.svg import painted


@pytest.fixture(scope="module")
def raced() -> Choice:
    return raced_choice()


@pytest.fixture(scope="module")
def linear() -> Choice:
    return linear_choice()


def rows_of(choice: Choice) -> Rows:
    (panel,) = ladder_figure(choice).panels
    assert isinstance(panel, Rows)
    return panel


def test_the_ladder_and_the_models_stand_on_one_axis_as_the_tables_have_them(raced: Choice) -> None:
    panel = rows_of(raced)
    drawn = {
        (panel.rows[round(at)], one.label): (
            one.y[i],
            one.low and one.low[i],
            one.high and one.high[i],
        )
        for one in panel.series
        for i, at in enumerate(one.x)
    }
    assert raced.ladder is not None
    assert raced.race is not None
    for rung in raced.ladder.rungs:
        found = drawn[rung.name, "class of maps, held out"]
        assert found == (rung.upper.value, rung.lower.low, rung.upper.high)
        inside = drawn[rung.name, "class of maps, least squares of these data"]
        assert inside[0] == rung.lower.value
    gru = raced.race.racer("gru")
    assert drawn["GRU", "trained model, held out"] == (
        gru.share.value,
        gru.share.low,
        gru.share.high,
    )
    assert panel.rows[-1] == "Linear map (diverged)"
    assert math.isnan(drawn["Linear map (diverged)", "trained model, held out"][0])


def test_what_is_worth_taking_is_marked_once_also_where_a_class_has_the_name_of_a_model(
    raced: Choice, linear: Choice
) -> None:
    assert [word for word in rows_of(raced).rows if "▸" in word] == ["▸ Transformer"]
    (line,) = rows_of(raced).lines
    assert raced.race is not None
    assert line.x == raced.race.racer("transformer").share.value
    assert [word for word in rows_of(linear).rows if "▸" in word] == ["▸ filter"]
    model = replace(raced, winner="linear")
    assert [word for word in rows_of(model).rows if "▸" in word] == ["▸ Linear map (diverged)"]
    alone = replace(raced, winner="linear", race=None)
    assert [word for word in rows_of(alone).rows if "▸" in word] == ["▸ linear"]
    assert rows_of(replace(raced, winner="")).lines == ()


def test_figures_are_those_of_the_parts_that_there_are(raced: Choice, linear: Choice) -> None:
    assert [each.name for each in figures_of(raced)] == ["ladder", "race", "heads", "kernel"]
    assert [each.name for each in figures_of(linear)] == ["ladder", "kernel"]
    assert figures_of(refused_choice()) == ()
    for figure in figures_of(raced):
        for panel in figure.panels:
            assert isinstance(panel, Rows) or (panel.x_label and panel.y_label)
        again = figure_from_plain(figure_to_plain(figure))
        assert len(painted(again).panels) == len(figure.panels)


def test_plot_gives_the_ladder_as_a_drawing_or_says_why_not(linear: Choice) -> None:
    drawing = linear.plot()
    assert isinstance(drawing, Drawing)
    names = [label.get_text() for label in drawing.axes[0].get_yticklabels()]
    assert names[:2] == ["nothing", "memoryless linear"]
    refused = refused_choice()
    with pytest.raises(InputError, match=r"nothing to draw.*cannot-tell"):
        refused.plot()
    assert "img" not in refused._repr_html_()


def test_ratios_of_the_race_have_the_intervals_of_the_paired_differences(raced: Choice) -> None:
    assert raced.race is not None
    (panel,) = race_figure(raced.race).panels
    assert isinstance(panel, Rows)
    assert panel.rows == ("Transformer", "GRU", "TCN")
    worse = next(one for one in panel.series if one.label == "surely worse")
    tcn, best = raced.race.racer("tcn"), raced.race.best
    assert best is not None
    assert worse.low is not None
    assert worse.y == (tcn.ratio,)
    assert worse.low[0] == pytest.approx((best.mse.value + tcn.difference.low) / best.mse.value)
    # a ratio lies in its interval
    assert worse.high is not None
    assert worse.low[0] <= worse.y[0] <= worse.high[0]


def test_heads_show_each_size_what_is_enough_and_the_spectrum_without_rounding(
    raced: Choice,
) -> None:
    errors, spectrum = figures_of(raced)[2].panels
    assert isinstance(errors, Curves)
    assert isinstance(spectrum, Curves)
    (line,) = errors.series
    assert line.x == tuple(SIZES)
    assert line.y == pytest.approx(list(SIZES.values()))
    assert raced.heads is not None
    assert [each.x for each in errors.lines if each.x is not None] == [raced.heads.advised]
    assert [each.y for each in spectrum.series] == [(1.0, 0.5, 0.05), (1.0, 0.5)]


def test_a_race_in_which_all_diverged_has_no_picture_of_its_own(raced: Choice) -> None:
    rows = [row("gru", 0, seed, None) for seed in (0, 1)]
    lost = replace(raced, race=race_of(series(), rows, Course(10, 2, 2)), winner="", heads=None)
    assert [each.name for each in figures_of(lost)] == ["ladder", "kernel"]
    draw(ladder_figure(lost))


@given(
    inputs=st.integers(1, 6),
    outputs=st.integers(1, 30),
    lags=st.integers(1, 40),
    seed=st.integers(0, 99),
    exact=st.booleans(),
)
def test_of_a_large_kernel_the_surest_inputs_are_shown_and_the_rest_is_said(
    inputs: int, outputs: int, lags: int, seed: int, exact: bool
) -> None:
    drawn = np.random.default_rng(seed)
    values = drawn.normal(size=(lags, inputs, outputs))
    sure = int(drawn.integers(inputs))
    values[0, sure] = 1e3
    half = np.zeros_like(values) if exact else np.full_like(values, 0.5)
    names = tuple(f"in{i}" for i in range(inputs)), tuple(f"out{i}" for i in range(outputs))
    figure = kernel_figure(Kernel(np.arange(lags), *names, values, half, 0, None))
    assert len(figure.panels) == min(3, inputs)
    titles = [panel.title for panel in figure.panels]
    assert f"from in{sure}" in titles
    assert titles == sorted(titles)
    assert ("kernel.csv" in figure.caption) == (inputs > 3 or outputs > 2)
    first = figure.panels[0]
    assert isinstance(first, Curves)
    labels = [one.label for one in first.series]
    assert labels == list(dict.fromkeys(["to out0", f"to out{outputs - 1}"]))


@given(st.lists(st.floats(1e-12, 2.0), min_size=1, max_size=6))
def test_every_share_has_a_place_on_the_axis_that_is_chosen(shares: list[float]) -> None:
    series = Series("a", tuple(range(len(shares))), tuple(shares))
    chosen = _scale([series])
    far_apart = min(shares) > 1e-6 and max(shares) > 10 * min(shares)
    assert chosen == ("log" if far_apart else "linear")
    rows = Rows("", "x", "", tuple(map(str, series.x)), (series,), chosen)
    (panel,) = painted(Figure("a", "", "", (rows,))).panels
    assert panel.count("<title>") == len(shares)
