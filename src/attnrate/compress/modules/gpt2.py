"""Thin attention of GPT-2, whose queries, keys and values are made by parts of their own.

The whole layer makes all three by one part. Thin queries and values need not be of one size, so
that they get a part each.
"""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads, remembered
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor


class ThinGPT2(StandIn):
    """Self or cross attention of GPT-2 with queries and keys of one size and values of another.

    Args:
        module: The GPT2Attention in whose place it stands.
        parts: Its thin parts.

    """

    in_cache = True

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.layer_idx, self.is_causal = given.layer_idx, given.is_causal
        self.is_cross_attention = given.is_cross_attention
        self.num_heads, self.head_dim = parts.heads, parts.size
        self.scaling = given.scaling
        self.reorder_and_upcast_attn = given.reorder_and_upcast_attn
        self.q_proj, self.k_proj, self.v_proj = parts.query, parts.key, parts.value
        self.c_proj = parts.output
        self.attn_dropout, self.resid_dropout = given.attn_dropout, given.resid_dropout

    def forward(
        self,
        hidden_states: Tensor,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        output_attentions: bool | None = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence or to another; takes and gives what a GPT2Attention does."""
        cross = encoder_hidden_states is not None
        read = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        mask = encoder_attention_mask if cross else attention_mask

        def make() -> tuple[Tensor, Tensor]:
            key, value = self.k_proj(read), self.v_proj(read)
            return by_heads(key, self.size), by_heads(value, self.value_size)

        query = by_heads(self.q_proj(hidden_states), self.size)
        key, value = remembered(past_key_values, self.layer_idx, cross, make)
        if self.config._attn_implementation == "eager" and self.reorder_and_upcast_attn:
            whole: Any = self
            output, weights = whole._upcast_and_reordered_attn(query, key, value, mask)
        else:
            dropout = self.attn_dropout.p if self.training else 0.0
            output, weights = attend(self, query, key, value, mask, dropout, self.scaling, kwargs)
        made = self.c_proj(output.reshape(*output.shape[:-2], -1).contiguous())
        return self.resid_dropout(made), weights


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a GPT2Attention; None for any other module."""
    if not is_of(module, {"gpt2": "GPT2"}, "Attention"):
        return None
    return standing_in(ThinGPT2, module, parts)
