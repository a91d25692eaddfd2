"""Is rank necessary? Eq. 5 with m_h = 1 for every equivariant H, and what that costs F.

Theorem 4.1 bounds the error by the rank of the target's coupling, and the paper says that this
structure determines what a Transformer can approximate. `theory/rank_one.py` has a construction
with m_h = 1 for every permutation-equivariant H on distinct tokens in d = 1: f gives powers of the
token, F decodes their means. Here it is built for seven maps. The steepness that any F must then
have is measured over the margin between tokens, and over the head size. Networks of several widths
are trained with m_h = 1 and with m_h = rank, to see whether training finds it.

The rules were written after a prototype of construction and steepness, and before any fit. After
the first quick run two statements were narrowed to this construction, and smaller heads' couplings
were let count for larger heads; no verdict changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, at_most, claim_of, judge
from attnrate.experiments.kits import fits, spectral
from attnrate.figures.figure import Cell, Curves, Figure, Line, Table
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.statistics import Interval, geometric_mean, mean, slope
from attnrate.targets import AttentionTarget, SpectralCoupling, spectral_target
from attnrate.theory.compile import compile_target
from attnrate.theory.rank_one import Moments, SequenceMap, apart, clustered, pooled, rank_one
from attnrate.theory.steepness import steepness

Tensor = torch.Tensor
#: Seed of the inputs; no fit uses it
_SEED = 1 << 46
_UNIT = (0.0, 1.0)
ALPHA = 1.0
RANKS = (2, 3, 6)
#: The ranks and lengths of the price, and the margin at which it is measured
LENGTHS, MARGIN = (2, 3, 4), 0.05
#: A map is represented exactly if its error is at most this share of its largest output, and at
#: most this many rounding errors times the steepness of F
EXACT, ROUNDINGS = 1e-9, 16.0
#: Exponents count as equal if they differ by at most this
CLOSE = 0.25
#: The target of the fits
TRAINED_RANK, TRAINED_LENGTH = 3, 4


@dataclass(frozen=True)
class Chosen:
    """The runs of a preset: lengths and margins of the construction, widths and heads of fits."""

    lengths: tuple[int, ...]
    margins: tuple[float, ...]
    sequences: int
    widths: tuple[int, ...]
    heads: tuple[int, ...]
    steps: int
    seeds: tuple[int, ...]


CHOSEN: Mapping[contract.Preset, Chosen] = {
    "quick": Chosen(
        lengths=LENGTHS,
        margins=(0.1, 0.07, 0.05, 0.035),
        sequences=64,
        widths=(16, 64),
        heads=(1, TRAINED_RANK),
        steps=300,
        seeds=(0, 1),
    ),
    "paper": Chosen(
        lengths=(*LENGTHS, 5),
        margins=(0.1, 0.085, 0.07, 0.06, 0.05, 0.04, 0.03),
        sequences=512,
        widths=(8, 16, 32, 64, 128, 256),
        heads=(1, 2, TRAINED_RANK),
        steps=2400,
        seeds=(0, 1, 2, 3, 4),
    ),
}


def largest(x: Tensor) -> Tensor:
    """H_t = max x."""
    return x.amax(1, keepdim=True).expand(x.shape)


def place(x: Tensor) -> Tensor:
    """H_t = the number of tokens below x(t): continuous on distinct tokens, and only there."""
    return (x > x.mT).sum(-1, keepdim=True).to(x.dtype)


def others(x: Tensor) -> Tensor:
    """H_t = Σ_{s≠t} x(s)."""
    return x.sum(1, keepdim=True) - x


def polynomial(x: Tensor) -> Tensor:
    """H_t = x(t)² Σ x - x(t) Π x."""
    return x.square() * x.sum(1, keepdim=True) - x * x.prod(1, keepdim=True)


def everything(x: Tensor) -> Tensor:
    """H_t = (all tokens in order, x(t)): what F must decode if it is to serve every H."""
    ordered = x.sort(1).values.mT.expand(-1, x.shape[1], -1)
    return torch.cat([ordered, x], dim=-1)


def attention(rank: int) -> str:
    """The name of the map that is Fig. 1's target of this rank."""
    return f"attention of rank {rank}"


