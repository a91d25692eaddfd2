"""Gravity: a graph task with its attention, before and after a permutation of the positions.

A review of the first version asked for a task with a known graph, such as gravity, its attention
patterns, and whether they change under a permutation. Body t attends to the bodies around it by
their softened pull. Without position encoding the trained attention must permute with the bodies,
exactly (App. A.1). With a learned one we train on the target and on the permuted one, H~(x∘p) =
H(x) of sec. 6.1, and compare errors, which Prop. 6.2 leads one to expect to be the same.
"""

from collections.abc import Mapping

import torch

from attnrate.experiments.claims import Claim, claim_of
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results
from attnrate.experiments.kits import maps, panels
from attnrate.experiments.kits.fits import paired
from attnrate.figures.figure import Figure, Table
from attnrate.statistics import geometric_mean

BODIES, DIM, M_H = 8, 2, 8
#: A fixed order that leaves no position where it is
PERMUTATION = (3, 6, 1, 7, 0, 2, 4, 5)
FITS = {
    "plain": "no position encoding, F̂ linear",
    "encoded": "learned encoding, F̂ a network",
    "permuted": "the same, permuted target",
}
SIZES: Mapping[Preset, maps.Size] = {
    "quick": maps.Size(1, 400, 32, {"plain": 6.0, "encoded": 7.5, "permuted": 8.0}),
    "paper": maps.Size(5, 2000, 128, {"plain": 36.0, "encoded": 50.0, "permuted": 50.0}),
}
#: Errors that differ by less than this factor count as the same
SAME_FACTOR = 2.0
#: What float64 leaves of an exact identity
ROUNDING = 1e-10
_PERMUTED_SEQUENCES = 256


class PullOutcome(maps.RowsOutcome):
    """The weights of all rows, what a permutation changes, and the example's weights after it."""

    equivariance: float | None = None
    after: maps.Entries = ()


class Pull(maps.MapFit, work="gravity.fit"):
    """A fit whose weights are held against the pull; then the bodies of its input change places."""

    @property
    def case(self) -> str:
        """Which of FITS it is."""
        if "permute" in self.target:
            return "permuted"
        return "plain" if self.model["readout"] == "linear" else "encoded"

    def run(self) -> PullOutcome:
        """Fit, compare and permute."""
        return self.measured(PullOutcome, _pull)


def plan(preset: Preset) -> Plan:
    """Without encoding, with it, and with it on the permuted target, for every seed."""
    return maps.map_plan(SIZES[preset], _fit)


def _fit(case: str) -> Pull:
    target: maps.Settings = {"kind": "gravity", "bodies": BODIES, "dim": DIM}
    model: maps.Settings = {"readout": "linear"} if case == "plain" else {"position": "learned"}
    return Pull(
        target={**target, "permute": list(PERMUTATION)} if case == "permuted" else target,
        model={"kind": "transformer", "m_h": M_H, **model},
        recipe={"lr": 0.01},
    )


def _pull(done: maps.Fitted) -> PullOutcome:
    shown = done.fresh(1)
    return PullOutcome(
        rows=done.measures(done.fresh()),
        equivariance=equivariance(done),
        example=done.example(shown),
        after=maps.entries(done.attentions(shown[:, list(PERMUTATION)])[0][0]),
    )


def equivariance(done: maps.Fitted) -> float:
    """The largest |Â(x∘p) - Â(x)∘p| of a weight when the bodies change places."""
    order = list(PERMUTATION)
    x = done.fresh(_PERMUTED_SEQUENCES)
    with torch.no_grad():
        before, after = done.model.attention(x), done.model.attention(x[:, order])
    return float((after - before[:, order][:, :, order]).abs().max())


Groups = Mapping[str, panels.Group[PullOutcome]]


def conclude(results: Results) -> Conclusion:
    """Weights, equivariance, and what the permuted target costs."""
    by = panels.grouped(results.of(Pull, PullOutcome), FITS)
    # the error on the permuted target over that on the original one, seed by seed
    ratios = paired(by["permuted"].fits, by["encoded"].fits, "seed")
    claims = (_attention_claim(by["plain"]), _equivariance_claim(by), _order_claim(by, ratios))
    return Conclusion(_paragraphs(by, ratios), _figures(by["plain"]), (_table(by),), claims)


def _largest(found: panels.Group[PullOutcome]) -> float | None:
    """The largest |Â(x∘p) - Â(x)∘p| of all fits."""
    return max(found.values(lambda one: one.equivariance), default=None)


