"""App. D.3: how mixing the inputs changes the rank of ρ, and whether a deconvolution undoes it.

The paper mixes two tokens, x~ = (x1, x2 + x1), and finds that ρ~(x1, x2) = ρ(x1, x2 + x1) has a
third singular value. Here: its three values, exactly; the values under random filters (1, θ), that
is x~(t) = x(t) + θ x(t-1); the values of the same couplings with windows (x(t-1), x(t)) as tokens;
and the effect of the mixing that remains after an inverse filter of finite length. Nothing is
trained.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TypeVar

import numpy as np
import torch

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, claim_of, judge
from attnrate.experiments.kits.fits import line, listed, table_of
from attnrate.experiments.kits.panels import percent
from attnrate.figures.figure import Curves, Figure, Line, Series, Table
from attnrate.fitting.job import Sized
from attnrate.spectra.measures import stable_rank
from attnrate.statistics import Interval, mean, slope
from attnrate.targets.alter import convolve
from attnrate.theory.domain import Samples
from attnrate.theory.pod import pod

#: App. D.3, below Eq. 101: the printed values, and half a unit of their last digit
PAPER_SIGMA = (1.265, 0.5, 0.4)
PAPER_ROUNDING = (5e-4, 0.05, 0.05)
#: Exact: σ² = (7 ± √33)/8 and 1/4, from ρ~ = 1 + cos b - cos 2a cos b + sin 2a sin b
EXACT_SIGMA = (math.sqrt((7 + math.sqrt(33)) / 8), 0.5, math.sqrt((7 - math.sqrt(33)) / 8))
LONGEST_FILTER = 2.0  # θ is uniform on ±LONGEST_FILTER: |θ| < 1 is minimum phase, |θ| > 1 not
_POD_RTOL = 1e-9
_POSITIONS = 8  # positions in the middle, where no inverse filter reads beyond the sequence
#: Computed and exact values agree when they differ by at most this
_AGREE = 1e-6
#: A number within this share of the paper's agrees up to the error of a numerical estimate
_NEAR = 0.01
#: Filters with |θ| closer to 1 than this need longer inverses than are tried
_CLEAR = 0.75
#: Range of |θ|^L in which the remaining error is linear in it and above rounding
_LINEAR = (1e-7, 0.05)
#: A deconvolution has undone the mixing when the remaining error is at most this
_UNDONE = 0.01


@dataclass(frozen=True)
class Settings:
    """The size of a preset: number of random filters, of sequences per filter, and of seeds."""

    filters: int
    sequences: int
    seeds: int


SETTINGS: Mapping[contract.Preset, Settings] = {
    "quick": Settings(16, 64, 1),
    "paper": Settings(40, 256, 5),
}
INVERSE_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

#: Singular values in decreasing order
Sigma = tuple[float, ...]
#: Numbers of numpy or of torch
Numbers = TypeVar("Numbers", np.ndarray, torch.Tensor)
#: A coupling as `pod` takes it: a function of two numpy arrays
Rho = Callable[[np.ndarray, np.ndarray], np.ndarray]


def eq100(u: Numbers, v: Numbers) -> Numbers:
    """The ρ of Eq. 100, of rank 2."""
    value: Numbers = 1 + 2 * _sine(u) * _sine(v)
    return value


def fig1(u: Numbers, v: Numbers) -> Numbers:
    """The ρ of Fig. 1 with α = 1, of rank 6."""
    total: Numbers = 2 * _sine(u) * _sine(v)
    for k in range(2, 7):
        total = total + 2 / k * _sine(k * u) * _sine(k * v)
    return total


def _sine(u: Numbers) -> Numbers:
    """sin 2πu, written for numpy and for torch."""
    return torch.sin(2 * math.pi * u) if isinstance(u, torch.Tensor) else np.sin(2 * math.pi * u)


COUPLINGS: Mapping[str, Rho] = {"Eq. 100": eq100, "Fig. 1": fig1}


def mixed_pair(rho: Rho, theta: float) -> Rho:
    """ρ~(x1, x2) = ρ(x1, x2 + θ x1), as in Eq. 101."""
    return lambda x1, x2: rho(x1, x2 + theta * x1)


def mixed_windows(rho: Rho, theta: float) -> Rho:
    """ρ~ as a function of the windows u = (x(t-1), x(t)) and v = (x(s-1), x(s))."""
    return lambda u, v: rho(u[..., 1] + theta * u[..., 0], v[..., 1] + theta * v[..., 0])


def window_lattice() -> Samples:
    """Windows (x(t-1), x(t)) on a lattice of the square, on which sums are exact integrals.

    Sums over 24 equal steps of x(t) are exact for products of two of the six sines.
    """
    before, now = ((np.arange(count) + 0.5) / count for count in (8, 24))
    return Samples(np.stack(np.meshgrid(before, now, indexing="ij"), axis=-1).reshape(-1, 2))


def draw_filters(count: int, seed: int) -> list[float]:
    """Draw the random θ of the filters (1, θ)."""
    drawn = np.random.default_rng(seed).uniform(-LONGEST_FILTER, LONGEST_FILTER, count)
    return [round(float(theta), 6) for theta in drawn]


def inverse_filter(theta: float, length: int, causal: bool) -> tuple[float, ...]:
    """The first `length` terms of the inverse of (1, θ), which reads the past or the future.

    1/(1 + θz) is Σ_{s≥0} (-θ)^s z^s, which reads the past and decays for |θ| < 1, or -Σ_{s≥1}
    (-θ)^-s z^-s, which reads the future and decays for |θ| > 1.
    """
    if causal:
        return tuple((-theta) ** s for s in range(length))
    return (0.0, *(-((-theta) ** -s) for s in range(1, length + 1)))


def tail_share(sigma: Sequence[float], rank: int) -> float:
    """The tail (Σ_{k>rank} σ²)^½ divided by the norm (Σ σ²)^½."""
    return float(np.linalg.norm(sigma[rank:]) / np.linalg.norm(sigma))


class ExampleOutcome(contract.Outcome):
    """Singular values before and after mixing, without and with the softmax gauge."""

    before: Sigma
    before_gauge: Sigma
    after: Sigma
    after_gauge: Sigma


class Example(contract.Work, work="mixing_rank.example", trains=False):
    """A job: the example of App. D.3, Eq. 100, and its mixing with θ = 1, Eq. 101."""

    def run(self) -> ExampleOutcome:
        """Decompose both couplings, without and with the softmax gauge."""
        return ExampleOutcome(
            *(
                _rounded(pod(rho, (0.0, 1.0), rtol=_POD_RTOL, gauge=gauge).sigma)
                for rho in (eq100, mixed_pair(eq100, 1.0))
                for gauge in (None, "softmax")
            )
        )


@dataclass(frozen=True)
class Filter:
    """A random θ with the spectra of ρ~ on single tokens and on windows of two inputs."""

    theta: float
    sigma: Sigma
    windows: Sigma
    error: float


class FiltersOutcome(contract.Outcome):
    """The spectrum of a coupling before mixing, and under random filters."""

    before: Sigma
    filters: tuple[Filter, ...]

    @property
    def ranks(self) -> list[int]:
        """The rank under each filter."""
        return [len(one.sigma) for one in self.filters]

    @property
    def window_ranks(self) -> list[int]:
        """The rank under each filter with windows as tokens."""
        return [len(one.windows) for one in self.filters]

    @property
    def tails(self) -> Interval:
        """The share of the norm beyond the old rank: mean over filters."""
        return mean([tail_share(one.sigma, len(self.before)) for one in self.filters])


class Filters(contract.Work, work="mixing_rank.filters", trains=False):
    """A job: the spectra of a coupling under random filters."""

    coupling: str
    filters: int

    def run(self) -> FiltersOutcome:
        """Decompose the coupling under each filter."""
        rho, rows = COUPLINGS[self.coupling], []
        for theta in draw_filters(self.filters, self.seed):
            single = pod(mixed_pair(rho, theta), (0.0, 1.0), rtol=_POD_RTOL)
            windows = pod(mixed_windows(rho, theta), window_lattice(), rtol=_POD_RTOL)
            error = max(single.error / single.norm, windows.error / windows.norm)
            rows.append(Filter(theta, _rounded(single.sigma), _rounded(windows.sigma), error))
        before = pod(rho, (0.0, 1.0), rtol=_POD_RTOL)
        return FiltersOutcome(_rounded(before.sigma), tuple(rows))


@dataclass(frozen=True)
class Inverse:
    """A random θ, and the error that inverse filters of each length leave.

    `past` is for inverse filters that read the past, `future` for those that read the future.
    """

    theta: float
    past: tuple[float, ...]
    future: tuple[float, ...]


class DeconvolutionOutcome(contract.Outcome):
    """The errors that inverse filters of these lengths leave, for random filters."""

    lengths: tuple[int, ...]
    filters: tuple[Inverse, ...]

    @property
    def points(self) -> list[tuple[float, float]]:
        """(|θ|^L or |θ|^-L, remaining error), for the inverse filter that decays."""
        found = []
        for one in self.filters:
            theta = abs(one.theta)
            base, side = (theta, one.past) if theta < 1 else (1 / theta, one.future)
            found += [(base**length, left) for length, left in zip(self.lengths, side, strict=True)]
        return [(x, left) for x, left in found if _LINEAR[0] < x < _LINEAR[1] and left > 0]

    @property
    def law(self) -> Interval:
        """The exponent of the remaining error as a power of |θ|^L (or |θ|^-L)."""
        return slope([x for x, _ in self.points], [left for _, left in self.points])


class Deconvolution(contract.Work, work="mixing_rank.deconvolution", trains=False):
    """A job: random filters, undone by inverse filters of several lengths.

    Let z = (1, θ)∗x, and let x^ be the inverse filter applied to z. The remaining error is the
    root mean square of ρ(x^(t), x^(s)) - ρ(x(t), x(s)) divided by that of ρ, for Fig. 1's ρ of
    rank 6. Only positions in the middle count, because near the ends the filters read zeros
    outside the sequence.
    """

    filters: int
    lengths: tuple[int, ...]
    sequences: int

    def run(self) -> DeconvolutionOutcome:
        """Filter random sequences, undo it, and compare the couplings of all pairs."""
        margin = max(self.lengths) + 1
        shape = (self.sequences, 2 * margin + _POSITIONS, 1)
        x = torch.rand(
            shape, generator=torch.Generator().manual_seed(self.seed), dtype=torch.float64
        )
        inside = slice(margin, margin + _POSITIONS)
        truth = fig1(x[:, inside], x[:, inside].mT)

        def left(z: torch.Tensor, theta: float, causal: bool) -> Iterable[float]:
            for length in self.lengths:
                restored = convolve(inverse_filter(theta, length, causal), z, causal)[:, inside]
                gap = (fig1(restored, restored.mT) - truth).square().mean() / truth.square().mean()
                yield float(f"{math.sqrt(float(gap)):.6g}")

        rows = []
        for theta in draw_filters(self.filters, self.seed):
            z = convolve((1.0, theta), x, True)
            rows.append(
                Inverse(theta, *(tuple(left(z, theta, causal)) for causal in (True, False)))
            )
        return DeconvolutionOutcome(self.lengths, tuple(rows))


def _rounded(sigma: Iterable[float]) -> Sigma:
    return tuple(float(f"{value:.10g}") for value in sigma)


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan the example of D.3 and, for each seed, a set of random filters."""
    chosen = SETTINGS[preset]
    jobs: list[Sized[contract.Work]] = [Sized(Example(), 0.2)]
    for seed in range(chosen.seeds):
        jobs.extend(
            Sized(Filters(coupling=name, filters=chosen.filters, seed=seed), 0.04 * chosen.filters)
            for name in COUPLINGS
        )
        undo = Deconvolution(
            filters=chosen.filters,
            lengths=INVERSE_LENGTHS,
            sequences=chosen.sequences,
            seed=seed,
        )
        jobs.append(Sized(undo, 4e-5 * undo.filters * len(undo.lengths) * undo.sequences))
    return jobs


