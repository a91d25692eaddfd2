"""Targets whose tokens come mixed: the model sees z = θ∗x, and the outputs are those of x.

`MixedTarget` is the other way round: there the tokens are x, and the target mixes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError
from attnrate.settings import checked
from attnrate.targets.alter import AlteredTarget, as_filter, convolve
from attnrate.targets.checks import Vector
from attnrate.targets.form import Target
from attnrate.targets.inputs import InputLaw


@checked
def unmixed(target: Target, theta: Vector) -> "UnmixedTarget":
    """Make the target H~(z) = H(x) for mixed tokens z = θ∗x, where x has the law of H.

    Args:
        target: The target H.
        theta: The causal filter θ(0), θ(1), ..., with θ(0) ≠ 0, at most `length` numbers.

    Returns:
        H~, whose inputs have the law of θ∗x.

    Raises:
        InputError: If θ is no such filter.

    """
    return UnmixedTarget(target, as_filter(theta, target.length))


def deconvolve(
    theta: Sequence[float], z: Float[torch.Tensor, "n length d"]
) -> Float[torch.Tensor, "n length d"]:
    """Find the x with θ∗x = z by substitution, x(t) = (z(t) - Σ_{s≥1} θ(s) x(t-s)) / θ(0).

    On finite sequences x always exists. Where θ is not of minimum phase, rounding errors of z grow
    with t by the largest modulus of a root of θ.

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.
        z: Mixed sequences of shape (n, length, d).

    Returns:
        The sequences x, of the same shape.

    """
    x: list[torch.Tensor] = []
    for t, token in enumerate(z.unbind(1)):
        known = zip(theta[1 : t + 1], reversed(x), strict=False)
        left = token - sum((weight * before for weight, before in known), torch.zeros_like(token))
        x.append(left / theta[0])
    return torch.stack(x, dim=1)


@dataclass(frozen=True)
class FilteredInputs(InputLaw):
    """The law of θ∗x for x of law `base`, with x = 0 before the first token."""

    base: InputLaw
    theta: tuple[float, ...]

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner of a box with every token of θ∗x."""
        ends = zip(self.base.low, self.base.high, strict=True)
        return tuple(min(accumulate(min(w * a, w * b) for w in self.theta)) for a, b in ends)

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner of a box with every token of θ∗x."""
        ends = zip(self.base.low, self.base.high, strict=True)
        return tuple(max(accumulate(max(w * a, w * b) for w in self.theta)) for a, b in ends)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw `n` sequences θ∗x."""
        return convolve(self.theta, self.base.draw(n, length, generator))


@dataclass(frozen=True, repr=False)
class UnmixedTarget(AlteredTarget):
    """A target of mixed tokens z = θ∗x: H~(z) = H(x). `unmixed` makes it.

    Attributes:
        base: The target H.
        theta: The filter θ, a tuple of numbers.
        length: The number of tokens of a sequence, that of H.
        inputs: The law of θ∗x, where x has the law of H.
        out: The number of coordinates of an output, that of H.
        name: The name of H and "of mixed tokens".

    """

    theta: tuple[float, ...]
    _word: ClassVar[str] = "of mixed tokens"

    def __post_init__(self) -> None:
        super().__post_init__()
        theta = as_filter(self.theta, self.base.length)
        if theta[0] == 0:
            raise InputError(
                "theta[0] must not be 0, or the last token of a sequence is lost", theta[0]
            )
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "inputs", FilteredInputs(self.base.inputs, theta))

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Compute H(θ⁻¹∗z) for one batch of the right shape.

        Args:
            x: The mixed sequences z, of shape (n, length, d).

        Returns:
            The outputs, of shape (n, length, out).

        """
        return self.base.evaluate(deconvolve(self.theta, x))
