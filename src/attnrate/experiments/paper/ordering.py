"""From purely graph to purely temporal: which model is best where, at equal parameter count.

A review of the paper's first version asks for a spectrum of tasks between the two, and for both
orders of the inputs. Targets are (1-λ) graph + λ temporal with unit variance each, over uniform
scalars of length 16: the graph part is Fig. 1's target (α = 1, rank 2), the temporal one Table 2's.
Errors are divided by the variance of the target. All models but the Transformer see only the past,
so the least error of any causal model is estimated without training; and in the variant "causal"
the graph part sees only the past too, and so does the Transformer: what is left is architecture.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import torch
from jaxtyping import Float

from attnrate.experiments.claims import Verdict, claim_of, judge
from attnrate.experiments.contract import Conclusion, Experiment, Outcome, Preset, Results, Work
from attnrate.experiments.kits.cells import as_good, worse
from attnrate.experiments.kits.fits import Fits, curve, errors, line
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.fitting.fit import fit
from attnrate.fitting.job import Sized
from attnrate.fitting.recipe import as_recipe
from attnrate.models.base import SequenceModel, nearest_size
from attnrate.models.build import build_model
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import AttentionTarget, Target, linear_target, spectral_target
from attnrate.targets.alter import swap_ends

LENGTH, RANK, MOVED = 16, 2, 5
VARIANTS = ("as it is", "permuted", "causal")
_PLAIN, _PERMUTED, _CAUSAL = VARIANTS
#: A target by its variant and λ; and a model that is fitted to it
At = tuple[str, float]
Fitted = tuple[str, float, str]
Evaluated = Callable[[torch.Tensor], torch.Tensor]
_GRAPH, _TEMPORAL = 0.0, 1.0
#: Sequences from which scales, variances and floors are estimated
_SEQUENCES = 4096
_SCALE_SEED = 1 << 43
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


class FunctionTarget(Target):
    """A target by a function of sequences, with the inputs and the outputs of another."""

    def __init__(self, like: Target, evaluated: Evaluated, name: str) -> None:
        self.like, self.evaluated, self.name = like, evaluated, name
        self.length, self.inputs, self.out = like.length, like.inputs, like.out

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """The function of one batch."""
        return self.evaluated(x)

    def entries_a_sequence(self) -> int:
        """As many as the other holds."""
        return self.like.entries_a_sequence()


def past_attention(base: AttentionTarget) -> Target:
    """Eq. 8 with the positions after t hidden: Σ_{s≤t} softmax[ρ(x(t), x(·))](s) f(x(s))."""
    later = torch.ones(base.length, base.length, dtype=torch.bool).triu(1)

    def evaluated(x: torch.Tensor) -> torch.Tensor:
        weights = base.logits(x).masked_fill(later, -torch.inf).softmax(-1)
        return base.F(weights @ base.f(x)).to(x.dtype)

    return FunctionTarget(base, evaluated, f"{base.name}, past only")


def blend(variant: str, share: float) -> Target:
    """(1-λ) (g - mean)/sd(g) + λ (h - mean)/sd(h), the share λ of the way from graph to temporal.

    The graph part g is Fig. 1's target with α = 1, where order plays no part; the temporal part h
    is Table 2's, y(t) = Σ e^-s x(t-s). sd² is the mean over t of the variance of the output at t,
    so that both parts count alike, and the means are taken over all t, so that no model has to
    learn a large constant first. "permuted": the first and the last five inputs change places.
    "causal": the graph part sees only the past.
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
    return tuple((part, float(_outputs(part).mean()), variance(part) ** 0.5) for part in parts)


def _outputs(target: Target) -> torch.Tensor:
    return target(target.sample(_SEQUENCES, _SCALE_SEED))


def variance(target: Target) -> float:
    """The mean over t of the variance of the output at t: the error of the best constants."""
    return float(_outputs(target).var(0).mean())


def causal_floor(target: Target, seed: int = 0) -> tuple[float, float]:
    """The least error of any model that sees only the past, with its standard error.

    That model is E[y(t) | x(0..t)], and its error is E (y(t) - y'(t))² / 2 where y' belongs to
    the same past with another future: drawn anew here, so the estimate has no bias.
    """
    x = target.sample(_SEQUENCES, _SCALE_SEED + 1 + seed)
    other = target.sample(_SEQUENCES, _SCALE_SEED + (1 << 20) + seed)
    y = target(x)
    total = torch.zeros(_SEQUENCES, dtype=torch.float64)
    for t in range(target.length - 1):
        changed = torch.cat([x[:, : t + 1], other[:, t + 1 :]], 1)
        total += (y[:, t] - target(changed)[:, t]).square().sum(-1) / (2 * target.length)
    return float(total.mean()), float(total.std() / _SEQUENCES**0.5)


