"""From purely graph to purely temporal targets: which model is best, at equal parameter count.

A review of the paper's first version asks for tasks between the two, and for both orders of the
inputs. Targets are (1-λ) graph + λ temporal, each part with unit variance, over uniform scalars of
length 16: the graph part is Fig. 1's target (α = 1, rank 2), the temporal part is that of Table 2.
Errors are divided by the variance of the target. All models but the Transformer see only the past,
so the least error of any causal model is estimated without training. In the variant "causal" the
graph part and the Transformer see only the past, too; the remaining difference between models is
their architecture.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import torch

from attnrate import settings
from attnrate.experiments.claims import Verdict, claim_of, judge, or_no_difference
from attnrate.experiments.contract import Conclusion, Experiment, Outcome, Preset, Results, Work
from attnrate.experiments.kits.cells import as_good, worse
from attnrate.experiments.kits.equal import OTHERS, PIVOT, parameters_of, settings_of
from attnrate.experiments.kits.fits import Fits, curve, errors, line
from attnrate.experiments.kits.past import (
    FloorOutcome,
    FunctionTarget,
    causal_floor,
    outputs,
    past_attention,
    variance,
)
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.fitting.fit import fit
from attnrate.fitting.job import Sized
from attnrate.fitting.recipe import recipe_of
from attnrate.models.build import build_model
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import Target, linear_target, spectral_target
from attnrate.targets.alter import swap_ends

LENGTH, RANK, MOVED = 16, 2, 5
VARIANTS = ("as it is", "permuted", "causal")
_PLAIN, _PERMUTED, _CAUSAL = VARIANTS
#: A target as (variant, λ), and a fitted model as (variant, λ, model)
At = tuple[str, float]
Fitted = tuple[str, float, str]
_GRAPH, _TEMPORAL = 0.0, 1.0
NAMES = (PIVOT, *OTHERS)
#: A single seed decides which of two models is ahead only if the ratio exceeds this factor
_ALONE = 10.0
#: Errors within this factor count as equal, as in `gravity` and `open-questions`
_EQUAL = 2.0


@dataclass(frozen=True)
class Settings:
    """The settings of a preset.

    `grid` has the values of λ and the models for each variant; `recipe` has changes of the
    strong recipe, `cost` the expected seconds of a fit, `seeds` the number of seeds.
    """

    grid: Mapping[str, tuple[tuple[float, ...], tuple[str, ...]]]
    recipe: Mapping[str, float | int]
    cost: float
    seeds: int


SETTINGS: Mapping[Preset, Settings] = {
    "quick": Settings(
        {
            _PLAIN: ((0.0, 0.5, 1.0), NAMES),
            _PERMUTED: ((0.0, 1.0), (PIVOT, "RNN")),
            _CAUSAL: ((0.0,), (PIVOT, "RNN", "GRU", "convolution", "state space")),
        },
        {"lr": 0.01, "steps": 500, "batch": 32},
        3.4,
        1,
    ),
    "paper": Settings(
        {
            _PLAIN: ((0.0, 0.1, 0.25, 0.5, 0.75, 1.0), NAMES),
            _PERMUTED: ((0.0, 0.5, 1.0), NAMES),
            _CAUSAL: ((0.0, 0.25, 0.5, 0.75, 1.0), NAMES),
        },
        {"lr": 0.01, "steps": 1200, "batch": 64},
        10.0,
        5,
    ),
}


def blend(variant: str, share: float) -> Target:
    """The target (1-λ) (g - mean)/sd(g) + λ (h - mean)/sd(h) with λ = `share`.

    The graph part g is Fig. 1's target with α = 1, in which order plays no role; the temporal
    part h is that of Table 2, y(t) = Σ e^-s x(t-s). sd² is the mean over t of the variance of
    the output at t, so that both parts count equally. The means are taken over all t, so that
    no model has to learn a large constant first. The variant "permuted" exchanges the first and
    the last five inputs; in the variant "causal" the graph part sees only the past.
    """
    (graph, middle, sd), (temporal, other_middle, other_sd) = _parts(variant == _CAUSAL)

    def evaluated(x: torch.Tensor) -> torch.Tensor:
        first, second = (1 - share) / sd, share / other_sd
        graph_part, temporal_part = graph.evaluate(x) - middle, temporal.evaluate(x) - other_middle
        return first * graph_part + second * temporal_part

    made = FunctionTarget(graph, evaluated, f"blend λ={share:g}")
    return made.permuted(swap_ends(LENGTH, MOVED)) if variant == _PERMUTED else made


@cache
def _parts(causal: bool) -> tuple[tuple[Target, float, float], ...]:
    """The graph part and the temporal part, each with its mean and its standard deviation."""
    attention = spectral_target(1.0, RANK, LENGTH)
    parts = (
        past_attention(attention) if causal else attention,
        linear_target("exponential", LENGTH),
    )
    return tuple((part, float(outputs(part).mean()), variance(part) ** 0.5) for part in parts)


class Floor(Work, work="ordering.floor", trains=False):
    """A job: the least error of any causal model on a target."""

    variant: str
    share: float

    def run(self) -> FloorOutcome:
        """Estimate the floor over many sequences."""
        target = blend(self.variant, self.share)
        whole = variance(target)
        value, error = causal_floor(target, self.seed)
        return FloorOutcome(value / whole, error / whole)


class TrainedOutcome(Outcome):
    """The error of a trained model over the variance of the target; None if it diverged."""

    error: float | None
    seconds: float = 0.0
    parameters: int | None = None


class Trained(Work, work="ordering.trained"):
    """A job that trains a model on a target."""

    variant: str
    share: float
    model: str
    recipe: Mapping[str, float | int]

    def run(self) -> TrainedOutcome:
        """Train the model with the strong recipe and the given changes of it."""
        target = blend(self.variant, self.share)
        given = model_settings(self.model)
        if self.model == PIVOT and self.variant == _CAUSAL:
            given = {**given, "causal": True}
        found = fit(
            target,
            lambda: build_model(given, target),
            recipe=recipe_of(self.recipe),
            seed=self.seed,
            threads=1,
        )
        error = None if found.diverged else found.error / variance(target)
        return TrainedOutcome(error, found.seconds, parameters(self.model))


def plan(preset: Preset) -> list[Sized[Work]]:
    """Plan the floors, and a fit for every variant, λ, model and seed."""
    chosen = SETTINGS[preset]
    jobs: list[Sized[Work]] = []
    for variant, (shares, names) in chosen.grid.items():
        for share in shares:
            jobs.append(Sized(Floor(variant=variant, share=share), 0.4))
            fitted = Trained(variant=variant, share=share, model=PIVOT, recipe=chosen.recipe)
            jobs += [
                Sized(replace(fitted, model=name, seed=seed), chosen.cost)
                for seed in range(chosen.seeds)
                for name in names
            ]
    return jobs


def model_settings(name: str) -> settings.Settings:
    """The settings of a model; its free size is chosen to match the Transformer's parameters."""
    return settings_of(name, LENGTH)


