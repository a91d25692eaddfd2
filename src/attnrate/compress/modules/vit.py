"""Thin self attention of ViT, as transformers writes it."""

import sys
from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts

Tensor = torch.Tensor
_FILE = "transformers.models.vit.modeling_vit"


class ThinViTAttention(nn.Module):
    """Attention of ViT with queries and keys of one size and values of another.

    Args:
        module: The ViTAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__()
        given: Any = module
        self.config = given.config
        self.num_attention_heads = parts.heads
        self.size, self.value_size = parts.size, parts.value_size
        self.attention_dropout, self.scaling = given.attention_dropout, given.scaling
        self.is_causal = False
        self.q_proj, self.k_proj, self.v_proj = parts.query, parts.key, parts.value
        self.o_proj = parts.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence; takes and gives what a ViTAttention does."""
        lead = hidden_states.shape[:-1]
        query, key, value = (
            part(hidden_states).view(*lead, -1, size).transpose(1, 2)
            for part, size in (
                (self.q_proj, self.size),
                (self.k_proj, self.size),
                (self.v_proj, self.value_size),
            )
        )
        dropout = self.attention_dropout if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return self.o_proj(output.reshape(*lead, -1).contiguous()), weights


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a ViTAttention; None for any other module."""
    there: Any = sys.modules.get(_FILE)
    if there is None or type(module) is not there.ViTAttention:
        return None
    return ThinViTAttention(module, parts)