def _attention_claim(plain: panels.Group[PullOutcome]) -> Claim:
    mae = panels.mae(plain)
    met = mae.at_most(panels.MOST_MAE)
    return claim_of(
        "gravity",
        "attention",
        "a review of the first version; App. B.1",
        "On a task with a known graph, the learned attention is that graph: here the pull of the "
        "bodies on each other.",
        met.verdict,
        f"mean |Â - A| over fresh inputs is {mae}{mae.seeds} without position encoding and with F̂ "
        f"linear (asked: at most {panels.MOST_MAE}); the strongest pull has the largest weight in "
        f"{panels.link(plain).percent}."
        if met.of
        else "the fit without position encoding is not finished.",
        mae,
    )


def _equivariance_claim(by: Groups) -> Claim:
    gap, encoded = _largest(by["plain"]), _largest(by["encoded"])
    beside = "" if encoded is None else f"; with a learned encoding it is {encoded:.2g}"
    return claim_of(
        "gravity",
        "equivariance",
        "App. A.1",
        "Without position encoding Ĥ(x∘p) = Ĥ(x)∘p: the attention permutes with the bodies.",
        panels.at_most([] if gap is None else [gap], ROUNDING).verdict,
        "the fit without position encoding is not finished."
        if gap is None
        else f"largest |Â(x∘p) - Â(x)∘p| of the trained model = {gap:.2g}{beside}.",
        gap,
    )


def _order_claim(by: Groups, ratios: list[float]) -> Claim:
    ratio = geometric_mean(ratios)
    met = panels.at_most(ratios, SAME_FACTOR)
    return claim_of(
        "gravity",
        "order",
        "Sec. 6.1, Prop. 6.2",
        "With position encoding the Transformer learns the permuted target H~(x∘p) = H(x) as well "
        "as H.",
        met.verdict,
        "one of the two fits is not finished."
        if not met.of
        else f"the error on the permuted target is {ratio} times that on the original one "
        f"({by['permuted'].error} against {by['encoded'].error}; same means at most "
        f"{SAME_FACTOR:g} times, which {met.count} of {met.of} seeds have).",
        ratio,
    )


def _paragraphs(by: Groups, ratios: list[float]) -> tuple[str, ...]:
    parts = [
        f"{found.words}: error {found.error}, weights off by {panels.mae(found)}"
        for found in by.values()
        if found
    ]
    if not parts:
        return panels.NOTHING
    said = f"Gravity with {BODIES} bodies in the plane, m_h = {M_H}. " + "; ".join(parts) + "."
    ratio, same = geometric_mean(ratios), panels.at_most(ratios, SAME_FACTOR)
    if same.verdict == "open":
        return (said,)
    if same.verdict == "holds":
        return (said, f"The permuted target is learned as well: the errors' ratio is {ratio}.")
    return (
        said,
        f"The permuted target has {ratio} times the error. The reason: output t needs the place of "
        "body t as its query, but position t now holds another body, and one layer of Eq. 5 takes "
        "its query from its own token. Prop. 6.2 needs a ρ whose query counts by its position "
        "only (see the experiment propositions); here it counts by its value, and the weights "
        "would have to depend on a body that is not their query.",
    )


def _figures(plain: panels.Group[PullOutcome]) -> tuple[Figure, ...]:
    shown = plain.shown
    if shown is None:
        return ()
    return (
        Figure(
            "gravity-attention",
            "Attention among eight bodies, before and after they change places",
            f"No position encoding, first fresh input of seed {shown.seed}; p = "
            f"{list(PERMUTATION)}, counted from 0. Rows and columns of the last panel are those of "
            "the second, permuted by p: the largest difference from that is "
            f"{shown.outcome.equivariance:.2g} over {_PERMUTED_SEQUENCES} inputs.",
            (
                panels.attention_panel("true weights", shown.example.true),
                panels.attention_panel("learned", shown.example.learned),
                panels.attention_panel("learned, bodies permuted", shown.outcome.after),
            ),
        ),
    )


def _table(by: Groups) -> Table:
    return panels.case_table(
        "Gravity: errors and weights",
        by,
        {
            "mean |Â - A|, fresh inputs": panels.mae,
            "strongest pull has the largest weight": lambda found: panels.link(found).percent,
            "largest |Â(x∘p) - Â(x)∘p|": _largest,
        },
        "A of the permuted target gives output t the weights of body t, wherever that body stands.",
        heading="fit",
    )


EXPERIMENT = Experiment(
    "gravity",
    "Gravity: attention before and after a permutation",
    "a review of the first version; App. A.1, sec. 6.1",
    120,
    plan,
    conclude,
)
