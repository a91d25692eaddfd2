"""Thin self attention of MPNet, whose positions are a bias of the logits."""

import sys
from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.parts import Parts

Tensor = torch.Tensor
_FILE = "transformers.models.mpnet.modeling_mpnet"


class ThinMPNetSelfAttention(nn.Module):
    """Self attention of MPNet with queries and keys of one size and values of another.

    Args:
        module: The MPNetSelfAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__()
        given: Any = module
        self.num_attention_heads = parts.heads
        self.size, self.value_size = parts.size, parts.value_size
        self.scaling = float(parts.whole**-0.5)
        self.q, self.k, self.v, self.o = parts.query, parts.key, parts.value, parts.output
        self.dropout = given.dropout

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ...]:
        """Attend within a sequence; takes and gives what an MPNetSelfAttention does."""
        lead = hidden_states.shape[:-1]
        query, key, value = (
            part(hidden_states).view(*lead, -1, size).transpose(1, 2)
            for part, size in ((self.q, self.size), (self.k, self.size), (self.v, self.value_size))
        )
        # The interface of transformers has no place for this bias, so products are plain, as there.
        logits = (self.scaling * query) @ key.mT
        if position_bias is not None:
            logits = logits + position_bias
        if attention_mask is not None:
            logits = logits + attention_mask
        weights = self.dropout(logits.softmax(-1))
        output = self.o((weights @ value).transpose(1, 2).reshape(*lead, -1))
        return (output, weights) if output_attentions else (output,)


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of an MPNetSelfAttention; None for any other module."""
    there: Any = sys.modules.get(_FILE)
    if there is None or type(module) is not there.MPNetSelfAttention:
        return None
    return ThinMPNetSelfAttention(module, parts)