def parameters(name: str) -> int:
    """The number of parameters of a model."""
    return parameters_of(model_settings(name), LENGTH)


@dataclass(frozen=True)
class Measured:
    """The floors by target, and the fits by target, model and seed."""

    floors: Mapping[At, FloorOutcome]
    fits: Fits

    @property
    def variants(self) -> list[str]:
        """The variants that have a fit."""
        return [variant for variant in VARIANTS if self.fits.where(variant=variant)]

    @property
    def names(self) -> list[str]:
        """The models that have a fit."""
        return [name for name in NAMES if self.fits.where(model=name)]

    def shares(self, variant: str) -> list[float]:
        """The values of λ that have a fit, in increasing order."""
        return sorted({one.label.share for one in self.fits.where(variant=variant)})

    def of(self, fitted: Fitted) -> Fits:
        """The fits of a model to a target, one per seed."""
        variant, share, model = fitted
        return self.fits.where(variant=variant, share=share, model=model)

    def listed(self, at: At, names: Iterable[str]) -> list[tuple[str, Interval]]:
        """The models that were fitted to a target, with their mean errors over seeds."""
        found = [(name, self.of((*at, name)).mean()) for name in names]
        return [(name, one) for name, one in found if one.count]

    def best(self, at: At, names: Iterable[str]) -> tuple[str, Interval] | None:
        """The model with the least mean error on a target; None if there is none."""
        return min(self.listed(at, names), key=lambda named: named[1].value, default=None)

    def rivals(self, at: At, names: Iterable[str]) -> tuple[Interval, str, Interval] | None:
        """The Transformer's error on a target, the name of the best other model, and its error."""
        own, best = self.of((*at, PIVOT)).mean(), self.best(at, names)
        return (own, *best) if own.count and best else None

    def ratio(self, above: Fitted, below: Fitted) -> Interval:
        """The error of one fitted model over another's: geometric mean, paired by seed."""
        return geometric_mean(self.of(above).over(self.of(below), "seed"))

    def crossing(self, variant: str, name: str) -> tuple[Interval, int]:
        """The λ at which a model's error equals the Transformer's, and the seeds without such a λ.

        The logarithm of the ratio is interpolated linearly between neighbouring λ, and its
        first change of sign counts. A seed whose ratio never changes sign has no crossing.
        """
        logs: dict[int, list[tuple[float, float]]] = {}
        for share in self.shares(variant):
            mine, pivot = (self.of((variant, share, model)).by_seed for model in (name, PIVOT))
            for seed in mine.keys() & pivot.keys():
                logs.setdefault(seed, []).append((share, math.log(mine[seed] / pivot[seed])))
        zeros = [_first_zero(logs[seed]) for seed in sorted(logs) if len(logs[seed]) > 1]
        return mean([at for at in zeros if at is not None]), zeros.count(None)


