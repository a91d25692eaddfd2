"""Eq. 5 with relative positions: logits that depend on t - s, by a rotation (rotary) or by ALiBi.

The encodings of sec. 4.1 (`positions.py`) change tokens, so that a token says where it stands. Here
tokens stay as they are, and the logits learn how far apart they stand. For one sequence length that
is a property of two positions and not of one, so it is no function of the encoded tokens, as the ρ
of Eq. 8 is.
"""

from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import MODELS, SequenceModel, feed_forward
from attnrate.settings import Count, checked

Tensor = torch.Tensor
RelativeName = Literal["rotary", "alibi"]

#: The base of the frequencies of Su et al. (2021), that of Vaswani et al. (2017)
_BASE = 10000.0
#: The slope from which ALiBi starts: that of Press et al. (2022) for a single head, 2^-8
_SLOPE = 2.0**-8


@MODELS.add("relative")
class RelativeTransformer(SequenceModel):
    """Eq. 5, with one head, whose logits also depend on t - s.

    relative="rotary" (Su et al., 2021) turns queries and keys before they meet: the logit is
    (R^t W_Q h(t))ᵀ R^s W_K h(s) = (W_Q h(t))ᵀ R^(s-t) W_K h(s). R turns the pair of coordinates
    (i, i + m_h/2) by the angle ω_i = 10000^(-2i/m_h).

    relative="alibi" (Press et al., 2022) adds a penalty to the logit,
    (W_Q h(t))ᵀ W_K h(s) - slope · |t - s|. The paper fixes a slope for each of many heads, and its
    models are causal. Here there is one head without a mask, so the slope is trained, and the
    distance counts in both directions. Such a model cannot tell past from future: it commutes with
    the reversal of time.

    Both fit any length of sequences.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        n: The number of features. Default: 32.
        m_h: The head size; "rotary" needs an even one. Default: 8.
        m_v: The size of the values. Default: 32.
        width: The number of units in each hidden layer of f̂ and F̂. Default: 128.
        depth: The number of hidden layers of f̂ and F̂. Default: 3.
        relative: "rotary" or "alibi". Default: "rotary".

    Examples:
        >>> import torch
        >>> model = ar.RelativeTransformer(1, 1, relative="alibi")
        >>> x = torch.rand(2, 16, 1)
        >>> torch.allclose(model(x.flip(1)), model(x).flip(1), atol=1e-6)
        True

    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        n: Count = 32,
        m_h: Count = 8,
        m_v: Count = 32,
        width: Count = 128,
        depth: Count = 3,
        relative: RelativeName = "rotary",
    ) -> None:
        super().__init__(d, out)
        if relative == "rotary" and m_h % 2:
            raise InputError(
                "m_h must be even, because rotary positions turn pairs of coordinates",
                m_h,
                f"Pass m_h={m_h + 1}.",
            )
        self.n, self.m_h, self.m_v = n, m_h, m_v
        self.relative = relative
        self.f_hat = feed_forward(self.d, n, width, depth)
        self.F_hat = feed_forward(m_v, self.out, width, depth)
        self.W_Q = nn.Linear(n, m_h, bias=False)
        self.W_K = nn.Linear(n, m_h, bias=False)
        self.W_V = nn.Linear(n, m_v, bias=False)
        if relative == "alibi":
            self.slope = nn.Parameter(torch.full((1,), _SLOPE))

    def logits(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length length"]:
        """Compute what goes into softmax.

        Args:
            x: Sequences of shape (batch, length, d).

        Returns:
            The logits at [:, t, s].

        """
        return self._logits(self.f_hat(self.sequences(x)))

    def attention(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length length"]:
        """Compute the attention weights.

        Args:
            x: Sequences of shape (batch, length, d).

        Returns:
            The weight of position s in the output at t, at [:, t, s]; every row sums to one.

        """
        return self.logits(x).softmax(-1)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Compute Ĥ(x): (batch, length, d) -> (batch, length, out)."""
        h = self.f_hat(self.sequences(x))
        result: Tensor = self.F_hat(self._logits(h).softmax(-1) @ self.W_V(h))
        return result

    def _logits(self, h: Float[Tensor, "*batch length n"]) -> Float[Tensor, "*batch length length"]:
        query, key = self.W_Q(h), self.W_K(h)
        if self.relative == "rotary":
            return turned(query) @ turned(key).mT
        place = torch.arange(h.shape[-2], dtype=h.dtype, device=h.device)
        distance = (place[:, None] - place).abs()
        product: Tensor = query @ key.mT
        return product - self.slope * distance


def turned(features: Float[Tensor, "*batch length m_h"]) -> Float[Tensor, "*batch length m_h"]:
    """Turn features by their positions: the pair (i, i + m_h/2) at position t by t ω_i."""
    length, m_h = features.shape[-2:]
    i = torch.arange(m_h // 2, dtype=torch.float64, device=features.device)
    place = torch.arange(length, dtype=torch.float64, device=features.device)
    angle = place[:, None] * _BASE ** (-2 * i / m_h)
    cos, sin = angle.cos().to(features.dtype), angle.sin().to(features.dtype)
    one, two = features.chunk(2, -1)
    return torch.cat([one * cos - two * sin, one * sin + two * cos], -1)
