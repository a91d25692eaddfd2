"""Altered targets of sec. 6: the inputs in another order, and the inputs mixed by a filter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Float64, Shaped

from attnrate.errors import InputError, require_whole
from attnrate.settings import Count, Switch, checked
from attnrate.targets.checks import Numbers, Permutation, Vector, require_vector
from attnrate.targets.checks import as_permutation as as_permutation
from attnrate.targets.form import Target
from attnrate.targets.inputs import IndependentInputs, InputLaw

#: The number of tokens that Tables 1 and 2 move
MOVED = 10


@checked
def permuted(target: Target, p: Permutation) -> "PermutedTarget":
    """Make the target that sees its tokens in another order; see `Target.permuted`."""
    order = as_permutation(p, target.length)
    if isinstance(target, _WithAttention):
        return PermutedAttentionTarget(target, order)
    return PermutedTarget(target, order)


@checked
def mixed(target: Target, theta: Vector, causal: Switch = True) -> "MixedTarget":
    """Make the target whose inputs are mixed by a filter; see `Target.mixed`."""
    return MixedTarget(target, as_filter(theta, target.length), causal)


@checked
def swap_ends(length: Count, k: Count = 10) -> list[int]:
    """Make Table 2's order: position i changes places with position length - k + i, for i < k.

    Args:
        length: The number of positions.
        k: The number of positions at each end that change places, at most length / 2. Default: 10.

    Returns:
        A permutation for `Target.permuted`.

    Examples:
        >>> ar.swap_ends(6, 2)
        [4, 5, 2, 3, 0, 1]

    """
    require_whole("k", k, 1, require_whole("length", length, 2) // 2)
    return [*range(length - k, length), *range(k, length - k), *range(k)]


@checked
def move_to_end(length: Count, k: Count = 10) -> list[int]:
    """Make Table 1's order: the first k positions come last.

    Args:
        length: The number of positions.
        k: The number of positions that move, at most length. Default: 10.

    Returns:
        A permutation for `Target.permuted`.

    Examples:
        >>> ar.move_to_end(6, 2)
        [2, 3, 4, 5, 0, 1]

    """
    require_whole("k", k, 1, length)
    return [*range(k, length), *range(k)]


@checked
def inverse(p: Permutation) -> list[int]:
    """Make the permutation q with q(p(t)) = t."""
    order = as_permutation(p, None)
    return sorted(range(len(order)), key=order.__getitem__)


def as_filter(theta: Numbers, length: int) -> tuple[float, ...]:
    """`theta` as a tuple, or an InputError when it is no filter for sequences of that length."""
    values = require_vector("theta", theta)
    if values.size > length:
        raise InputError(f"theta must have at most {length} entries", int(values.size))
    return tuple(values.tolist())


def convolve(
    theta: Sequence[float], x: Float[torch.Tensor, "n length d"], causal: bool = True
) -> Float[torch.Tensor, "n length d"]:
    """Mix sequences by a filter, (θ∗x)(t) = Σ_s θ(s) x(t-s), with x = 0 outside the sequence.

    Args:
        theta: θ(0), θ(1), ..., at most as many numbers as a sequence has tokens.
        x: Sequences of shape (n, length, d).
        causal: Whether the filter reads the past, x(t-s), or the future, x(t+s). Default: the past.

    Returns:
        The mixed sequences, of the same shape.

    Examples:
        >>> import torch
        >>> ar.convolve([1.0, 0.5], torch.tensor([[[1.0], [2.0], [4.0]]])).flatten()
        tensor([1.0000, 2.5000, 5.0000])

    """
    length, total = x.shape[1], torch.zeros_like(x)
    for s, weight in enumerate(theta):
        if causal:
            total[:, s:] += weight * x[:, : length - s]
        else:
            total[:, : length - s] += weight * x[:, s:]
    return total


@dataclass(frozen=True)
class PermutedInputs(InputLaw):
    """The law of x∘p for x of law `base`: position t holds what position p(t) held."""

    base: InputLaw
    p: tuple[int, ...]

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner of the base's box."""
        return self.base.low

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner of the base's box."""
        return self.base.high

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw `n` sequences x∘p."""
        return self.base.draw(n, length, generator)[:, list(self.p)]


def permuted_law(inputs: InputLaw, p: tuple[int, ...]) -> InputLaw:
    """The law of x∘p; tokens that are independent and of one law have it in every order."""
    return inputs if isinstance(inputs, IndependentInputs) else PermutedInputs(inputs, p)


@runtime_checkable
class _WithAttention(Protocol):
    def attention(
        self, x: Shaped[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "n length length"]: ...


@dataclass(frozen=True, repr=False)
class AlteredTarget(Target):
    """A target made of another, its base, with the length, outputs and inputs of the base."""

    base: Target
    length: int = field(init=False)
    inputs: InputLaw = field(init=False)
    out: int = field(init=False)
    name: str = field(init=False)
    _word: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", self.base.length)
        object.__setattr__(self, "inputs", self.base.inputs)
        object.__setattr__(self, "out", self.base.out)
        object.__setattr__(self, "name", f"{self.base.name} {self._word}".strip())

    def entries_a_sequence(self) -> int:
        """Estimate how many numbers the evaluation of one sequence by the base holds at once."""
        return self.base.entries_a_sequence()


@dataclass(frozen=True, repr=False)
class PermutedTarget(AlteredTarget):
    """A target whose tokens come in another order: H~(z) = H(z∘p^-1). `Target.permuted` makes it.

    Attributes:
        base: The target H.
        p: The permutation, a tuple of positions.
        length: The number of tokens of a sequence, that of H.
        inputs: The law of x∘p, where x has the law of H.
        out: The number of coordinates of an output, that of H.
        name: The name of H and "permuted".

    Examples:
        >>> target = ar.linear_target("exponential", 4, ar.PositionedInputs.shifted(4))
        >>> altered = ar.PermutedTarget(target, (3, 2, 1, 0))
        >>> x = target.sample(2, seed=0)
        >>> bool((altered(x[:, [3, 2, 1, 0]]) == target(x)).all())
        True

    """

    p: tuple[int, ...]
    _word: ClassVar[str] = "permuted"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", as_permutation(self.p, self.base.length))
        object.__setattr__(self, "inputs", permuted_law(self.base.inputs, self.p))

    def restored(self, z: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length d"]:
        """Put the tokens back into the order of the base.

        Args:
            z: Sequences of shape (n, length, d) in the order p.

        Returns:
            z∘p^-1, the sequences that the base is given.

        """
        return z[:, inverse(self.p)]

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Compute H(x∘p^-1) for one batch of the right shape.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The outputs, of shape (n, length, out).

        """
        return self.base.evaluate(self.restored(x))


