"""The second term of Theorem 4.1: the error against m_ff, and how m_ff must grow with m_h.

The paper has no figure of it. It states the term C2(H, m_h) m_h^(β+1) / m_FF^β in Eq. 17, and that
the bound converges when m_h and m_FF^β / m_h^(β+1) both grow. Here the networks of the compiled
Transformer are piecewise-linear interpolants with m_ff pieces (β = 2, hence the exponent -4 in mean
squared error), and they are compared with the bound's second term. In addition, networks of small
width are trained.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, claim_of, judge, judge_each
from attnrate.experiments.kits import fits, spectral
from attnrate.experiments.kits.spectral import LONG, Spectral
from attnrate.figures.figure import Curves, Figure, Table
from attnrate.fitting.job import Sized
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.theory.bounds import best_split, jackson_bound
from attnrate.theory.compile import compile_target

#: Seed of the inputs; no fit uses it
_SEED = 1 << 46
#: From 4 to 1024 in factors of 2^(1/4)
UNITS = tuple(sorted({round(2 ** (k / 4)) for k in range(8, 41)}))
TARGETS = (Spectral(1.0, LONG), Spectral(0.55, LONG))
#: Rank and head size agree, so that the error is due to the networks alone
TRAINED = Spectral(1.0, 6)
PARAMETERS = (100, 300, 1000, 3000, 10_000, 30_000)


@dataclass(frozen=True)
class Chosen:
    """The runs of a preset: head sizes of compiled models, widths of trained ones."""

    sizes: tuple[int, ...]
    sequences: int
    widths: tuple[int, ...]
    seeds: tuple[int, ...]


CHOSEN: Mapping[contract.Preset, Chosen] = {
    "quick": Chosen(sizes=(1, 2, 4, 8, 16), sequences=512, widths=(8, 32), seeds=(0,)),
    "paper": Chosen(
        sizes=(1, 2, 3, 4, 6, 8, 11, 16),
        sequences=2048,
        widths=(4, 8, 16, 32, 64, 128),
        seeds=(0, 1, 2, 3, 4),
    ),
}


class CompiledOutcome(contract.Outcome):
    """Errors of the compiled Transformer for every m_ff, and the bound's second term.

    `total` is the error with respect to the target. `networks` is the error with respect to the
    compiled Transformer with the same m_h and exact bases: the part that is due to m_ff.
    `exact` is the error of the Transformer with exact bases.
    """

    m_ff: tuple[int, ...]
    exact: float
    total: tuple[float, ...]
    networks: tuple[float, ...]
    rigorous: tuple[float, ...]
    printed: tuple[float, ...]


class Compiled(spectral.SpectralWork, work="mff.compiled", trains=False):
    """A job: the Transformer that the proof compiles for one head size, for every m_ff."""

    m_h: int
    m_ff: tuple[int, ...]
    sequences: int

    def run(self) -> CompiledOutcome:
        """Compile one Transformer per m_ff and compare it with the exact one."""
        target = self.target.build()
        x = target.sample(self.sequences, _SEED)
        truth, whole = target(x), spectral.outputs(compile_target(target, self.m_h), x)
        found = [spectral.outputs(compile_target(target, self.m_h, m_ff), x) for m_ff in self.m_ff]
        rigorous = [jackson_bound(target, self.m_h, m_ff, norm="mse") for m_ff in self.m_ff]
        printed = [
            jackson_bound(target, self.m_h, m_ff, norm="l1", form="printed", alpha=self.alpha)
            for m_ff in self.m_ff
        ]
        return CompiledOutcome(
            m_ff=self.m_ff,
            exact=float((whole - truth).square().mean()),
            total=tuple(float((one - truth).square().mean()) for one in found),
            networks=tuple(float((one - whole).square().mean()) for one in found),
            rigorous=tuple(bound.feedforward_term for bound in rigorous),
            printed=tuple(bound.feedforward_term for bound in printed),
        )


class SplitOutcome(contract.Outcome):
    """For every number of parameters, the best m_h and m_ff and the root of their bound."""

    parameters: tuple[int, ...]
    m_h: tuple[int, ...]
    m_ff: tuple[int, ...]
    root_bound: tuple[float, ...]


class Split(spectral.SpectralWork, work="mff.split", trains=False):
    """A job: the split of a number of parameters into m_h and m_ff by the rigorous bound."""

    parameters: tuple[int, ...]

    def run(self) -> SplitOutcome:
        """Minimise the bound for every number of parameters."""
        target = self.target.build()
        found = [best_split(target, count, "mse") for count in self.parameters]
        return SplitOutcome(
            self.parameters,
            tuple(one.m_h for one in found),
            tuple(one.m_ff for one in found),
            tuple(math.sqrt(one.bound.value) for one in found),
        )


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan compiled errors for every m_h and m_ff, best splits of a budget, and the fits."""
    chosen = CHOSEN[preset]
    compiled: contract.Plan = [
        Sized(
            Compiled(alpha=t.alpha, rank=t.rank, m_h=m_h, m_ff=UNITS, sequences=chosen.sequences),
            chosen.sequences / 300,
        )
        for t in TARGETS
        for m_h in chosen.sizes
    ]
    splits: contract.Plan = [
        Sized(Split(alpha=t.alpha, rank=t.rank, parameters=PARAMETERS), 1.0) for t in TARGETS
    ]
    trained: contract.Plan = [
        TRAINED.fit(
            "trained",
            width,
            {"m_h": TRAINED.rank, "width": width},
            spectral.RECIPES[preset],
            seed,
            spectral.SECONDS[preset],
        )
        for width in chosen.widths
        for seed in chosen.seeds
    ]
    return [*compiled, *splits, *trained]


