"""Intervals over seeds and inputs, against Student's table, scipy's tests and exact power laws."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from attnrate.statistics import (
    at_level,
    decades,
    difference,
    false_discovery,
    geometric_mean,
    level_now,
    mean,
    paired_difference,
    slope,
)


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


def welch_by_hand(one: np.ndarray, two: np.ndarray) -> tuple[float, float, float]:
    """The interval and p-value of scipy's own Welch test, made by other code than ours."""
    found = stats.ttest_ind(two, one, equal_var=False)
    interval = found.confidence_interval(0.95)
    return float(interval.low), float(interval.high), float(found.pvalue)


SAMPLES = st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=2, max_size=12)


@given(SAMPLES, SAMPLES)
def test_two_samples_are_compared_as_scipys_welch_test_does(
    one: list[float], two: list[float]
) -> None:
    assume(np.ptp(one) > 1e-2 and np.ptp(two) > 1e-2)
    found = difference(one, two)
    low, high, p = welch_by_hand(np.array(one), np.array(two))
    assert found.interval.low == pytest.approx(low, rel=1e-6, abs=1e-8)
    assert found.interval.high == pytest.approx(high, rel=1e-6, abs=1e-8)
    assert found.chance() == pytest.approx(p, rel=1e-6, abs=1e-12)


@given(st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * 2), min_size=2, max_size=12))
def test_pairs_are_compared_as_scipys_paired_test_does(pairs: list[tuple[float, float]]) -> None:
    before, after = np.array(pairs).T
    assume(np.ptp(after - before) > 1e-2)
    found = paired_difference(before.tolist(), after.tolist())
    wanted = stats.ttest_rel(after, before)
    interval = wanted.confidence_interval(0.95)
    assert found.interval.low == pytest.approx(float(interval.low), rel=1e-6, abs=1e-8)
    assert found.interval.high == pytest.approx(float(interval.high), rel=1e-6, abs=1e-8)
    assert found.chance() == pytest.approx(float(wanted.pvalue), rel=1e-6, abs=1e-12)


@given(SAMPLES, SAMPLES)
def test_a_difference_changes_its_sign_with_the_order_of_its_samples(
    one: list[float], two: list[float]
) -> None:
    there, back = difference(one, two, 1.0), difference(two, one, 1.0)
    assert there.interval.value == -back.interval.value
    assert there.interval.low == pytest.approx(-back.interval.high, rel=1e-12, abs=1e-9)
    assert there.chance(0.5) == pytest.approx(back.chance(0.5), rel=1e-9)


@pytest.mark.parametrize(("sizes", "spreads"), [((6, 6), (1, 1)), ((4, 15), (3, 1))])
def test_the_two_sample_interval_covers_as_often_as_it_says(
    sizes: tuple[int, int], spreads: tuple[float, float]
) -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(3000):
        one, two = (rng.normal(0.0, s, n).tolist() for n, s in zip(sizes, spreads, strict=True))
        found = difference(one, two).interval
        inside += found.low <= 0.0 <= found.high
    # three standard errors of a share of 0.95 over 3000 samples; Welch's is not exact
    assert inside / 3000 == pytest.approx(0.95, abs=0.015)


def test_equal_whole_numbers_are_not_exact() -> None:
    sure = paired_difference([3.0] * 8, [3.0] * 8).interval
    assert (sure.low, sure.value, sure.high) == (0.0, 0.0, 0.0)
    rounded = paired_difference([3.0] * 8, [3.0] * 8, 1.0).interval
    # both numbers of a pair are rounded: a variance of 2/12, and t(0.975, 7) = 2.364624
    assert rounded.value == 0
    assert rounded.high == pytest.approx(2.364624 * math.sqrt(2 / 12 / 8), rel=1e-6)
    # a pair of differences of one dimension is not enough, eight are
    assert paired_difference([3.0] * 2, [4.0] * 2, 1.0).chance() > 0.1
    assert paired_difference([3.0] * 8, [4.0] * 8, 1.0).chance() < 0.001
    assert paired_difference([3.0] * 8, [4.0] * 8).chance() == 0.0


def test_a_difference_is_no_evidence_of_a_larger_one() -> None:
    found = difference([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert found.chance(1.0) == 1.0
    assert found.chance(0.5) > found.chance(0.0)


def test_the_chance_of_a_difference_that_is_not_there_is_uniform() -> None:
    rng = np.random.default_rng(3)
    found = [
        paired_difference([0.0] * 6, rng.normal(size=6).tolist()).chance() for _ in range(2000)
    ]
    assert stats.kstest(found, "uniform").pvalue > 0.01


def test_one_observation_has_no_interval_of_a_difference() -> None:
    for found in (paired_difference([1.0], [3.0]), difference([1.0], [3.0, 3.0, 3.0])):
        assert found.interval.value == 2.0
        assert math.isnan(found.interval.low)
        assert math.isnan(found.interval.high)
        assert found.chance() == 1.0
    assert math.isnan(paired_difference([], []).interval.value)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 0.5))
def test_discoveries_are_those_of_benjamini_and_hochbergs_rule(
    chances: list[float], rate: float
) -> None:
    order = np.sort(chances)
    below = np.flatnonzero(order <= rate * np.arange(1, len(order) + 1) / len(order))
    limit = order[below[-1]] if len(below) else -1.0
    adjusted = np.array(false_discovery(chances))
    # equal up to the rounding of p m / k
    sure = np.abs(adjusted - rate) > 1e-12
    assert ((adjusted <= rate) == (np.array(chances) <= limit))[sure].all()


def test_no_tests_have_no_discoveries() -> None:
    assert false_discovery([]) == []


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1e-3, 1.0], "0.0316 (interval over 38 decades)"),
        ([1.0, 1.1], "1.05 [0.572, 1.92]"),
        ([0.5], "0.5"),
    ],
)
def test_an_interval_over_two_decades_says_its_width_and_not_its_ends(
    values: list[float], said: str
) -> None:
    assert str(geometric_mean(values)) == said


def test_two_decades_are_a_factor_of_a_hundred_between_positive_ends() -> None:
    assert decades(1.0, 100.0) == 2
    assert decades(1e-200, 1e200) == 400
    for low, high in (
        (1.0, 99.0),
        (0.0, 1.0),
        (-5.0, 500.0),
        (math.nan, math.nan),
        (1.0, math.inf),
    ):
        assert decades(low, high) is None


@given(st.lists(st.floats(0.1, 9), min_size=3, max_size=9, unique=True), st.floats(0.5, 0.999))
def test_intervals_have_the_level_of_the_block_in_which_they_are_computed(
    values: list[float], level: float
) -> None:
    places = [float(k + 1) for k in range(len(values))]

    def widths() -> list[float]:
        found = (
            mean(values),
            paired_difference(places, values).interval,
            difference(places, values).interval,
            slope(places, values),
        )
        return [one.high - one.low for one in found]

    usual = widths()
    with at_level(level):
        assert level_now() == level
        there = mean(values)
        half = stats.t.ppf(0.5 + level / 2, len(values) - 1) * stats.sem(values)
        assert there.high - there.value == pytest.approx(half)
        for now, before in zip(widths(), usual, strict=True):
            assert (now - before) * (level - 0.95) >= -1e-9
    assert widths() == usual
    assert level_now() == 0.95
