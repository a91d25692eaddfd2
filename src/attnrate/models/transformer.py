"""The paper's hypothesis space (Eq. 5): one layer, one head, no residual, norm or 1/√m_h."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError, require_whole

Tensor = torch.Tensor


def feed_forward(inputs: int, outputs: int, width: int, depth: int) -> nn.Sequential:
    """A ReLU network with `depth` hidden layers of `width` units, PyTorch's default init."""
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for one, two in pairwise(sizes):
        layers += [nn.Linear(one, two), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


class Transformer(nn.Module):
    """Eq. 5: h(s) = f̂(x(s)), Ĥ_t = F̂(Σ_s softmax[(W_Q h(t))ᵀ W_K h(·)](s) W_V h(s)).

    The budget is m = (n, m_h, m_v, m_ff): n features, head size m_h, value size m_v, and
    feed-forward networks of `width` units in `depth` hidden layers. `f_hat` (d -> n) and `F_hat`
    (m_v -> out) may be given as modules instead; compiled Transformers are made that way.
    """

    def __init__(
        self,
        d: int,
        out: int,
        n: int = 32,
        m_h: int = 8,
        m_v: int = 32,
        width: int = 128,
        depth: int = 3,
        *,
        f_hat: nn.Module | None = None,
        F_hat: nn.Module | None = None,
    ) -> None:
        super().__init__()
        sizes = {"d": d, "out": out, "n": n, "m_h": m_h, "m_v": m_v, "width": width, "depth": depth}
        for name, size in sizes.items():
            require_whole(name, size, 1)
        self.d, self.out, self.n, self.m_h, self.m_v = d, out, n, m_h, m_v
        self.f_hat = f_hat if f_hat is not None else feed_forward(d, n, width, depth)
        self.F_hat = F_hat if F_hat is not None else feed_forward(m_v, out, width, depth)
        self.W_Q = nn.Linear(n, m_h, bias=False)
        self.W_K = nn.Linear(n, m_h, bias=False)
        self.W_V = nn.Linear(n, m_v, bias=False)

    def _features(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... n"]:
        if x.ndim < 1 or x.shape[-1] != self.d:
            raise InputError(
                f"inputs must have shape (batch, length, {self.d})",
                tuple(x.shape),
                f"The last axis holds the {self.d} coordinates of a token.",
            )
        features: Tensor = self.f_hat(x)
        return features

    def logits(self, x: Float[Tensor, "*batch length d"]) -> Float[Tensor, "*batch length length"]:
        """ρ̂(x(t), x(s)): what goes into softmax."""
        h = self._features(x)
        logits: Tensor = self.W_Q(h) @ self.W_K(h).mT
        return logits

    def attention(
        self, x: Float[Tensor, "*batch length d"]
    ) -> Float[Tensor, "*batch length length"]:
        """The weight of position s in the output at t; every row sums to one."""
        return self.logits(x).softmax(-1)

    def forward(self, x: Float[Tensor, "*batch length d"]) -> Float[Tensor, "*batch length out"]:
        """Ĥ(x)."""
        h = self._features(x)
        attention = (self.W_Q(h) @ self.W_K(h).mT).softmax(-1)
        result: Tensor = self.F_hat(attention @ self.W_V(h))
        return result

    def pointwise(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch out"]:
        """F̂∘f̂: what the model does to a constant sequence, an invariant by Prop. B.1."""
        result: Tensor = self.F_hat(self.W_V(self._features(x)))
        return result

    def coupling(self) -> "LearnedCoupling":
        """ρ̂(u, v) as a function that `pod` can decompose; its rank is at most m_h."""
        return LearnedCoupling(self)

    def parameter_count(self) -> int:
        """Trainable numbers."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class LearnedCoupling(nn.Module):
    """ρ̂(u, v) = (W_Q f̂(u))ᵀ W_K f̂(v) of a Transformer; tokens have a last axis of d numbers."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.d = model.d

    def forward(self, u: Float[Tensor, "... d"], v: Float[Tensor, "... d"]) -> Float[Tensor, "..."]:
        """ρ̂ at u and v, broadcast against each other."""
        query: Tensor = self.model.W_Q(self.model._features(u))
        key: Tensor = self.model.W_K(self.model._features(v))
        return (query * key).sum(-1)
