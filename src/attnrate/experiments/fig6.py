"""Fig. 6, selection (qSA): are the attention weights the index frequencies, and F̂∘f̂ = F∘f?

The paper trains Eq. 53 on sequences of 8 tokens, each with a value in the plane and 3 indices, and
finds the weights of Eq. 64 on the input of Eq. 66. We fit with F̂ a network, as in the paper, and
with F̂ linear, which F = id is, and compare weights on thousands of fresh inputs as well as on that
input. Every token carries its own position (see targets/graph.py).
"""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments.attention_maps import (
    Case,
    MapSettings,
    example,
    map_tasks,
    measured,
    measures,
    pointwise,
)
from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Preset,
    Result,
    Task,
    select,
)
from attnrate.experiments.map_panels import (
    MOST_MAE,
    at_most,
    attention_panel,
    first,
    number,
    percent,
    pointwise_panel,
    recovered,
    seeds_text,
    values_of,
    verdict,
)
from attnrate.figures.figure import Figure, Graph, Panel, Table
from attnrate.fitting.trial import Trial
from attnrate.targets import selection_example

LENGTH, DIM, K = 8, 2, 3
#: ρ has rank 8; twice that leaves the optimiser room
M_H = 16
READOUTS = {"network": "F̂ a network", "linear": "F̂ linear"}
#: Links that are drawn: half of the smallest frequency, 1/3
_SHOWN = 0.5 / K
#: How far above the inputs the outputs are drawn, in positions
_HEIGHT = 5.0
_LINEAR = "With F̂ linear, as F = id is; the fits with a network F̂ miss it."


QUICK = MapSettings(1, 1600, 128, {"network": 34.0, "linear": 22.0})
PAPER = MapSettings(5, 4000, 128, {"network": 88.0, "linear": 52.0})


def tasks(preset: Preset) -> list[Task]:
    """Both readouts for every seed."""
    return map_tasks("fig6.fit", QUICK if preset == "quick" else PAPER, "readout", _case)


def _case(readout: str) -> Case:
    return Case(
        {"kind": "selection", "length": LENGTH, "dim": DIM, "k": K},
        {"kind": "transformer", "m_h": M_H, "readout": readout},
    )


def fit_frequencies(trial: Trial) -> dict[str, Any]:
    """Fit, then compare weights on fresh inputs and on the input of Eq. 66."""
    return measured(
        trial,
        lambda done, x: {
            "rows": measures(done.model, done.target, x),
            "pointwise": pointwise(done.model, done.target, x.flatten(0, 1)),
            "example": example(done.model, done.target, selection_example(trial.seed)),
        },
    )


def conclude(results: Sequence[Result]) -> Conclusion:
    """Weights on fresh inputs and on that of Eq. 66, and F̂∘f̂."""
    by = {readout: select(results, readout=readout) for readout in READOUTS}
    claims = (_frequencies_claim(by), _example_claim(by), _identity_claim(by))
    return Conclusion(_paragraphs(by), _figures(by), (_table(by),), claims)


def _weights(by: dict[str, list[Result]], *path: str) -> tuple[Verdict, str]:
    """Whether the weights are within MOST_MAE, and a text with the numbers."""
    found = {readout: number(results, *path) for readout, results in by.items()}
    met = {readout: at_most(values_of(results, *path), MOST_MAE) for readout, results in by.items()}
    parts = [
        f"{each} with {READOUTS[readout]}{seeds_text(by[readout], *path)}"
        for readout, each in found.items()
        if each.count
    ]
    text = f"{'; '.join(parts)} (asked: at most {MOST_MAE})." if parts else "no fit is finished."
    return verdict(met["network"], met["linear"]), text


def _frequencies_claim(by: dict[str, list[Result]]) -> Claim:
    decided, text = _weights(by, "rows", "mae")
    correction = (
        "The frequencies are the attention weights; ρ is their logarithm, and -∞ where an index "
        "does not occur. They are 0, 1/3, 2/3, 1, where the text prints 1/2 for 1/3."
    )
    if decided == "holds when corrected":
        correction += f" {_LINEAR}"
    met = decided in ("holds", "holds when corrected")
    return Claim(
        "fig6-frequencies",
        "App. B.1, Eq. 64, Fig. 6(a)",
        "The attention matrix accurately reconstructs ρ, whose values are 0, 1/k, ..., 1.",
        "fig6",
        "holds when corrected" if met else decided,
        f"mean |Â - A| over fresh inputs, A the index frequencies: {text}",
        *number(by["network"], "rows", "mae").limits,
        correction=correction if met else "",
    )


