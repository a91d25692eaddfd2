"""Small models that are trained for a few steps, with a monitor or without."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from attnrate.spectra.monitor.monitor import Monitor

Tensor = torch.Tensor
INPUTS, LENGTH, WIDTH, HEADS = 4, 9, 16, 2


class Attention(nn.Module):
    """Attention written out by hand, with dropout, a learned scale and one of each head."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.heads, self.dropout = HEADS, dropout
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.tensor(0.5))
        self.each = nn.Parameter(torch.ones(HEADS, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        weights = ((q @ k.mT) * self.each * self.scale).softmax(-1)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        mixed: Tensor = self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + mixed


class Blocks(nn.Module):
    """Two blocks; `again` says by which checkpointing they are run again in the backward pass."""

    def __init__(self, block: Callable[[], nn.Module] = Attention, again: str = "") -> None:
        super().__init__()
        self.blocks = nn.ModuleList([block(), block()])
        self.again = again

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            if self.again:
                x = checkpoint(block, x, use_reentrant=self.again == "reentrant")
            else:
                x = block(x)
        return x


def plain() -> nn.Module:
    """Two blocks without dropout: equal inputs give equal logits."""
    return Blocks(lambda: Attention(0.0))


def encoder_layer(dropout: float = 0.1) -> nn.Module:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 20, dropout=dropout, batch_first=True)


def tokens(number: int) -> Tensor:
    """The inputs of a step."""
    draw = torch.Generator().manual_seed(number)
    return torch.randn(INPUTS, LENGTH, WIDTH, generator=draw).requires_grad_()


@dataclass(frozen=True)
class Trained:
    """What a training has left: every output, the last gradients and weights, random numbers."""

    outputs: list[Tensor]
    gradients: list[Tensor]
    weights: list[Tensor]
    random: Tensor

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Trained)
        pairs = zip(self._all(), other._all(), strict=True)
        return all(torch.equal(a, b) for a, b in pairs)

    def _all(self) -> list[Tensor]:
        return [*self.outputs, *self.gradients, *self.weights, self.random]


def train(
    make: Callable[[], nn.Module],
    steps: int = 4,
    inputs: Callable[[int], tuple[Any, ...]] = lambda number: (tokens(number),),
    autocast: bool = False,
    **settings: Any,
) -> tuple[Trained, Monitor | None]:
    """Train a new model from the same seed; settings are those of the monitor, if there is one."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = make()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        monitor = Monitor(model, **settings) if settings else None
        outputs = []
        for number in range(steps):
            optimiser.zero_grad()
            with torch.autocast("cpu", enabled=autocast):
                made = model(*inputs(number))
            output = made if isinstance(made, Tensor) else made[0]
            output.float().square().mean().backward()
            optimiser.step()
            outputs.append(output.detach().clone())
            if monitor is not None:
                monitor.step()
        if monitor is not None:
            monitor.close()
        gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        weights = [p.detach().clone() for p in model.parameters()]
        return Trained(outputs, gradients, weights, torch.get_rng_state()), monitor