def maps_of(length: int) -> dict[str, SequenceMap]:
    """The maps that are written with m_h = 1, by name."""
    targets = {attention(rank): spectral_target(ALPHA, rank, length) for rank in RANKS}
    closed = {"maximum": largest, "place in order": place, "sum of the others": others}
    return {**closed, "polynomial": polynomial, **targets}


class ConstructionOutcome(contract.Outcome):
    """How well each map is represented, and how steep F must be to decode all tokens.

    `errors` are the largest errors of the maps, relative to the largest output, and `limits` what
    ROUNDINGS rounding errors times the largest steepness of F would be. `roundings` compares the
    error of each sequence with a rounding error times the steepness there.
    """

    maps: tuple[str, ...]
    errors: tuple[float, ...]
    limits: tuple[float, ...]
    roundings: tuple[float, ...]
    steepest: float


class Construction(contract.Work, work="rank_one.construction"):
    """A job: every map with m_h = 1, at one length and one margin."""

    length: int
    margin: float
    sequences: int

    def run(self) -> ConstructionOutcome:
        """Build each map, and compare it on drawn sequences and on the tightest ones."""
        drawn = apart(self.sequences, self.length, self.margin, _UNIT, _SEED + self.seed)
        x = torch.cat([drawn, clustered(self.sequences, self.length, self.margin, _UNIT)])
        errors, limits, roundings = [], [], []
        rounding = torch.finfo(torch.float64).eps
        maps = maps_of(self.length)
        for H in maps.values():
            model = rank_one(H, self.length, self.margin)
            wanted = H(x)
            off = (model(x) - wanted).detach().abs().amax((1, 2))
            steep = steepness(H, partial(pooled, model), x)
            most = wanted.abs().max()
            errors.append(float(off.max() / most))
            limits.append(float(ROUNDINGS * rounding * (1 + steep.max()) / most))
            roundings.append(float((off / (1 + steep)).max()) / rounding)
        decoding = steepness(everything, partial(pooled, model), x)
        return ConstructionOutcome(
            tuple(maps), tuple(errors), tuple(limits), tuple(roundings), float(decoding.max())
        )


class PriceOutcome(contract.Outcome):
    """For m_h = 1, ..., rank: the steepness of F, and the error of the proof's construction.

    `typical` is the median over sequences, for the coupling of rank at most m_h where it is least,
    among those of `means`; `steepest` is the largest over sequences for this coupling. `cut` is the
    mean squared error of the Transformer that the proof of Theorem 4.1 compiles, whose F is the
    identity.
    """

    typical: tuple[float, ...]
    steepest: tuple[float, ...]
    cut: tuple[float, ...]


class Price(contract.Work, work="rank_one.price"):
    """A job: what F must do for Fig. 1's target of one rank and length, for every head size."""

    rank: int
    length: int
    margin: float
    sequences: int

    def run(self) -> PriceOutcome:
        """Measure the steepness for couplings of every rank, and compile the cut targets."""
        target = spectral_target(ALPHA, self.rank, self.length)
        x = apart(self.sequences, self.length, self.margin, _UNIT, _SEED + self.seed)
        fresh = target.sample(self.sequences, _SEED + self.seed)
        found: list[tuple[float, float]] = []
        least, cut = [], []
        for m_h in range(1, self.rank + 1):
            steep = steepness(target, partial(means, target, m_h), x)
            found.append((float(steep.median()), float(steep.max())))
            least.append(min(found))
            model = compile_target(target, m_h)
            off = spectral.outputs(model, fresh) - target(fresh)
            cut.append(float(off.square().mean()))
        typical, steepest = zip(*least, strict=True)
        return PriceOutcome(typical, steepest, tuple(cut))


