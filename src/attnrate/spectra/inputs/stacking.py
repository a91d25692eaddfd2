"""Numbers of several inputs as one batch: filled up on the right, under a mask."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.inputs.batched import Batch
from attnrate.spectra.inputs.checks import arguments, has_decoder, require_names, require_short
from attnrate.spectra.inputs.decoders import shifted, start_token

#: The numbers of one input, by the names of the model's arguments
Numbers: TypeAlias = Mapping[str, np.ndarray]
#: Token ids, and the mask that hides what fills them up
MASK_OF = {"input_ids": "attention_mask", "decoder_input_ids": "decoder_attention_mask"}
_USUAL_LENGTH = 512  # tokens


def length_of(asked: int | None, longest: int | None) -> int:
    """The number of tokens per input: as asked, or 512 where the model takes that many."""
    length = min(_USUAL_LENGTH, longest or _USUAL_LENGTH) if asked is None else asked
    require_short("length", length, longest)
    return length


def filler_of(tokenizer: object) -> int:
    """The token that fills up short inputs: the padding token, the one that ends a text, or 0."""
    tokens: Any = tokenizer
    for name in ("pad_token_id", "eos_token_id"):
        found = getattr(tokens, name, None)
        if isinstance(found, int):
            return found
    return 0


def require_inputs_of(model: nn.Module, names: Sequence[str]) -> None:
    """Raise an InputError unless `stacked` can make a batch of a model from these names."""
    shifts = has_decoder(model) and "input_ids" in names
    require_names(model, [*names, "decoder_input_ids"] if shifts else names)
    if shifts:
        start_token(model)


def tokens_of(one: Numbers) -> int | None:
    """The number of tokens in an input, without padding; None where it has no token ids."""
    if "input_ids" not in one:
        return None
    mask = one.get("attention_mask")
    return len(one["input_ids"]) if mask is None else int(np.count_nonzero(mask))


def stacked(model: nn.Module, rows: Sequence[Numbers], filler: int) -> Batch:
    """A batch of a model from the numbers of its inputs.

    Inputs of several lengths are filled up on the right. Masks are made where the inputs bring
    none and the model takes them. A decoder without inputs of its own reads those of the encoder,
    one token later.

    Args:
        model: The model.
        rows: The numbers of each input; all have the same names.
        filler: What fills up token ids; everything else is filled up with zeros.

    Returns:
        A tensor for each name, with the inputs along the first axis.

    """
    made = {name: _column(rows, name, filler) for name in rows[0]}
    takes = arguments(model)
    for name, mask in MASK_OF.items():
        if name in made and mask not in made:
            lengths = [len(row[name]) for row in rows]
            if mask in takes:
                made[mask] = _padded([np.ones(length, dtype=np.int64) for length in lengths], 0)
            elif len({*lengths}) > 1:
                raise InputError(
                    f"the model takes no {mask}, and inputs of a batch differ in length",
                    sorted({*lengths}),
                    "Pass batch=1, or inputs of one length.",
                )
    if has_decoder(model) and "input_ids" in made and "decoder_input_ids" not in made:
        ids = made["input_ids"]
        later = shifted(model, ids, made.get("attention_mask", torch.ones_like(ids)))
        made |= {name: value for name, value in later.items() if name in takes}
    return made


def _column(rows: Sequence[Numbers], name: str, filler: int) -> torch.Tensor:
    """The numbers of one name in all inputs, as a tensor."""
    arrays = [row[name].astype(np.int64) if name in MASK_OF else row[name] for row in rows]
    shapes = [array.shape for array in arrays]
    if len({*shapes}) == 1:
        return torch.from_numpy(np.stack(arrays))
    # what goes along with the tokens has as many entries as they
    if shapes in [[row[ids].shape for row in rows] for ids in MASK_OF if ids in rows[0]]:
        return _padded(arrays, filler if name in MASK_OF else 0)
    raise InputError(
        f"{name} has several shapes in one batch",
        sorted({*shapes}),
        "Make them of one shape, or pass batch=1.",
    )


def _padded(pieces: Sequence[np.ndarray], filler: int) -> torch.Tensor:
    """Arrays of one axis as one tensor, filled up on the right to the longest."""
    rows = np.full((len(pieces), max(map(len, pieces))), filler, pieces[0].dtype)
    for row, piece in zip(rows, pieces, strict=True):
        row[: len(piece)] = piece
    return torch.from_numpy(rows)
