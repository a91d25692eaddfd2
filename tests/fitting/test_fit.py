"""One model on one target: it learns, it repeats itself, it stops for the reason it gives."""

import math

import pytest
import torch

from attnrate.errors import InputError
from attnrate.fitting.fit import Look, fit
from attnrate.models import LinearRNN, Transformer
from attnrate.targets import linear_target, spectral_target, swap_ends
from attnrate.theory.compile import compile_target

EXPONENTIAL = linear_target("exponential", 8)


def small() -> LinearRNN:
    return LinearRNN(1, 1, hidden=16)


def test_a_linear_rnn_learns_an_exponential_kernel() -> None:
    result = fit(EXPONENTIAL, small, steps=600)
    assert result.error < 1e-6
    assert result.stopped == "steps"
    kernel = result.model.kernel(8)[:, 0, 0].detach()
    assert torch.allclose(kernel, torch.exp(-torch.arange(8.0)), atol=5e-3)


def test_a_linear_rnn_ends_at_the_exact_floor_of_a_permuted_target_and_not_below() -> None:
    target = EXPONENTIAL.permuted(swap_ends(8, 2))
    result = fit(target, small, steps=600)
    floor = target.floor("time-invariant")
    assert floor - 4 * result.standard_error <= result.error <= 1.05 * floor


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    one, two, other = (fit(EXPONENTIAL, small, seed=seed, steps=60) for seed in (3, 3, 4))
    assert one.error == two.error
    assert [look.error for look in one.curve] == [look.error for look in two.curve]
    assert one.error != other.error


def test_the_model_passed_in_and_the_callers_random_state_and_threads_are_left_alone() -> None:
    torch.manual_seed(0)
    model, before = small(), torch.get_num_threads()
    weights = [p.clone() for p in model.parameters()]
    state = torch.get_rng_state()
    result = fit(EXPONENTIAL, model, steps=20, threads=1)
    assert all(torch.equal(p, w) for p, w in zip(model.parameters(), weights, strict=True))
    assert result.model is not model
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == before


def test_the_curve_is_what_was_watched_and_tells_the_time_to_an_error() -> None:
    seen: list[Look] = []
    result = fit(EXPONENTIAL, small, steps=200, check_every=20, watch=seen.append)
    assert tuple(seen) == result.curve
    assert [look.step for look in seen] == list(range(20, 201, 20))
    reached = result.seconds_to(seen[4].error)
    assert reached is not None
    assert reached <= seen[4].seconds
    assert result.seconds_to(0.0) is None


def test_a_plateau_ends_the_fit() -> None:
    """A model that cannot improve: the target is zero for it from the start."""
    target = linear_target([0.0] * 4, 4)
    result = fit(
        target, lambda: LinearRNN(1, 1, hidden=2), "paper", steps=5000, check_every=10, patience=3
    )
    assert result.stopped == "plateau"
    assert result.steps < 5000


def test_a_run_that_diverges_is_tried_with_smaller_steps_and_then_said_to_have_diverged() -> None:
    wild = {"steps": 100, "check_every": 5, "warmup": 0, "clip": 1e9, "decay": "none"}
    lost = fit(EXPONENTIAL, small, "paper", lr=1e4, **wild)
    assert lost.diverged
    assert math.isnan(lost.error)
    assert lost.learning_rate == pytest.approx(1e4 / 9)
    assert fit(EXPONENTIAL, small, "paper", lr=0.01, **wild).learning_rate == 0.01


def test_a_warm_start_begins_at_the_compiled_transformer() -> None:
    target = spectral_target(1.0, 2, length=4)
    compiled = compile_target(target, 2, 128)
    result = fit(target, lambda: Transformer(1, 1, m_h=2), "warm", steps=1, lr=1e-12)
    names = dict(result.model.named_parameters())
    for name, weight in compiled.named_parameters():
        assert torch.allclose(names[name].double(), weight, atol=1e-3)


def test_a_transformer_learns_far_more_than_the_mean_of_its_target() -> None:
    target = spectral_target(1.0, 1, length=4)
    spread = float(target(target.sample(4096, seed=5)).var())
    assert fit(target, lambda: Transformer(1, 1, m_h=2), steps=600).error < spread / 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"recipe": "weak"}, "recipe"),
        ({"steps": 0}, "steps"),
        ({"recipe": "warm"}, "warm start"),
        ({"model": lambda: 3}, "model"),
        ({"device": "abacus"}, "device"),
    ],
)
def test_wrong_requests_are_refused_before_training(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        fit(EXPONENTIAL, **{"model": small, **changes})
