"""Thin attention of attnrate's ViT and Seq2Seq: the same class with a smaller head size."""

import torch
from torch import nn

from attnrate.compress.modules.parts import Parts
from attnrate.models.multihead import Multihead


def thin(module: nn.Module, parts: Parts) -> nn.Module | None:
    """A Multihead of the new sizes; None for any other module."""
    if type(module) is not Multihead:
        return None
    sizes = parts.heads, parts.size, parts.value_size
    made = Multihead(module.width, *sizes, module.causal, module.in_cache)
    made.W_Q, made.W_K, made.W_V, made.W_O = parts.query, parts.key, parts.value, parts.output
    # A Multihead divides its logits by the root of its own head size
    with torch.no_grad():
        for own in (made.W_Q.weight, made.W_Q.bias):
            own.mul_(module.scale / made.scale)
    return made.train(module.training)
