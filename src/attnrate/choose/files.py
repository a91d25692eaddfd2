"""Files of data: tables in CSV and Parquet, arrays in npz; what cannot be read is refused."""

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Float64

from attnrate.choose.cells import numbers
from attnrate.choose.clock import ticks
from attnrate.choose.columns import Roles, require_column, roles
from attnrate.errors import InputError
from attnrate.extras import missing
from attnrate.spectra.inputs.files import is_packed, opened

Numbers: TypeAlias = Float64[np.ndarray, " rows"]
#: What is read at most: bytes of a table in text, and of the numbers that come of a file, which
#: leave room for the program itself in 2 GB
_MOST_BYTES = 2 << 30
_MOST_NUMBERS = 3 << 29
#: Bytes of text from which on a table is read piece by piece; a packed one grows about fivefold
_LARGE = 100_000_000
_GROWTH = 5
_ROWS = 250_000  # of a piece
#: What a ladder keeps of a row at most: functions of its values, and products of two of them
_MOST_FUNCTIONS, _MOST_PAIRS = 400, 300
_BEGINNING = 1 << 16  # bytes in which a file shows what it is
_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")
_OTHERS = {
    ".xlsx": "pandas.read_excel",
    ".xls": "pandas.read_excel",
    ".json": "pandas.read_json",
    ".jsonl": "pandas.read_json",
    ".feather": "pandas.read_feather",
    ".h5": "pandas.read_hdf",
    ".npy": "numpy.load",
}


def require_data_file(path: str | os.PathLike[str]) -> Path:
    """Give the path of a file of data whose ending is known; an InputError if it is none."""
    file = Path(path)
    if file.is_dir():
        inside = sorted(one.name for one in file.iterdir() if _ending(one))[:5]
        found = f" There are {', '.join(inside)} in it." if inside else ""
        raise InputError("this is a folder, not a file", str(file), f"Name a file.{found}")
    if not file.exists():
        beside = file.parent.iterdir() if file.parent.is_dir() else []
        names = sorted(one.name for one in beside if _ending(one))[:5]
        way_out = f"Beside it there are {', '.join(names)}." if names else "Check the path."
        raise InputError("there is no such file", str(file), way_out)
    if not _ending(file):
        other = _OTHERS.get(file.suffix.lower())
        way_out = f"Name it by one of {', '.join(_ENDINGS)} if it is such a file"
        if other:
            way_out = f"Read it by {other} and pass what that returns, or save it as .csv"
        raise InputError(
            "the ending of the file's name says no kind that is read", str(file), f"{way_out}."
        )
    if not file.stat().st_size:
        raise InputError("the file is empty", str(file), "Name a file with data.")
    if not os.access(file, os.R_OK):
        raise InputError("the file may not be read", str(file), "Ask its owner to let you.")
    return file


def _ending(path: Path) -> bool:
    return path.name.lower().endswith(_ENDINGS)


def require_room(rows: int, columns: int, source: str, *, ladder: bool = False) -> None:
    """Raise an InputError for more numbers than are held in the memory.

    Args:
        rows: The number of rows.
        columns: The number of columns of numbers.
        source: Where they come from.
        ladder: Whether what a ladder keeps of each row counts too: functions of its values,
            products of two of them, and their sums.

    """
    kept = 2 * columns  # as they are read, and in order
    if ladder:
        functions = min(_MOST_FUNCTIONS, columns * (8 if columns <= 2 else 5))
        pairs = columns * (columns - 1) // 2
        kept += 2 * functions + 2 * (pairs if pairs <= _MOST_PAIRS else 0)
    size = 8 * rows * kept
    if size > _MOST_NUMBERS:
        raise InputError(
            f"{source} is too large: {rows:,} rows of {columns:,} columns take {{value}} GB, and "
            f"at most {_MOST_NUMBERS / 2**30:g} GB are taken",
            round(size / 2**30, 1),
            f"Take {_MOST_NUMBERS // (8 * kept):,} rows, leave columns out by ignore= (--ignore), "
            "or average over longer steps of time"
            + (" by resample='1h' or another (--resample)." if ladder else " first."),
        )


def read_frame(
    path: Path,
    ignore: Sequence[str] = (),
    target: Sequence[str] | None = None,
    time: str | None = None,
    id: str | None = None,
) -> pd.DataFrame:
    """Read a table.

    Args:
        path: A file that `require_data_file` has seen.
        ignore: Columns that are not read.
        target: The columns that are wanted, if they were named; needed for large files, which are
            turned into numbers piece by piece.
        time: The column of times, if it was named.
        id: The column that names the series, if it was named.

    """
    if path.suffix.lower() == ".parquet":
        return _parquet(path, ignore)
    separator = "\t" if ".tsv" in path.name.lower()[-7:] else ","
    size = path.stat().st_size * (_GROWTH if is_packed(path) else 1)
    if size > _MOST_BYTES:
        raise InputError(
            "the file is too large: about {value} GB as text, and at most "
            f"{_MOST_BYTES >> 30} GB are read",
            round(size / 2**30, 1),
            "Average it over longer steps of time, take fewer rows, or save the columns that count "
            "as Parquet: pandas.read_csv(path, usecols=[...]).to_parquet('data.parquet').",
        )
    names = _header(path, separator)
    for name in ignore:
        require_column(name, names, "ignore")
    remedy = "Put quotes around cells that hold a separator, and write one row per line."
    if size <= _LARGE:
        with _reader(path, separator, remedy, header=0, names=names, low_memory=False) as frame:
            return _without(frame, ignore)
    found = roles(names, target, time, id, ignore)
    pieces, start = [], 0
    with _reader(path, separator, remedy, header=0, names=names, chunksize=_ROWS) as chunks:
        for some in chunks:
            pieces.append(_in_numbers(_without(some, ignore), found, start))
            start += len(some)
            require_room(start, len(found.targets) + len(found.covariates), path.name)
    return pd.concat(pieces, ignore_index=True)


