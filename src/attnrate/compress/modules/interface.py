"""Asking the attention interface of transformers, by which a user chooses eager, sdpa or flash."""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.standing import Attention

Tensor = torch.Tensor


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    dropout: float,
    scaling: float,
    more: dict[str, Any],
    plain: Attention | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What the attention function of the model's settings gives, tokens before heads.

    Args:
        module: The attention layer, which has the model's `config`.
        query: The queries (batch, heads, T, size).
        key: The keys (batch, groups, S, size).
        value: The values (batch, groups, S, value_size).
        mask: The mask as the model made it.
        dropout: The share of weights that training leaves out.
        scaling: The factor of the logits.
        more: Further arguments that the model passes on.
        plain: The function for "eager"; by default `plain` of a layer that is a StandIn.

    Returns:
        The outputs (batch, T, heads, value_size), and the weights where the function gives them.

    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    table: Any = ALL_ATTENTION_FUNCTIONS
    given: Any = module
    function: Attention = table.get_interface(
        given.config._attn_implementation, plain or given.plain
    )
    return function(module, query, key, value, mask, dropout=dropout, scaling=scaling, **more)
