"""Softmax attention with any number of heads, and the inner layer that is made of it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import nn

from attnrate.models.base import feed_forward

Tensor = torch.Tensor


@dataclass(frozen=True)
class Heads:
    """How queries, keys and values are joined: `count` heads, logits times `factor`, a mask.

    With one head no axis is added, which keeps Eq. 5 fast. Plain products are used, because torch's
    fused attention is slower on a CPU at the lengths of the paper (16 and 32).
    """

    count: int
    factor: float
    causal: bool

    def logits(
        self, query: Float[Tensor, "*batch queries q"], key: Float[Tensor, "*batch length q"]
    ) -> Float[Tensor, "*shape queries length"]:
        """Compute factor · q_i(t)ᵀ k_i(s), (*batch, count, length, length) for several heads."""
        scaled = query if self.factor == 1 else self.factor * query
        return self._split(scaled) @ self._split(key).mT

    def weights(
        self, logits: Float[Tensor, "*shape queries length"]
    ) -> Float[Tensor, "*shape queries length"]:
        """Apply softmax over s; over s ≤ t with a mask, which needs a query at each t."""
        if self.causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, -torch.inf)
        return logits.softmax(-1)

    def mix(
        self,
        query: Float[Tensor, "*batch queries q"],
        key: Float[Tensor, "*batch length q"],
        value: Float[Tensor, "*batch length v"],
    ) -> Float[Tensor, "*batch queries v"]:
        """Average the values with each head's weights; the heads stand side by side."""
        mixed = self.weights(self.logits(query, key)) @ self._split(value)
        return mixed if self.count == 1 else mixed.transpose(-3, -2).flatten(-2)

    def _split(self, features: Float[Tensor, "*batch length k"]) -> Float[Tensor, "..."]:
        if self.count == 1:
            return features
        return features.reshape(*features.shape[:-1], self.count, -1).transpose(-3, -2)


class Layer(nn.Module):
    """A layer before the last: n features in, n features out.

    a = W_o [Σ_s softmax(...)(s) W_V N(h)(s)], then g(N'(a)) with a feed-forward network g. With
    `residual` these are h + W_o[...] and a + g(N'(a)); without `layer_norm` N and N' do nothing.
    """

    def __init__(
        self,
        n: int,
        m_h: int,
        m_v: int,
        heads: Heads,
        width: int,
        depth: int,
        residual: bool,
        layer_norm: bool,
    ) -> None:
        super().__init__()
        self.rule, self.residual = heads, residual
        self.norm = norm(n, layer_norm)
        self.W_Q = nn.Linear(n, heads.count * m_h, bias=False)
        self.W_K = nn.Linear(n, heads.count * m_h, bias=False)
        self.W_V = nn.Linear(n, heads.count * m_v, bias=False)
        self.W_o = nn.Linear(heads.count * m_v, n, bias=False)
        self.inner_norm = norm(n, layer_norm)
        self.g = feed_forward(n, n, width, depth)

    def forward(self, h: Float[Tensor, "*batch length n"]) -> Float[Tensor, "*batch length n"]:
        """Apply attention, then the feed-forward network."""
        normed = self.norm(h)
        mixed = self.rule.mix(self.W_Q(normed), self.W_K(normed), self.W_V(normed))
        return self._completed(h, mixed)

    def pointwise(self, h: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        """Apply the layer to a constant sequence, given by its value h."""
        return self._completed(h, self.W_V(self.norm(h)))

    def _completed(
        self, h: Float[Tensor, "*shape n"], mixed: Float[Tensor, "*shape v"]
    ) -> Float[Tensor, "*shape n"]:
        a: Tensor = self.W_o(mixed)
        a = h + a if self.residual else a
        after: Tensor = self.g(self.inner_norm(a))
        return a + after if self.residual else after


def norm(n: int, wanted: bool) -> nn.Module:
    """Layer norm over n features if it is wanted, else the identity."""
    return nn.LayerNorm(n) if wanted else nn.Identity()
