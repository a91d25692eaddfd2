"""What do the architectures cost at equal parameters, and which is cheapest for a given error?

Counted for one sequence of 16 to 4,096 tokens: the operations and the peak memory of a forward pass
and of a training step, and the bytes kept between two tokens that come one at a time. With one
sequence nothing is shared: linear models compute one kernel for a whole batch, which would make
them look cheaper at short lengths than a sequence is. Models have as many parameters as the
Transformer of Table 2, and are the same at every length. Counts decide; seconds, measured in turn
on one thread, stand beside them and decide nothing.

Then small models of several sizes are fitted to four targets. The price of an error is the least
number of operations of a forward pass with which an architecture reaches it, among these sizes.

The rules were written when the counts were known, which are exact, and before any fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, claim_of, if_corrected, judge
from attnrate.experiments.kits import costs, fits
from attnrate.experiments.kits.past import FloorOutcome
from attnrate.experiments.kits.prices import (
    GRAPH,
    LAST,
    LEVELS,
    NAMES,
    ORIGINAL,
    PAST,
    PERMUTED,
    PIVOT,
    RIVALS,
    SIZES,
    STACK,
    TASKS,
    Counted,
    Floor,
    Price,
    Runs,
    Seconds,
    SecondsOutcome,
    Trained,
    TrainedOutcome,
    Written,
    WrittenOutcome,
    entrants,
    models,
)
from attnrate.figures.figure import Cell, Curves, Figure, Line, Series, Table
from attnrate.fitting.job import Sized
from attnrate.statistics import geometric_mean

#: Exponents within this count as those of a square or of a proportion
CLOSE = 0.25
#: Costs differ if one is at least this many times the other; attention is nearly free up to a tenth
TWICE, SMALL = 2.0, 0.1
#: The longest of the paper's synthetic sequences
PAPER_LENGTH = 32
#: The levels of error at which claims are decided
ROUGH, FINE = LEVELS[0], LEVELS[-1]


@dataclass(frozen=True)
class Chosen:
    """The runs of a preset: lengths that are counted and timed, rounds, and fits.

    Transformers are fitted with `longer` times as many steps, because they learn order slowly.
    """

    lengths: tuple[int, ...]
    timed: tuple[int, ...]
    rounds: int
    sizes: slice
    seeds: int
    steps: int
    longer: int


CHOSEN: Mapping[contract.Preset, Chosen] = {
    "quick": Chosen((16, 32, 64, 256, *LAST), (64, 512), 3, slice(1, 2), 1, 140, 3),
    "paper": Chosen(
        tuple(2**power for power in range(4, 13)), (16, 64, 256, *LAST), 9, slice(None), 5, 1000, 2
    ),
}


#: Seconds of counting per token, of models that take a step for each; of a timed round per token;
#: of a step of a fit
_COUNTING: Mapping[str, float] = {"RNN": 4.7e-4, "GRU": 1.4e-3}
_ROUND = 7e-4
_STEP: Mapping[str, float] = {
    PIVOT: 6e-3,
    "linear RNN": 2.2e-3,
    "GRU": 6e-3,
    "state space": 5e-3,
    "convolution": 5e-3,
}


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan counts and times of all models, then floors, and fits of all sizes."""
    chosen = CHOSEN[preset]
    counted: contract.Plan = [
        Sized(
            Counted(name=name, model=given, length=length),
            0.02 + length * _COUNTING.get(name, 2e-4),
        )
        for name, given in models().items()
        for length in chosen.lengths
    ]
    timed: contract.Plan = [
        Sized(
            Seconds(models=models(), length=length, rounds=chosen.rounds),
            (chosen.rounds + 1) * (0.03 + _ROUND * length),
        )
        for length in chosen.timed
    ]
    floors: contract.Plan = [Sized(Floor(task=task), 0.3) for task in TASKS]
    fitted: contract.Plan = [
        _fit(task, name, size, chosen.steps * (chosen.longer if name == PIVOT else 1), seed)
        for seed in range(chosen.seeds)
        for task in TASKS
        for name in entrants(task)
        for size in SIZES[name][2][chosen.sizes]
    ]
    return [*counted, *timed, *floors, Sized(Written(sequences=4096), 0.1), *fitted]


