"""Drift: a law that changes is refused; a wandering level with one law is not."""

import numpy as np
import pytest
from cut_samples import autoregressive, filtered, windows

from attnrate.choose.drift import near_and_far
from attnrate.choose.features import Features
from attnrate.choose.ladder import ladder
from attnrate.choose.sums import scaled, sums
from attnrate.choose.verdict import by_ladder


@pytest.mark.parametrize("seed", range(4))
def test_a_law_that_changes_halfway_is_refused_and_a_constant_one_not(seed: int) -> None:
    x = autoregressive(3000, 0.6, seed=seed)
    one, other = (filtered(x, rho, 0.5, seed) for rho in ([1.0, 0.5], [-0.5, 0.2, 1.0]))
    changed = np.concatenate([one[:1500], other[1500:]])
    refused = by_ladder(ladder(windows(x, changed, 8), progress=False))
    assert refused.verdict == "cannot-tell"
    assert "the data change with time" in refused.because[0]
    assert by_ladder(ladder(windows(x, one, 8), progress=False)).verdict == "linear"


@pytest.mark.parametrize("seed", range(3))
def test_a_series_whose_own_law_changes_is_refused(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(3000, 1))
    for t in range(2, 3000):
        weights = (0.9, -0.4) if t < 1500 else (-0.3, 0.5)
        x[t] += weights[0] * x[t - 1] + weights[1] * x[t - 2]
    found = ladder(windows(x, x, 8, 1), progress=False)
    assert by_ladder(found).verdict == "cannot-tell"


@pytest.mark.parametrize("horizon", [1, 6])
@pytest.mark.parametrize("kind", ["walk", "smooth walk", "trend"])
@pytest.mark.parametrize("seed", range(3))
def test_a_level_that_wanders_by_one_law_is_no_drift(kind: str, horizon: int, seed: int) -> None:
    if kind == "trend":
        time = np.arange(2500)[:, None]
        season = 3 * np.sin(2 * np.pi * time / 24)
        x = season + 0.01 * time + autoregressive(2500, 0.8, seed=seed)
    else:
        memory = 0.9 if kind == "smooth walk" else 0.0
        x = np.cumsum(autoregressive(2500, memory, seed=seed), axis=0)
    found = ladder(windows(x, x, 12, horizon), progress=False)
    assert by_ladder(found).verdict != "cannot-tell"


@pytest.mark.parametrize("where", [slice(0, 300), slice(2700, 3000), slice(1400, 1410)])
def test_a_column_that_is_constant_in_most_blocks_is_no_fault(where: slice) -> None:
    drawn = np.random.default_rng(3)
    y = autoregressive(3000, 0.6, seed=3)
    snow = np.zeros((3000, 1))
    snow[where] = drawn.normal(size=snow[where].shape)
    found = ladder(windows(np.column_stack([y, snow]), y, 8, 1), progress=False)
    assert by_ladder(found).verdict in ("memoryless", "linear")


def test_filters_that_follow_the_level_rise_with_it() -> None:
    x = np.column_stack([autoregressive(900, 0.6, seed=seed)[:, 0] for seed in (1, 2)])
    samples = windows(x, x[:, :1], 5, 2)
    features = Features(samples)
    data = scaled(samples, features.of)
    found = near_and_far(features, data, sums(data, 6, 0))
    assert found is not None
    plain, following = found
    columns = features.columns("one", "now", "past")
    for one, theta in [(True, following.near[2]), (True, following.far[5]), (False, plain.near[2])]:
        raw = theta[1:] / data.scale[columns][1:, None]
        by_lag = raw.reshape(5, 2, 2).sum(0)
        # tokens that are all larger by 1: the target's future is larger by 1, whatever the other
        np.testing.assert_equal(np.allclose(by_lag, [[1, 1], [0, 0]], atol=1e-6), one)


def test_the_filter_that_follows_the_level_is_least_squares_of_differences() -> None:
    x = np.cumsum(autoregressive(1200, 0.5), axis=0)
    samples = windows(x, x, 4, 1)
    features = Features(samples)
    data = scaled(samples, features.of)
    made = sums(data, 6, 0)
    found = near_and_far(features, data, made)
    assert found is not None
    theta = found[1].far[0]
    # the farthest blocks from the first are the last two
    which = np.flatnonzero(np.isin(made.numbers, (4, 5)))
    tokens = samples.tokens(which)[:, ::-1, 0]
    steps = tokens[:, :-1] - tokens[:, 1:]
    design = np.column_stack([np.ones(len(which)), steps / np.sqrt((steps**2).mean(0))])
    more = np.diag(np.sqrt(len(which) * np.array([0, 1e-2, 1e-2, 1e-2])))
    ahead = samples.truth(which)[:, 0] - tokens[:, :1]
    slow = np.linalg.lstsq(
        np.concatenate([design, more]), np.concatenate([ahead, np.zeros((4, 1))]), rcond=None
    )[0]
    ((_, made_x, _),) = data.batches(which)
    columns = features.columns("one", "now", "past")
    found_ahead = made_x[:, columns] @ theta + data.level - tokens[:, :1]
    # differences of mean square 1 about the median, so that ridges differ by a little
    np.testing.assert_allclose(found_ahead, design @ slow, atol=2e-3)
