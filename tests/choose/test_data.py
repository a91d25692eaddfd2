"""Windows of frames: which there are, what is in them, and what people are told."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.choose.data import Data, from_frame
from attnrate.errors import InputError

RNG = np.random.default_rng(0)


def hourly(rows: int = 600, **columns: object) -> pd.DataFrame:
    """A random walk, each hour, with a covariate."""
    frame = pd.DataFrame({"ds": pd.date_range("2024", periods=rows, freq="h")})
    rng = np.random.default_rng(1)
    frame["y"], frame["load"] = rng.normal(size=rows).cumsum(), rng.normal(size=rows)
    return frame.assign(**columns)


def said(data: Data) -> str:
    return "\n".join(data.said)


@st.composite
def broken_frames(draw: st.DrawFn) -> tuple[pd.DataFrame, int, int]:
    """Up to three series with gaps in time and missing cells; a window and a horizon."""
    pieces = []
    for name in draw(st.permutations(["b", "a", "c"]))[: draw(st.integers(1, 3))]:
        rows = draw(st.integers(6, 30))
        kept = draw(st.lists(st.integers(0, rows - 1), max_size=2))
        hours = [hour for hour in range(rows) if hour not in kept]
        start = pd.Timestamp("2024-03-01") + pd.Timedelta(hours=draw(st.integers(0, 9)))
        values = np.arange(2.0 * len(hours)).reshape(-1, 2) ** 2 + ord(name)
        for row in draw(st.lists(st.integers(0, len(hours) - 1), max_size=2)):
            values[row, draw(st.integers(0, 1))] = np.nan
        pieces.append(
            pd.DataFrame(
                {
                    "item_id": name,
                    "timestamp": [start + pd.Timedelta(hours=hour) for hour in hours],
                    "y": values[:, 0],
                    "c": values[:, 1],
                }
            )
        )
    frame = pd.concat(pieces, ignore_index=True)
    if draw(st.booleans()):  # the series one after the other, or mixed
        frame = frame.sort_values(["timestamp", "item_id"], ignore_index=True)
    return frame, draw(st.integers(1, 4)), draw(st.integers(0, 3))


def windows_one_by_one(
    frame: pd.DataFrame, window: int, horizon: int
) -> set[tuple[tuple[float, ...], ...]]:
    """Inputs and outputs of all whole windows, by looking at each row."""
    found = set()
    inputs = ["y", "c"] if horizon else ["c"]
    for _, series in frame.groupby("item_id"):
        for first in range(len(series)):
            piece = series.iloc[first : first + window + horizon]
            if len(piece) < window + horizon:
                continue
            steps = piece["timestamp"].diff().iloc[1:]
            x = piece[inputs].iloc[:window].to_numpy()
            wanted = piece["y"].iloc[window:] if horizon else piece["y"].iloc[window - 1 :]
            if (steps != pd.Timedelta(hours=1)).any() or np.isnan(x).any() or wanted.isna().any():
                continue
            found.add((tuple(x.ravel()), tuple(wanted)))
    return found


@given(broken_frames())
def test_the_windows_are_those_that_a_loop_over_all_rows_finds(
    drawn: tuple[pd.DataFrame, int, int],
) -> None:
    frame, window, horizon = drawn
    wanted = windows_one_by_one(frame, window, horizon)
    try:
        samples = from_frame(frame, "y", horizon, window).samples
    except InputError:
        assert not wanted
        return
    which = np.arange(samples.count)
    tokens, truth = samples.tokens(which), samples.truth(which)
    found = {(tuple(x.ravel()), tuple(y.ravel())) for x, y in zip(tokens, truth, strict=True)}
    assert len(found) == samples.count
    assert found == wanted


@given(broken_frames())
def test_samples_stand_in_the_order_of_a_time_that_all_series_share(
    drawn: tuple[pd.DataFrame, int, int],
) -> None:
    frame, window, horizon = drawn
    try:
        samples = from_frame(frame, "y", horizon, window).samples
    except InputError:
        return
    hours = (frame["timestamp"] - frame["timestamp"].min()) / pd.Timedelta(hours=1)
    by_value = dict(zip(frame["y"].fillna(-1.0), hours, strict=True))
    assert all(
        by_value[value] == time
        for value, time in zip(np.nan_to_num(samples.y[:, 0], nan=-1.0), samples.time, strict=True)
        if value >= 0
    )
    assert (np.diff(samples.time[samples.starts]) >= 0).all()


def test_two_targets_are_both_wanted_at_each_of_the_next_values() -> None:
    frame = hourly()
    samples = from_frame(frame, ["y", "load"], horizon=3, window=5).samples
    assert (samples.outputs, samples.inputs, samples.out) == (("y", "load"),) * 2 + (6,)
    expected = frame[["y", "load"]].to_numpy()[5:8].ravel()
    np.testing.assert_array_equal(samples.truth(np.array([0]))[0, 0], expected)


def test_with_horizon_0_the_target_is_not_among_the_inputs() -> None:
    data = from_frame(hourly(), "y", horizon=0, window=4)
    assert data.samples.inputs == ("load",)
    with pytest.raises(InputError, match="the target is found from covariates, and there is none"):
        from_frame(hourly(load=1.0), "y", horizon=0)


def test_true_is_1_and_columns_that_say_nothing_are_left_out_and_said() -> None:
    frame = hourly(
        on=np.arange(600) % 7 < 3,
        flat=2.0,
        empty=np.nan,
        count=range(600),
        key_id=np.random.default_rng(2).permutation(600),
    )
    data = from_frame(frame, "y", 1, 8)
    assert data.samples.inputs == ("y", "load", "on")
    assert {*data.samples.x[:, 2]} == {0.0, 1.0}
    assert "left out, because it is constant: 'flat'" in said(data)
    assert "left out, because it is empty: 'empty'" in said(data)
    assert "left out, because they are only a number of the row: 'count', 'key_id'" in said(data)


def test_missing_values_are_counted_and_windows_that_touch_them_left_out() -> None:
    frame = hourly()
    frame.loc[100, "load"] = np.nan
    frame.loc[[300, 301], "y"] = np.nan
    data = from_frame(frame, "y", 2, 4)
    # the inputs are 4 rows, the wanted ones 2: row 100 is missing as an input alone
    assert data.samples.count == 595 - 4 - 7
    assert "missing values: 2 in 'y', 1 in 'load'; none is filled in" in data.said
    assert "11 of 595 windows are left out because of missing values" in data.said


def test_few_windows_left_are_said_strongly() -> None:
    frame = hourly()
    frame.loc[::11, "load"] = np.nan
    data = from_frame(frame, "y", 1, 9)
    kept = data.samples.count / (600 - 9)
    assert kept < 0.25
    assert f"Only {kept:.1%} are kept, so the answer is about these alone" in said(data)


def test_a_column_that_leaves_no_window_is_named() -> None:
    frame = hourly()
    frame.loc[frame.index % 5 > 0, "load"] = np.nan
    frame.loc[3, "y"] = np.nan
    with pytest.raises(
        InputError, match=r"missing in column 'load', 480 of 600.*ignore=\['load'\]"
    ):
        from_frame(frame, "y", 1, 8)


def test_resampling_averages_within_bins_and_fills_nothing() -> None:
    frame = hourly(48).drop(index=[4, 5, 30])
    data = from_frame(frame, "y", 1, 2, resample="2h")
    assert data.step == "2 hours"
    assert "45 rows are averaged over steps of 2h: 24 rows" in data.said
    np.testing.assert_allclose(data.samples.y[0, 0], frame["y"].iloc[:2].mean())
    assert np.flatnonzero(np.isnan(data.samples.y[:, 0])).tolist() == [2]
    np.testing.assert_allclose(data.samples.y[15, 0], frame.loc[31, "y"])


def test_a_covariate_that_is_the_target_ahead_is_a_fault_and_one_behind_is_said() -> None:
    frame = hourly()
    frame = frame.assign(ahead=5 - 2 * frame["y"].shift(-3), behind=frame["y"].shift(2))
    data = from_frame(frame, "y", 4, 8)
    assert data.faults == (
        "column 'ahead' is the target 'y' 3 rows ahead (correlation -1.000000): leave it out by "
        "ignore=['ahead'] (--ignore ahead)",
    )
    assert "column 'behind' is the target 'y' 2 rows before" in said(data)


def test_a_target_that_never_changes_and_too_few_rows_are_faults() -> None:
    assert from_frame(hourly(y=3.0), "y", 1, 8).faults == (
        "the target 'y' is 3 in all rows: nothing can be learned",
    )
    (fault,) = from_frame(hourly(71), "y", 1, 8).faults
    assert "only 7 times, and an answer needs at least 8, which is 72 rows" in fault
    assert not from_frame(hourly(72), "y", 1, 8).faults


@pytest.mark.parametrize(
    ("rows", "horizon", "window", "message"),
    [
        (1, 1, None, "the series has one row"),
        (10, 10, None, "horizon is 10, and the series has only 10 rows"),
        (10, 4, 7, r"window \+ horizon is 11, and the series has only 10 rows.*window=6 at most"),
        (0, 1, None, "there are no rows below the names of the columns"),
        (10, -1, None, "horizon must be a whole number of at least 0"),
        (10, 1, 0, "window must be a whole number of at least 1"),
    ],
)
def test_a_series_that_is_too_short_is_refused(
    rows: int, horizon: int, window: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        from_frame(hourly(rows), "y", horizon, window)


def test_what_is_no_frame_is_refused_with_the_call_to_write() -> None:
    with pytest.raises(InputError, match=r"series\.to_frame\('y'\)"):
        from_frame(hourly()["y"], "y")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be a pandas DataFrame"):
        from_frame({"y": [1.0]}, "y")  # type: ignore[arg-type]


def test_the_frame_is_as_before() -> None:
    frame = hourly(on="true")
    frame.loc[3, "on"] = "false"
    before = frame.copy()
    from_frame(frame, "y", 1, 8)
    pd.testing.assert_frame_equal(frame, before)


def test_the_same_frame_gives_the_same_samples_and_a_source() -> None:
    ones, others = (from_frame(hourly(), "y", 24) for _ in range(2))
    assert (ones.source, ones.said) == ("a data frame", others.said)
    np.testing.assert_array_equal(ones.samples.starts, others.samples.starts)
