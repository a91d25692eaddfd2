"""Attention for real data: any number of heads of any size, within a sequence or across two."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import nn
from torch.nn import functional

Tensor = torch.Tensor


@dataclass(frozen=True)
class Padding:
    """Which queries and keys are tokens (True) and not padding; None means that all are tokens."""

    query: Bool[Tensor, "batch T"] | None = None
    key: Bool[Tensor, "batch S"] | None = None


NO_PADDING = Padding()


class Multihead(nn.Module):
    """W_O (A_1 V_1, ..., A_heads V_heads) with A_i = softmax(Q_i K_iᵀ / √m_h).

    Heads have the size m_h whatever the width is, and values the size m_v (default: m_h). With
    `causal`, position t sees only s ≤ t. `in_cache` says of a decoder's layer that its keys and
    values are kept from step to step. Weights start uniform with Xavier's variance for each of W_Q,
    W_K, W_V and W_O, biases at zero.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        m_h: int,
        m_v: int | None = None,
        causal: bool = False,
        in_cache: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.heads, self.m_h = width, heads, m_h
        self.m_v = m_h if m_v is None else m_v
        self.causal, self.in_cache = causal, in_cache
        self.W_Q = nn.Linear(width, heads * m_h)
        self.W_K = nn.Linear(width, heads * m_h)
        self.W_V = nn.Linear(width, heads * self.m_v)
        self.W_O = nn.Linear(heads * self.m_v, width)
        for part in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)

    @property
    def scale(self) -> float:
        """The factor of the products of queries and keys."""
        return float(self.m_h**-0.5)

    def forward(
        self,
        x: Float[Tensor, "batch T width"],
        memory: Float[Tensor, "batch S width"] | None = None,
        padding: Padding = NO_PADDING,
    ) -> Float[Tensor, "batch T width"]:
        """Attend with queries from x, and keys and values from `memory`, by default x itself."""
        keys, values = self.remember(x if memory is None else memory)
        return self.attend(x, keys, values, padding, self.causal and x.shape[1] > 1)

    def remember(
        self, memory: Float[Tensor, "batch S width"]
    ) -> tuple[Float[Tensor, "batch heads S m_h"], Float[Tensor, "batch heads S m_v"]]:
        """Compute the keys and values of tokens, which a decoder keeps from step to step."""
        return self._split(self.W_K(memory)), self._split(self.W_V(memory))

    def attend(
        self,
        x: Float[Tensor, "batch T width"],
        keys: Float[Tensor, "batch heads S m_h"],
        values: Float[Tensor, "batch heads S m_v"],
        padding: Padding = NO_PADDING,
        causal: bool = False,
    ) -> Float[Tensor, "batch T width"]:
        """Attend with queries from x to keys and values that were computed before."""
        queries = self._split(self.W_Q(x))
        mask = None
        # padding comes last in a sequence, so a causal mask hides it from all real tokens
        if padding.key is not None and not causal:
            mask = padding.key[:, None, None, :]
        size = max(self.m_h, self.m_v)
        # torch's fused attention wants all three of one size; zeros change no product
        found = functional.scaled_dot_product_attention(
            _filled(queries, size),
            _filled(keys, size),
            _filled(values, size),
            attn_mask=mask,
            is_causal=causal,
            scale=self.scale,
        )[..., : self.m_v]
        result: Tensor = self.W_O(found.transpose(1, 2).flatten(2))
        return result

    def _split(self, features: Float[Tensor, "batch S k"]) -> Float[Tensor, "batch heads S m"]:
        batch, length, width = features.shape
        return features.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


def _filled(x: Float[Tensor, "*shape m"], size: int) -> Float[Tensor, "*shape size"]:
    return x if x.shape[-1] == size else functional.pad(x, (0, size - x.shape[-1]))


class FeedForward(nn.Sequential):
    """The network between two attention layers: width -> m_ff -> width."""

    def __init__(self, width: int, m_ff: int, activation: nn.Module, dropout: float = 0.0) -> None:
        wide, narrow = nn.Linear(width, m_ff), nn.Linear(m_ff, width)
        between = [activation, nn.Dropout(dropout)] if dropout else [activation]
        super().__init__(wide, *between, narrow)
        for part in (wide, narrow):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)


class Layer(nn.Module):
    """A pre-norm layer: x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(
        self,
        width: int,
        heads: int,
        m_h: int,
        m_v: int | None,
        m_ff: int,
        dropout: float,
        activation: nn.Module,
    ) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Multihead(width, heads, m_h, m_v)
        self.feed_forward = FeedForward(width, m_ff, activation, dropout)
        self.drop = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch T width"], padding: Padding = NO_PADDING
    ) -> Float[Tensor, "batch T width"]:
        """Map tokens to tokens of the same shape."""
        x = x + self.drop(self.attention(self.norm_1(x), padding=padding))
        result: Tensor = x + self.drop(self.feed_forward(self.norm_2(x)))
        return result
