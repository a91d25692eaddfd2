"""Attention to the past, and the floor of causal models, against closed forms."""

import pytest
import torch

from attnrate.experiments.kits.past import FloorOutcome, causal_floor, past_attention, variance
from attnrate.targets import linear_target, spectral_target, swap_ends


def test_past_attention_is_the_target_of_the_shorter_sequence():
    target = past_attention(spectral_target(1.0, 2, 6))
    x = target.sample(4, 0)
    for t in range(6):
        shorter = spectral_target(1.0, 2, t + 1)
        assert torch.allclose(target(x)[:, t], shorter(x[:, : t + 1])[:, t])


def test_the_floor_of_a_permuted_linear_target_is_the_closed_form():
    target = linear_target("exponential", 16).permuted(swap_ends(16, 5))
    value, error = causal_floor(target)
    assert abs(value - target.floor("causal")) < 5 * error


def test_the_variance_of_a_linear_target_is_the_sum_of_its_squared_weights_over_12():
    target = linear_target("exponential", 8)
    exact = float((target.matrix**2).sum(1).mean()) / 12
    assert variance(target) == pytest.approx(exact, rel=0.05)


def test_an_exact_floor_is_shown_without_an_error():
    assert str(FloorOutcome(0.5451)) == "0.545"
    assert str(FloorOutcome(0.5451, 0.012)) == "0.545 ± 0.01"
