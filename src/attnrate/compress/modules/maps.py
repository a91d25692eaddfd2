"""A matrix for each head that makes its vectors smaller, behind norms and rotation."""

import torch
from jaxtyping import Float
from torch import nn

Tensor = torch.Tensor


class HeadMap(nn.Module):
    """Maps the vectors of each head to a smaller size: x becomes Mᵀx.

    Args:
        heads: The number of heads.
        before: The size of their vectors.
        size: The size that they get.

    """

    def __init__(self, heads: int, before: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, before, size))

    @classmethod
    def of(cls, matrices: Float[Tensor, "heads m r"], like: Tensor) -> "HeadMap":
        """The map with these matrices, in the number format and on the device of a weight."""
        made = cls(*matrices.shape)
        made.weight = nn.Parameter(matrices.to(like.device, like.dtype), like.requires_grad)
        return made

    def forward(self, x: Float[Tensor, "batch heads T m"]) -> Float[Tensor, "batch heads T r"]:
        """The vectors in the smaller size."""
        made: Tensor = x @ self.weight
        return made

    def extra_repr(self) -> str:
        """The sizes, for the model's own print."""
        heads, before, size = self.weight.shape
        return f"heads={heads}, before={before}, size={size}"


def maps_of(module: nn.Module) -> list[HeadMap]:
    """The maps of a layer; none where its weights were cut."""
    return [part for part in module.children() if isinstance(part, HeadMap)]
