"""When rows were taken: times in words and as whole numbers, the sampling step, gaps."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from attnrate.choose.cells import counted, ignoring, place
from attnrate.choose.columns import Table
from attnrate.errors import InputError

#: Steps that differ by less than this share from the commonest count as regular
_SAME = 0.01
_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000  # in microseconds
_UNITS = (("week", 7 * _DAY), ("day", _DAY), ("hour", _HOUR), ("minute", 60 * _SECOND))
_MIDNIGHT = " 00:00:00"
#: How people write times, beside what pandas guesses: the month or the day first, 12 or 24 hours
_FORMS = tuple(
    f"{date}{time}"
    for date in ("%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d.%m.%Y", "%d.%m.%y", "%d-%m-%Y")
    for time in ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
)
_MONTHS = {1: "month", 3: "quarter", 12: "year"}


@dataclass(frozen=True, eq=False)
class Clock:
    """When the rows of a table were taken.

    Attributes:
        time: The time of each row as a whole number of steps, common to all series.
        breaks: Whether a row does not follow the one before by one step: the first of each series,
            and the first after a gap.
        step: The step in words, such as "hour" or "15 minutes"; "" if there are no times.
        unit: What `amount` counts: "us" (microseconds), "weekday", "month", or "" for other numbers
            and where there are no times.
        amount: The length of the step in `unit`.
        said: Sentences about the times, for people.

    """

    time: Int64[np.ndarray, " rows"]
    breaks: Bool[np.ndarray, " rows"]
    step: str
    unit: str
    amount: float
    said: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Ticks:
    """Times as numbers: microseconds, or what a column of numbers holds.

    Attributes:
        at: The time of each row.
        dated: Whether they are microseconds since 1970.

    """

    at: Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"]
    dated: bool


def ticks(name: str, cells: pd.Series, rows: Int64[np.ndarray, " rows"]) -> Ticks:
    """Read a column of times.

    Args:
        name: The name of the column.
        cells: Its cells: times, text that says times, or numbers.
        rows: The number of each row in the frame, for messages.

    """
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        at = cells.to_numpy(dtype=np.float64, na_value=np.nan)
        if _are_days(at):  # 20241231
            return ticks(name, cells.astype("int64").astype(str), rows)
        bad, dated = ~np.isfinite(at), False
        found: Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"] = at
    else:
        times = _times(cells)
        bad, dated = times.isna().to_numpy(dtype=bool), True
        found = times.astype("datetime64[us, UTC]").astype("int64").to_numpy(dtype=np.int64)
    if bad.any():
        wrong = int(np.flatnonzero(bad)[np.argmin(rows[bad])])
        cell = cells.iloc[wrong]
        empty = pd.isna(cell)
        what = f"the time, column {name!r}, " + ("is missing" if empty else "cannot be read")
        raise InputError(
            f"{what} in {place(int(rows[wrong]))}: {{value}}",
            None if empty else str(cell),
            "Give the row its time or leave it out."
            if empty
            else "Write times as 2024-12-31 23:59:00, or name the column of times (time=, --time).",
        )
    return Ticks(found, dated)


def _are_days(at: Float64[np.ndarray, " rows"]) -> bool:
    """Whether numbers are days, written as year, month and day without anything between."""
    if not (np.isfinite(at).all() and (at == np.rint(at)).all()):
        return False
    if not len(at) or at.min() < 10000101 or at.max() > 99991231:
        return False
    text = pd.Series(at.astype(np.int64).astype(str))
    return not pd.to_datetime(text, errors="coerce", format="%Y%m%d").isna().any()


def _times(cells: pd.Series) -> "pd.Series[pd.Timestamp]":
    if isinstance(cells.dtype, pd.PeriodDtype):
        started: pd.Series[pd.Timestamp] = cells.dt.to_timestamp().dt.tz_localize("UTC")
        return started
    if pd.api.types.is_datetime64_any_dtype(cells.dtype):
        read: pd.Series[pd.Timestamp] = pd.to_datetime(cells, utc=True)
        return read
    text = cells.astype(object)
    # 2024-01-01 beside 2024-01-01 01:00, as programs write that leave midnight out
    found = pd.to_datetime(text, errors="coerce", utc=True, format="ISO8601")
    if not found.isna().any():
        return found
    given = text.dropna()
    first = str(given.iloc[0]).strip() if len(given) else ""
    guesses = [pd.tseries.api.guess_datetime_format(first, dayfirst=one) for one in (False, True)]
    forms = dict.fromkeys([form for form in guesses if form] + [*_FORMS])
    best = int(found.isna().sum()), 1.0
    # one form for all cells: read one by one, 12/01 and 13/01 would have their month in two places
    for form in forms:
        if pd.isna(pd.to_datetime(first, errors="coerce", format=form)):
            continue
        other = pd.to_datetime(text, errors="coerce", utc=True, format=form)
        backward = float((other.diff() < pd.Timedelta(0)).mean())
        if (int(other.isna().sum()), backward) < best:
            found, best = other, (int(other.isna().sum()), backward)
    return found


def no_clock(table: Table) -> Clock:
    """The clock of a table without times: rows are counted from the first of their series."""
    first = table.first
    place_in = np.arange(len(first)) - np.maximum.accumulate(
        np.where(first, np.arange(len(first)), 0)
    )
    counted = f"{len(first):,} rows"
    if len(table.ids) > 1:
        counted += f" of {len(table.ids):,} series; those of one number count as simultaneous"
    said = f"sampling: no times are given, so rows count as evenly spaced; {counted}"
    return Clock(place_in.astype(np.int64), first, "", "", 1.0, (said,))


def read_clock(table: Table, name: str) -> Clock:
    """Read the times of a table.

    Args:
        table: The table, with times.
        name: The name of the column of times.

    Raises:
        InputError: Times cannot be read, are not sorted, come twice, or have no common step.

    """
    assert table.time is not None
    read, first = ticks(name, table.time, table.rows), table.first
    _require_sorted(table, name, read)
    inner = ~first[1:]
    if not inner.any():
        return replace(no_clock(table), said=())
    at, unit = _calendar(read, inner)
    steps = np.diff(at)[inner]
    amount = _commonest(steps)
    slack = _SAME * amount
    if unit == "us" and amount >= _DAY:
        slack = max(slack, _HOUR)  # clocks are put forward and back
    regular = np.abs(np.diff(at) - amount) <= slack
    other = int((inner & ~regular).sum())
    step = _words(amount, unit, name)
    if 2 * other > steps.size:
        where = 1 + int(np.flatnonzero(inner & ~regular)[0])
        raise InputError(
            f"the sampling is irregular: mostly there is one row per {step}, but {other:,} of "
            f"{steps.size:,} steps differ, the first before {place(int(table.rows[where]))}: "
            "{value}",
            str(table.time.iloc[where]),
            "Average over a step of your choice, for instance resample='1h' (--resample 1h), or "
            f"take the rows as evenly spaced by leaving the times out: {ignoring(name)}.",
        )
    said = f"sampling: one row per {step}"
    if len(table.ids) > 1:
        said += f", {len(table.ids):,} series"
    said += f", {len(at):,} rows {_ends(table.time, read)}"
    if other:
        said += f"; {other:,} of {steps.size:,} steps differ, and no window crosses them"
    time = np.rint((at - at.min()) / amount).astype(np.int64)
    breaks = np.concatenate([[True], ~(inner & regular)])
    return Clock(time, breaks, step, unit, float(amount), (said,))


def _require_sorted(table: Table, name: str, read: Ticks) -> None:
    """Raise an InputError at the first row whose time is not after that of the row before."""
    assert table.time is not None
    wrong = np.flatnonzero((np.diff(read.at) <= 0) & ~table.first[1:]) + 1
    if not wrong.size:
        return
    row = int(wrong[np.argmin(table.rows[wrong])])
    value = str(table.time.iloc[row])
    where = place(int(table.rows[row]))
    several = len(table.ids) > 1
    which = f" of series {table.ids[int(table.series[row])]!r}" if several else ""
    if read.at[row] == read.at[row - 1]:
        raise InputError(
            f"a time comes twice{which}: {{value}} in {where}; this happens at "
            f"{counted(wrong.size, 'row')}",
            value,
            f"Keep one: frame.drop_duplicates({name!r})"
            + (" with the column of the series" if several else "")
            + ", average them by resample='1h' (--resample), or name the series by id= (--id) if "
            "they belong to several.",
        )
    raise InputError(
        f"the times{which} are not sorted: {{value}} in {where} comes after "
        f"{str(table.time.iloc[row - 1])!r}; this happens at {counted(wrong.size, 'row')}",
        value,
        f"Sort them: frame.sort_values({name!r}), or name the series by id= (--id) if they belong "
        "to several.",
    )


def _calendar(
    read: Ticks, inner: Bool[np.ndarray, " steps"]
) -> tuple[Int64[np.ndarray, " rows"] | Float64[np.ndarray, " rows"], str]:
    """Count times in months or weekdays where they keep to those; else as they are."""
    if not read.dated:
        return read.at, ""
    assert read.at.dtype == np.int64
    moments = pd.DatetimeIndex(read.at.astype("datetime64[us]"))
    steps = np.diff(read.at)[inner]
    days = np.asarray((moments - moments.normalize()).asi8)
    if np.ptp(days):  # of different times of day
        return read.at, "us"
    if np.median(steps) >= 28 * _DAY:
        ends = bool((moments + pd.Timedelta(days=1)).is_month_start.all())
        if ends or np.ptp(np.asarray(moments.day)) == 0:
            return np.asarray(moments.year * 12 + moments.month, dtype=np.int64), "month"
    weekdays = np.asarray(moments.day_of_week)
    if np.median(steps) == _DAY and len(moments) > 7 and weekdays.max() == 4:
        days_on = moments.to_numpy().astype("datetime64[D]")
        return np.busday_count(np.datetime64("1970-01-01"), days_on).astype(np.int64), "weekday"
    return read.at, "us"


def _commonest(steps: Int64[np.ndarray, " steps"] | Float64[np.ndarray, " steps"]) -> float:
    """The commonest step; of equally common ones the shortest."""
    middle = float(np.median(steps))
    shares, counts = np.unique(np.round(steps / middle, 6), return_counts=True)
    near = np.abs(steps / middle - shares[np.argmax(counts)]) <= 2e-6
    return float(np.median(steps[near]))


def _words(amount: float, unit: str, name: str) -> str:
    if unit == "":
        return f"unit of {name!r}" if amount == 1 else f"{amount:g} units of {name!r}"
    if unit == "weekday":
        return "weekday" if amount == 1 else f"{amount:g} weekdays"
    if unit == "month":
        return _MONTHS.get(int(amount), f"{amount:g} months")
    for word, size in _UNITS:
        if amount % size == 0:
            count = int(amount // size)
            return word if count == 1 else f"{count} {word}s"
    seconds = amount / _SECOND
    return "second" if seconds == 1 else f"{seconds:g} seconds"


def _ends(cells: pd.Series, read: Ticks) -> str:
    low, high = (cells.iloc[int(which(read.at))] for which in (np.argmin, np.argmax))
    ends = str(low), str(high)
    if all(one.endswith(_MIDNIGHT) for one in ends):
        ends = ends[0].removesuffix(_MIDNIGHT), ends[1].removesuffix(_MIDNIGHT)
    return f"from {ends[0]} to {ends[1]}"


def resampled(table: Table, name: str, offset: str) -> Table:
    """Average the rows of each series over stretches of time of equal length.

    Args:
        table: The table, with times, which need not be sorted.
        name: The name of the column of times.
        offset: The length of a stretch as pandas writes it: "1h", "1D", "MS".

    Returns:
        The table with one row for each stretch, NaN where there was no value in it.

    """
    assert table.time is not None
    read = ticks(name, table.time, table.rows)
    if not read.dated:
        way_out = f"Make them times: pandas.to_datetime(frame[{name!r}], unit='s')."
        raise InputError("resample needs times, and column {value} holds numbers", name, way_out)
    try:
        step = pd.tseries.frequencies.to_offset(offset)
        if step is None or step.n < 1:
            raise ValueError
    except (ValueError, TypeError):
        way_out = "Pass for instance resample='1h', '15min', '1D', 'W' or 'MS'."
        raise InputError(
            "resample must be a step of time in the words of pandas", offset, way_out
        ) from None
    moments = pd.DatetimeIndex(read.at.astype("datetime64[us]"))
    pieces = []
    for number in range(len(table.ids)):
        mine = table.series == number
        frame = pd.DataFrame(table.values[mine], index=moments[mine])
        pieces.append(frame.sort_index().resample(step).mean())
    values = np.concatenate([one.to_numpy(dtype=np.float64) for one in pieces])
    return replace(
        table,
        values=values,
        time=pd.Series(np.concatenate([one.index.to_numpy() for one in pieces])),
        series=np.repeat(np.arange(len(pieces)), [len(one) for one in pieces]).astype(np.int64),
        rows=np.arange(len(values), dtype=np.int64),
    )
