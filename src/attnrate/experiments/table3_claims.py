"""What the fits of Table 3 say: the table, the contrasts by both recipes, the claims."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Conclusion, Result
from attnrate.experiments.tables import (
    CORRECTED,
    MATTERS,
    RECIPES,
    Cell,
    by_seed,
    cells_figure,
    cells_table,
    contrast,
    contrasts_table,
    error_of_cell,
    exact_floor,
    harmless,
    printed,
    ratio_sentence,
    reached_sentence,
    seeds,
    worse,
)
from attnrate.fitting.build import build_target
from attnrate.statistics import Interval
from attnrate.targets import LinearTarget, UniformInputs

_PAIRS = (("RNN", "permuted", "original"), ("Transformer", "permuted", "original"))


def conclusion(
    results: Sequence[Result], cells: Sequence[Cell], targets: Mapping[str, Mapping[str, Any]]
) -> Conclusion:
    """All that can be said from the results at hand."""
    constant, offsets = simple_costs(targets["original"])
    table = cells_table(
        "Table 3 with both recipes",
        results,
        cells,
        targets,
        "Mean squared errors; geometric means over seeds with 95 % intervals, one kernel for all. "
        f"The best constant has the error {constant:.3g} on the original target, the best constant "
        f"for every t {offsets:.3g}. The floor is the least error of any linear RNN with offsets.",
    )
    ratios = contrasts_table("Contrasts of Table 3", results, cells, _PAIRS)
    claims = tuple(_claims(results, cells, targets))
    reached = reached_sentence(results, cells, targets)
    paragraphs = (
        f"{reached} The best constant has the error {constant:.3g} on this kernel, so the paper's "
        f"{printed(cells, 'RNN', 'original'):.3g} for the RNN is near to having learned nothing.",
        " ".join(f"{claim.statement} {claim.evidence}" for claim in claims),
    )
    figure = cells_figure(
        "table3",
        "Table 3 with both recipes",
        "Each cell of Table 3 by the paper's recipe (Adam) and by the strong one, with the paper's "
        f"own values and the exact floors of linear RNNs. {reached}",
        results,
        cells,
        targets,
    )
    return Conclusion(paragraphs, (figure,), (table, ratios), claims)


def simple_costs(target: Mapping[str, Any]) -> tuple[float, float]:
    """The error of the best constant, and of the best constant for every t, in closed form."""
    built = build_target(target)
    assert isinstance(built, LinearTarget)
    assert isinstance(built.inputs, UniformInputs)
    noise = built.inputs.variance[0] * np.square(built.matrix).sum(1).mean()
    means = built.inputs.mean[0] * built.matrix.sum(1)
    return float(noise + means.var()), float(noise)


def _claims(
    results: Sequence[Result], cells: Sequence[Cell], targets: Mapping[str, Mapping[str, Any]]
) -> list[Claim]:
    def strong(model: str, target: str) -> list[float]:
        return list(by_seed(results, model, target, "strong").values())

    def ratio(model: str) -> Interval:
        return contrast(results, model, "permuted", "original", "strong")

    learned = printed(cells, "Transformer", "original")
    rnn, transformer = strong("RNN", "original"), strong("Transformer", "original")
    hard: Verdict = "open"
    if rnn and max(rnn) <= learned:
        hard = "does not hold"
    elif rnn and min(rnn) >= printed(cells, "RNN", "original"):
        hard = "holds"
    can: Verdict = "holds" if transformer and max(transformer) <= learned else "open"
    floor = exact_floor(targets["permuted"], "RNN") or 0.0
    rnn_ratio = ratio("RNN")
    orderless: Verdict = "does not hold" if worse(rnn_ratio) and floor > 0.0 else "open"
    if rnn_ratio.high < MATTERS:
        orderless = "holds"
    by_transformer = harmless(
        ratio("Transformer"),
        strong("Transformer", "permuted"),
        learned,
        printed(cells, "Transformer", "permuted"),
    )
    return [
        _claim(
            "table3-rnn-cannot",
            "It is hard for the RNN to learn this target.",
            hard,
            _errors(results, cells, "RNN", "original"),
            error_of_cell(results, Cell("RNN", "original"), "strong"),
        ),
        _claim(
            "table3-transformer-can",
            "The Transformer can learn this target.",
            can,
            _errors(results, cells, "Transformer", "original"),
            error_of_cell(results, Cell("Transformer", "original"), "strong"),
        ),
        _claim(
            "table3-transformer-ordering",
            "A permutation of the input does not affect the Transformer's performance.",
            by_transformer,
            ratio_sentence(results, cells, "Transformer", "permuted"),
            ratio("Transformer"),
            CORRECTED if by_transformer == "holds when corrected" else "",
        ),
        _claim(
            "table3-no-temporal-ordering",
            "The target has no temporal ordering; the RNN's error is the same when it is permuted.",
            orderless,
            ratio_sentence(results, cells, "RNN", "permuted")
            + f" Permuted, no linear RNN is below {floor:.3g}; original, the floor is zero.",
            rnn_ratio,
        ),
    ]


def _claim(
    name: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    value: Interval,
    correction: str = "",
) -> Claim:
    place = "App. C, Table 3"
    return Claim(name, place, statement, "table3", verdict, evidence, *value.limits, correction)


def _errors(results: Sequence[Result], cells: Sequence[Cell], model: str, target: str) -> str:
    told = []
    for recipe in RECIPES:
        found = error_of_cell(results, Cell(model, target), recipe)
        if found.count:
            told.append(f"{found} by the recipe {recipe} ({seeds(found.count)})")
    said = ", ".join(told) if told else "not measured yet"
    return f"Its error is {said}; in the paper {printed(cells, model, target):.3g}."
