"""Keys and values of the tokens before: from a cache of transformers, or made now and kept there.

A decoder with an encoder has two caches in one. The keys of its cross attention are those of the
encoder's tokens; they are made once, and are the same for all tokens that are written.
"""

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor


def remembered(
    cache: Any, layer: int | None, cross: bool, make: Callable[[], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """The keys and values of all tokens so far.

    Args:
        cache: The cache that the model passes on, of one kind or of both; None without one.
        layer: The number of the layer in the cache; None in an encoder, which has none.
        cross: Whether the layer attends to the tokens of an encoder.
        make: Makes the keys and values of the tokens that the layer was given.

    Returns:
        Keys (batch, heads, S, size) and values (batch, heads, S, value_size).

    """
    both = hasattr(cache, "cross_attention_cache")
    # a cache of one kind holds the tokens that are written, and no others
    if cache is None or (cross and not both):
        return make()
    if not cross:
        own = cache.self_attention_cache if both else cache
        key, value = own.update(*make(), layer)
        return key, value
    own = cache.cross_attention_cache
    if cache.is_updated.get(layer):
        return own.layers[layer].keys, own.layers[layer].values
    key, value = own.update(*make(), layer)
    cache.is_updated[layer] = True
    return key, value


def by_heads(x: Tensor, size: int) -> Tensor:
    """Vectors of heads side by side (batch, T, heads · size) as (batch, heads, T, size)."""
    return x.view(*x.shape[:-1], -1, size).transpose(1, 2)
