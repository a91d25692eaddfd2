"""Fig. 1's curves of the error over the head size: bounds, compiled and trained Transformers.

`Theory`, `Gauge` and `Coupling` are the jobs that are not plain fits; `Runs` reads all curves. The
error is E mean_t |H_t - Ĥ_t|² over fresh inputs; the L1 norm of Theorem 4.1 stands beside it where
the theorem is tested. Errors are compared as ratios, cell by cell (target, m_h, seed). Slopes are
fitted only where m_h < r.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

import torch

from attnrate import words
from attnrate.experiments.contract import Done, FittedOutcome, Outcome, Results, from_plain, select
from attnrate.experiments.kits.fits import (
    DIVERGED,
    MSE,
    Fits,
    PowerLaw,
    cell_of,
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
#: Seed of the inputs on which errors are measured; no fit uses it
SEED = 1 << 45
#: c(u) = SHIFT cos 2πu is added to ρ to show the gauge; it is larger than every term of the target
SHIFT = 3.0
#: Number of sequences and of grid points for comparing logits; the grid resolves the 256th sine
_COMPARED, _GRID = 512, 1024
#: Names of the curves of trained Transformers in figures and tables
LEGEND = {
    "strong": "trained, strong recipe",
    "long": "trained longer",
    "paper": "trained, paper's recipe (Adam)",
    "coupling": "trained, F = f = id",
}
#: Head sizes in the table of errors; the figure shows all of them
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Row:
    """Errors of the compiled Transformer of one head size, and their bounds.

    `rigorous` and `rigorous_l1` are Theorem 4.1 as proved, `printed` is the theorem as printed
    (Eq. 17). `trivial` is an error that every model reaches whose outputs stay within the range
    of f.
    """

    mse: float
    standard_error: float
    l1: float
    rigorous: float
    rigorous_l1: float
    trivial: float
    printed: float


class TheoryOutcome(Outcome):
    """The fields of `Row`, each as a tuple with one value per head size."""

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


class Theory(SpectralWork, work="fig1.theory", trains=False):
    """Bounds and compiled errors of one target for every head size, with exact bases."""

    m_h: tuple[int, ...]
    sequences: int

    def run(self) -> TheoryOutcome:
        """Compile one Transformer per head size and measure its error."""
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
    """Errors of Transformers compiled from ρ and from ρ + c(u), with and without the gauge."""

    plain_without: float
    plain_with: float
    shifted_without: float
    shifted_with: float


class Gauge(SpectralWork, work="fig1.gauge"):
    """A job that compiles one map, written with ρ and with ρ + c(u), with and without the gauge.

    Softmax does not see c(u), but a POD without the gauge spends a term on it.
    """

    m_h: int
    sequences: int

    def run(self) -> GaugeOutcome:
        """Compile the four Transformers and measure their errors on the map."""
        plain = self.target.build()

        def rho(u: Tensor, v: Tensor) -> Tensor:
            return plain.rho(u, v) + SHIFT * torch.cos(2 * torch.pi * u[..., 0])

        def error(written: AttentionTarget, gauge: words.Gauge) -> float:
            model = compile_target(written, self.m_h, gauge=gauge)
            return error_of(model, plain, self.sequences, SEED + self.seed).value

        shifted = AttentionTarget(identity, identity, FunctionCoupling(rho), plain.length)
        gauges: tuple[words.Gauge, ...] = ("none", "softmax")
        return GaugeOutcome(
            *(error(written, gauge) for written in (plain, shifted) for gauge in gauges)
        )


class CouplingOutcome(FittedOutcome):
    """How a fit with F = f = id went, and its logits compared with the POD's.

    Of a diverged fit no logits are known.
    """

    pod_error: float | None = None
    trained_pairs: float | None = None
    trained_diagonal: float | None = None
    trained_weights: float | None = None
    pod_pairs: float | None = None
    pod_diagonal: float | None = None
    pod_weights: float | None = None


class Coupling(SpectralWork, work="fig1.coupling"):
    """A fit of Eq. 5 with F = f = id, whose logits are compared with those of the truncated POD.

    The POD is the best low-rank approximation of ρ in L2 over independent tokens. Training and
    the POD of the same rank are compared by the output, by the logits modulo the gauge, and by
    the attention weights.
    """

    #: the name of its curve, beside those of the full model
    curve: ClassVar[str] = "coupling"

    m_h: int
    recipe: Settings

    @property
    def size(self) -> int:
        """The head size, over which its curve is drawn."""
        return self.m_h

    def run(self) -> CouplingOutcome:
        """Train the model, compile the truncated POD, and compare them."""
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
    """Squared errors of a model's logits and of its attention weights.

    Logits are compared modulo the gauge: "pairs" over pairs of independent tokens, "diagonal"
    over the pair s = t. "weights" is the error of the attention weights.
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
    """The finished jobs: theory by target, and fits by curve, target, head size and seed.

    The curve "compiled" comes from `theory`, all others from fits. The curve "coupling" has the
    fits with F = f = id, which are in both `couplings` and `trained`.
    """

    theory: Mapping[Spectral, Mapping[int, Row]]
    gauges: Gauges
    couplings: Couplings
    trained: Fits

    @classmethod
    def read(cls, results: Results) -> "Runs":
        """Sort the finished jobs by kind."""
        couplings = results.of(Coupling, CouplingOutcome)
        return cls(
            {one.job.target: one.outcome.rows for one in results.of(Theory, TheoryOutcome)},
            results.of(Gauge, GaugeOutcome),
            couplings,
            Fits([*results.fits(Tried), *couplings]),
        )

    def of(self, target: Spectral, curve: str) -> Fits:
        """Select the fits of a target that belong to a curve."""
        return self.trained.where(target=target, curve=curve)

    def rows(self, target: Spectral) -> Mapping[int, Row]:
        """Bounds and compiled errors of a target by head size."""
        return self.theory.get(target, {})

    def rows_below(self, target: Spectral) -> dict[int, Row]:
        """Bounds and compiled errors of a target by head size, where m_h < r."""
        return {m_h: row for m_h, row in self.rows(target).items() if m_h < target.rank}

    def compiled_beyond(self, targets: Iterable[Spectral]) -> list[float]:
        """List the compiled errors of all cells with m_h >= r."""
        return [r.mse for t in targets for m_h, r in self.rows(t).items() if m_h >= t.rank]

    def points(self, target: Spectral, curve: str) -> list[tuple[int, float]]:
        """(m_h, error) of every fit of a curve, or of every compiled Transformer, with m_h < r."""
        if curve == "compiled":
            return [(m_h, row.mse) for m_h, row in self.rows_below(target).items()]
        found = self.of(target, curve).points
        return [(m_h, error) for m_h, error in found if m_h < target.rank]

    def slope(self, target: Spectral, curve: str) -> Interval:
        """The exponent of a curve below the rank; unknown for fewer than three head sizes."""
        if self.of(target, curve).diverged:
            return DIVERGED
        return slope_of(self.points(target, curve), 3)

    def slope_l1(self, target: Spectral) -> Interval:
        """The exponent of the compiled error below the rank, in the theorem's L1 norm."""
        return slope_of([(m_h, row.l1) for m_h, row in self.rows_below(target).items()], 3)

    def law(self, target: Spectral, curve: str) -> PowerLaw | None:
        """Fit a m_h^-b + c, the paper's form with a free exponent b; None for too few points."""
        found = self.points(target, curve)
        return fit_power_law([m_h for m_h, _ in found], [e for _, e in found], relative=True)

    def ratios(self, above: str, below: str, **wanted: object) -> Interval:
        """Average error(above) / error(below) over the cells in which both curves have a fit."""
        one, two = (self.trained.where(curve=curve, **wanted) for curve in (above, below))
        return one.ratio(two, "target", "size", "seed")

    def gains(self, *targets: Spectral) -> Interval:
        """Average (compiled error) / (trained error with F = f = id) over the fits with m_h < r."""
        return geometric_mean(
            [
                self.rows(target)[m_h].mse / error
                for target in targets
                for m_h, error in self.points(target, "coupling")
                if m_h in self.rows(target)
            ]
        )

    def fallen(self, target: Spectral, curve: str) -> float:
        """error(largest m_h < r) / error(least m_h); nan for fewer than two head sizes."""
        found = self.points(target, curve)
        sizes = {m_h for m_h, _ in found}
        if len(sizes) < 2:
            return math.nan
        first, last = (
            geometric_mean([e for m, e in found if m == end]) for end in (min(sizes), max(sizes))
        )
        return last.value / first.value

    def beyond(self, target: Spectral, curve: str) -> Interval:
        """error(m_h >= r) / error(largest m_h < r), by geometric means of a curve."""
        found = self.of(target, curve)
        before = max((m_h for m_h in found.sizes if m_h < target.rank), default=0)
        last = found.mean(size=before).value
        after = [error for m_h, error in found.points if m_h >= target.rank]
        return geometric_mean([error / last for error in after] if before else [])


