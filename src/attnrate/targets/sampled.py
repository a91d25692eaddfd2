"""Laws of inputs that a function draws, or that are drawn from an array."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64

from attnrate.errors import InputError
from attnrate.settings import Count, by, checked
from attnrate.targets.checks import Numbers, require_vector
from attnrate.targets.inputs import float64, together

#: An array or a tensor of numbers
Values: TypeAlias = npt.NDArray[Any] | torch.Tensor
#: A user's function that draws inputs: (n, length, seed) -> (n, length, d)
Sampler: TypeAlias = Callable[[int, int, int], Values]


def _require_limits(name: str, value: object) -> Float64[np.ndarray, " d"] | float:
    """A corner of a box, which may lie at infinity."""
    values = [value] if isinstance(value, (int, float)) else value
    array = np.asarray(values, dtype=object)
    infinite = [isinstance(one, float) and math.isinf(one) for one in array.flat]
    found = require_vector(name, np.where(infinite, 0, array).tolist())
    found[infinite] = [one for one in array.flat if isinstance(one, float) and math.isinf(one)]
    return float(found[0]) if isinstance(value, (int, float)) else found


#: How a sampler follows its seed
_SEEDED = "Draw all numbers from numpy.random.default_rng(seed)."
#: The numbers that are drawn twice to see whether a sampler follows its seed
_TWICE = 2**12


def _require_sampler(name: str, value: object) -> object:
    if callable(value):
        try:
            inspect.signature(value).bind(1, 1, 0)
        except TypeError:
            what = f"{name} must take three arguments, (n, length, seed)"
            raise InputError(what, str(inspect.signature(value)), _SEEDED) from None
        except ValueError:  # Python knows no signature of some functions in C
            pass
        return value
    ways = "For data use SampledInputs.of_sequences(values) or SampledInputs.of_tokens(values)."
    raise InputError(f"{name} must be a function (n, length, seed)", value, ways)


def _require_drawn(name: str, value: object) -> Float64[np.ndarray, "..."]:
    array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    if array.dtype.kind not in "fiu" or array.size == 0 or not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers, at least one", value)
    return np.asarray(array, dtype=np.float64)


#: A corner of a box: numbers that may be infinite
Limits = Annotated[float | Numbers, by(_require_limits)]
DrawnBy = Annotated[Sampler, by(_require_sampler)]
#: What is drawn from: sequences or tokens
Drawn = Annotated[npt.ArrayLike, by(_require_drawn)]


@dataclass(frozen=True, eq=False, init=False, repr=False)
class SampledInputs:
    """A law that a function of yours draws from, with the box that its tokens live in.

    The theory evaluates couplings at sampled tokens of such a law. `of_sequences` and `of_tokens`
    draw from an array instead.

    Args:
        sampler: A function (n, length, seed) that returns n independent sequences, an array or
            tensor of shape (n, length, d), or (n, length) where d = 1. The same seed must give the
            same sequences: start from numpy.random.default_rng(seed).
        low: The lower corner of a box that contains every token: one number for each coordinate,
            or a single number for all of them. Default: -inf, no bound.
        high: The upper corner. Default: inf, no bound.
        d: The number of coordinates of a token. Default: the number of entries of low or high, or 1
            where both are single numbers.

    Raises:
        InputError: If the box is empty; when sequences are drawn, if they have another shape, are
            not finite, leave the box, or differ though the seed is the same.

    Examples:
        >>> import numpy as np
        >>> def walk(n, length, seed):
        ...     steps = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, length, 1))
        ...     return steps.cumsum(axis=1)
        >>> law = ar.SampledInputs(walk)
        >>> ar.linear_target("exponential", 4, law).sample(2, seed=0).shape
        torch.Size([2, 4, 1])

    """

    sampler: Sampler
    low: tuple[float, ...]
    high: tuple[float, ...]
    _follows_seed: bool  # whether the sampler was seen to

    @checked
    def __init__(
        self,
        sampler: DrawnBy,
        low: Limits = -math.inf,
        high: Limits = math.inf,
        d: Count | None = None,
    ) -> None:
        corners = together(d, low=low, high=high)
        for axis, (a, b) in enumerate(zip(*corners, strict=True)):
            if a > b or a == math.inf or b == -math.inf:
                raise InputError(f"the box is empty along axis {axis}", (a, b), "Pass low < high.")
        object.__setattr__(self, "sampler", sampler)
        object.__setattr__(self, "low", corners[0])
        object.__setattr__(self, "high", corners[1])
        object.__setattr__(self, "_follows_seed", isinstance(sampler, _Sequences | _Tokens))

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return len(self.low)

    @classmethod
    @checked
    def of_sequences(cls, values: Drawn) -> "SampledInputs":
        """Draw whole sequences from an array, with replacement.

        Args:
            values: Sequences of one length, of shape (count, length, d), or (count, length) where
                d = 1. At least one.

        Returns:
            The law, for sequences of that length only; its box is the smallest around the values.

        """
        data = _measured(values, 3)
        return cls(_Sequences(data), data.min((0, 1)), data.max((0, 1)))

    @classmethod
    @checked
    def of_tokens(cls, values: Drawn) -> "SampledInputs":
        """Draw every token independently from an array, with replacement.

        Args:
            values: Tokens, of shape (count, d), or (count,) where d = 1. At least one.

        Returns:
            The law, for sequences of any length; its box is the smallest around the values.

        """
        data = _measured(values, 2)
        return cls(_Tokens(data), data.min(0), data.max(0))

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness; the sampler's seed is drawn from it.

        Returns:
            The sequences in float64, of shape (n, length, d).

        """
        seed = int(torch.randint(2**62, (), generator=generator))
        if not self._follows_seed:
            self._require_seeded(length)
        return self._drawn(n, length, seed)

    def _require_seeded(self, length: int) -> None:
        """Draw twice with one seed; InputError if the sequences differ."""
        n = max(1, _TWICE // length)
        one, two = (self._drawn(n, length, 0) for _ in range(2))
        if not torch.allclose(one, two):
            what = "the sampler must give the same sequences for the same seed"
            raise InputError(what, float(one[one != two][0]), _SEEDED)
        object.__setattr__(self, "_follows_seed", True)

    def _drawn(self, n: int, length: int, seed: int) -> Float64[torch.Tensor, "n length d"]:
        """What the sampler gives, checked."""
        drawn: object = self.sampler(n, length, seed)
        if not isinstance(drawn, (torch.Tensor, np.ndarray)):
            what = "the sampler must return an array or a tensor"
            raise InputError(what, type(drawn).__name__, "Wrap it in numpy.asarray.")
        x = float64(drawn)
        x = x[..., None] if x.ndim == 2 and self.d == 1 else x
        if x.shape != (n, length, self.d):
            raise InputError(
                f"the sampler must return the shape (n, length, d) = ({n}, {length}, {self.d})",
                tuple(x.shape),
                "Pass d, the number of coordinates of a token, or change the sampler.",
            )
        outside = ~((x >= float64(self.low)) & (x <= float64(self.high)) & x.isfinite())
        if outside.any():
            raise InputError(
                f"the sampler gave a token outside its box, {self.low} to {self.high}",
                float(x[outside][0]),
                "Pass a larger box, or leave low and high out.",
            )
        return x

    def __repr__(self) -> str:
        named = getattr(self.sampler, "__name__", type(self.sampler).__name__.lstrip("_"))
        return f"SampledInputs({named}, low={self.low}, high={self.high})"


@dataclass(frozen=True, eq=False)
class _Sequences:
    """Draws whole sequences from an array."""

    data: Float64[np.ndarray, "count length d"]

    def __call__(self, n: int, length: int, seed: int) -> Values:
        if length != self.data.shape[1]:
            what = f"the sequences that this law draws from have {self.data.shape[1]} tokens each"
            raise InputError(what, length, "Make a target of that length, or cut the sequences.")
        return self.data[np.random.default_rng(seed).integers(len(self.data), size=n)]


@dataclass(frozen=True, eq=False)
class _Tokens:
    """Draws every token from an array."""

    data: Float64[np.ndarray, "count d"]

    def __call__(self, n: int, length: int, seed: int) -> Values:
        return self.data[np.random.default_rng(seed).integers(len(self.data), size=(n, length))]


def _measured(values: Any, axes: int) -> Float64[np.ndarray, "..."]:
    """The values with that many axes, the last being the coordinates of a token."""
    found: Float64[np.ndarray, ...] = values[..., None] if values.ndim == axes - 1 else values
    if found.ndim != axes:
        shape = ("count", "length", "d") if axes == 3 else ("count", "d")
        raise InputError(f"values must have the shape ({', '.join(shape)})", values.shape)
    return found