def _example_claim(by: dict[str, list[Result]]) -> Claim:
    decided, text = _weights(by, "example", "mae")
    return Claim(
        "fig6-example",
        "App. B.1, Eq. 66, Fig. 6",
        "On the input of Eq. 66 the attention recovers which inputs each output averages.",
        "fig6",
        decided,
        f"mean |Â - A| on the indices of Eq. 66, A the index frequencies: {text}",
        *number(by["network"], "example", "mae").limits,
        correction=_LINEAR if decided == "holds when corrected" else "",
    )


def _identity_claim(by: dict[str, list[Result]]) -> Claim:
    met, text = recovered(by, READOUTS)
    decided = verdict(met["network"], met["linear"])
    return Claim(
        "fig6-identity",
        "App. B.1, Fig. 6",
        "F̂∘f̂ is F∘f, the identity of the value.",
        "fig6",
        decided,
        text,
        *number(by["network"], "pointwise", "rms").limits,
        correction=_LINEAR if decided == "holds when corrected" else "",
    )


def _paragraphs(by: dict[str, list[Result]]) -> tuple[str, ...]:
    parts = [
        f"with {READOUTS[readout]} the weights are off by {number(found, 'rows', 'mae')} over "
        f"fresh inputs and by {number(found, 'example', 'mae')} on that of Eq. 66, at a mean "
        f"squared error of {number(found, 'error')}"
        for readout, found in by.items()
        if found
    ]
    if not parts:
        return ("No fit of this experiment is finished.",)
    return (
        f"Selection of {K} out of {LENGTH} values, m_h = {M_H} for a coupling of rank {LENGTH}: "
        f"{'; '.join(parts)}. Eq. 64 calls the frequencies ρ; softmax makes them of ρ = "
        "log(frequency), so they are what attention is to be held against.",
    )


def _figures(by: dict[str, list[Result]]) -> tuple[Figure, ...]:
    shown = {readout: one for readout, found in by.items() if (one := first(found)) is not None}
    if not shown:
        return ()
    matrices: list[Panel] = [
        attention_panel(f"learned, {READOUTS[readout]}", one.values["example"]["learned"])
        for readout, one in shown.items()
    ]
    a_true = next(iter(shown.values())).values["example"]["true"]
    matrices.append(attention_panel("true: index frequencies", a_true))
    graphs: list[Panel] = [
        _graph(READOUTS[readout], one.values["example"]) for readout, one in shown.items()
    ]
    curves = {READOUTS[readout]: one.values["pointwise"]["curve"] for readout, one in shown.items()}
    graphs.append(pointwise_panel("F̂∘f̂ on random tokens", curves, "coordinates of the value"))
    return (
        Figure(
            "fig6-attention",
            "Attention on the indices of Eq. 66 (Fig. 6a)",
            "Row t holds the weights of the values that output t averages.",
            tuple(matrices),
        ),
        Figure(
            "fig6-graph",
            "The recovered graph and F̂∘f̂ (Fig. 6b)",
            f"Outputs above, inputs below, both by position, with links of weight {_SHOWN:.2g} and "
            "more. F̂∘f̂ over all fresh tokens, in bins.",
            tuple(graphs),
        ),
    )


def _graph(title: str, shown: dict[str, Any]) -> Graph:
    links, right = [], []
    for t, row in enumerate(shown["learned"]):
        for s, weight in enumerate(row):
            if weight >= _SHOWN:
                links.append((t, s, float(weight)))
                right.append(shown["true"][t][s] >= _SHOWN)
    return Graph(
        f"links, {title}",
        tuple((float(t), _HEIGHT) for t in range(LENGTH)),
        tuple((float(s), 0.0) for s in range(LENGTH)),
        tuple(links),
        tuple(right),
        "output",
        "input",
    )


def _table(by: dict[str, list[Result]]) -> Table:
    rows = tuple(
        (
            READOUTS[readout],
            len(found),
            str(number(found, "error")),
            str(number(found, "rows", "mae")),
            str(number(found, "example", "mae")),
            percent(number(found, "rows", "link")),
            str(number(found, "pointwise", "rms")),
        )
        for readout, found in by.items()
        if found
    )
    return Table(
        "Selection: weights and invariants on fresh inputs",
        (
            "F̂",
            "seeds",
            "mean squared error",
            "mean |Â - A|, fresh inputs",
            "mean |Â - A|, Eq. 66",
            "most frequent index has the largest weight",
            "rms of F̂∘f̂ - F∘f",
        ),
        rows,
        "The largest weight is compared where the most frequent index is unique. Intervals are "
        "over seeds; of a single seed, over inputs where that is possible.",
    )


WORK = {"fit": fit_frequencies}
EXPERIMENT = Experiment(
    "fig6", "Selection: index frequencies as attention", "App. B.1, Fig. 6", tasks, conclude
)