Pooled = TypeVar("Pooled", FiltersOutcome, DeconvolutionOutcome)
#: Spectra by coupling
Spectra = Mapping[str, FiltersOutcome]


def conclude(results: contract.Results) -> contract.Conclusion:
    """Make tables, figures and claims of the results."""
    filtered = results.of(Filters, FiltersOutcome)
    mixed = {
        name: _pooled([one.outcome for one in found])
        for name in COUPLINGS
        if (found := contract.select(filtered, coupling=name))
    }
    claims: list[Claim] = []
    figures: list[Figure] = []
    tables: list[Table] = []
    for example in results.of(Example, ExampleOutcome):
        claims += [_values_claim(example.outcome), _rank_claim(example.outcome)]
        tables.append(_example_table(example.outcome))
    if mixed:
        claims += [_filters_claim(mixed), _windows_claim(mixed)]
        figures.append(_spectrum_figure(mixed))
        tables.append(_spectrum_table(mixed))
    if undone := results.of(Deconvolution, DeconvolutionOutcome):
        inverses = _pooled([one.outcome for one in undone])
        claims.append(_deconvolution_claim(inverses))
        figures.append(_deconvolution_figure(inverses))
    return contract.Conclusion(
        _paragraphs(mixed, claims), tuple(figures), tuple(tables), tuple(claims)
    )


