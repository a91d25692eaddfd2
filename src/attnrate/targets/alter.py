"""Altered targets of sec. 6: the inputs in another order, and the inputs mixed by a filter."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Float64, Shaped

from attnrate.errors import InputError, require_whole
from attnrate.settings import Count, Switch, checked
from attnrate.targets.checks import Vector, require_vector
from attnrate.targets.form import Target
from attnrate.targets.inputs import InputLaw, UniformInputs

#: Tables 1 and 2 move so many tokens
MOVED = 10


def permuted(target: Target, p: object) -> "PermutedTarget":
    """Sec. 6.1: H~ with H~_t(x∘p) = H_t(x), where (x∘p)(t) = x(p(t)) and positions start at 0.

    H~ sees the tokens in the order p and still has to give the outputs of H. When H has attention
    weights, so has H~.
    """
    order = as_permutation(p, target.length)
    if isinstance(target, _WithAttention):
        return PermutedAttentionTarget(target, order)
    return PermutedTarget(target, order)


@checked
def mixed(target: Target, theta: Vector, causal: Switch = True) -> "MixedTarget":
    """Sec. 6.2: H~(x) = H(θ∗x) with (θ∗x)(t) = Σ_s θ(s) x(t-s), x zero outside the sequence.

    The paper prints x(t+s), which reads the future: that is causal=False. Its Table 2 is only
    possible with the causal filter, which is therefore the default.
    """
    return MixedTarget(target, as_filter(theta, target.length), causal)


@checked
def swap_ends(length: Count, k: Count = MOVED) -> list[int]:
    """Table 2's order: position i changes places with position length - k + i, for i < k."""
    require_whole("k", k, 1, require_whole("length", length, 2) // 2)
    return [*range(length - k, length), *range(k, length - k), *range(k)]


@checked
def move_to_end(length: Count, k: Count = MOVED) -> list[int]:
    """Table 1's order: the first k positions come last."""
    require_whole("k", k, 1, length)
    return [*range(k, length), *range(k)]


def inverse(p: object) -> list[int]:
    """The permutation q with q(p(t)) = t."""
    order = as_permutation(p, None)
    return sorted(range(len(order)), key=order.__getitem__)


def as_permutation(p: object, length: int | None) -> tuple[int, ...]:
    """`p` as a tuple, or an InputError naming the first entry that keeps it from being one."""
    if isinstance(p, (str, bytes)) or not isinstance(p, Iterable):
        raise InputError("p must be a list of positions", p, "Pass e.g. swap_ends(length, 10).")
    entries = p.tolist() if isinstance(p, torch.Tensor) else list(p)
    if length is not None and len(entries) != length:
        raise InputError(
            f"p must have {length} entries, one for every position, not {len(entries)}", entries
        )
    order: list[int] = []
    seen: set[int] = set()
    for i, entry in enumerate(entries):
        position = require_whole(f"p[{i}]", entry, 0, len(entries) - 1)
        if position in seen:
            raise InputError(f"p[{i}] repeats an entry, so p is no permutation", position)
        order.append(position)
        seen.add(position)
    return tuple(order)


def as_filter(theta: Vector, length: int) -> tuple[float, ...]:
    """`theta` as a tuple, or an InputError when it is no filter for sequences of that length."""
    values = require_vector("theta", theta)
    if values.size > length:
        raise InputError(f"theta must have at most {length} entries", int(values.size))
    return tuple(values.tolist())


def convolve(
    theta: tuple[float, ...], x: Float[torch.Tensor, "n length d"], causal: bool
) -> Float[torch.Tensor, "n length d"]:
    """(θ∗x)(t) = Σ_s θ(s) x(t-s), or x(t+s) when not causal; zero outside the sequence."""
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
        """`n` sequences x∘p."""
        return self.base.draw(n, length, generator)[:, list(self.p)]


def permuted_law(inputs: InputLaw, p: tuple[int, ...]) -> InputLaw:
    """The law of x∘p; independent tokens of one law have the same law in every order."""
    return inputs if isinstance(inputs, UniformInputs) else PermutedInputs(inputs, p)


@runtime_checkable
class _WithAttention(Protocol):
    def attention(
        self, x: Shaped[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "n length length"]: ...


@dataclass(frozen=True)
class AlteredTarget(Target):
    """A target made of another, its base: as long, with as many outputs, of the same inputs."""

    base: Target
    length: int = field(init=False)
    inputs: InputLaw = field(init=False)
    out: int = field(init=False)
    name: str = field(init=False)
    word: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", self.base.length)
        object.__setattr__(self, "inputs", self.base.inputs)
        object.__setattr__(self, "out", self.base.out)
        object.__setattr__(self, "name", f"{self.base.name} {self.word}".strip())

    def entries_a_sequence(self) -> int:
        """As many as the base holds."""
        return self.base.entries_a_sequence()


@dataclass(frozen=True)
class PermutedTarget(AlteredTarget):
    """H~(z) = H(z∘p^-1); made by `permuted`."""

    p: tuple[int, ...]
    word: ClassVar[str] = "permuted"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", as_permutation(self.p, self.base.length))
        object.__setattr__(self, "inputs", permuted_law(self.base.inputs, self.p))

    def restored(self, z: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length d"]:
        """z∘p^-1, the sequence that the base is given."""
        return z[:, inverse(self.p)]

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """H(x∘p^-1)."""
        return self.base.evaluate(self.restored(x))


@dataclass(frozen=True)
class PermutedAttentionTarget(PermutedTarget):
    """A permuted target whose base has attention weights."""

    def attention(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """The weight of the token at position j in the output at t, at [t, j].

        The columns stand in the order of the sequence that H~ is given: its token j is the one
        that the base has at position p(j).
        """
        self.check(x)
        base = cast(_WithAttention, self.base)
        return base.attention(self.restored(x))[:, :, list(self.p)]


@dataclass(frozen=True)
class MixedTarget(AlteredTarget):
    """H~(x) = H(θ∗x), x drawn from the law of the base; made by `mixed`."""

    theta: tuple[float, ...]
    causal: bool = True
    word: ClassVar[str] = "mixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", as_filter(self.theta, self.base.length))

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """H(θ∗x)."""
        return self.base.evaluate(convolve(self.theta, x, self.causal))
