"""Thin self and cross attention of BERT, RoBERTa and others that transformers builds alike."""

from typing import Any

import torch
from torch import nn

from attnrate.compress.modules.caching import by_heads, remembered
from attnrate.compress.modules.interface import attend
from attnrate.compress.modules.parts import Parts
from attnrate.compress.modules.standing import StandIn, is_of, standing_in

Tensor = torch.Tensor
#: What the names of classes begin with, by families; their `forward` is that of BERT, word by word
FAMILIES = {
    "bert": "Bert",
    "bert_generation": "BertGeneration",
    "camembert": "Camembert",
    "electra": "Electra",
    "ernie": "Ernie",
    "roberta": "Roberta",
    "roberta_prelayernorm": "RobertaPreLayerNorm",
    "roc_bert": "RoCBert",
    "xlm_roberta": "XLMRoberta",
    "xlm_roberta_xl": "XLMRobertaXL",
    "xmod": "Xmod",
}


class ThinBert(StandIn):
    """What self and cross attention of BERT have in common; the output projection lies beside it.

    Args:
        module: The layer in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        given: Any = module
        self.in_cache = bool(given.is_causal)
        self.layer_idx, self.is_causal = given.layer_idx, given.is_causal
        self.num_attention_heads, self.attention_head_size = parts.heads, parts.size
        self.scaling, self.dropout = given.scaling, given.dropout
        self.query, self.key, self.value = parts.query, parts.key, parts.value

    def attended(
        self, tokens: Tensor, others: Tensor | None, mask: Any, cache: Any, more: dict[str, Any]
    ) -> tuple[Tensor, Tensor | None]:
        """What the heads give for tokens that attend to each other, or to others.

        Args:
            tokens: The vectors of the tokens (batch, T, width).
            others: Those of the tokens of an encoder (batch, S, width); None for self attention.
            mask: The mask as the model made it.
            cache: The cache that the model passes on; None without one.
            more: Further arguments that the model passes on.

        Returns:
            The heads' outputs (batch, T, heads · value_size), and the weights where the attention
            function gives them.

        """
        read = tokens if others is None else others

        def make() -> tuple[Tensor, Tensor]:
            return by_heads(self.key(read), self.size), by_heads(self.value(read), self.value_size)

        query = by_heads(self.query(tokens), self.size)
        key, value = remembered(cache, self.layer_idx, others is not None, make)
        dropout = self.dropout.p if self.training else 0.0
        output, weights = attend(self, query, key, value, mask, dropout, self.scaling, more)
        return output.reshape(*tokens.shape[:-1], -1).contiguous(), weights


class ThinBertSelf(ThinBert):
    """Self attention of BERT with queries and keys of one size and values of another."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend within a sequence; takes and gives what a BertSelfAttention does."""
        return self.attended(hidden_states, None, attention_mask, past_key_values, kwargs)


class ThinBertCross(ThinBert):
    """Cross attention of BERT with queries and keys of one size and values of another.

    Args:
        module: The layer in whose place it stands.
        parts: Its thin parts.

    """

    def __init__(self, module: nn.Module, parts: Parts) -> None:
        super().__init__(module, parts)
        self.in_cache = True

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to another sequence; takes and gives what a BertCrossAttention does."""
        return self.attended(
            hidden_states, encoder_hidden_states, attention_mask, past_key_values, kwargs
        )


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """The thin layer in place of attention of BERT and its kin; None for any other module."""
    for last, kind in (("SelfAttention", ThinBertSelf), ("CrossAttention", ThinBertCross)):
        if is_of(module, FAMILIES, last):
            return standing_in(kind, module, parts)
    return None