class FloorOutcome(Outcome):
    """A least error over the variance of the target, and the standard error of its estimate."""

    floor: float
    floor_error: float

    def __str__(self) -> str:
        return f"{self.floor:.3g} ± {self.floor_error:.1g}"


class Floor(Work, work="ordering.floor"):
    """The least error of any causal model on a target."""

    variant: str
    share: float

    def run(self) -> FloorOutcome:
        """Estimate it over many sequences."""
        target = blend(self.variant, self.share)
        whole = variance(target)
        value, error = causal_floor(target, self.seed)
        return FloorOutcome(value / whole, error / whole)


class TrainedOutcome(Outcome):
    """The error of a trained model over the variance of the target; None when it diverged."""

    error: float | None
    seconds: float = 0.0
    parameters: int | None = None


class Trained(Work, work="ordering.trained"):
    """A model that is trained on a target."""

    variant: str
    share: float
    model: str
    recipe: Mapping[str, float | int]

    def run(self) -> TrainedOutcome:
        """Train it by the strong recipe with these changes."""
        target = blend(self.variant, self.share)
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


def plan(preset: Preset) -> list[Sized[Work]]:
    """The floors, and a fit for every variant, λ, model and seed."""
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


@cache
def model_settings(name: str) -> Mapping[str, object]:
    """The settings of a model; the size that is free is chosen to match the Transformer."""
    if name == PIVOT:
        return TRANSFORMER
    given, free = OTHERS[name]
    size = nearest_size(lambda size: _count({**given, free: size}), _count(TRANSFORMER))
    return {**given, free: size}


def parameters(name: str) -> int:
    """How many parameters a model has."""
    return _count(model_settings(name))


def _count(given: Mapping[str, object]) -> int:
    model = build_model(given, linear_target("exponential", LENGTH))
    assert isinstance(model, SequenceModel)
    return model.parameter_count()


@dataclass(frozen=True)
class Measured:
    """The floors by target, and the fits, found by target, model and seed."""

    floors: Mapping[At, FloorOutcome]
    fits: Fits

    @property
    def variants(self) -> list[str]:
        """The variants of which there is a fit."""
        return [variant for variant in VARIANTS if self.fits.where(variant=variant)]

    @property
    def names(self) -> list[str]:
        """The models of which there is a fit."""
        return [name for name in NAMES if self.fits.where(model=name)]

    def shares(self, variant: str) -> list[float]:
        """The values of λ at which there is a fit."""
        return sorted({one.label.share for one in self.fits.where(variant=variant)})

    def of(self, fitted: Fitted) -> Fits:
        """The fits of a model to a target, one a seed."""
        variant, share, model = fitted
        return self.fits.where(variant=variant, share=share, model=model)

    def listed(self, at: At, names: Iterable[str]) -> list[tuple[str, Interval]]:
        """The models that were fitted to a target, with their mean errors over seeds."""
        found = [(name, self.of((*at, name)).mean()) for name in names]
        return [(name, one) for name, one in found if one.count]

    def best(self, at: At, names: Iterable[str]) -> tuple[str, Interval] | None:
        """The model with the least mean error on a target, if any was fitted to it."""
        return min(self.listed(at, names), key=lambda named: named[1].value, default=None)

    def rivals(self, at: At, names: Iterable[str]) -> tuple[Interval, str, Interval] | None:
        """The Transformer's error on a target, the best of the others, and its error."""
        own, best = self.of((*at, PIVOT)).mean(), self.best(at, names)
        return (own, *best) if own.count and best else None

    def ratio(self, above: Fitted, below: Fitted) -> Interval:
        """The error of one model on a target over another's: geometric mean, paired by seed."""
        return geometric_mean(self.of(above).over(self.of(below), "seed"))

    def crossing(self, variant: str, name: str) -> tuple[Interval, int]:
        """λ at which a model's error equals the Transformer's, and how many seeds have none.

        Between neighbouring λ the logarithm of the ratio is interpolated linearly; the first change
        of sign counts. A seed whose ratio never changes its sign has no crossing.
        """
        logs: dict[int, list[tuple[float, float]]] = {}
        for share in self.shares(variant):
            mine, pivot = (self.of((variant, share, model)).by_seed for model in (name, PIVOT))
            for seed in mine.keys() & pivot.keys():
                logs.setdefault(seed, []).append((share, math.log(mine[seed] / pivot[seed])))
        zeros = [_first_zero(logs[seed]) for seed in sorted(logs) if len(logs[seed]) > 1]
        return mean([at for at in zeros if at is not None]), zeros.count(None)


