"""A state-space model: diagonal systems (S4D-Lin) in two residual blocks.

It is causal on panels as well: an output depends on its token and those before it.
"""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.contender import Contender, Cost, Read, Shape
from attnrate.models.state_space import StateSpace

Tensor = torch.Tensor

_BLOCKS, _STATE = 2, 16


class Blocks(nn.Module):
    """h_0 = E x, h_l = h_{l-1} + S_l(N(h_{l-1})), y = R N(h): S a `StateSpace`, N a layer norm.

    Args:
        shape: What it maps.
        channels: The number of features between the blocks.

    """

    def __init__(self, shape: Shape, channels: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(shape.d, channels)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(_BLOCKS))
        self.systems = nn.ModuleList(
            StateSpace(channels, channels, _STATE, channels) for _ in range(_BLOCKS)
        )
        self.readout = nn.Linear(channels, shape.out)

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch length out"]:
        """Map tokens to outputs, each from the past alone."""
        h: Tensor = self.encoder(x)
        for norm, system in zip(self.norms, self.systems, strict=True):
            h = h + system(norm(h))
        outputs: Tensor = self.readout(h)
        return outputs


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make two blocks of systems.

    Args:
        shape: What they map.
        size: The number of features between the blocks.
        m_h: Nothing; it has no heads.

    """
    return Read(Blocks(shape, size), shape.whole)


CONTENDER = Contender("state_space", "State space", make, 3e-2, Cost(2.5e-3, 0.0, 4.5e-4))
