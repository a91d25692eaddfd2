"""Samples: tokens, outputs and times are those that a loop over rows takes."""

import numpy as np
import pytest
from cut_samples import sequences, windows

drawn = np.random.default_rng(0)
ROWS = drawn.normal(size=(20, 2))


@pytest.mark.parametrize("horizon", [0, 1, 3])
def test_a_window_holds_its_rows_and_is_followed_by_what_is_wanted(horizon: int) -> None:
    samples = windows(ROWS, ROWS, 4, horizon)
    which = np.array([5, 0, 12])
    for number, x, y in zip(which, samples.tokens(which), samples.truth(which), strict=True):
        np.testing.assert_array_equal(x, ROWS[number : number + 4])
        ahead = (
            ROWS[number + 4 : number + 4 + horizon] if horizon else ROWS[number + 3 : number + 4]
        )
        np.testing.assert_array_equal(y, ahead.reshape(1, -1))
    first, last = samples.moments()
    np.testing.assert_array_equal(first[which], which)
    np.testing.assert_array_equal(last[which], which + 3 + horizon)
    assert samples.count == 20 - 4 - horizon + 1
    assert (samples.places, samples.out, samples.reach) == (1, 2 * max(1, horizon), 4 + horizon)


def test_of_a_panel_each_token_has_an_output() -> None:
    x, y = drawn.normal(size=(5, 3, 2)), drawn.normal(size=(5, 3, 1))
    samples = sequences(x, y)
    which = np.array([4, 1])
    np.testing.assert_array_equal(samples.tokens(which), x[which])
    np.testing.assert_array_equal(samples.truth(which), y[which])
    assert (samples.count, samples.places, samples.d, samples.out) == (5, 3, 2, 1)
    np.testing.assert_array_equal(samples.moments()[0], np.arange(5))
