"""Laws of the input sequence: how x(1), ..., x(τ) are drawn, and the box that they live in."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64

from attnrate.errors import InputError
from attnrate.settings import Count, Positive, checked
from attnrate.targets.checks import require_vector


@runtime_checkable
class InputLaw(Protocol):
    """What a target needs to know of its inputs: tokens in R^d, their box, and how to draw them.

    Any class with these four is one; a subclass has `d` already.
    """

    @property
    def d(self) -> int:
        """The dimension of one token."""
        return len(self.low)

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner of a box that contains every token."""

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner of that box."""

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """`n` independent sequences in float64."""


@dataclass(frozen=True, init=False)
class UniformInputs:
    """Tokens independent and uniform on the box [low, high] in R^d; U[0, 1] unless told."""

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __init__(self, low: object = (0.0,), high: object = (1.0,)) -> None:
        low, high = require_vector("low", low), require_vector("high", high)
        if low.shape != high.shape:
            raise InputError(
                "low and high must have as many entries as each other",
                (low.size, high.size),
                "Pass one number for every dimension.",
            )
        for axis, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
            if a >= b:
                raise InputError(f"the box is empty along axis {axis}", (a, b), "Pass low < high.")
        object.__setattr__(self, "low", tuple(low.tolist()))
        object.__setattr__(self, "high", tuple(high.tolist()))

    @property
    def d(self) -> int:
        """The dimension of one token."""
        return len(self.low)

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of each coordinate, (low + high) / 2."""
        return tuple((a + b) / 2 for a, b in zip(self.low, self.high, strict=True))

    @property
    def variance(self) -> tuple[float, ...]:
        """The variance of each coordinate, (high - low)² / 12."""
        return tuple((b - a) ** 2 / 12 for a, b in zip(self.low, self.high, strict=True))

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """`n` independent sequences in float64."""
        low, high = float64(self.low), float64(self.high)
        return low + (high - low) * unit(generator, n, length, self.d)


@dataclass(frozen=True, init=False)
class PositionedInputs(InputLaw):
    """Eq. 7: the token at position s is uniform on its own interval, the intervals are disjoint.

    This is the paper's position encoding: a token's value alone tells where it stands. The paper
    asks for closed disjoint sets, so two intervals that only touch are refused as well.
    """

    intervals: tuple[tuple[float, float], ...]

    def __init__(self, intervals: object) -> None:
        pairs = _intervals(intervals)
        order = sorted(range(len(pairs)), key=lambda s: pairs[s])
        for i, j in pairwise(order):
            if pairs[j][0] <= pairs[i][1]:
                i, j = sorted((i, j))
                raise InputError(
                    f"intervals {i} and {j} are not disjoint",
                    (pairs[i], pairs[j]),
                    "Leave a gap between the closed intervals (Eq. 7).",
                )
        object.__setattr__(self, "intervals", pairs)

    @classmethod
    @checked
    def shifted(cls, length: Count, gap: Positive = 1.0) -> "PositionedInputs":
        """`length` intervals of width 1 with `gap` between them: [2s, 2s + 1] for a gap of 1."""
        step = 1.0 + gap
        return cls(tuple((s * step, s * step + 1.0) for s in range(length)))

    @property
    def low(self) -> tuple[float, ...]:
        """The lower end of the smallest interval that contains them all."""
        return (min(a for a, _ in self.intervals),)

    @property
    def high(self) -> tuple[float, ...]:
        """The upper end of the smallest interval that contains them all."""
        return (max(b for _, b in self.intervals),)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """`n` independent sequences in float64; `length` must be the number of intervals."""
        if length != len(self.intervals):
            raise InputError(
                f"{len(self.intervals)} intervals make sequences of that length only",
                length,
                "Pass one interval for every position.",
            )
        ends = float64(self.intervals)
        low, high = ends[:, :1], ends[:, 1:]
        return low + (high - low) * unit(generator, n, length, 1)


def unit(generator: torch.Generator, *shape: int) -> Float64[torch.Tensor, "..."]:
    """Independent U[0, 1] numbers in float64."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def float64(values: object) -> Float64[torch.Tensor, "..."]:
    """`values` as a float64 tensor."""
    return torch.as_tensor(values, dtype=torch.float64)


def _intervals(intervals: object) -> tuple[tuple[float, float], ...]:
    if not isinstance(intervals, Sequence) or isinstance(intervals, (str, bytes)) or not intervals:
        raise InputError(
            "intervals must be a list of pairs, one for every position", intervals, "Pass (a, b)."
        )
    return tuple(_interval(s, pair) for s, pair in enumerate(intervals))


def _interval(s: int, pair: object) -> tuple[float, float]:
    ends = require_vector(f"intervals[{s}]", pair).tolist()
    if len(ends) != 2 or ends[0] >= ends[1]:
        raise InputError(f"intervals[{s}] must be a pair (a, b) with a < b", pair)
    return ends[0], ends[1]