def means(target: AttentionTarget, m_h: int, x: Tensor) -> Tensor:
    """The means of f = (z, z², ...) under a coupling of rank m_h, which F is given.

    At m_h = rank the coupling is the target's own. Below, it is the m_h - 1 first terms of the
    target's and the product z(t) z(s): tokens with equal means are then equal, since the sum of
    both is positive definite.
    """
    rho = target.rho
    assert isinstance(rho, SpectralCoupling)
    f = Moments(_UNIT, 2 * target.length - 1)(x)
    logits = f[..., :1] @ f[..., :1].mT if m_h < rho.rank else torch.zeros_like(x @ x.mT)
    terms = m_h if m_h == rho.rank else m_h - 1
    if terms:
        logits = logits + SpectralCoupling(rho.sigma[:terms]).outer(x, x)
    return logits.softmax(-1) @ f


@dataclass(frozen=True)
class Trained:
    """The label of a fit: its head size, its width, and its seed."""

    m_h: int
    size: int
    seed: int


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan the construction for every length and margin, the price of every target, and fits."""
    chosen = CHOSEN[preset]
    built: contract.Plan = [
        Sized(
            Construction(length=length, margin=margin, sequences=chosen.sequences),
            0.05 * length + 1e-4 * chosen.sequences * length**2,
        )
        for length in chosen.lengths
        for margin in chosen.margins
    ]
    priced: contract.Plan = [
        Sized(
            Price(rank=rank, length=length, margin=MARGIN, sequences=8 * chosen.sequences),
            (0.01 + 5e-5 * chosen.sequences) * length * rank,
        )
        for rank in RANKS
        for length in LENGTHS
    ]
    trained: contract.Plan = [
        _fit(m_h, width, chosen.steps, seed)
        for m_h in chosen.heads
        for width in chosen.widths
        for seed in chosen.seeds
    ]
    return [*built, *priced, *trained]


def _fit(m_h: int, width: int, steps: int, seed: int) -> Sized[contract.Fit[Trained]]:
    """The fit of Eq. 5 with networks of this width."""
    target = {"kind": "spectral", "alpha": ALPHA, "rank": TRAINED_RANK, "length": TRAINED_LENGTH}
    model = {"kind": "transformer", "m_h": m_h, "width": width}
    trial = Trial(target, model, spectral.strong(steps), seed)
    return Sized(contract.Fit(Trained(m_h, width, seed), trial), (0.004 + 3e-5 * width) * steps)


#: Training finds the construction if its error is within this factor of that with m_h = rank
SAME = 2.0


@dataclass(frozen=True)
class Runs:
    """The finished jobs by kind."""

    built: Sequence[contract.Done[Construction, ConstructionOutcome]]
    priced: Sequence[contract.Done[Price, PriceOutcome]]
    trained: fits.Fits

    @property
    def lengths(self) -> list[int]:
        """The lengths of the construction, in increasing order."""
        return sorted({one.job.length for one in self.built})

    @property
    def heads(self) -> list[int]:
        """The head sizes of the fits, in increasing order."""
        return sorted({one.label.m_h for one in self.trained})

    def of(self, length: int) -> list[contract.Done[Construction, ConstructionOutcome]]:
        """The constructions of a length, with increasing margins."""
        return sorted(contract.select(self.built, length=length), key=lambda one: one.job.margin)

    def growth(self, length: int) -> Interval:
        """The exponent in the margin of the steepness that decodes all tokens."""
        points = [(1 / one.job.margin, one.outcome.steepest) for one in self.of(length)]
        return _exponent(points)

    def error(self, length: int, name: str) -> float:
        """The largest error of a map at any margin."""
        return max((errors_of(one)[name] for one in self.of(length)), default=math.nan)


def _exponent(points: Sequence[tuple[float, float]]) -> Interval:
    """The exponent b of y ~ x^b; unknown for fewer than three points."""
    return (
        slope([x for x, _ in points], [y for _, y in points]) if len(points) > 2 else slope([], [])
    )


def errors_of(one: contract.Done[Construction, ConstructionOutcome]) -> dict[str, float]:
    """The error of every map."""
    return dict(zip(one.outcome.maps, one.outcome.errors, strict=True))


def steepest_growth(length: int) -> int:
    """The exponent in 1/margin with which F must become steeper, near clusters of all tokens.

    Tokens follow from moments with the condition margin^-(τ-1), that of a Vandermonde matrix. The
    token that asks follows from means that differ by z(t) - z(t') times a variance of the tokens,
    margin², so that its quotient is margin^-2.
    """
    return max(2, length - 1)


def last_step(one: contract.Done[Price, PriceOutcome]) -> float:
    """The share of the fall of log steepness from m_h = 1 to the rank that is the last step's."""
    first, *_, before, last = map(math.log, one.outcome.typical)
    return (before - last) / (first - last)


def conclude(results: contract.Results) -> contract.Conclusion:
    """Compare errors with rounding, the steepness over margins and head sizes, and the fits."""
    runs = Runs(
        results.of(Construction, ConstructionOutcome),
        results.of(Price, PriceOutcome),
        fits.Fits(results.fits(Trained)),
    )
    drawn = tuple(
        figure for figure in (construction_figure(runs), price_figure(runs)) if figure.panels
    )
    return contract.Conclusion(paragraphs(runs), drawn, tables(runs), claims(runs))


_claim = partial(claim_of, "rank-one")


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Decide whether m_h = 1 suffices, what it costs, and whether training finds it."""
    return _exact(runs), _determined(runs), _price(runs), _gradual(runs), _found(runs)


def _exact(runs: Runs) -> Claim:
    errors = [error for one in runs.built for error in one.outcome.errors]
    roundings = [number for one in runs.built for number in one.outcome.roundings]
    error, rounding = max(errors, default=math.nan), max(roundings, default=math.nan)
    good = error <= EXACT and rounding <= ROUNDINGS
    return _claim(
        "exact",
        "our question; Eq. 5",
        "The construction with m_h = 1, n = 2τ - 1 and an explicit F represents "
        "permutation-equivariant maps of distinct tokens in d = 1 to rounding.",
        judge(good, not good, enough=set(LENGTHS) <= set(runs.lengths)),
        f"Seven maps with {_words(runs.lengths)} tokens, built without training: the largest error "
        f"is {error:.2g} of the largest output (limit {EXACT:g}), and {rounding:.2g} rounding "
        f"errors times the steepness of F (limit {ROUNDINGS:g}). That every "
        "continuous map of this kind is of the form of Eq. 5 is proved in theory/rank_one.py.",
        error,
    )


def _determined(runs: Runs) -> Claim:
    """Decide by maps whose coupling has a larger rank; that one fails would not decide it."""
    errors = {
        f"r = {rank}": max(
            (runs.error(length, attention(rank)) for length in runs.lengths), default=math.nan
        )
        for rank in RANKS
    }
    known = [error for error in errors.values() if math.isfinite(error)]
    enough = len(known) == len(RANKS) and bool(runs.priced)
    exact = enough and max(known) <= EXACT
    paid = geometric_mean([one.outcome.typical[0] / one.outcome.typical[-1] for one in runs.priced])
    return _claim(
        "determined",
        "Sec. 1",
        "The approximation capability is determined by a low-rank structure in the pairwise "
        "coupling of the target.",
        "holds when corrected" if exact else "open",
        "With m_h = 1 the error of Fig. 1's targets, relative to their largest output, is "
        f"{fits.listed({name: f'{error:.2g}' for name, error in errors.items()})}. F is then "
        f"{paid.shown} times as steep as at m_h = r (τ = {_words(LENGTHS)}).",
        max(known, default=math.nan),
        "Rank is sufficient for a small m_h, not necessary: it determines the head size for an F "
        "that stays simple. Without a limit on F, n and m_FF, m_h = 1 suffices for every rank."
        if exact
        else "",
    )


def _price(runs: Runs) -> Claim:
    found = {f"τ = {n}": runs.growth(n) for n in runs.lengths if runs.growth(n).known}
    off = [
        abs(runs.growth(n).value - steepest_growth(n)) for n in runs.lengths if runs.growth(n).known
    ]
    wanted = ", ".join(str(steepest_growth(n)) for n in runs.lengths)
    return _claim(
        "price",
        "our question; Eq. 13",
        "The F that serves every H at m_h = 1 becomes steeper like margin^-max(2, τ-1) as tokens "
        "come nearer to each other.",
        judge(
            all(one <= CLOSE for one in off),
            any(one > CLOSE for one in off),
            enough=len(off) >= len(LENGTHS),
        ),
        "The least Lipschitz constant of an F that decodes all tokens, over 1/margin, has the "
        f"exponent: {fits.listed(found)} (expected: {wanted}, within {CLOSE:g}). Barron's "
        "complexity of Eq. 13 is at least as large as the Lipschitz constant.",
        list(found.values())[-1] if found else None,
    )


def _gradual(runs: Runs) -> Claim:
    shares = [last_step(one) for one in runs.priced if one.job.rank > 2]
    found = mean(shares)
    return _claim(
        "gradual",
        "our question; Sec. 4.3",
        "In this construction m_h and m_FF can be exchanged step by step: the nearer m_h comes to "
        "the rank, the less steep F must be.",
        judge(found.high < 0.5, found.low > 0.5, enough=len(shares) >= 4),
        f"Of the fall of F's log steepness from m_h = 1 to m_h = r, the step from r - 1 to r has "
        f"the share {found.shown} (a mean over {found.count} pairs of rank and τ; above 0.5 the "
        "exchange is not gradual). Tried are couplings of m_h - 1 terms of the target's and the "
        "product z(t) z(s), with which F must still decode the tokens; others may do better.",
        found,
    )


def _found(runs: Runs) -> Claim:
    widths = runs.trained.sizes
    ratio = _trained_ratio(runs, widths[-1]) if widths else geometric_mean([])
    at = f" at width {widths[-1]}" if widths else ""
    return _claim(
        "trained",
        "our question; Fig. 1",
        "Training finds it: with wide networks m_h = 1 learns a target of rank "
        f"{TRAINED_RANK} as well as m_h = {TRAINED_RANK} does.",
        at_most(ratio, SAME),
        f"The error with m_h = 1 over that with m_h = {TRAINED_RANK}{at}: {ratio.shown} (within a "
        f"factor {SAME:g} counts as equal); τ = {TRAINED_LENGTH}{runs.trained.steps}.",
        ratio,
    )


def _trained_ratio(runs: Runs, width: int) -> Interval:
    one, whole = (runs.trained.where(m_h=m_h, size=width) for m_h in (1, TRAINED_RANK))
    return one.ratio(whole, "seed")


def _words(numbers: Sequence[int]) -> str:
    """Numbers in a sentence: "2, 3 and 4"."""
    *first, last = map(str, numbers) if numbers else ("no",)
    return f"{', '.join(first)} and {last}" if first else last


def construction_figure(runs: Runs) -> Figure:
    """Draw the largest error over the margin, and the steepness with its expected exponents."""
    errors, steep = [], []
    for length in runs.lengths:
        word = f"τ = {length}"
        here = runs.of(length)
        margins = [one.job.margin for one in here]
        most = [max(one.outcome.errors) for one in here]
        errors.append(fits.line(word, zip(margins, most, strict=True), group=word))
        # of the map whose error is the largest
        limits = [max(zip(one.outcome.errors, one.outcome.limits, strict=True))[1] for one in here]
        label = f"{ROUNDINGS:g} roundings, {word}"
        errors.append(fits.line(label, zip(margins, limits, strict=True), "theory", word))
        values = [one.outcome.steepest for one in here]
        steep.append(fits.line(word, zip(margins, values, strict=True), group=word))
        power = steepest_growth(length)
        # drawn below the measured values, which would hide it
        law = [0.7 * values[0] * (margin / margins[0]) ** -power for margin in margins]
        steep.append(
            fits.line(f"margin^-{power}, {word}", zip(margins, law, strict=True), "theory", word)
        )
    axis = "margin, the least distance of two tokens of [0, 1]"
    panels = (
        Curves("Error of m_h = 1", axis, "largest error, relative", tuple(errors), "log", "log"),
        Curves(
            "What F must decode", axis, "least Lipschitz constant of F", tuple(steep), "log", "log"
        ),
    )
    return Figure(
        "rank-one",
        "Every equivariant map with m_h = 1",
        "Left: the largest error of seven maps that are written into Eq. 5 with m_h = 1, over the "
        f"largest output, and {ROUNDINGS:g} rounding errors times the largest steepness of that "
        "map's F. Right: the "
        "Lipschitz constant that an F must have at least, if it decodes all tokens and x(t), on "
        "drawn and on the tightest sequences, and the expected exponents below it.",
        panels if runs.built else (),
    )


def price_figure(runs: Runs) -> Figure:
    """Draw the steepness over the head size, and trained errors over the width."""
    panels = []
    longest = max((one.job.length for one in runs.priced), default=0)
    if longest:
        series = [
            fits.line(f"r = {one.job.rank}", list(enumerate(one.outcome.typical, 1)))
            for one in contract.select(runs.priced, length=longest)
        ]
        panels.append(
            Curves(
                f"The F of Fig. 1's targets, τ = {longest}",
                "head size m_h",
                "least Lipschitz constant of F",
                tuple(series),
                y_scale="log",
            )
        )
    if runs.trained:
        title = f"Trained, r = {TRAINED_RANK}, τ = {TRAINED_LENGTH}"
        shown = [runs.trained.where(m_h=m_h).series(f"m_h = {m_h}") for m_h in runs.heads]
        lines = tuple(
            Line(f"F = id, m_h = {m_h}", y=cut)
            for m_h, cut in cuts(runs).items()
            if m_h in runs.heads and cut > 0
        )
        axis = "width of the networks, m_FF"
        panels.append(Curves(title, axis, f"error {fits.MSE}", tuple(shown), "log", "log", lines))
    return Figure(
        "rank-one-price",
        "m_h against m_FF",
        "Left: the median, over sequences with tokens at least "
        f"{MARGIN:g} apart, of the Lipschitz constant that any F must have, for the best coupling "
        "tried of rank at most m_h; at m_h = r it is that of the identity. Right: errors of "
        "trained Transformers, with intervals over seeds. The lines are the proof's construction, "
        "whose coupling is cut at m_h and whose F is the identity.",
        tuple(panels),
    )


def cuts(runs: Runs) -> dict[int, float]:
    """The error of the proof's construction for the target of the fits, by head size."""
    found = contract.select(runs.priced, rank=TRAINED_RANK, length=TRAINED_LENGTH)
    return {m_h: cut for one in found for m_h, cut in enumerate(one.outcome.cut, 1)}


def tables(runs: Runs) -> tuple[Table, ...]:
    """Tabulate the largest error of every map, and the price by rank and length."""
    names = list(dict.fromkeys(name for one in runs.built for name in one.outcome.maps))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, *(runs.error(length, name) for length in runs.lengths)) for name in names
    )
    margins = sorted({one.job.margin for one in runs.built})
    built = Table(
        "Maps written into Eq. 5 with m_h = 1: the largest error over the largest output",
        ("map H_t", *(f"τ = {length}" for length in runs.lengths)),
        rows,
        f"Tokens at least {margins[0]:g} apart. The rank is that of the target's own coupling."
        if margins
        else "",
    )
    priced = fits.table_of(
        "The least Lipschitz constant of F for Fig. 1's targets",
        runs.priced,
        {
            "rank r": lambda one: one.job.rank,
            "τ": lambda one: one.job.length,
            "m_h = 1": lambda one: one.outcome.typical[0],
            "m_h = r - 1": lambda one: one.outcome.typical[-2],
            "m_h = r": lambda one: one.outcome.typical[-1],
            "largest at m_h = 1": lambda one: one.outcome.steepest[0],
            "squared error, F = id, m_h = 1": lambda one: one.outcome.cut[0],
        },
        f"Medians over sequences with tokens at least {MARGIN:g} apart; f = (z, z², ...), z in "
        "[-1, 1], so that the identity of x has 0.5.",
    )
    return tuple(table for table in (built, priced) if table.rows)


