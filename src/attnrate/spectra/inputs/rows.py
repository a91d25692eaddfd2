"""Rows of a table: which columns are read, and the numbers in them."""

import inspect
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError, hint
from attnrate.spectra.inputs.checks import arguments, main_input, require_known, require_short
from attnrate.spectra.inputs.stacking import MASK_OF, Numbers, require_inputs_of

_TEXTS = ("text", "messages")  # columns that are taken where none is named
_LABELS = ("label", "labels", "label_ids")  # arguments of some models, but no inputs of attention
_KINDS = {"f": np.float32, "b": np.bool_, "i": np.int64, "u": np.int64}


def text_column(columns: Sequence[str], asked: str | None, model: nn.Module) -> str | None:
    """The column that holds the texts; None for rows of numbers named like the model's arguments.

    Args:
        columns: The names of all columns.
        asked: The name that the user gave.
        model: The model that is run on the rows.

    Returns:
        The column that was asked for. Otherwise None where the columns hold what the model needs,
        or else "text" or "messages". An InputError where there is no such column.

    """
    if asked is not None:
        if asked not in columns:
            raise InputError("there is no column {value}", asked, hint(asked, columns))
        return asked
    needed = _needed(model)
    if needed and {*needed} <= {*columns}:
        return None
    for name in _TEXTS:
        if name in columns:
            return name
    raise InputError(
        "no column is named text or messages; there are {value}",
        list(columns),
        "Name the one that holds the texts: column=NAME.",
    )


def number_columns(columns: Sequence[str], model: nn.Module) -> list[str]:
    """The columns that are named like arguments of a model, without labels."""
    takes = arguments(model)
    names = [name for name in columns if name in takes and name not in _LABELS]
    require_inputs_of(model, names)
    return names


def cell_of(row: object, column: str, number: int) -> object:
    """What a row has in a column; an InputError where it has no such column."""
    if not isinstance(row, Mapping):
        what = f"row {number} (the first is 0) has no columns; it is of the type {{value}}"
        raise InputError(what, type(row).__name__, "Make all rows of one kind.")
    if column not in row:
        what = f"row {number} (the first is 0) has no column {{value}}"
        raise InputError(what, column, hint(column, [*map(str, row)]))
    return row[column]


def numbers_of(
    row: object,
    names: Sequence[str],
    number: int,
    model: nn.Module,
    length: int | None,
    longest: int | None,
) -> Numbers:
    """The numbers in the columns of a row, checked.

    Args:
        row: The row.
        names: The columns to read.
        number: The number of the row, for messages.
        model: The model, whose vocabulary the token ids must be of.
        length: The number of tokens after which token ids and what goes along with them are cut;
            None cuts nothing.
        longest: The largest number of tokens that the model takes; None if there is no limit.

    Returns:
        An array for each name.

    """
    found = {name: _array(cell_of(row, name, number), _place(name, number)) for name in names}
    widths = {len(found[name]) for name in MASK_OF if name in found and found[name].ndim}
    for name, array in found.items():
        if array.ndim == 1 and len(array) in widths:
            found[name] = array = array[:length]
        if name in MASK_OF:
            _require_ids(array, _place(name, number), model, longest)
        if name in MASK_OF.values() and not array.any():
            what = f"{_place(name, number)} is 0 everywhere: all of the input is padding"
            raise InputError(what, array.shape, "Leave such rows out.")
    return found


def _place(name: str, number: int) -> str:
    return f"{name} of row {number} (the first is 0)"


def _array(cell: object, where: str) -> np.ndarray:
    value = cell.detach().cpu().numpy() if isinstance(cell, torch.Tensor) else cell
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in _KINDS or (array.ndim and not array.size):
        raise InputError(f"{where} holds no numbers", value, "Leave such rows out.")
    return array.astype(_KINDS[array.dtype.kind])


def _require_ids(array: np.ndarray, where: str, model: nn.Module, longest: int | None) -> None:
    if array.dtype.kind != "i" or array.ndim != 1:
        shown = f"{array.dtype} of shape {array.shape}"
        way_out = (
            "A row is one input: pass its token ids as one list. Batches of a DataLoader must hold "
            "tensors alone; leave its columns of strings out."
        )
        raise InputError(f"{where} must be whole numbers along one axis", shown, way_out)
    require_short(where, len(array), longest)
    require_known(array, where, model)


def _needed(model: nn.Module) -> list[str]:
    """The names of what a model cannot be run without."""
    main = main_input(model)
    if main is not None:
        return [main]
    takes = inspect.signature(model.forward).parameters.values()
    free = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [one.name for one in takes if one.default is one.empty and one.kind not in free]
