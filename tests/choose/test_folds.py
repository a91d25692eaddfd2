"""Folds: what is held out shares no row and no time with what is learned from."""

import numpy as np
from cut_samples import sequences
from hypothesis import given
from hypothesis import strategies as st

from attnrate.choose.folds import blocks, held_out, rolling, units
from attnrate.choose.samples import Samples

#: The window, the horizon, and for each series how many rows it has beyond a few, when it begins,
#: and how long its gap is
several = st.tuples(
    st.integers(1, 6),
    st.integers(0, 3),
    st.lists(
        st.tuples(st.integers(20, 60), st.integers(0, 30), st.integers(0, 10)),
        min_size=1,
        max_size=3,
    ),
)
Several = tuple[int, int, list[tuple[int, int, int]]]


def several_series(drawn: Several) -> Samples:
    """Windows of series that begin at different times, each with a gap in its middle."""
    window, horizon, each = drawn
    times, starts, before = [], [], 0
    for more, begin, gap in each:
        rows = window + horizon + more
        time = begin + np.arange(rows) + gap * (np.arange(rows) >= rows // 2)
        first = np.arange(rows - window - horizon + 1)
        # no window crosses the gap
        whole = (time[first + window + horizon - 1] - time[first]) == window + horizon - 1
        starts.append(before + first[whole])
        times.append(time)
        before += rows
    time, start = np.concatenate(times), np.concatenate(starts)
    start = start[np.argsort(time[start + window - 1], kind="stable")]
    x = np.arange(before, dtype=float)[:, None]
    return Samples(x, x, start, window, horizon, False, time, ("x",), ("x",))


def rows_of(samples: Samples, which: np.ndarray) -> set[int]:
    reach = samples.length if samples.whole else samples.reach
    return {int(start) + step for start in samples.starts[which] for step in range(reach)}


@given(several, st.integers(2, 6))
def test_no_held_out_window_shares_a_row_or_a_time_with_the_others(
    drawn: Several, count: int
) -> None:
    samples = several_series(drawn)
    numbers = blocks(samples, count)
    assert set(numbers) <= set(range(count))
    for block in set(numbers):
        fold = held_out(samples, numbers, int(block))
        learned, held = rows_of(samples, fold.train), rows_of(samples, fold.held)
        assert not learned & held
        assert not set(samples.time[[*learned]]) & set(samples.time[[*held]])
        np.testing.assert_array_equal(fold.held, np.flatnonzero(numbers == block))


@given(several, st.integers(1, 3))
def test_a_rolling_origin_learns_from_the_past_alone(drawn: Several, count: int) -> None:
    samples = several_series(drawn)
    folds = rolling(samples, count)
    assert len(folds) == count
    first, last = samples.moments()
    for fold in folds:
        assert len(fold.held) > 0
        if len(fold.train):
            assert last[fold.train].max() < first[fold.held].min()
    everything = np.concatenate([fold.held for fold in folds])
    assert len(np.unique(everything)) == len(everything)


@given(several)
def test_units_are_stretches_of_time_as_long_as_a_window_and_its_horizon(drawn: Several) -> None:
    samples = several_series(drawn)
    found = units(samples)
    assert set(found) == set(range(int(found.max()) + 1))
    _, last = samples.moments()
    # units follow each other in time, and windows two units apart share nothing
    for unit in range(1, int(found.max()) + 1):
        assert last[found == unit].min() > last[found == unit - 1].max()
    for unit in range(2, int(found.max()) + 1):
        assert last[found == unit].min() - last[found == unit - 2].max() >= samples.reach
    assert len(set(found)) <= 50


@given(st.integers(6, 40), st.integers(1, 3), st.integers(0, 5))
def test_blocks_of_a_panel_are_drawn_at_random_and_equally_large(
    count: int, folds: int, seed: int
) -> None:
    samples = sequences(np.zeros((count, 2, 1)), np.zeros((count, 2, 1)))
    numbers = blocks(samples, 2 * folds, seed)
    sizes = np.bincount(numbers, minlength=2 * folds)
    assert sizes.max() - sizes.min() <= 1
    for fold in rolling(samples, folds, seed):
        assert not set(fold.train) & set(fold.held)
        assert len(fold.train) + len(fold.held) == count
    np.testing.assert_array_equal(units(samples), np.arange(count))