@dataclass(frozen=True, repr=False)
class PermutedAttentionTarget(PermutedTarget):
    """A permuted target whose base has attention weights. `Target.permuted` makes it.

    Attributes:
        base: The target H.
        p: The permutation, a tuple of positions.
        length: The number of tokens of a sequence, that of H.
        inputs: The law of x∘p, where x has the law of H.
        out: The number of coordinates of an output, that of H.
        name: The name of H and "permuted".

    Examples:
        >>> target = ar.spectral_target(1.0, 2, length=4).permuted([3, 2, 1, 0])
        >>> isinstance(target, ar.PermutedAttentionTarget)
        True
        >>> target.attention(target.sample(2, seed=0)).shape
        torch.Size([2, 4, 4])

    """

    def attention(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """Compute the attention weights, with columns in the order of the sequence that is given.

        Token j of that sequence is the one that the base has at position p(j).

        Args:
            x: Sequences of shape (n, length, d) in the order p.

        Returns:
            The weight of token j in the output at t, at [:, t, j].

        """
        self.check(x)
        base = cast(_WithAttention, self.base)
        return base.attention(self.restored(x))[:, :, list(self.p)]


@dataclass(frozen=True, repr=False)
class MixedTarget(AlteredTarget):
    """A target whose inputs are mixed by a filter: H~(x) = H(θ∗x). `Target.mixed` makes it.

    Attributes:
        base: The target H.
        theta: The filter θ, a tuple of numbers.
        causal: Whether the filter reads the past or the future.
        length: The number of tokens of a sequence, that of H.
        inputs: The law of the inputs, that of H.
        out: The number of coordinates of an output, that of H.
        name: The name of H and "mixed".

    Examples:
        >>> target = ar.spectral_target(1.0, 2, length=4)
        >>> mixed = target.mixed([0.5, 0.5])
        >>> x = target.sample(2, seed=0)
        >>> bool((mixed(x) == target(ar.convolve([0.5, 0.5], x))).all())
        True

    """

    theta: tuple[float, ...]
    causal: bool = True
    _word: ClassVar[str] = "mixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", as_filter(self.theta, self.base.length))

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Compute H(θ∗x) for one batch of the right shape.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The outputs, of shape (n, length, out).

        """
        return self.base.evaluate(convolve(self.theta, x, self.causal))
