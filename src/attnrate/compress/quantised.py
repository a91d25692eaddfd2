"""A cache whose keys, or keys and values, are kept in 8 or 4 bits: the rival at equal bytes.

Some channels of keys are far larger than others at every token. So the numbers of one channel of
one key head share a scale and a zero over 32 tokens (as in KIVI, arXiv 2402.02750), and tokens that
do not fill 32 yet stay whole. At the same number of bytes one could share them over 32 channels of
one token; on SmolLM2-135M that changed the output about twice as much, with 8 bits and with 4.

Values have no such channels. As in KIVI, those of one token share a scale and a zero over 32
channels of a key head, or over all of them where 32 does not divide their number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Float16, UInt8
from transformers.cache_utils import Cache, DynamicLayer

Tensor = torch.Tensor
Bits: TypeAlias = Literal[4, 8]
GROUP = 32  # tokens that share a scale and a zero
SHORT_GROUP = 8  # in texts that are shorter than two groups
_LARGEST = torch.finfo(torch.float16).max
_LEAST = torch.finfo(torch.float16).smallest_normal


@dataclass(frozen=True)
class Coded:
    """Keys of whole groups of tokens as whole numbers: key = zero + scale · code.

    Values are coded with the axes of tokens and channels exchanged.

    Attributes:
        codes: The codes; with 4 bits those of two tokens in a byte, the earlier one in its lower
            half.
        scale: The step between two neighbouring codes.
        zero: The key whose code is 0.
        bits: The number of bits of a code.

    """

    codes: UInt8[Tensor, "batch heads groups rows m"]
    scale: Float16[Tensor, "batch heads groups 1 m"]
    zero: Float16[Tensor, "batch heads groups 1 m"]
    bits: Bits

    @classmethod
    def of(cls, keys: Float[Tensor, "batch heads T m"], bits: Bits, group: int) -> "Coded":
        """The codes of keys.

        Scale and zero are rounded to 16 bits before the codes are made, outwards, so that a key is
        off by half a step at most.

        Args:
            keys: The keys, whose tokens fill whole groups.
            bits: The number of bits of a code.
            group: The number of tokens in a group, an even one.

        """
        inputs, heads, tokens, m = keys.shape
        x = keys.reshape(inputs, heads, tokens // group, group, m).float()
        most = 2**bits - 1
        zero = _outwards(x.amin(-2, keepdim=True), -torch.inf)
        reach = x.amax(-2, keepdim=True) - zero.float()
        scale = _outwards((reach / most).clamp(min=_LEAST), torch.inf)
        codes = ((x - zero.float()) / scale.float()).round().clamp(0, most).to(torch.uint8)
        if bits == 4:
            codes = codes[..., 0::2, :] | codes[..., 1::2, :] << 4
        return cls(codes, scale, zero, bits)

    def keys(self, dtype: torch.dtype) -> Float[Tensor, "batch heads T m"]:
        """The keys that the codes stand for."""
        codes = self.codes
        if self.bits == 4:
            codes = torch.stack([codes & 15, codes >> 4], -2).flatten(-3, -2)
        return (self.zero.float() + self.scale.float() * codes).flatten(-3, -2).to(dtype)

    @classmethod
    def of_values(cls, values: Float[Tensor, "batch heads T m"], bits: Bits) -> "Coded":
        """The codes of values, whose groups are channels of one token.

        Args:
            values: The values of any number of tokens.
            bits: The number of bits of a value.

        """
        x = values.mT
        if x.shape[2] % 2:  # a copy of the last channel fills the last byte
            x = torch.cat([x, x[:, :, -1:]], 2)
        return cls.of(x, bits, GROUP if x.shape[2] % GROUP == 0 else x.shape[2])

    def values(self, dtype: torch.dtype, size: int) -> Float[Tensor, "batch heads T m"]:
        """The values of that size that the codes stand for."""
        return self.keys(dtype)[:, :, :size].mT

    def followed_by(self, later: "Coded", axis: int = 2) -> "Coded":
        """These keys and those of later tokens; the tokens of values are on the axis 4."""
        return Coded(
            torch.cat([self.codes, later.codes], axis),
            torch.cat([self.scale, later.scale], axis),
            torch.cat([self.zero, later.zero], axis),
            self.bits,
        )

    def changed(self, change: Callable[[Tensor], Tensor]) -> "Coded":
        """The codes after a change along the axis of inputs."""
        return Coded(change(self.codes), change(self.scale), change(self.zero), self.bits)


def _outwards(x: Tensor, towards: float) -> Tensor:
    """Numbers rounded to 16 bits, never to the other side than `towards`."""
    near = x.clamp(-_LARGEST, _LARGEST).half()
    beyond = torch.nextafter(near, torch.full_like(near, towards)).clamp(-_LARGEST, _LARGEST)
    return torch.where((near.float() - x) * (1 if towards > 0 else -1) < 0, beyond, near)


class QuantisedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """The cache of one layer, with keys or both in 8 or 4 bits; transformers' own cache takes it.

    Its attribute `keys` holds the last tokens, which do not fill a group yet; `values` holds those
    of all tokens, or of none where values are coded.

    Args:
        bits: The number of bits of a number.
        group: The number of tokens that share a scale and a zero of keys.
        both: Whether values are in as many bits, too.

    """

    is_croppable = False
    keys: Any
    values: Any

    def __init__(self, bits: Bits, group: int = GROUP, both: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bits: Bits = bits
        self.group = group
        self.both = both
        self.coded: Coded | None = None
        self.coded_values: Coded | None = None
        self._tokens = 0

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Add the keys and values of further tokens; return those of all tokens, as they are kept.

        Args:
            key_states: The keys, as (inputs, key heads, tokens, size).
            value_states: The values.
            *args: What other caches use.
            **kwargs: What other caches use.

        """
        if self.values is None:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[..., :0, :], value_states[..., :0, :]
        self._tokens += key_states.shape[-2]
        self.keys = torch.cat([self.keys, key_states], -2)
        full = self.keys.shape[-2] // self.group * self.group
        if full:
            new = Coded.of(self.keys[..., :full, :], self.bits, self.group)
            self.coded = new if self.coded is None else self.coded.followed_by(new)
            # a copy, since a view would keep the memory of all
            self.keys = self.keys[..., full:, :].clone()
        keys = self.keys
        if self.coded is not None:
            keys = torch.cat([self.coded.keys(keys.dtype), keys], -2)
        return keys, self._with_values(value_states)

    def _with_values(self, new: Tensor) -> Tensor:
        """The values of all tokens after those of further ones."""
        if not self.both:
            made = torch.cat([self.values, new], -2)
            self.values = made
            return made
        coded = Coded.of_values(new, self.bits)
        if self.coded_values is not None:
            coded = self.coded_values.followed_by(coded, 4)
        self.coded_values = coded
        return coded.values(new.dtype, new.shape[-1])

    def get_seq_length(self) -> int:
        """The number of tokens in the cache."""
        return self._tokens

    def tensors(self) -> list[Tensor]:
        """All tensors that the layer keeps."""
        coded = [each for each in (self.coded, self.coded_values) if each is not None]
        own = [x for each in coded for x in (each.codes, each.scale, each.zero)]
        return own if self.values is None else [*own, self.keys, self.values]

    def reset(self) -> None:
        """Forget all tokens."""
        self.keys = self.values = self.coded = self.coded_values = None
        self._tokens = 0
        self.is_initialized = False

    def crop(self, *_: int) -> None:
        """Refuse to take tokens back, since their group would have to be coded anew."""
        raise NotImplementedError("tokens cannot be taken back from a cache of quantised keys")

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take other inputs in the place of these, as a search with beams does."""
        self._change(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every input `repeats` times, copies of one input side by side."""
        self._change(lambda x: x.repeat_interleave(repeats, 0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some inputs alone."""
        self._change(lambda x: x[indices])

    def _change(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.values is not None:
            self.keys, self.values = change(self.keys), change(self.values)
        if self.coded is not None:
            self.coded = self.coded.changed(change)
        if self.coded_values is not None:
            self.coded_values = self.coded_values.changed(change)


def new_cache(bits: Bits | None, group: int = GROUP, both: bool = False) -> Cache:
    """An empty cache for a model of any number of layers.

    Args:
        bits: The number of bits of a key; None keeps keys and values as the model makes them.
        group: The number of tokens that share a scale and a zero of keys.
        both: Whether values are in as many bits, too.

    """
    if bits is None:
        return Cache(layer_class_to_replicate=DynamicLayer)
    # called for each layer, as a class would be
    made: Any = partial(QuantisedLayer, bits, group, both)
    return Cache(layer_class_to_replicate=made)


def group_of(tokens: int) -> int:
    """The number of tokens that share a scale in a text of that length: 32, or 8 below 64 tokens.

    Of a text that is shorter than a group no key would be quantised.
    """
    return GROUP if tokens >= 2 * GROUP else SHORT_GROUP


def bytes_of(cache: Cache, most: int | None = None) -> int:
    """The bytes of all tensors in a cache.

    Args:
        cache: A cache of `new_cache`.
        most: The largest number of bytes that a number counts, such as 2 for those that the same
            cache would take in a model of 16 bits; None counts all.

    """
    total = 0
    for layer in cache.layers:
        kept: Any = layer
        own = kept.tensors() if isinstance(layer, QuantisedLayer) else [kept.keys, kept.values]
        for x in own:
            total += x.numel() * (x.itemsize if most is None else min(x.itemsize, most))
    return total
