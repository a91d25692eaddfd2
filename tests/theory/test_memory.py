"""Floors of small linear RNNs against brute force and closed forms, and models that are exact."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.targets.delay import delay_target, gamma_kernel
from attnrate.theory.memory import delay_rnn, delay_transformer, gamma_rnn, states_floor

LENGTH = 13


def error(kernel, wanted):
    """E mean_t of the squared difference, for inputs of variance 1."""
    weights = (len(wanted) - np.arange(len(wanted))) / len(wanted)
    return float(weights @ (kernel - wanted) ** 2)


@pytest.mark.parametrize("lag", range(1, LENGTH))
@pytest.mark.parametrize("states", [1, 2, 4])
def test_the_floor_of_a_delay_is_its_closed_form(lag, states):
    share = max(0.0, 1 - states / min(lag + 1, LENGTH - lag))
    found = states_floor(np.eye(LENGTH)[lag], states, variance=2.0)
    assert found == pytest.approx(2 * share * (LENGTH - lag) / LENGTH, abs=1e-12)


def test_one_state_on_a_delay_by_one_is_between_the_floor_and_the_best_exponential():
    wanted, w = np.eye(LENGTH)[1], np.linspace(-3, 3, 3001)
    powers = w[:, None] ** np.arange(LENGTH)
    weights = (LENGTH - np.arange(LENGTH)) / LENGTH
    # for each w the best factor, in closed form
    best = weights[1] - ((weights[1] * w) ** 2 / (powers**2 @ weights)).max()
    assert states_floor(wanted, 1) <= best < weights[1]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.floats(0.1, 1.5), st.floats(0.0, 1.0))
def test_no_rnn_is_below_the_floor_and_its_own_kernel_has_none(states, seed, radius, near):
    draw = np.random.default_rng(seed)
    W = draw.normal(size=(states, states))
    W *= radius / np.abs(np.linalg.eigvals(W)).max()
    c, U = draw.normal(size=(2, states))
    kernel = np.array([c @ np.linalg.matrix_power(W, j) @ U for j in range(LENGTH)])
    kernel /= np.linalg.norm(kernel)
    wanted = kernel + near * draw.normal(size=LENGTH)
    assert states_floor(kernel, states) < 1e-20
    assert states_floor(wanted, states) <= error(kernel, wanted) + 1e-12


def test_a_growing_state_comes_near_the_longest_delay_as_the_floor_allows():
    wanted = np.eye(LENGTH)[-1]
    assert states_floor(wanted, 1) == 0.0
    for growth in (10.0, 100.0):
        kernel = growth ** (np.arange(LENGTH) - LENGTH + 1)
        assert error(kernel, wanted) < 3 * growth**-2 * error(0 * wanted, wanted)


@pytest.mark.parametrize("lag", [0, 1, 5, 12])
def test_the_shift_register_is_the_delay(lag):
    target = delay_target(lag, length=LENGTH)
    x = target.sample(4, 0)
    assert torch.equal(delay_rnn(lag)(x), target(x))
    assert delay_rnn(lag).hidden == lag + 1


@pytest.mark.parametrize(("lag", "states"), [(3, 1), (3, 4), (9, 8)])
def test_integrators_in_a_row_have_the_smooth_kernel(lag, states):
    target = delay_target(lag, states=states, length=LENGTH)
    x = target.sample(4, 0)
    model = gamma_rnn(lag, states, gamma_kernel(lag, states, LENGTH)[0])
    assert torch.allclose(model(x), target(x), atol=1e-12)


@pytest.mark.parametrize("lag", range(1, LENGTH))
def test_a_head_of_size_two_is_the_delay(lag):
    target = delay_target(lag, length=LENGTH)
    x = target.sample(16, 0)
    model = delay_transformer(lag, LENGTH, 2.0)
    assert (model(x) - target(x)).abs().max() < 1e-13
    assert model.m_h == 2
    assert model.attention(x)[:, lag:].diagonal(dim1=1, dim2=2).min() > 1 - 1e-13
