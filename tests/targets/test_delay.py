"""Delays and their smooth relatives: matrices, moments of the kernel, bad input."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets.build import build_target
from attnrate.targets.delay import delay_target, gamma_kernel


@given(st.integers(1, 12), st.integers(0, 11))
def test_a_delay_looks_back_and_ahead(length, lag):
    lag %= length
    back, ahead = (delay_target(lag, length=length, ahead=one) for one in (False, True))
    x = back.sample(2, 0)
    assert torch.equal(back(x)[:, lag:], x[:, : length - lag])
    assert torch.equal(ahead(x)[:, : length - lag], x[:, lag:])
    assert not back(x)[:, :lag].any()
    assert not ahead(x)[:, length - lag :].any()


def test_tokens_have_mean_zero_and_variance_one():
    law = delay_target(1).inputs
    assert law.mean[0] == pytest.approx(0.0)
    assert law.variance[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("lag", "states"), [(1, 1), (16, 8), (5, 30), (32, 2)])
def test_the_smooth_kernel_has_its_mean_lag_and_width(lag, states):
    kernel = gamma_kernel(lag, states, 4000)
    chance, j = kernel / kernel.sum(), np.arange(4000)
    assert np.linalg.norm(kernel) == pytest.approx(1.0)
    assert chance @ j == pytest.approx(lag)
    assert chance @ (j - lag) ** 2 == pytest.approx(lag * (lag + states) / states)


def test_one_integrator_is_an_exponential():
    kernel = gamma_kernel(3, 1, 5)
    assert kernel[1:] / kernel[:-1] == pytest.approx([0.75] * 4)


def test_no_lag_is_no_blur():
    assert gamma_kernel(0, 3, 4).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_settings_make_it_and_it_can_be_reversed():
    reverse = [3, 2, 1, 0]
    target = build_target({"kind": "delay", "lag": 1, "length": 4, "permute": reverse})
    x = target.sample(2, 0)
    assert torch.equal(target(x)[:, 1:], x[:, reverse][:, :3])
    smooth = build_target({"kind": "delay", "lag": 2, "states": 3, "length": 8})
    assert smooth.name == "back by 2, 3 states"


@pytest.mark.parametrize(
    "wrong", [{"lag": 4}, {"lag": -1}, {"lag": 1, "states": 0}, {"lag": 1, "ahead": 1}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError):
        build_target({"kind": "delay", "length": 4, **wrong})


def test_a_lag_that_leaves_nothing_says_which_does():
    with pytest.raises(InputError, match=r"less than length = 4.*Pass lag=3"):
        delay_target(4, length=4)
