"""Files of inputs: what their ending says they hold, and how they are opened."""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, TypeAlias, cast

from attnrate.errors import InputError

TableKind: TypeAlias = Literal["json lines", "json", "csv", "tsv", "parquet"]
_TABLES: dict[str, TableKind] = {
    ".jsonl": "json lines",
    ".ndjson": "json lines",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_BEGINNING = 1 << 16  # bytes in which a file of JSON shows itself
_JSON = re.compile(rb'^(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{\s*"(?:[^"\\\n]|\\.)*"\s*:')


def table_kind(path: str | os.PathLike[str]) -> TableKind | None:
    """The kind of table that the ending of a file's name says; None for running text.

    The ending .gz after it says that the file is compressed.
    """
    name = Path(path).name.lower()
    return _TABLES.get(Path(name.removesuffix(".gz")).suffix)


def is_packed(path: Path) -> bool:
    """Whether a file is compressed by gzip, by the ending of its name."""
    return path.suffix.lower() == ".gz"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is compressed; an InputError where they break off."""
    try:
        with gzip.open(path) if is_packed(path) else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except (gzip.BadGzipFile, zlib.error, EOFError) as problem:
        raise InputError(
            f"the compressed file is broken or breaks off ({problem})", str(path), "Pack it anew."
        ) from None


def require_prose(path: Path) -> None:
    """Raise an InputError for a table, whose names and braces would be read as prose."""
    way_out = "Read it by ar.read_table; column= names the column with the texts."
    if table_kind(path) is not None:
        raise InputError("the file is a table, and no running text", str(path), way_out)
    with opened(path) as file:
        if _JSON.match(file.read(_BEGINNING)):
            raise InputError(
                "the file holds JSON, whose names and braces would be read as prose",
                str(path),
                "Give its name the ending .jsonl (one object per line) or .json (a list of "
                "objects), and read it as a table.",
            )
