"""Position encodings (sec. 4.1, Eq. 7): how a token comes to know where it stands."""

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

    `features` is d', `length` the longest sequence it can encode, or None when any will do.
    """

    @checked
    def __init__(self, d: Count, length: Count | None, features: Count) -> None:
        super().__init__()
        self.d, self.length, self.features = d, length, features

    def _sequences(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        x = require_tokens(x, self.d, self)
        if self.length is not None and x.shape[-2] > self.length:
            raise InputError(
                f"sequences may have {self.length} positions at most",
                x.shape[-2],
                f"Pass length={x.shape[-2]} when the encoding is made.",
            )
        return x


class NoPosition(PositionEncoding):
    """Tokens as they are, which leaves the Transformer equivariant (App. A.1)."""

    def __init__(self, d: Count) -> None:
        super().__init__(d, None, d)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """x itself."""
        return self._sequences(x)


class LearnedPosition(PositionEncoding):
    """Sec. 4.1: x(t) -> A x(t) + e(t), with A and every e(t) trained; e starts N(0, 1)."""

    @checked
    def __init__(self, d: Count, length: Count, features: Count) -> None:
        super().__init__(d, length, features)
        self.A = nn.Linear(self.d, self.features, bias=False)
        self.e = nn.Parameter(torch.randn(length, self.features))

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length features"]:
        """A x(t) + e(t)."""
        x = self._sequences(x)
        encoded: Tensor = self.A(x) + self.e[: x.shape[-2]]
        return encoded


class SinusoidalPosition(PositionEncoding):
    """Sec. 4.1: x(t) -> A x(t) + e(t), with A trained and the fixed e of `sinusoids`."""

    @checked
    def __init__(self, d: Count, length: Count, features: Count) -> None:
        super().__init__(d, length, features)
        self.A = nn.Linear(self.d, self.features, bias=False)
        # no buffer, because a model that goes to float32 and back would round it
        self._e = sinusoids(length, self.features)

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length features"]:
        """A x(t) + e(t)."""
        x = self._sequences(x)
        encoded: Tensor = self.A(x) + self._e[: x.shape[-2]].to(x)
        return encoded


def sinusoids(length: int, features: int) -> Float64[Tensor, "length features"]:
    """Vaswani et al. (2017): e(t)_{2i} = sin(t ω_i), e(t)_{2i+1} = cos(t ω_i), t from 0.

    ω_i = 10000^(-2i/features); an odd number of features ends with a sine.
    """
    i = torch.arange(features, dtype=torch.float64)
    omega = 10000.0 ** (-2.0 * (i // 2) / features)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * omega
    return torch.where(i % 2 == 0, angle.sin(), angle.cos())


class IntervalShift(PositionEncoding):
    """Eq. 7: x(t) -> x(t) + t (width + gap), so that each position has an interval of its own.

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
        #: where the tokens of each position come to lie
        self.intervals = PositionedInputs(pairs[:length]).intervals
        # no buffer, because a model that goes to float32 and back would round it
        self._shift = torch.tensor(shifts, dtype=torch.float64)[:, None]

    def forward(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """x(t) + t (width + gap); a token outside [low, low + width] is refused."""
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
    """The encoding called `kind`: "none", "learned", "sinusoidal" or "shift" (Eq. 7).

    All but "none" need the length of the sequences; "learned" and "sinusoidal" map to `features`
    numbers (d unless told); width, gap and low are those of "shift".
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
