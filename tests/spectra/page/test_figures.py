"""Figures of a profile: the numbers of the profile at their places, nothing where there is none."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from attnrate.figures.draw import draw
from attnrate.figures.figure import Curves, Figure, Matrix, Violins
from attnrate.figures.interactive import interactive
from attnrate.figures.svg import painted
from attnrate.spectra.advise import advise
from attnrate.spectra.estimate import Gram
from attnrate.spectra.page.figures import law_words, profile_figures
from attnrate.spectra.page.subject import subject_of
from attnrate.spectra.result import Profile
from attnrate.theory.decay import fit_decay

Made = Callable[..., Profile]
SMALL = {"name": "encoder.0", "heads": 3, "m_h": 12}
LARGE = {"name": "decoder.0", "heads": 2, "m_h": 40}


def figures_of(profile: Profile) -> dict[str, Figure]:
    return profile_figures(subject_of(advise(profile)))


def matrices(figure: Figure) -> list[Matrix]:
    return [panel for panel in figure.panels if isinstance(panel, Matrix)]


def test_violins_show_each_input_the_pooled_spectrum_and_its_law(made: Made) -> None:
    profile = made(SMALL, SMALL)
    first, last = figures_of(profile)["violins"].panels
    assert isinstance(first, Violins)
    assert first.x == tuple(map(float, range(1, 13)))
    for k, values in zip(first.x, first.values, strict=True):
        assert values == pytest.approx(math.exp(-k / 8) * np.linspace(0.8, 1.2, 5))
    pooled, law = first.series
    assert pooled.y == pytest.approx([math.exp(-k / 8) for k in first.x])
    assert law.style == "theory"
    assert law.y == pytest.approx([math.exp(-k / 8) for k in law.x])
    assert "β = 0.125" in first.title
    assert "layer 1" in last.title
    assert first.y_scale == "log"


def test_a_large_head_has_violins_at_some_k_and_the_caption_says_so(made: Made) -> None:
    figure = figures_of(made(LARGE))["violins"]
    (panel,) = figure.panels
    assert isinstance(panel, Violins)
    assert panel.x[:3] == (1.0, 3.0, 5.0)
    assert len(panel.series[0].x) == 40
    assert "one value in 2" in figure.caption
    assert "5 inputs" in figure.caption


def test_values_that_are_rounding_are_not_drawn(made: Made) -> None:
    """Head 11 falls to e^{-60}; what a float32 model says of that is rounding."""
    panel = figures_of(made({"name": "a", "heads": 12, "m_h": 40}))["spectra"].panels[0]
    assert isinstance(panel, Curves)
    steep = panel.series[11]
    assert min(y for y in steep.y if math.isfinite(y)) > 1e-6
    assert math.isnan(steep.y[-1])


def test_maps_have_a_row_a_layer_and_nothing_where_there_is_no_head(made: Made) -> None:
    profile = made(SMALL, LARGE)
    frame = profile.to_frame()
    figures = figures_of(profile)
    for panel, column in zip(matrices(figures["rank-map"]), ("rank99", "rank999"), strict=True):
        assert panel.values[0] == tuple(frame[frame.layer == 0][column])
        assert panel.values[1][:2] == tuple(frame[frame.layer == 1][column])
        assert math.isnan(panel.values[1][2])
        assert (panel.low, panel.high) == (0, 40)
        assert panel.row_names == ("encoder.0", "decoder.0")
        assert panel.numbers == (0, 1)
    weights, output = matrices(figures["loss-map"])
    assert weights.values[0] == pytest.approx((1.0, 5.5, 10.0))
    assert output.values[0] == pytest.approx((2.0, 11.0, 20.0))


def test_the_map_of_needed_sizes_has_them_as_numbers_and_as_shares(made: Made) -> None:
    advice = advise(made(SMALL, LARGE), tolerance=0.02)
    needed, share = matrices(profile_figures(subject_of(advice))["needed-map"])
    heads = advice.by_head()
    assert [v for row in needed.values for v in row if v == v] == heads.needed.tolist()
    assert share.values[1][:2] == pytest.approx((100 * heads.needed[3:] / 40).tolist())
    assert math.isnan(needed.values[1][2])
    assert (needed.low, needed.high) == (0, 40)
    assert (share.low, share.high) == (0, 100)


def test_ranks_before_and_after_the_rotation_only_for_layers_that_rotate(made: Made) -> None:
    profile = made(SMALL, {**SMALL, "rotary": True})
    curves, difference = figures_of(profile)["rotation"].panels
    assert isinstance(curves, Curves)
    assert isinstance(difference, Matrix)
    before, after = curves.series
    rows = profile.to_frame().query("layer == 1")
    assert before.x == after.x == (1.0,)
    assert before.y == (rows.rank99_plain.median(),)
    assert after.y == (rows.rank99.median(),)
    assert difference.values[1] == tuple(rows.rank99 - rows.rank99_plain)
    assert min(difference.values[1]) > 0
    assert all(map(math.isnan, difference.values[0]))
    assert "rotation" not in figures_of(made(SMALL))


def test_the_gauge_hides_ranks_when_it_is_left_in(made: Made) -> None:
    """Made so that rows' means are most of the energy: with them one dimension seems enough."""
    curves, difference = figures_of(made(SMALL))["gauge"].panels
    assert isinstance(curves, Curves)
    assert isinstance(difference, Matrix)
    taken_out, left_in = curves.series
    assert left_in.y < taken_out.y
    assert max(difference.values[0]) <= 0
    assert difference.low == -(difference.high or 0)


