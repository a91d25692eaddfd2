"""From purely graph to purely temporal: which model is best where, at equal parameter count.

A review of the paper's first version asks for a spectrum of tasks between the two, and for both
orders of the inputs. Targets are (1-λ) graph + λ temporal with unit variance each, over uniform
scalars of length 16: the graph part is Fig. 1's target (α = 1, rank 2), the temporal one Table 2's.
Errors are divided by the variance of the target. All models but the Transformer see only the past,
so the least error of any causal model is estimated without training; and in the variant "causal"
the graph part sees only the past too, and so does the Transformer: what is left is architecture.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.contract import (
    Conclusion,
    Done,
    Experiment,
    Outcome,
    Plan,
    Preset,
    Results,
    Work,
    select,
)
from attnrate.experiments.kits.blend import LENGTH, VARIANTS, blend, causal_floor, variance
from attnrate.experiments.kits.cells import as_good, worse
from attnrate.experiments.kits.fits import curve, errors, errors_by_seed, paired
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.fitting.fit import fit
from attnrate.fitting.job import Sized
from attnrate.fitting.recipe import as_recipe
from attnrate.models.base import SequenceModel, nearest_size
from attnrate.models.build import build_model
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import linear_target

PIVOT = "Transformer"
TRANSFORMER: Mapping[str, object] = {
    "kind": "transformer",
    "n": 16,
    "m_h": 8,
    "m_v": 16,
    "width": 32,
    "depth": 2,
    "position": "learned",
}
#: The others, and the setting that is chosen to give them as many parameters
OTHERS: Mapping[str, tuple[Mapping[str, object], str]] = {
    "RNN": ({"kind": "linear_rnn", "activation": "tanh"}, "hidden"),
    "linear RNN": ({"kind": "linear_rnn"}, "hidden"),
    "GRU": ({"kind": "gru"}, "hidden"),
    "convolution": ({"kind": "convolution"}, "channels"),
    "state space": ({"kind": "state_space", "state": 16}, "channels"),
}
NAMES = (PIVOT, *OTHERS)
_PLAIN, _PERMUTED, _CAUSAL = VARIANTS
_GRAPH, _TEMPORAL = 0.0, 1.0
#: One seed decides which of two models is ahead only by such a factor
_ALONE = 10.0


@dataclass(frozen=True)
class Settings:
    """For each variant the values of λ and the models; the recipe, its cost, and the seeds."""

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


@dataclass(frozen=True)
class FloorOutcome(Outcome):
    """A least error over the variance of the target, and the standard error of its estimate."""

    floor: float
    floor_error: float

    def __str__(self) -> str:
        return f"{self.floor:.3g} ± {self.floor_error:.1g}"


@dataclass(frozen=True, kw_only=True)
class Floor(Work):
    """The least error of any causal model on a target."""

    work: ClassVar[str] = "ordering.floor"
    variant: str
    share: float

    def run(self) -> FloorOutcome:
        """Estimate it over many sequences."""
        target = blend(self.share, self.variant)
        whole = variance(target)
        value, error = causal_floor(target, self.seed)
        return FloorOutcome(value / whole, error / whole)


@dataclass(frozen=True)
class TrainedOutcome(Outcome):
    """The error of a trained model over the variance of the target; None when it diverged."""

    error: float | None
    seconds: float = 0.0
    parameters: int | None = None


@dataclass(frozen=True, kw_only=True)
class Trained(Work):
    """A model that is trained on a target."""

    work: ClassVar[str] = "ordering.trained"
    variant: str
    share: float
    model: str
    recipe: Mapping[str, float | int]

    def run(self) -> TrainedOutcome:
        """Train it by the strong recipe with these changes."""
        target = blend(self.share, self.variant)
        given = model_settings(self.model)
        if self.model == PIVOT and self.variant == _CAUSAL:
            given = {**given, "causal": True}
        found = fit(
            target,
            lambda: build_model(given, target),
            recipe=as_recipe("strong", **self.recipe),
            seed=self.seed,
            threads=1,
        )
        error = None if found.diverged else found.error / variance(target)
        return TrainedOutcome(error, found.seconds, parameters(self.model))


def plan(preset: Preset) -> Plan:
    """The floors, and a fit for every variant, λ, model and seed."""
    chosen = SETTINGS[preset]
    jobs: list[Sized[Work]] = []
    for variant, (shares, names) in chosen.grid.items():
        for share in shares:
            jobs.append(Sized(Floor(variant=variant, share=share), 0.4))
            jobs.extend(
                Sized(
                    Trained(
                        variant=variant, share=share, model=name, recipe=chosen.recipe, seed=seed
                    ),
                    chosen.cost,
                )
                for seed in range(chosen.seeds)
                for name in names
            )
    return jobs


@cache
def model_settings(name: str) -> Mapping[str, object]:
    """The settings of a model; the size that is free is chosen to match the Transformer."""
    if name == PIVOT:
        return TRANSFORMER
    given, free = OTHERS[name]
    size = nearest_size(lambda size: _count({**given, free: size}), parameters(PIVOT))
    return {**given, free: size}


@cache
def parameters(name: str) -> int:
    """How many parameters a model has."""
    return _count(model_settings(name))


def _count(given: Mapping[str, object]) -> int:
    model = build_model(given, linear_target("exponential", LENGTH))
    assert isinstance(model, SequenceModel)
    return model.parameter_count()


#: A variant, λ and a model
Fitted = tuple[str, float, str]


@dataclass(frozen=True)
class Measured:
    """The floors and fits that are finished, as a reader of curves over λ asks for them."""

    floors: Sequence[Done[Floor, FloorOutcome]]
    fits: Sequence[Done[Trained, TrainedOutcome]]

    @property
    def variants(self) -> list[str]:
        """The variants of which there is a fit."""
        return [variant for variant in VARIANTS if select(self.fits, variant=variant)]

    @property
    def names(self) -> list[str]:
        """The models of which there is a fit."""
        return [name for name in NAMES if select(self.fits, model=name)]

    def shares(self, variant: str) -> list[float]:
        """The values of λ at which there is a fit."""
        return sorted({one.job.share for one in select(self.fits, variant=variant)})

    def found(self, variant: str, share: float, name: str) -> list[Done[Trained, TrainedOutcome]]:
        """The fits of a model to a target, one a seed."""
        return select(self.fits, variant=variant, share=share, model=name)

    def error(self, variant: str, share: float, name: str) -> Interval:
        """The geometric mean over seeds of a model's error."""
        return geometric_mean(errors(self.found(variant, share, name)))

    def listed(
        self, variant: str, share: float, names: Iterable[str]
    ) -> list[tuple[str, Interval]]:
        """The models that were fitted to a target, with their errors."""
        found = [(name, self.error(variant, share, name)) for name in names]
        return [(name, one) for name, one in found if one.count]

    def best(self, variant: str, share: float, names: Iterable[str]) -> tuple[str, Interval] | None:
        """The model with the least mean error on a target, if any was fitted to it."""
        return min(self.listed(variant, share, names), key=_by_error, default=None)

    def floor(self, variant: str, share: float) -> FloorOutcome | None:
        """The least error of a causal model, if it was estimated."""
        found = select(self.floors, variant=variant, share=share)
        return found[0].outcome if found else None

    def ratio(self, above: Fitted, below: Fitted) -> Interval:
        """The error of one model on a target over another's: geometric mean, paired by seed."""
        return geometric_mean(paired(self.found(*above), self.found(*below), "seed"))

    def crossing(self, variant: str, name: str) -> tuple[Interval, int]:
        """λ at which a model's error equals the Transformer's, and how many seeds have none.

        Between neighbouring λ the logarithm of the ratio is interpolated linearly; the first change
        of sign counts. A seed whose ratio never changes its sign has no crossing.
        """
        logs: dict[int, list[tuple[float, float]]] = {}
        for share in self.shares(variant):
            mine, pivot = (errors_by_seed(self.found(variant, share, one)) for one in (name, PIVOT))
            for seed in mine.keys() & pivot.keys():
                logs.setdefault(seed, []).append((share, math.log(mine[seed] / pivot[seed])))
        zeros = [_first_zero(logs[seed]) for seed in sorted(logs) if len(logs[seed]) > 1]
        return mean([at for at in zeros if at is not None]), zeros.count(None)


