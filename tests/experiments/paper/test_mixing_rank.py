"""The experiment mixing-rank: exact values, inverse filters, and claims that can be refuted."""

import json
from dataclasses import replace

import conclusions
import numpy as np
import pytest
import torch
from conclusions import survives_json

from attnrate.experiments import load
from attnrate.experiments.contract import Done, Results
from attnrate.experiments.paper.mixing_rank import (
    COUPLINGS,
    EXACT_SIGMA,
    EXPERIMENT,
    Deconvolution,
    DeconvolutionOutcome,
    Example,
    ExampleOutcome,
    Filter,
    Filters,
    FiltersOutcome,
    Inverse,
    draw_filters,
    inverse_filter,
    mixed_pair,
    plan,
    tail_share,
)
from attnrate.experiments.run import results_of, run_job
from attnrate.fitting.records import Finished
from attnrate.targets.alter import convolve


@pytest.fixture(scope="module")
def results() -> Results:
    """As a worker makes them and a store keeps them."""
    jobs = [one.job for one in plan("quick")]
    kept = [json.loads(json.dumps(run_job(job.settings), allow_nan=False)) for job in jobs]
    rows = [
        Finished(job.key, job.settings, values, 1.0, "here", "now")
        for job, values in zip(jobs, kept, strict=True)
    ]
    return results_of(jobs, {row.key: row for row in rows})


def verdicts(*done: Done) -> dict[str, str]:
    return conclusions.verdicts(EXPERIMENT, Results(done))


@pytest.mark.parametrize(("preset", "seconds"), [("quick", 5), ("paper", 180)])
def test_the_tasks_are_different_and_within_the_budget(preset, seconds):
    listed = plan(preset)
    assert len({one.job.key for one in listed}) == len(listed)
    assert sum(one.size for one in listed) <= seconds
    assert load("mixing-rank") is EXPERIMENT


def test_the_exact_values_are_those_of_a_fine_grid():
    x = (np.arange(400) + 0.5) / 400
    matrix = mixed_pair(COUPLINGS["Eq. 100"], 1.0)(x[:, None], x[None, :]) / 400
    assert np.linalg.svd(matrix, compute_uv=False)[:3] == pytest.approx(EXACT_SIGMA, abs=1e-12)


@pytest.mark.parametrize("theta", [0.5, -0.8, 1.7])
def test_mixing_doubles_the_rank_of_a_sum_of_sines(theta):
    x = (np.arange(200) + 0.5) / 200
    matrix = mixed_pair(COUPLINGS["Fig. 1"], theta)(x[:, None], x[None, :])
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
    assert verdicts(*results.done) == {
        "mixing-rank-example-values": "holds when corrected",
        "mixing-rank-example-rank": "holds",
        "mixing-rank-random-filters": "holds",
        "mixing-rank-other-representation": "holds",
        "mixing-rank-deconvolution": "holds when corrected",
    }
    law = EXPERIMENT.conclude(results).claims[-1]
    assert law.value == pytest.approx(1.0, abs=0.02)


def test_other_results_would_refute_them():
    same = Done(Example(), ExampleOutcome((1.0, 1.0), (1.0,), (1.5, 0.5), (1.0,)))
    assert verdicts(same) == {
        "mixing-rank-example-values": "does not hold",
        "mixing-rank-example-rank": "does not hold",
    }
    kept = Filter(0.5, (1.0,), (1.0, 0.5), 0.0)
    raised = replace(kept, sigma=(1.0, 0.1))
    job = Filters(coupling="Eq. 100", filters=2)
    told = verdicts(Done(job, FiltersOutcome((1.0,), (kept, raised))))
    assert told["mixing-rank-random-filters"] == "holds when corrected"
    assert told["mixing-rank-other-representation"] == "open"
    stays = tuple(Inverse(theta, (1.0, 0.9), (1.0, 0.9)) for theta in (0.3, 1.9))
    undo = Deconvolution(filters=2, lengths=(4, 8), sequences=1)
    blocked = verdicts(Done(undo, DeconvolutionOutcome((4, 8), stays)))
    assert blocked["mixing-rank-deconvolution"] == "does not hold"
    one_side = verdicts(Done(undo, DeconvolutionOutcome((4, 8), stays[:1])))
    assert one_side["mixing-rank-deconvolution"] == "open"
    assert verdicts() == {}


def test_filters_follow_from_their_seed_and_lie_on_both_sides_of_minimum_phase():
    assert draw_filters(16, 3) == draw_filters(16, 3) != draw_filters(16, 4)
    drawn = np.abs(draw_filters(200, 0))
    assert drawn.min() < 0.5
    assert 1.5 < drawn.max() <= 2.0


def test_the_tail_of_a_known_spectrum():
    assert tail_share([4.0, 3.0], 1) == pytest.approx(0.6)


def test_the_record_survives_json(results):
    for found in ((), results.done[:1], results.done):
        survives_json(EXPERIMENT.conclude(Results(found)))
