"""What a family needs to make a thin attention layer: its four thin parts and their sizes."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from attnrate.compress.modules.maps import HeadMap


@dataclass(frozen=True)
class Parts:
    """The thin parts of an attention layer; heads lie side by side in their features.

    Attributes:
        query: Makes the queries, `heads · size` features.
        key: Makes the keys, `groups · size` features.
        value: Makes the values, `groups · value_size` features.
        output: Takes what the heads give, `heads · value_size` features.
        heads: The number of query heads.
        groups: The number of key heads.
        size: The size of queries and keys.
        value_size: The size of values.
        whole: The size of queries and keys before the cut, by which logits are still divided.
        maps: What makes queries and keys smaller where `query` and `key` make whole ones, which are
            normalised and turned first; None where these are cut themselves.

    """

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear
    heads: int
    groups: int
    size: int
    value_size: int
    whole: int
    maps: tuple[HeadMap, HeadMap] | None = None


Thin = Callable[[nn.Module, Parts], nn.Module | None]
"""A function from a layer's module to the thin one in its place; None for another family."""
