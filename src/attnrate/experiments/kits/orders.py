"""What the two halves of Table 1 share: scores of models by order, their relative drops, claims.

A job on the original order gives four scores: there, on the altered order with the same weights,
there again after fine-tuning, as the paper did it, and on the original order after as much more
training; a job on the altered order gives the score from scratch. A drop is (original - altered) /
original, paired by seed, between models that were trained for as long. The rules were written
before any result of the full preset was seen: the paper's drops are 2 % and 3.5 %, so up to 5 % is
"not affected"; the interval over seeds must lie on one side of that, and a single seed decides only
by a large drop; a model whose original score is below `learned` decides nothing. Ours are
fine-tuned for a short time: a drop that is not there from scratch is not the order's, and decides
nothing.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.contract import Conclusion, Results
from attnrate.experiments.kits.real import at_most, decided, gaps, over_seeds, unfinished
from attnrate.figures.figure import Curves, Figure, Series, Table
from attnrate.statistics import Interval, mean

Way = Literal["original", "continued", "untuned", "tuned", "scratch"]
WAYS: dict[Way, str] = {
    "original": "original",
    "continued": "original, trained on",
    "untuned": "altered, not fine-tuned",
    "tuned": "altered, fine-tuned",
    "scratch": "altered, from scratch",
}
#: What each is compared with
_BEFORE: dict[Way, Way] = {"untuned": "original", "tuned": "continued", "scratch": "original"}
_COMPARED: dict[Way, str] = {
    "original": "on the original order",
    "continued": "on the original order, trained on for as long",
}
_SHORT = " From scratch nothing is lost, so it may be that fine-tuning was too short."
#: A relative drop up to this is none; a single seed decides by so large a one only
ALLOWED, ALONE = 0.05, 0.2
#: By model, way and seed
Scores = dict[str, dict[Way, dict[int, float]]]
T = TypeVar("T")


@dataclass(frozen=True)
class Half:
    """One half of Table 1: what is scored, what it is called, what the paper has.

    `score` is what is compared here, `measure` what the paper has two values of. `attention` and
    `rivals` are names of models; verdicts are of `attention`. `learned` is the score from which on
    a model counts, `cannot` why the paper's numbers are out of reach, `beforehand` what is known
    before training of whether it can tell orders apart, `trained` how little our models have been.
    `curve` is the measure that every epoch has, `epoch` what an epoch is called.
    """

    name: str
    data: str
    score: str
    measure: str
    examples: str
    curve: str
    epoch: str
    attention: str
    rivals: tuple[str, ...]
    paper: tuple[float, float]
    learned: float
    cannot: str
    beforehand: str = ""
    trained: str = ""


@dataclass(frozen=True)
class Model:
    """A trained model as Table 1 sees it: its score in every way that it was judged.

    `examples` are those that it has learned from, `curve` has a value for every epoch, `tuning` is
    the number of epochs of its fine-tuning.
    """

    name: str
    altered: bool
    seed: int
    parameters: int
    examples: int
    scores: Mapping[Way, float]
    curve: tuple[float, ...]
    tuning: int = 0


def by_way(
    altered: bool, first: T, continued: T | None, untuned: T | None, tuned: T | None
) -> dict[Way, T]:
    """What was found in each way, without those that were not tried."""
    found: dict[Way, T | None] = {
        "scratch" if altered else "original": first,
        "continued": continued,
        "untuned": untuned,
        "tuned": tuned,
    }
    return {way: values for way, values in found.items() if values is not None}


def scores(models: Sequence[Model]) -> Scores:
    """By model, way and seed."""
    found: Scores = {}
    for one in models:
        ways = found.setdefault(one.name, {way: {} for way in WAYS})
        for way, value in one.scores.items():
            ways[way][one.seed] = value
    return found


def drop(found: Scores, model: str, way: Way, since: Way | None = None) -> Interval:
    """The relative drop from the original order, over the seeds that have both.

    It is from the model that was trained for as long, unless `since` names another.
    """
    pairs = _paired(found, model, way, since)
    return mean([1 - after / before for before, after in pairs])


def _paired(
    found: Scores, model: str, way: Way, since: Way | None = None
) -> list[tuple[float, float]]:
    """The scores of either order, of the seeds that have both."""
    ways = found.get(model, {})
    before, after = ways.get(since or _BEFORE[way], {}), ways.get(way, {})
    return [(before[seed], after[seed]) for seed in before if seed in after and before[seed] > 0]


def has_learned(found: Scores, model: str, least: float) -> bool:
    """Whether every seed of the model is good enough on the original order."""
    values = found.get(model, {}).get("original", {}).values()
    return bool(values) and min(values) >= least


def kept(interval: Interval, learned: bool) -> Verdict:
    """Whether nothing is lost: by the interval of the drop."""
    if not learned:
        return "open"
    if interval.count == 1:
        return "does not hold" if interval.value >= ALONE else "open"
    return at_most(interval, ALLOWED)


def lost(interval: Interval, learned: bool) -> Verdict:
    """Whether something is lost, the opposite of `kept`."""
    verdicts: dict[Verdict, Verdict] = {"holds": "does not hold", "does not hold": "holds"}
    verdict = kept(interval, learned)
    return verdicts.get(verdict, verdict)


def conclusion(
    results: Results,
    models: Sequence[Model],
    half: Half,
    more: Sequence[Table] = (),
    note: str = "",
) -> Conclusion:
    """The table beside the paper's, figures, and the claims."""
    found = scores(models)
    claims = _claims(found, half)
    if not models:
        return unfinished(results, claims, "data")
    said = (_paragraph(models, found, half) + gaps(results), decided(claims[:-1]))
    figures = (_figure(found, half), _learning(models, half))
    return Conclusion(said, figures, (_table(found, models, half, note), *more), claims)


