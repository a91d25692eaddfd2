"""Thin self and cross attention of BART, Marian, mBART and others that transformers builds alike.

Whisper's is the same but for one thing: it divides the queries and not the logits by the root of
the head size.
"""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads, remembered
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor
#: What the names of classes begin with, by families; their `forward` is that of BART, word by word
FAMILIES = {
    "bart": "Bart",
    "biogpt": "BioGpt",
    "blenderbot": "Blenderbot",
    "blenderbot_small": "BlenderbotSmall",
    "m2m_100": "M2M100",
    "marian": "Marian",
    "mbart": "MBart",
    "pegasus": "Pegasus",
    "plbart": "PLBart",
}


class ThinBart(StandIn):
    """Self or cross attention of BART with queries and keys of one size and values of another.

    Args:
        module: The layer in whose place it stands: a BartAttention or one built alike.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.layer_idx, self.is_causal = given.layer_idx, given.is_causal
        self.is_decoder, self.dropout = given.is_decoder, given.dropout
        self.num_heads, self.head_dim = parts.heads, parts.size
        self.in_cache, self.scaling = bool(given.is_decoder), float(given.scaling)
        self.q_proj, self.k_proj, self.v_proj = parts.query, parts.key, parts.value
        self.out_proj = parts.output

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence or to another; takes and gives what a BartAttention does."""
        read = hidden_states if key_value_states is None else key_value_states

        def make() -> tuple[Tensor, Tensor]:
            key, value = self.k_proj(read), self.v_proj(read)
            return by_heads(key, self.size), by_heads(value, self.value_size)

        query = by_heads(self.q_proj(hidden_states) * self.query_factor, self.size)
        cross = key_value_states is not None
        key, value = remembered(past_key_values, self.layer_idx, cross, make)
        dropout = self.dropout if self.training else 0.0
        output, weights = attend(
            self, query, key, value, attention_mask, dropout, self.scaling, kwargs
        )
        return self.out_proj(output.reshape(*hidden_states.shape[:-1], -1).contiguous()), weights


class ThinWhisper(ThinBart):
    """Self or cross attention of Whisper with queries and keys of one size and values of another.

    Args:
        module: The WhisperAttention in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        self.query_factor, self.scaling = self.scaling, 1.0


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of attention of BART and its kin; None for any other module."""
    if is_of(module, FAMILIES, "Attention"):
        return standing_in(ThinBart, module, parts)
    if is_of(module, {"whisper": "Whisper"}, "Attention"):
        return standing_in(ThinWhisper, module, parts)
    return None
