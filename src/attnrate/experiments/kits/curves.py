"""Fig. 1's curves of the error over the head size: bounds, compiled, trained beside the POD.

Theory, Gauge and Coupling are the work that is no plain fit; Runs reads all curves. Everything is
measured in E mean_t |H_t - Ĥ_t|² over fresh inputs, the L1 norm of Theorem 4.1 beside it where the
theorem is at stake. Errors are compared in logarithms, cell by cell (target, m_h, seed); slopes are
fitted only where m_h < r.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

import torch

from attnrate.experiments.contract import Done, FittedOutcome, Outcome, Results, from_plain, select
from attnrate.experiments.kits.fits import (
    MSE,
    Fits,
    PowerLaw,
    fit_power_law,
    slope_of,
)
from attnrate.experiments.kits.spectral import Settings, Spectral, SpectralWork, Tried, outputs
from attnrate.figures.figure import Cell, Table
from attnrate.fitting.fit import fit
from attnrate.fitting.recipe import recipe_of
from attnrate.models import CouplingTransformer, Transformer
from attnrate.statistics import Interval, geometric_mean
from attnrate.targets import AttentionTarget, FunctionCoupling, error_of
from attnrate.targets.form import identity
from attnrate.theory.bounds import jackson_bound
from attnrate.theory.compile import compile_target

Tensor = torch.Tensor
#: Inputs for measuring, of a seed that no fit uses
SEED = 1 << 45
#: c(u) = SHIFT cos 2πu is added to ρ to show the gauge: larger than any of the target's terms
SHIFT = 3.0
#: Sequences and grid points for comparing logits; the grid resolves the 256th sine
_COMPARED, _GRID = 512, 1024
#: The curves of trained Transformers, as figures and tables name them
LEGEND = {
    "strong": "trained, strong recipe",
    "long": "trained longer",
    "paper": "trained, paper's recipe (Adam)",
    "coupling": "trained, F = f = id",
}
#: Head sizes of the table of errors; the figure has them all
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Row:
    """Errors of the compiled Transformer of one head size, and what bounds them.

    `rigorous` and `rigorous_l1` are Theorem 4.1 as proved, `printed` as printed (Eq. 17);
    `trivial` is what any model in the range of f reaches.
    """

    mse: float
    standard_error: float
    l1: float
    rigorous: float
    rigorous_l1: float
    trivial: float
    printed: float


class TheoryOutcome(Outcome):
    """The values of `Row` for every head size, a tuple each."""

    m_h: tuple[int, ...]
    mse: tuple[float, ...]
    standard_error: tuple[float, ...]
    l1: tuple[float, ...]
    rigorous: tuple[float, ...]
    rigorous_l1: tuple[float, ...]
    trivial: tuple[float, ...]
    printed: tuple[float, ...]

    @property
    def rows(self) -> dict[int, Row]:
        """The values by head size."""
        return {m_h: Row(*row) for m_h, *row in zip(*astuple(self), strict=True)}


class Theory(SpectralWork, work="fig1.theory"):
    """Bounds and compiled errors of one target for every head size, with exact bases."""

    m_h: tuple[int, ...]
    sequences: int

    def run(self) -> TheoryOutcome:
        """Compile and measure one Transformer a head size."""
        target = self.target.build()
        x = target.sample(self.sequences, SEED + self.seed)
        truth = target(x)
        rows = [astuple(self._row(target, m_h, x, truth)) for m_h in self.m_h]
        return TheoryOutcome(self.m_h, *zip(*rows, strict=True))

    def _row(self, target: AttentionTarget, m_h: int, x: Tensor, truth: Tensor) -> Row:
        gap = (outputs(compile_target(target, m_h, gauge=None), x) - truth).norm(dim=-1)
        each = gap.square().mean(-1)
        rigorous = jackson_bound(target, m_h, norm="mse")
        printed = jackson_bound(target, m_h, norm="mse", form="printed", alpha=self.alpha)
        return Row(
            mse=float(each.mean()),
            standard_error=float(each.std() / len(each) ** 0.5),
            l1=float(gap.sum(-1).mean()),
            rigorous=rigorous.value,
            rigorous_l1=jackson_bound(target, m_h, norm="l1").value,
            trivial=rigorous.trivial,
            printed=printed.value,
        )


class GaugeOutcome(Outcome):
    """Errors of what was compiled from ρ and from ρ + c(u), without the gauge and with it."""

    plain_without: float
    plain_with: float
    shifted_without: float
    shifted_with: float


class Gauge(SpectralWork, work="fig1.gauge"):
    """One map, written with ρ and with ρ + c(u), compiled with the gauge and without it.

    softmax does not see c(u), but a POD that does not know this spends a term on it.
    """

    m_h: int
    sequences: int

    def run(self) -> GaugeOutcome:
        """Compile all four and measure them against the map."""
        plain = self.target.build()

        def rho(u: Tensor, v: Tensor) -> Tensor:
            return plain.rho(u, v) + SHIFT * torch.cos(2 * torch.pi * u[..., 0])

        def error(written: AttentionTarget, gauge: str | None) -> float:
            model = compile_target(written, self.m_h, gauge=gauge)
            return error_of(model, plain, self.sequences, SEED + self.seed).value

        shifted = AttentionTarget(identity, identity, FunctionCoupling(rho), plain.length)
        return GaugeOutcome(
            *(error(written, gauge) for written in (plain, shifted) for gauge in (None, "softmax"))
        )


class CouplingOutcome(FittedOutcome):
    """How the fit went, and its logits beside those of the POD; no logits if it diverged."""

    pod_error: float | None = None
    trained_pairs: float | None = None
    trained_diagonal: float | None = None
    trained_weights: float | None = None
    pod_pairs: float | None = None
    pod_diagonal: float | None = None
    pod_weights: float | None = None


class Coupling(SpectralWork, work="fig1.coupling"):
    """A fit of Eq. 5 with F = f = id, whose logits are compared with those of the truncated POD.

    The POD is the best low-rank approximation of ρ in L2 over independent tokens. What training
    makes of the same rank is compared by the output, by the logits modulo what softmax cannot see,
    and by the attention weights.
    """

    #: what its error is found by among those of fits of the full model
    curve: ClassVar[str] = "coupling"

    m_h: int
    recipe: Settings

    @property
    def size(self) -> int:
        """The head size, which its curve is over."""
        return self.m_h

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
        if found.diverged or not isinstance(found.model, Transformer):
            return from_plain(CouplingOutcome, found.outcome)
        truncated = compile_target(target, self.m_h)
        compared = {
            f"{whose}_{what}": error
            for whose, model in (("trained", found.model.double()), ("pod", truncated))
            for what, error in logit_errors(target, model).items()
        }
        compared["pod_error"] = error_of(truncated, target, 1024, SEED).value
        return from_plain(CouplingOutcome, {**found.outcome, **compared})


def logit_errors(target: AttentionTarget, model: Transformer) -> dict[str, float]:
    """Squared errors of a model's logits, over pairs and on the diagonal, and of its weights.

    Logits are compared modulo the gauge, over pairs of independent tokens and over the pair s = t.
    """
    u = ((torch.arange(_GRID, dtype=torch.float64) + 0.5) / _GRID)[:, None]
    x = target.sample(_COMPARED, SEED)
    with torch.no_grad():
        gap = model.logits(u[None])[0] - target.rho.outer(u, u)
        gap = gap - gap.mean(-1, keepdim=True)
        weights = model.attention(x) - target.attention(x)
    return {
        "pairs": float(gap.square().mean()),
        "diagonal": float(gap.diagonal().square().mean()),
        "weights": float(weights.square().sum(-1).mean()),
    }


Gauges = Sequence[Done[Gauge, GaugeOutcome]]
Couplings = Sequence[Done[Coupling, CouplingOutcome]]


@dataclass(frozen=True)
class Runs:
    """What is finished: theory by target, and fits by curve, target, head size and seed.

    A curve is "compiled", of the theory, or that of fits; "coupling" are those with F = f = id,
    which stand in `couplings` and in `trained`.
    """

    theory: Mapping[Spectral, Mapping[int, Row]]
    gauges: Gauges
    couplings: Couplings
    trained: Fits

    @classmethod
    def read(cls, results: Results) -> "Runs":
        """The finished jobs, by kind."""
        couplings = results.of(Coupling, CouplingOutcome)
        return cls(
            {one.job.target: one.outcome.rows for one in results.of(Theory, TheoryOutcome)},
            results.of(Gauge, GaugeOutcome),
            couplings,
            Fits([*results.fits(Tried), *couplings]),
        )

    def of(self, target: Spectral, curve: str) -> Fits:
        """The fits of a target that belong to a curve."""
        return self.trained.where(target=target, curve=curve)

    def rows(self, target: Spectral) -> Mapping[int, Row]:
        """Bounds and compiled errors of a target by head size."""
        return self.theory.get(target, {})

    def rows_below(self, target: Spectral) -> dict[int, Row]:
        """Bounds and compiled errors of a target by head size, where m_h < r."""
        return {m_h: row for m_h, row in self.rows(target).items() if m_h < target.rank}

    def compiled_beyond(self, targets: Iterable[Spectral]) -> list[float]:
        """The compiled errors of all cells with m_h >= r."""
        return [r.mse for t in targets for m_h, r in self.rows(t).items() if m_h >= t.rank]

    def points(self, target: Spectral, curve: str) -> list[tuple[int, float]]:
        """(m_h, error) of every fit of a curve with m_h < r, or of the compiled ones."""
        if curve == "compiled":
            return [(m_h, row.mse) for m_h, row in self.rows_below(target).items()]
        found = self.of(target, curve).points
        return [(m_h, error) for m_h, error in found if m_h < target.rank]

    def slope(self, target: Spectral, curve: str) -> Interval:
        """The exponent of a curve below the rank; nothing for fewer than three head sizes."""
        return slope_of(self.points(target, curve), 3)

    def slope_l1(self, target: Spectral) -> Interval:
        """The exponent of the compiled error below the rank, in the norm of the theorem."""
        return slope_of([(m_h, row.l1) for m_h, row in self.rows_below(target).items()], 3)

    def law(self, target: Spectral, curve: str) -> PowerLaw | None:
        """The paper's form, a power plus a constant, with the power free; None for few points."""
        found = self.points(target, curve)
        return fit_power_law([m_h for m_h, _ in found], [e for _, e in found], relative=True)

    def ratios(self, above: str, below: str, **wanted: object) -> Interval:
        """error(above) / error(below), the mean over the cells in which both curves have a fit."""
        one, two = (self.trained.where(curve=curve, **wanted) for curve in (above, below))
        return geometric_mean(one.over(two, "target", "size", "seed"))

    def gains(self, *targets: Spectral) -> Interval:
        """Compiled error / error with F = f = id, the mean over the fits with m_h < r."""
        return geometric_mean(
            [
                self.rows(target)[m_h].mse / error
                for target in targets
                for m_h, error in self.points(target, "coupling")
                if m_h in self.rows(target)
            ]
        )

    def fallen(self, target: Spectral, curve: str) -> float:
        """error(the largest m_h < r) / error(the least m_h); nan for fewer than two head sizes."""
        found = self.points(target, curve)
        sizes = {m_h for m_h, _ in found}
        if len(sizes) < 2:
            return math.nan
        first, last = (
            geometric_mean([e for m, e in found if m == end]) for end in (min(sizes), max(sizes))
        )
        return last.value / first.value

    def beyond(self, target: Spectral, curve: str) -> Interval:
        """error(m_h >= r) / error(the largest m_h < r), by the geometric means of a curve."""
        found = self.of(target, curve)
        before = max((m_h for m_h in found.sizes if m_h < target.rank), default=0)
        last = found.mean(size=before).value
        after = [error for m_h, error in found.points if m_h >= target.rank]
        return geometric_mean([error / last for error in after] if before else [])


