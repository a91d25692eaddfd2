"""Targets between graph and temporal: a weighted sum of two, and the graph part cut to the past."""

from dataclasses import dataclass, field
from functools import cache

import torch
from jaxtyping import Float

from attnrate.targets import AttentionTarget, InputLaw, Target, linear_target, spectral_target
from attnrate.targets.alter import swap_ends

#: Sequences from which scales, variances and floors are estimated
_SEQUENCES = 4096
_SCALE_SEED = 1 << 43

LENGTH, RANK, MOVED = 16, 2, 5
VARIANTS = ("as it is", "permuted", "causal")


@dataclass(frozen=True)
class _Made(Target):
    """A target made of others, with the length, the inputs and the outputs of the first."""

    length: int = field(init=False)
    inputs: InputLaw = field(init=False)
    out: int = field(init=False)
    name: str = field(init=False)

    def take(self, first: Target, name: str) -> None:
        """Set the four fields; for `__post_init__`."""
        shape = {"length": first.length, "inputs": first.inputs, "out": first.out}
        for each, value in {**shape, "name": name}.items():
            object.__setattr__(self, each, value)


@dataclass(frozen=True)
class PastAttention(_Made):
    """Eq. 8 with the positions after t hidden: Σ_{s≤t} softmax[ρ(x(t), x(·))](s) f(x(s))."""

    base: AttentionTarget

    def __post_init__(self) -> None:
        self.take(self.base, f"{self.base.name}, past only")

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """F of the mean of f over the past."""
        later = torch.ones(self.length, self.length, dtype=torch.bool).triu(1)
        weights = self.base.logits(x).masked_fill(later, -torch.inf).softmax(-1)
        return self.base.F(weights @ self.base.f(x)).to(x.dtype)

    def entries_a_sequence(self) -> int:
        """How many numbers the base holds for one sequence."""
        return self.base.entries_a_sequence()


@dataclass(frozen=True)
class Blend(_Made):
    """(1-λ) (g - mean)/sd(g) + λ (h - mean)/sd(h) for two targets g, h of the same inputs.

    sd² is the mean over t of the variance of the output at t, so that both parts count alike, and
    the means are taken over all t, so that no model has to learn a large constant first.
    """

    graph: Target
    temporal: Target
    share: float
    means: tuple[float, float]
    scales: tuple[float, float]

    def __post_init__(self) -> None:
        self.take(self.graph, f"blend λ={self.share:g}")

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """The weighted sum of both parts."""
        first, second = (1 - self.share) / self.scales[0], self.share / self.scales[1]
        graph, temporal = self.graph.evaluate(x), self.temporal.evaluate(x)
        return first * (graph - self.means[0]) + second * (temporal - self.means[1])

    def entries_a_sequence(self) -> int:
        """How many numbers the larger part holds for one sequence."""
        return max(self.graph.entries_a_sequence(), self.temporal.entries_a_sequence())


def blend(share: float, variant: str) -> Target:
    """The target λ of the way from graph to temporal.

    The graph part is Fig. 1's target with α = 1, where order plays no part; the temporal part is
    Table 2's, y(t) = Σ e^-s x(t-s). "permuted": the first and the last five inputs change
    places. "causal": the graph part sees only the past.
    """
    graph, temporal, means, scales = _parts(variant == "causal")
    made: Target = Blend(graph, temporal, share, means, scales)
    return made.permuted(swap_ends(LENGTH, MOVED)) if variant == "permuted" else made


@cache
def _parts(causal: bool) -> tuple[Target, Target, tuple[float, float], tuple[float, float]]:
    """The graph part and the temporal part, their means and their standard deviations."""
    attention = spectral_target(1.0, RANK, LENGTH)
    graph: Target = PastAttention(attention) if causal else attention
    temporal = linear_target("exponential", LENGTH)
    outputs = [part(part.sample(_SEQUENCES, _SCALE_SEED)) for part in (graph, temporal)]
    means = (float(outputs[0].mean()), float(outputs[1].mean()))
    return graph, temporal, means, (variance(graph) ** 0.5, variance(temporal) ** 0.5)


def variance(target: Target) -> float:
    """The mean over t of the variance of the output at t: the error of the best constants."""
    y = target(target.sample(_SEQUENCES, _SCALE_SEED))
    return float(y.var(0).mean())


def causal_floor(target: Target, seed: int = 0) -> tuple[float, float]:
    """The least error of any model that sees only the past, with its standard error.

    That model is E[y(t) | x(0..t)], and its error is E (y(t) - y'(t))² / 2 where y' belongs to
    the same past with another future: drawn anew here, so the estimate has no bias.
    """
    x = target.sample(_SEQUENCES, _SCALE_SEED + 1 + seed)
    other = target.sample(_SEQUENCES, _SCALE_SEED + (1 << 20) + seed)
    y = target(x)
    total = torch.zeros(_SEQUENCES, dtype=torch.float64)
    for t in range(target.length - 1):
        changed = torch.cat([x[:, : t + 1], other[:, t + 1 :]], 1)
        total += (y[:, t] - target(changed)[:, t]).square().sum(-1) / (2 * target.length)
    return float(total.mean()), float(total.std() / _SEQUENCES**0.5)
