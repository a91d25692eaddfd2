"""Thin self attention of BERT, as transformers writes it."""

import sys
from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts

Tensor = torch.Tensor
_FILE = "transformers.models.bert.modeling_bert"


class ThinBertSelfAttention(nn.Module):
    """Self attention of BERT with queries and keys of one size and values of another.

    Args:
        module: The BertSelfAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__()
        given: Any = module
        self.config, self.layer_idx = given.config, given.layer_idx
        self.is_decoder, self.is_causal = given.is_decoder, given.is_causal
        self.num_attention_heads = parts.heads
        self.size, self.value_size = parts.size, parts.value_size
        self.scaling = given.scaling
        self.query, self.key, self.value = parts.query, parts.key, parts.value
        self.dropout = given.dropout

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence; takes and gives what a BertSelfAttention does."""
        lead = hidden_states.shape[:-1]
        query, key, value = (
            part(hidden_states).view(*lead, -1, size).transpose(1, 2)
            for part, size in (
                (self.query, self.size),
                (self.key, self.size),
                (self.value, self.value_size),
            )
        )
        if past_key_values is not None:
            # a decoder with an encoder keeps two caches, of which this is the first
            own = getattr(past_key_values, "self_attention_cache", past_key_values)
            key, value = own.update(key, value, self.layer_idx)
        dropout = self.dropout.p if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return output.reshape(*lead, -1).contiguous(), weights


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a BertSelfAttention; None for any other module."""
    there: Any = sys.modules.get(_FILE)
    if there is None or type(module) is not there.BertSelfAttention:
        return None
    return ThinBertSelfAttention(module, parts)
