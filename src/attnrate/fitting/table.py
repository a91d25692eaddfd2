"""Trials as a table: one row per trial, one column per setting or result; CSV and Parquet files."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnrate.errors import InputError, StoreError
from attnrate.extras import missing
from attnrate.files import replaced
from attnrate.fitting.records import Finished

if TYPE_CHECKING:
    import pandas as pd

_KINDS = (".csv", ".parquet")


def trials_frame(finished: Sequence[Finished]) -> "pd.DataFrame":
    """Finished trials as a data frame: the error, what varies and the seed come first.

    A setting within a table becomes a column with a dotted name, `target.alpha`. A list becomes one
    cell of JSON text, so that every cell is a number, a word or empty.
    """
    import pandas as pd

    from attnrate.fitting.means import varying

    table = pd.DataFrame([flat(row.row) for row in finished])
    first = ["error", *varying([flat(row.settings) for row in finished]), "seed"]
    there = [name for name in first if name in table]
    return table[[*there, *(name for name in table if name not in there)]]


def check_export(path: object) -> Path:
    """The path of a table to write; an InputError if it cannot be written, before any work."""
    if not isinstance(path, (str, Path)):
        raise InputError("export needs the name of a file", path, "As results.csv.")
    path = Path(path)
    if path.suffix not in _KINDS:
        raise InputError(
            "export does not know that kind of file", str(path), f"Use {' or '.join(_KINDS)}."
        )
    if not path.absolute().parent.is_dir():
        raise InputError("export needs a folder that exists", str(path.parent), "Create it first.")
    if path.suffix == ".parquet":
        try:
            import_module("pyarrow")
        except ImportError:
            without = "Export to a .csv file"
            raise missing("pyarrow", "parquet", "Parquet", str(path), without) from None
    return path


def export_frame(table: "pd.DataFrame", path: object) -> Path:
    """Write the table as .csv or .parquet; after a failure the file is as it was before.

    A column of Parquet has one type: numbers among words become words there.
    """
    path = check_export(path)
    try:
        with replaced(path) as beside:
            if path.suffix == ".csv":
                table.to_csv(beside, index=False)
            else:
                _one_type_a_column(table).to_parquet(beside, index=False, engine="pyarrow")
    except OSError as problem:
        raise StoreError(
            f"could not export ({problem.strerror or problem})",
            path,
            "The store is as it was; free some space or export to another folder.",
        ) from problem
    return path


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one table with dotted names; lists as JSON text."""
    row: dict[str, Any] = {}
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            row |= flat(entry, f"{prefix}{name}.")
        elif isinstance(entry, (list, Mapping)):
            row[prefix + name] = json.dumps(entry)
        else:
            row[prefix + name] = entry
    return row


def _one_type_a_column(table: "pd.DataFrame") -> "pd.DataFrame":
    from pandas import isna

    mixed = {
        name: column.map(lambda cell: None if isna(cell) else str(cell))
        for name, column in table.items()
        if len({isinstance(cell, str) for cell in column.dropna()}) > 1
    }
    return table.assign(**{str(name): column for name, column in mixed.items()})