def _pooled(outcomes: Sequence[Pooled]) -> Pooled:
    """Merge the outcomes of several seeds into one with the filters of all."""
    return replace(outcomes[0], filters=tuple(row for one in outcomes for row in one.filters))


_claim = partial(claim_of, "mixing-rank")


def _values_claim(example: ExampleOutcome) -> Claim:
    after = example.after
    same = len(after) == 3 and np.allclose(after, EXACT_SIGMA, atol=_AGREE)
    pairs = [*zip(after, PAPER_SIGMA, PAPER_ROUNDING, strict=False)]
    printed = same and all(abs(a - p) <= half for a, p, half in pairs)
    near = same and all(abs(a / p - 1) <= _NEAR for a, p, _ in pairs)
    gap = max(abs(a - p) for a, p in zip(EXACT_SIGMA, PAPER_SIGMA, strict=True))
    return _claim(
        "example-values",
        "App. D.3, below Eq. 101",
        "The singular values of ρ~ are 1.265, 0.5 and 0.4, estimated numerically.",
        "holds" if printed else "holds when corrected" if near else "does not hold",
        f"pod gives {_listed(after)}; the exact values are {_listed(EXACT_SIGMA)}, with "
        f"σ² = (7 ± √33)/8 and 1/4. The largest difference from the paper's is {gap:.2g}.",
        after[0] if after else None,
        "" if printed else f"The values are {_listed(EXACT_SIGMA)}.",
    )


