"""Outliers: far values of inputs are drawn in and said; what is wanted stays."""

import numpy as np
import pytest
from cut_samples import windows

from attnrate.choose.outliers import bounds_of, drawn_in

drawn = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [50, 500, 5000])
def test_a_far_value_is_drawn_in_and_said_and_the_target_stays(rows: int) -> None:
    x = drawn.normal(size=(rows, 2))
    x[17, 1] = 1e6
    samples = windows(x, x[:, 1:], 4)
    bounds = bounds_of(samples)
    found, said = drawn_in(samples, bounds)
    assert found.x[17, 1] == bounds.high[1] < 40
    others = np.ones(x.shape, dtype=bool)
    others[17, 1] = False
    np.testing.assert_array_equal(found.x[others], x[others])
    np.testing.assert_array_equal(found.y, x[:, 1:])
    (sentence,) = said
    assert sentence.startswith("column 'x1': 1 value lies far outside of all others, such as 1e+06")
    assert f"is drawn in to {bounds.low[1]:.4g} or {bounds.high[1]:.4g}" in sentence


def test_bounds_are_three_widths_beyond_the_middle() -> None:
    x = np.arange(10_001.0)[:, None]
    bounds = bounds_of(windows(x, x, 2, 1))
    assert (bounds.low[0], bounds.high[0]) == (10 - 3 * 9980, 9990 + 3 * 9980)
    found, said = drawn_in(windows(x, x, 2, 1), bounds)
    np.testing.assert_array_equal(found.x, x)
    assert said == ()


def test_several_far_values_are_counted_and_the_worst_is_shown() -> None:
    x = drawn.normal(size=(9000, 1))
    x[[5, 50, 500]] = [[300.0], [-7000.0], [400.0]]
    _, said = drawn_in(windows(x, x, 2, 1), bounds_of(windows(x, x, 2, 1)))
    assert said[0].startswith("column 'x0': 3 values lie far outside of all others, such as -7000")
    assert "are drawn in" in said[0]


def test_missing_values_and_rare_events_stay() -> None:
    x = drawn.normal(size=(9000, 2))
    x[3, 0] = np.nan
    x[:, 1] = 0.0
    x[[7, 9], 1] = 50.0
    samples = windows(x, x[:, :1], 2)
    bounds = bounds_of(samples)
    assert (bounds.low[1], bounds.high[1]) == (-np.inf, np.inf)
    found, said = drawn_in(samples, bounds)
    np.testing.assert_array_equal(found.x, x)
    assert said == ()


def test_new_tokens_are_drawn_in_alike() -> None:
    x = drawn.normal(size=(500, 1))
    bounds = bounds_of(windows(x, x, 2, 1))
    new = np.array([[[1e9], [0.0]], [[-1e9], [0.5]]])
    np.testing.assert_array_equal(
        bounds.of(new)[..., 0], [[bounds.high[0], 0.0], [bounds.low[0], 0.5]]
    )
