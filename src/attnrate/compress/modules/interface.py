"""Asking the attention interface of transformers, by which a user chooses eager, sdpa or flash."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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
    plain: Callable[..., Any] | None = None,
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
        plain: The function for "eager"; by default that of this file, for keys of every head.

    Returns:
        The outputs (batch, T, heads, value_size), and the weights where the function gives them.

    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    settings: Any = module.config
    table: Any = ALL_ATTENTION_FUNCTIONS
    function: Callable[..., Any] = table.get_interface(
        settings._attn_implementation, plain or eager
    )
    made: tuple[Tensor, Tensor | None] = function(
        module, query, key, value, mask, dropout=dropout, scaling=scaling, **more
    )
    return made


def eager(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attention by plain products, which gives its weights as well."""
    logits = query @ key.mT * scaling
    if attention_mask is not None:
        logits = logits + attention_mask
    weights = logits.softmax(-1, dtype=torch.float32).to(query.dtype)
    weights = nn.functional.dropout(weights, p=dropout, training=module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights
