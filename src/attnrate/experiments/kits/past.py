"""Attention that sees only the past, and the least error of any model that does."""

from collections.abc import Callable

import torch
from jaxtyping import Float

from attnrate.experiments.contract import Outcome
from attnrate.targets import AttentionTarget, Target

Evaluated = Callable[[torch.Tensor], torch.Tensor]
#: Number of sequences for estimating scales, variances and floors
_SEQUENCES = 4096
_SCALE_SEED = 1 << 43


class FunctionTarget(Target):
    """A target given by a function of sequences, with the inputs and outputs of another target."""

    def __init__(self, like: Target, evaluated: Evaluated, name: str) -> None:
        self.like, self.evaluated, self.name = like, evaluated, name
        self.length, self.inputs, self.out = like.length, like.inputs, like.out

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Evaluate the function on a batch."""
        return self.evaluated(x)

    def entries_a_sequence(self) -> int:
        """As many as the other target needs."""
        return self.like.entries_a_sequence()


def past_attention(base: AttentionTarget) -> Target:
    """Eq. 8 with the positions after t masked: Σ_{s≤t} softmax[ρ(x(t), x(·))](s) f(x(s))."""
    later = torch.ones(base.length, base.length, dtype=torch.bool).triu(1)

    def evaluated(x: torch.Tensor) -> torch.Tensor:
        weights = base.logits(x).masked_fill(later, -torch.inf).softmax(-1)
        return base.F(weights @ base.f(x)).to(x.dtype)

    return FunctionTarget(base, evaluated, f"{base.name}, past only")


def outputs(target: Target) -> torch.Tensor:
    """The target's values on the sequences by which scales and variances are estimated."""
    return target(target.sample(_SEQUENCES, _SCALE_SEED))


def variance(target: Target) -> float:
    """The mean over t of the variance of the output at t: the error of the best constants."""
    return float(outputs(target).var(0).mean())


def causal_floor(target: Target, seed: int = 0) -> tuple[float, float]:
    """Estimate the least error of any model that sees only the past, with its standard error.

    That model is E[y(t) | x(0..t)], and its error is E (y(t) - y'(t))² / 2, where y' has the
    same past and an independent future. The future is drawn anew here, so the estimate has no
    bias.
    """
    x = target.sample(_SEQUENCES, _SCALE_SEED + 1 + seed)
    other = target.sample(_SEQUENCES, _SCALE_SEED + (1 << 20) + seed)
    y = target(x)
    total = torch.zeros(_SEQUENCES, dtype=torch.float64)
    for t in range(target.length - 1):
        changed = torch.cat([x[:, : t + 1], other[:, t + 1 :]], 1)
        total += (y[:, t] - target(changed)[:, t]).square().sum(-1) / (2 * target.length)
    return float(total.mean()), float(total.std() / _SEQUENCES**0.5)


class FloorOutcome(Outcome):
    """A least error over the variance of the target, and its standard error; 0 if it is exact."""

    floor: float
    floor_error: float = 0.0

    def __str__(self) -> str:
        return f"{self.floor:.3g}" + (f" ± {self.floor_error:.1g}" if self.floor_error else "")
