"""Laws of the input sequence: how x(1), ..., x(τ) are drawn, and the box that they live in."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64

from attnrate.errors import InputError, require_number
from attnrate.settings import Count, Positive, by, checked
from attnrate.targets.checks import Numbers, require_vector


def _require_coordinates(name: str, value: object) -> Float64[np.ndarray, " d"] | float:
    """One number for every coordinate of a token, or a single one for all of them."""
    plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return require_number(name, value) if plain else require_vector(name, value)


#: One finite number for every coordinate of a token, or a single one for all of them
Coordinates = Annotated[float | Numbers, by(_require_coordinates)]


@runtime_checkable
class InputLaw(Protocol):
    """The law of a target's input sequences: tokens in R^d, their box, and how to draw them.

    Any class with `d`, `low`, `high` and `draw` is such a law, and need not derive from this one.
    What it draws is checked: the shape, the box, and that equal seeds give equal sequences. For a
    law that a function draws from, `SampledInputs` is shorter.

    Attributes:
        d: The number of coordinates of a token.
        low: The lower corner of a box that contains every token; -inf where there is no bound.
        high: The upper corner of that box; inf where there is no bound.

    Examples:
        >>> import torch
        >>> class Coins:
        ...     d, low, high = 1, (0.0,), (1.0,)
        ...     def draw(self, n, length, generator):
        ...         return torch.randint(0, 2, (n, length, 1), generator=generator).double()
        >>> ar.linear_target("exponential", 3, Coins()).sample(1, seed=0).shape
        torch.Size([1, 3, 1])

    """

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return len(self.low)

    if TYPE_CHECKING:

        @property
        def low(self) -> tuple[float, ...]:
            """The lower corner of a box that contains every token."""

        @property
        def high(self) -> tuple[float, ...]:
            """The upper corner of a box that contains every token."""

    else:  # a property would keep subclasses from setting these in __init__
        low: tuple[float, ...]
        high: tuple[float, ...]

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, d).

        """


