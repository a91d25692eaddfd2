"""Thin self attention of DistilBERT."""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor


class ThinDistilBert(StandIn):
    """Self attention of DistilBERT with queries and keys of one size and values of another.

    Args:
        module: The DistilBertSelfAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.is_causal = given.is_causal
        self.n_heads, self.attention_head_size = parts.heads, parts.size
        self.scaling, self.dropout = given.scaling, given.dropout
        self.q_lin, self.k_lin, self.v_lin = parts.query, parts.key, parts.value
        self.out_lin = parts.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence; takes and gives what a DistilBertSelfAttention does."""
        query = by_heads(self.q_lin(hidden_states), self.size)
        key = by_heads(self.k_lin(hidden_states), self.size)
        value = by_heads(self.v_lin(hidden_states), self.value_size)
        dropout = self.dropout.p if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return self.out_lin(output.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a DistilBertSelfAttention; None for any other module."""
    if not is_of(module, {"distilbert": "DistilBert"}, "SelfAttention"):
        return None
    return standing_in(ThinDistilBert, module, parts)