def _by_error(named: tuple[str, Interval]) -> float:
    return named[1].value


def _first_zero(points: Sequence[tuple[float, float]]) -> float | None:
    for (a, left), (b, right) in pairwise(points):
        if left == 0.0:
            return a
        if left * right < 0:
            return a + (b - a) * left / (left - right)
    return None


def conclude(results: Results) -> Conclusion:
    """Curves over λ, where they cross, and the claims."""
    found = Measured(results.of(Floor, FloorOutcome), results.of(Trained, TrainedOutcome))
    counts = {name: parameters(name) for name in NAMES}
    spread = max(abs(count / counts[PIVOT] - 1) for count in counts.values())
    sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
    paragraphs = (
        f"Parameters: {sizes}; they differ by at most {100 * spread:.1f} % from the Transformer's. "
        + _best_sentence(found),
        _crossing_sentence(found),
    )
    claims = (
        _graph_claim(found),
        _architecture_claim(found),
        _temporal_claim(found),
        _transformer_order_claim(found),
        _rnn_order_claim(found),
    )
    tables = (_errors_table(found), _crossings_table(found))
    return Conclusion(paragraphs, _figures(found), tables, claims)


def _ahead(gap: Interval) -> Verdict:
    """Verdict on "this one is ahead", from the ratio of the other's error to its own.

    Decided by an interval on one side of 1, or, with one seed, by a factor of ten.
    """
    if gap.count == 1:
        far = gap.value > _ALONE or gap.value < 1 / _ALONE
        return ("holds" if gap.value > 1 else "does not hold") if far else "open"
    return "holds" if gap.low > 1 else "does not hold" if gap.high < 1 else "open"


