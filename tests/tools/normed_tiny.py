"""Tiny random models that normalise queries and keys before they turn them."""

from typing import Any

import torch
import transformers
from rotary_tiny import SIZES, filled

SLIDING = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}
#: By the names of families: OLMo's norms see all heads, Cohere's have a weight for each head
KIN: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3", {"use_sliding_window": True, "max_window_layers": 1} | SLIDING),
    "gemma3": ("Gemma3", {"query_pre_attn_scalar": 7} | SLIDING),
    "olmo2": ("Olmo2", {"attention_bias": True}),
    "olmo3": ("Olmo3", SLIDING),
    "cohere": ("Cohere", {"use_qk_norm": True, "hidden_size": 48}),
}


def tiny_normed(name: str = "qwen3", dtype: torch.dtype = torch.float64, **more: Any) -> Any:
    """A decoder of a family with its language head."""
    family, own = KIN[name]
    kind = getattr(transformers, f"{family}ForCausalLM")
    return filled(kind(kind.config_class(**SIZES | own | more)), dtype)
