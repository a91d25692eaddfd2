"""What the fits between graph and temporal targets say: curves, crossings, claims."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import (
    Conclusion,
    Result,
    errors_by_seed,
    paired,
    select,
)
from attnrate.experiments.kits.cells import MATTERS, worse
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.statistics import Interval, geometric_mean, mean

PIVOT = "Transformer"
_PLAIN, _PERMUTED, _CAUSAL = "as it is", "permuted", "causal"
_GRAPH, _TEMPORAL = 0.0, 1.0
#: One seed decides which of two models is ahead only by such a factor
_ALONE = 10.0


def conclusion(
    results: Sequence[Result], counts: Mapping[str, int], variants: Sequence[str]
) -> Conclusion:
    """All that can be said from the results at hand."""
    present = [variant for variant in variants if select(results, part="fit", variant=variant)]
    names = [name for name in counts if select(results, part="fit", model=name)]
    claims = (
        _graph_claim(results, names),
        _architecture_claim(results, names),
        _temporal_claim(results, names),
        _transformer_order_claim(results),
        _rnn_order_claim(results),
    )
    crossings = _crossings_table(results, present, names)
    spread = max(abs(count / counts[PIVOT] - 1) for count in counts.values())
    sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
    paragraphs = (
        f"Parameters: {sizes}; they differ by at most {100 * spread:.1f} % from the Transformer's. "
        + _best_sentence(results, present, names),
        _crossing_sentence(results, names),
    )
    return Conclusion(
        paragraphs,
        tuple(_figure(results, present, names)),
        (_errors_table(results, present, names), crossings),
        claims,
    )


def by_seed(results: Sequence[Result], variant: str, share: float, name: str) -> dict[int, float]:
    """The normalised errors by seed."""
    return errors_by_seed(_fits(results, variant, share, name))


def _fits(results: Sequence[Result], variant: str, share: float, name: str) -> list[Result]:
    return select(results, part="fit", variant=variant, share=share, model=name)


def floor_of(results: Sequence[Result], variant: str, share: float) -> tuple[float, float] | None:
    """The least error of a causal model and its standard error, if it was estimated."""
    found = select(results, part="floor", variant=variant, share=share)
    if not found:
        return None
    return float(found[0].values["floor"]), float(found[0].values["floor_error"])


def ratio(
    results: Sequence[Result], above: tuple[str, float, str], below: tuple[str, float, str]
) -> Interval:
    """The ratio of two errors, each (variant, λ, model): geometric mean, paired by seed."""
    return geometric_mean(paired(_fits(results, *above), _fits(results, *below), "seed"))


def crossing(results: Sequence[Result], variant: str, name: str) -> tuple[Interval, int]:
    """λ at which a model's error equals the Transformer's, and for how many seeds it does not.

    Between neighbouring λ the logarithm of the ratio is interpolated linearly; the first change of
    sign counts. A seed whose ratio never changes its sign has no crossing.
    """
    shares = _shares(results, variant)
    seeds = {int(one.label["seed"]) for one in select(results, part="fit", variant=variant)}
    found, without = [], 0
    for seed in sorted(seeds):
        logs = [
            (share, math.log(mine[seed] / pivot[seed]))
            for share in shares
            if seed in (mine := by_seed(results, variant, share, name))
            and seed in (pivot := by_seed(results, variant, share, PIVOT))
        ]
        if len(logs) < 2:
            continue
        at = _first_zero(logs)
        if at is None:
            without += 1
        else:
            found.append(at)
    return mean(found), without


def _first_zero(points: Sequence[tuple[float, float]]) -> float | None:
    for (a, left), (b, right) in pairwise(points):
        if left == 0.0:
            return a
        if left * right < 0:
            return a + (b - a) * left / (left - right)
    return None


def _shares(results: Sequence[Result], variant: str) -> list[float]:
    return sorted({float(r.label["share"]) for r in select(results, part="fit", variant=variant)})


def _mean(results: Sequence[Result], variant: str, share: float, name: str) -> Interval:
    return geometric_mean(list(by_seed(results, variant, share, name).values()))


def _best(
    results: Sequence[Result], variant: str, share: float, names: Sequence[str]
) -> tuple[str, Interval] | None:
    """The model with the least mean error there."""
    found = [(name, _mean(results, variant, share, name)) for name in names]
    found = [(name, one) for name, one in found if one.count]
    return min(found, key=lambda pair: pair[1].value) if found else None


def _ahead(gap: Interval) -> Verdict:
    """Verdict on "this one is ahead", from the ratio of the other's error to its own.

    Decided by an interval on one side of 1, or, with one seed, by a factor of ten.
    """
    if gap.count == 1:
        far = gap.value > _ALONE or gap.value < 1 / _ALONE
        return ("holds" if gap.value > 1 else "does not hold") if far else "open"
    return "holds" if gap.low > 1 else "does not hold" if gap.high < 1 else "open"


def _graph_claim(results: Sequence[Result], names: Sequence[str]) -> Claim:
    """Ahead by measurement, and by proof where the causal floor lies above its error."""
    others = [name for name in names if name != PIVOT]
    best = _best(results, _PLAIN, _GRAPH, others)
    own = _mean(results, _PLAIN, _GRAPH, PIVOT)
    verdict: Verdict = "open"
    evidence, gap = "not measured yet.", None
    if best is not None and own.count:
        gap = ratio(results, (_PLAIN, _GRAPH, best[0]), (_PLAIN, _GRAPH, PIVOT))
        floor = floor_of(results, _PLAIN, _GRAPH)
        seeds = by_seed(results, _PLAIN, _GRAPH, PIVOT).values()
        proved = floor is not None and max(seeds) < floor[0] - 3 * floor[1]
        verdict = "holds" if proved else _ahead(gap)
        evidence = (
            f"on the graph target (λ = 0) the Transformer leaves {own} of the variance, the best "
            f"of the others, the {best[0]}, {best[1]}"
        )
        if floor is not None:
            evidence += (
                f"; no model that sees only the past can be below {floor[0]:.3g} ± {floor[1]:.1g}, "
                + (
                    "and the Transformer is, in every seed"
                    if proved
                    else "and the Transformer is not below it in every seed"
                )
            )
        evidence += "."
    return _claim(
        "ordering-graph",
        "Abstract, sec. 6; the review's check 2",
        "The Transformer is better suited to graph-like targets than recurrent models.",
        verdict,
        evidence,
        gap,
    )


def _architecture_claim(results: Sequence[Result], names: Sequence[str]) -> Claim:
    others = [name for name in names if name != PIVOT]
    best = _best(results, _CAUSAL, _GRAPH, others)
    own = _mean(results, _CAUSAL, _GRAPH, PIVOT)
    verdict: Verdict = "open"
    evidence, gap = "not measured yet.", None
    if best is not None and own.count:
        gap = ratio(results, (_CAUSAL, _GRAPH, best[0]), (_CAUSAL, _GRAPH, PIVOT))
        told = [(name, _mean(results, _CAUSAL, _GRAPH, name)) for name in others]
        listed = ", ".join(f"{name} {one}" for name, one in told if one.count)
        verdict = _ahead(gap)
        evidence = (
            "with a graph target of the past and a Transformer that sees only the past, it leaves "
            f"{own} of the variance; {listed}. The ratio of the best of them, the {best[0]}, to "
            f"the Transformer is {gap}."
        )
    return _claim(
        "ordering-graph-causal",
        "Abstract, sec. 6; the review's check 2",
        "The Transformer's advantage on graph-like targets is one of architecture, not only of "
        "seeing the future.",
        verdict,
        evidence,
        gap,
    )


def _temporal_claim(results: Sequence[Result], names: Sequence[str]) -> Claim:
    recurrent = [name for name in names if "RNN" in name]
    best = _best(results, _PLAIN, _TEMPORAL, recurrent)
    own = _mean(results, _PLAIN, _TEMPORAL, PIVOT)
    verdict: Verdict = "open"
    evidence, gap = "not measured yet.", None
    if best is not None and own.count:
        gap = ratio(results, (_PLAIN, _TEMPORAL, PIVOT), (_PLAIN, _TEMPORAL, best[0]))
        verdict = _ahead(gap)
        evidence = (
            f"on the temporal target (λ = 1) the Transformer leaves {own} of the variance, the "
            f"{best[0]} {best[1]}, at as many parameters: {gap} times."
        )
    return _claim(
        "ordering-temporal",
        "App. C, below Table 2",
        "Where temporal ordering is important, the RNN performs better than the Transformer.",
        verdict,
        evidence,
        gap,
    )


def _transformer_order_claim(results: Sequence[Result]) -> Claim:
    ratios = {
        share: ratio(results, (_PERMUTED, share, PIVOT), (_PLAIN, share, PIVOT))
        for share in _shares(results, _PERMUTED)
    }
    ratios = {share: one for share, one in ratios.items() if one.count}
    graph, temporal = ratios.get(_GRAPH), ratios.get(_TEMPORAL)
    verdict: Verdict = "open"
    if graph is not None and temporal is not None:
        hurt = {share for share, one in ratios.items() if worse(one)}
        if _TEMPORAL in hurt:
            verdict = "does not hold"
        elif hurt and temporal.value <= MATTERS:
            verdict = "holds when corrected"
        elif all(one.value <= MATTERS for one in ratios.values()):
            verdict = "holds"
    told = "; ".join(f"λ = {share:g}: {one}" for share, one in ratios.items())
    return _claim(
        "ordering-transformer-permuted",
        "Sec. 6.1, Prop. 6.2",
        "The Transformer is not affected by a change of the temporal ordering.",
        verdict,
        "trained by the strong recipe, its error on the permuted target over that on the original "
        f"is {told or 'not measured yet'}.",
        graph,
        "It holds where the query counts by its position only, as in the temporal target. In the "
        "graph target the query is the value of x(t), and after the permutation the token at t is "
        "another one."
        if verdict == "holds when corrected"
        else "Prop. 6.2 compares complexity measures, not trained models of one size."
        if verdict == "does not hold"
        else "",
    )


def _rnn_order_claim(results: Sequence[Result]) -> Claim:
    gap = ratio(results, (_PERMUTED, _TEMPORAL, "RNN"), (_PLAIN, _TEMPORAL, "RNN"))
    floor = floor_of(results, _PERMUTED, _TEMPORAL)
    own = _mean(results, _PERMUTED, _TEMPORAL, "RNN")
    verdict: Verdict = "open"
    if gap.count and floor is not None:
        verdict = _ahead(gap)
    bound = "" if floor is None else f"; no causal model is below {floor[0]:.3g} ± {floor[1]:.1g}"
    return _claim(
        "ordering-rnn-permuted",
        "Sec. 6.1, Prop. 6.1",
        "The RNN is affected by a change of the temporal ordering of a temporal target.",
        verdict,
        f"permuted it leaves {own} of the variance, {gap} times what it leaves of the original "
        f"(λ = 1){bound}."
        if gap.count
        else "not measured yet.",
        gap if gap.count else None,
    )


def _claim(
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    value: Interval | None,
    correction: str = "",
) -> Claim:
    limits = (None, None, None) if value is None else value.limits
    return Claim(name, place, statement, "ordering", verdict, evidence, *limits, correction)


def _errors_table(
    results: Sequence[Result], variants: Sequence[str], names: Sequence[str]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in variants:
        for share in _shares(results, variant):
            found = [_mean(results, variant, share, name) for name in names]
            floor = floor_of(results, variant, share)
            told = [str(one) if one.count else None for one in found]
            rows.append((variant, share, *told, None if floor is None else floor[0]))
    return Table(
        "Errors over the variance of the target",
        ("variant", "λ", *names, "floor of causal models"),
        tuple(rows),
        "λ = 0 is purely graph, λ = 1 purely temporal. Geometric means over seeds with 95 % "
        "intervals where there are two. The floor holds for all models but the Transformer.",
    )


def _crossings_table(
    results: Sequence[Result], variants: Sequence[str], names: Sequence[str]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for variant in variants:
        if len(_shares(results, variant)) < 2:
            continue
        for name in names:
            at, without = crossing(results, variant, name)
            if name == PIVOT or at.count + without == 0:
                continue
            rows.append((variant, name, str(at) if at.count else "none", at.count, without))
    return Table(
        "Where the models cross the Transformer",
        ("variant", "model", "λ*", "seeds that cross", "seeds that do not"),
        tuple(rows),
        "λ* is where the error equals the Transformer's: mean over seeds with 95 % interval.",
    )


def _best_sentence(results: Sequence[Result], variants: Sequence[str], names: Sequence[str]) -> str:
    told = []
    for variant in variants:
        parts = []
        for share in _shares(results, variant):
            best = _best(results, variant, share, names)
            if best is not None:
                parts.append(f"λ = {share:g} {best[0]} ({best[1]})")
        told.append(f"{variant}: " + ", ".join(parts))
    return "The least error, over the variance, has: " + "; ".join(told) + "." if told else ""


def _crossing_sentence(results: Sequence[Result], names: Sequence[str]) -> str:
    told = []
    for name in names:
        at, without = crossing(results, _PLAIN, name)
        if name == PIVOT or at.count + without == 0:
            continue
        if at.count:
            told.append(f"the {name} at λ* = {at} ({at.count} of {at.count + without} seeds)")
        else:
            told.append(f"the {name} nowhere")
    return "In the order as it is, the Transformer is crossed by " + (
        ", ".join(told) + "." if told else "no model yet."
    )


def _figure(
    results: Sequence[Result], variants: Sequence[str], names: Sequence[str]
) -> list[Figure]:
    panels = []
    for variant in variants:
        shares = _shares(results, variant)
        series = []
        for name in names:
            found = [(share, _mean(results, variant, share, name)) for share in shares]
            found = [(share, one) for share, one in found if one.count]
            if found:
                series.append(
                    Series(
                        name,
                        tuple(share for share, _ in found),
                        tuple(one.value for _, one in found),
                        tuple(one.low for _, one in found),
                        tuple(one.high for _, one in found),
                        group=name,
                    )
                )
        floors = [(share, floor_of(results, variant, share)) for share in shares]
        known = [(share, floor[0]) for share, floor in floors if floor and floor[0] > 0]
        if known:
            xs, ys = zip(*known, strict=True)
            series.append(Series("floor of causal models", xs, ys, style="theory"))
        panels.append(
            Curves(
                f"order: {variant}" if variant != _CAUSAL else "past only",
                "λ: 0 graph, 1 temporal",
                "mean squared error / variance",
                tuple(series),
                y_scale="log",
            )
        )
    if not panels:
        return []
    caption = (
        "Errors at equal parameter count between a graph target (λ = 0) and a temporal one "
        "(λ = 1), the inputs in their order, with the first and last five exchanged, and with "
        "target and Transformer restricted to the past. " + _crossing_sentence(results, names)
    )
    return [Figure("ordering", "From graph to temporal", caption, tuple(panels))]
