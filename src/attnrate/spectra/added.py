"""What a model added to its logits beside a bias, computed for those queries that are asked for."""

from dataclasses import dataclass

import torch
from jaxtyping import Float

Tensor = torch.Tensor
_LEAST = torch.finfo(torch.float32).min / 4


@dataclass(frozen=True)
class Added:
    """The mask of attention that is written out by hand, as the difference of two logits.

    Attributes:
        final: The logits as they met softmax.
        query: The queries.
        key: The keys, each for several query heads in a row where there are fewer.
        scale: The factor of the product of queries and keys.
        softcap: The bound that the product was given, if there is one.
        bias: What is known to have been added.

    """

    final: Float[Tensor, "rows heads T S"]
    query: Float[Tensor, "rows heads T m"]
    key: Float[Tensor, "rows groups S m"]
    scale: float
    softcap: float | None
    bias: Float[Tensor, "#rows heads T S"] | None

    def __call__(self, rows: slice) -> Float[Tensor, "rows heads t S"]:
        """What was added to the logits of these queries."""
        keys = self.key.float().repeat_interleave(self.query.shape[1] // self.key.shape[1], 1)
        made = self.scale * (self.query[:, :, rows].float() @ keys.mT)
        if self.softcap is not None:
            made = self.softcap * (made / self.softcap).tanh()
        if self.bias is not None:
            made = made + self.bias[:, :, rows]
        # a query that sees nothing (padding) must not make nan
        return (self.final[:, :, rows].float() - made).clamp(min=_LEAST)

    def first(self) -> "Added":
        """The mask of the first row of the batch alone."""
        return Added(
            self.final[:1],
            self.query[:1],
            self.key[:1],
            self.scale,
            self.softcap,
            None if self.bias is None else self.bias[:1],
        )
