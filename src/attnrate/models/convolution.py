"""Causal convolution in time: with a given kernel, by the quicker of two ways, and as a network."""

from typing import Annotated

import torch
from jaxtyping import Complex, Float, Shaped
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models.base import MODELS, SequenceModel
from attnrate.settings import Count, Settings, by, checked

Tensor = torch.Tensor

#: The longest sequence for which a product with a Toeplitz matrix is quicker than three FFTs
_LONGEST_MATRIX = 256
#: Entries of the largest Toeplitz matrix
_LARGEST_MATRIX = 1 << 22


def causal_convolution(
    kernel: Float[Tensor, "length out d"], x: Float[Tensor, "*batch length d"]
) -> Float[Tensor, "*batch length out"]:
    """y(t) = Σ_{s=0}^{t} k(s) x(t-s) with a matrix k(s) for every lag."""
    length, out, d = kernel.shape
    if length <= _LONGEST_MATRIX and length * length * out * d <= _LARGEST_MATRIX:
        matrix = _toeplitz(kernel).permute(3, 2, 0, 1).reshape(length * d, length * out)
        return (x.flatten(-2) @ matrix).reshape(*x.shape[:-1], out)
    size = 2 * length
    product = torch.einsum(
        "...fd,fod->...fo", torch.fft.rfft(x, size, dim=-2), torch.fft.rfft(kernel, size, dim=0)
    )
    return _first(product, length)


def channel_convolution(
    kernel: Float[Tensor, "length channels"], x: Float[Tensor, "*batch length channels"]
) -> Float[Tensor, "*batch length channels"]:
    """y_c(t) = Σ_{s=0}^{t} k_c(s) x_c(t-s), every channel with its own kernel."""
    length, channels = kernel.shape
    if length <= _LONGEST_MATRIX and length * length * channels <= _LARGEST_MATRIX:
        # one product for each channel: (length, length) with (length, batch)
        matrix = _toeplitz(kernel).permute(1, 0, 2)
        columns = x.reshape(-1, length, channels).permute(2, 1, 0)
        return (matrix @ columns).permute(2, 1, 0).reshape(x.shape)
    size = 2 * length
    product = torch.fft.rfft(x, size, dim=-2) * torch.fft.rfft(kernel, size, dim=0)
    return _first(product, length)


def _first(
    spectrum: Complex[Tensor, "*batch frequencies out"], length: int
) -> Float[Tensor, "*batch length out"]:
    """The first half of the sequence with this spectrum; the rest is what wraps around."""
    whole: Tensor = torch.fft.irfft(spectrum, 2 * length, dim=-2)
    return whole[..., :length, :]


def _toeplitz(kernel: Float[Tensor, "length ..."]) -> Float[Tensor, "length ... length"]:
    """T[t, ..., s] = k(t-s), zero where s > t."""
    later = torch.zeros_like(kernel[1:])
    return torch.cat([kernel.flip(0), later]).unfold(0, kernel.shape[0], 1).flip(0)


@MODELS.add("convolution")
class CausalConvolution(SequenceModel):
    """A causal convolution network with dilations 1, 2, 4, ..., so that few layers see far back.

    h_0 = E x + e, then for ℓ = 1, ..., layers
    h_ℓ(t) = h_{ℓ-1}(t) + relu(Σ_{j<kernel} K_ℓ(j) h_{ℓ-1}(t - j 2^{ℓ-1}) + b_ℓ), with zeros before
    the first token, and y = R h_layers + r. The output at t sees x(t), ..., x(t - receptive + 1),
    where receptive = 1 + (kernel-1)(2^layers - 1).

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.
        channels: The number of features between the layers. Default: 32.
        kernel: The number of tokens that one convolution reads, at least 2. Default: 3.
        layers: The number of layers. Default: as many as it takes to see a whole sequence of
            `length` tokens; 5 without `length`.
        length: The longest sequence, which the layers must be able to see whole. Default: not
            known.

    Raises:
        InputError: If the layers cannot see a sequence of `length` tokens.

    Examples:
        >>> model = ar.CausalConvolution(1, 1, channels=4, length=16)
        >>> model.layers, model.receptive_field
        (4, 31)
        >>> model(ar.spectral_target(1.0, 2).sample(8, seed=0)).shape
        torch.Size([8, 16, 1])

    """

    @checked
    def __init__(
        self,
        d: Count,
        out: Count,
        channels: Count = 32,
        kernel: Annotated[int, by(require_whole, 2)] = 3,
        layers: Count | None = None,
        length: Count | None = None,
    ) -> None:
        super().__init__(d, out)
        self.channels, self.kernel = channels, kernel
        self.layers = _layers(kernel, layers, length)
        self.encoder = nn.Linear(self.d, self.channels)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(self.channels, self.channels, self.kernel, dilation=2**layer)
            for layer in range(self.layers)
        )
        self.readout = nn.Linear(self.channels, self.out)

    @classmethod
    def needs_length(cls, settings: Settings) -> bool:
        """Say whether the number of layers is left open, so that they have to see the whole.

        Args:
            settings: The settings of the model, complete.

        Returns:
            Whether `layers` is None.

        """
        return settings["layers"] is None

    @property
    def receptive_field(self) -> int:
        """The number of tokens, up to its own, that an output can depend on."""
        return _receptive_field(self.kernel, self.layers)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length out"]:
        """Map (batch, length, d) to (batch, length, out), each output from the past alone."""
        x = self.sequences(x)
        h: Tensor = self.encoder(x.reshape(-1, *x.shape[-2:])).mT
        for layer, convolution in enumerate(self.convolutions):
            past = nn.functional.pad(h, ((self.kernel - 1) * 2**layer, 0))
            h = h + convolution(past).relu()
        result: Tensor = self.readout(h.mT)
        return result.reshape(*x.shape[:-1], self.out)


def _receptive_field(kernel: int, layers: int) -> int:
    return 1 + (kernel - 1) * ((1 << layers) - 1)


def _layers(kernel: int, layers: int | None, length: int | None) -> int:
    """The number of layers that was asked for, or the least that covers `length`."""
    if length is None:
        return 5 if layers is None else layers
    least = 1
    while _receptive_field(kernel, least) < length:
        least += 1
    given = least if layers is None else layers
    if given < least:
        raise InputError(
            f"sequences of length {length} need layers={least} at least with kernel={kernel}",
            layers,
            "Pass more layers or a larger kernel, or leave one of layers and length out.",
        )
    return given
