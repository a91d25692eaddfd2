"""The logits of a model's attention in float64, taken from torch below autograd.

A float64 copy of a model runs with its own plain ("eager") attention. Torch then carries out each
operation by its name, whatever Python called. An attention is a product of two stacks of matrices
whose numbers, as many, go through softmax soon after. Nothing of attnrate is used: neither hooks,
nor the attention interface, nor torch's functions as Python sees them.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

Tensor = torch.Tensor


@dataclass(frozen=True)
class Attention:
    """One attention of a pass, as (rows, heads, …) in float64.

    Attributes:
        query: The queries as they were multiplied.
        key: The keys as they were multiplied, one for each query head.
        entered: What went into softmax; it may have a column of sinks behind the keys.

    """

    query: Tensor
    key: Tensor
    entered: Tensor


class _Below(TorchDispatchMode):
    """Notes the products of matrices, and which of them goes into softmax."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.found: list[Attention] = []
        self._products: list[tuple[Tensor, Tensor, Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if str(func) == "aten._softmax.default" and args[0].dim() in (3, 4):
            x = args[0]  # torch.nn.MultiheadAttention has inputs and heads in one axis
            self._met(x if x.dim() == 4 else x.unflatten(0, (self.inputs, -1)))
        made = func(*args, **(kwargs or {}))
        if str(func) in ("aten.bmm.default", "aten.baddbmm.default"):
            self._products.append((*args[-2:], made))
        return made

    def _met(self, x: Tensor) -> None:
        for S in (x.shape[-1], x.shape[-1] - 1):
            for left, right, made in self._products:
                # those of positions with queries come after that of queries and keys
                if made.numel() == x[..., :S].numel() and made.shape[-1] == S:
                    rows, heads, T, _ = x.shape
                    query = left.reshape(rows, heads, T, -1).clone()
                    key = right.mT.reshape(rows, heads, S, -1).clone()
                    self.found.append(Attention(query, key, x.double().clone()))
                    self._products.clear()
                    return


def dense_attention(model: nn.Module, batch: Mapping[str, Tensor]) -> list[Attention]:
    """All attention of a pass of a float64 copy of the model, in the order in which it runs.

    The model has to use plain attention already.
    """
    exact: Any = copy.deepcopy(model).double()
    exact.set_experts_implementation("eager")  # the others know no float64
    wide = {name: x.double() if x.is_floating_point() else x for name, x in batch.items()}
    inputs = len(next(iter(batch.values())))
    with torch.no_grad(), _Below(inputs) as below:
        exact(**wide)
    return below.found


def centred(logits: Tensor, seen: Tensor) -> Tensor:
    """Logits less their mean over the keys that are seen; 0 where none is."""
    count = seen.sum(-1, keepdim=True).clamp(min=1)
    shown = logits.masked_fill(~seen, 0.0)
    return (shown - shown.sum(-1, keepdim=True) / count).masked_fill(~seen, 0.0)


def singular_values(query: Tensor, key: Tensor, scale: float, gauge: bool) -> Tensor:
    """σ of scale · QKᵀ / √(T S) by a dense SVD, for queries and keys (heads, …, m)."""
    logits = scale * query @ key.mT
    if gauge:
        logits = logits - logits.mean(-1, keepdim=True)
    sigma = torch.linalg.svdvals(logits / (logits.shape[-2] * logits.shape[-1]) ** 0.5)
    m_h = query.shape[-1]
    return functional.pad(sigma, (0, m_h))[..., :m_h]