def measured(results: Results) -> Measured:
    """Sort the finished floors and fits by kind."""
    floors = results.of(Floor, FloorOutcome)
    return Measured(
        {(one.job.variant, one.job.share): one.outcome for one in floors},
        Fits(results.of(Trained, TrainedOutcome)),
    )


def _first_zero(points: Sequence[tuple[float, float]]) -> float | None:
    for (a, left), (b, right) in pairwise(points):
        if left == 0.0:
            return a
        if left * right < 0:
            return a + (b - a) * left / (left - right)
    return None


def conclude(results: Results) -> Conclusion:
    """Draw the curves over λ, find where they cross, and decide the claims."""
    found = measured(results)
    counts = {name: parameters(name) for name in NAMES}
    spread = max(abs(count / counts[PIVOT] - 1) for count in counts.values())
    sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
    paragraphs = (
        f"Parameters: {sizes}; they differ by at most {100 * spread:.1f} % from the Transformer's. "
        + _best_sentence(found),
        _crossing_sentence(found),
    )
    claims = tuple(
        claim_of("ordering", name, place, statement, *says(found))
        for name, (place, statement, says) in _CLAIMS.items()
    )
    tables = (_errors_table(found), _crossings_table(found))
    return Conclusion(paragraphs, _figures(found), tables, claims)


#: Verdict, evidence, the deciding ratio, and the correction of the statement
Said = tuple[Verdict, str, Interval, str]


def _nothing(found: Measured, at: At) -> Said:
    """What is said of a target without a comparison: fits diverged, or are not finished."""
    variant, share = at
    lost = found.fits.where(variant=variant, share=share).diverged
    return "open", "every fit diverged." if lost else "not measured yet.", mean([]), ""


def _ahead(gap: Interval) -> Verdict:
    """Decide "this model is ahead" by the ratio of the other model's error to its own.

    The interval must lie on one side of 1. If it has 1 inside and both ends are within a factor of
    _EQUAL, there is no difference. A single seed decides by a factor of ten.
    """
    if gap.count == 1:
        return judge(gap.value > _ALONE, gap.value < 1 / _ALONE)
    return or_no_difference(judge(gap.low > 1, gap.high < 1), gap, _EQUAL)


def _graph(found: Measured) -> Said:
    """Decide by measurement, and by proof where the Transformer is below the causal floor."""
    at = (_PLAIN, _GRAPH)
    if not (rivals := found.rivals(at, OTHERS)):
        return _nothing(found, at)
    own, name, best = rivals
    gap, floor = found.ratio((*at, name), (*at, PIVOT)), found.floors.get(at)
    evidence = (
        f"on the graph target (λ = 0) the error of the Transformer is {own} of the variance, that "
        f"of the best other model, the {name}, {best}"
    )
    if floor is None:
        return _ahead(gap), f"{evidence}.", gap, ""
    proved = max(errors(found.of((*at, PIVOT)))) < floor.floor - 3 * floor.floor_error
    below = "is, in every seed" if proved else "is not below it in every seed"
    evidence += f"; no model that sees only the past can be below {floor}; the Transformer {below}."
    return "holds" if proved else _ahead(gap), evidence, gap, ""


