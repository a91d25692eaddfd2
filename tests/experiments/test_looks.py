"""Looks at open claims: all of them together err with 5 % at most; and the seeds to come."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from attnrate.experiments.looks import (
    ERROR,
    SEEDS,
    futile_from,
    level_as_with,
    looks,
    seeds_needed,
)
from attnrate.statistics import at_level, mean


@pytest.mark.parametrize("first", [2, 3, 5, 12])
def test_all_looks_together_end_on_the_wrong_side_with_5_percent_at_most(first: int) -> None:
    # the truth is the limit itself, so that of the two verdicts one is wrong; both are counted, as
    # means and standard deviations of normal numbers do not prefer a side
    runs = 40_000
    x = np.random.default_rng(first).standard_normal((runs, SEEDS[-1]))
    going, wrong = np.ones(runs, bool), 0
    for seeds, level in [(first, 0.95), *((one.seeds, one.level) for one in looks(first))]:
        part = x[:, :seeds]
        t = part.mean(1) * math.sqrt(seeds) / part.std(1, ddof=1)
        out = going & (np.abs(t) > special.stdtrit(seeds - 1, 0.5 + level / 2))
        going &= ~out
        wrong += int(out.sum())
    share = wrong / runs / 2
    # three standard errors above what is claimed would show a fault of the levels
    assert share < ERROR + 3 * math.sqrt(ERROR / runs / 2)
    # and levels that waste more than a fifth of it would be a fault, too
    assert share > 0.8 * ERROR or first in (2, 12)


def test_looking_with_95_percent_each_time_would_err_more_often() -> None:
    runs = 20_000
    x = np.random.default_rng(0).standard_normal((runs, SEEDS[-1]))
    out = np.zeros(runs, bool)
    for seeds in SEEDS:
        part = x[:, :seeds]
        t = part.mean(1) * math.sqrt(seeds) / part.std(1, ddof=1)
        out |= np.abs(t) > special.stdtrit(seeds - 1, 0.975)
    assert out.mean() / 2 > 0.07


@pytest.mark.parametrize(
    ("first", "seeds"), [(1, SEEDS), (3, SEEDS), (5, SEEDS[1:]), (12, (18, 27, 40)), (40, ())]
)
def test_later_looks_have_the_seeds_that_are_left_and_one_level(
    first: int, seeds: tuple[int, ...]
) -> None:
    found = looks(first)
    assert tuple(one.seeds for one in found) == seeds
    assert [one.number for one in found] == [*range(1, len(seeds) + 1)]
    assert all(one.of == len(seeds) for one in found)
    assert len({one.level for one in found}) <= 1
    assert all(one.level > 0.95 for one in found)


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=8, unique=True), st.integers(1, 9))
def test_an_interval_at_another_level_is_as_wide_as_with_more_seeds(
    values: list[float], times: int
) -> None:
    have, seeds = len(values), times * len(values)
    with at_level(level_as_with(have, float(seeds), 0.98)):
        found = mean(values)
    half = stats.t.ppf(0.99, seeds - 1) * np.std(values, ddof=1) / math.sqrt(seeds)
    assert found.high - found.value == pytest.approx(half, rel=1e-6)


def test_the_needed_seeds_are_the_least_whose_interval_leaves_out_the_limit() -> None:
    values, limit = [0.1, -0.6, 0.3, 0.9, 0.2], 0.5
    centre, spread = np.mean(values), np.std(values, ddof=1)

    def decided(level: float) -> bool:
        with at_level(level):
            return mean(values).high < limit

    found = seeds_needed(5, decided, 0.98)
    assert found is not None

    def high(seeds: float) -> float:
        return float(centre + stats.t.ppf(0.99, seeds - 1) * spread / math.sqrt(seeds))

    # the numbers that are tried are 5 % apart
    assert high(found) < limit <= high(found / 1.05 - 1)


def test_what_no_interval_decides_needs_no_number_of_seeds() -> None:
    assert seeds_needed(5, lambda level: False) is None
    assert seeds_needed(5, lambda level: True) == 5


def test_few_seeds_do_not_make_us_give_up_soon() -> None:
    assert [futile_from(seeds) for seeds in (5, 8, 40)] == [320, 200, 40]