def _rank_claim(example: ExampleOutcome) -> Claim:
    before, after = len(example.before), len(example.after)
    gauge_before, gauge_after = len(example.before_gauge), len(example.after_gauge)
    raised = after > before and gauge_after > gauge_before
    return _claim(
        "example-rank",
        "App. D.3, Eq. 100-101",
        "Mixing x~ = (x1, x1 + x2) raises the rank of ρ from 2.",
        judge(raised, not raised),
        f"the rank is {before} before and {after} after mixing; under the softmax gauge it is "
        f"{gauge_before} and {gauge_after}.",
        float(after),
    )


def _filters_claim(mixed: Spectra) -> Claim:
    raised = [rank > len(one.before) for one in mixed.values() for rank in one.ranks]
    rises, count = sum(raised), len(raised)
    wording = {
        name: f"rank {len(one.before)} becomes {_range(one.ranks)}, and {percent(one.tails, 0)} of "
        f"the norm lies beyond rank {len(one.before)}"
        for name, one in mixed.items()
    }
    return _claim(
        "random-filters",
        "Sec. 6.2, App. D.3",
        "Temporal mixing can raise the rank of ρ, which the paper shows by one example.",
        "holds" if rises == count else "holds when corrected" if rises else "does not hold",
        f"{rises} of {count} random filters (1, θ), with θ uniform on ±2, raise the rank "
        f"({listed(wording)}).",
        rises / count,
        "" if rises in (0, count) else f"{count - rises} of {count} filters do not raise it.",
    )