def _architecture(found: Measured) -> Said:
    at = (_CAUSAL, _GRAPH)
    if not (rivals := found.rivals(at, OTHERS)):
        return _nothing(found, at)
    own, name, _ = rivals
    gap = found.ratio((*at, name), (*at, PIVOT))
    listed = ", ".join(f"{name} {one}" for name, one in found.listed(at, OTHERS))
    evidence = (
        "if both the graph target and the Transformer see only the past, the error of the "
        f"Transformer is {own} of the variance; {listed}. The error of the best of these, the "
        f"{name}, is {gap} times that of the Transformer."
    )
    return _ahead(gap), evidence, gap, ""


def _temporal(found: Measured) -> Said:
    at = (_PLAIN, _TEMPORAL)
    if not (rivals := found.rivals(at, ("RNN", "linear RNN"))):
        return _nothing(found, at)
    own, name, best = rivals
    gap = found.ratio((*at, PIVOT), (*at, name))
    evidence = (
        f"on the temporal target (λ = 1) the error of the Transformer is {own} of the variance, "
        f"that of the {name} with as many parameters {best}; the ratio is {gap}."
    )
    return _ahead(gap), evidence, gap, ""


#: The correction that goes with a verdict on the permuted Transformer
_PERMUTED_READ: Mapping[Verdict, str] = {
    "holds when corrected": "It holds where the query depends on its position only, as in the "
    "temporal target. In the graph target the query is the value of x(t), and after the "
    "permutation another token is at position t.",
    "does not hold": "Prop. 6.2 compares complexity measures, not trained models of one size.",
}


def _permuted_transformer(found: Measured) -> Said:
    ratios = {
        share: found.ratio((_PERMUTED, share, PIVOT), (_PLAIN, share, PIVOT))
        for share in found.shares(_PERMUTED)
    }
    ratios = {share: one for share, one in ratios.items() if one.count}
    verdict: Verdict = "open"
    if {_GRAPH, _TEMPORAL} <= ratios.keys():
        if worse(ratios[_TEMPORAL]):
            verdict = "does not hold"
        elif any(worse(one) for one in ratios.values()) and as_good(ratios[_TEMPORAL]):
            verdict = "holds when corrected"
        elif all(as_good(one) for one in ratios.values()):
            verdict = "holds"
    wording = "; ".join(f"λ = {share:g}: {one}" for share, one in ratios.items())
    lost = found.fits.where(variant=_PERMUTED, model=PIVOT).diverged
    missing = "unknown, because every fit diverged" if lost else "not measured yet"
    evidence = (
        "with the strong recipe, its error on the permuted target divided by that on the original "
        f"is {wording or missing}."
    )
    gap = ratios.get(_GRAPH, mean([]))
    return verdict, evidence, gap, _PERMUTED_READ.get(verdict, "")


def _permuted_rnn(found: Measured) -> Said:
    permuted = (_PERMUTED, _TEMPORAL, "RNN")
    gap, floor = found.ratio(permuted, (_PLAIN, _TEMPORAL, "RNN")), found.floors.get(permuted[:2])
    if not gap.count:
        return _nothing(found, permuted[:2])
    bound = "" if floor is None else f"; no causal model is below {floor}"
    evidence = (
        f"on the permuted target (λ = 1) its error is {found.of(permuted).mean()} of the variance, "
        f"{gap} times its error on the original{bound}."
    )
    return "open" if floor is None else _ahead(gap), evidence, gap, ""


