"""Features: each column is what a loop over samples, places and lags makes of its definition."""

import itertools

import numpy as np
import pytest
from cut_samples import sequences, windows
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial.legendre import Legendre

from attnrate.choose.features import Features, Group, spread_lags
from attnrate.choose.samples import Samples
from attnrate.choose.sums import scaled

drawn = np.random.default_rng(0)


def panel(d: int) -> Samples:
    return sequences(drawn.normal(size=(7, 5, d)), drawn.normal(size=(7, 5, 1)))


def series(d: int) -> Samples:
    x = drawn.normal(size=(40, d))
    return windows(x, x[:, :1], 5, 1)


def slow(samples: Samples, group: Group) -> np.ndarray:
    """The columns of a group by loops, for few coordinates and short sequences."""
    d, length = samples.d, samples.length
    few, many, crossed = Features(samples)._few, Features(samples)._many, 3
    known = [np.sort(samples.x[:, j]) for j in range(d)]
    middle = [each[len(each) // 2] for each in known]

    def function(j: int, value: float, degree: int) -> float:
        below, least = (known[j] < value).mean(), (known[j] <= value).mean()
        return float(Legendre.basis(degree)(below + least - 1))

    rows = []
    for start in samples.starts:
        for place in range(length) if samples.whole else [length - 1]:
            tokens = samples.x[start : start + length]
            now = tokens[place]
            made = {
                (lag, j, degree): function(j, tokens[place - lag, j], degree)
                if lag <= place
                else 0.0
                for lag in range(length)
                for j in range(d)
                for degree in range(1, many + 1)
            }
            mean = {
                (j, degree): np.mean([function(j, token[j], degree) for token in tokens])
                for j in range(d)
                for degree in range(1, many + 1)
            }
            pairs = [*itertools.combinations(range(d), 2)]
            cross = [made[0, one, 1] * made[0, two, 1] for one, two in pairs]
            mean_cross = [
                np.mean([function(a, t[a], 1) * function(b, t[b], 1) for t in tokens])
                for a, b in pairs
            ]
            row: list[float] = []
            if group == "one":
                row = [1.0]
                if samples.whole:
                    row += [float(place == each) for each in range(length - 1)]
            elif group == "now":
                row = [now[j] - middle[j] for j in range(d)]
            elif group == "past":
                row = [
                    tokens[place - lag, j] - middle[j] if lag <= place else 0.0
                    for lag in range(1, length)
                    for j in range(d)
                ]
            elif group == "curved":
                row = [made[0, j, degree] for j in range(d) for degree in range(1, many + 1)]
                row += [
                    made[0, one, a] * made[0, two, b]
                    for one, two in pairs
                    for a in range(1, crossed + 1)
                    for b in range(1, crossed + 1)
                ]
            elif group == "additive":
                row = [
                    made[lag, j, degree]
                    for lag in range(1, length)
                    for j in range(d)
                    for degree in range(1, few + 1)
                ]
            elif group == "mean":
                row = [mean[j, degree] for j in range(d) for degree in range(1, few + 1)]
                row += mean_cross
            elif group == "pooled":
                query = [made[0, j, g] for j in range(d) for g in range(1, 6)] + cross
                key = [mean[j, g] for j in range(d) for g in range(1, 6)] + mean_cross
                row = [a * b for a in query for b in key]
            else:
                each = [(lag, j) for lag in range(length) for j in range(d)]
                row = [
                    made[*one, 1] * made[*two, 1]
                    for one, two in itertools.combinations(each, 2)
                    if one[0] != two[0]
                ]
            rows.append(row)
    return np.array(rows)


GROUPS: tuple[Group, ...] = (
    "one",
    "now",
    "past",
    "curved",
    "additive",
    "mean",
    "pooled",
    "pairwise",
)


@pytest.mark.parametrize("make", [panel, series])
@pytest.mark.parametrize("d", [1, 2])
def test_columns_are_those_of_a_loop(make, d: int) -> None:
    samples = make(d)
    features = Features(samples)
    found = features.of(np.arange(samples.count))
    assert found.shape[1] == len(features.groups) == len(features.column_lags)
    for group in GROUPS:
        mine = found[:, features.columns(group)]
        np.testing.assert_allclose(mine, slow(samples, group), atol=1e-12, err_msg=group)


def test_a_batch_of_samples_has_the_rows_of_all_of_them() -> None:
    samples = panel(2)
    whole = Features(samples).of(np.arange(samples.count)).reshape(samples.count, 5, -1)
    few = Features(samples).of(np.array([6, 2]))
    np.testing.assert_array_equal(few.reshape(2, 5, -1), whole[[6, 2]])


def test_missing_values_take_no_part_in_ranks_and_medians() -> None:
    rows = drawn.normal(size=(60, 1)) + 5.0
    holes = rows.copy()
    holes[30:36] = np.nan
    left = np.delete(rows, np.arange(30, 36), axis=0)
    every = windows(rows, rows, 4, 1)
    apart = np.flatnonzero((every.starts > 35) | (every.starts < 25))
    broken = Samples(
        holes, holes, every.starts[apart], 4, 1, False, every.time, every.inputs, every.outputs
    )
    wanted = Features(every, known=(np.sort(left[:, 0]),)).of(apart)
    np.testing.assert_allclose(Features(broken).of(np.arange(len(apart))), wanted, atol=1e-12)


@pytest.mark.parametrize("d", [1, 4, 8, 12, 20, 30, 100, 1000])
def test_the_number_of_columns_stays_small_however_many_coordinates_there_are(d: int) -> None:
    x = drawn.normal(size=(30, d))
    features = Features(windows(x, x[:, :1], 8))
    assert len(features.groups) <= 3001
    assert features.of(np.arange(2)).shape == (2, len(features.groups))
    assert features.paired == (d <= 17)
    assert len(features.columns("now")) == d


def test_scaled_columns_have_mean_0_and_variance_1_at_any_offset() -> None:
    x = 1e9 + drawn.normal(size=(3000, 1))
    samples = windows(x, x, 4, 1)
    for make in (Features(samples).of, lambda which: np.column_stack([which * 0 + 1.0, x[which]])):
        ((_, found, _),) = scaled(samples, make).batches(np.arange(samples.count))
        np.testing.assert_allclose(found[:, 1:].mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(found[:, 1:].std(0), 1, atol=1e-6)


@given(st.integers(1, 300), st.integers(1, 60))
def test_lags_are_spread_from_the_nearest_to_the_last(length: int, most: int) -> None:
    lags = spread_lags(length, most)
    steps = np.diff(lags)
    assert len(lags) == min(length, most)
    assert lags[0] == 0
    assert (steps > 0).all()
    if len(lags) > 1:
        assert lags[1] == 1
    if len(lags) > 2:
        assert lags[-1] == length - 1
    # sparser further back, but for rounding
    assert (np.diff(steps) >= -1).all()
