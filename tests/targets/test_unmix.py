"""Tokens that come mixed: outputs are those of the tokens before, inputs lie in their box."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import convolve, spectral_target
from attnrate.targets.unmix import UnmixedTarget, deconvolve, unmixed

BASE = spectral_target(1.0, 2, length=6)


def test_outputs_are_those_of_the_tokens_before_mixing():
    theta = [1.0, -0.5, 0.25]
    x = BASE.sample(4, seed=0)
    assert torch.allclose(unmixed(BASE, theta)(convolve(theta, x)), BASE(x), atol=1e-12)


def test_inputs_are_the_mixed_ones_of_the_same_seed():
    theta = [0.5, 0.25]
    made = unmixed(BASE, theta).sample(3, seed=7)
    assert torch.equal(made, convolve(theta, BASE.sample(3, seed=7)))


@given(st.lists(st.floats(-1, 1), min_size=0, max_size=4), st.floats(0.5, 2), st.booleans())
def test_deconvolution_inverts_convolution(later, first, negative):
    theta = [-first if negative else first, *later]
    x = torch.rand(2, 5, 1, dtype=torch.float64)
    assert torch.allclose(deconvolve(theta, convolve(theta, x)), x, atol=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=4), st.integers(0, 9))
def test_every_token_lies_in_the_box(later, seed):
    target = unmixed(BASE, [1.0, *later])
    z = target.sample(16, seed=seed)
    assert target.inputs.low[0] - 1e-12 <= float(z.min())
    assert float(z.max()) <= target.inputs.high[0] + 1e-12


def test_the_box_is_that_of_the_corners():
    # partial sums at the start of a sequence count: 1, 1 - 2 and 1 - 2 + 3 of the corners
    assert unmixed(BASE, [1.0, -2.0, 3.0]).inputs.low == (-2.0,)
    assert unmixed(BASE, [1.0, -2.0, 3.0]).inputs.high == (4.0,)


def test_a_filter_that_loses_tokens_is_refused():
    with pytest.raises(InputError, match="theta"):
        unmixed(BASE, [0.0, 1.0])
    with pytest.raises(InputError, match="at most 6"):
        unmixed(BASE, [1.0] * 7)
    assert UnmixedTarget(BASE, (1.0,)).name == f"{BASE.name} of mixed tokens"