def slope_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """Tabulate the fitted exponents of every curve beside those of the singular values."""
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
        "for L1, where the paper prints -(2α-1). Every fit is one point of the regression. For "
        "finite r no power law is expected, because the error falls to zero at m_h = r.",
    )


def error_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """Tabulate bounds and errors of every curve, one row per target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        for m_h in _ROWS:
            row = runs.rows(target).get(m_h)
            sides = (row.printed, row.rigorous, row.mse) if row else (None, None, None)
            fits = [cell_of(runs.of(target, curve).mean(size=m_h)) for curve in LEGEND]
            if row or any(value is not None for value in fits):
                rows.append((target.name, m_h, *sides, *fits))
    return Table(
        f"Errors {MSE}",
        ("target", "m_h", "printed bound", "rigorous bound", "compiled", *LEGEND.values()),
        tuple(rows),
        "Geometric means over seeds. For m_h >= r the rigorous bound is the rounding error of "
        "float64.",
    )


#: The comparisons between training and the POD: (value of training, value of the POD)
_COMPARISONS: Mapping[str, Callable[[CouplingOutcome], tuple[float | None, float | None]]] = {
    "output error": lambda one: (one.error, one.pod_error),
    "logits, s ≠ t": lambda one: (one.trained_pairs, one.pod_pairs),
    "logits, s = t": lambda one: (one.trained_diagonal, one.pod_diagonal),
    "attention weights": lambda one: (one.trained_weights, one.pod_weights),
}


def compared(fits: Couplings) -> dict[str, Interval]:
    """Average error(trained) / error(POD) for each comparison, over the fits that have both."""
    pairs = {name: [of(one.outcome) for one in fits] for name, of in _COMPARISONS.items()}
    return {
        name: geometric_mean([trained / pod for trained, pod in found if trained and pod])
        for name, found in pairs.items()
    }


def below_rank(fits: Couplings) -> Couplings:
    """Select the fits with m_h < r that did not diverge; for m_h >= r the POD is exact."""
    return [one for one in fits if one.outcome.pod_error and one.job.m_h < one.job.rank]


def logit_table(fits: Couplings, targets: Iterable[Spectral]) -> Table:
    """Tabulate error(trained) / error(POD), one row per target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        here = Fits(select(below_rank(fits), target=target))
        for m_h in here.sizes:
            rows.append((target.name, m_h, *map(str, compared(here.where(size=m_h)).values())))
    return Table(
        "Training with F = f = id compared with the truncated POD of the same m_h",
        ("target", "m_h", *_COMPARISONS),
        tuple(rows),
        "Squared error of training divided by that of the POD: below 1 where training is better. "
        "The logits are compared modulo the gauge: over independent tokens, where the POD has the "
        "least possible error, and over the pair s = t, which the POD ignores.",
    )


def logit_words(fits: Couplings) -> str:
    """Say whether training learns ρ itself better than the POD; the text ends with a space."""
    output, logits, diagonal, weights = compared(below_rank(fits)).values()
    if not output.known:
        return ""
    if logits.value <= 1:
        return (
            "Modulo the gauge its logits are also closer to ρ over independent tokens (squared "
            f"error {logits} times the POD's). "
        )
    text = (
        "Training does not learn ρ itself better: modulo the gauge the squared error of the "
        f"trained logits is {logits} times the POD's over independent tokens, and "
        f"{diagonal} times the POD's on the pair s = t. "
    )
    if weights.value <= 2 * output.value:
        return text + (
            f"But its attention weights are closer ({weights} times the POD's squared error): "
            "training spends its rank where softmax is sensitive. "
        )
    return text + (
        f"The squared error of the attention weights is {weights} times the POD's, that of the "
        f"output {output} times: the errors of the weights cancel in the weighted mean of x(s), "
        "which is all that the output depends on. "
    )