def _claims(found: Scores, half: Half) -> tuple[Claim, ...]:
    model = half.attention
    learned = has_learned(found, model, half.learned)
    tuned, scratch = (kept(drop(found, model, way), learned) for way in ("tuned", "scratch"))
    short = tuned == "does not hold" and scratch == "holds"
    claims = [
        _claim(
            half,
            "fine-tuned",
            "Sec. 6.1, Table 1",
            f"The performance of the Transformer on {half.data} is unaffected by the temporal "
            "ordering, when it is fine-tuned from the original weights.",
            "open" if short else tuned,
            found,
            model,
            "tuned",
            (_SHORT if short else "") + half.trained,
        ),
        _claim(
            half,
            "from-scratch",
            "Sec. 6.1, Prop. 6.2",
            f"A Transformer learns {half.data} in the altered order as well as in the original.",
            scratch,
            found,
            model,
            "scratch",
            half.beforehand + half.trained,
        ),
        _claim(
            half,
            "order-matters-untuned",
            "Table 1 (not in the paper)",
            "The altered order is a change that the original weights notice: without fine-tuning "
            "the performance drops.",
            lost(drop(found, model, "untuned"), learned),
            found,
            model,
            "untuned",
        ),
    ]
    claims += [
        _claim(
            half,
            rival.lower().replace(" ", "-"),
            "Sec. 6.1 (not in Table 1)",
            f"A recurrent model ({rival}) of the same size is affected by the temporal "
            f"ordering of {half.data}, also when it is trained on the altered order.",
            lost(drop(found, rival, "scratch"), has_learned(found, rival, half.learned)),
            found,
            rival,
            "scratch",
        )
        for rival in half.rivals
    ]
    return (*claims, _values_claim(found, half))


def _claim(
    half: Half,
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    found: Scores,
    model: str,
    way: Way,
    more: str = "",
) -> Claim:
    interval = drop(found, model, way)
    if not interval.count:
        evidence = "no model is finished that tells, or it has a score of zero."
    else:
        pairs = _paired(found, model, way)
        original, altered = (mean(side) for side in zip(*pairs, strict=True))
        evidence = (
            f"{half.score} {original} {_COMPARED[_BEFORE[way]]}, {altered} on the altered one: a "
            f"relative drop of {interval} over {interval.count} seed"
            f"{'' if interval.count == 1 else 's'} (none: up to {ALLOWED})."
        )
        if not has_learned(found, model, half.learned):
            evidence += f" Scores below {half.learned:g} are too low to decide."
        elif math.isnan(interval.low):
            evidence += f" One seed decides only by a drop of {ALONE} or more."
        evidence += more
    full_name = f"{half.name}-{name}"
    return Claim(full_name, place, statement, half.name, verdict, evidence, *interval.limits)


