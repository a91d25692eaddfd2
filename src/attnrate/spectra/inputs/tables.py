"""Reading files of rows as inputs of a language model: JSON lines, JSON, CSV and Parquet.

Rows are read a few at a time, so that a large file does not fill the memory.
"""

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from attnrate.errors import InputError
from attnrate.extras import missing
from attnrate.settings import Count, by, checked
from attnrate.spectra.batches import first_line
from attnrate.spectra.inputs.batched import Batches, BatchStream
from attnrate.spectra.inputs.checks import require_file, require_length
from attnrate.spectra.inputs.files import TableKind, opened, table_kind
from attnrate.spectra.inputs.kinds import Tokenizer
from attnrate.spectra.inputs.texts import read_texts, require_tokenizer
from attnrate.spectra.load import ModelLike, require_model

_AT_ONCE = 256  # rows
_CHARACTERS = 1 << 16  # read at a time from a JSON file
_BUFFER = 1 << 18  # bytes of a Parquet column that are read at a time
_LONGEST = 1 << 26  # characters of a row
_MARK = "\ufeff"  # at the beginning of files that some Windows programs write
_NOT_WHITE = re.compile(rf"[^{_MARK} \t\r\n]")
_DECODER = json.JSONDecoder()


def _require_table(name: str, value: object) -> Path:
    """`value` as the path of a table, or an InputError."""
    path = require_file(name, value)
    if table_kind(path) is None:
        raise InputError(
            "the file is no table, by the ending of its name",
            str(path),
            "Tables end in .jsonl, .json, .csv, .tsv (each also in .gz) or .parquet; read running "
            "text by ar.read_text.",
        )
    return path


@checked
def read_table(
    model: Annotated[ModelLike, by(require_model)],
    path: Annotated[str | os.PathLike[str], by(_require_table)],
    column: str | None = None,
    length: Annotated[int | None, by(require_length)] = None,
    batch: Count = 8,
    limit: Count | None = None,
    tokens: Count | None = None,
    tokenizer: Annotated[Tokenizer | None, by(require_tokenizer)] = None,
) -> Batches | BatchStream:
    """Read a file of rows as inputs of a language model: each row is one input.

    A row is cut off after `length` tokens, unlike running text (`read_text`), which is cut into
    pieces. The file is read from its beginning, a few rows at a time: shuffle a file that is
    sorted.

    Args:
        model: A model opened by `load_model`. A torch module will do for rows of token ids, or
            with `tokenizer`.
        path: A file whose name ends in .jsonl (one JSON object per line), .json (a list of
            objects, or one per line), .csv, .tsv or .parquet (needs the package pyarrow). All but
            the last may be compressed, with .gz after the ending.
        column: The column that holds a string or a chat; by default "text", or "messages". Columns
            named like the model's arguments, such as input_ids, are taken as they are.
        length: The number of tokens after which a row is cut off, special ones counted. By default
            512, or the largest number that the model takes if that is smaller.
        batch: The number of rows in a batch.
        limit: The largest number of rows, taken from the beginning; all by default.
        tokens: The number of tokens after which no further row is read, padding not counted; the
            last row is taken whole. With `limit`, whichever ends first.
        tokenizer: A tokenizer of transformers, for a model that comes without one.

    Returns:
        `Batches` with `limit` or `tokens`: the rows are then read at once. Otherwise a
        `BatchStream`, which reads them as they come.

    Raises:
        InputError: The file is broken, there is no such column, or a row is empty or no string.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=8)).save_pretrained("tiny-bert")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "rose", "is"]
        >>> _ = Path("tiny-bert/vocab.txt").write_text("\\n".join(words))
        >>> _ = Path("roses.csv").write_text("title,body\\na,a rose is\\nis,a rose\\n")
        >>> loaded = ar.load_model("tiny-bert")
        >>> batches = ar.read_table(loaded, "roses.csv", column="body", limit=64)
        >>> batches
        2 inputs in 1 batch, 9 tokens

    """
    file = Path(path)
    kind = table_kind(file)
    assert kind is not None  # _require_table has seen it
    table = TableFile(file, kind)
    return read_texts(model, table, column, length, batch, limit, tokens, tokenizer)


@dataclass(frozen=True)
class TableFile:
    """A file of rows, which is read anew whenever it is gone through.

    Attributes:
        path: The file.
        kind: What the file holds.
        only: The columns to read; None reads all.

    """

    path: Path
    kind: TableKind
    only: tuple[str, ...] | None = None

    @property
    def column_names(self) -> list[str] | None:
        """The names of the columns; None where the rows have none. Those of JSON: of its first."""
        if self.kind == "parquet":
            with _parquet(self.path) as parquet:
                return [str(name) for name in parquet.schema_arrow.names]
        if self.kind in _SEPARATORS:
            with _pandas(self.path, _SEPARATORS[self.kind], nrows=0) as frame:
                return [str(name) for name in frame.columns]
        first = next(iter(self), None)
        return [*first] if isinstance(first, Mapping) else None

    def select_columns(self, column_names: list[str]) -> "TableFile":
        """The file, read with these columns alone."""
        return replace(self, only=tuple(column_names))

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return _READERS[self.kind](self.path, self.only)


def _of_parquet(path: Path, only: tuple[str, ...] | None) -> Iterator[Mapping[str, object]]:
    columns = None if only is None else list(only)
    with _parquet(path) as parquet:
        for some in parquet.iter_batches(batch_size=_AT_ONCE, columns=columns):
            yield from some.to_pylist()


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing("pyarrow", "parquet", "a .parquet file", str(path)) from None
    try:
        # by default pyarrow reads all of the file ahead
        with ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as parquet:
            yield parquet
    except (ArrowException, OSError) as problem:
        what = f"the file is no whole Parquet ({first_line(problem)})"
        raise InputError(what, str(path), "Write it anew.") from None


