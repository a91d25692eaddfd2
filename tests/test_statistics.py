"""Intervals over seeds, against Student's table and exact power laws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.statistics import geometric_mean, mean, slope


def test_the_mean_of_three_has_students_interval() -> None:
    found = mean([1.0, 2.0, 3.0])
    assert found.value == 2.0
    half = 4.302653 / math.sqrt(3)  # t(0.975, 2 degrees of freedom), standard deviation 1
    assert found.low == pytest.approx(2 - half, rel=1e-6)
    assert found.high == pytest.approx(2 + half, rel=1e-6)


def test_one_observation_has_no_interval_and_none_has_no_value() -> None:
    assert math.isnan(mean([5.0]).low)
    assert str(mean([5.0])) == "5"
    assert math.isnan(mean([]).value)
    assert math.isnan(geometric_mean([]).value)
    assert math.isnan(mean([5.0]).within(0.0, 1.0).low)
    assert (mean([5.0]).known, mean([5.0]).shown) == (True, "5")
    assert (mean([]).known, mean([]).shown) == (False, "not run")


def test_the_interval_holds_the_true_mean_in_nineteen_of_twenty_samples() -> None:
    rng = np.random.default_rng(0)
    inside = [
        found.low <= 0.0 <= found.high
        for found in (mean(rng.normal(size=5).tolist()) for _ in range(4000))
    ]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.015)


def test_the_geometric_mean_averages_orders_of_magnitude() -> None:
    found = geometric_mean([1e-6, 1e-4, 1e-2])
    assert found.value == pytest.approx(1e-4)
    assert found.low * found.high == pytest.approx(1e-8)


@given(st.floats(-3, 3), st.floats(1e-3, 1e3), st.integers(2, 12))
def test_the_slope_of_an_exact_power_law_is_its_exponent(
    exponent: float, factor: float, count: int
) -> None:
    x = np.arange(1.0, count + 1)
    found = slope(x.tolist(), (factor * x**exponent).tolist())
    assert found.value == pytest.approx(exponent, abs=1e-9)
    assert math.isnan(found.low) if count == 2 else found.low <= exponent + 1e-6


def test_the_slopes_interval_holds_the_exponent_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(1.0, 9)
    inside = 0
    for _ in range(2000):
        found = slope(x.tolist(), (x**-1.5 * np.exp(0.2 * rng.normal(size=8))).tolist())
        inside += found.low <= -1.5 <= found.high
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_one_point_has_no_slope() -> None:
    assert math.isnan(slope([1.0], [1.0]).value)


def test_an_error_of_zero_among_others_leaves_the_geometric_interval_open_not_broken() -> None:
    found = geometric_mean([0.0, 0.01])
    assert 0 < found.value < 0.01
    assert (found.low, found.high) == (0.0, math.inf)


def test_an_interval_shows_itself_as_its_text() -> None:
    assert repr(mean([1.0, 2.0, 3.0])) == "2 [-0.484, 4.48]"
