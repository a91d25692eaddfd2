"""Asking the attention interface of transformers, by which a user chooses eager, sdpa or flash."""

from typing import Any

import torch

from attnrate.compress.modules.standing import Attention, StandIn

Tensor = torch.Tensor


def attend(
    module: StandIn,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    dropout: float,
    scaling: float,
    more: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """What the attention function of the model's settings gives, tokens before heads.

    Args:
        module: The attention layer.
        query: The queries (batch, heads, T, size).
        key: The keys (batch, groups, S, size).
        value: The values (batch, groups, S, value_size).
        mask: The mask as the model made it.
        dropout: The share of weights that training leaves out.
        scaling: The factor of the logits.
        more: Further arguments that the model passes on.

    Returns:
        The outputs (batch, T, heads, value_size), and the weights where the function gives them.

    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    table: Any = ALL_ATTENTION_FUNCTIONS
    function: Attention = table.get_interface(module.config._attn_implementation, module.plain)
    return function(module, query, key, value, mask, dropout=dropout, scaling=scaling, **more)