_SEPARATORS = {"csv": ",", "tsv": "\t"}


def _of_text_table(separator: str) -> Callable[..., Iterator[Mapping[str, object]]]:
    def read(path: Path, only: tuple[str, ...] | None) -> Iterator[Mapping[str, object]]:
        import pandas as pd

        # pandas is given no columns to read: it would then not see that a row has too many cells
        with _pandas(path, separator, chunksize=_AT_ONCE) as chunks:
            for some in chunks:
                if not isinstance(some.index, pd.RangeIndex):
                    what = "a row has more cells than there are columns, which are {value}"
                    raise InputError(what, [*some.columns], "Put quotes around cells with commas.")
                names = list(some.columns if only is None else only)
                for row in some[names].itertuples(index=False, name=None):
                    yield dict(zip(names, row, strict=True))

    return read


@contextmanager
def _pandas(path: Path, separator: str, **options: Any) -> Iterator[Any]:
    """What pandas reads of a table in text, all cells as strings."""
    import pandas as pd

    remedy = "Save it as UTF-8, with one row per line and the names of the columns in the first."
    try:
        with opened(path) as file:
            yield pd.read_csv(
                file, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig",
                **options,
            )  # fmt: skip
    except UnicodeDecodeError as problem:
        what = f"the file is no text in UTF-8 ({first_line(problem)})"
        raise InputError(what, str(path), remedy) from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError) as problem:
        what = f"the file is no table ({first_line(problem)})"
        raise InputError(what, str(path), remedy) from None


def _of_json(path: Path, only: tuple[str, ...] | None) -> Iterator[Mapping[str, object]]:
    """The rows of a file that is a JSON list, or has a JSON object per line."""
    with _text(path) as file:
        listed = _Characters(file).next() == "["
    return _of_list(path, only) if listed else _of_lines(path, only)


def _of_lines(path: Path, only: tuple[str, ...] | None) -> Iterator[Mapping[str, object]]:
    """The rows of a file with a JSON value per line; empty lines are left out."""
    number = 0
    with _text(path) as file:
        while line := file.readline(_LONGEST + 1):
            number += 1
            plain = line.removeprefix(_MARK).strip()
            if plain:
                try:
                    value = json.loads(plain)
                except (ValueError, RecursionError) as problem:
                    raise _no_json(path, f"line {number}", problem) from None
                yield _row(value, path, f"line {number}")


def _of_list(path: Path, only: tuple[str, ...] | None) -> Iterator[Mapping[str, object]]:
    """The entries of a JSON list, decoded one after another."""
    number = 0
    with _text(path) as file:
        left = _Characters(file)
        left.next()
        left.at += 1  # the bracket
        while left.next() != "]":
            if number:
                if left.next() != ",":
                    raise _no_json(path, f"entry {number - 1}", ValueError("no comma after it"))
                left.at += 1
            try:
                value = left.value()
            except (ValueError, RecursionError) as problem:
                raise _no_json(path, f"entry {number}", problem) from None
            yield _row(value, path, f"entry {number}")
            number += 1
        left.at += 1
        if left.next():
            raise _no_json(path, "what follows the list", ValueError("there is more after its end"))


class _Characters:
    """The characters of a file that are still to be read; few of them are in the memory.

    Attributes:
        at: The place of the next character in what has been read of the file.

    """

    def __init__(self, file: io.TextIOWrapper) -> None:
        self._file, self._read, self.at = file, "", 0

    def next(self) -> str:
        """The next character that is not white, which is not yet used; "" at the end."""
        while True:
            found = _NOT_WHITE.search(self._read, self.at)
            if found:
                self.at = found.start()
                return found[0]
            self._read, self.at = self._file.read(_CHARACTERS), 0
            if not self._read:
                return ""

    def value(self) -> Any:
        """The next JSON value; a ValueError where there is none."""
        self.next()
        while True:
            try:
                value, self.at = _DECODER.raw_decode(self._read, self.at)
                return value
            except ValueError:
                # it may go on in what is not yet read
                held = len(self._read) - self.at
                more = "" if held > _LONGEST else self._file.read(max(_CHARACTERS, held))
                if not more:
                    raise
                self._read, self.at = self._read[self.at :] + more, 0


@contextmanager
def _text(path: Path) -> Iterator[io.TextIOWrapper]:
    with opened(path) as file:
        try:
            with io.TextIOWrapper(file, encoding="utf-8") as text:
                yield text
        except UnicodeDecodeError as problem:
            what = f"the file is no text in UTF-8 (byte {problem.start} of what was read)"
            raise InputError(what, str(path), "Save it as UTF-8.") from None


def _row(value: Any, path: Path, where: str) -> Any:
    if not isinstance(value, dict | str | list):
        way_out = "Each row is an object, a string, or a list of messages."
        raise InputError(f"{where} of {path.name} is no row", value, way_out)
    return value


def _no_json(path: Path, where: str, problem: Exception) -> InputError:
    return InputError(
        f"{where} of the file is no JSON ({first_line(problem)})",
        str(path),
        "Write one JSON object per line (.jsonl), or one list of objects (.json).",
    )


_READERS: dict[TableKind, Callable[..., Iterator[Mapping[str, object]]]] = {
    "parquet": _of_parquet,
    "csv": _of_text_table(","),
    "tsv": _of_text_table("\t"),
    "json": _of_json,
    "json lines": _of_lines,
}
