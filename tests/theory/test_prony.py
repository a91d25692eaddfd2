"""Prony: known tokens and weights come back from their moments, in closed form and by property."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.theory.prony import asking, attended, jacobian, powers, prony, refined

EPS = torch.finfo(torch.float64).eps


def one(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_two_points_in_closed_form():
    # weights 1/4 and 3/4 at -1/2 and 1/2: m_1 = 1/4, m_2 = 1/4, m_3 = 1/16
    points, weights = prony(one(1 / 4, 1 / 4, 1 / 16))
    assert points.tolist()[0] == pytest.approx([-0.5, 0.5], abs=1e-15)
    assert weights.tolist()[0] == pytest.approx([0.25, 0.75], abs=1e-15)


def test_gauss_legendre_nodes_come_from_the_moments_of_the_uniform_law():
    # E z^j = 1 / (j + 1) for even j on [-1, 1]: three nodes 0, ±√(3/5), weights 4/9, 5/18
    points, weights = prony(one(0, 1 / 3, 0, 1 / 5, 0))
    assert points.tolist()[0] == pytest.approx([-math.sqrt(0.6), 0, math.sqrt(0.6)], abs=1e-14)
    assert weights.tolist()[0] == pytest.approx([5 / 18, 4 / 9, 5 / 18], abs=1e-14)


@given(st.integers(2, 4), st.integers(0, 2**20))
def test_weights_and_points_come_back(length, seed):
    generator = torch.Generator().manual_seed(seed)
    gaps = 0.2 + 0.3 * torch.rand(1, length, generator=generator, dtype=torch.float64)
    points = -1 + gaps.cumsum(-1) - gaps[:, :1]
    weights = torch.rand(1, length, generator=generator, dtype=torch.float64).add(0.1)
    weights = weights / weights.sum()
    moments = (weights[:, None] @ powers(points, 2 * length - 1))[:, 0]
    found, shares = prony(moments)
    # the Hankel matrix has a condition below 1e6 here
    assert (found - points).abs().max() < 1e-9
    assert (shares - weights).abs().max() < 1e-9


def test_the_asking_token_is_the_slope_of_log_weights():
    z = one(-0.7, -0.1, 0.4, 0.9).repeat(4, 1)
    t = torch.arange(4)
    weights = (z.gather(1, t[:, None]) * z).softmax(-1)
    assert asking(z, weights).tolist() == [0, 1, 2, 3]


def test_the_jacobian_is_that_of_automatic_differentiation():
    z = one(-0.8, 0.3, 0.1).repeat(3, 1)
    t = torch.arange(3)
    found = jacobian(z, t)
    for row in range(3):
        true = torch.autograd.functional.jacobian(lambda a, r=row: attended(a, t[r : r + 1]), z[:1])
        assert torch.allclose(found[row], true[0, :, 0], atol=1e-14)


def test_refinement_goes_from_prony_s_error_to_the_condition_of_the_tokens_alone():
    z = one(0.30, 0.36, 0.42, 0.48).repeat(4, 1)
    t = torch.arange(4)
    moments = attended(z, t)
    points, weights = prony(moments)
    assert asking(points, weights).tolist() == [0, 1, 2, 3]
    before = (points - z).abs().max()
    after = (refined(points, t, moments) - z).abs().amax(-1)
    condition = 1 / torch.linalg.svdvals(jacobian(z, t))[:, -1]
    assert before > 100 * after.max()
    assert (after <= 16 * EPS * condition).all()
