"""Does a convolution or a recurrence before attention help, when, and by how much?

The slides end with: "a convolution on the inputs might potentially improve performance of
Transformers". Here Eq. 5's Transformer stands behind a causal convolution of five taps, a linear
RNN or a GRU, at equal parameters. The targets are Fig. 1's with mixed inputs, with tokens that come
mixed, in another order, and both. What layers can undo is known without training: the true filter
before the compiled Transformer, and the share of a token that no causal filter brings back. On
CIFAR-10 a ViT with a convolutional stem is compared with one whose patches are embedded linearly.

The rules were written before any run of the presets, after eight single fits of another size had
been seen (400 steps, rank 3, mixed and permuted targets). One was changed after quick runs: `when`
needs more than a single strength of mixing to be decided.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from attnrate.experiments.claims import Claim, Verdict, at_least, at_most, claim_of, judge
from attnrate.experiments.contract import (
    Conclusion,
    Done,
    Experiment,
    Plan,
    Preset,
    Results,
)
from attnrate.experiments.kits import fits
from attnrate.experiments.kits.hybrids import (
    HEADS,
    MODELS,
    RANK,
    TAPS,
    Case,
    Exact,
    ExactOutcome,
    Name,
    Trained,
    TrainedOutcome,
)
from attnrate.experiments.kits.images import Image, ImageOutcome, largest_jobs
from attnrate.experiments.kits.panels import percent
from attnrate.experiments.kits.stems import Stem, StemOutcome, stem_jobs
from attnrate.figures.figure import Cell, Curves, Figure, Line, Rows, Series, Table
from attnrate.fitting.job import Job, Sized
from attnrate.statistics import Interval, geometric_mean, mean, paired_difference, slope

#: A layer helps if it at least halves the error, and harms if it at least doubles it
HELPS, HARMS = 0.5, 2.0
#: Compiled models are exact if their error is at most this share of the variance. The inverses of
#: filters that grow lose digits of float64: a modulus of 2.5 over 15 tokens takes 6 of 16
EXACT = 1e-12
#: A convolution has undone a filter if it leaves at most this share of a token's variance
UNDONE = 0.05
#: Taps of the convolutions whose best is computed, and of the one that is judged
COUNTS, JUDGED = (1, 2, 3, 5, 8, 12, 16), 12
#: The case of each row, and its words
CASES: Mapping[Case, str] = {
    "original": "nothing to undo",
    "mixed": "mixed target",
    "stable": "tokens come mixed, minimum phase",
    "unstable": "tokens come mixed, not minimum phase",
    "permuted": "new order",
    "mixed, permuted": "mixed, new order",
}
PLAIN, CONVOLUTION, RNN, GRU, TRUE = MODELS
LAYERS: tuple[Name, ...] = (CONVOLUTION, RNN, GRU)
WORDS: Mapping[Name, str] = {PLAIN: "no layer", TRUE: "true filter, given"}
#: A cell of the grid: a case, a model, a head size, and λ, the strength of mixing
At = tuple[Case, Name, int, float]


@dataclass(frozen=True)
class Chosen:
    """The runs of a preset: its cells, strengths of mixing, steps and seeds."""

    cells: tuple[At, ...]
    strengths: tuple[float, ...]
    width: int
    steps: int
    seeds: int
    step: float


def _whole(*cells: tuple[Case, Sequence[Name]]) -> tuple[At, ...]:
    """Cells with the whole mixing and the head size of the target's rank."""
    return tuple((case, name, RANK, 1.0) for case, names in cells for name in names)