def _without(frame: pd.DataFrame, ignore: Sequence[str]) -> pd.DataFrame:
    if not isinstance(frame.index, pd.RangeIndex):
        raise InputError(
            "a row has more cells than there are columns, which are {value}",
            [*frame.columns[:12]],
            "Put quotes around cells that hold a separator.",
        )
    return frame.drop(columns=[*ignore])


def _in_numbers(frame: pd.DataFrame, found: Roles, start: int) -> pd.DataFrame:
    """A piece of a table with numbers in place of text, but for the names of series."""
    made = {name: numbers(name, frame[name], "target", start) for name in found.targets}
    made |= {name: numbers(name, frame[name], "", start) for name in found.covariates}
    columns: dict[str, pd.Series | Numbers] = {**made}
    if found.id is not None:
        columns[found.id] = frame[found.id]
    if found.time is not None:
        rows = np.arange(start, start + len(frame), dtype=np.int64)
        read = ticks(found.time, frame[found.time], rows)
        moments = read.at.astype("datetime64[us]") if read.dated else read.at
        columns[found.time] = pd.Series(moments, index=frame.index)
    return pd.DataFrame(columns, index=frame.index)


def _header(path: Path, separator: str) -> list[str]:
    """The names in the first line of a table in text."""
    remedy = "Save it as text in UTF-8, one row per line, the names of the columns in the first."
    with opened(path) as file:
        beginning = file.read(_BEGINNING)
    if b"\0" in beginning or beginning[:4] in (b"PAR1", b"PK\x03\x04"):
        raise InputError("the file is no text, whatever its name says", str(path), remedy)
    if not beginning.strip():
        raise InputError(
            "the file holds nothing but white space", str(path), "Name a file with data."
        )
    # with the line below it, which shows whether there are more cells than names
    options = {"header": None, "nrows": 2, "dtype": str, "keep_default_na": False}
    with _reader(path, separator, remedy, **options) as first:
        names = [str(one) for one in first.iloc[0]]
    if len(names) == 1:
        for other, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), ("|", "bars")):
            if other != separator and other in names[0]:
                raise InputError(
                    f"the columns seem to be separated by {word}: the first line is {{value}}",
                    names[0],
                    f"Save it with {'tabs' if separator != ',' else 'commas'}, or pass "
                    f"pandas.read_csv({path.name!r}, sep={other!r}).",
                )
    twice = [name for i, name in enumerate(names) if name and name in names[:i]]
    if twice:
        raise InputError("two columns have the same name", twice[0], "Rename one of them.")
    if names and all(_is_number(name) for name in names):
        way_out = "Write a line with names above it."
        raise InputError(
            "the first line holds numbers in place of names of columns", names[:8], way_out
        )
    # as pandas names them
    return [name or f"Unnamed: {i}" for i, name in enumerate(names)]


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


@contextmanager
def _reader(path: Path, separator: str, remedy: str, **options: Any) -> Iterator[Any]:
    """What pandas reads of a table in text; an InputError where it cannot."""
    try:
        with opened(path) as file:
            yield pd.read_csv(file, sep=separator, encoding="utf-8-sig", **options)
    except UnicodeDecodeError as problem:
        what = f"the file is no text in UTF-8 (byte {problem.start} of what was read)"
        raise InputError(what, str(path), "Save it as UTF-8.") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as problem:
        said = str(problem).strip().removeprefix("Error tokenizing data. C error: ")
        raise InputError(f"the file is no table ({said})", str(path), remedy) from None


def _parquet(path: Path, ignore: Sequence[str]) -> pd.DataFrame:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing(
            "pyarrow", "parquet", "a .parquet file", str(path), "Save it as .csv"
        ) from None
    try:
        with ParquetFile(path) as file:
            # those of the frame's index too, under names of their own
            names = [str(name) for name in file.schema_arrow.names]
            for name in ignore:
                require_column(name, names, "ignore")
            wanted = [name for name in names if name not in ignore]
            require_room(file.metadata.num_rows, len(wanted), path.name)
            frame: pd.DataFrame = file.read(wanted, use_pandas_metadata=True).to_pandas()
            return frame
    except (ArrowException, OSError) as problem:
        said = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise InputError(
            f"the file is no whole Parquet ({said})", str(path), "Write it anew."
        ) from None


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the arrays x and y of an .npz file.

    Args:
        path: A file that `require_data_file` has seen.

    """
    way_out = "Write it by numpy.savez(path, x=x, y=y)."
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(one.file_size for one in packed.infolist())
        if size > _MOST_NUMBERS:
            most = _MOST_NUMBERS / 2**30
            what = f"the arrays take {{value}} GB, and at most {most:g} GB are taken"
            raise InputError(what, round(size / 2**30, 1), "Take fewer or shorter sequences.")
        with np.load(path, allow_pickle=False) as arrays:
            lacking = [name for name in ("x", "y") if name not in arrays.files]
            if lacking:
                what = f"the file has no array {' and no array '.join(lacking)}; it has {{value}}"
                raise InputError(what, [*arrays.files], way_out)
            return arrays["x"], arrays["y"]
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as problem:
        raise InputError(f"the file is no whole .npz ({problem})", str(path), way_out) from None
    except ValueError:
        raise InputError(
            "the arrays hold Python objects, which are not opened because that could run code",
            str(path),
            "Save numbers: numpy.savez(path, x=x.astype(float), y=y.astype(float)).",
        ) from None
