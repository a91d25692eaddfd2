"""The target among the covariates: found at its shift, and not where two series are only smooth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.choose.leaks import Leak, find_leaks


def look(
    y: np.ndarray,
    c: np.ndarray,
    forbidden: int = 1,
    most: int = 30,
    first: np.ndarray | None = None,
) -> list[Leak]:
    if first is None:
        first = np.arange(len(y)) == 0
    return find_leaks(np.column_stack([y, c]), first, ["y"], ["c"], most, forbidden)


def ahead(y: np.ndarray, shift: int) -> np.ndarray:
    """c with c(t) = y(t + shift), missing beyond the ends."""
    c = np.full(len(y), np.nan)
    c[max(0, -shift) : len(y) - max(0, shift)] = y[max(0, shift) : len(y) + min(0, shift)]
    return c


@given(st.integers(-30, 30), st.floats(0.1, 100.0), st.floats(-100, 100), st.booleans())
def test_a_shifted_target_is_found_in_any_units_between_missing_values(
    shift: int, scale: float, offset: float, minus: bool
) -> None:
    rng = np.random.default_rng(3)
    y = rng.normal(size=400).cumsum()
    c = (-scale if minus else scale) * ahead(y, shift) + offset
    c[rng.integers(0, 400, 20)] = np.nan
    (leak,) = look(y, c)
    assert leak.shift == shift
    assert abs(leak.correlation) == pytest.approx(1, abs=1e-9)


def test_it_is_found_across_several_series() -> None:
    y = np.random.default_rng(0).normal(size=200)
    c = np.concatenate([ahead(y[:120], 2), ahead(y[120:], 2)])
    (leak,) = look(y, c, first=np.isin(np.arange(200), [0, 120]))
    assert leak.shift == 2


@pytest.mark.parametrize(
    ("y", "c"),
    [
        (np.arange(500.0), 2 * np.arange(500.0)),
        (np.sin(np.arange(500) / 300), np.cos(np.arange(500) / 300)),
        (np.exp(np.arange(500) / 5000), np.arange(500.0)),
        (np.eye(1, 500, 100)[0], np.eye(1, 500, 97)[0]),
    ],
    ids=["lines", "slow waves", "nearly a line", "one spike each"],
)
def test_series_that_are_only_smooth_or_have_one_spike_are_no_leak(
    y: np.ndarray, c: np.ndarray
) -> None:
    assert not look(y, c)


def test_a_smooth_series_with_its_noise_in_common_is_none_either() -> None:
    rng = np.random.default_rng(0)
    y = np.sin(np.arange(2000) / 200) + 1e-4 * rng.normal(size=2000)
    assert not look(y, np.roll(y, -1) + 1e-3 * rng.normal(size=2000))


def test_an_exact_copy_of_a_smooth_series_is_found() -> None:
    y = np.random.default_rng(0).normal(size=3000).cumsum().cumsum()
    (leak,) = look(y, ahead(y, 5))
    assert leak.shift == 5


def test_what_the_past_of_a_periodic_target_says_as_well_is_not_its_future() -> None:
    y = np.tile(np.random.default_rng(0).normal(size=7), 100)
    (leak,) = look(y, ahead(y, 3))
    assert leak.shift <= 0


def test_the_words_of_a_shift() -> None:
    assert Leak("c", "y", 1, 1.0).when == "1 row ahead"
    assert Leak("c", "y", -2, 1.0).when == "2 rows before"
    assert Leak("c", "y", 0, 1.0).when == "at the same row"


def test_empty_and_constant_columns_are_none() -> None:
    y = np.random.default_rng(0).normal(size=50)
    assert not look(y, np.full(50, np.nan))
    assert not look(y, np.ones(50))
    assert not look(np.ones(50), np.ones(50))


@pytest.mark.parametrize("size", [1e-250, 1e250])
def test_the_size_of_the_numbers_does_not_matter(size: float) -> None:
    y = np.random.default_rng(0).normal(size=200)
    (leak,) = look(size * y, ahead(y, 1) / size)
    assert leak.shift == 1
