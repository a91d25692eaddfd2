"""Intervals of errors: closed forms, pairs, and how often they hold the truth."""

import math

import numpy as np
import pytest
from made_samples import row
from scipy import stats

from attnrate.choose.comparing import Errors, errors_of, paired


def test_with_one_seed_and_equal_units_the_interval_is_students() -> None:
    found = errors_of([row("gru", 0, 0, [1.0, 2.0, 4.0]), row("gru", 1, 0, [3.0, 5.0, 9.0])])
    assert found is not None
    values = [1.0, 2.0, 4.0, 3.0, 5.0, 9.0]
    half = stats.t.ppf(0.975, 5) * np.std(values, ddof=1) / math.sqrt(6)
    interval = found.interval()
    assert (interval.value, interval.count) == (4.0, 6)
    assert interval.high - interval.value == pytest.approx(half)


def test_a_unit_that_lies_in_two_folds_counts_once() -> None:
    errors = Errors(
        np.array([[1.0, 2.0, 4.0]]), np.array([0, 0, 1]), np.array([0, 1, 1]), np.ones(3)
    )
    assert errors.interval().count == 2


def test_seeds_that_differ_widen_the_interval_and_units_that_differ_too() -> None:
    def width(seeds: float, units: float) -> float:
        values = seeds * np.array([[-1.0], [0.0], [1.0]]) + units * np.linspace(-1, 1, 8)
        interval = Errors(values, np.repeat([0, 1], 4), np.arange(8), np.ones(8)).interval()
        return interval.high - interval.low

    assert width(0.0, 0.0) == 0.0
    assert width(1.0, 1.0) > width(0.0, 1.0) > 0.0
    assert width(1.0, 0.0) > 0.0


def test_a_pair_differs_by_what_is_not_common() -> None:
    hard = [3.0, 100.0, 0.1]
    one = [row("gru", fold, seed, hard) for fold in (0, 1) for seed in (0, 1)]
    other = [row("tcn", fold, seed, [e + 0.5 for e in hard]) for fold in (0, 1) for seed in (0, 1)]
    found = paired(other, one)
    assert found is not None
    interval = found.interval()
    assert (interval.value, interval.low, interval.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_solved_map_is_paired_with_each_seed() -> None:
    solved = [row("linear", 0, 0, [2.0, 2.0])]
    other = [row("gru", 0, seed, [1.0 + seed, 1.0 + seed]) for seed in (0, 1)]
    found = paired(other, solved)
    assert found is not None
    assert found.mean == pytest.approx(-0.5)


def test_a_seed_counts_only_where_no_fold_diverged() -> None:
    rows = [row("gru", 0, 0, [1.0, 1.0]), row("gru", 1, 0, None)]
    assert errors_of(rows) is None
    more = [*rows, row("gru", 0, 1, [2.0, 2.0]), row("gru", 1, 1, [4.0, 4.0])]
    found = errors_of(more)
    assert found is not None
    assert found.mean == 3.0
    other = [row("tcn", fold, seed, [1.0, 1.0]) for fold in (0, 1) for seed in (0, 1)]
    apart = paired(more, other)
    assert apart is not None
    assert apart.mean == 2.0


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    drawn = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        common = drawn.normal(size=(1, 24))
        training = 0.3 * drawn.normal(size=(3, 3)).repeat(8, axis=1)
        errors = Errors(common + training, np.repeat([0, 1, 2], 8), np.arange(24), np.ones(24))
        interval = errors.interval()
        held += interval.low <= 0.0 <= interval.high
    assert 0.92 <= held / 400 <= 0.99
