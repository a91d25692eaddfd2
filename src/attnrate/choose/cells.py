"""The cells of a column as numbers: what is missing, what is text, and what cannot be used."""

import re
import shlex

import numpy as np
import pandas as pd
from jaxtyping import Float64

from attnrate.errors import InputError

#: Words for True and False that a column of text may hold
_SWITCHES = {"true": 1.0, "false": 0.0}


def place(row: int) -> str:
    """Say which row: "row 17 (the first is 0)"."""
    return f"row {row} (the first is 0)"


def counted(count: int, thing: str) -> str:
    """Say a number of things: "1 row", "1,200 rows"."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def ignoring(name: str) -> str:
    """Say how a column is left out, in Python and on the command line."""
    return f"ignore=[{name!r}] (--ignore {shlex.quote(name)})"


def numbers(
    name: str, cells: pd.Series, argument: str = "", start: int = 0
) -> Float64[np.ndarray, " rows"]:
    """Give a column as numbers, NaN where a cell is missing; True is 1 and False is 0.

    Args:
        name: The name of the column.
        cells: Its cells.
        argument: "target" for a target, which cannot be left out.
        start: The number of the first row.

    Raises:
        InputError: The column holds text, times, complex or infinite numbers.

    """
    label = f"the target {name!r}" if argument else f"column {name!r}"
    other = "Name another column as the target." if argument else f"Leave it out: {ignoring(name)}."
    kind = cells.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or isinstance(kind, pd.PeriodDtype):
        way_out = (
            other if argument else f"Pass time={name!r} if rows are taken then. Else l{other[1:]}"
        )
        raise InputError(f"{label} holds times", _shown(cells.iloc[0]), way_out)
    if pd.api.types.is_timedelta64_dtype(kind):
        way_out = f"Write frame[{name!r}] = frame[{name!r}].dt.total_seconds()."
        raise InputError(f"{label} holds durations", _shown(cells.iloc[0]), way_out)
    if pd.api.types.is_complex_dtype(kind):
        raise InputError(
            f"{label} holds complex numbers",
            _shown(cells.iloc[0]),
            f"Write two columns: frame[{name!r}].to_numpy().real and .imag.",
        )
    if pd.api.types.is_numeric_dtype(kind):
        found = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        found = _of_text(name, cells.astype(object), label, other, bool(argument), start)
    wrong = np.flatnonzero(np.isinf(found))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{label} has {counted(wrong.size, 'infinite value')}; the first, in "
            f"{place(start + row)}, is {{value}}",
            _shown(cells.iloc[row]),
            f"Mark what is missing as missing: frame[{name!r}].replace([np.inf, -np.inf], np.nan).",
        )
    return found


def _of_text(
    name: str, cells: pd.Series, label: str, other: str, wanted: bool, start: int
) -> Float64[np.ndarray, " rows"]:
    empty = cells.isna().to_numpy(dtype=bool)
    empty = empty | np.array(
        [isinstance(one, str) and not one.strip() for one in cells], dtype=bool
    )
    words = cells.map(
        lambda one: _SWITCHES.get(one.strip().lower()) if isinstance(one, str) else one
    )
    texts = np.array([isinstance(one, str) for one in cells], dtype=bool)
    switched = texts & words.notna().to_numpy(dtype=bool)
    read = pd.to_numeric(words.where(switched, cells), errors="coerce")
    found = read.to_numpy(dtype=np.float64, na_value=np.nan)
    spelled = [isinstance(one, str) and one.strip().lower() == "nan" for one in cells]
    wrong = np.flatnonzero(np.isnan(found) & ~empty & ~np.array(spelled, dtype=bool))
    if not wrong.size:
        return found
    row = int(wrong[0])
    value = _shown(cells.iloc[row])
    if 2 * wrong.size <= int((~empty).sum()):
        raise InputError(
            f"{label} has text in {place(start + row)}: {{value}}; "
            + ("no other cell does" if wrong.size == 1 else f"{wrong.size:,} cells do"),
            value,
            f"Correct it, or mark it as missing: pandas.to_numeric(frame[{name!r}], "
            "errors='coerce')." + ("" if wanted else f" Or l{other[1:]}"),
        )
    way_out = other
    if not wanted:
        way_out += f" If it names the series, pass id={name!r} (--id {shlex.quote(name)})."
        if _looks_like_time(value):
            way_out = f"If rows are taken then, pass time={name!r} (--time {shlex.quote(name)})."
            way_out += f" Else l{other[1:]}"
    raise InputError(
        f"{label} holds text, such as {{value}} in {place(start + row)}", value, way_out
    )


def _shown(cell: object) -> object:
    """A cell for a message: numbers of numpy as those of Python, times as text."""
    if isinstance(cell, np.generic):
        return cell.item()
    return str(cell) if isinstance(cell, pd.Timestamp | pd.Period | pd.Timedelta) else cell


def _looks_like_time(value: object) -> bool:
    return isinstance(value, str) and bool(re.match(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}", value))
