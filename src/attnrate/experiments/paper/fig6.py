"""Fig. 6, selection (qSA): are the attention weights the index frequencies, and F̂∘f̂ = F∘f?

The paper trains Eq. 53 on sequences of 8 tokens, each with a value in the plane and 3 indices, and
finds the weights of Eq. 64 on the input of Eq. 66. We fit with F̂ a network, as in the paper, and
with F̂ linear, as F = id is. Weights are compared on thousands of fresh inputs and on the input of
Eq. 66. Every token carries its own position (see targets/graph.py).
"""

from collections.abc import Mapping
from dataclasses import replace

from attnrate.experiments.claims import Claim, Verdict, if_corrected
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results
from attnrate.experiments.kits import panels
from attnrate.experiments.kits.maps import Example, MapFit, Size, WholeOutcome, map_plan
from attnrate.experiments.kits.panels import MOST_MAE, Group, Kept, Number
from attnrate.figures.figure import Figure, Graph, Table
from attnrate.targets import selection_example

LENGTH, DIM, K = 8, 2, 3
#: ρ has rank 8; twice that gives the optimiser room
M_H = 16
READOUTS = {"network": "F̂ a network", "linear": "F̂ linear"}
SIZES: Mapping[Preset, Size] = {
    "quick": Size(1, 1600, 128, {"network": 34.0, "linear": 22.0}),
    "paper": Size(5, 4000, 128, {"network": 88.0, "linear": 52.0}),
}
#: Least weight of a link that is drawn: half of the smallest frequency, 1/3
_SHOWN = 0.5 / K
#: Height of the outputs above the inputs in the drawing, in positions
_HEIGHT = 5.0
_LOGARITHM = (
    "The frequencies are the attention weights; ρ is their logarithm, and -∞ where an index "
    "does not occur. They are 0, 1/3, 2/3 and 1; the text prints 1/2 instead of 1/3."
)
_LINEAR = "It holds with F̂ linear, as F = id is, but not in all fits with a network F̂."


class Frequencies(MapFit, work="fig6.fit"):
    """A fit whose weights are compared with frequencies, on fresh inputs and that of Eq. 66."""

    @property
    def case(self) -> str:
        """The name of its case in READOUTS."""
        return str(self.model["readout"])

    def run(self) -> WholeOutcome:
        """Fit the model and compare its weights with the frequencies."""
        shown = selection_example(self.seed)
        return self.measured(WholeOutcome, lambda done: done.all_rows(shown))


def plan(preset: Preset) -> Plan:
    """Plan a fit with each readout for every seed."""
    return map_plan(SIZES[preset], _fit)


def _fit(readout: str) -> Frequencies:
    return Frequencies(
        target={"kind": "selection", "length": LENGTH, "dim": DIM, "k": K},
        model={"kind": "transformer", "m_h": M_H, "readout": readout},
        recipe={"lr": 0.01},
    )


Groups = Mapping[str, Group[WholeOutcome]]


def conclude(results: Results) -> Conclusion:
    """Compare weights and F̂∘f̂ with the truth, on fresh inputs and on that of Eq. 66."""
    by = panels.grouped(results.of(Frequencies, WholeOutcome), READOUTS)
    return Conclusion(_paragraphs(by), _figures(by), (_table(by),), _claims(by))


def _example_mae(found: Group[WholeOutcome]) -> Number:
    """The mean |Â - A| on the input of Eq. 66."""
    return found.number(lambda one: None if one.example is None else one.example.mae)


def _claims(by: Groups) -> tuple[Claim, ...]:
    around = ("", f" (limit: at most {MOST_MAE}).")
    fresh = panels.weights_claim(
        (
            "fig6",
            "frequencies",
            "App. B.1, Eq. 64, Fig. 6(a)",
            "The attention matrix accurately reconstructs ρ, whose values are 0, 1/k, ..., 1.",
        ),
        by,
        panels.mae,
        _decided,
        around,
    )
    shown = panels.weights_claim(
        (
            "fig6",
            "example",
            "App. B.1, Eq. 66, Fig. 6",
            "On the input of Eq. 66 the attention recovers which inputs each output averages.",
        ),
        by,
        _example_mae,
        _decided,
        around,
    )
    if fresh.verdict in ("holds", "holds when corrected"):
        read = f"{_LOGARITHM} {fresh.correction}".strip()
        fresh = replace(fresh, verdict="holds when corrected", correction=read)
    off, against = "mean |Â - A|", "A the index frequencies"
    return (
        replace(fresh, evidence=f"{off} over fresh inputs, {against}: {fresh.evidence}"),
        replace(shown, evidence=f"{off} on the indices of Eq. 66, {against}: {shown.evidence}"),
        panels.pointwise_claim(
            ("fig6", "identity", "App. B.1, Fig. 6", "F̂∘f̂ is F∘f, the identity of the value."),
            by,
            _decided,
        ),
    )


def _decided(met: Mapping[str, Kept]) -> tuple[Verdict, str]:
    """Decide by every network F̂; a linear one may correct the claim."""
    said = panels.verdict(met["network"], met["linear"])
    return said, if_corrected(said, _LINEAR)


def _paragraphs(by: Groups) -> tuple[str, ...]:
    if not any(found.error.count for found in by.values()):
        return panels.nothing(panels.finished(by))
    parts = panels.sentences(
        by,
        lambda found: (
            f"with {found.words} the mean error of the weights is {panels.mae(found)} over fresh "
            f"inputs and {_example_mae(found)} on that of Eq. 66, at a mean squared error of "
            f"{found.error}"
        ),
    )
    return (
        f"Selection of {K} out of {LENGTH} values, m_h = {M_H} for a coupling of rank {LENGTH}: "
        f"{'; '.join(parts)}. Eq. 64 calls the frequencies ρ. But softmax turns ρ = log(frequency) "
        "into frequencies, so they are compared with the attention weights.",
    )


#: Title and caption of the figure of attention, and of that of the graph
_ATTENTION = (
    "Attention on the indices of Eq. 66 (Fig. 6a)",
    "Row t has the weights of the values that output t averages.",
)
_RECOVERED = (
    "The recovered graph and F̂∘f̂ (Fig. 6b)",
    f"Outputs above, inputs below, both by position, with links of weight {_SHOWN:.2g} or "
    "more. F̂∘f̂ over all fresh tokens, in bins.",
)


def _figures(by: Groups) -> tuple[Figure, ...]:
    words = _ATTENTION, _RECOVERED
    return panels.map_figures(
        "fig6", by, "true: index frequencies", _graph, "coordinates of the value", *words
    )


def _graph(words: str, shown: Example) -> Graph:
    outputs = {t: (float(t), _HEIGHT) for t in range(LENGTH)}
    inputs = {s: (float(s), 0.0) for s in range(LENGTH)}
    names = ("output", "input")
    return panels.links_panel(f"links, {words}", shown, outputs, inputs, _SHOWN, _SHOWN, names)


def _table(by: Groups) -> Table:
    return panels.case_table(
        "Selection: weights and invariants on fresh inputs",
        by,
        {
            "mean |Â - A|, fresh inputs": panels.mae,
            "mean |Â - A|, Eq. 66": _example_mae,
            "most frequent index has the largest weight": lambda found: panels.link(found).percent,
            "rms of F̂∘f̂ - F∘f": panels.rms,
        },
        "The largest weight is compared where the most frequent index is unique. Intervals are "
        "over seeds; for a single seed over inputs, where possible.",
    )


EXPERIMENT = Experiment(
    "fig6", "Selection: index frequencies as attention", "App. B.1, Fig. 6", 100, plan, conclude
)
