"""Times: read from what people write, in words, with gaps; what has no common step is refused."""

import numpy as np
import pandas as pd
import pytest

from attnrate.choose.data import Data, from_frame
from attnrate.errors import InputError


def at(times: object, **more: object) -> Data:
    frame = pd.DataFrame({"ds": times})
    frame["y"] = np.random.default_rng(0).normal(size=len(frame))
    return from_frame(frame.assign(**more), "y", 1, 4)


@pytest.mark.parametrize(
    ("frequency", "step"),
    [
        ("h", "hour"),
        ("15min", "15 minutes"),
        ("s", "second"),
        ("100ms", "0.1 seconds"),
        ("D", "day"),
        ("W", "week"),
        ("MS", "month"),
        ("ME", "month"),
        ("QS", "quarter"),
        ("YE", "year"),
        ("B", "weekday"),
    ],
)
def test_a_regular_step_is_found_and_has_no_gaps(frequency: str, step: str) -> None:
    data = at(pd.date_range("2000", periods=200, freq=frequency))
    assert data.step == step
    assert data.samples.count == 200 - 4
    np.testing.assert_array_equal(np.diff(data.samples.time), 1)


@pytest.mark.parametrize(
    "pattern",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%SZ",
        "%d/%m/%Y %H:%M",
        "%m/%d/%y %I:%M %p",
        "%d/%m/%y %I:%M %p",
        "%d.%m.%Y %H:%M",
        "%b %d %Y %H:%M",
    ],
)
def test_text_is_read_as_people_write_times(pattern: str) -> None:
    assert at(pd.date_range("2024-01-01", periods=800, freq="h").strftime(pattern)).step == "hour"


def test_the_day_and_the_month_keep_their_places_in_all_rows() -> None:
    days = pd.date_range("2024-01-01", periods=200)
    for pattern in ("%d/%m/%Y", "%m/%d/%Y"):
        np.testing.assert_array_equal(np.diff(at(days.strftime(pattern)).samples.time), 1)
    # each of these days could be a month: the order of the rows says which it is
    early = days[:60][days[:60].day <= 12]
    for pattern in ("%d/%m/%Y", "%m/%d/%Y"):
        assert at(early.strftime(pattern)).step == "day"


def test_a_midnight_without_its_hour_is_read() -> None:
    times = [
        str(one).removesuffix(" 00:00:00") for one in pd.date_range("2024", periods=99, freq="h")
    ]
    assert at(times).step == "hour"


def test_clocks_put_forward_and_back_leave_no_gap() -> None:
    local = pd.date_range("2024", periods=400, freq="h", tz="Europe/Berlin")
    assert at(local).samples.count == 396
    days = pd.date_range("2024", periods=400, freq="D", tz="Europe/Berlin")
    assert (at(days).step, at(days).samples.count) == ("day", 396)
    assert at(days.astype(str)).samples.count == 396


def test_times_may_be_numbers() -> None:
    data = at(np.arange(1900, 2000))
    assert (data.step, data.samples.count) == ("unit of 'ds'", 96)
    assert at(np.arange(99) * 0.1).step == "0.1 units of 'ds'"


def test_whole_numbers_of_year_month_and_day_are_days() -> None:
    data = at(pd.date_range("2024", periods=99).strftime("%Y%m%d").astype(int))
    assert (data.step, data.samples.count) == ("day", 95)


def test_a_gap_divides_the_series_and_is_said() -> None:
    times = pd.date_range("2024", periods=100, freq="h").delete([40, 41])
    data = at(times)
    assert data.samples.count == 36 + 54
    assert data.samples.time[40] == 42
    assert "1 of 97 steps differ, and no window crosses them" in data.said[0]
    assert "4 of 94 windows are left out because they cross a gap in time" in data.said


def test_without_times_rows_count_as_evenly_spaced() -> None:
    frame = pd.DataFrame({"y": np.random.default_rng(0).normal(size=200)})
    data = from_frame(frame, "y", 1, 4)
    assert (data.step, data.samples.time[-1]) == ("", 199)
    assert "no times are given, so rows count as evenly spaced" in data.said[0]


def _changed(row: int, value: object) -> list[object]:
    return [*(times := [*pd.date_range("2024", periods=50, freq="h").astype(str)])[:row], value,
            *times[row + 1 :]]  # fmt: skip


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (_changed(7, "soon"), r"'ds', cannot be read in row 7 \(the first is 0\): 'soon'"),
        (_changed(7, None), "'ds', is missing in row 7"),
        (_changed(7, "2024-01-01 06:00:00"), "a time comes twice: '2024-01-01 06:00:00' in row 7"),
        (_changed(7, "2024-01-01 02:00:00"), "are not sorted: '2024-01-01 02:00:00' in row 7 .*"
                                             "comes after '2024-01-01 06:00:00'"),
        (pd.Timestamp("2024") + pd.to_timedelta(np.arange(50) ** 2, unit="min"),
         "the sampling is irregular: .*resample='1h'"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_used_are_refused_with_row_value_and_way_out(
    times: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        at(times)


def test_a_time_that_comes_twice_is_named_with_its_series() -> None:
    times = [*pd.date_range("2024", periods=30, freq="h")] * 2
    ids = ["a"] * 30 + ["b"] * 30
    assert at(times, unique_id=ids).samples.count == 52
    times[35] = times[34]
    with pytest.raises(InputError, match=r"twice of series 'b': .* in row 35 .*drop_duplicates"):
        at(times, unique_id=ids)


def test_resampling_needs_times_and_a_step_that_pandas_knows() -> None:
    frame = pd.DataFrame({"ds": pd.date_range("2024", periods=90, freq="h"), "y": range(90)})
    with pytest.raises(InputError, match="in the words of pandas: got 'often'"):
        from_frame(frame, resample="often")
    with pytest.raises(InputError, match="resample needs times, and there are none"):
        from_frame(frame[["y"]], resample="1h")
    with pytest.raises(InputError, match="column 'ds' holds numbers"):
        from_frame(frame.assign(ds=range(90)), resample="1h")


@pytest.mark.parametrize(
    ("frequency", "rows", "window"),
    [("h", 5000, 48), ("h", 100, 16), ("15min", 9000, 96), ("10min", 9000, 144), ("D", 3000, 56),
     ("D", 1500, 28), ("B", 3000, 40), ("MS", 1300, 24), ("W", 3000, 52)],
)  # fmt: skip
def test_a_window_that_is_not_given_holds_days_or_weeks_and_is_said(
    frequency: str, rows: int, window: int
) -> None:
    frame = pd.DataFrame({"ds": pd.date_range("1900", periods=rows, freq=frequency)})
    frame["y"] = np.random.default_rng(0).normal(size=rows)
    data = from_frame(frame, "y", 1)
    assert data.samples.length == window
    assert any("window was not given" in line for line in data.said)