def _fit(task: str, name: str, size: int, steps: int, seed: int) -> Sized[Trained]:
    recipe = {"lr": 0.01, "steps": steps, "batch": 32}
    job = Trained(task=task, name=name, size=size, recipe=recipe, seed=seed)
    return Sized(job, 0.3 + _STEP[name] * steps)


def conclude(results: contract.Results) -> contract.Conclusion:
    """Compare counts over the length, and prices of errors."""
    written = results.of(Written, WrittenOutcome)
    runs = Runs(
        {(one.job.name, one.job.length): one.outcome for one in results.of(Counted, costs.Cost)},
        results.of(Seconds, SecondsOutcome),
        {one.job.task: one.outcome for one in results.of(Floor, FloorOutcome)},
        written[0].outcome if written else None,
        fits.Fits(results.of(Trained, TrainedOutcome)),
    )
    drawn = tuple(figure for figure in (growth_figure(runs), price_figure(runs)) if figure.panels)
    return contract.Conclusion(paragraphs(runs), drawn, tables(runs), claims(runs))


_claim = partial(claim_of, "cost")
_OURS = "our question; sec. 1"


def claims(runs: Runs) -> tuple[Claim, ...]:
    """Decide how costs grow, which are largest, and which model is cheapest for an error."""
    return (
        _square(runs),
        _short(runs),
        _most(runs, "operations", "training", "takes at least twice as many operations as"),
        _most(runs, "memory", "training_bytes", "takes at least twice as much memory as"),
        _state(runs),
        _linear(runs),
        _only(runs, "permuted", PERMUTED, "On Table 2's target with its inputs permuted"),
        _only(runs, "graph", GRAPH, "On a target of Eq. 8 with rank 2"),
        _past(runs),
    )


def _square(runs: Runs) -> Claim:
    kinds = {"operations": "training", "memory": "training_bytes"}
    own = {word: runs.exponent(PIVOT, what) for word, what in kinds.items()}
    others = {
        word: max(runs.exponent(name, what) for name in RIVALS) for word, what in kinds.items()
    }
    square = {word for word, found in own.items() if abs(found - 2) <= CLOSE}
    straight = all(found <= 1 + CLOSE for found in others.values())
    verdict: Verdict = "open"
    if all(map(math.isfinite, [*own.values(), *others.values()])):
        verdict = "does not hold" if not (square and straight) else "holds when corrected"
        verdict = "holds" if straight and square == kinds.keys() else verdict
    first, last = LAST
    half = runs.half(PIVOT)
    # with several lengths to go, the part that grows linearly is what keeps the exponent below 2
    networks = f" The networks take more operations than attention up to τ = {half:,.0f}."
    return _claim(
        "square",
        _OURS,
        "A training step of the Transformer of Eq. 5 takes operations and memory that grow with "
        "the square of the length, while those of its rivals grow at most in proportion to it.",
        verdict,
        f"From {first:,} to {last:,} tokens: Transformer "
        f"{fits.listed({word: f'{found:.2f}' for word, found in own.items()})}; the largest of the "
        f"rivals {fits.listed({word: f'{found:.2f}' for word, found in others.items()})} (within "
        f"{CLOSE:g} of 2, at most {1 + CLOSE:g})." + (networks if math.isfinite(half) else ""),
        own["operations"],
        if_corrected(
            verdict,
            f"It is so for the {' and the '.join(sorted(square))} only: at this length "
            "the networks f̂ and F̂ still have a large share of the operations.",
        ),
    )


def _short(runs: Runs) -> Claim:
    share = runs.share(PAPER_LENGTH)
    half = runs.half(PIVOT)
    return _claim(
        "short",
        "our question; sec. 5.1, App. C",
        f"At the paper's lengths, up to {PAPER_LENGTH} tokens, attention is nearly free: at most a "
        "tenth of the Transformer's operations are products with τ² entries.",
        judge(share <= SMALL, share > SMALL, math.isfinite(share)),
        f"Of a forward pass of Table 2's Transformer the share is {100 * share:.2g} % at "
        f"{PAPER_LENGTH} tokens; it is a half at {half:,.0f}. The rest are f̂, F̂ and the "
        "projections, which see one token at a time.",
        share,
    )


