"""The least Lipschitz constant of F: closed forms, and no F where pooled vectors agree."""

import math

import pytest
import torch

from attnrate.errors import InputError
from attnrate.targets import spectral_target
from attnrate.theory.steepness import steepness


def tokens(*rows):
    return torch.tensor(rows, dtype=torch.float64)[..., None]


def test_one_token_seen_through_a_factor_has_the_quotient_of_the_derivatives():
    x = tokens([0.2], [0.9])
    found = steepness(torch.sin, lambda x: 3 * x, x)
    assert found.tolist() == pytest.approx([math.cos(0.2) / 3, math.cos(0.9) / 3])


def test_an_invertible_matrix_gives_the_norm_of_the_gradient_times_its_inverse():
    A = torch.tensor([[2.0, 1.0], [0.0, 0.5]], dtype=torch.float64)
    x = torch.tensor([[[0.3, 0.7]]], dtype=torch.float64)
    found = steepness(lambda x: x.prod(-1, keepdim=True), lambda x: x @ A.T, x)
    gradient = torch.tensor([0.7, 0.3], dtype=torch.float64)
    assert found.item() == pytest.approx(float((gradient @ A.inverse()).norm()))


def test_two_positions_give_a_secant():
    # H_t = x(t) seen as (x(t), 10 Σ x), which is the same but for the first coordinate
    def pooled(x):
        total = x.sum(1, keepdim=True).expand(x.shape)
        return torch.cat([0.01 * x, 10 * total], dim=-1)

    found = steepness(lambda x: x.detach(), pooled, tokens([0.2, 0.5]))
    assert found.item() == pytest.approx(100)


def test_where_pooled_vectors_agree_and_outputs_do_not_there_is_no_f():
    def uniform(x):
        return torch.cat([x, x**2], dim=-1).mean(1, keepdim=True).expand(-1, x.shape[1], -1)

    x = tokens([0.1, 0.6])
    assert steepness(lambda x: x, uniform, x).item() == math.inf
    assert math.isfinite(steepness(lambda x: x.sum(1, keepdim=True).expand(x.shape), uniform, x))


def test_the_identity_of_the_proof_is_at_most_1_steep():
    target = spectral_target(1.0, 3, 3)

    def pooled(x):
        return target.attention(x) @ torch.cat([x, x**2, x**3], dim=-1)

    found = steepness(target, pooled, target.sample(50, seed=0))
    assert found.max() <= 1 + 1e-9
    assert found.max() > 0.9


def test_too_few_coordinates_are_refused():
    with pytest.raises(InputError, match="at least the 2 coordinates"):
        steepness(lambda x: x, lambda x: x, tokens([0.1, 0.6]))
