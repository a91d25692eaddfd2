"""Tiny random models with rotary embedding and grouped queries, in float64."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 20,
    "vocab_size": 50,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def numbers(*shape: int, seed: int = 1) -> torch.Tensor:
    """Standard normal numbers in float64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def tokens(inputs: int, length: int, seed: int = 1) -> torch.Tensor:
    """Random token ids, none of them special."""
    return torch.randint(3, 50, (inputs, length), generator=torch.Generator().manual_seed(seed))


def tiny_llama(dtype: torch.dtype = torch.float64, **more: Any) -> LlamaForCausalLM:
    """A Llama with weights so large that its attention is not flat."""
    return filled(LlamaForCausalLM(LlamaConfig(**SIZES | more)), dtype)


def filled(model: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The model with random weights that make its heads differ, and no zero bias."""
    model = model.to(dtype).eval()
    with torch.no_grad():
        for number, x in enumerate(model.parameters()):
            x.copy_((0.3 if x.dim() > 1 else 1.0) * numbers(*x.shape, seed=number))
    return model


BATCH = {"input_ids": tokens(3, 14)}
