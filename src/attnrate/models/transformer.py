"""The paper's hypothesis space (Eq. 5): one layer, one head, no residual, norm or 1/√m_h."""

from itertools import pairwise

import torch
from jaxtyping import Float, Shaped
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
        d: object,
        out: object,
        n: object = 32,
        m_h: object = 8,
        m_v: object = 32,
        width: object = 128,
        depth: object = 3,
        *,
        f_hat: nn.Module | None = None,
        F_hat: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.d, self.out = require_whole("d", d, 1), require_whole("out", out, 1)
        self.n, self.m_h = require_whole("n", n, 1), require_whole("m_h", m_h, 1)
        self.m_v = require_whole("m_v", m_v, 1)
        width, depth = require_whole("width", width, 1), require_whole("depth", depth, 1)
        self.f_hat = f_hat if f_hat is not None else feed_forward(self.d, self.n, width, depth)
        self.F_hat = F_hat if F_hat is not None else feed_forward(self.m_v, self.out, width, depth)
        self.W_Q = nn.Linear(self.n, self.m_h, bias=False)
        self.W_K = nn.Linear(self.n, self.m_h, bias=False)
        self.W_V = nn.Linear(self.n, self.m_v, bias=False)

    def _features(
        self, x: Shaped[Tensor, "..."], shape: tuple[str, ...] = ("batch", "length")
    ) -> Float[Tensor, "... n"]:
        """f̂ on the last axis of x, which must have at least the last axis of `shape` before it."""
        if x.ndim < min(len(shape), 2) or x.shape[-1] != self.d:
            raise InputError(
                f"inputs must have shape ({', '.join((*shape, str(self.d)))})",
                tuple(x.shape),
                f"The last axis holds the {self.d} coordinates of a token.",
            )
        features: Tensor = self.f_hat(x)
        if features.shape[-1] != self.n:
            raise InputError(
                f"f_hat must give n = {self.n} features; its values have the shape",
                tuple(features.shape),
                "Pass n as the size of f_hat's last axis.",
            )
        return features

    def logits(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length length"]:
        """ρ̂(x(t), x(s)): what goes into softmax, (batch, length, d) -> (batch, length, length)."""
        h = self._features(x)
        logits: Tensor = self.W_Q(h) @ self.W_K(h).mT
        return logits

    def attention(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length length"]:
        """The weight of position s in the output at t; every row sums to one."""
        return self.logits(x).softmax(-1)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Ĥ(x): (batch, length, d) -> (batch, length, out)."""
        h = self._features(x)
        attention = (self.W_Q(h) @ self.W_K(h).mT).softmax(-1)
        result: Tensor = self.F_hat(attention @ self.W_V(h))
        return result

    def pointwise(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch out"]:
        """F̂∘f̂: what the model does to a constant sequence, an invariant by Prop. B.1."""
        result: Tensor = self.F_hat(self.W_V(self._features(x, ("...",))))
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

    def forward(self, u: Shaped[Tensor, "..."], v: Shaped[Tensor, "..."]) -> Float[Tensor, "..."]:
        """ρ̂ at u and v, broadcast against each other."""
        query: Tensor = self.model.W_Q(self.model._features(u, ("...",)))
        key: Tensor = self.model.W_K(self.model._features(v, ("...",)))
        return (query * key).sum(-1)
