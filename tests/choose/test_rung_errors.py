"""Errors by unit, and whether pairs of tokens are left: noise is not taken for coupling."""

import numpy as np
import pytest
from cut_samples import attended, autoregressive, filtered, sequences, windows

from attnrate.choose.features import Features
from attnrate.choose.folds import units
from attnrate.choose.ladder import BLOCKS, ladder
from attnrate.choose.rung_errors import judge, ratio
from attnrate.choose.rungs import fit_classes
from attnrate.choose.samples import Samples
from attnrate.choose.sums import scaled, sums


def test_a_mean_over_equal_units_has_students_interval() -> None:
    found = ratio(np.array([2.0, 4.0, 6.0]), np.array([2, 2, 2]), 1.0)
    # the means 1, 2 and 3: standard error 1 / sqrt(3), Student's quantile 4.3027
    assert found.value == pytest.approx(2.0)
    assert found.high - found.value == pytest.approx(4.302653 / np.sqrt(3))
    assert found.value - found.low == pytest.approx(4.302653 / np.sqrt(3))
    half = ratio(np.array([2.0, 4.0, 6.0]), np.array([2, 2, 2]), 2.0)
    assert (half.value, half.high) == pytest.approx((1.0, found.high / 2))


def test_units_of_other_sizes_weigh_by_their_points() -> None:
    assert ratio(np.array([2.0, 30.0]), np.array([1, 9]), 1.0).value == pytest.approx(3.2)


def test_the_interval_holds_the_mean_of_units_of_other_sizes_in_95_of_100() -> None:
    drawn = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        points = drawn.integers(5, 50, 40)
        sums_ = drawn.normal(size=40) * np.sqrt(points) + 2.0 * points
        found = ratio(sums_, points, 1.0)
        held += found.low <= 2.0 <= found.high
    assert 0.92 * 400 <= held <= 0.98 * 400


X = autoregressive(300, 0.5)


@pytest.mark.parametrize(
    "samples",
    [windows(X, filtered(X, [1.0, -0.5], 0.5), 6), attended(50, 4, 0.5)],
    ids=["series", "panel"],
)
def test_the_errors_of_units_are_those_of_their_points_one_by_one(samples: Samples) -> None:
    features = Features(samples)
    data = scaled(samples, features.of)
    made = sums(data, BLOCKS, 1)
    fitted = fit_classes(features, made)
    where = units(samples)
    found = judge(features, data, made, fitted, None, where, 0)
    every = np.arange(samples.count)
    x = (features.of(every) - data.centre) / data.scale
    y = samples.truth(every).reshape(len(x), -1) - data.level
    block, unit = (np.repeat(each, samples.places) for each in (made.numbers, where))
    for name, one in fitted.items():
        held, inside = np.zeros(where.max() + 1), np.zeros(where.max() + 1)
        for point in range(len(x)):
            mine = x[point, one.columns]
            held[unit[point]] += ((y[point] - mine @ one.apart[block[point]]) ** 2).sum()
            inside[unit[point]] += ((y[point] - mine @ one.whole) ** 2).sum()
        np.testing.assert_allclose(found.errors.held[name], held, rtol=1e-8)
        np.testing.assert_allclose(found.errors.inside[name], inside, rtol=1e-8)
    np.testing.assert_array_equal(found.errors.points, np.bincount(unit))
    assert found.drift is None


def additive(seed: int) -> Samples:
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(150, 4, 1))
    y = np.tanh(2 * x) + x**2 + 0.5 * np.roll(x, 1, 1) + 0.5 * drawn.normal(size=x.shape)
    return sequences(x, y)


def test_without_pairs_no_singular_value_stands_out_of_noise() -> None:
    # each is wrong in 1 of 20: 4 or more of 20 are wrong once in 60
    ranks = [ladder(additive(seed), progress=False).coupling.rank for seed in range(20)]
    assert sum(rank > 0 for rank in ranks) <= 3


@pytest.mark.parametrize("seed", range(3))
def test_a_product_stands_out_with_its_rank(seed: int) -> None:
    # one direction of functions of the token, and one of means
    assert ladder(attended(400, 5, 0.3, seed), progress=False).coupling.rank == 1


def test_many_sequences_are_bundled_for_the_coupling_and_it_stays() -> None:
    many = ladder(attended(900, 3, 0.3, 1), progress=False)
    assert many.errors.points.shape == (900,)
    assert many.coupling.rank == 1