def _most(runs: Runs, name: str, what: str, word: str) -> Claim:
    last = LAST[-1]
    ratios = runs.ratios(last, what)
    listed = {rival: f"{ratio:.3g}" for rival, ratio in ratios.items()}
    least = min(ratios.values(), default=math.nan)
    from_when = {
        rival: "never" if at is None else f"τ = {at:,.0f}"
        for rival in ratios
        for at in [runs.crossing(rival, what, TWICE)]
    }
    return _claim(
        name,
        _OURS,
        f"At equal parameters and {last:,} tokens a training step of the Transformer of Eq. 5 "
        f"{word} one of any rival.",
        judge(least >= TWICE, least < TWICE, enough=len(ratios) == len(RIVALS)),
        f"The Transformer's over the rival's: {fits.listed(listed)}. It is twice as much from "
        f"these lengths on: {fits.listed(from_when)}.",
        least,
    )


def _state(runs: Runs) -> Claim:
    last = LAST[-1]
    found = {name: runs.counted[name, last].state for name in NAMES if (name, last) in runs.counted}
    passed = {
        name: f"{found[name]:,} bytes, from token {runs.passes(name):,}"
        for name in RIVALS
        if len(found) == len(NAMES)
    }
    own, rivals = found.get(PIVOT, 0), [found[name] for name in RIVALS if name in found]
    larger = sum(own > other for other in rivals)
    enough = len(found) == len(NAMES)
    return _claim(
        "state",
        _OURS,
        f"When {last:,} tokens come one at a time, the keys and values that a causal Transformer "
        "keeps take more memory than what any rival keeps.",
        judge(larger == len(rivals), larger < len(rivals), enough),
        f"It keeps {own:,} bytes, {own // last} for each token. The rivals keep, and the "
        f"Transformer passes them, if ever: {fits.listed(passed)}.",
        own / max(rivals) if enough else None,
    )


def _linear(runs: Runs) -> Claim:
    written = runs.written
    rivals = {name: runs.price(ORIGINAL, name, FINE) for name in SIZES if name != "linear RNN"}
    begun = all(runs.fitted(ORIGINAL, name).errors for name in rivals)
    own = written.operations if written and written.error <= FINE else math.inf
    cheaper = any(price.high < own for price in rivals.values())
    least = min(price.low for price in rivals.values())
    exact = f"error {written.error:.1g}, {own:,.0f} operations" if written else "not run"
    value = least / own if begun and math.isfinite(least) and math.isfinite(own) else None
    return _claim(
        "linear",
        "our question; App. C, Table 2",
        f"For an error of {FINE:g} of the variance on Table 2's target none of the fitted models "
        "is cheaper than a linear RNN of one unit, which is the target itself.",
        # fits that stay above the level show nothing, so at least one has to reach it
        judge(own < least < math.inf, cheaper, enough=begun and written is not None),
        f"The linear RNN of one unit, written down: {exact} for a forward pass of one sequence. "
        f"The other models' least operations, of the sizes that were fitted: {_listed(rivals)}.",
        value,
    )


def _only(runs: Runs, name: str, task: str, where: str) -> Claim:
    floor, own = runs.floors.get(task), runs.price(task, PIVOT, ROUGH)
    excluded = floor is not None and floor.floor - 3 * floor.floor_error > ROUGH
    reached = math.isfinite(own.high)
    # a fit that stays above the level refutes nothing, a floor below it does
    refuted = floor is not None and floor.floor + 3 * floor.floor_error <= ROUGH
    at = {f"{level:g}": runs.price(task, PIVOT, level) for level in LEVELS}
    fitted = bool(runs.fitted(task, PIVOT).errors)
    return _claim(
        name,
        "our question; sec. 6.1" if task == PERMUTED else "our question; sec. 6",
        f"{where} only a model that sees the whole sequence reaches an error of {ROUGH:g} of the "
        "variance, and the Transformer does: no rival does at any price.",
        judge(excluded and reached, refuted, enough=floor is not None and fitted),
        f"No model that sees only the past is below {floor or 'a floor that was not run'} of the "
        f"variance. The Transformer's operations for each error: {_listed(at)}.",
        floor.floor if floor else None,
    )


