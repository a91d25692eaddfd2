"""Jobs of `hybrids`: filters by their roots, targets by definition, equal parameters, runs."""

import numpy as np
import pytest
import torch

from attnrate.experiments.contract import to_plain
from attnrate.experiments.kits.hybrids import (
    HEADS,
    MODELS,
    RANK,
    Exact,
    Trained,
    base,
    blended,
    model_of,
    model_settings,
    rooted_filter,
    target_of,
    uniform_filter,
)
from attnrate.experiments.run import run_job
from attnrate.models.build import build_model
from attnrate.targets import convolve, swap_ends
from attnrate.theory.unmixing import minimum_phase, roots


@pytest.mark.parametrize("seed", range(5))
def test_filters_have_the_roots_that_they_were_drawn_with(seed):
    stable, unstable = (rooted_filter(seed, wanted) for wanted in (True, False))
    inside, mixed = (np.sort(np.abs(roots(one))) for one in (stable, unstable))
    assert minimum_phase(stable)
    assert not minimum_phase(unstable)
    assert all((inside > 0.39) & (inside < 0.61))
    # one pair is reflected at the circle
    assert np.sort(np.minimum(mixed, 1 / mixed)) == pytest.approx(inside, abs=1e-6)
    assert sum(mixed > 1) == 2
    # and the power spectra are the same up to a factor
    w = np.exp(1j * np.linspace(0, 3, 7))
    powers = [np.abs(np.polyval(one[::-1], w)) for one in (stable, unstable)]
    assert powers[0] / powers[1] == pytest.approx([powers[0][0] / powers[1][0]] * 7)
    assert sum(map(abs, unstable)) == pytest.approx(1)


def test_mixing_grows_from_nothing_to_the_filter():
    theta = uniform_filter(3)
    assert sum(theta) == pytest.approx(1)
    assert min(theta) >= 0
    assert blended(theta, 0.0) == (1.0, 0.0, 0.0, 0.0, 0.0)
    assert blended(theta, 1.0) == pytest.approx(theta)
    assert sum(blended(theta, 0.3)) == pytest.approx(1)


def test_targets_are_those_of_their_definitions():
    x, theta, p = base().sample(4, seed=0), uniform_filter(1), swap_ends(16, 5)
    z = convolve(theta, x)
    assert torch.equal(target_of("original", 1)(x), base()(x))
    assert torch.equal(target_of("mixed", 1)(x), base()(z))
    # swapping is its own inverse
    assert torch.equal(target_of("permuted", 1)(x), base()(x[:, p]))
    assert torch.equal(target_of("mixed, permuted", 1)(x), base()(z[:, p]))
    for case in ("stable", "unstable"):
        mixed = convolve(rooted_filter(1, case == "stable"), x)
        assert torch.allclose(target_of(case, 1)(mixed), base()(x), atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_as_many_parameters_as_the_plain_one(name):
    plain = build_model(model_settings("plain", RANK, 32), base()).parameter_count()
    model = build_model(model_settings(name, RANK, 32), base())
    assert model.parameter_count() == pytest.approx(plain, rel=0.02)


def test_the_true_filter_is_in_its_model_and_is_not_trained():
    theta = uniform_filter(2)
    front = model_of("true filter", RANK, 8, theta).front
    assert front.K.flatten().tolist() == pytest.approx(theta)
    assert not front.K.requires_grad


def test_exact_answers_are_exact_and_survive_the_store():
    job = Exact(taps=(1, 8), strengths=(0.3, 1.0), seed=0)
    found = job.run()
    assert run_job(job.settings).items() >= to_plain(found).items()
    assert len(found.oracle) == len(HEADS)
    assert found.oracle[0] > found.oracle[1] > 1e-3 > 1e-20 > found.oracle[2]
    assert max(found.stable.recurrence, found.unstable.recurrence) < 1e-12
    assert found.stable.left[0] > found.stable.left[1] >= found.stable.never == 0
    assert (
        found.unstable.left[1]
        >= found.unstable.never
        == pytest.approx(1 - found.unstable.modulus**-4)
    )
    assert RANK < found.rank <= 2 * RANK
    assert 0 < found.missed[0] < found.missed[1] < 1


def test_a_fit_runs_and_its_error_is_a_share_of_the_variance():
    recipe = {"steps": 3, "batch": 8}
    job = Trained(case="unstable", model="GRU", m_h=1, width=32, recipe=recipe, seed=0)
    found = job.run()
    assert run_job(job.settings).items() >= {"error": found.error, "steps": found.steps}.items()
    assert 0.5 < found.error < 100
    assert found.parameters > 0
