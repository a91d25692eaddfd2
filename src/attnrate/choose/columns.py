"""Which column of a frame is what: the target, its covariates, the time and the series."""

import difflib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float64, Int64

from attnrate.choose.cells import numbers, place
from attnrate.errors import InputError

#: Names by which columns are known, in lower case
_IDS = ("unique_id", "item_id")
_TIMES = ("ds", "timestamp", "date", "time", "datetime")
_TARGETS = ("y", "target")
#: Names of columns that number the rows
_NUMBERING = re.compile(r"(^|[\W_])(id|uuid|guid|key|index|row|nr|no)$", re.IGNORECASE)
#: The names that a message lists at most
_LISTED = 12


@dataclass(frozen=True)
class Roles:
    """Which column is what.

    Attributes:
        targets: The columns that are wanted.
        covariates: The other columns that inform about them.
        time: The column that says when each row was taken; None if there is none.
        id: The column that says which series each row belongs to; None if there is one series.

    """

    targets: tuple[str, ...]
    covariates: tuple[str, ...]
    time: str | None
    id: str | None


@dataclass(frozen=True, eq=False)
class Table:
    """A frame in numbers: the rows of each series one after the other, in their order.

    Attributes:
        values: The targets, then the covariates; NaN where a value is missing.
        targets: The names of the targets.
        covariates: The names of the covariates.
        time: When each row was taken, as the frame has it; None where it does not say.
        series: The number of the series of each row: 0, then 1, …
        ids: The name of each series.
        rows: The number of each row in the frame.

    """

    values: Float64[np.ndarray, "rows columns"]
    targets: tuple[str, ...]
    covariates: tuple[str, ...]
    time: pd.Series | None
    series: Int64[np.ndarray, " rows"]
    ids: tuple[str, ...]
    rows: Int64[np.ndarray, " rows"]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of `values`."""
        return self.targets + self.covariates

    @property
    def first(self) -> Bool[np.ndarray, " rows"]:
        """Whether a row is the first of its series."""
        return np.diff(self.series, prepend=-1) > 0

    def without(self, names: Sequence[str]) -> "Table":
        """The table without some of its covariates."""
        kept = [i for i, name in enumerate(self.names) if name not in names]
        covariates = tuple(name for name in self.covariates if name not in names)
        return replace(self, values=self.values[:, kept], covariates=covariates)


def plain(frame: pd.DataFrame, time: str | None, id: str | None) -> tuple[pd.DataFrame, str | None]:
    """Make a frame whose columns have strings for names, with its index among them where it counts.

    Args:
        frame: The frame.
        time: The name of the column of times, if it was given.
        id: The name of the column of series, if it was given.

    Returns:
        The frame, and the name of the column that its index of times has become, or None.

    """
    if isinstance(frame.columns, pd.MultiIndex):
        raise InputError(
            "the columns have names of several levels",
            [*frame.columns[:3]],
            "Join them: frame.columns = ['_'.join(map(str, name)) for name in frame.columns].",
        )
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        way_out = "Rename one of them, or drop it: frame.loc[:, ~frame.columns.duplicated()]."
        raise InputError("two columns have the same name", twice[0], way_out)
    index, levels, clock = frame.index, {}, None
    for number, given in enumerate(index.names):
        level = index.get_level_values(number)
        timed = isinstance(level, pd.DatetimeIndex | pd.PeriodIndex)
        name = "index" if given is None else str(given)
        known = name in (time, id) or name.lower() in _IDS + _TIMES
        if name in names or not (timed or (given is not None and known)):
            continue
        if isinstance(level, pd.PeriodIndex):
            level = level.to_timestamp()
        levels[name] = pd.Series(level, index=pd.RangeIndex(len(frame)))
        clock = name if timed and clock is None else clock
    found = frame.set_axis(names, axis=1).reset_index(drop=True)
    return (pd.concat([pd.DataFrame(levels), found], axis=1) if levels else found), clock


def roles(
    names: Sequence[str],
    target: str | Sequence[str] | None = None,
    time: str | None = None,
    id: str | None = None,
    ignore: Sequence[str] = (),
    clock: str | None = None,
) -> Roles:
    """Say which column is what, by what was given and by the names in common use.

    Args:
        names: The names of all columns.
        target: The column or columns that are wanted; None takes the one named y or target.
        time: The column of times; None takes the one named ds, timestamp, date, time or datetime.
        id: The column that names the series; None takes unique_id or item_id.
        ignore: Columns that are left out.
        clock: The column that the frame's index of times has become, which is the time if `time`
            is None.

    """
    ignore = [ignore] if isinstance(ignore, str) else [*ignore]
    for name in ignore:
        require_column(name, names, "ignore")
    left = [name for name in names if name not in ignore]
    for argument, column in (("time", time), ("id", id)):
        if column is not None:
            require_column(column, left, argument, ignore)
    if target is None:
        targets = [name for name in [_known("target", _TARGETS, left, None)] if name]
    else:
        targets = [target] if isinstance(target, str) else [*target]
    if not targets:
        raise InputError("target names no column", targets, "Pass target='...'.")
    for name in targets:
        require_column(name, left, "target", ignore)
    if len({*targets}) < len(targets):
        raise InputError("target names a column twice", targets, "Name it once.")
    free = [name for name in left if name not in targets]
    id = _known("id", _IDS, free, id)
    if clock in free:
        time = time or clock
    time = _known("time", _TIMES, [name for name in free if name != id], time)
    for argument, column in (("time", time), ("id", id)):
        if column in targets:
            what = f"the target cannot be the {argument} too"
            raise InputError(what, column, "Name another column.")
    if time is not None and time == id:
        raise InputError("time and id name the same column", time, "Name two columns.")
    covariates = tuple(name for name in free if name not in (id, time))
    return Roles(tuple(targets), covariates, time, id)


def _known(what: str, known: Sequence[str], names: Sequence[str], given: str | None) -> str | None:
    """The column that was given, or the one with a name in common use; None if there is none."""
    if given is not None:
        return given
    found = [name for name in names if name.lower() in known]
    if len(found) > 1:
        join = (
            " A date and a time of day are joined by pandas.to_datetime." if what == "time" else ""
        )
        raise InputError(
            f"several columns could be the {what}: {{value}}",
            found,
            f"Say which: {what}={found[0]!r} (--{what} {shlex.quote(found[0])}).{join}",
        )
    if not found and what == "target":
        raise InputError(
            "no column is named 'y' or 'target', so the target must be named; the columns are "
            "{value}",
            [*names[:_LISTED]],
            f"Pass target={names[-1]!r} (--target {shlex.quote(names[-1])})." if names else "",
        )
    return found[0] if found else None


def require_column(
    name: str, names: Sequence[str], argument: str, ignored: Sequence[str] = ()
) -> None:
    """Raise an InputError, which names the nearest column, unless there is a column of this name.

    Args:
        name: The name that was given.
        names: The names of the columns that are there.
        argument: The argument by which it was given.
        ignored: Columns that are left out.

    """
    if name in names:
        return
    if name in ignored:
        way_out = f"Take it out of ignore, or give another {argument}."
        raise InputError(f"the column of {argument} is among those to ignore", name, way_out)
    near = difflib.get_close_matches(str(name), names, 1, 0.5)
    listed = ", ".join(map(repr, names[:_LISTED])) + (", ..." if len(names) > _LISTED else "")
    way_out = (f"Did you mean {near[0]!r}? " if near else "") + f"There are {listed or 'none'}."
    raise InputError(f"{argument} names a column that is not there", name, way_out)


def tabulate(frame: pd.DataFrame, found: Roles) -> Table:
    """Give a frame as numbers, the rows of each series one after the other.

    Args:
        frame: A frame that `plain` has made.
        found: Which column is what.

    """
    count = len(frame)
    if not count:
        way_out = "Pass a frame, or name a file, that has some."
        raise InputError("there are no rows below the names of the columns", count, way_out)
    columns = [numbers(name, frame[name], "target") for name in found.targets]
    columns += [numbers(name, frame[name]) for name in found.covariates]
    series = np.zeros(count, dtype=np.int64)
    ids: tuple[str, ...] = ("",)
    if found.id is not None:
        codes, known = pd.factorize(frame[found.id])
        if (codes < 0).any():
            what = f"column {found.id!r}, which names the series, is empty in "
            what += f"{place(int(np.argmin(codes)))}, where it has {{value}}"
            raise InputError(what, None, "Name the series, or leave the row out.")
        series, ids = codes.astype(np.int64), tuple(str(one) for one in known)
    order = np.argsort(series, kind="stable")
    time = None if found.time is None else frame[found.time].iloc[order]
    return Table(
        np.column_stack(columns)[order],
        found.targets,
        found.covariates,
        time,
        series[order],
        ids,
        order.astype(np.int64),
    )


def useless(table: Table) -> tuple[list[str], list[str]]:
    """Find covariates that say nothing: empty, constant, or numbers of the rows.

    Args:
        table: The table.

    Returns:
        The names, and a sentence about each kind.

    """
    kinds: dict[str, list[str]] = {"empty": [], "constant": [], "only a number of the row": []}
    first = table.first
    for name in table.covariates:
        values = table.values[:, table.names.index(name)]
        there = values[~np.isnan(values)]
        if not there.size:
            kinds["empty"].append(name)
        elif there.min() == there.max():
            kinds["constant"].append(name)
        elif there.size == values.size and _counts(name, values, first):
            kinds["only a number of the row"].append(name)
    said = [
        f"left out, because {'it is' if len(names) == 1 else 'they are'} {kind}: "
        + ", ".join(map(repr, names))
        for kind, names in kinds.items()
        if names
    ]
    return [name for names in kinds.values() for name in names], said


def _counts(
    name: str, values: Float64[np.ndarray, " rows"], first: Bool[np.ndarray, " rows"]
) -> bool:
    """Whether a column rises by the same amount at each row, or is a key without two alike."""
    steps = np.diff(values)[~first[1:]]
    if steps.size > 1 and steps[0] != 0 and np.allclose(steps, steps[0], rtol=1e-9, atol=0):
        return True
    whole = bool((values == np.rint(values)).all())
    return whole and bool(_NUMBERING.search(name)) and np.unique(values).size == values.size