def _past(runs: Runs) -> Claim:
    prices = {name: runs.price(PAST, name, ROUGH) for name in SIZES}
    own = prices[PIVOT]
    rivals = [price for name, price in prices.items() if name != PIVOT]
    begun = all(runs.fitted(PAST, name).errors for name in SIZES)
    holds = own.high < min(price.low for price in rivals)
    fails = own.low > min(price.high for price in rivals)
    best = min(price.value for price in rivals)
    known = begun and math.isfinite(own.value) and math.isfinite(best)
    return _claim(
        "past",
        "our question; abstract, sec. 6",
        "Where attention sees only the past, so that every architecture could learn it, the "
        f"Transformer is the cheapest of the fitted models with an error of at most {ROUGH:g} of "
        "the variance.",
        judge(holds, fails, enough=begun),
        "The least operations of a forward pass of one sequence, of the sizes that were fitted: "
        f"{_listed(prices)}.",
        best / own.value if known else None,
    )


def _listed(prices: Mapping[str, Price]) -> str:
    return fits.listed({name: str(price) for name, price in prices.items()})


def growth_figure(runs: Runs) -> Figure:
    """Draw operations, memory and seconds of a training step over the length."""
    panels = []
    kinds = (("Operations", "training", "operations"), ("Peak memory", "training_bytes", "bytes"))
    for title, what, unit in kinds:
        drawn = [fits.line(name, runs.counts(name, what)) for name in NAMES]
        if runs.lengths:
            axis = f"{unit} of a training step"
            panels.append(_over_lengths(title, axis, drawn))
    if len(runs.timed) > 2:
        drawn = [
            fits.line(name, [(n, min(found)) for n, found in runs.seconds(name, "training")])
            for name in NAMES
        ]
        panels.append(_over_lengths("Time on one core", "seconds of a training step", drawn))
    return Figure(
        "cost",
        "Cost of one sequence at equal parameters",
        "A training step without the optimiser, for one sequence. Operations and bytes are "
        "counted and are the same on every machine of this version; the seconds are the least of "
        "all rounds, on a machine that others may have used.",
        tuple(panels),
    )


def _over_lengths(title: str, axis: str, series: Sequence[Series]) -> Curves:
    return Curves(title, "length τ in tokens", axis, tuple(series), "log", "log")


def price_figure(runs: Runs) -> Figure:
    """Draw the error over the operations of a forward pass, for every target."""
    panels = []
    for task in TASKS:
        series = []
        for name in entrants(task):
            found = runs.fitted(task, name)
            points = [
                (runs.operations(task, name, size), found.mean(size=size)) for size in found.sizes
            ]
            known = sorted((cost, one) for cost, one in points if one.known)
            series += [fits.curve(name, known)] if known else []
        floor = runs.floors.get(task)
        lines = (
            (Line("no causal model is below", y=floor.floor),)
            if floor and floor.floor > FINE
            else ()
        )
        if series:
            axes = ("operations of a forward pass", "error / variance")
            panels.append(Curves(task, *axes, tuple(series), "log", "log", lines))
    return Figure(
        "cost-price",
        "What an error costs",
        "Models of several sizes: their error over the variance of the target, means over seeds "
        "with intervals, against the operations of a forward pass of one sequence. Where no "
        "causal model can get below the line, only the Transformer was fitted.",
        tuple(panels),
    )


def tables(runs: Runs) -> tuple[Table, ...]:
    """Tabulate growth, seconds, and the cheapest models."""
    listed = (
        _growth(runs),
        _seconds(runs, "training", "a training step"),
        _seconds(runs, "inference", "a forward pass"),
        _cheapest(runs),
    )
    return tuple(table for table in listed if table.rows)


def _growth(runs: Runs) -> Table:
    longest = runs.lengths[-1] if runs.lengths else 0
    return fits.table_of(
        f"Growth with the length, and costs at {longest:,} tokens",
        NAMES if longest else (),
        {
            "model": lambda name: name,
            "parameters": lambda name: f"{runs.counted[name, longest].parameters:,}",
            "exponent of operations": lambda name: str(runs.overall(name, "training")),
            "exponent of memory": lambda name: str(runs.overall(name, "training_bytes")),
            "peak memory, MB": lambda name: runs.counted[name, longest].training_bytes / 1e6,
            "state, kB": lambda name: runs.counted[name, longest].state / 1e3,
        },
        "Of a training step of one sequence, over all lengths, with the 95 % interval of a "
        "regression: costs are sums of several powers. The state is what a model keeps between two "
        "tokens that come one at a time; a Transformer must be causal for that.",
    )


