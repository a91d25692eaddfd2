"""What the decoder of a model with an encoder reads: the text once more, or what was said."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.batches import at_rest
from attnrate.spectra.inputs.batched import Batch

_WRITTEN = 32  # tokens that a model writes where nobody says what was said


def start_token(model: nn.Module) -> int:
    """The token that a decoder begins with; an InputError where the model's config has none."""
    config: Any = getattr(model, "config", None)
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for part in (config, getattr(config, "decoder", None)):
            found = getattr(part, name, None)
            if isinstance(found, int):
                return found
    raise InputError(
        "the model's config has no decoder_start_token_id, which its decoder begins with",
        type(model).__name__,
        "Put it into config.json, or pass decoder_input_ids in an .npz file.",
    )


def shifted(model: nn.Module, ids: torch.Tensor, mask: torch.Tensor) -> Batch:
    """The inputs of a decoder that reads the encoder's text, one token later."""
    start = torch.full_like(ids[:, :1], start_token(model))
    seen = torch.ones_like(mask[:, :1])
    return {
        "decoder_input_ids": torch.cat([start, ids[:, :-1]], 1),
        "decoder_attention_mask": torch.cat([seen, mask[:, :-1]], 1),
    }


def written(model: nn.Module, heard: Batch, start: Sequence[int], most: int) -> list[np.ndarray]:
    """What a model itself writes about its inputs: in each step the likeliest token.

    A model without the head of its task has no output layer; that layer's weights are those of the
    decoder's embedding, which `require_writer` checks.

    Args:
        model: A model with an encoder and a decoder.
        heard: A batch of the encoder's inputs.
        start: The tokens that the decoder begins with.
        most: The largest number of tokens, those of the start counted.

    Returns:
        The tokens of each input, up to the one that ends a text.

    """
    whole: Any = model
    embedding: torch.Tensor = whole.get_decoder().get_input_embeddings().weight
    ends = whole.config.eos_token_id
    rows = len(next(iter(heard.values())))
    ids = torch.tensor([list(start)] * rows, device=embedding.device)
    with at_rest(model):
        encoded = whole.get_encoder()(**{k: v.to(embedding.device) for k, v in heard.items()})
        while ids.shape[1] < min(most, len(start) + _WRITTEN):
            given = {"encoder_outputs": encoded, "decoder_input_ids": ids, "use_cache": False}
            last = whole(**given).last_hidden_state[:, -1]
            ids = torch.cat([ids, (last @ embedding.T).argmax(-1, keepdim=True)], 1)
            if ends is not None and bool((ids[:, len(start) :] == ends).any(1).all()):
                break
    return [_up_to(row.cpu().numpy(), ends, len(start)) for row in ids]


def require_writer(model: nn.Module, value: object) -> None:
    """Raise an InputError unless a model's output layer is known, so that it can write."""
    whole: Any = model
    tied = getattr(getattr(model, "config", None), "tie_word_embeddings", False)
    if (
        not tied
        or not hasattr(model, "get_decoder")
        or whole.get_decoder().get_input_embeddings().weight.is_meta  # weights that stay on disk
    ):
        raise InputError(
            "the decoder reads what was said, which is not there, and the model has no output "
            "layer to write it with",
            value,
            "Put what is said in NAME.wav into NAME.txt beside it.",
        )


def _up_to(ids: np.ndarray, ends: int | None, start: int) -> np.ndarray:
    """Token ids up to the first that ends a text, which is kept; those of the start do not."""
    found = np.flatnonzero(ids[start:] == ends) if ends is not None else np.empty(0, int)
    return ids[: start + found[0] + 1] if found.size else ids