def paragraphs(runs: Runs) -> tuple[str, ...]:
    """Say what the construction shows, what it costs, and what training makes of it."""
    if not runs.built and not runs.priced and not runs.trained:
        return ("No job of this experiment is finished.",)
    said = [
        "Take the coupling ρ(u, v) = u v, of rank one, and f(x) = (x, x², ..., x^(2τ-1)). The "
        "pooled vector then holds 2τ - 1 moments of the weights p_s at the tokens x_s. They "
        "determine weights and tokens (Prony), and the ratios of the weights determine x(t), "
        "because log p_s grows by x(t) for each unit of x_s. So an F exists for every continuous "
        "permutation-equivariant H on distinct tokens in d = 1, whatever the rank of its coupling. "
        "Here this F is explicit: an eigenvalue problem of moments, then steps of Newton."
    ]
    if runs.priced:
        paid = geometric_mean(
            [one.outcome.typical[0] / one.outcome.typical[-1] for one in runs.priced]
        )
        most = geometric_mean(
            [one.outcome.steepest[0] / one.outcome.steepest[-1] for one in runs.priced]
        )
        said.append(
            "What it means: the capability of Eq. 5 is governed by rank only together with a limit "
            "on F. A low rank is sufficient for a small head; it is not necessary. The price of a "
            "head below the rank is F, which must undo the mean before it can do anything else. "
            f"For Fig. 1's targets it is at least {paid.shown} times as steep at m_h = 1 as at "
            f"m_h = r on the median sequence, and {most.shown} times on the sequence where F is "
            "steepest. "
            "The complexity of Eq. 13 for Barron's networks is at least this Lipschitz constant, "
            "and the m_FF that its bound asks for grows with its square. These are bounds from "
            "below for this f and these couplings; other choices of f and ρ may cost less."
        )
    if runs.trained:
        widths = runs.trained.sizes
        by = {f"m_h = {m_h}": runs.trained.where(m_h=m_h).slope for m_h in runs.heads}
        last = {f"m_h = {m_h}": runs.trained.mean(m_h=m_h, size=widths[-1]) for m_h in runs.heads}
        said.append(
            f"Trained on the target of rank {TRAINED_RANK} with τ = {TRAINED_LENGTH} and tokens "
            f"uniform on [0, 1], networks of width {widths[-1]} reach: {fits.listed(last)}. The "
            f"exponent of the error in the width is: {fits.listed(by)}. " + _trained_words(runs)
        )
    return tuple(said)


def _trained_words(runs: Runs) -> str:
    """How trained errors at m_h = 1 compare with the coupling cut at rank one."""
    cut, widths = cuts(runs).get(1, math.nan), runs.trained.sizes
    trained = runs.trained.mean(m_h=1, size=widths[-1])
    if not math.isfinite(cut) or not trained.known:
        return ""
    return (
        f"With m_h = 1 the proof's construction, whose F is the identity, has {cut:.2g}: training "
        f"is at {trained.value / cut:.2g} times that."
    )


EXPERIMENT = contract.Experiment(
    "rank-one",
    "The limit of the theory: one dimension of attention for every equivariant map",
    "Sec. 1, Theorem 4.1; our question",
    170,
    plan,
    conclude,
)