_EVERY: tuple[Name, ...] = (PLAIN, *LAYERS)
CHOSEN: Mapping[Preset, Chosen] = {
    # few cells and three seeds, because two leave almost everything open
    "quick": Chosen(
        _whole(
            ("original", (PLAIN,)),
            ("mixed", (PLAIN, CONVOLUTION)),
            ("permuted", (PLAIN, CONVOLUTION)),
        ),
        strengths=(1.0,),
        width=32,
        steps=450,
        seeds=3,
        step=0.0045,
    ),
    "paper": Chosen(
        (
            *_whole(
                ("original", (PLAIN, CONVOLUTION)),
                ("mixed", (*_EVERY, TRUE)),
                *((case, _EVERY) for case in ("stable", "unstable", "permuted", "mixed, permuted")),
            ),
            *(
                ("mixed", name, m_h, 1.0)
                for m_h in HEADS[:-1]
                for name in (PLAIN, CONVOLUTION, TRUE)
            ),
            *(
                ("mixed", name, RANK, strength)
                for strength in (0.1, 0.3, 0.6)
                for name in (PLAIN, CONVOLUTION)
            ),
        ),
        strengths=(0.1, 0.3, 0.6, 1.0),
        width=64,
        steps=2400,
        seeds=5,
        step=0.0055,
    ),
}
#: Seconds of a step, relative to the Transformer alone
_COST: Mapping[Name, float] = {CONVOLUTION: 1.25, TRUE: 1.25, RNN: 1.3, GRU: 1.8}


def plan(preset: Preset) -> Plan:
    """Plan exact answers and fits for every seed; with the full preset also models of images.

    The models of images need more epochs than a quick run has time for.
    """
    chosen = CHOSEN[preset]
    recipe = {"lr": 0.01, "steps": chosen.steps, "batch": 32}
    jobs: list[Sized[Job]] = []
    for seed in range(chosen.seeds):
        jobs.append(Sized(Exact(taps=COUNTS, strengths=chosen.strengths, seed=seed), 0.6))
        for case, name, m_h, strength in chosen.cells:
            job = Trained(
                case=case,
                model=name,
                m_h=m_h,
                width=chosen.width,
                recipe=recipe,
                strength=strength,
                seed=seed,
            )
            jobs.append(Sized(job, chosen.step * chosen.steps * _COST.get(name, 1.0)))
    if preset == "paper":
        jobs += [*largest_jobs(preset), *stem_jobs(preset)]
    return jobs


@dataclass(frozen=True)
class Runs:
    """The finished jobs by kind."""

    exact: Sequence[Done[Exact, ExactOutcome]]
    trained: fits.Fits
    plain: Mapping[int, ImageOutcome]
    stems: Mapping[int, StemOutcome]

    def of(self, case: Case, name: Name, m_h: int = RANK, strength: float = 1.0) -> fits.Fits:
        """The fits of a cell, one per seed."""
        return self.trained.where(case=case, model=name, m_h=m_h, strength=strength)

    def ratio(self, case: Case, name: Name, other: Name = PLAIN) -> Interval:
        """The error of a model over another's at m_h = rank, paired by seed."""
        return self.of(case, name).ratio(self.of(case, other), "seed")

    @property
    def cases(self) -> list[Case]:
        """The cases with a layer and a model to compare it with, in the order of the page."""
        return [case for case in CASES if any(self.ratio(case, name).count for name in LAYERS)]

    @property
    def gains(self) -> list[tuple[float, float, float]]:
        """(λ, missed share, error without over with the convolution), by strength and seed."""
        found = []
        for one in self.exact:
            for strength, missed in zip(one.job.strengths, one.outcome.missed, strict=True):
                without, with_it = (
                    self.of("mixed", name, strength=strength).by_seed.get(one.job.seed)
                    for name in (PLAIN, CONVOLUTION)
                )
                if without and with_it:
                    found.append((strength, missed, without / with_it))
        return sorted(found)

    @property
    def images(self) -> list[tuple[ImageOutcome, StemOutcome]]:
        """The models of images without and with a stem, by seed."""
        return [(self.plain[seed], stem) for seed, stem in self.stems.items() if seed in self.plain]


