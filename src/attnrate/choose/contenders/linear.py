"""A linear map of the whole sample, solved exactly by ridge regression."""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.contender import Contender, Cost, Shape

Tensor = torch.Tensor


class LinearMap(nn.Module):
    """y = W vec(x) + b: from all tokens of a sample to all of its outputs.

    Args:
        shape: What it maps.

    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        places = shape.length if shape.whole else 1
        self.places = places
        self.map = nn.Linear(shape.length * shape.d, places * shape.out)

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch places out"]:
        """Map tokens to outputs."""
        outputs: Tensor = self.map(x.flatten(1))
        return outputs.reshape(len(x), self.places, -1)


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a linear map, not yet solved.

    Args:
        shape: What it maps.
        size: Nothing; it has one size.
        m_h: Nothing; it has no heads.

    """
    return LinearMap(shape)


CONTENDER = Contender("linear", "Linear map", make, 0.0, Cost(0.0))
