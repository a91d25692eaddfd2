"""Fourier moments on boxes and unions: closed forms, and what every moment bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.theory.domain import box, union
from attnrate.theory.fourier import fourier_moment
from attnrate.theory.fourier_boxes import box_moment
from attnrate.theory.smooth_boxes import sup_hessian

SQUARE, CUBE = box((0, 1), (0, 1)), box((0, 1), (0, 1), (0, 1))


@pytest.mark.parametrize("region", [SQUARE, CUBE])
@pytest.mark.parametrize("order", [1, 2])
def test_products_of_cosines_and_plane_waves_have_the_moments_of_their_frequencies(region, order):
    """|ω|_B = Σ_i |ω_i| / 2 on the unit cube; a product of cosines spreads over 2^d such waves."""
    frequency = 2 * np.pi * np.arange(1, region.d + 1)
    product = box_moment(lambda x: np.cos(x * frequency).prod(-1), order, region)
    plane = box_moment(lambda x: 3 * np.cos(x @ frequency + 0.4), order, region)
    exact = (frequency.sum() / 2) ** order
    assert product == pytest.approx(exact, rel=1e-9)
    assert plane == pytest.approx(3 * exact, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_a_gaussian_has_at_most_the_moments_of_its_own_transform(order):
    """exp(-|x|²/2s²): E|W|^k for ω = W/s normal, |ω|_B = (|W_1| + |W_2|) L / 2s.

    The first is √(2/π), so 2 √(2/π) in all; the second E(|W_1|+|W_2|)² = 2 + 4/π. The infimum over
    extensions is below: the representation that is found must not be far above.
    """
    s, L = 0.5, 2.0
    g = lambda x: np.exp(-(x**2).sum(-1) / (2 * s**2))  # noqa: E731
    exact = {1: 2 * np.sqrt(2 / np.pi), 2: 2 + 4 / np.pi}[order] * (L / (2 * s)) ** order
    found = box_moment(g, order, box((-1, 1), (-1, 1)))
    assert found <= exact * 1.02


@pytest.mark.parametrize("g", [np.exp, np.cos, lambda u: 3 * u])
@pytest.mark.parametrize("order", [1, 2])
def test_in_one_variable_it_is_the_moment_of_an_interval(g, order):
    """Up to the choice of the extension: the least squares are the same, their points are too."""
    assert box_moment(g, order, box((0, 1))) == pytest.approx(
        fourier_moment(g, order) / 2**order, rel=0.3
    )


@given(
    scale=st.floats(0.01, 100),
    low=st.floats(-3, 3),
    side=st.floats(0.2, 5),
    order=st.integers(1, 2),
)
@settings(max_examples=8)
def test_moments_scale_with_the_function_and_move_with_the_box(scale, low, side, order):
    g = lambda x: np.cos(2 * x[..., 0] - x[..., 1]) * x[..., 1]  # noqa: E731
    moved = lambda x: -scale * g((x - low) / side)  # noqa: E731
    region = box((low, low + side), (low, low + side))
    assert box_moment(moved, order, region) == pytest.approx(
        scale * box_moment(g, order, SQUARE), rel=0.01
    )


@pytest.mark.parametrize("region", [SQUARE, box(union((0, 0.4), (0.7, 1)), (0, 1))])
def test_the_second_moment_bounds_the_second_derivative(region):
    """v·S D²g S v <= Σ |c| (Σ_i |ω_i| L_i)² = 4 Σ |c| |ω|_B², for every unit vector v."""
    g = lambda x: np.tanh(2 * x[..., 0] - x[..., 1]) + x[..., 0] * x[..., 1]  # noqa: E731
    assert sup_hessian(g, ((0.0, 1.0), (0.0, 1.0))) <= 4 * 1.02 * box_moment(g, 2, SQUARE)
    assert np.isfinite(box_moment(g, 1, region))


def test_nothing_is_asked_of_a_function_between_the_boxes_of_a_union():
    region = box(union((0, 1), (2, 3)), (0, 1))

    def g(x):
        assert not ((x[..., 0] > 1 + 1e-12) & (x[..., 0] < 2 - 1e-12)).any()
        return np.cos(x[..., 0] + x[..., 1])

    assert 0 < box_moment(g, 1, region) < 4 * 2


def test_zero_has_no_moment_and_a_kink_none_that_is_finite():
    assert box_moment(lambda x: 0.0, 1, CUBE) == 0.0
    with pytest.raises(InputError, match="no Fourier representation"):
        box_moment(lambda x: np.abs(x[..., 0] + x[..., 1] - 0.9), 1, SQUARE)
