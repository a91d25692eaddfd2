"""Measures of learned attention: closed forms for exact, uniform and wrong attention."""

import math

import pytest
import torch

from attnrate.experiments import attention_maps as maps
from attnrate.experiments import map_panels as panels
from attnrate.experiments.experiment import Result
from attnrate.fitting.build import complete_model
from attnrate.models.transformer import Transformer
from attnrate.statistics import Interval
from attnrate.targets import centre_of_gravity, nearest_point, selection


class Told(Transformer):
    """A Transformer that gives what it is told."""

    def __init__(self, target, change=lambda weights: weights, shift=0.0):
        super().__init__(target.d, target.out)
        self.target, self.change, self.shift = target, change, shift

    def attention(self, x, layer=-1):
        return self.change(self.target.attention(x))

    def forward(self, x):
        return self.target(x) + self.shift

    def pointwise(self, x):
        return self.target.F(self.target.f(x)) + self.shift


def measured(change=lambda weights: weights, shift=0.0, target=None, rows=None):
    target = target or nearest_point()
    return maps.measures(Told(target, change, shift), target, maps.fresh(target, 0, 64), rows)


def test_exact_attention_is_right_everywhere():
    found = measured()
    assert (found["link"], found["link_se"]) == (1.0, 0.0)
    assert (found["near"], found["near_link"]) == (1.0, 1.0)
    assert (found["mae"], found["moved"]) == (0.0, 0.0)


def test_attention_moved_to_the_next_position_is_wrong_everywhere():
    found = measured(lambda weights: weights.roll(1, -1))
    assert (found["link"], found["near_link"], found["moved"]) == (0.0, 0.0, 1.0)
    assert found["mae"] == pytest.approx(2 / 6)


def test_uniform_attention_is_off_by_its_closed_form():
    found = measured(lambda weights: torch.full_like(weights, 1 / 6))
    assert found["mae"] == pytest.approx((5 / 6 + 5 / 6) / 6)
    assert found["moved"] == pytest.approx(5 / 6)


def test_outputs_that_are_nowhere_near_leave_their_links_undecided():
    found = measured(shift=1.0)
    assert (found["near"], found["near_link"], found["link"]) == (0.0, None, 1.0)


def test_rows_whose_true_argmax_is_not_unique_are_not_counted():
    # A permutation that swaps the two largest of three equal weights would count as wrong.
    target = selection(length=3, k=3)
    x = target.sample(2, 0)
    x[:, :, 2:5] = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    found = maps.measures(Told(target, lambda weights: weights.flip(-1)), target, x)
    # Row 0 is not counted, row 1 keeps its argmax (the middle), row 2 does not.
    assert found["link"] == 0.5


def test_only_the_rows_asked_for_are_measured():
    target = centre_of_gravity()
    x = maps.fresh(target, 0, 64)
    predicts = x[..., 5] == 1

    def spoil(weights):
        return torch.where(predicts[..., None], torch.full_like(weights, 0.1), weights)

    assert measured(spoil, target=target, rows=~predicts)["mae"] == 0.0
    assert measured(spoil, target=target, rows=predicts)["mae"] > 0.05


def test_the_standard_error_of_a_share_is_that_of_independent_sequences():
    # 32 of 64 sequences wholly right: the share of a coin, not of 64 x 6 coins.
    def half(weights):
        return torch.cat([weights[:32], weights[32:].roll(1, -1)])

    found = measured(half)
    assert found["link"] == 0.5
    assert found["link_se"] == pytest.approx(math.sqrt(0.25 / 63))


def test_F_f_of_a_shifted_model_is_off_by_the_shift():
    target = nearest_point()
    tokens = maps.fresh(target, 1, 500).flatten(0, 1)
    found = maps.pointwise(Told(target, shift=0.25), target, tokens)
    assert found["rms"] == pytest.approx(0.25)
    assert found["spread"] == pytest.approx(1 / math.sqrt(12), rel=0.02)
    curve = found["curve"]
    assert curve["x"] == sorted(curve["x"])
    for x, y, low, high in zip(*(curve[key] for key in ("x", "y", "low", "high")), strict=True):
        assert y == pytest.approx(x + 0.25, abs=1e-5)
        assert low == pytest.approx(y, abs=1e-5)
        assert high == pytest.approx(y, abs=1e-5)


