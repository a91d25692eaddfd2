"""Training with F = f = id against the truncated POD of the same head size: outputs and logits.

The POD is the best low-rank approximation of ρ in L2 over independent tokens. What training makes
of the same rank is compared by the output, by the logits modulo what softmax cannot see, and by
the attention weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from attnrate.experiments.contract import Done, Outcome, from_plain, select
from attnrate.experiments.kits.compiled import SEED
from attnrate.experiments.kits.spectral import (
    Settings,
    Spectral,
    SpectralWork,
    known,
    sizes_of,
)
from attnrate.figures.figure import Cell, Table
from attnrate.fitting.fit import fit
from attnrate.fitting.recipe import recipe_of
from attnrate.models import CouplingTransformer, Transformer
from attnrate.statistics import Interval, geometric_mean
from attnrate.targets import AttentionTarget, error_of
from attnrate.theory.compile import compile_target

#: Sequences and grid points for comparing logits; the grid resolves the 256th sine
_COMPARED, _GRID = 512, 1024


@dataclass(frozen=True)
class LogitErrors:
    """Squared errors of a model's logits, over pairs and on the diagonal, and of its weights."""

    pairs: float
    diagonal: float
    weights: float


@dataclass(frozen=True)
class CouplingOutcome(Outcome):
    """What the fit came to, and its logits beside those of the POD; no logits if it diverged."""

    error: float | None
    standard_error: float | None = None
    seconds: float = 0.0
    steps: int = 0
    stopped: str = ""
    pod_error: float | None = None
    trained_pairs: float | None = None
    trained_diagonal: float | None = None
    trained_weights: float | None = None
    pod_pairs: float | None = None
    pod_diagonal: float | None = None
    pod_weights: float | None = None


@dataclass(frozen=True, kw_only=True)
class Coupling(SpectralWork):
    """A fit of Eq. 5 with F = f = id, whose logits are compared with those of the truncated POD."""

    work: ClassVar[str] = "fig1.coupling"
    #: what its error is found by among those of fits of the full model
    curve: ClassVar[str] = "coupling"

    m_h: int
    recipe: Settings

    def run(self) -> CouplingOutcome:
        """Train it, and compile the POD."""
        target = self.target.build()
        found = fit(
            target,
            lambda: CouplingTransformer(target.d, target.out, m_h=self.m_h),
            recipe=recipe_of(self.recipe),
            seed=self.seed,
            threads=1,
        )
        outcome = from_plain(CouplingOutcome, found.outcome)
        if found.diverged or not isinstance(found.model, Transformer):
            return outcome
        truncated = compile_target(target, self.m_h)
        trained, pod = (logit_errors(target, one) for one in (found.model.double(), truncated))
        return replace(
            outcome,
            pod_error=error_of(truncated, target, 1024, SEED).value,
            trained_pairs=trained.pairs,
            trained_diagonal=trained.diagonal,
            trained_weights=trained.weights,
            pod_pairs=pod.pairs,
            pod_diagonal=pod.diagonal,
            pod_weights=pod.weights,
        )


Couplings = Sequence[Done[Coupling, CouplingOutcome]]


def logit_errors(target: AttentionTarget, model: Transformer) -> LogitErrors:
    """How far the model's logits and weights are from the target's.

    Logits are compared modulo the gauge, over pairs of independent tokens and over the pair s = t.
    """
    u = ((torch.arange(_GRID, dtype=torch.float64) + 0.5) / _GRID)[:, None]
    x = target.sample(_COMPARED, SEED)
    with torch.no_grad():
        gap = model.logits(u[None])[0] - target.rho.outer(u, u)
        gap = gap - gap.mean(-1, keepdim=True)
        weights = model.attention(x) - target.attention(x)
    return LogitErrors(
        pairs=float(gap.square().mean()),
        diagonal=float(gap.diagonal().square().mean()),
        weights=float(weights.square().sum(-1).mean()),
    )


#: What is compared, of training and of the POD
_COMPARISONS: Mapping[str, Callable[[CouplingOutcome], tuple[float | None, float | None]]] = {
    "output error": lambda one: (one.error, one.pod_error),
    "logits, s ≠ t": lambda one: (one.trained_pairs, one.pod_pairs),
    "logits, s = t": lambda one: (one.trained_diagonal, one.pod_diagonal),
    "attention weights": lambda one: (one.trained_weights, one.pod_weights),
}


def compared(fits: Couplings) -> dict[str, Interval]:
    """By what is compared, training over the POD: means over the fits that have both."""
    pairs = {name: [of(one.outcome) for one in fits] for name, of in _COMPARISONS.items()}
    return {
        name: geometric_mean([trained / pod for trained, pod in found if trained and pod])
        for name, found in pairs.items()
    }


def below_rank(fits: Couplings) -> Couplings:
    """The fits with m_h < r that did not diverge: beyond it the POD is exact."""
    return [one for one in fits if one.outcome.pod_error and one.job.m_h < one.job.rank]


def logit_table(fits: Couplings, targets: Sequence[Spectral]) -> Table:
    """Training over the POD, a row a target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        here = select(below_rank(fits), target=target)
        for m_h in sizes_of(here, "m_h"):
            ratios = compared(select(here, m_h=m_h)).values()
            rows.append((target.name, m_h, *map(str, ratios)))
    return Table(
        "Training with F = f = id over the truncated POD of the same m_h",
        ("target", "m_h", *_COMPARISONS),
        tuple(rows),
        "Ratios of squared errors, below 1 where training is better. The logits are compared "
        "modulo the gauge: over independent tokens, which the POD makes as small as can be, and "
        "over the pair s = t, of which it knows nothing.",
    )


def logit_words(fits: Couplings) -> str:
    """Whether training learns ρ itself better than the POD, in sentences that end with a space."""
    said = compared(below_rank(fits))
    output, logits, weights = (
        said[name] for name in ("output error", "logits, s ≠ t", "attention weights")
    )
    if not known(output):
        return ""
    if logits.value <= 1:
        return (
            "Its logits are closer to ρ over independent tokens too, modulo the gauge (squared "
            f"error {logits} times the POD's). "
        )
    text = (
        "Nor is it that ρ is learned better: modulo the gauge the squared error of the trained "
        f"logits is {logits} times the POD's over independent tokens, and "
        f"{said['logits, s = t']} times on the pair s = t. "
    )
    if weights.value <= 2 * output.value:
        return text + (
            f"But the attention weights are closer ({weights} times the POD's squared error): "
            "training spends its rank where softmax cares. "
        )
    return text + (
        f"The squared error of the attention weights is {weights} times the POD's, that of the "
        f"output {output} times: the weights' errors cancel in the mean of x(s), which is all "
        "that the output has of them. "
    )
