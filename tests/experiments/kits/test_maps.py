"""Fits whose attention is measured: closed forms for exact, uniform and wrong attention.

What Fig. 4 to 6 and gravity have in common is tried here: their jobs build, their work runs, and
what is not finished or diverged decides nothing.
"""

import json
import math
from importlib import import_module

import pytest
import torch
from map_experiments import changed, concluded, of_seed, verdicts, words_of, worked

from attnrate.experiments import load
from attnrate.experiments.contract import Done, from_plain, to_plain
from attnrate.experiments.kits import maps
from attnrate.experiments.paper.fig4 import Links
from attnrate.fitting.fit import Fit
from attnrate.fitting.recipe import recipe_of
from attnrate.models.transformer import Transformer
from attnrate.targets import centre_of_gravity, nearest_point, selection
from attnrate.targets.build import build_target

NAMES = ("fig4", "fig5", "fig6", "gravity")


class Given(Transformer):
    """A Transformer whose attention is the target's after a change, its output off by a shift."""

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
    done = maps.Fitted(target, Given(target, change, shift), 0)
    return done.measures(done.fresh(64), rows)


def test_exact_attention_is_right_everywhere():
    assert measured() == maps.Measures(
        link=1.0, link_se=0.0, near=1.0, near_link=1.0, mae=0.0, moved=0.0
    )


def test_attention_moved_to_the_next_position_is_wrong_everywhere():
    found = measured(lambda weights: weights.roll(1, -1))
    assert (found.link, found.near_link, found.moved) == (0.0, 0.0, 1.0)
    assert found.mae == pytest.approx(2 / 6)


def test_uniform_attention_is_off_by_its_closed_form():
    found = measured(lambda weights: torch.full_like(weights, 1 / 6))
    assert found.mae == pytest.approx((5 / 6 + 5 / 6) / 6)
    assert found.moved == pytest.approx(5 / 6)


def test_outputs_that_are_nowhere_near_leave_their_links_undecided():
    found = measured(shift=1.0)
    assert (found.near, found.near_link, found.link) == (0.0, None, 1.0)


def test_rows_whose_true_argmax_is_not_unique_are_not_counted():
    # A permutation that swaps the two largest of three equal weights would count as wrong.
    target = selection(length=3, k=3)
    x = target.sample(2, 0)
    x[:, :, 2:5] = torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    found = maps.Fitted(target, Given(target, lambda weights: weights.flip(-1)), 0).measures(x)
    # Row 0 is not counted, row 1 keeps its argmax (the middle), row 2 does not.
    assert found.link == 0.5


def test_only_the_rows_asked_for_are_measured():
    target = centre_of_gravity()
    predicts = maps.Fitted(target, Given(target), 0).fresh(64)[..., 5] == 1

    def spoil(weights):
        return torch.where(predicts[..., None], torch.full_like(weights, 0.1), weights)

    assert measured(spoil, target=target, rows=~predicts).mae == 0.0
    assert measured(spoil, target=target, rows=predicts).mae > 0.05


def test_the_standard_error_of_a_share_is_that_of_independent_sequences():
    # 32 of 64 sequences wholly right: the share of a coin, not of 64 x 6 coins.
    def half(weights):
        return torch.cat([weights[:32], weights[32:].roll(1, -1)])

    found = measured(half)
    assert found.link == 0.5
    assert found.link_se == pytest.approx(math.sqrt(0.25 / 63))


def test_F_f_of_a_shifted_model_is_off_by_the_shift():
    target = nearest_point()
    done = maps.Fitted(target, Given(target, shift=0.25), 1)
    found = done.pointwise(done.fresh(500).flatten(0, 1))
    assert found.rms == pytest.approx(0.25)
    assert found.spread == pytest.approx(1 / math.sqrt(12), rel=0.02)
    curve = found.curve
    assert list(curve.x) == sorted(curve.x)
    for x, y, low, high in zip(curve.x, curve.y, curve.low, curve.high, strict=True):
        assert y == pytest.approx(x + 0.25, abs=1e-5)
        assert low == pytest.approx(y, abs=1e-5)
        assert high == pytest.approx(y, abs=1e-5)


def test_of_a_diverged_fit_nothing_is_measured(monkeypatch):
    nan, model = math.nan, Given(nearest_point())
    gone = Fit(nan, nan, 1.5, 7, "diverged", 0, recipe_of({}), 0.1, (nan,), (), model)
    monkeypatch.setattr(maps, "fit", lambda *given, **settings: gone)
    outcome = Links(target={"kind": "nearest_point"}, model={}, recipe={}).run()
    assert outcome == maps.WholeOutcome(None, None, 1.5, 7, "diverged")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_the_fits_are_buildable_and_different(name, preset):
    plan = load(name).plan(preset)
    jobs = [one.job for one in plan]
    assert len({job.key for job in jobs}) == len(jobs)
    for job in jobs:
        job.make_model(build_target(job.target))
        assert recipe_of(job.recipe).steps > 0
    assert {job.seed for job in jobs} == ({0} if preset == "quick" else {0, 1, 2, 3, 4})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_the_settings_of_a_fit_tell_its_case(name, preset):
    plan = load(name).plan(preset)
    cost = import_module(f"attnrate.experiments.paper.{name}").SIZES[preset].cost
    assert [(one.job.case, one.size) for one in plan] == [*cost.items()] * (len(plan) // len(cost))


@pytest.mark.parametrize("name", NAMES)
def test_the_work_gives_outcomes_that_survive_json_and_can_be_concluded(name):
    for one in worked(name):
        plain = json.loads(json.dumps(to_plain(one.outcome), allow_nan=False))
        assert from_plain(type(one.outcome), plain) == one.outcome
        for row in one.outcome.example.true:
            assert sum(row) == pytest.approx(1.0, abs=1e-4)
    said = concluded(name, worked(name))
    assert said.figures
    assert all(claim.experiment == name for claim in said.claims)
    assert all(claim.name.startswith(f"{name}-") for claim in said.claims)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_finished_leaves_every_claim_open(name):
    said = concluded(name, [])
    assert {claim.verdict for claim in said.claims} == {"open"}
    assert said.figures == ()


@pytest.mark.parametrize("name", NAMES)
def test_diverged_fits_are_no_evidence(name):
    gone = [Done(one.job, type(one.outcome)(stopped="diverged")) for one in worked(name)]
    assert set(verdicts(name, gone).values()) == {"open"}


@pytest.mark.parametrize("name", NAMES)
def test_any_part_of_the_cells_can_be_concluded(name):
    whole = worked(name)
    for i in range(len(whole)):
        for part in (whole[i : i + 1], whole[:i] + whole[i + 1 :], []):
            said = concluded(name, part)
            assert said.claims
            assert "nan" not in words_of(said)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("fig4", {"rows": {"link": 0.99}}, {"rows": {"link": 0.34}}),
        ("fig5", {"predictions": {"mae": 0.001}}, {"predictions": {"mae": 0.0375}}),
        ("gravity", {"rows": {"mae": 0.001}}, {"rows": {"mae": 0.0375}}),
    ],
)
def test_seeds_that_differ_decide_nothing_though_their_mean_might(name, good, bad):
    seeds = [*changed(worked(name), **good), *changed(of_seed(worked(name), 1), **bad)]
    assert concluded(name, seeds).claims[0].verdict == "open"
