"""Sums: least squares by blocks is the least squares of the rows of those blocks."""

import numpy as np
import pytest
from cut_samples import autoregressive, sequences, windows

from attnrate.choose.folds import blocks, held_out
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Blocked, Scaled, scaled, sums

drawn = np.random.default_rng(0)


def data_of(samples: Samples, width: int = 4) -> Scaled:
    """The constant, and functions of the first and the last token."""

    def made(which: np.ndarray) -> np.ndarray:
        x = samples.tokens(which)
        one, two = x[:, :1, 0], x[:, -1:, 0]
        each = np.concatenate([np.ones_like(one), one, two, one * two], axis=1)[:, :width]
        return np.repeat(each, samples.places, axis=0)

    return scaled(samples, made)


def design(data: Scaled, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [*data.batches(which)]
    return np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])


SERIES = windows(autoregressive(300, 0.6), autoregressive(300, 0.6, seed=1), 7, 2)
PANEL = sequences(drawn.normal(size=(40, 3, 1)), drawn.normal(size=(40, 3, 2)))


@pytest.mark.parametrize("samples", [SERIES, PANEL], ids=["series", "panel"])
def test_least_squares_beside_blocks_are_those_of_the_rows_that_share_nothing(
    samples: Samples,
) -> None:
    data = data_of(samples)
    made: Blocked = sums(data, 5, seed=3)
    numbers = blocks(samples, 5, 3)
    np.testing.assert_array_equal(made.numbers, numbers)
    for left_out in ((0,), (2,), (1, 2), (4, 0)):
        kept = np.arange(samples.count)
        for block in left_out:
            kept = np.intersect1d(kept, held_out(samples, numbers, block).train)
        x, y = design(data, kept)
        wanted = np.linalg.lstsq(x, y, rcond=None)[0]
        found = made.beside(*left_out)
        assert found is not None
        assert found.points == len(y)
        theta = found.solve(np.zeros(4))
        np.testing.assert_allclose(theta, wanted, atol=1e-8)
        wanted_error = ((y - x @ wanted) ** 2).sum(1).mean()
        assert found.error(theta) == pytest.approx(wanted_error)
    only = made.beside(0, of=(2, 3))
    assert only is not None
    train = held_out(samples, numbers, 0).train
    assert only.points == np.isin(numbers[train], (2, 3)).sum() * samples.places
    assert made.whole().points == samples.count * samples.places
    assert made.block(1).points == (numbers == 1).sum() * samples.places
    assert made.beside(0, 1, 2, 3, 4) is None


def test_a_ridge_is_that_of_a_design_with_a_row_for_each_penalty() -> None:
    data = data_of(SERIES)
    whole = sums(data, 3, 0).whole()
    x, y = design(data, np.arange(SERIES.count))
    ridge = np.array([0.0, 0.1, 2.0, 0.3])
    # columns of variance 1 in the data: their mean square is not above 1 but by the centre
    size = np.maximum(1.0, (x**2).mean(0))
    more = np.diag(np.sqrt(len(y) * ridge * size))
    wanted = np.linalg.lstsq(
        np.concatenate([x, more]), np.concatenate([y, np.zeros((4, y.shape[1]))]), rcond=None
    )[0]
    np.testing.assert_allclose(whole.solve(ridge), wanted, atol=1e-8)


def test_some_columns_are_fitted_as_if_there_were_no_others() -> None:
    whole = sums(data_of(PANEL), 3, 0).whole()
    few = sums(data_of(PANEL, 2), 3, 0).whole()
    np.testing.assert_allclose(
        whole.of(np.array([0, 1])).solve(np.zeros(2)), few.solve(np.zeros(2)), atol=1e-12
    )


def test_a_column_with_one_huge_value_breaks_no_fit() -> None:
    x = np.zeros((30_000, 1))
    # outside of the 20,000 samples that give the scale
    missed = np.setdiff1d(np.arange(30_000), np.linspace(0, 29_999, 20_000).astype(int))[77]
    x[missed] = 1e9
    samples = windows(x, drawn.normal(size=(30_000, 1)), 1)
    lags = scaled(
        samples,
        lambda which: np.column_stack(
            [np.ones(len(which)), *(x[(which + lag) % 30_000, 0] for lag in range(20))]
        ),
    )
    assert (lags.scale == 1).any()
    theta = sums(lags, 3, 0).whole().solve(np.zeros(21))
    assert np.isfinite(theta).all()
