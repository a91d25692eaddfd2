"""A diagonal linear state-space model (S4D-Lin), computed as the convolution that it is."""

import math
from typing import Annotated

import torch
from jaxtyping import Complex, Float, Shaped
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models.base import MODELS, SequenceModel
from attnrate.models.convolution import channel_convolution
from attnrate.settings import Count, by, checked

Tensor = torch.Tensor

#: The range of the first step sizes: memories of some 20 to 2000 tokens (Gu et al. 2022)
_STEPS = (1e-3, 1e-1)


def _require_even(name: str, value: object) -> int:
    number = require_whole(name, value, 2)
    if number % 2:
        raise InputError(
            f"{name} must be even, because modes come in conjugate pairs",
            value,
            f"Pass {name}={number + 1}.",
        )
    return number


@MODELS.add("state_space")
class StateSpace(SequenceModel):
    """A diagonal state-space model (S4D-Lin): each channel u_c of u = E x + e drives a system.

    y = R gelu(z) + r, where z has the outputs of these linear systems.

    In continuous time s' = A s + u and z = 2 Re(C s) + D u, with A diagonal and state/2 complex
    modes a, each standing for itself and its conjugate. Over a step Δ with u held constant,
    s(t) = λ s(t-1) + (λ-1)/a u(t) with λ = exp(Δ a), s(-1) = 0, so that z is the causal
    convolution of u with k(t) = 2 Re Σ C (λ-1)/a λ^t, plus D u.

    a = -exp(p) + iω and Δ = exp(q) with p, ω, q trained, hence |λ| < 1 whatever training does.
    At first a_j = -1/2 + iπj (S4D-Lin of Gu et al. 2022), Δ is log-uniform on [1e-3, 1e-1], one
    for every channel, and the real and imaginary parts of C are N(0, 1/2), D is N(0, 1).

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        state: The size of the state of each channel, an even number. Default: 64.
        channels: The number of channels. Default: 64.

    Examples:
        >>> model = ar.StateSpace(d=1, out=1, state=8, channels=4)
        >>> model(ar.linear_target("exponential", 32).sample(8, seed=0)).shape
        torch.Size([8, 32, 1])

    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        state: Annotated[int, by(_require_even)] = 64,
        channels: Count = 64,
    ) -> None:
        super().__init__(d, out)
        self.state, self.channels = state, channels
        modes = self.state // 2
        low, high = map(math.log, _STEPS)
        self.encoder = nn.Linear(self.d, self.channels)
        self.log_decay = nn.Parameter(torch.full((self.channels, modes), math.log(0.5)))
        self.frequency = nn.Parameter((math.pi * torch.arange(modes)).repeat(self.channels, 1))
        self.log_step = nn.Parameter(torch.empty(self.channels, 1).uniform_(low, high))
        # two real numbers for a complex one, so that any optimiser can train it
        self.C = nn.Parameter(torch.randn(self.channels, modes, 2) * math.sqrt(0.5))
        self.D = nn.Parameter(torch.randn(self.channels))
        self.readout = nn.Linear(self.channels, self.out)

    def modes(
        self,
    ) -> tuple[Complex[Tensor, "channels modes"], Complex[Tensor, "channels modes"]]:
        """Compute the modes of every channel.

        Returns:
            Δ a, so that λ = exp(Δ a), and the weight C (λ-1)/a of λ^t in the kernel.

        """
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        exponent = self.log_step.exp() * a
        return exponent, torch.view_as_complex(self.C) * torch.expm1(exponent) / a

    @checked
    def kernel(self, length: Count) -> Float[Tensor, "length channels"]:
        """Compute the kernels k_c(t) = 2 Re Σ C (λ-1)/a λ^t, without D.

        Args:
            length: The number of times t = 0, ..., length - 1.

        Returns:
            k_c(t) at [t, c], of shape (length, channels).

        """
        # λ^(iB+j) = λ^(iB) λ^j, so that some 2√length powers of a mode make all of them
        block = math.isqrt(length - 1) + 1
        count = torch.arange(block, dtype=self.D.dtype, device=self.D.device)[:, None, None]
        exponent, weight = self.modes()
        coarse = (count * (block * exponent)).exp() * (2 * weight)
        fine = (count * exponent).exp()
        # Re(pq) is the inner product of conj(p) and q as pairs of real numbers
        pairs = torch.view_as_real(coarse.conj_physical()), torch.view_as_real(fine)
        return torch.einsum("icmr,jcmr->ijc", *pairs).flatten(0, 1)[:length]

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Map (batch, length, d) to (batch, length, out), each output from the past alone."""
        x = self.sequences(x)
        u: Tensor = self.encoder(x)
        z = channel_convolution(self.kernel(x.shape[-2]), u) + self.D * u
        result: Tensor = self.readout(nn.functional.gelu(z))
        return result