class IndependentInputs(ABC):
    """A law whose tokens are independent and all have the same distribution.

    `LinearTarget.floor` and `bracket` know the least error of causal models for such laws. A law of
    your own derives from this class and defines `low`, `high`, `mean`, `variance` and `draw`.

    Attributes:
        d: The number of coordinates of a token.
        low: The lower corner of a box that contains every token.
        high: The upper corner of that box.
        mean: The mean of each coordinate.
        variance: The variance of each coordinate.

    Examples:
        >>> import torch
        >>> class Coins(ar.IndependentInputs):
        ...     low, high, mean, variance = (0.0,), (1.0,), (0.5,), (0.25,)
        ...     def draw(self, n, length, generator):
        ...         return torch.randint(0, 2, (n, length, 1), generator=generator).double()
        >>> target = ar.linear_target("exponential", 3, Coins())
        >>> target.floor("causal")
        0.0
        >>> isinstance(ar.GaussianInputs(), ar.IndependentInputs)
        True

    """

    # attributes, so that a law may set them to constants; those below are computed from the fields
    # of frozen dataclasses, which a checker counts as narrower
    low: tuple[float, ...]
    high: tuple[float, ...]
    mean: tuple[float, ...]
    variance: tuple[float, ...]

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return len(self.low)

    @abstractmethod
    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, d).

        """


@dataclass(frozen=True, init=False)
class UniformInputs(IndependentInputs):
    """Tokens that are independent and uniform on the box [low, high] in R^d.

    Args:
        low: The lower corner of the box: one number for each coordinate, or a single number for
            all of them. Default: 0 in R¹.
        high: The upper corner. Default: 1.

    Raises:
        InputError: If low is not below high in every coordinate.

    Examples:
        >>> ar.UniformInputs().mean
        (0.5,)
        >>> ar.UniformInputs((-1, 0), 1).d
        2

    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @checked
    def __init__(self, low: Coordinates = 0.0, high: Coordinates = 1.0) -> None:
        corners = together(low=low, high=high)
        for axis, (a, b) in enumerate(zip(*corners, strict=True)):
            if a >= b:
                raise InputError(f"the box is empty along axis {axis}", (a, b), "Pass low < high.")
        object.__setattr__(self, "low", corners[0])
        object.__setattr__(self, "high", corners[1])

    @property
    def mean(self) -> tuple[float, ...]:  # type: ignore[override]
        """The mean of each coordinate, (low + high) / 2."""
        return tuple((a + b) / 2 for a, b in zip(self.low, self.high, strict=True))

    @property
    def variance(self) -> tuple[float, ...]:  # type: ignore[override]
        """The variance of each coordinate, (high - low)² / 12."""
        return tuple((b - a) ** 2 / 12 for a, b in zip(self.low, self.high, strict=True))

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, d).

        """
        low, high = float64(self.low), float64(self.high)
        return low + (high - low) * unit(generator, n, length, self.d)


@dataclass(frozen=True, init=False)
class GaussianInputs(IndependentInputs):
    """Tokens that are independent and Gaussian, with independent coordinates.

    The tokens have no bounds: `low` is -inf and `high` is inf. The theory uses a sample of them.

    Args:
        mean: The mean: one number for each coordinate, or a single number for all of them.
            Default: 0 in R¹.
        std: The standard deviation, above 0, in the same form. Default: 1.

    Attributes:
        mean: The mean of each coordinate.
        std: The standard deviation of each coordinate.

    Raises:
        InputError: If a standard deviation is not above 0.

    Examples:
        >>> law = ar.GaussianInputs(mean=(0, 1), std=2)
        >>> law.variance
        (4.0, 4.0)
        >>> target = ar.linear_target("exponential", 8, ar.GaussianInputs())
        >>> target.floor("causal")
        0.0

    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @checked
    def __init__(self, mean: Coordinates = 0.0, std: Coordinates = 1.0) -> None:
        centre, spread = together(mean=mean, std=std)
        for axis, one in enumerate(spread):
            if one <= 0:
                raise InputError(f"std[{axis}] must be greater than 0", one, "Pass std=1.0.")
        object.__setattr__(self, "mean", centre)
        object.__setattr__(self, "std", spread)

    @property
    def variance(self) -> tuple[float, ...]:  # type: ignore[override]
        """The variance of each coordinate, std²."""
        return tuple(one**2 for one in self.std)

    @property
    def low(self) -> tuple[float, ...]:  # type: ignore[override]
        """-inf in each coordinate, because the tokens have no bounds."""
        return (-math.inf,) * len(self.mean)

    @property
    def high(self) -> tuple[float, ...]:  # type: ignore[override]
        """Inf in each coordinate, because the tokens have no bounds."""
        return (math.inf,) * len(self.mean)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, d).

        """
        normal = torch.randn((n, length, self.d), generator=generator, dtype=torch.float64)
        return float64(self.mean) + float64(self.std) * normal


@dataclass(frozen=True, init=False)
class PositionedInputs(InputLaw):
    """Eq. 7: scalar tokens, each position uniform on an interval of its own.

    The intervals are disjoint, so a token's value alone shows where it stands: this is the paper's
    position encoding. The paper asks for closed disjoint sets, so two intervals that only touch are
    refused as well.

    Args:
        intervals: One pair (a, b) with a < b for every position.

    Raises:
        InputError: If two intervals have a point in common.

    Examples:
        >>> ar.PositionedInputs([(0, 1), (2, 3)]).high
        (3.0,)
        >>> ar.PositionedInputs.shifted(3).intervals
        ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0))

    """

    intervals: tuple[tuple[float, float], ...]

    @checked
    def __init__(self, intervals: "Intervals") -> None:
        pairs: Any = intervals
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
        """Make intervals of width 1 with equal gaps between them.

        Args:
            length: The number of intervals, one for every position.
            gap: The distance between two neighbours, above 0. Default: 1, for [2s, 2s + 1].

        Returns:
            The law.

        """
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
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each, which must be the number of intervals.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, 1).

        """
        if length != len(self.intervals):
            raise InputError(
                f"{len(self.intervals)} intervals make sequences of that length only",
                length,
                "Pass one interval for every position.",
            )
        ends = float64(self.intervals)
        low, high = ends[:, :1], ends[:, 1:]
        return low + (high - low) * unit(generator, n, length, 1)


def together(d: int | None = None, /, **ends: Any) -> tuple[tuple[float, ...], ...]:
    """Two vectors of one size: a single number stands for all coordinates."""
    first, second = ends
    sizes = [one.size for one in ends.values() if isinstance(one, np.ndarray)]
    if len({*sizes}) > 1:
        raise InputError(
            f"{first} and {second} must have as many entries as each other",
            (ends[first].size, ends[second].size),
            "Pass one number for every dimension.",
        )
    size = sizes[0] if sizes else d or 1
    if d not in (None, size):
        raise InputError(f"{first} and {second} have {size} entries, d is another number", d)
    return tuple(
        tuple(one.tolist()) if isinstance(one, np.ndarray) else (one,) * size
        for one in ends.values()
    )


def unit(generator: torch.Generator, *shape: int) -> Float64[torch.Tensor, "..."]:
    """Independent U[0, 1] numbers in float64."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def float64(values: Any) -> Float64[torch.Tensor, "..."]:
    """`values` as a float64 tensor."""
    return torch.as_tensor(values, dtype=torch.float64)


def _require_intervals(name: str, intervals: object) -> tuple[tuple[float, float], ...]:
    if not isinstance(intervals, Sequence) or isinstance(intervals, (str, bytes)) or not intervals:
        raise InputError(
            f"{name} must be a list of pairs, one for every position", intervals, "Pass (a, b)."
        )
    return tuple(_interval(s, pair) for s, pair in enumerate(intervals))


def _interval(s: int, pair: object) -> tuple[float, float]:
    ends = require_vector(f"intervals[{s}]", pair).tolist()
    if len(ends) != 2 or ends[0] >= ends[1]:
        raise InputError(f"intervals[{s}] must be a pair (a, b) with a < b", pair)
    return ends[0], ends[1]


#: Disjoint intervals (a, b), one for every position
Intervals = Annotated[Sequence[Sequence[float]], by(_require_intervals)]