#: Verdict, evidence, and the ratio that decides
Said = tuple[Verdict, str, Interval]


def _claim(name: str, place: str, statement: str, said: Said | None, correction: str = "") -> Claim:
    """A claim by what is said of it; open where nothing is."""
    verdict, evidence, gap = said or ("open", "not measured yet.", mean([]))
    return Claim(name, place, statement, "ordering", verdict, evidence, *gap.limits, correction)


def _graph_claim(found: Measured) -> Claim:
    """Ahead by measurement, and by proof where the causal floor lies above its error."""
    at = (_PLAIN, _GRAPH)
    own, best, floor = found.error(*at, PIVOT), found.best(*at, OTHERS), found.floor(*at)
    said: Said | None = None
    if best is not None and own.count:
        gap = found.ratio((*at, best[0]), (*at, PIVOT))
        verdict = _ahead(gap)
        evidence = (
            f"on the graph target (λ = 0) the Transformer leaves {own} of the variance, the best "
            f"of the others, the {best[0]}, {best[1]}"
        )
        if floor is not None:
            largest = max(errors(found.found(*at, PIVOT)))
            proved = largest < floor.floor - 3 * floor.floor_error
            verdict = "holds" if proved else verdict
            below = "is, in every seed" if proved else "is not below it in every seed"
            evidence += (
                f"; no model that sees only the past can be below {floor}, "
                f"and the Transformer {below}"
            )
        said = verdict, f"{evidence}.", gap
    return _claim(
        "ordering-graph",
        "Abstract, sec. 6; the review's check 2",
        "The Transformer is better suited to graph-like targets than recurrent models.",
        said,
    )


def _architecture_claim(found: Measured) -> Claim:
    at = (_CAUSAL, _GRAPH)
    own, best = found.error(*at, PIVOT), found.best(*at, OTHERS)
    said: Said | None = None
    if best is not None and own.count:
        gap = found.ratio((*at, best[0]), (*at, PIVOT))
        listed = ", ".join(f"{name} {one}" for name, one in found.listed(*at, OTHERS))
        evidence = (
            "with a graph target of the past and a Transformer that sees only the past, it leaves "
            f"{own} of the variance; {listed}. The ratio of the best of them, the {best[0]}, to "
            f"the Transformer is {gap}."
        )
        said = _ahead(gap), evidence, gap
    return _claim(
        "ordering-graph-causal",
        "Abstract, sec. 6; the review's check 2",
        "The Transformer's advantage on graph-like targets is one of architecture, not only of "
        "seeing the future.",
        said,
    )


def _temporal_claim(found: Measured) -> Claim:
    at = (_PLAIN, _TEMPORAL)
    own, best = found.error(*at, PIVOT), found.best(*at, ("RNN", "linear RNN"))
    said: Said | None = None
    if best is not None and own.count:
        gap = found.ratio((*at, PIVOT), (*at, best[0]))
        evidence = (
            f"on the temporal target (λ = 1) the Transformer leaves {own} of the variance, the "
            f"{best[0]} {best[1]}, at as many parameters: {gap} times."
        )
        said = _ahead(gap), evidence, gap
    return _claim(
        "ordering-temporal",
        "App. C, below Table 2",
        "Where temporal ordering is important, the RNN performs better than the Transformer.",
        said,
    )