def _values_claim(found: Scores, half: Half) -> Claim:
    """The paper's two numbers, which cannot be had here."""
    values = [*found.get(half.attention, {}).get("original", {}).values()]
    ours = f"ours has {mean(values)} on the original order." if values else "no model is finished."
    original, altered = half.paper
    return Claim(
        f"{half.name}-values",
        "Sec. 6.1, Table 1",
        f"The {half.measure} is {original:g} on the original order and {altered:g} on the "
        "altered one.",
        half.name,
        "not testable here",
        ours,
        *mean(values).limits,
        correction=half.cannot,
    )


def _paragraph(models: Sequence[Model], found: Scores, half: Half) -> str:
    parts = []
    for model, ways in found.items():
        told = [f"{mean([*by.values()])} ({WAYS[way]})" for way, by in ways.items() if by]
        parts.append(f"{model}: {', '.join(told)}")
    ours = [one for one in models if one.name == half.attention]
    return (
        f"The {half.score} on {half.data}, original and with the first ten tokens moved to the "
        f"end: {'; '.join(parts)}. The paper: {half.paper[0]:g} and {half.paper[1]:g}. "
        + half.cannot
        + (_size(ours[0], half) if ours else "")
    )


def _size(one: Model, half: Half) -> str:
    """How large the model and its data are, and how long it was fine-tuned."""
    said = (
        f" Ours has {one.parameters:,} parameters, and {one.examples:,} {half.examples} to learn "
        "from."
    )
    if one.tuning and one.curve:
        long = one.tuning / len(one.curve)
        said += f" It was fine-tuned for {long:.2g} times as long as it was trained."
    return said


def _figure(found: Scores, half: Half) -> Figure:
    series = []
    for model, ways in found.items():
        shown = {float(place): way for place, way in enumerate(WAYS) if ways[way]}
        values = [[*ways[way].values()] for way in shown.values()]
        series.append(over_seeds(model, [*shown], values))
    places = tuple(float([*WAYS].index(way)) for way in ("original", "tuned"))
    series.append(Series("paper", places, half.paper, style="paper"))
    return Figure(
        half.name,
        f"Table 1: {half.data} in two orders",
        "Means over seeds, bars from the least to the largest. The paper fine-tuned the original "
        "weights on the altered order.",
        (Curves(half.data, "order", half.score, tuple(series), ticks=tuple(WAYS.values())),),
    )


def _learning(models: Sequence[Model], half: Half) -> Figure:
    """How the curve of every epoch went on, for the models of the least seed."""
    seed = min(one.seed for one in models)
    series = [
        Series(
            one.name + (", altered" if one.altered else ""),
            tuple(float(number + 1) for number in range(len(one.curve))),
            one.curve,
        )
        for one in models
        if one.seed == seed
    ]
    return Figure(
        f"{half.name}-epochs",
        f"{half.curve.capitalize()} while training goes on",
        f"Seed {seed}.",
        (Curves(f"seed {seed}", half.epoch, half.curve, tuple(series)),),
    )


def _table(found: Scores, models: Sequence[Model], half: Half, note: str) -> Table:
    parameters = {one.name: one.parameters for one in reversed(models)}
    rows = []
    for model, ways in found.items():
        cells = [str(mean([*by.values()])) if by else None for by in ways.values()]
        drops = [
            drop(found, model, "tuned"),
            drop(found, model, "tuned", since="original"),
            drop(found, model, "scratch"),
        ]
        told = [str(each) if each.count else None for each in drops]
        rows.append((model, parameters[model], len(ways["original"]), *cells, *told))
    paper = ("paper", None, None, half.paper[0], None, None, half.paper[1], None, None)
    change = 1 - half.paper[1] / half.paper[0]
    return Table(
        f"Table 1, {half.data}: {half.score}",
        (
            "model",
            "parameters",
            "seeds",
            *WAYS.values(),
            "relative drop, fine-tuned, from as much training on",
            "relative drop, fine-tuned, from the original",
            "relative drop, from scratch",
        ),
        (*rows, (*paper, f"{change:.3g}", None)),
        "Means with 95 % intervals over seeds where there are more than one. " + note,
    )
