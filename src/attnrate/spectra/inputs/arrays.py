"""Reading the arrays of an .npz file as inputs of a model."""

import os
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.settings import Count, by, checked
from attnrate.spectra.inputs.batched import Batch, Batches
from attnrate.spectra.inputs.checks import (
    require_file,
    require_known,
    require_names,
    require_short,
)
from attnrate.spectra.load import ModelLike, longest_of, module_of, require_model

_TOKENS = ("input_ids", "decoder_input_ids")
_MASKS = ("attention_mask", "decoder_attention_mask")


@checked
def read_arrays(
    model: Annotated[ModelLike, by(require_model)],
    path: Annotated[str | os.PathLike[str], by(require_file)],
    batch: Count = 8,
    limit: Count | None = None,
) -> Batches:
    """Read the arrays of an .npz file as inputs of a model.

    Args:
        model: A torch module, or a model opened by `load_model`.
        path: A file that numpy.savez has written. Its arrays have the names of the arguments of
            the model's forward, and the first axis of each counts the inputs.
        batch: The number of inputs in a batch.
        limit: The largest number of inputs, taken from the beginning; all by default.

    Returns:
        Batches of tensors by the names of the arrays, as `profile` takes them.

    Raises:
        InputError: The names are not those of the model's arguments, the arrays do not fit
            together, or they hold values that the model does not know.

    Examples:
        >>> import numpy as np
        >>> np.savez("inputs.npz", x=np.zeros((5, 16, 2), dtype=np.float32))
        >>> ar.read_arrays(ar.Transformer(2, 1), "inputs.npz")
        5 inputs in 1 batch

    """
    module = module_of(model)
    arrays = _arrays(Path(path))
    require_names(module, list(arrays))
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1 or min(counts.values()) == 0:
        raise InputError(
            "every array needs the same number of inputs, at least one, along its first axis",
            counts,
            "Stack the inputs along axis 0.",
        )
    tensors = {name: _tensor(name, array, module) for name, array in arrays.items()}
    inputs = min(counts.values())

    def make(start: int, end: int) -> Batch:
        return {name: tensor[start:end] for name, tensor in tensors.items()}

    return Batches(inputs if limit is None else min(inputs, limit), batch, make)


def _arrays(file: Path) -> dict[str, np.ndarray]:
    remedy = "Write it with numpy.savez(FILE, input_ids=..., attention_mask=...)."
    try:
        # opened here: numpy leaves a file open that turns out to be broken
        with file.open("rb") as opened_file:
            opened = np.load(opened_file, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise InputError("the file holds one array without a name", str(file), remedy)
            arrays = {name: np.asarray(opened[name]) for name in opened.files}
    except (InputError, KeyboardInterrupt):
        raise
    except MemoryError:
        raise InputError(
            "an array of the file is larger than the memory, or says so", str(file), remedy
        ) from None
    except Exception:  # zip, zlib, lzma and numpy's own readers each have their kinds
        what = "the file holds no plain arrays (objects are pickles, which are refused)"
        raise InputError(what, str(file), remedy) from None
    if not arrays:
        raise InputError("the file holds no array", str(file), remedy)
    return arrays


def _tensor(name: str, array: np.ndarray, model: nn.Module) -> torch.Tensor:
    kind = array.dtype.kind
    if kind not in "fbiu":
        raise InputError(f"the array {name} holds no numbers", str(array.dtype), "Pass numbers.")
    if kind == "f" and not np.isfinite(array).all():
        raise InputError(f"the array {name} holds nan or inf", name, "Remove such inputs.")
    if name in _MASKS:
        empty = np.flatnonzero(~array.reshape(len(array), -1).astype(bool).any(-1))
        if empty.size:
            raise InputError(
                f"{empty.size} inputs are nothing but padding ({name} is 0)",
                empty[:10].tolist(),
                "Leave these inputs out.",
            )
    if name in _TOKENS:
        if kind not in "iu":
            raise InputError(f"{name} must be whole numbers", str(array.dtype), "Pass int64.")
        if array.ndim != 2 or array.shape[1] == 0:
            raise InputError(
                f"{name} must be of shape (inputs, tokens)", array.shape, "Reshape it."
            )
        require_short(name, array.shape[1], longest_of(model))
        require_known(array, name, model)
    return torch.from_numpy(array.astype({"f": np.float32, "b": np.bool_}.get(kind, np.int64)))
