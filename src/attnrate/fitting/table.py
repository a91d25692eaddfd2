"""Trials as a table: one row a trial, one column a setting or result; CSV and Parquet files."""

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from attnrate.errors import InputError, StoreError
from attnrate.files import replaced

_KINDS = (".csv", ".parquet")


def frame(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of nested plain values as a data frame; `{"target": {"alpha": 1}}` -> `target.alpha`.

    A list becomes one cell of JSON text, so that every cell is a number, a word or empty.
    """
    return pd.DataFrame([_flat(row) for row in rows])


def check_export(path: object) -> Path:
    """`path` itself, or an InputError when it cannot be exported to; before the long work."""
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
            raise InputError(
                "Parquet needs pyarrow, which is not installed",
                str(path),
                "Install it: pip install 'attnrate[parquet]'; or use .csv.",
            ) from None
    return path


def export_frame(table: pd.DataFrame, path: object) -> Path:
    """Write the table as .csv or .parquet. The file is there whole or, after a failure, as before.

    In Parquet, where a column has one type, numbers among words become words.
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


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            row |= _flat(entry, f"{prefix}{name}.")
        elif isinstance(entry, (list, Mapping)):
            row[prefix + name] = json.dumps(entry)
        else:
            row[prefix + name] = entry
    return row


def _one_type_a_column(table: pd.DataFrame) -> pd.DataFrame:
    mixed = {
        name: column.map(lambda cell: None if pd.isna(cell) else str(cell))
        for name, column in table.items()
        if len({isinstance(cell, str) for cell in column.dropna()}) > 1
    }
    return table.assign(**{str(name): column for name, column in mixed.items()})
