"""Thin self attention of ViT, as transformers writes it."""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor


class ThinViT(StandIn):
    """Attention of ViT with queries and keys of one size and values of another.

    Args:
        module: The ViTAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.num_attention_heads = parts.heads
        self.attention_dropout, self.scaling = given.attention_dropout, given.scaling
        self.is_causal = False
        self.q_proj, self.k_proj, self.v_proj = parts.query, parts.key, parts.value
        self.o_proj = parts.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence; takes and gives what a ViTAttention does."""
        lead = hidden_states.shape[:-1]
        query = by_heads(self.q_proj(hidden_states), self.size)
        key = by_heads(self.k_proj(hidden_states), self.size)
        value = by_heads(self.v_proj(hidden_states), self.value_size)
        dropout = self.attention_dropout if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return self.o_proj(output.reshape(*lead, -1).contiguous()), weights


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a ViTAttention; None for any other module."""
    return (
        standing_in(ThinViT, module, parts) if is_of(module, {"vit": "ViT"}, "Attention") else None
    )
