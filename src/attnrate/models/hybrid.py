"""Hybrids: Eq. 5's Transformer behind a layer that reads the past, a filter or a recurrence."""

from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import MODELS, SequenceModel
from attnrate.models.convolution import causal_convolution
from attnrate.models.positions import PositionName
from attnrate.models.recurrent import GRU, LinearRNN
from attnrate.models.transformer import Transformer
from attnrate.settings import Count, Settings, Switch, checked

Tensor = torch.Tensor


class CausalFilter(SequenceModel):
    """A linear filter in time: y(t) = Σ_{s<taps} K(s) x(t-s), with zeros before the first token.

    It has no offset, because what reads it has one. Its numbers start uniform on ±1/√(d taps), as
    in torch's convolutions.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        taps: The number of tokens that an output reads.

    """

    @checked
    def __init__(self, d: Count, out: Count, taps: Count) -> None:
        super().__init__(d, out)
        self.K = nn.Parameter(torch.empty(taps, self.out, self.d))
        nn.init.uniform_(self.K, -((d * taps) ** -0.5), (d * taps) ** -0.5)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Map (batch, length, d) to (batch, length, out), each output from the past alone."""
        x = self.sequences(x)
        length, taps = x.shape[-2], len(self.K)
        # as long as the sequences: longer filters are cut, shorter ones end in zeros
        kernel = nn.functional.pad(self.K[:length], (0, 0, 0, 0, 0, max(0, length - taps)))
        return causal_convolution(kernel, x)


@MODELS.add("hybrid")
class Hybrid(SequenceModel):
    """Eq. 5's Transformer behind a layer g that reads the past: Ĥ(x) = T(g(x)).

    g is y(t) = Σ_s K(s) x(t-s) for layer="convolution", the slides' convolution on the inputs; or
    the paper's linear RNN, h(t) = W h(t-1) + U x(t) + b and y = c h + b_out; or a GRU. T sees the
    tokens y(t), of `features` coordinates, in place of x(t). Where K is the identity at lag 0 and
    zero at all others, Ĥ = T exactly.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        layer: "convolution", "linear_rnn" or "gru".
        features: The number of coordinates of y. Default: d.
        taps: The number of tokens that the convolution reads. Default: 5.
        hidden: The size of the state h of a recurrence. Default: 16.
        n: The number of features of T. Default: 32.
        m_h: The head size of T. Default: 8.
        m_v: The size of the values of T. Default: 32.
        width: The number of units in each hidden layer of T's networks. Default: 128.
        depth: The number of hidden layers of T's networks. Default: 3.
        position: The position encoding of T. Default: "none".
        length: The length of the longest sequence, which every position but "none" needs.
        causal: Whether the attention at t sees only s ≤ t. Default: no.
        readout: "network", or "linear" for a linear F̂.

    Examples:
        >>> target = ar.spectral_target(1.0, 2).mixed([0.5, 0.5])
        >>> model = ar.build_model({"kind": "hybrid", "m_h": 2, "width": 16}, target)
        >>> model(target.sample(8, seed=0)).shape
        torch.Size([8, 16, 1])

    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        layer: Literal["convolution", "linear_rnn", "gru"] = "convolution",
        features: Count | None = None,
        taps: Count = 5,
        hidden: Count = 16,
        n: Count = 32,
        m_h: Count = 8,
        m_v: Count = 32,
        width: Count = 128,
        depth: Count = 3,
        position: PositionName = "none",
        length: Count | None = None,
        *,
        causal: Switch = False,
        readout: Literal["network", "linear"] = "network",
    ) -> None:
        super().__init__(d, out)
        seen = d if features is None else features
        self.front = _front(layer, d, seen, taps, hidden)
        self.transformer = Transformer(
            seen,
            out,
            n,
            m_h,
            m_v,
            width,
            depth,
            position=position,
            length=length,
            causal=causal,
            readout=readout,
        )

    @classmethod
    def needs_length(cls, settings: Settings) -> bool:
        """Say whether positions are encoded, which most encodings do for one length.

        Args:
            settings: The settings of the model, complete.

        Returns:
            Whether `position` is not "none".

        """
        return Transformer.needs_length(settings)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Compute Ĥ(x): (batch, length, d) -> (batch, length, out)."""
        return self.transformer(self.front(self.sequences(x)))

    def hold_filter(self, theta: Float[Tensor, " taps"]) -> None:
        """Let the convolution be the filter θ on every coordinate, and never train it.

        Args:
            theta: θ(0), θ(1), ..., as many numbers as the convolution has taps.

        Raises:
            InputError: If the layer is no convolution from d to d coordinates, or θ has another
                length.

        """
        front = self.front
        if not isinstance(front, CausalFilter) or front.out != front.d:
            raise InputError(
                "only a convolution whose features are d can be held at a filter",
                type(front).__name__,
                'Make the model with layer="convolution" and features=None.',
            )
        if len(theta) != len(front.K):
            raise InputError(f"theta must have {len(front.K)} entries, the taps", len(theta))
        with torch.no_grad():
            front.K.copy_(theta[:, None, None] * torch.eye(front.d, dtype=theta.dtype))
        front.requires_grad_(False)


def _front(
    layer: Literal["convolution", "linear_rnn", "gru"], d: int, out: int, taps: int, hidden: int
) -> SequenceModel:
    """The layer before the Transformer."""
    if layer == "convolution":
        return CausalFilter(d, out, taps)
    return LinearRNN(d, out, hidden) if layer == "linear_rnn" else GRU(d, out, hidden)
