"""A target in real time: inputs come at random times, and their weight is e^{-λ (time since)}."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.settings import Positive, checked
from attnrate.targets.delay import LAW
from attnrate.targets.form import TARGETS, Length, Target
from attnrate.targets.inputs import InputLaw

#: What a token carries besides its value: the time since the token before it, or the time itself
Carries: TypeAlias = Literal["elapsed", "time"]


@dataclass(frozen=True)
class TimedInputs(InputLaw):
    """Tokens (x(t), g(t)) or (x(t), T(t)/τ) at the times of a Poisson process of rate 1.

    The values x(t) are independent and uniform on [-√3, √3], with mean 0 and variance 1. The steps
    g(t) are independent and exponential with mean 1, T(0) = 0 and T(t) = T(t-1) + g(t).
    """

    carries: Carries

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner: -√3, and 0 for times."""
        return (*LAW.low, 0.0)

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner: √3, and no bound for times."""
        return (*LAW.high, np.inf)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length 2"]:
        """Draw independent sequences.

        Args:
            n: The number of sequences.
            length: The number of tokens in each.
            generator: The source of all randomness.

        Returns:
            The sequences in float64, of shape (n, length, 2).

        """
        x = LAW.draw(n, length, generator)
        steps = torch.empty(n, length, 1, dtype=torch.float64).exponential_(generator=generator)
        steps[:, 0] = 0.0
        times = steps if self.carries == "elapsed" else steps.cumsum(1) / length
        return torch.cat([x, times], dim=-1)


@dataclass(frozen=True, repr=False)
class IrregularTarget(Target):
    """y(t) = Σ_{s≤t} e^{-λ (T(t) - T(s))} x(s), the same as h(t) = e^{-λ g(t)} h(t-1) + x(t).

    Attributes:
        rate: λ, per mean step.
        length: The number of tokens τ of a sequence.
        inputs: The law of the tokens; it says what they carry.
        out: The number of coordinates of an output, 1.
        name: A name for tables and figures.

    """

    rate: float
    length: int
    inputs: TimedInputs
    name: str
    out: int = field(default=1, init=False)

    def evaluate(self, x: Float[torch.Tensor, "n length 2"]) -> Float[torch.Tensor, "n length 1"]:
        """Compute the recursion h(t) = e^{-λ g(t)} h(t-1) + x(t).

        Args:
            x: Sequences of shape (n, length, 2).

        Returns:
            The outputs, of shape (n, length, 1).

        """
        values, times = x[..., 0], x[..., 1]
        if self.inputs.carries == "time":
            times = self.length * times.diff(dim=1, prepend=times[:, :1])
        kept, h, found = (-self.rate * times).exp(), torch.zeros_like(values[:, 0]), []
        for t in range(self.length):
            h = kept[:, t] * h + values[:, t]
            found.append(h)
        return torch.stack(found, dim=1).unsqueeze(-1)

    def variance(self) -> float:
        """Compute E mean_t y(t)² = mean_t Σ_{j≤t} m₂^j, where m₂ = E e^{-2λg} = 1/(1+2λ).

        Returns:
            The variance of an output, averaged over t; the mean of every output is 0.

        """
        return self._mean_sum(1 / (1 + 2 * self.rate))

    def untimed_floor(self) -> float:
        """Compute the least error of any model that is not told the times, or is affine in them.

        With m = E e^{-λg} = 1/(1+λ) such a model can do no better than ŷ(t) = Σ_j m^j x(t-j), since
        the values have mean 0 and do not depend on the times. What is lost is the variance of the
        weights, mean_t Σ_{j≤t} (m₂^j - m^{2j}).

        Returns:
            E mean_t |y(t) - ŷ(t)|².

        """
        return self.variance() - self._mean_sum(1 / (1 + self.rate) ** 2)

    def _mean_sum(self, q: float) -> float:
        """mean_t Σ_{j≤t} q^j."""
        return float(np.cumsum(q ** np.arange(self.length)).mean())


@TARGETS.add("irregular")
@checked
def irregular_target(
    rate: Positive = 0.5, length: Length = 33, carries: Carries = "elapsed"
) -> IrregularTarget:
    """Make the target y(t) = Σ_{s≤t} e^{-λ (T(t) - T(s))} x(s) on the times T of a Poisson process.

    A token is (x(t), g(t)) with the elapsed time g(t) = T(t) - T(t-1), or (x(t), T(t)/τ). The first
    suits a recurrence, h(t) = e^{-λ g(t)} h(t-1) + x(t). In the second the weight is a function of
    two tokens, as in Eq. 8.

    Args:
        rate: λ, per mean step. Default: 0.5.
        length: The number of tokens τ of a sequence. Default: 33.
        carries: "elapsed" for g(t), "time" for T(t)/τ. Default: "elapsed".

    Returns:
        The target.

    Examples:
        >>> from attnrate.targets.irregular import irregular_target
        >>> target = irregular_target(rate=0.5)
        >>> print(f"{target.untimed_floor() / target.variance():.3f}")
        0.096

    """
    return IrregularTarget(rate, length, TimedInputs(carries), f"irregular, told the {carries}")
