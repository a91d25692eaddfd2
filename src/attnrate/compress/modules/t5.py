"""Thin self and cross attention of T5, whose positions are a bias of the logits.

The first layer of a stack makes the bias from a table of its own and passes it on with its output;
all other layers are given it. Nothing of that depends on the size of the heads. Logits are not
divided by the root of that size.
"""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads, remembered
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor
FAMILIES = {"t5": "T5", "mt5": "MT5"}


class ThinT5(StandIn):
    """Self or cross attention of T5 with queries and keys of one size and values of another.

    Args:
        module: The T5Attention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.layer_idx, self.is_causal = given.layer_idx, given.is_causal
        self.is_decoder, self.dropout = given.is_decoder, given.dropout
        self.n_heads, self.key_value_proj_dim = parts.heads, parts.size
        self.in_cache, self.scaling = bool(given.is_decoder), given.scaling
        self.q, self.k, self.v, self.o = parts.query, parts.key, parts.value, parts.output
        self.has_relative_attention_bias = given.has_relative_attention_bias
        self.relative_attention_num_buckets = given.relative_attention_num_buckets
        self.relative_attention_max_distance = given.relative_attention_max_distance
        if self.has_relative_attention_bias:
            self.relative_attention_bias = given.relative_attention_bias

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Attend within a sequence or to another; takes and gives what a T5Attention does."""
        read = hidden_states if key_value_states is None else key_value_states

        def make() -> tuple[Tensor, Tensor]:
            return by_heads(self.k(read), self.size), by_heads(self.v(read), self.value_size)

        query = by_heads(self.q(hidden_states), self.size)
        seen: Any = 0
        if past_key_values is not None:
            seen = past_key_values.get_seq_length(self.layer_idx)
            # a static cache counts on in the tensor that it gives
            seen = seen.clone() if isinstance(seen, Tensor) else seen
        cross = key_value_states is not None
        key, value = remembered(past_key_values, self.layer_idx, cross, make)
        if position_bias is None:
            position_bias = self.positions(query, key, seen)
        dropout = self.dropout if self.training else 0.0
        more = {**kwargs, "position_bias": position_bias}
        output, weights = attend(self, query, key, value, mask, dropout, self.scaling, more)
        made = self.o(output.reshape(*hidden_states.shape[:-1], -1).contiguous())
        return made, position_bias, weights

    def positions(self, query: Tensor, key: Tensor, seen: Any) -> Tensor:
        """The bias (1, heads, T, S) of this layer; zeros where it has no table of its own."""
        T, S = query.shape[2], key.shape[2]
        if not self.has_relative_attention_bias:
            return query.new_zeros(1, self.n_heads, T, S)
        whole: Any = self
        made: Tensor = whole.compute_bias(T, S, device=query.device, past_seen_tokens=seen)
        return made


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of a T5Attention or MT5Attention; None for any other module."""
    return standing_in(ThinT5, module, parts) if is_of(module, FAMILIES, "Attention") else None