def conclude(results: Results) -> Conclusion:
    """Compare layers with none, with the true filter, and with what can be undone at all."""
    runs = Runs(
        results.of(Exact, ExactOutcome),
        fits.Fits(results.of(Trained, TrainedOutcome)),
        {one.job.seed: one.outcome for one in _untuned(results)},
        {one.job.seed: one.outcome for one in results.of(Stem, StemOutcome)},
    )
    said = (*claims(runs), _stem_claim(runs, results))
    if not runs.exact and not runs.trained and not runs.images:
        return Conclusion(("No job of this experiment is finished.",), claims=said)
    drawn = tuple(figure for figure in (helped_figure(runs), limits_figure(runs)) if figure.panels)
    tables = tuple(table for table in (errors_table(runs), images_table(runs)) if table.rows)
    return Conclusion(paragraphs(runs, said), drawn, tables, said)


def _untuned(results: Results) -> list[Done[Image, ImageOutcome]]:
    """The plain ViTs in their original order, whose first training is compared."""
    found = results.of(Image, ImageOutcome)
    return [one for one in found if one.job.image.kind == "attention" and not one.job.image.altered]


_claim = partial(claim_of, "hybrids")
_OURS = "our question; slides, p. 8"


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Decide what can be undone, what training makes of it, and where nothing helps."""
    return (
        _undone(runs),
        _inverse(runs),
        _hurt(runs),
        _convolution(runs),
        _head(runs),
        _known(runs),
        _harmless(runs),
        _order(runs),
        _recurrence(runs),
        _when(runs),
    )


def _compared(found: Interval, evidence: str) -> str:
    """The evidence, or what became of the fits where there is nothing to compare."""
    return evidence if found.known else f"The fits that this compares: {found.shown}."


def _undone(runs: Runs) -> Claim:
    errors = [one.outcome.oracle[-1] for one in runs.exact]
    most = max(errors, default=math.nan)
    return _claim(
        "undone",
        _OURS,
        "A convolution before Eq. 5 undoes the mixing of a target exactly, whatever the filter.",
        judge(most <= EXACT, most > EXACT),
        f"With the true filter in the layer, the compiled Transformer with m_h = {RANK} has an "
        f"error of at most {most:.2g} of the variance, over {len(errors)} random filters (limit "
        f"{EXACT:g}).",
        most,
    )


def _inverse(runs: Runs) -> Claim:
    place = COUNTS.index(JUDGED)
    kept = [one.outcome.stable.left[place] for one in runs.exact]
    lost = [one.outcome.unstable.never for one in runs.exact]
    back = [
        one.recurrence
        for done in runs.exact
        for one in (done.outcome.stable, done.outcome.unstable)
    ]
    most, least, worst = max(kept, default=1.0), min(lost, default=0.0), max(back, default=1.0)
    good = most <= UNDONE < least and worst <= EXACT
    return _claim(
        "inverse",
        "our question; App. D.3",
        "Where tokens come mixed, a convolution undoes it for filters of minimum phase only; a "
        "linear RNN of four states does so for every filter.",
        judge(good, not good, enough=bool(runs.exact)),
        f"Of a token's variance, the best convolution of {JUDGED} taps leaves at most "
        f"{most:.2g} if the filter is of minimum phase. If it is not, a causal filter leaves at "
        f"least {least:.2g} at any length, away from the start of a sequence (limit {UNDONE:g}). "
        f"The inverse as an RNN, before the compiled Transformer, has an error of at most "
        f"{worst:.2g} of the variance (limit {EXACT:g}).",
        least if runs.exact else None,
    )


def _hurt(runs: Runs) -> Claim:
    ratio = runs.of("mixed", PLAIN).ratio(runs.of("original", PLAIN), "seed")
    return _claim(
        "mixing-hurts",
        "Sec. 6.2",
        "Mixing the inputs makes the Transformer of Eq. 5 worse.",
        at_least(ratio, HARMS),
        _compared(
            ratio,
            f"On Fig. 1's target with m_h = {RANK} its error, over the variance of the target, is "
            f"{ratio} times that without mixing (limit {HARMS:g}).",
        ),
        ratio,
    )


def _convolution(runs: Runs) -> Claim:
    ratio = runs.ratio("mixed", CONVOLUTION)
    return _claim(
        "convolution",
        "slides, p. 8",
        "A convolution on the inputs improves the Transformer where inputs are mixed.",
        at_most(ratio, HELPS),
        _compared(
            ratio,
            f"At equal parameters and m_h = {RANK} its error is {ratio} times that without the "
            f"layer (it helps from {HELPS:g} down).",
        ),
        ratio,
    )


def _head(runs: Runs) -> Claim:
    small, large = runs.of("mixed", CONVOLUTION, HEADS[0]), runs.of("mixed", PLAIN)
    ratio = small.ratio(large, "seed")
    return _claim(
        "head",
        _OURS,
        f"Where inputs are mixed, m_h = 1 and a convolution do better than m_h = {RANK} alone.",
        at_most(ratio, 1.0),
        _compared(
            ratio,
            f"The error with the convolution and m_h = 1 is {ratio} times that of the "
            f"Transformer alone with m_h = {RANK}.",
        ),
        ratio,
    )


def _known(runs: Runs) -> Claim:
    ratio = runs.ratio("mixed", CONVOLUTION, TRUE)
    return _claim(
        "learned",
        _OURS,
        "The convolution that is learned is as good as the true filter.",
        at_most(ratio, HARMS),
        _compared(
            ratio,
            f"On the mixed target its error is {ratio} times that of the same Transformer behind "
            f"the true filter, which is given and not trained (up to {HARMS:g} counts as equal).",
        ),
        ratio,
    )


def _harmless(runs: Runs) -> Claim:
    ratio = runs.ratio("original", CONVOLUTION)
    return _claim(
        "harmless",
        _OURS,
        "Where nothing is mixed, the convolution does no harm.",
        at_most(ratio, HARMS),
        _compared(
            ratio,
            f"On the original target its error is {ratio} times that without the layer (it harms "
            f"from {HARMS:g} up).",
        ),
        ratio,
    )


def _order(runs: Runs) -> Claim:
    ratio = runs.ratio("permuted", CONVOLUTION)
    return _claim(
        "order",
        _OURS,
        "Where the order is changed, a short convolution does not help.",
        at_least(ratio, HELPS),
        _compared(
            ratio,
            f"With the first and the last five tokens exchanged, the error with the convolution of "
            f"{TAPS} taps is {ratio} times that without it (it helps from {HELPS:g} down).",
        ),
        ratio,
    )


def _recurrence(runs: Runs) -> Claim:
    ratio = runs.ratio("unstable", RNN, CONVOLUTION)
    return _claim(
        "recurrence",
        _OURS,
        "Where tokens come mixed by a filter that is not of minimum phase, a linear RNN before "
        "attention learns what a convolution cannot.",
        at_most(ratio, HELPS),
        _compared(
            ratio,
            f"At equal parameters the error behind a linear RNN is {ratio} times that behind the "
            f"convolution of {TAPS} taps (it helps from {HELPS:g} down).",
        ),
        ratio,
    )


def _when(runs: Runs) -> Claim:
    gains = runs.gains
    missed, gained = [at for _, at, _ in gains], [gain for *_, gain in gains]
    several = len({strength for strength, *_ in gains}) > 1
    found = slope(missed, gained) if several and len(gains) > 2 else slope([], [])
    return _claim(
        "when",
        "our question; Sec. 6.2",
        "The convolution gains more, the more of the mixed coupling is out of reach of a head on "
        "single tokens.",
        judge(found.low > 0, found.high < 0),
        _compared(
            found,
            f"Over {len(gains)} pairs of filter and strength of mixing, the error without over "
            f"that with the convolution grows like the missed share to the power {found}.",
        ),
        found,
    )


def _stem_claim(runs: Runs, results: Results) -> Claim:
    pairs = runs.images
    found = paired_difference(
        [one.test_error for one, _ in pairs], [stem.test_error for _, stem in pairs]
    ).interval
    gain = Interval(-found.value, -found.high, -found.low, found.count)
    claim = _claim(
        "stem",
        _OURS,
        "On CIFAR-10 a ViT with a convolutional stem recognises more images than one with linear "
        "patches, at equal parameters and steps.",
        judge(gain.low > 0, gain.high < 0),
        f"The share of test images that it recognises is larger by {percent(gain)} ({gain.count} "
        f"seeds, paired).{results.gaps}"
        if pairs
        else f"No two models of images with the same seed are finished.{results.gaps}",
        gain,
    )
    return claim.untestable(results.missing[0]) if results.missing and not pairs else claim


def paragraphs(runs: Runs, said: Iterable[Claim]) -> tuple[str, ...]:
    """Say what each layer can undo, and what training makes of it."""
    verdicts: dict[str, Verdict] = {one.name: one.verdict for one in said}
    texts = [
        "In a mixed target H~(x) = H(θ∗x) the filter is part of the target, and a convolution with "
        "θ before the Transformer leaves H: five taps, for every θ. Where the tokens come mixed, "
        "z = θ∗x, the filter has to be undone. Its causal inverse decays only if all of its roots "
        "lie within the unit circle; as a recurrence it has four states in any case. A new order "
        "is no filter at all."
    ]
    if runs.exact:
        ranks = [one.outcome.rank for one in runs.exact]
        missed = mean([one.outcome.missed[-1] for one in runs.exact])
        texts.append(
            f"Mixing raises the rank of the coupling of two neighbouring tokens from {RANK} to "
            f"{max(ranks)}, as in App. D.3. And {percent(missed)} of the mixed coupling depends on "
            f"other tokens than the two, or lies beyond rank {RANK}, so that no head of that size "
            "on single tokens has it."
        )
    if runs.cases:
        parts = [
            f"{CASES[case]}: "
            + ", ".join(
                f"{name} {ratio.shown}"
                for name in LAYERS
                if (ratio := runs.ratio(case, name)).count
            )
            for case in runs.cases
        ]
        lead = "Errors with a layer over those without it: "
        if verdicts["hybrids-convolution"] == "holds":
            lead = "So the slides are right where inputs are mixed. " + lead
        texts.append(lead + "; ".join(parts) + ".")
    return tuple(texts)


def helped_figure(runs: Runs) -> Figure:
    """Draw the errors with a layer over those without, and errors over the head size."""
    panels: list[Rows | Curves] = []
    if runs.cases:
        names = [
            name for name in LAYERS if any(runs.ratio(case, name).count for case in runs.cases)
        ]
        panels.append(
            Rows(
                "What a layer before attention does",
                "error with the layer / without",
                "",
                tuple(CASES[case] for case in runs.cases),
                tuple(_across(runs, name) for name in names),
                "log",
                (Line("no effect", x=1.0),),
            )
        )
    heads = [
        _over_heads(runs, name) for name in (PLAIN, CONVOLUTION, TRUE) if runs.of("mixed", name)
    ]
    if any(len(one.x) > 1 for one in heads):
        oracle = [
            (m_h, geometric_mean([one.outcome.oracle[at] for one in runs.exact]).value)
            for at, m_h in enumerate(HEADS[:-1])
            if runs.exact
        ]
        theory = [fits.line("true filter, compiled", oracle, "theory")] if oracle else []
        axes = "head size m_h", "error / variance"
        panels.append(Curves("Mixed target", *axes, (*heads, *theory), "log", "log"))
    return Figure(
        "hybrids",
        "A layer before attention",
        f"What a layer does is measured at equal parameters and m_h = {RANK}, with intervals over "
        "seeds; left of the line it helps. On the mixed target, the true filter and the compiled "
        f"Transformer have no error at m_h = {RANK}.",
        tuple(panels),
    )


def _across(runs: Runs, name: Name) -> Series:
    """The ratios of a layer, in the rows of the cases."""
    points = [(float(row), runs.ratio(case, name)) for row, case in enumerate(runs.cases)]
    return fits.curve(name, [(row, found) for row, found in points if found.known])


def _over_heads(runs: Runs, name: Name) -> Series:
    found = [(float(m_h), runs.of("mixed", name, m_h).mean()) for m_h in HEADS]
    return fits.curve(WORDS.get(name, name), [(m_h, one) for m_h, one in found if one.known])


def limits_figure(runs: Runs) -> Figure:
    """Draw the gain over what single tokens miss, and what convolutions leave over their taps."""
    panels = []
    if runs.gains:
        strengths = sorted({strength for strength, *_ in runs.gains})
        means = []
        for strength in strengths:
            here = [one for one in runs.gains if one[0] == strength]
            means.append(
                (
                    mean([missed for _, missed, _ in here]).value,
                    geometric_mean([gain for *_, gain in here]),
                )
            )
        points = fits.curve("mixed target, from little to much mixing", means)
        panels.append(
            Curves(
                "When the convolution pays",
                "share of the mixed coupling that single tokens miss",
                "error without / with the convolution",
                (points,),
                "linear",
                "log",
                (Line("no effect", y=1.0),),
            )
        )
    if runs.exact:
        series = [
            Series(
                label,
                tuple(map(float, COUNTS)),
                *_spread_of([getattr(one.outcome, name).left for one in runs.exact]),
            )
            for name, label in (("stable", "minimum phase"), ("unstable", "not minimum phase"))
        ]
        panels.append(
            Curves(
                "Undoing a filter of the tokens",
                "taps of the convolution",
                "share of a token's variance that is left",
                tuple(series),
                "linear",
                "log",
                (Line("undone", y=UNDONE),),
            )
        )
    return Figure(
        "hybrids-limits",
        "When it pays, and what it cannot do",
        "When it pays: the target is mixed by (1 - λ) δ + λ θ, from small to large λ, with "
        "intervals over random filters. Undoing: the best convolution of tokens that come mixed, "
        "in closed form, the median over filters, from the least to the largest.",
        tuple(panels),
    )


def _spread_of(
    rows: Sequence[tuple[float, ...]],
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Median, least and largest of each column."""
    columns = [sorted(column) for column in zip(*rows, strict=True)]
    middle = tuple(column[len(column) // 2] for column in columns)
    return middle, tuple(column[0] for column in columns), tuple(column[-1] for column in columns)


def errors_table(runs: Runs) -> Table:
    """Tabulate errors by case and head size."""
    rows: list[tuple[Cell, ...]] = []
    for case, words in CASES.items():
        for m_h in HEADS:
            found = [runs.of(case, name, m_h).mean() for name in (*_EVERY, TRUE)]
            if any(one.count or one is fits.DIVERGED for one in found):
                label = words if m_h == RANK else f"{words}, m_h = {m_h}"
                rows.append((label, *(one.shown if one.known else None for one in found)))
    return Table(
        "Errors over the variance of the target",
        ("target", *(WORDS.get(name, name) for name in (*_EVERY, TRUE))),
        tuple(rows),
        f"Geometric means over seeds with 95 % intervals; m_h = {RANK} where nothing is said.",
    )


def images_table(runs: Runs) -> Table:
    """Tabulate the models of images."""
    pairs = runs.images
    listed: dict[str, Sequence[ImageOutcome | StemOutcome]] = {
        "linear patches": [one for one, _ in pairs],
        "convolutional stem": [stem for _, stem in pairs],
    }
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            found[0].parameters,
            percent(mean([1 - one.test_error for one in found])),
            percent(mean([1 - one.train_error for one in found])),
            str(mean([one.seconds for one in found])),
        )
        for name, found in listed.items()
        if found
    )
    return Table(
        "CIFAR-10: a ViT with linear patches and with a convolutional stem",
        ("tokens from", "parameters", "accuracy", "on training images", "seconds"),
        rows,
        f"Means over {len(pairs)} seeds with 95 % intervals; equal epochs and steps.",
    )


EXPERIMENT = Experiment(
    "hybrids",
    "A convolution or a recurrence before attention",
    "Slides, p. 8; Sec. 6.2; our question",
    210,
    plan,
    conclude,
)