def _windows_claim(mixed: Spectra) -> Claim:
    kept = [rank <= len(one.before) for one in mixed.values() for rank in one.window_ranks]
    wording = {name: f"rank {_range(one.window_ranks)}" for name, one in mixed.items()}
    return _claim(
        "other-representation",
        "App. D.3, last paragraph",
        "Other representations of the mixed target may have a different rank pattern; the paper "
        "does not exclude it.",
        judge(all(kept), fails=False),
        "with windows (x(t-1), x(t)) as tokens, which are as long as the filter, the rank does not "
        f"rise for {sum(kept)} of {len(kept)} filters ({listed(wording)}): with single tokens it "
        "rises because x1 is part of both.",
        sum(kept) / len(kept),
    )


def _deconvolution_claim(inverses: DeconvolutionOutcome) -> Claim:
    past = [one for one in inverses.filters if abs(one.theta) <= _CLEAR]
    future = [one for one in inverses.filters if abs(one.theta) >= 1 / _CLEAR]
    verdict: Verdict = "open"
    evidence, law = "too few filters have |θ| on one side of 1.", mean([])
    if past and future:
        law = inverses.law
        right = max(one.past[-1] for one in past), max(one.future[-1] for one in future)
        wrong = min(one.past[-1] for one in future)
        verdict = "holds when corrected" if wrong > _UNDONE else "holds"
        if max(right) > _UNDONE:
            verdict = "does not hold"
        evidence = (
            f"with {inverses.lengths[-1]} terms the inverse filter that reads the past leaves a "
            f"relative error of at most {right[0]:.2g} for the {len(past)} filters with |θ| ≤ "
            f"{_CLEAR:.3g}, but of at least {wrong:.2g} for the {len(future)} with |θ| ≥ "
            f"{1 / _CLEAR:.3g}, where the one that reads the future leaves at most {right[1]:.2g}. "
            f"The remaining error falls like |θ|^L (or |θ|^-L) to the power {law}."
        )
    return _claim(
        "deconvolution",
        "App. D.3, last paragraph",
        "A suitable deconvolution can undo the mixing and decrease the complexity of the target.",
        verdict,
        evidence,
        law,
        "An inverse that reads the past exists for filters of minimum phase, |θ| < 1; for the "
        "others it has to read the future. Where the filter is part of the target, H~(x) = H(θ∗x), "
        "no inverse is needed: applying θ to the inputs gives H."
        if verdict == "holds when corrected"
        else "",
    )


def _paragraphs(mixed: Spectra, claims: Sequence[Claim]) -> tuple[str, ...]:
    said = {claim.name: claim.evidence[:1].upper() + claim.evidence[1:] for claim in claims}
    ranks = [
        f"Over {len(one.filters)} random filters the rank of {name} goes from {len(one.before)} to "
        f"{_range(one.ranks)}."
        for name, one in mixed.items()
    ]

    def evidence(*names: str) -> list[str]:
        return [said[f"mixing-rank-{name}"] for name in names if f"mixing-rank-{name}" in said]

    first = [*evidence("example-values", "example-rank"), *ranks]
    second = evidence("other-representation", "deconvolution")
    return tuple(" ".join(part) for part in (first, second) if part)


def _example_table(example: ExampleOutcome) -> Table:
    """Tabulate the values of D.3: computed, exact, and printed."""
    before, after = ([*found, None, None, None][:3] for found in (example.before, example.after))
    return Table(
        "D.3: singular values before and after x~ = (x1, x2 + x1)",
        ("", "before", "after, by pod", "after, exact", "after, the paper"),
        tuple((f"σ{k + 1}", before[k], after[k], EXACT_SIGMA[k], PAPER_SIGMA[k]) for k in range(3)),
        "Under the softmax gauge, modulo functions of x1 alone, the rank is "
        f"{len(example.before_gauge)} before and {len(example.after_gauge)} after.",
    )


