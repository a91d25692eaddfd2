"""The rivals at equal bytes: keys, or keys and values, in 8 or 4 bits, whole and cut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from attnrate.compress.how_far import At, one_by_one, unseen
from attnrate.compress.quality import has_language_head, surprise
from attnrate.compress.trial import relative
from attnrate.spectra import batches
from attnrate.spectra.check import output_of

if TYPE_CHECKING:
    from attnrate.compress.quantised import Bits

Tensor = torch.Tensor
WHOLE, CUT = "whole", "cut"
_CLOSED = "closed"
_BITS: "tuple[tuple[str, Bits], ...]" = (("int8", 8), ("4-bit", 4))
_WHAT = (("keys", False), ("keys and values", True))


@dataclass(frozen=True)
class Rival:
    """A way to a smaller cache, and what it costs on inputs held out.

    All ways are measured by forward passes through a cache. Keys in 8 or 4 bits have a scale and a
    zero of 16 bits for each channel and 32 tokens (8 tokens in a text of fewer than 64), values in
    8 or 4 bits have them for each token and 32 channels; these bytes count too.

    Attributes:
        way: "whole", "cut", "int8 keys", "4-bit keys" (both of the whole model), "cut + int8 keys"
            or "cut + 4-bit keys". Where values were cut, there are as many ways more in whose names
            "keys and values" stands for "keys".
        bytes: The bytes per token in the cache of all layers, as the model is.
        bytes_16: The bytes per token where all numbers that are not quantised have 16 bits, as in
            most caches.
        change: The root of Σ ‖change‖² / Σ ‖output‖² of the model's output.
        perplexity: The exponential of the mean surprise at the next token; None without a language
            head.

    Examples:
        >>> import torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> size = dict(hidden_size=16, num_attention_heads=2, head_dim=8, num_hidden_layers=1)
        >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=50, intermediate_size=16, **size))
        >>> inputs = {"input_ids": torch.randint(50, (10, 64))}
        >>> done = ar.compress(model, inputs, size=4)
        >>> [(each.way, each.bytes_16) for each in done.measured.rivals[:3]]
        [('whole', 64.0), ('cut', 48.0), ('int8 keys', 50.0)]

    """

    way: str
    bytes: float
    bytes_16: float
    change: float
    perplexity: float | None


@dataclass
class _Sums:
    """What is summed over texts, of one way."""

    bytes: int = 0
    bytes_16: int = 0
    wrong: float = 0.0
    size: float = 0.0
    surprise: float = 0.0

    def rival(self, way: str, tokens: int, guessed: int | None) -> Rival:
        change = relative(self.wrong, self.size)
        perplexity = None if guessed is None else math.exp(min(self.surprise / guessed, 700.0))
        return Rival(way, self.bytes / tokens, self.bytes_16 / tokens, change, perplexity)


@dataclass(frozen=True)
class Ways:
    """What was measured of the ways to a smaller cache.

    Attributes:
        rivals: The ways, the whole model first.
        closed: The perplexity after the cut alone, where there was a repair.
        lengths: The number of tokens of each text.

    """

    rivals: tuple[Rival, ...]
    closed: float | None
    lengths: tuple[int, ...]


def ways(
    whole: nn.Module,
    closed: nn.Module | None,
    cut: nn.Module,
    given: Sequence[Tensor],
    values: bool = False,
    at: At = unseen,
) -> Ways:
    """Measure all ways to a smaller cache, text by text.

    Args:
        whole: The original decoder.
        closed: The decoder after its cut alone; None without a repair.
        cut: The decoder after all.
        given: The token ids of texts without padding, each as (1, tokens).
        values: Whether values were cut as well, so that their rivals quantise both.
        at: Where progress is shown.

    """
    # transformers need not be there where nothing has a cache
    from attnrate.compress.quantised import bytes_of, group_of, new_cache

    asked: list[tuple[str, nn.Module, Bits | None, bool]] = [
        (WHOLE, whole, None, False),
        (CUT, cut, None, False),
    ]
    for name, model in (("", whole), (f"{CUT} + ", cut)):
        for what, both in _WHAT[: 1 + values]:
            asked += [(f"{name}{said} {what}", model, bits, both) for said, bits in _BITS]
    if closed is not None:
        asked.append((_CLOSED, closed, None, False))
    head = has_language_head(whole)
    sums = {way: _Sums() for way, *_ in asked}
    for ids in one_by_one(given, "measuring ways to a smaller cache: text", at):
        right: Tensor | None = None
        for way, model, bits, both in asked:
            cache = new_cache(bits, group_of(ids.shape[1]), both)
            made = _read(model, ids, cache)
            right = made if right is None else right
            own = sums[way]
            own.bytes += bytes_of(cache)
            own.bytes_16 += bytes_of(cache, 2)
            own.wrong += float((made - right).double().square().sum())
            own.size += float(right.double().square().sum())
            own.surprise += surprise(made, ids) if head else 0.0
    lengths = tuple(ids.shape[1] for ids in given)
    tokens = sum(lengths)
    guessed = tokens - len(given) if head else None
    found = [own.rival(way, tokens, guessed) for way, own in sums.items()]
    after = next((each.perplexity for each in found if each.way == _CLOSED), None)
    return Ways(tuple(each for each in found if each.way != _CLOSED), after, lengths)


def is_rival(way: str) -> bool:
    """Whether a way is that of the whole model with fewer bits."""
    return way.startswith(tuple(said for said, _ in _BITS))


def _read(model: nn.Module, ids: Tensor, cache: Any) -> Tensor:
    """What a decoder gives for a text, through a cache."""
    own: Any = model
    with batches.at_rest(model):
        made = own(input_ids=batches.placed(model, ids), past_key_values=cache, use_cache=True)
    return output_of(made).float().cpu()