def _seconds(runs: Runs, what: str, word: str) -> Table:
    lengths = [one.job.length for one in sorted(runs.timed, key=lambda one: one.job.length)]
    rows: list[tuple[Cell, ...]] = []
    own = dict(runs.seconds(PIVOT, what))
    for name in NAMES:
        cells: list[str] = []
        for length, found in runs.seconds(name, what):
            if name == PIVOT:
                cells.append(f"{1e3 * sorted(found)[len(found) // 2]:.3g} ms")
                continue
            pairs = zip(found, own[length], strict=True)
            cells.append(str(geometric_mean([one / other for one, other in pairs])))
        rows.append((name, *cells))
    return Table(
        f"Seconds of {word} of one sequence, over the Transformer's",
        ("model", *(f"τ = {length:,}" for length in lengths)),
        tuple(rows) if lengths else (),
        "The first row has the Transformer's median. The ratios are taken within each round, in "
        "which all models had their turn; geometric means with 95 % intervals. Below some hundred "
        "tokens they say how many calls a model makes, and not how many operations.",
    )


def _cheapest(runs: Runs) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for task in TASKS:
        for level in LEVELS:
            ranked = runs.ranked(task, level)
            if not runs.trained.where(task=task).errors:
                continue
            said = [f"{name}: {price}" for name, price in ranked[:3]]
            fastest = runs.fastest(task, level)
            spent = "none" if fastest is None else f"{fastest[0]}: {fastest[1]} s"
            rows.append((task, f"{level:g}", *said, *["none"] * (3 - len(said)), spent))
    return Table(
        "The cheapest models for an error",
        ("target", "error / variance", "cheapest", "second", "third", "fastest to train"),
        tuple(rows),
        "The least operations of a forward pass of one sequence, of the sizes that were fitted. In "
        "brackets: the least that may suffice, and what surely suffices (? where no size does), by "
        "intervals over seeds. The last column has seconds of a whole fit on a shared machine.",
    )


def paragraphs(runs: Runs) -> tuple[str, ...]:
    """Say what attention costs, what the counts do not show, and which model is cheapest."""
    if not runs.counted and not runs.trained:
        return ("No job of this experiment is finished.",)
    said = []
    if runs.lengths:
        half, stack = runs.half(PIVOT), runs.half(STACK)
        counts = {name: f"{_count(runs, name):,}" for name in NAMES}
        said.append(
            f"Parameters: {fits.listed(counts)}. A Transformer takes a τ² + b τ operations: its "
            "networks grow with τ, attention with τ². Both parts are equal at "
            f"{half:,.0f} tokens for Eq. 5, and at {stack:,.0f} for the {STACK}. Counted are "
            "products of matrices, convolutions and Fourier transforms, for one sequence."
        )
    if runs.timed:
        last = max(one.job.length for one in runs.timed)
        own = dict(runs.seconds(PIVOT, "training"))[last]
        ratios = {
            name: geometric_mean([one / two for one, two in zip(found[last], own, strict=True)])
            for name in RIVALS
            for found in [dict(runs.seconds(name, "training"))]
        }
        said.append(
            "Operations are not seconds: they leave out exponentials and sums, and the many small "
            "calls of a model that takes a step for each token. The seconds of a training step at "
            f"{last:,} tokens over the Transformer's: {fits.listed(ratios)}. No verdict rests on "
            "seconds."
        )
    if runs.trained:
        spent = {
            name: " to ".join(dict.fromkeys(f"{end(seconds):.2g}" for end in (min, max)))
            for name in SIZES
            for seconds in [[one.outcome.seconds for one in runs.fitted(ORIGINAL, name)]]
            if seconds
        }
        said.append(
            "Prices are upper bounds: a larger model, or one that is trained for longer, may reach "
            "what these do not, and a size between two that were fitted may be cheaper. Seconds "
            f"of a fit on Table 2's target, of all sizes and seeds{runs.trained.steps}: "
            f"{fits.listed(spent)}."
        )
    return tuple(said)


def _count(runs: Runs, name: str) -> int:
    return runs.counted[name, runs.lengths[-1]].parameters


EXPERIMENT = contract.Experiment(
    "cost",
    "What the architectures cost, and the cheapest for a given error",
    "Sec. 1, sec. 6; our question",
    190,
    plan,
    conclude,
)
