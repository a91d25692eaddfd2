"""What people give as inputs, told apart, and made into batches."""

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.batches import BatchLike, Inputs
from attnrate.spectra.inputs.batched import Batches, BatchStream
from attnrate.spectra.inputs.checks import arguments
from attnrate.spectra.inputs.kinds import Rows, Texts, Values
from attnrate.spectra.inputs.texts import read_texts
from attnrate.spectra.load import ModelLike, module_of

Batched: TypeAlias = BatchLike | Iterable[BatchLike]


def as_batches(model: ModelLike, inputs: Inputs) -> Batched:
    """Inputs of any kind as batches of a model.

    Batches stay as they are. Strings, chats and rows are read by `read_texts`. Of batches that are
    tuples, as (x, label) of a DataLoader, the first entry is taken.

    Args:
        model: The model that is run on the inputs.
        inputs: What the user gave.

    Returns:
        A batch, or batches one after another; a stream is begun when it is gone through.

    """
    if isinstance(inputs, Mapping | torch.Tensor | np.ndarray | Batches | BatchStream):
        return cast(Batched, inputs)
    if isinstance(inputs, Rows):
        return read_texts(model, inputs)
    if isinstance(inputs, Collection) and len(inputs):
        # unlike a DataLoader or a generator, a collection can be looked at without being used up
        kind = _kind(next(iter(inputs)))
        if kind == "text":
            return read_texts(model, cast(Texts, inputs))
        if isinstance(inputs, Sequence):
            return inputs if kind == "batch" else [_first(one, module_of(model)) for one in inputs]
    return _Stream(model, cast(Iterable[Any], inputs))


@dataclass(frozen=True)
class _Stream:
    """Inputs whose kind only their first element says, which is not looked at before its time."""

    model: ModelLike
    inputs: Iterable[Any]

    def __iter__(self) -> Iterator[BatchLike]:
        rest = iter(self.inputs)
        for first in rest:
            kind = _kind(first)
            whole = chain([first], rest)
            if kind == "text":
                yield from read_texts(self.model, whole)
            elif kind == "batch":
                yield from whole
            else:
                yield from (_first(each, module_of(self.model)) for each in whole)

    def __length_hint__(self) -> int:
        return operator.length_hint(self.inputs)


def _kind(first: object) -> Literal["text", "batch", "tuple"]:
    """What the first of several inputs is: a text (a string, chat or row), a batch, or a tuple."""
    if isinstance(first, str):
        return "text"
    if isinstance(first, Mapping):
        numbers = all(isinstance(value, torch.Tensor | np.ndarray) for value in first.values())
        return "batch" if numbers else "text"
    if isinstance(first, list | tuple) and first and _kind(first[0]) == "text":
        if isinstance(first[0], Mapping):
            return "text"  # a chat
        raise InputError(
            "inputs are lists of strings",
            first,
            "Pass strings one by one; a DataLoader has put several into one list.",
        )
    return "tuple" if isinstance(first, list | tuple) and first else "batch"


def _first(each: object, model: nn.Module) -> Values:
    """The first entry of a batch that is a tuple; an InputError where the others could matter."""
    entries = each if isinstance(each, list | tuple) else [each]
    takes = arguments(model)
    if len(entries) != 1 and len(takes) != 1:
        raise InputError(
            f"a batch is a tuple, and the model takes {len(takes)} arguments, so that it is not "
            "clear which entry is which; the number of entries",
            len(entries),
            f"Pass dictionaries by name. The model takes {', '.join(takes)}.",
        )
    return cast(Values, entries[0])