#: The rate of piecewise-linear interpolation; in mean squared error it is 2β
BETA = 2.0
#: Networks show their rate from this number of pieces per period of the highest sine
RESOLVED = 8
#: m_ff is large enough when the compiled error is within this factor of that with exact bases
ENOUGH = 1.1
#: The m_ff at which the bound is compared over m_h
FIXED = 64
#: Exponents count as equal if they differ by at most this
CLOSE = 0.25


@dataclass(frozen=True)
class Runs:
    """The finished jobs: compiled errors by m_h, best (m_h, m_ff) by target, and the fits."""

    compiled: Sequence[contract.Done[Compiled, CompiledOutcome]]
    splits: Mapping[Spectral, Sequence[tuple[int, float]]]
    trained: fits.Fits

    def of(self, target: Spectral) -> Sequence[contract.Done[Compiled, CompiledOutcome]]:
        """Select the compiled errors of a target, ordered by m_h."""
        return contract.select(self.compiled, target=target)

    def needed(self, target: Spectral) -> list[tuple[int, float]]:
        """Every m_h with the m_ff that it needs, where that is known."""
        found = [(one.job.m_h, needed(one.outcome)) for one in self.of(target)]
        return [(m_h, m_ff) for m_h, m_ff in found if math.isfinite(m_ff)]

    def growth(self, target: Spectral) -> Interval:
        """The exponent e of the needed m_ff ~ m_h^e."""
        return fits.slope_of(self.needed(target), 3)

    def split_growth(self, target: Spectral) -> Interval:
        """The exponent e of m_ff ~ m_h^e along the best splits."""
        return fits.slope_of(self.splits.get(target, []), 3)

    def demanded(self, target: Spectral) -> Interval:
        """The exponent e for which the printed second term is constant along m_ff = m_h^e."""
        at = [(one.job.m_h, at_fixed(one.outcome, one.outcome.printed)) for one in self.of(target)]
        found = fits.slope_of([(m_h, value) for m_h, value in at if math.isfinite(value)], 3)
        value, low, high = (each / BETA for each in (found.value, found.low, found.high))
        return Interval(value, low, high, found.count)


def read(results: contract.Results) -> Runs:
    """Sort the finished jobs by kind."""
    splits = {
        one.job.target: [*zip(one.outcome.m_h, map(float, one.outcome.m_ff), strict=True)]
        for one in results.of(Split, SplitOutcome)
    }
    compiled = sorted(results.of(Compiled, CompiledOutcome), key=lambda one: one.job.m_h)
    return Runs(compiled, splits, fits.Fits(results.fits(spectral.Tried)))


def needed(found: CompiledOutcome, factor: float = ENOUGH) -> float:
    """The least m_ff from which the error stays within a factor of that with exact bases.

    Between two values of m_ff it is interpolated in logarithms; nan if no value is large
    enough.
    """
    excess = [math.log(total / found.exact / factor) for total in found.total]
    units = [math.log(m_ff) for m_ff in found.m_ff]
    if excess[-1] > 0:
        return math.nan
    last = max((i for i, e in enumerate(excess) if e > 0), default=-1)
    if last < 0:
        return float(found.m_ff[0])
    share = excess[last] / (excess[last] - excess[last + 1])
    return math.exp(units[last] + share * (units[last + 1] - units[last]))


def resolved(one: contract.Done[Compiled, CompiledOutcome]) -> list[tuple[int, float, float]]:
    """(m_ff, error of the networks, its rigorous bound) where the highest sine is resolved."""
    rows = zip(one.outcome.m_ff, one.outcome.networks, one.outcome.rigorous, strict=True)
    return [row for row in rows if row[0] >= RESOLVED * one.job.m_h and row[1] > 0]


