"""What a user gives, as samples: a data frame, arrays or a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from attnrate.choose import account, columns, files
from attnrate.choose.arrays import panel
from attnrate.choose.cells import ignoring
from attnrate.choose.clock import Clock, no_clock, read_clock, resampled
from attnrate.choose.columns import Table
from attnrate.choose.samples import Samples
from attnrate.choose.windows import Windows, default_window, stretches, whole_windows
from attnrate.errors import InputError
from attnrate.settings import Count, Natural, by, checked

#: Numbers of three axes
Numbers: TypeAlias = npt.ArrayLike | torch.Tensor


def _require_frame(name: str, value: object) -> pd.DataFrame:
    if isinstance(value, pd.DataFrame):
        return value
    if isinstance(value, pd.Series):
        way_out = "Make it a frame: series.to_frame('y')."
        raise InputError(
            "the data must be a pandas DataFrame, and this is a Series", value, way_out
        )
    if hasattr(value, "to_pandas"):
        way_out = "Pass frame.to_pandas()."
        raise InputError("the data must be a pandas DataFrame", value, way_out)
    raise InputError(
        "the data must be a pandas DataFrame", value, "Make one: pandas.DataFrame(...)."
    )


def _require_name(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(value)  # columns of frames made without names
    raise InputError(f"{name} must be the name of a column", value, f"Pass {name}='...'.")


def _require_names(name: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(str(_require_name(f"{name}[{i}]", one)) for i, one in enumerate(value))
    return (str(_require_name(name, value)),)


#: The name of a column, and names of columns
Name = Annotated[str | None, by(_require_name)]
Names = Annotated[str | Sequence[str] | None, by(_require_names)]
Frame = Annotated[pd.DataFrame, by(_require_frame)]


@dataclass(frozen=True, eq=False)
class Data:
    """Samples, and what had to be counted, left out and assumed to make them.

    Attributes:
        samples: The samples.
        said: Sentences for the user about the data.
        faults: Sentences that say why these data give no answer; empty if they may.
        source: Where they come from: the name of the file, "a data frame" or "arrays".
        step: The sampling step in words, such as "hour"; "" if there are no times.

    """

    samples: Samples
    said: tuple[str, ...]
    faults: tuple[str, ...]
    source: str
    step: str


@checked
def from_file(
    path: str | os.PathLike[str],
    target: Names = None,
    horizon: Natural = 1,
    window: Count | None = None,
    time: Name = None,
    id: Name = None,
    ignore: Names = (),
    resample: str | None = None,
) -> Data:
    """Read samples from a file.

    Args:
        path: A file whose name ends in .csv or .tsv (each also with .gz), .parquet (needs the
            package pyarrow) or .npz. The last holds the arrays x and y of `from_arrays`, and takes
            no other argument.
        target: As in `from_frame`, like all that follow.
        horizon: How many values ahead are wanted.
        window: The number of rows of a window.
        time: The column of times.
        id: The column that names the series.
        ignore: Columns that are left out.
        resample: A step of time over which rows are averaged.

    Raises:
        InputError: The file cannot be read, or its columns cannot be used.

    """
    file = files.require_data_file(path)
    if file.suffix.lower() == ".npz":
        asked = {"target": target, "window": window, "time": time, "id": id, "resample": resample}
        given = [name for name, value in asked.items() if value is not None]
        given += ["ignore"] if ignore else []
        given += ["horizon"] if horizon != 1 else []
        if given:
            way_out = "Leave them out; windows are made of tables (.csv, .parquet) alone."
            raise InputError(
                "arrays say by themselves what is wanted for each token", given, way_out
            )
        x, y = files.read_arrays(file)
        return replace(from_arrays(x, y), source=file.name)
    wanted, names = _require_names("target", target), _require_names("ignore", ignore) or ()
    frame = files.read_frame(file, names, wanted, time, id)
    # columns that are not read cannot be named a second time
    return from_frame(frame, target, horizon, window, time, id, (), resample, source=file.name)


@checked
def from_arrays(x: Numbers, y: Numbers) -> Data:
    """Take whole sequences, with an output at each of their tokens.

    Args:
        x: The tokens, of shape (N, T, d): N sequences of T tokens with d coordinates.
        y: The outputs, of shape (N, T, k).

    Raises:
        InputError: They have other shapes, or hold what is no finite real number.

    """
    samples, said, faults = panel(x, y)
    return Data(samples, said, (*faults, *account.of_size(samples, 1)), "arrays", "")


@checked
def from_frame(
    frame: Frame,
    target: Names = None,
    horizon: Natural = 1,
    window: Count | None = None,
    time: Name = None,
    id: Name = None,
    ignore: Names = (),
    resample: str | None = None,
    *,
    source: str = "a data frame",
) -> Data:
    """Cut windows out of a frame of one series or several.

    Each row is one moment of one series. Windows cross neither from one series to another nor a gap
    in time, and those that touch a missing value are left out; nothing is filled in.

    Args:
        frame: One row for each moment, sorted by time within each series.
        target: The column that is wanted, or several. None takes the one named y or target.
        horizon: How many values of the target are wanted after each window, which then holds the
            target and the covariates. With 0 the target at the last row of the window is wanted,
            which then holds the covariates alone.
        window: The number of rows of a window. None chooses some days or weeks if the step is
            known, else between 16 and 168 rows.
        time: The column of times. None takes an index of times, or the column named ds, timestamp,
            date, time or datetime. Without any the rows count as evenly spaced.
        id: The column that names the series; None takes unique_id or item_id.
        ignore: Columns that are left out.
        resample: A step of time in the words of pandas ("1h"), over which rows are averaged; empty
            ones stay empty.
        source: What the frame is called in results.

    Raises:
        InputError: A column is not there or is no numbers, times cannot be used, or no window is
            left.

    """
    asked, out = _require_names("target", target), _require_names("ignore", ignore) or ()
    plain, clock_name = columns.plain(frame, time, id)
    roles = columns.roles([*map(str, plain.columns)], asked, time, id, out, clock_name)
    width = len(roles.targets) + len(roles.covariates)
    files.require_room(len(plain), width, source)
    table = columns.tabulate(plain, roles)
    if resample is not None:
        if roles.time is None:
            way_out = "Name the column of times (time=, --time)."
            raise InputError("resample needs times, and there are none", resample, way_out)
        before = len(table.values)
        table = resampled(table, roles.time, resample)
        averaged = [
            f"{before:,} rows are averaged over steps of {resample}: {len(table.values):,} rows"
        ]
    else:
        averaged = []
    files.require_room(len(table.values), width, source, ladder=True)
    clock = no_clock(table) if roles.time is None else read_clock(table, roles.time)
    missing = account.of_missing(table)
    dropped, left_out = columns.useless(table)
    table = table.without(dropped)
    if not horizon and not table.covariates:
        raise InputError(
            "with horizon=0 the target is found from covariates, and there is none",
            dropped or [*table.targets],
            "Pass horizon=1 or more to find it from its own past, or add a column.",
        )
    length, why = _length(table, clock, horizon, window)
    found = _windows(table, clock, length, horizon)
    samples = _samples(table, clock, found, length, horizon)
    leaks, copies = account.of_leaks(table, length, horizon)
    said = (
        *averaged,
        *clock.said,
        *missing,
        *left_out,
        account.of_task(samples, table, why),
        *account.of_windows(found),
        *copies,
    )
    faults = (*account.of_constants(table), *leaks, *account.of_size(samples, len(table.ids)))
    return Data(samples, said, faults, source, clock.step)


def _length(table: Table, clock: Clock, horizon: int, window: int | None) -> tuple[int, str]:
    """The number of rows of a window, and why; an InputError if no window can be cut."""
    series = stretches(table.first)
    longest, whole = int(series.max()), int(stretches(clock.breaks).max())
    each = "the series has" if len(series) == 1 else "the longest series has"
    rows = f"{longest:,} row{'s' * (longest != 1)}"
    if longest == 1:
        way_out = "A series needs many rows, one for each moment." + (
            " Is the column of id= the right one?" if len(series) > 1 else ""
        )
        raise InputError(f"{each} one row, so there is no past to learn from", longest, way_out)
    if horizon >= longest:
        way_out = f"Pass horizon={max(1, longest // 10)} or less, or a longer series."
        raise InputError(f"horizon is {{value}}, and {each} only {rows}", horizon, way_out)
    if window is not None and window + horizon > longest:
        most = longest - horizon
        raise InputError(
            f"window + horizon is {{value}}, and {each} only {rows}",
            window + horizon,
            f"Pass window={max(1, most // 10)} or so, and window={most} at most.",
        )
    if (window or 1) + horizon > whole:
        raise InputError(
            f"no window fits between gaps in time: it takes {{value}} rows, window and horizon "
            f"together, and the longest stretch without a gap has {whole:,}",
            (window or 1) + horizon,
            "Pass a smaller window or horizon, average over longer steps by resample='1D' or "
            "another (--resample), or take the rows as evenly spaced by leaving the times out.",
        )
    if window is not None:
        return window, ""
    length, why = default_window(clock, horizon, longest, whole)
    return length, f" (window was not given: {why})"


def _windows(table: Table, clock: Clock, length: int, horizon: int) -> Windows:
    """The whole windows; an InputError if there is none."""
    there = ~np.isnan(table.values)
    k = len(table.targets)
    seen = there.all(axis=1) if horizon else there[:, k:].all(axis=1)
    found = whole_windows(
        table.first, clock.breaks, seen, there[:, :k].all(axis=1), length, horizon
    )
    if len(found.starts):
        return found
    lacking = (~there).sum(axis=0)
    worst = int(np.argmax(lacking))
    name = table.names[worst]
    way_out = f"Pass a window smaller than {length}" if length > 1 else "Fill in what is missing"
    if lacking[worst] == len(there):
        way_out = "Name a column that has values as the target"
    if name in table.covariates:
        way_out += f", or leave the column out: {ignoring(name)}"
    raise InputError(
        f"each of the {found.count:,} windows of {length} + {horizon} rows touches a missing value "
        "or a gap; most values are missing in column {value}, "
        f"{lacking[worst]:,} of {len(there):,}",
        name,
        f"{way_out}.",
    )


def _samples(table: Table, clock: Clock, found: Windows, length: int, horizon: int) -> Samples:
    k = len(table.targets)
    skipped = 0 if horizon else k
    # of several series, those of the same moment stand together
    order = np.argsort(clock.time[found.starts + length - 1], kind="stable")
    return Samples(
        np.ascontiguousarray(table.values[:, skipped:]),
        np.ascontiguousarray(table.values[:, :k]),
        found.starts[order],
        length,
        horizon,
        False,
        clock.time,
        table.names[skipped:],
        table.targets,
    )