def _spectrum_table(mixed: Spectra) -> Table:
    """Tabulate ranks, stable ranks and tails before and after mixing."""

    def stable(*spectra: Sequence[float]) -> Interval:
        return mean([float(stable_rank(np.array(sigma))) for sigma in spectra])

    return table_of(
        "Random filters (1, θ): the spectrum before and after mixing",
        mixed,
        {
            "ρ": lambda name: name,
            "rank": lambda name: len(mixed[name].before),
            "rank mixed": lambda name: _range(mixed[name].ranks),
            "rank mixed, windows": lambda name: _range(mixed[name].window_ranks),
            "stable rank": lambda name: stable(mixed[name].before).value,
            "stable rank mixed": lambda name: str(
                stable(*(row.sigma for row in mixed[name].filters))
            ),
            "stable rank mixed, windows": lambda name: str(
                stable(*(row.windows for row in mixed[name].filters))
            ),
            "share of norm beyond the old rank": lambda name: str(mixed[name].tails),
        },
        "Stable rank: Σσ²/σ1². Means over filters with 95 % intervals.",
    )


def _spectrum_figure(mixed: Spectra) -> Figure:
    """Draw the spectra of the couplings before and after mixing."""
    caption = (
        "The spectrum of ρ(x1, x2 + θ x1) for random θ, beside that of ρ. Mixing splits each term "
        "into a sine and a cosine of x2, which adds nonzero singular values."
    )
    panels = tuple(_spectrum_panel(name, one) for name, one in mixed.items())
    return Figure("mixing-rank-spectra", "Spectra under mixing", caption, panels)


def _spectrum_panel(name: str, mixed: FiltersOutcome) -> Curves:
    most = max(mixed.ranks)
    padded = np.array([[*one.sigma, *[math.nan] * most][:most] for one in mixed.filters])
    k = tuple(float(i) for i in range(1, most + 1))
    series = [
        Series("before mixing", k[: len(mixed.before)], mixed.before, style="theory"),
        Series(
            "mixed: median and range over filters",
            k,
            tuple(np.nanmedian(padded, 0).tolist()),
            tuple(np.nanmin(padded, 0).tolist()),
            tuple(np.nanmax(padded, 0).tolist()),
        ),
    ]
    if name == "Eq. 100":
        series.append(Series("the paper, θ = 1", (1.0, 2.0, 3.0), PAPER_SIGMA, style="paper"))
    return Curves(f"ρ of {name}", "k", "singular value σ of ρ~", tuple(series), y_scale="log")


def _deconvolution_figure(inverses: DeconvolutionOutcome) -> Figure:
    """Draw the remaining error over the length of the inverse filter and over |θ|^L."""
    every = sorted(((abs(one.theta), one) for one in inverses.filters), key=itemgetter(0))
    lengths, left = tuple(map(float, inverses.lengths)), "remaining error, relative to ρ"
    shown = [
        Series(f"|θ| = {theta:.2f}", lengths, one.past, style="measured" if theta < 1 else "faint")
        for theta, one in every[:: max(1, len(every) // 6)]
    ]
    panels = [
        Curves(
            "inverse filter that reads the past",
            "terms of the inverse filter L",
            left,
            tuple(shown),
            y_scale="log",
            lines=(Line("undone", y=_UNDONE),),
        )
    ]
    if inverses.points:
        points = line("measured", sorted(inverses.points, key=itemgetter(0)))
        title, base = "all filters, with the inverse that decays", "|θ|^L, or |θ|^-L for |θ| > 1"
        panels.append(Curves(title, base, left, (points,), "log", "log"))
    caption = (
        "The error of the deconvolved coupling; thin lines are for |θ| > 1, where the inverse that "
        "reads the past does not decay. Right: for |θ| > 1 with the inverse that reads the future; "
        f"the slope over all filters is {inverses.law}, and 1 in theory."
    )
    return Figure("mixing-rank-deconvolution", "Undoing a filter", caption, tuple(panels))


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


EXPERIMENT = contract.Experiment(
    "mixing-rank",
    "Mixing and the rank of the coupling",
    "Sec. 6.2, App. D.3",
    110,
    plan,
    conclude,
)
