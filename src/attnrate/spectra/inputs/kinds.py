"""The types of what people give as inputs: texts, chats, rows of tables, and their tokenizer."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch

from attnrate.errors import InputError

Values: TypeAlias = torch.Tensor | np.ndarray
Message: TypeAlias = Mapping[str, str | Sequence[Mapping[str, str]] | None]
Chat: TypeAlias = Sequence[Message]
Numbers: TypeAlias = Sequence[int] | Sequence[float] | Sequence[Sequence[float]]
Cell: TypeAlias = str | int | float | Values | Sequence[str] | Numbers | Chat | None
Row: TypeAlias = Mapping[str, Cell]


@runtime_checkable
class Rows(Protocol):
    """A table that is gone through row by row, such as a dataset of the package `datasets`."""

    @property
    def column_names(self) -> Sequence[str] | None:
        """The names of the columns; None where only the rows say them."""

    def select_columns(self, column_names: list[str]) -> "Rows":
        """The table with these columns alone."""

    def __iter__(self) -> Iterator[Mapping[str, object]]: ...


@runtime_checkable
class Tokenizer(Protocol):
    """A tokenizer of transformers, or a function that is called like one."""

    def __call__(
        self, text: list[str], *, add_special_tokens: bool, truncation: bool, max_length: int
    ) -> Mapping[str, Sequence[Sequence[int]]]:
        """The token ids of each text, as "input_ids"."""


Texts: TypeAlias = Iterable[str] | Iterable[Chat] | Iterable[Row] | Rows
"""Texts, each of which is one input: strings, chats, or the rows of a table.

A chat is a list of messages, dictionaries with "role" and "content". The rows are those of a
dataset of the package `datasets` (a `Dataset`, or an `IterableDataset`, streaming too), or
dictionaries of your own. A row holds a string or a chat in one of its columns, or token ids in
columns that are named like the model's arguments. Lists, generators and datasets will do.
"""


def is_chat(value: object) -> bool:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(one, Mapping) and "role" in one for one in value)
    )


def require_not_single(name: str, value: object) -> None:
    """Raise an InputError for what is one text or one table, and not several inputs.

    Going through a string yields its letters, through a data frame the names of its columns, and
    through a dictionary of splits their names.
    """
    if isinstance(value, str | bytes | os.PathLike):
        what = f"{name} must be a list of texts, and not one text or path"
        way_out = "Pass [text], or read a file by ar.read_text or ar.read_table."
        raise InputError(what, value, way_out)
    if is_chat(value):
        raise InputError(f"{name} must be a list of chats, and not one chat", value, "Pass [chat].")
    if isinstance(value, Mapping) and any(isinstance(one, Rows) for one in value.values()):
        what = f"{name} has several splits: {{value}}"
        raise InputError(what, [*value], f"Pass one of them, as {name}[{next(iter(value))!r}].")
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        what = f"{name} is a data frame, and going through it yields the names of its columns"
        way_out = 'Pass frame["text"].tolist(), or frame.to_dict("records").'
        raise InputError(what, type(value).__name__, way_out)
