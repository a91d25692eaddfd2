"""Position encodings (sec. 4.1, Eq. 7): how the position of a token becomes part of it."""

from typing import Literal

import torch
from jaxtyping import Float, Float64, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import require_tokens
from attnrate.settings import Count, Number, Positive, checked
from attnrate.targets.inputs import PositionedInputs

Tensor = torch.Tensor

PositionName = Literal["none", "learned", "sinusoidal", "shift"]


class PositionEncoding(nn.Module):
    """A map of tokens that may depend on their position: (..., length, d) -> (..., length, d').

    This is the base of all encodings; `position_encoding` makes them by name. An encoding of your
    own derives from it, has a method `forward`, and goes into `Transformer(position=...)`.

    Args:
        d: The number of coordinates of a token.
        length: The length of the longest sequence that it can encode; None for any length.
        features: The number d' of coordinates that it gives.

    Examples:
        >>> isinstance(ar.position_encoding("shift", d=1, length=4), ar.PositionEncoding)
        True

    """

    @checked
    def __init__(self, d: Count, length: Count | None, features: Count) -> None:
        super().__init__()
        self.d, self.length, self.features = d, length, features

    def _sequences(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """Check the tokens and the length, and cast the tokens to the type of the parameters."""
        x = require_tokens(x, self.d, self)
        if self.length is not None and x.shape[-2] > self.length:
            raise InputError(
                f"sequences may have {self.length} positions at most",
                x.shape[-2],
                f"Pass length={x.shape[-2]} when the encoding is made.",
            )
        return x


class NoPosition(PositionEncoding):
    """No encoding: tokens stay as they are, so the Transformer is equivariant (App. A.1)."""

    def __init__(self, d: Count) -> None:
        super().__init__(d, None, d)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """Return the tokens as they are."""
        return self._sequences(x)


class LearnedPosition(PositionEncoding):
    """A learned encoding (sec. 4.1): x(t) -> A x(t) + e(t), A and e(t) trained, e first N(0, 1)."""

    @checked
    def __init__(self, d: Count, length: Count, features: Count) -> None:
        super().__init__(d, length, features)
        self.A = nn.Linear(self.d, self.features, bias=False)
        self.e = nn.Parameter(torch.randn(length, self.features))

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length features"]:
        """Compute A x(t) + e(t)."""
        x = self._sequences(x)
        encoded: Tensor = self.A(x) + self.e[: x.shape[-2]]
        return encoded


class SinusoidalPosition(PositionEncoding):
    """A sinusoidal encoding (sec. 4.1): x(t) -> A x(t) + e(t), A trained, e of `sinusoids`."""

    @checked
    def __init__(self, d: Count, length: Count, features: Count) -> None:
        super().__init__(d, length, features)
        self.A = nn.Linear(self.d, self.features, bias=False)
        # no buffer, because a model that goes to float32 and back would round it
        self._e = sinusoids(length, self.features)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length features"]:
        """Compute A x(t) + e(t)."""
        x = self._sequences(x)
        encoded: Tensor = self.A(x) + self._e[: x.shape[-2]].to(x)
        return encoded


def sinusoids(length: int, features: int) -> Float64[Tensor, "length features"]:
    """The table of Vaswani et al. (2017): e(t)_{2i} = sin(t ω_i), e(t)_{2i+1} = cos(t ω_i).

    Positions t count from 0.

    Frequencies are ω_i = 10000^(-2i/features); an odd number of features ends with a sine.
    """
    i = torch.arange(features, dtype=torch.float64)
    omega = 10000.0 ** (-2.0 * (i // 2) / features)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * omega
    return torch.where(i % 2 == 0, angle.sin(), angle.cos())


class IntervalShift(PositionEncoding):
    """The encoding of Eq. 7: x(t) -> x(t) + t (width + gap), an interval for each position.

    Every coordinate of a token must lie in [low, low + width]; at position t it then lies in
    `intervals[t]` = [low + t (width + gap), low + t (width + gap) + width]. Eq. 7 asks for closed
    disjoint sets, so a gap of zero is refused as well.
    """

    @checked
    def __init__(
        self,
        d: Count,
        length: Count,
        width: Positive = 1.0,
        gap: Number = 1.0,
        low: Number = 0.0,
    ) -> None:
        super().__init__(d, length, d)
        self.width, self.gap, self.low = width, gap, low
        shifts = [t * (self.width + self.gap) for t in range(max(length, 2))]
        pairs = tuple((self.low + shift, self.low + shift + self.width) for shift in shifts)
        if self.gap <= 0:
            raise InputError(
                f"gap must be greater than 0, so that intervals 0 and 1, {pairs[0]} and "
                f"{pairs[1]}, are disjoint",
                gap,
                "Leave a gap between the closed intervals (Eq. 7).",
            )
        #: the interval of each position
        self.intervals = PositionedInputs(pairs[:length]).intervals
        # no buffer, because a model that goes to float32 and back would round it
        self._shift = torch.tensor(shifts, dtype=torch.float64)[:, None]

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """Compute x(t) + t (width + gap); a token outside [low, low + width] is refused."""
        x = self._sequences(x)
        high = self.low + self.width
        outside = ~((x >= self.low) & (x <= high))
        if outside.any():
            first = tuple(int(i) for i in outside.nonzero()[0])
            raise InputError(
                f"the token at position {first[-2]} lies outside [{self.low:g}, {high:g}]",
                x[first].item(),
                "Make the shift with the low and the width of the inputs.",
            )
        return x + self._shift[: x.shape[-2]].to(x)


@checked
def position_encoding(
    kind: PositionName,
    d: Count,
    length: Count | None = None,
    features: Count | None = None,
    *,
    width: Positive = 1.0,
    gap: Number = 1.0,
    low: Number = 0.0,
) -> PositionEncoding:
    """Make a position encoding by its name (sec. 4.1, Eq. 7).

    "none" leaves the tokens as they are. "learned" and "sinusoidal" map x(t) to A x(t) + e(t), with
    e(t) trained or that of Vaswani et al. (2017). "shift" is Eq. 7: x(t) + t (width + gap), so that
    each position has an interval of its own.

    Args:
        kind: "none", "learned", "sinusoidal" or "shift".
        d: The number of coordinates of a token.
        length: The length of the longest sequence; all but "none" need it.
        features: The number of coordinates that "learned" and "sinusoidal" give. Default: d.
        width: The width of the interval that tokens lie in, for "shift". Default: 1.
        gap: The gap between two intervals, above 0, for "shift". Default: 1.
        low: The lower end of the interval that tokens lie in, for "shift". Default: 0.

    Returns:
        The encoding, a torch module.

    Examples:
        >>> import torch
        >>> shift = ar.position_encoding("shift", d=1, length=3)
        >>> shift(torch.zeros(1, 3, 1)).flatten()
        tensor([0., 2., 4.])

    """
    if kind == "none":
        return NoPosition(d)
    if length is None:
        raise InputError(
            f"position={kind!r} needs the length of the sequences", length, "Pass length."
        )
    if kind == "shift":
        return IntervalShift(d, length, width, gap, low)
    encoding = LearnedPosition if kind == "learned" else SinusoidalPosition
    return encoding(d, length, d if features is None else features)