def test_with_and_without_the_gauge_are_the_same_whichever_is_shown(made: Made) -> None:
    profile = made(SMALL, LARGE)
    one, other = profile, replace(profile, gauge="none")
    assert repr(figures_of(one)["gauge"]) == repr(figures_of(other)["gauge"])


def test_a_head_that_does_nothing_is_drawn_as_nothing(made: Made) -> None:
    profile = made(SMALL)
    (layer,) = profile.layers
    query, key = layer.moments["logits"]
    nothing = Gram(0 * key.spread, 0 * key.mean, key.count)
    zero = replace(
        layer,
        sigma={place: 0 * values for place, values in layer.sigma.items()},
        moments={"logits": (query, nothing)},
    )
    figures = figures_of(replace(profile, layers=(zero,)))
    for figure in figures.values():
        draw(figure).draw_without_rendering()
    assert matrices(figures["rank-map"])[0].values == ((0, 0, 0),)


def test_without_cuts_there_is_no_map_of_their_loss(made: Made) -> None:
    assert "loss-map" not in figures_of(made({**SMALL, "cut": False}))


@pytest.mark.parametrize("inputs", [1, 5])
def test_every_figure_can_be_drawn_in_every_way(made: Made, inputs: int) -> None:
    layers = ({**SMALL, "rotary": True}, LARGE, {"name": "one", "heads": 1, "m_h": 1})
    for figure in figures_of(made(*layers, inputs=inputs)).values():
        draw(figure).draw_without_rendering()
        assert interactive(figure)["data"]
        assert len(painted(figure).panels) == len(figure.panels)
        if figure.name != "needed-map":  # predictions are of heads, not of these inputs
            count = "1 input" if inputs == 1 else "5 inputs"
            assert count in figure.caption.lower()


def test_laws_are_told_in_words() -> None:
    k = np.arange(1, 41.0)
    assert law_words(fit_decay(k**-2.0)).startswith("σ_k ~ k^−α, α = 2 [")
    factorial = law_words(fit_decay(np.exp(-k[:12] * np.log(k[:12]))))
    assert factorial.startswith("σ_k ~ e^(−γ k log k), γ = ")
    assert "[" not in factorial  # an order has no interval
    assert law_words(fit_decay(np.where(k <= 5, 1.0 / k, 0.0))) == "rank 5"
    assert law_words(fit_decay(np.ones(40))) == "no law of decay fits"


def test_maps_of_some_layers_have_the_numbers_of_those_layers(made: Made) -> None:
    profile = made(SMALL, LARGE)
    layers = tuple(replace(one, number=one.number + 5) for one in profile.layers)
    some = replace(profile, layers=layers)
    figure = figures_of(some)["rank-map"]
    drawn = interactive(figure)
    for panel, cells, name in zip(
        matrices(figure), drawn["data"], ("yaxis", "yaxis2"), strict=True
    ):
        assert panel.numbers == (5, 6)
        assert "layer 6" in cells["hovertext"][1][0]
        assert drawn["layout"][name]["ticktext"] == ["5", "6"]
