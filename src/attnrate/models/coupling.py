"""Eq. 5 with F and f held at the identity: what is left to learn is the coupling."""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import MODELS, feed_forward
from attnrate.models.transformer import Transformer
from attnrate.settings import Count, checked

Tensor = torch.Tensor


@MODELS.add("coupling")
class CouplingTransformer(Transformer):
    """Ĥ_t = Σ_s softmax[ρ̂(x(t), x(·))](s) x(s) with ρ̂ of rank m_h: F̂∘f̂ is exactly the identity.

    f̂(x) = (x, g(x)) with a network g of n features, W_V picks x and is not trained, F̂ = id. For
    the targets of sec. 5.1 all of its error is that of the coupling, as in the proof's first step.
    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        n: Count = 32,
        m_h: Count = 8,
        width: Count = 128,
        depth: Count = 3,
    ) -> None:
        if out != d:
            raise InputError(f"F = f = id needs as many outputs as inputs, d = {d}", out)
        beside = Beside(feed_forward(d, n, width, depth))
        super().__init__(
            d, out, n=d + n, m_h=m_h, m_v=d, f_hat=beside, F_hat=nn.Identity(), width=1, depth=1
        )
        hold_values(self)


def hold_values(model: Transformer) -> None:
    """Let W_V pick the first m_v features, and never train it."""
    model.W_V.weight.requires_grad_(False)
    with torch.no_grad():
        model.W_V.weight.copy_(torch.eye(model.m_v, model.n))


class Beside(nn.Module):
    """x -> (x, g(x))."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape k"]:
        """The token and the features of the network."""
        return torch.cat([x, self.network(x)], dim=-1)