def slope_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """The fitted exponents of every curve beside those of the singular values."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        found = [
            (word, runs.slope(target, curve), -target.rate, "mean squared")
            for curve, word in {"compiled": "compiled", **LEGEND}.items()
        ]
        found.append(("compiled", runs.slope_l1(target), -target.rate / 2, "L1"))
        rows += [
            (target.name, word, str(fitted), stated, norm)
            for word, fitted, stated, norm in found
            if fitted.known
        ]
    return Table(
        "Exponents of the error in m_h, fitted where m_h < r",
        ("target", "curve", "fitted [95 %]", "of the singular values", "norm"),
        tuple(rows),
        "The exponent of the singular values is -(2α-1) for the mean squared error and -(α-1/2) "
        "for L1, where the paper prints -(2α-1). Every fit is a point of the regression; for "
        "finite r no power law is expected, the error falls to zero at r.",
    )


def error_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """Bounds and errors of every curve, a row a target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        for m_h in _ROWS:
            row = runs.rows(target).get(m_h)
            sides = (row.printed, row.rigorous, row.mse) if row else (None, None, None)
            fits = [runs.of(target, curve).mean(size=m_h).limits[0] for curve in LEGEND]
            if row or any(value is not None for value in fits):
                rows.append((target.name, m_h, *sides, *fits))
    return Table(
        f"Errors {MSE}",
        ("target", "m_h", "printed bound", "rigorous bound", "compiled", *LEGEND.values()),
        tuple(rows),
        "Geometric means over seeds. For m_h >= r the rigorous bound is that of float64.",
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


def logit_table(fits: Couplings, targets: Iterable[Spectral]) -> Table:
    """Training over the POD, a row a target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        here = Fits(select(below_rank(fits), target=target))
        for m_h in here.sizes:
            rows.append((target.name, m_h, *map(str, compared(here.where(size=m_h)).values())))
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
    output, logits, diagonal, weights = compared(below_rank(fits)).values()
    if not output.known:
        return ""
    if logits.value <= 1:
        return (
            "Its logits are closer to ρ over independent tokens too, modulo the gauge (squared "
            f"error {logits} times the POD's). "
        )
    text = (
        "Nor is it that ρ is learned better: modulo the gauge the squared error of the trained "
        f"logits is {logits} times the POD's over independent tokens, and "
        f"{diagonal} times on the pair s = t. "
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