def measured(results: Results) -> Measured:
    """The finished floors and fits, as a reader of curves over λ asks for them."""
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
    """Curves over λ, where they cross, and the claims."""
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


#: Verdict, evidence, the ratio that decides, and how the statement is to be read
Said = tuple[Verdict, str, Interval, str]
_NOTHING: Said = ("open", "not measured yet.", mean([]), "")


def _ahead(gap: Interval) -> Verdict:
    """Verdict on "this one is ahead", from the ratio of the other's error to its own.

    Decided by an interval on one side of 1, or, with one seed, by a factor of ten.
    """
    if gap.count == 1:
        return judge(gap.value > _ALONE, gap.value < 1 / _ALONE)
    return judge(gap.low > 1, gap.high < 1)


def _graph(found: Measured) -> Said:
    """Ahead by measurement, and by proof where the causal floor lies above its error."""
    at = (_PLAIN, _GRAPH)
    if not (rivals := found.rivals(at, OTHERS)):
        return _NOTHING
    own, name, best = rivals
    gap, floor = found.ratio((*at, name), (*at, PIVOT)), found.floors.get(at)
    evidence = (
        f"on the graph target (λ = 0) the Transformer leaves {own} of the variance, the best of "
        f"the others, the {name}, {best}"
    )
    if floor is None:
        return _ahead(gap), f"{evidence}.", gap, ""
    proved = max(errors(found.of((*at, PIVOT)))) < floor.floor - 3 * floor.floor_error
    below = "is, in every seed" if proved else "is not below it in every seed"
    evidence += (
        f"; no model that sees only the past can be below {floor}, and the Transformer {below}."
    )
    return "holds" if proved else _ahead(gap), evidence, gap, ""


def _architecture(found: Measured) -> Said:
    at = (_CAUSAL, _GRAPH)
    if not (rivals := found.rivals(at, OTHERS)):
        return _NOTHING
    own, name, _ = rivals
    gap = found.ratio((*at, name), (*at, PIVOT))
    listed = ", ".join(f"{name} {one}" for name, one in found.listed(at, OTHERS))
    evidence = (
        "with a graph target of the past and a Transformer that sees only the past, it leaves "
        f"{own} of the variance; {listed}. The ratio of the best of them, the {name}, to the "
        f"Transformer is {gap}."
    )
    return _ahead(gap), evidence, gap, ""


def _temporal(found: Measured) -> Said:
    at = (_PLAIN, _TEMPORAL)
    if not (rivals := found.rivals(at, ("RNN", "linear RNN"))):
        return _NOTHING
    own, name, best = rivals
    gap = found.ratio((*at, PIVOT), (*at, name))
    evidence = (
        f"on the temporal target (λ = 1) the Transformer leaves {own} of the variance, the {name} "
        f"{best}, at as many parameters: {gap} times."
    )
    return _ahead(gap), evidence, gap, ""


#: How a verdict on the permuted Transformer is to be read
_PERMUTED_READ: Mapping[Verdict, str] = {
    "holds when corrected": "It holds where the query counts by its position only, as in the "
    "temporal target. In the graph target the query is the value of x(t), and after the "
    "permutation the token at t is another one.",
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
    told = "; ".join(f"λ = {share:g}: {one}" for share, one in ratios.items())
    evidence = (
        "trained by the strong recipe, its error on the permuted target over that on the original "
        f"is {told or 'not measured yet'}."
    )
    gap = ratios.get(_GRAPH, mean([]))
    return verdict, evidence, gap, _PERMUTED_READ.get(verdict, "")


def _permuted_rnn(found: Measured) -> Said:
    permuted = (_PERMUTED, _TEMPORAL, "RNN")
    gap, floor = found.ratio(permuted, (_PLAIN, _TEMPORAL, "RNN")), found.floors.get(permuted[:2])
    if not gap.count:
        return _NOTHING
    bound = "" if floor is None else f"; no causal model is below {floor}"
    evidence = (
        f"permuted it leaves {found.of(permuted).mean()} of the variance, {gap} times what it "
        f"leaves of the original (λ = 1){bound}."
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
        "The Transformer's advantage on graph-like targets is one of architecture, not only of "
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
            told = [str(listed[name]) if name in listed else None for name in found.names]
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
        best = [(share, found.best((variant, share), NAMES)) for share in found.shares(variant)]
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
