"""The paper's hypothesis space (Eq. 5), with options that Eq. 5 does not have."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models.attention import Heads, Layer, norm
from attnrate.models.base import MODELS, SequenceModel, feed_forward, require_tokens
from attnrate.models.positions import (
    IntervalShift,
    NoPosition,
    PositionEncoding,
    PositionName,
    position_encoding,
)
from attnrate.settings import Count, Natural, Settings, Switch, by, checked

Tensor = torch.Tensor
#: The number of a layer, from 0 or, when negative, from the last
Layered: TypeAlias = Annotated[int, by(require_whole, -(2**31))]


@MODELS.add("transformer")
class Transformer(SequenceModel):
    """The paper's Transformer: Ĥ_t = F̂(Σ_s softmax[(W_Q h(t))ᵀ W_K h(·)](s) W_V h(s)), h = f̂(x).

    This is Eq. 5. The budget is m = (n, m_h, m_v, m_ff): n features, head size m_h, value size m_v,
    and feed-forward networks f̂ and F̂ of `width` units in `depth` hidden layers.

    Beyond the paper, each off by default, with P the position encoding and N layer norms:

    h_0 = f̂(P(x)); for ℓ = 1, ..., layers - 1
        a_ℓ = [h_{ℓ-1} +] W_o^ℓ A^ℓ(N(h_{ℓ-1})),   h_ℓ = [a_ℓ +] g^ℓ(N(a_ℓ));
    Ĥ = F̂(A(N(h_{layers-1}))), where A(h)_t stacks, for every head i,
        Σ_s softmax_s[c (W_Q^i h(t))ᵀ W_K^i h(s)] W_V^i h(s).

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        n: The number of features. Default: 32.
        m_h: The head size, the largest rank that ρ̂ can have. Default: 8.
        m_v: The size of the values. Default: 32.
        width: The number of units in each hidden layer of f̂, F̂ and g. Default: 128.
        depth: The number of hidden layers of f̂, F̂ and g. Default: 3.
        heads: The number of heads; their rows lie one below the other in W_Q, W_K (heads·m_h, n)
            and W_V (heads·m_v, n). Default: 1.
        layers: The number of layers. Those before the last have W_o (n, heads·m_v) and a network g
            from n to n; with residual=True, W_o = 0 and g = 0 make such a layer the identity.
            Default: 1.
        position: "none", "learned", "sinusoidal" or "shift" (Eq. 7), or a `PositionEncoding`. f̂
            takes what it gives: n numbers for "learned" and "sinusoidal".
        length: The length of the longest sequence, which every position but "none" needs.
        residual: Whether there are the terms in brackets; the last layer has none. Default: no.
        layer_norm: Whether there is a layer norm N before every attention and every g. Default: no.
        scale: Whether c = 1/√m_h instead of 1. Default: no.
        causal: Whether the output at t sees only s ≤ t. Default: no.
        readout: "network", or "linear" for a linear F̂, which cannot make up for wrong attention
            weights.
        f_hat: A module d -> n in place of the network f̂. Compiled Transformers have one.
        F_hat: A module heads·m_v -> out in place of the network F̂.

    Examples:
        >>> model = ar.Transformer(d=1, out=1, n=8, m_h=2, m_v=4, width=16)
        >>> x = ar.spectral_target(1.0, 2).sample(8, seed=0)
        >>> model(x).shape
        torch.Size([8, 16, 1])
        >>> model.attention(x).shape
        torch.Size([8, 16, 16])

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
        heads: Count = 1,
        layers: Count = 1,
        position: PositionName | PositionEncoding = "none",
        length: Count | None = None,
        *,
        residual: Switch = False,
        layer_norm: Switch = False,
        scale: Switch = False,
        causal: Switch = False,
        readout: Literal["network", "linear"] = "network",
        f_hat: nn.Module | None = None,
        F_hat: nn.Module | None = None,
    ) -> None:
        super().__init__(d, out)
        self.n, self.m_h, self.m_v = n, m_h, m_v
        self.heads, self.layers = heads, layers
        self.rule = Heads(heads, m_h**-0.5 if scale else 1.0, causal)
        self.position = _encoding(position, self.d, length, self.n)
        values = self.heads * self.m_v
        encoded = self.position.features
        self.f_hat = f_hat if f_hat is not None else feed_forward(encoded, self.n, width, depth)
        self.F_hat = (
            F_hat if F_hat is not None else _readout(readout, values, self.out, width, depth)
        )
        self.W_Q = nn.Linear(self.n, self.heads * self.m_h, bias=False)
        self.W_K = nn.Linear(self.n, self.heads * self.m_h, bias=False)
        self.W_V = nn.Linear(self.n, values, bias=False)
        self.norm = norm(self.n, layer_norm)
        sizes = (self.n, self.m_h, self.m_v, self.rule, width, depth)
        self.inner = nn.ModuleList(
            Layer(*sizes, residual, layer_norm) for _ in range(self.layers - 1)
        )

    @classmethod
    def needs_length(cls, settings: Settings) -> bool:
        """Say whether positions are encoded, which most encodings do for one length.

        Args:
            settings: The settings of the model, complete.

        Returns:
            Whether `position` is not "none".

        """
        return bool(settings.get("position", "none") != "none")

    def _features(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length n"]:
        """Compute h_0 = f̂(P(x))."""
        x = require_tokens(x, self.d, self)
        return self._embedded(self.position(x))

    def _embedded(self, encoded: Float[Tensor, "*shape k"]) -> Float[Tensor, "*shape n"]:
        features: Tensor = self.f_hat(encoded)
        if features.shape[-1] != self.n:
            raise InputError(
                f"f_hat must give n = {self.n} features; its values have the shape",
                tuple(features.shape),
                "Pass n as the size of f_hat's last axis.",
            )
        return features

    @checked
    def logits(
        self, x: Shaped[Tensor, "..."], layer: Layered = -1
    ) -> Float[Tensor, "*shape length length"]:
        """Compute ρ̂(x(t), x(s)), what goes into softmax.

        Args:
            x: Sequences of shape (batch, length, d).
            layer: The layer, counted from 0 or, when negative, from the last. Default: the last.

        Returns:
            The logits at [:, t, s], of shape (batch, length, length), or (batch, heads, length,
            length) with several heads. A causal model hides s > t afterwards.

        """
        index = require_whole("layer", layer, -self.layers, self.layers - 1) % self.layers
        h = self._features(x)
        for inner in self.inner[:index]:
            h = inner(h)
        at = self if index == self.layers - 1 else cast(Layer, self.inner[index])
        h = at.norm(h)
        return self.rule.logits(at.W_Q(h), at.W_K(h))

    @checked
    def attention(
        self, x: Shaped[Tensor, "..."], layer: Layered = -1
    ) -> Float[Tensor, "*shape length length"]:
        """Compute the attention weights.

        Args:
            x: Sequences of shape (batch, length, d).
            layer: The layer, counted from 0 or, when negative, from the last. Default: the last.

        Returns:
            The weight of position s in the output at t, at [:, t, s]; every row sums to one. With
            several heads the shape is (batch, heads, length, length).

        """
        return self.rule.weights(self.logits(x, layer))

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Compute Ĥ(x): (batch, length, d) -> (batch, length, out)."""
        h = self._features(x)
        for inner in self.inner:
            h = inner(h)
        h = self.norm(h)
        result: Tensor = self.F_hat(self.rule.mix(self.W_Q(h), self.W_K(h), self.W_V(h)))
        return result

    def pointwise(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch out"]:
        """Compute F̂∘f̂, what the model does to a constant sequence, an invariant by Prop. B.1.

        Inner layers are applied between f̂ and F̂, since they leave constant sequences constant.

        Args:
            x: Tokens of shape (..., d); with position="shift" encoded points, as in `coupling`.

        Returns:
            The outputs, of shape (..., out).

        """
        self._require_token_function("F̂∘f̂")
        h = self._embedded(require_tokens(x, self.d, self.f_hat, ("...",)))
        for inner in self.inner:
            h = cast(Layer, inner).pointwise(h)
        result: Tensor = self.F_hat(self.W_V(self.norm(h)))
        return result

    @checked
    def coupling(self, head: Natural = 0) -> "LearnedCoupling":
        """Take the coupling ρ̂(u, v) of one head, which `pod` can decompose.

        Its rank is at most m_h. With position="shift" u and v are encoded points: numbers in the
        union of `position.intervals`, the paper's set 𝓘 (Eq. 7). With several layers, or encodings
        that put A x + e(t) in place of x, logits are no function of two tokens.

        Args:
            head: The number of the head, from 0.

        Returns:
            ρ̂, a torch module of two arguments.

        Raises:
            InputError: If the logits are no function of two tokens.

        """
        head = require_whole("head", head, 0, self.heads - 1)
        self._require_token_function("ρ̂")
        if self.layers > 1:
            raise InputError(
                "ρ̂ of the last layer depends on whole sequences, not on two tokens; layers",
                self.layers,
                "Use logits(x, layer) instead.",
            )
        return LearnedCoupling(self, head)

    def _require_token_function(self, name: str) -> None:
        if not isinstance(self.position, NoPosition | IntervalShift):
            raise InputError(
                f"{name} is no function of tokens when every position adds its own vector",
                type(self.position).__name__,
                'Use position="none" or "shift" (Eq. 7).',
            )


class LearnedCoupling(nn.Module):
    """The coupling ρ̂(u, v) = (W_Q f̂(u))ᵀ W_K f̂(v) of one head of a Transformer.

    It has the head's rows of W_Q and W_K, and the norm and the scale of its model.
    `Transformer.coupling` makes it; `pod` takes it as it is.

    Args:
        model: The Transformer, with one layer.
        head: The number of the head, from 0.

    Examples:
        >>> coupling = ar.Transformer(1, 1, n=4, m_h=2, width=8, depth=1).coupling()
        >>> ar.pod(coupling, (0, 1)).rank <= 2
        True

    """

    if TYPE_CHECKING:
        # torch says nothing of what a module gives when it is called
        def __call__(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor: ...  # noqa: D102

    def __init__(self, model: Transformer, head: int = 0) -> None:
        super().__init__()
        self.model = model
        self.d = model.d
        self.head = head

    def forward(self, u: Shaped[Tensor, "..."], v: Shaped[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Compute ρ̂ at u and v, of shape (..., d), which broadcast against each other."""
        query = self._side(u, self.model.W_Q)
        key = self._side(v, self.model.W_K)
        return self.model.rule.factor * (query * key).sum(-1)

    def _side(self, tokens: Shaped[Tensor, "..."], W: nn.Module) -> Float[Tensor, "... m_h"]:
        model = self.model
        tokens = require_tokens(tokens, model.d, model.f_hat, ("...",))
        every: Tensor = W(model.norm(model._embedded(tokens)))
        return every[..., self.head * model.m_h : (self.head + 1) * model.m_h]


def _readout(kind: str, values: int, out: int, width: int, depth: int) -> nn.Module:
    return nn.Linear(values, out) if kind == "linear" else feed_forward(values, out, width, depth)


def _encoding(
    position: PositionName | PositionEncoding, d: int, length: int | None, features: int
) -> PositionEncoding:
    if not isinstance(position, PositionEncoding):
        return position_encoding(position, d, length, features)
    if position.d != d:
        raise InputError(f"position must take tokens of d = {d} coordinates", position.d)
    return position
