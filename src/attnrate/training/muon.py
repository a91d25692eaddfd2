"""Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal before they are applied.

torch's own Muon multiplies in bfloat16, which most CPUs do very slowly. This one computes in the
number type of the weights, and takes all matrices of one shape together.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import nn

Tensor = torch.Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """W ← (1 - lr · weight_decay) W - lr · 0.2 √max(rows, columns) · orthogonal(g + β m).

    m ← β m + g. The factor gives steps of the size of AdamW's (Liu et al. 2025), so that both can
    share one learning rate. It takes matrices only.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take one step with all matrices that have a gradient."""
        for group in self.param_groups:
            beta, lr = group["momentum"], group["lr"]
            alike: dict[torch.Size, list[Any]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    alike.setdefault(weight.shape, []).append(weight)
            for shape, weights in alike.items():
                ahead = []
                for weight in weights:
                    state = self.state[weight]
                    if not state:
                        state["momentum"] = torch.zeros_like(weight)
                    state["momentum"].mul_(beta).add_(weight.grad)
                    ahead.append(weight.grad.add(state["momentum"], alpha=beta))
                moves = orthogonal(torch.stack(ahead)) * (0.2 * max(shape) ** 0.5)
                for weight, move in zip(weights, moves, strict=True):
                    weight.mul_(1 - lr * group["weight_decay"]).sub_(move, alpha=lr)


def orthogonal(
    matrices: Float[Tensor, "count rows columns"],
) -> Float[Tensor, "count rows columns"]:
    """About U Vᵀ for each matrix U S Vᵀ, by five steps of Newton-Schulz.

    The singular values of the result are near one.
    """
    a, b, c = _COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if tall else matrices
    x = x / x.flatten(1).norm(dim=1)[:, None, None].clamp(min=1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + torch.baddbmm(square, square, square, beta=b, alpha=c) @ x
    return x.mT if tall else x