def unit_slope(one: contract.Done[Compiled, CompiledOutcome]) -> Interval:
    """The exponent in m_ff of the networks' error, where the highest sine is resolved."""
    return fits.slope_of([(m_ff, error) for m_ff, error, _ in resolved(one)], 3)


def at_fixed(found: CompiledOutcome, values: Sequence[float]) -> float:
    """The value at m_ff = FIXED; `values` has one value per m_ff. nan if there is none."""
    return dict(zip(found.m_ff, values, strict=True)).get(FIXED, math.nan)


def conclude(results: contract.Results) -> contract.Conclusion:
    """Fit the slope in m_ff, find the m_ff that every m_h needs, and compare with the bound."""
    runs = read(results)
    return contract.Conclusion(paragraphs(runs), (figure(runs),), (table(runs),), claims(runs))


_claim = partial(claim_of, "mff")


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Decide the rate in m_ff, the growth with m_h, and the bound at a fixed m_ff."""
    return _rate(runs), _must_grow(runs), _condition(runs), _bound_grows(runs)


def _rate(runs: Runs) -> Claim:
    slopes = [unit_slope(one) for target in TARGETS for one in runs.of(target)]
    found = mean([slope.value for slope in slopes if math.isfinite(slope.value)])
    off = abs(found.value + 2 * BETA)
    return _claim(
        "rate",
        "Theorem 4.1, Eq. 13, 17",
        "The second term falls like m_FF^-β.",
        judge(off <= CLOSE, off > CLOSE, enough=found.count >= 3),
        f"Piecewise-linear networks have β = {BETA:g}, which is the exponent {-2 * BETA:g} in mean "
        f"squared error. Compiled networks have {found.shown}, the mean over {found.count} pairs "
        f"of target and head size (m_ff >= {RESOLVED} m_h).",
        found,
    )


def _must_grow(runs: Runs) -> Claim:
    found = {t.name: runs.growth(t) for t in TARGETS}
    seen = {name: g for name, g in found.items() if g.known and not math.isnan(g.low)}
    return _claim(
        "must-grow",
        "Sec. 4.3, after Eq. 18",
        "When m_h grows there are more bases for the networks to approximate, so m_FF must grow.",
        judge_each(seen.values(), lambda one: one.low > 0, lambda one: one.high <= CLOSE),
        "The m_ff from which the compiled error is within 10 % of that with exact bases grows like "
        f"a power of m_h, with the exponent: {fits.listed(seen)}.",
        next(iter(seen.values()), None),
    )


def _condition(runs: Runs) -> Claim:
    """Decide by the exponent along which the second term is constant: (β+1)/β, or more."""
    printed = (BETA + 1) / BETA
    found = {t.name: runs.growth(t) for t in TARGETS}
    asked = [e for e in map(runs.demanded, TARGETS) if e.known]
    most = max(asked, key=lambda e: e.value, default=fits.slope_of([]))
    verdict = judge(all(e.high <= printed + CLOSE for e in asked), fails=False, enough=bool(asked))
    correction = ""
    if any(e.low > printed + CLOSE for e in asked):
        verdict = "holds when corrected"
        correction = (
            "C2(H, m_h) grows with m_h as well, because sin 2πku has second derivatives of size "
            f"k²: for Eq. 17 to converge m_FF must outgrow m_h^{most.value:.2g}."
        )
        if all(g.high < most.low for g in found.values()):
            correction += " The error itself needs a smaller exponent."
    return _claim(
        "condition",
        "Sec. 4.3, after Eq. 18",
        "The bound converges when m_h → ∞ and m_FF^β / m_h^(β+1) → ∞.",
        verdict,
        f"With β = {BETA:g} this requires that m_FF grow faster than m_h^{printed:g}. The exponent "
        f"that the compiled error needs is {fits.listed(found)}; the exponent along which the "
        f"second term of Eq. 17 stays constant is {'; '.join(map(str, asked)) or 'not run'}.",
        most,
        correction,
    )


def _bound_grows(runs: Runs) -> Claim:
    steps = [step for target in TARGETS for step in pairwise(runs.of(target))]

    def grown(values: Callable[[CompiledOutcome], Sequence[float]]) -> list[bool]:
        fixed = [[at_fixed(one.outcome, values(one.outcome)) for one in step] for step in steps]
        return [b > a for a, b in fixed]

    grows = [*grown(lambda one: one.printed), *grown(lambda one: one.rigorous)]
    error_grows = grown(lambda one: one.total)
    # one step in which the error falls shows that it need not increase
    holds = all(grows) and not all(error_grows)
    return _claim(
        "bound-not-error",
        "Sec. 4.3, after Eq. 18",
        "With m_FF unchanged the second term of the bound increases with m_h; the best error does "
        "not necessarily.",
        judge(holds, not holds, enough=bool(grows)),
        f"At m_ff = {FIXED} the second term, printed and rigorous, increases in {sum(grows)} of "
        f"{len(grows)} steps from one m_h to the next; the compiled error increases in "
        f"{sum(error_grows)} of {len(error_grows)}.",
    )


def figure(runs: Runs) -> Figure:
    """Draw the error over m_ff, the needed m_ff over m_h, and trained errors over the width."""
    return Figure(
        "mff",
        "The second term of Theorem 4.1",
        "Left: mean squared distance between compiled Transformers with m_ff pieces per component "
        "and with exact bases, and the bound's second term above it. Middle: the m_ff from which "
        f"the error is within {100 * (ENOUGH - 1):.0f} % of that with exact bases. Right: trained "
        "networks of small width, with a head size equal to the rank.",
        (_units_panel(runs, TARGETS[0]), _needed_panel(runs), _width_panel(runs)),
    )


def _units_panel(runs: Runs, target: Spectral) -> Curves:
    series = []
    for m_h, one in ((one.job.m_h, one.outcome) for one in runs.of(target)):
        if m_h in (1, 4, 16):
            word = f"m_h = {m_h}"
            errors, bounds = (zip(one.m_ff, y, strict=True) for y in (one.networks, one.rigorous))
            series.append(fits.line(f"compiled, {word}", errors, group=word))
            series.append(fits.line(f"rigorous, {word}", bounds, "theory", word))
    return Curves(
        target.name, "pieces m_ff", "squared error of the networks", tuple(series), "log", "log"
    )


def _needed_panel(runs: Runs) -> Curves:
    series = []
    for target in TARGETS:
        word, best = f"best split of the bound, {target.name}", runs.splits.get(target, [])
        drawn = fits.line(target.name, runs.needed(target)), fits.line(word, best, "theory")
        series += [one for one in drawn if one.x]
    return Curves("The m_ff that m_h needs", "head size m_h", "m_ff", tuple(series), "log", "log")


def _width_panel(runs: Runs) -> Curves:
    named = f"α = {TRAINED.alpha:g}, r = m_h = {TRAINED.rank}" if runs.trained else "trained"
    return fits.error_panel(named, "width", [runs.trained.series("trained")])


def table(runs: Runs) -> Table:
    """Tabulate one row per target and head size."""

    def finite(number: float) -> float | None:
        return number if math.isfinite(number) else None

    return fits.table_of(
        "Compiled Transformers and their networks",
        [one for target in TARGETS for one in runs.of(target)],
        {
            "target": lambda one: one.job.target.name,
            "m_h": lambda one: one.job.m_h,
            "error with exact bases": lambda one: one.outcome.exact,
            "exponent in m_ff": lambda one: str(unit_slope(one)),
            "m_ff for 10 %": lambda one: finite(needed(one.outcome)),
            "m_ff for a factor 2": lambda one: finite(needed(one.outcome, 2.0)),
            "rigorous second term over error": lambda one: geometric_mean(
                [bound / error for _, error, bound in resolved(one)]
            ).limits[0],
        },
        f"The exponent is fitted where m_ff >= {RESOLVED} m_h; β = {BETA:g} gives "
        f"{-2 * BETA:g}. The last column is a geometric mean over the same m_ff.",
    )


def paragraphs(runs: Runs) -> tuple[str, ...]:
    """Say how the error depends on m_ff, for compiled and for trained networks."""
    grown = fits.listed({t.name: runs.growth(t) for t in TARGETS})
    spent = fits.listed({t.name: runs.split_growth(t) for t in TARGETS})
    text = (
        "The compiled networks interpolate sqrt(σ_k) sin 2πku, f and F with m_ff linear pieces, so "
        "that their error is exactly what the second term of Theorem 4.1 bounds. The m_ff that "
        "keeps the error within 10 % of that with exact bases grows like a power of m_h, with the "
        f"exponent: {grown}. When the rigorous bound splits a budget, the exponent is: {spent}."
    )
    widths = runs.trained.sizes
    if len(widths) < 2:
        return (text,)
    ends = [runs.trained.mean(size=width).shown for width in (widths[0], widths[-1])]
    exponent = runs.trained.slope.shown
    return (
        text,
        f"Trained networks of width {widths[0]} and {widths[-1]} (three hidden layers, strong "
        f"recipe) reach {ends[0]} and {ends[1]} at m_h = r, where the coupling can be exact. The "
        f"exponent of the error in the width is {exponent}; the error at the largest width is in "
        "part due to the optimiser.",
    )


EXPERIMENT = contract.Experiment(
    "mff",
    "The error against the size of the feed-forward networks",
    "Theorem 4.1, second term of Eq. 17",
    140,
    plan,
    conclude,
)