_CLAIMS: Mapping[str, tuple[str, str, Callable[[Measured], Said]]] = {
    "graph": (
        "Abstract, sec. 6; the review's check 2",
        "The Transformer is better suited to graph-like targets than recurrent models.",
        _graph,
    ),
    "graph-causal": (
        "Abstract, sec. 6; the review's check 2",
        "The Transformer's advantage on graph-like targets is due to its architecture, not only to "
        "seeing the future.",
        _architecture,
    ),
    "temporal": (
        "App. C, below Table 2",
        "Where temporal ordering is important, the RNN performs better than the Transformer.",
        _temporal,
    ),
    "transformer-permuted": (
        "Sec. 6.1, Prop. 6.2",
        "The Transformer is not affected by a change of the temporal ordering.",
        _permuted_transformer,
    ),
    "rnn-permuted": (
        "Sec. 6.1, Prop. 6.1",
        "The RNN is affected by a change of the temporal ordering of a temporal target.",
        _permuted_rnn,
    ),
}


def _errors_table(found: Measured) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in found.variants:
        for share in found.shares(variant):
            floor = found.floors.get((variant, share))
            listed = dict(found.listed((variant, share), found.names))
            cells = [
                "diverged"
                if found.of((variant, share, name)).diverged
                else None
                if name not in listed
                else str(listed[name])
                for name in found.names
            ]
            rows.append((variant, share, *cells, None if floor is None else floor.floor))
    return Table(
        "Errors over the variance of the target",
        ("variant", "λ", *found.names, "floor of causal models"),
        tuple(rows),
        "λ = 0 is purely graph, λ = 1 purely temporal. Geometric means over seeds, with 95 % "
        "intervals for two or more seeds. The floor holds for all models but the Transformer.",
    )


def _crossings(found: Measured, variant: str) -> list[tuple[str, Interval, int]]:
    """For each other model with two or more λ: where it crosses, and how many seeds do not."""
    listed = [(name, *found.crossing(variant, name)) for name in found.names if name != PIVOT]
    return [(name, at, without) for name, at, without in listed if at.count + without]


def _crossings_table(found: Measured) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (variant, name, str(at) if at.count else "none", at.count, without)
        for variant in found.variants
        for name, at, without in _crossings(found, variant)
    ]
    return Table(
        "Where the models cross the Transformer",
        ("variant", "model", "λ*", "seeds that cross", "seeds that do not"),
        tuple(rows),
        "λ* is where the error equals the Transformer's: mean over seeds with 95 % interval.",
    )


def _best_sentence(found: Measured) -> str:
    wording = []
    for variant in found.variants:
        best = [(share, found.best((variant, share), NAMES)) for share in found.shares(variant)]
        parts = [f"λ = {share:g} {one[0]} ({one[1]})" for share, one in best if one is not None]
        wording.append(f"{variant}: " + ", ".join(parts))
    return "Least error divided by the variance: " + "; ".join(wording) + "." if wording else ""


def _crossing_sentence(found: Measured) -> str:
    wording = [
        f"the {name} at λ* = {at} ({at.count} of {at.count + without} seeds)"
        if at.count
        else f"the {name} nowhere"
        for name, at, without in _crossings(found, _PLAIN)
    ]
    crossed = ", ".join(wording) if wording else "no model yet"
    return f"In the original order the curve of the Transformer is crossed by {crossed}."


def _figures(found: Measured) -> tuple[Figure, ...]:
    if not found.variants:
        return ()
    caption = (
        "Errors at equal parameter count between a graph target (λ = 0) and a temporal target (λ = "
        "1): inputs in their original order, with the first and last five exchanged, and with "
        "target "
        "and Transformer restricted to the past. " + _crossing_sentence(found)
    )
    panels = tuple(_panel(found, variant) for variant in found.variants)
    return (Figure("ordering", "From graph to temporal", caption, panels),)


def _panel(found: Measured, variant: str) -> Curves:
    shares, series = found.shares(variant), list[Series]()
    for name in found.names:
        points = [
            (share, one) for share in shares for _, one in found.listed((variant, share), [name])
        ]
        if points:
            series.append(curve(name, points, group=name))
    floors = [(share, found.floors.get((variant, share))) for share in shares]
    known = [(share, one.floor) for share, one in floors if one is not None and one.floor > 0]
    if known:
        series.append(line("floor of causal models", known, "theory"))
    return Curves(
        "past only" if variant == _CAUSAL else f"order: {variant}",
        "λ: 0 graph, 1 temporal",
        "mean squared error / variance",
        tuple(series),
        y_scale="log",
    )


EXPERIMENT = Experiment(
    "ordering",
    "From graph to temporal targets",
    "Sec. 6; review of version 1",
    130,
    plan,
    conclude,
)
