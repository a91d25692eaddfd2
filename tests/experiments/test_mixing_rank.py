import json

import numpy as np
import pytest
import torch

from attnrate.experiments import load
from attnrate.experiments.experiment import Result
from attnrate.experiments.mixing_drawn import EXACT_SIGMA, stable_rank, tail_share
from attnrate.experiments.mixing_rank import (
    EXPERIMENT,
    coupling,
    draw_filters,
    inverse_filter,
    mixed_pair,
    tasks,
)
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.work import run_job
from attnrate.targets.alter import convolve


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [Result(task.label, run_job(task.trial.settings)) for task in tasks("quick")]


def verdicts(found: list[Result]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in EXPERIMENT.conclude(found).claims}


@pytest.mark.parametrize(("preset", "seconds"), [("quick", 5), ("paper", 180)])
def test_the_tasks_are_different_and_within_the_budget(preset, seconds):
    listed = tasks(preset)
    assert len({task.trial.key for task in listed}) == len(listed)
    assert sum(task.cost for task in listed) <= seconds
    assert load("mixing-rank") is EXPERIMENT


def test_the_exact_values_are_those_of_a_fine_grid():
    x = (np.arange(400) + 0.5) / 400
    matrix = mixed_pair(coupling("Eq. 100"), 1.0)(x[:, None], x[None, :]) / 400
    assert np.linalg.svd(matrix, compute_uv=False)[:3] == pytest.approx(EXACT_SIGMA, abs=1e-12)


@pytest.mark.parametrize("theta", [0.5, -0.8, 1.7])
def test_mixing_doubles_the_rank_of_a_sum_of_sines(theta):
    x = (np.arange(200) + 0.5) / 200
    matrix = mixed_pair(coupling("Fig. 1"), theta)(x[:, None], x[None, :])
    assert np.linalg.matrix_rank(matrix) == 12


@pytest.mark.parametrize(("theta", "causal"), [(0.5, True), (-0.9, True), (1.8, False)])
@pytest.mark.parametrize("length", [1, 3, 6])
def test_an_inverse_filter_leaves_one_token_far_away(theta, causal, length):
    x = torch.rand(2, 30, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = convolve((1.0, theta), x, True)
    restored = convolve(inverse_filter(theta, length, causal), z, causal)
    if causal:
        expected = x - (-theta) ** length * x.roll(length, 1)
    else:
        expected = x - (-theta) ** -length * x.roll(-length, 1)
    middle = slice(8, 22)
    assert torch.allclose(restored[:, middle], expected[:, middle], atol=1e-12)


def test_the_real_run_gives_the_verdicts_of_the_theory(results):
    assert verdicts(results) == {
        "mixing-rank-example-values": "holds when corrected",
        "mixing-rank-example-rank": "holds",
        "mixing-rank-random-filters": "holds",
        "mixing-rank-other-representation": "holds",
        "mixing-rank-deconvolution": "holds when corrected",
    }
    law = EXPERIMENT.conclude(results).claims[-1]
    assert law.value == pytest.approx(1.0, abs=0.02)


def test_other_results_would_refute_them():
    example = {"before": [1.0, 1.0], "after": [1.5, 0.5], "before_gauge": [1.0]}
    told = verdicts([Result({"part": "example"}, {**example, "after_gauge": [1.0]})])
    assert told == {
        "mixing-rank-example-values": "does not hold",
        "mixing-rank-example-rank": "does not hold",
    }
    row = {"theta": 0.5, "sigma": [1.0], "windows": [1.0, 0.5], "error": 0.0}
    unraised = Result(
        {"part": "filters", "coupling": "Eq. 100", "seed": 0},
        {"before": [1.0], "filters": [row, row | {"sigma": [1.0, 0.1]}]},
    )
    told = verdicts([unraised])
    assert told["mixing-rank-random-filters"] == "holds when corrected"
    assert told["mixing-rank-other-representation"] == "open"
    stays = {"past": [1.0, 0.9], "future": [1.0, 0.9]}
    kept = [{"theta": 0.3, **stays}, {"theta": 1.9, **stays}]
    blocked = Result({"part": "deconvolution", "seed": 0}, {"lengths": [4, 8], "filters": kept})
    assert verdicts([blocked])["mixing-rank-deconvolution"] == "does not hold"
    one_side = Result(blocked.label, {"lengths": [4, 8], "filters": kept[:1]})
    assert verdicts([one_side])["mixing-rank-deconvolution"] == "open"
    assert verdicts([]) == {}


def test_filters_follow_from_their_seed_and_lie_on_both_sides_of_minimum_phase():
    assert draw_filters(16, 3) == draw_filters(16, 3) != draw_filters(16, 4)
    drawn = np.abs(draw_filters(200, 0))
    assert drawn.min() < 0.5
    assert 1.5 < drawn.max() <= 2.0


def test_stable_rank_and_tail_of_known_spectra():
    assert stable_rank([2.0, 2.0, 2.0]) == pytest.approx(3.0)
    assert tail_share([4.0, 3.0], 1) == pytest.approx(0.6)


def test_the_record_survives_json(results):
    for found in ([], results[:1], results):
        said = EXPERIMENT.conclude(found)
        record = Record("mixing-rank", "t", "p", "quick", 1, 1, 1.0, {}, said)
        text = json.dumps(record_to_plain(record), allow_nan=False)
        again = record_from_plain(json.loads(text))
        assert json.dumps(record_to_plain(again)) == text