#: How a verdict on the permuted Transformer is to be read
_PERMUTED_READ: Mapping[Verdict, str] = {
    "holds when corrected": "It holds where the query counts by its position only, as in the "
    "temporal target. In the graph target the query is the value of x(t), and after the "
    "permutation the token at t is another one.",
    "does not hold": "Prop. 6.2 compares complexity measures, not trained models of one size.",
}


def _transformer_order_claim(found: Measured) -> Claim:
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
    told = "; ".join(f"λ = {share:g}: {one}" for share, one in ratios.items())
    evidence = (
        "trained by the strong recipe, its error on the permuted target over that on the original "
        f"is {told or 'not measured yet'}."
    )
    return _claim(
        "ordering-transformer-permuted",
        "Sec. 6.1, Prop. 6.2",
        "The Transformer is not affected by a change of the temporal ordering.",
        (verdict, evidence, ratios.get(_GRAPH, mean([]))),
        _PERMUTED_READ.get(verdict, ""),
    )


def _rnn_order_claim(found: Measured) -> Claim:
    permuted = (_PERMUTED, _TEMPORAL, "RNN")
    gap, floor = found.ratio(permuted, (_PLAIN, _TEMPORAL, "RNN")), found.floor(*permuted[:2])
    said: Said | None = None
    if gap.count:
        bound = "" if floor is None else f"; no causal model is below {floor}"
        evidence = (
            f"permuted it leaves {found.error(*permuted)} of the variance, {gap} times what it "
            f"leaves of the original (λ = 1){bound}."
        )
        said = "open" if floor is None else _ahead(gap), evidence, gap
    return _claim(
        "ordering-rnn-permuted",
        "Sec. 6.1, Prop. 6.1",
        "The RNN is affected by a change of the temporal ordering of a temporal target.",
        said,
    )


def _errors_table(found: Measured) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in found.variants:
        for share in found.shares(variant):
            floor = found.floor(variant, share)
            listed = [found.error(variant, share, name) for name in found.names]
            told = [str(one) if one.count else None for one in listed]
            rows.append((variant, share, *told, None if floor is None else floor.floor))
    return Table(
        "Errors over the variance of the target",
        ("variant", "λ", *found.names, "floor of causal models"),
        tuple(rows),
        "λ = 0 is purely graph, λ = 1 purely temporal. Geometric means over seeds with 95 % "
        "intervals where there are two. The floor holds for all models but the Transformer.",
    )


def _crossings(found: Measured, variant: str) -> list[tuple[str, Interval, int]]:
    """For each other model with two λ or more: where it crosses, and how many seeds do not."""
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
    told = []
    for variant in found.variants:
        best = [(share, found.best(variant, share, NAMES)) for share in found.shares(variant)]
        parts = [f"λ = {share:g} {one[0]} ({one[1]})" for share, one in best if one is not None]
        told.append(f"{variant}: " + ", ".join(parts))
    return "The least error, over the variance, has: " + "; ".join(told) + "." if told else ""


def _crossing_sentence(found: Measured) -> str:
    told = [
        f"the {name} at λ* = {at} ({at.count} of {at.count + without} seeds)"
        if at.count
        else f"the {name} nowhere"
        for name, at, without in _crossings(found, _PLAIN)
    ]
    crossed = ", ".join(told) if told else "no model yet"
    return f"In the order as it is, the Transformer is crossed by {crossed}."


def _figures(found: Measured) -> tuple[Figure, ...]:
    if not found.variants:
        return ()
    caption = (
        "Errors at equal parameter count between a graph target (λ = 0) and a temporal one "
        "(λ = 1), the inputs in their order, with the first and last five exchanged, and with "
        "target and Transformer restricted to the past. " + _crossing_sentence(found)
    )
    panels = tuple(_panel(found, variant) for variant in found.variants)
    return (Figure("ordering", "From graph to temporal", caption, panels),)


def _panel(found: Measured, variant: str) -> Curves:
    shares, series = found.shares(variant), list[Series]()
    for name in found.names:
        points = [(share, found.error(variant, share, name)) for share in shares]
        points = [(share, one) for share, one in points if one.count]
        if points:
            series.append(curve(name, points, group=name))
    floors = [(share, found.floor(variant, share)) for share in shares]
    known = [(share, one.floor) for share, one in floors if one is not None and one.floor > 0]
    if known:
        xs, ys = zip(*known, strict=True)
        series.append(Series("floor of causal models", xs, ys, style="theory"))
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
