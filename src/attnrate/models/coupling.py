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
    """A Transformer that learns the coupling alone: Ĥ_t = Σ_s softmax[ρ̂(x(t), x(·))](s) x(s).

    ρ̂ has rank m_h, and F̂∘f̂ is exactly the identity: f̂(x) = (x, g(x)) with a network g of n
    features, W_V picks x and is not trained, F̂ = id. For the targets of sec. 5.1 all of its error
    is that of the coupling, as in the proof's first step.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output, which must be d.
        n: The number of features of g. Default: 32.
        m_h: The head size, the rank of ρ̂. Default: 8.
        width: The number of units in each hidden layer of g. Default: 128.
        depth: The number of hidden layers of g. Default: 3.

    Examples:
        >>> import torch
        >>> model = ar.CouplingTransformer(1, 1, m_h=2, width=8)
        >>> x = torch.rand(5, 1)
        >>> torch.equal(model.pointwise(x), x)
        True

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
    """Let W_V of a Transformer pick the first m_v features, and never train it.

    Args:
        model: The Transformer, which is changed. It has one layer and one head.

    Examples:
        >>> model = ar.Transformer(2, 2, n=4, m_v=2)
        >>> ar.hold_values(model)
        >>> model.W_V.weight.requires_grad
        False

    """
    model.W_V.weight.requires_grad_(False)
    with torch.no_grad():
        model.W_V.weight.copy_(torch.eye(model.m_v, model.n))


class Beside(nn.Module):
    """The map x -> (x, g(x)) for a network g: an f̂ that keeps the token beside its features.

    Args:
        network: g, a torch module that acts on the last axis.

    Examples:
        >>> import torch
        >>> ar.Beside(ar.feed_forward(1, 3, width=4, depth=1))(torch.rand(5, 1)).shape
        torch.Size([5, 4])

    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape k"]:
        """Put the features of the network beside the token."""
        return torch.cat([x, self.network(x)], dim=-1)
