"""The number of tokens by which the layers of a model are cut."""

from collections.abc import Sequence

from torch import Tensor, nn

from attnrate.models.decoding import Translator
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch


def tokens_of(model: nn.Module, given: Sequence[Batch], length: int) -> int:
    """The number of tokens that each layer of a model sees, without padding.

    A model with an encoder and a decoder has two sequences; the shorter counts.

    Args:
        model: The model.
        given: The inputs.
        length: The tokens of an input where nothing in it says how many there are, as in images.

    Returns:
        The sum over all inputs.

    """
    if isinstance(model, Translator):
        sides = [[_words(model, batch, side) for batch in given] for side in ("source", "target")]
    else:
        sides = [[_side(batch, prefix) for batch in given] for prefix in ("", "decoder_")]
    counts = [sum(n for n in side if n is not None) for side in sides if None not in side]
    return min(counts) if counts else sum(batches.size(batch) for batch in given) * length


def _words(model: Translator, batch: Batch, side: str) -> int | None:
    """The number of tokens of a translator's sources or targets, where the batch names them."""
    found = None if isinstance(batch, Tensor) else batches.words(model, batch, side)
    return None if found is None else int(found.sum())


def _side(batch: Batch, prefix: str) -> int | None:
    """The number of tokens of the encoder or the decoder in a batch, where it says so."""
    kept = batches.kept(batch, f"{prefix}attention_mask")
    if kept is not None:
        return int(kept.sum())
    if isinstance(batch, Tensor) or f"{prefix}input_ids" not in batch:
        return None
    return batch[f"{prefix}input_ids"].numel()
