"""Recurrent models: the paper's RNN (Eq. 72-74), linear or with tanh, and a GRU."""

from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import MODELS, SequenceModel
from attnrate.models.convolution import causal_convolution
from attnrate.settings import Count, Switch, checked

Tensor = torch.Tensor


@MODELS.add("linear_rnn")
class LinearRNN(SequenceModel):
    """The recurrent network h(t) = W h(t-1) + U x(t) + b, y(t) = c h(t) + b_out of Eq. 72-73.

    h(-1) = 0. The paper has no b and no b_out; with bias=False neither has this model. With
    activation="tanh" h(t) = tanh(W h(t-1) + U x(t) + b), which is torch's vanilla RNN.

    The linear model is the causal convolution with k(s) = c W^s U (Eq. 74), plus the offset
    Σ_{s≤t} c W^s b + b_out. It is computed as such: the kernel once, then one product for the
    whole batch, instead of a step of the batch for every token. Every parameter starts uniform on
    ±1/√hidden, as in torch.nn.RNN.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        hidden: The size of the state h. Default: 128.
        activation: "linear" or "tanh".
        bias: Whether there are b and b_out. Default: there are.

    Examples:
        >>> model = ar.LinearRNN(d=1, out=1, hidden=16)
        >>> model(ar.linear_target("exponential", 32).sample(8, seed=0)).shape
        torch.Size([8, 32, 1])
        >>> model.kernel(32).shape
        torch.Size([32, 1, 1])

    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        hidden: Count = 128,
        activation: Literal["linear", "tanh"] = "linear",
        bias: Switch = True,
    ) -> None:
        super().__init__(d, out)
        self.hidden, self.activation = hidden, activation
        self.W = nn.Parameter(torch.empty(self.hidden, self.hidden))
        self.U = nn.Parameter(torch.empty(self.hidden, self.d))
        self.c = nn.Parameter(torch.empty(self.out, self.hidden))
        self.b = nn.Parameter(torch.empty(self.hidden)) if bias else None
        self.b_out = nn.Parameter(torch.empty(self.out)) if bias else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(self.hidden**-0.5), self.hidden**-0.5)

    @checked
    def kernel(self, length: Count) -> Float[Tensor, "length out d"]:
        """Compute the kernel k(s) = c W^s U of Eq. 74.

        Args:
            length: The number of lags s = 0, ..., length - 1.

        Returns:
            k(s) at [s], of shape (length, out, d).

        Raises:
            InputError: If the activation is "tanh", which makes the model no convolution.

        """
        if self.activation != "linear":
            raise InputError(
                "only a linear RNN is a convolution", self.activation, 'Pass activation="linear".'
            )
        return self._powers(self.U, length)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Map (batch, length, d) to (batch, length, out), each output from the past alone."""
        x = self.sequences(x)
        return self._convolved(x) if self.activation == "linear" else self._stepped(x)

    def _convolved(self, x: Float[Tensor, "*batch length d"]) -> Float[Tensor, "*batch length out"]:
        if self.b is None or self.b_out is None:
            return causal_convolution(self._powers(self.U, x.shape[-2]), x)
        # the bias is the weight of one more input that is 1 at all times
        powers = self._powers(torch.cat([self.U, self.b[:, None]], dim=1), x.shape[-2])
        offset = powers[..., -1].cumsum(0) + self.b_out
        return causal_convolution(powers[..., :-1], x) + offset

    def _stepped(self, x: Float[Tensor, "*batch length d"]) -> Float[Tensor, "*batch length out"]:
        driven = nn.functional.linear(x, self.U, self.b)
        h = torch.zeros_like(driven[..., 0, :])
        states = []
        for drive in driven.unbind(-2):
            h = torch.tanh(h @ self.W.mT + drive)
            states.append(h)
        return nn.functional.linear(torch.stack(states, dim=-2), self.c, self.b_out)

    def _powers(
        self, inputs: Float[Tensor, "hidden k"], length: int
    ) -> Float[Tensor, "length out k"]:
        """c W^s inputs for s < length, built from the thinner side."""
        if self.out <= inputs.shape[1]:
            return _orbit(self.c, self.W, length) @ inputs
        return self.c @ _orbit(inputs.mT, self.W.mT, length).mT


def _orbit(
    rows: Float[Tensor, "k hidden"], W: Float[Tensor, "hidden hidden"], length: int
) -> Float[Tensor, "length k hidden"]:
    """Compute rows W^s for s < length in log2(length) doublings, each by the last power squared."""
    orbit, power = rows[None], W
    while len(orbit) < length:
        orbit = torch.cat([orbit, (orbit.flatten(0, 1) @ power).view_as(orbit)])
        if len(orbit) < length:
            power = power @ power
    return orbit[:length]


@MODELS.add("gru")
class GRU(SequenceModel):
    """Torch's gated recurrent unit, one layer from h(-1) = 0, and y(t) = c h(t) + b_out.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        hidden: The size of the state h. Default: 128.

    Examples:
        >>> model = ar.GRU(d=1, out=1, hidden=16)
        >>> model(ar.linear_target("exponential", 32).sample(8, seed=0)).shape
        torch.Size([8, 32, 1])

    """

    @checked
    def __init__(self, d: Count, out: Count, hidden: Count = 128) -> None:
        super().__init__(d, out)
        self.hidden = hidden
        self.gru = nn.GRU(self.d, self.hidden, batch_first=True)
        self.readout = nn.Linear(self.hidden, self.out)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Map (batch, length, d) to (batch, length, out), each output from the past alone."""
        x = self.sequences(x)
        states, _ = self.gru(x.reshape(-1, *x.shape[-2:]))
        result: Tensor = self.readout(states)
        return result.reshape(*x.shape[:-1], self.out)
