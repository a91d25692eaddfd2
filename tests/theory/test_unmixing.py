"""Undoing filters: closed forms of roots and inverses, the RNN against substitution, floors."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attnrate.errors import InputError
from attnrate.targets import convolve, error_of, spectral_target
from attnrate.targets.unmix import deconvolve, unmixed
from attnrate.theory.compile import compile_target
from attnrate.theory.unmixing import (
    filter_layer,
    inverse_filter,
    inverse_rnn,
    left_by_taps,
    minimum_phase,
    roots,
    unrecoverable,
)

FILTERS = st.lists(st.floats(-1, 1), min_size=1, max_size=4).map(lambda later: [1.0, *later])


def test_roots_and_inverse_of_two_terms():
    assert roots([2.0, 1.0]) == pytest.approx([-0.5])
    assert minimum_phase([2.0, 1.0])
    assert not minimum_phase([1.0, 2.0])
    # 1/(1 + w/2) is the geometric series, as in App. D.3
    assert inverse_filter([1.0, 0.5], 4) == pytest.approx((1.0, -0.5, 0.25, -0.125))
    assert inverse_filter([4.0], 3) == (0.25, 0.0, 0.0)


@given(FILTERS)
def test_a_filter_and_its_inverse_are_nothing_on_finite_sequences(theta):
    product = np.convolve(theta, inverse_filter(theta, 8))[:8]
    assert product == pytest.approx(np.eye(8)[0], abs=1e-8 * max(1, np.abs(product).max()))


@given(FILTERS)
def test_the_recurrence_inverts_every_filter_with_as_many_states_as_lags(theta):
    x = torch.rand(2, 10, 1, dtype=torch.float64)
    z = convolve(theta, x)
    model = inverse_rnn(theta)
    assert model.hidden == len(theta) - 1
    with torch.no_grad():
        assert torch.allclose(model(z), deconvolve(theta, z), rtol=1e-6, atol=1e-6)


def test_a_filter_of_one_term_is_inverted_by_a_scale():
    with torch.no_grad():
        found = inverse_rnn([4.0])(torch.full((1, 3, 1), 2.0, dtype=torch.float64))
    assert torch.equal(found, torch.full_like(found, 0.5))


@pytest.mark.parametrize("r", [0.3, 0.8, 1.25, 3.0])
def test_what_a_filter_of_two_terms_leaves_is_known_in_closed_form(r):
    # of (1, -r) after L taps there remains r^2L (1 - r²)/(1 - r^(2L+2)), the inverse of a
    # tridiagonal Toeplitz matrix
    for taps in (1, 2, 5):
        closed = r ** (2 * taps) * (1 - r**2) / (1 - r ** (2 * taps + 2))
        assert left_by_taps([1.0, -r], taps) == pytest.approx(closed)
    assert unrecoverable([1.0, -r]) == pytest.approx(max(0.0, 1 - r**-2))


@given(FILTERS)
def test_what_convolutions_leave_falls_to_what_none_recovers(theta):
    left = [left_by_taps(theta, taps) for taps in (1, 2, 4, 8, 64)]
    # beside rounding: of a share, and of squares of errors where nothing is left
    assert all(after <= before * (1 + 1e-12) + 1e-20 for before, after in pairwise(left))
    assert left[-1] >= unrecoverable(theta) - 1e-9
    gap = min(abs(np.abs(roots(theta)) - 1), default=1.0)
    if gap > 0.2:
        assert left[-1] == pytest.approx(unrecoverable(theta), abs=1e-3)


def test_szegos_product_is_the_integral_of_the_logarithm():
    theta = [0.3, -0.9, 0.5, 0.4]
    w = np.exp(1j * 2 * math.pi * (np.arange(4096) + 0.5) / 4096)
    spectrum = np.abs(np.polyval(theta[::-1], w)) ** 2
    assert unrecoverable(theta) == pytest.approx(
        1 - theta[0] ** 2 / math.exp(np.log(spectrum).mean())
    )


def test_the_true_filter_before_the_compiled_transformer_is_exact():
    base, theta = spectral_target(1.0, 3, length=8), [0.1, 0.5, 0.4]
    compiled = compile_target(base, 3)
    assert error_of(nn.Sequential(filter_layer(theta), compiled), base.mixed(theta)).value < 1e-25
    # without the filter the same Transformer is far off
    assert error_of(compiled, base.mixed(theta)).value > 1e-3


@pytest.mark.parametrize("theta", [[1.0, -0.6, 0.2], [0.3, 0.9, 0.5]])
def test_mixed_tokens_are_undone_by_the_recurrence_and_by_as_many_taps_as_tokens(theta):
    base = spectral_target(1.0, 3, length=8)
    target, compiled = unmixed(base, theta), compile_target(base, 3)

    def error(layer):
        return error_of(nn.Sequential(layer, compiled), target, n=256).value

    assert error(inverse_rnn(theta)) < 1e-16
    assert error(filter_layer(inverse_filter(theta, 8))) < 1e-16
    short = [error(filter_layer(inverse_filter(theta, taps))) for taps in (2, 5)]
    # the truncated inverse gets better with its length only if the filter is of minimum phase
    assert min(short) > 1e-6
    assert (short[1] < short[0]) == minimum_phase(theta)


def test_filters_without_an_inverse_are_refused():
    for refused in (roots, inverse_rnn, unrecoverable):
        with pytest.raises(InputError, match=r"theta\[0\]"):
            refused([0.0, 1.0])
    with pytest.raises(InputError, match="taps"):
        inverse_filter([1.0], 0)