def test_held_values_are_the_first_coordinates_and_are_not_trained():
    target = centre_of_gravity()
    settings = complete_model({"kind": "transformer", "n": 4, "m_h": 3, "width": 5, "depth": 1})
    model = maps.values_held(settings, target, 2)
    x = target.sample(3, 0, torch.float32)
    assert torch.equal(model.W_V(model.f_hat(x)), x[..., :2])
    assert not model.W_V.weight.requires_grad
    torch.testing.assert_close(model(x), model.F_hat(model.attention(x) @ x[..., :2]))


def results(*values):
    return [
        Result({"seed": i}, {"rows": {"link": v, "link_se": 0.01}}) for i, v in enumerate(values)
    ]


def test_one_seed_has_the_interval_of_its_inputs_several_that_over_seeds():
    one = panels.number(results(0.9), "rows", "link")
    assert (one.low, one.high) == pytest.approx((0.9 - 0.0196, 0.9 + 0.0196))
    two = panels.number(results(0.6, 0.61), "rows", "link")
    assert (two.value, two.count) == (pytest.approx(0.605), 2)
    assert two.high - two.value == pytest.approx(12.706 * 0.005, rel=1e-3)


def test_what_is_missing_is_left_out():
    found = panels.number([*results(0.9), Result({"seed": 1}, {"error": None})], "rows", "link")
    assert found.count == 1
    assert panels.number([], "rows", "link").count == 0
    assert panels.seeds_text(results(0.9), "rows", "link") == ""
    assert "from 0.8 to 0.9 over 2 seeds" in panels.seeds_text(results(0.9, 0.8), "rows", "link")


@pytest.mark.parametrize(
    ("whole", "restricted", "said"),
    [
        ((2, 2), (0, 2), "holds"),
        ((2, 2), (0, 0), "holds"),
        ((0, 2), (2, 2), "holds when corrected"),
        ((1, 2), (2, 2), "holds when corrected"),
        ((0, 2), (0, 2), "does not hold"),
        ((1, 2), (0, 2), "open"),
        ((0, 2), (1, 2), "open"),
        ((0, 2), (0, 0), "open"),
        ((0, 0), (2, 2), "open"),
    ],
)
def test_a_restricted_model_can_correct_a_statement_but_not_decide_it(whole, restricted, said):
    assert panels.verdict(panels.Kept(*whole), panels.Kept(*restricted)) == said


def test_fits_that_differ_leave_it_open():
    assert panels.at_most([0.001, 0.03], 0.02) == panels.Kept(1, 2)
    assert panels.at_most([0.001, 0.03], 0.02).verdict == "open"
    assert panels.at_most([0.001, 0.02], 0.02).verdict == "holds"
    assert panels.at_least([0.001, 0.01], 0.02).verdict == "does not hold"
    assert panels.at_least([], 0.02).verdict == "open"


def test_intervals_end_where_shares_and_errors_do():
    shares = panels.number(results(0.2, 1.0), "rows", "link")
    assert (shares.low, shares.high) == (0.0, 1.0)
    wide = [Result({"seed": i}, {"error": value}) for i, value in enumerate((0.0, 4.0))]
    errors = panels.number(wide, "error")
    assert errors.low == 0.0
    assert errors.high > 4.0


def test_shares_are_printed_in_per_cent():
    assert panels.percent(Interval(0.99, 0.95, 1.0, 5)) == "99.0 % [95.0, 100.0]"
    assert panels.percent(Interval(0.5, math.nan, math.nan, 1)) == "50.0 %"
    assert panels.percent(panels.number([])) == "–"
