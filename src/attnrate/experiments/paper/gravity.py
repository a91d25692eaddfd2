"""Gravity: a graph task with its attention, before and after a permutation of the positions.

A review of the paper's first version asked for a task with a known graph, such as gravity, for its
attention patterns, and whether they change under a permutation. Body t attends to the other bodies
by their softened pull. Without position encoding the trained attention must permute with the
bodies, exactly (App. A.1). With a learned encoding we train on the target and on the permuted
target, H~(x∘p) = H(x) of Sec. 6.1, and compare errors; by Prop. 6.2 one expects them to be equal.
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
    "plain": "no position encoding and F̂ linear",
    "encoded": "a learned encoding and F̂ a network",
    "permuted": "a learned encoding, F̂ a network and the permuted target",
}
SIZES: Mapping[Preset, maps.Size] = {
    "quick": maps.Size(1, 400, 32, {"plain": 6.0, "encoded": 7.5, "permuted": 8.0}),
    "paper": maps.Size(5, 2000, 128, {"plain": 36.0, "encoded": 50.0, "permuted": 50.0}),
}
#: Errors that differ by less than this factor count as the same
SAME_FACTOR = 2.0
#: Rounding error in float64 of an exact identity
ROUNDING = 1e-10
_PERMUTED_SEQUENCES = 256


class PullOutcome(maps.RowsOutcome):
    """The weights of all rows, the effect of a permutation, and the example's weights after it.

    `equivariance` is the largest |Â(x∘p) - Â(x)∘p|, `after` the learned weights of the example
    with its bodies permuted.
    """

    equivariance: float | None = None
    after: maps.Entries = ()


class Pull(maps.MapFit, work="gravity.fit"):
    """A fit whose weights are compared with the pull, before and after a permutation of bodies."""

    @property
    def case(self) -> str:
        """The name of its case in FITS."""
        if "permute" in self.target:
            return "permuted"
        return "plain" if self.model["readout"] == "linear" else "encoded"

    def run(self) -> PullOutcome:
        """Fit the model, compare its weights, and permute the bodies."""
        return self.measured(PullOutcome, _pull)


def plan(preset: Preset) -> Plan:
    """Plan fits without encoding, with it, and with it on the permuted target, for every seed."""
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
    """The largest |Â(x∘p) - Â(x)∘p| over the weights of fresh inputs."""
    order = list(PERMUTATION)
    x = done.fresh(_PERMUTED_SEQUENCES)
    with torch.no_grad():
        before, after = done.model.attention(x), done.model.attention(x[:, order])
    return float((after - before[:, order][:, :, order]).abs().max())


Groups = Mapping[str, panels.Group[PullOutcome]]


def conclude(results: Results) -> Conclusion:
    """Compare the weights, test equivariance, and compare errors on the permuted target."""
    by = panels.grouped(results.of(Pull, PullOutcome), FITS)
    # the error on the permuted target over that on the original one, seed by seed
    ratios = paired(by["permuted"].fits, by["encoded"].fits, "seed")
    claims = (_attention_claim(by["plain"]), _equivariance_claim(by), _order_claim(by, ratios))
    return Conclusion(_paragraphs(by, ratios), _figures(by["plain"]), (_table(by),), claims)


def _largest(found: panels.Group[PullOutcome]) -> float | None:
    """The largest |Â(x∘p) - Â(x)∘p| of all fits; None if there are none."""
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
        f"linear (limit: at most {panels.MOST_MAE}); the strongest pull has the largest weight in "
        f"{panels.link(plain).percent} of the rows."
        if met.of
        else _without(plain),
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
        _without(by["plain"])
        if gap is None
        else f"largest |Â(x∘p) - Â(x)∘p| of the trained model = {gap:.2g}{beside}.",
        gap,
    )


def _without(found: panels.Group[PullOutcome]) -> str:
    """Say why there is no error of a case: all of its fits diverged, or none is finished."""
    if found.diverged:
        return f"every fit with {found.words} diverged."
    return f"no fit with {found.words} is finished."


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
        _without(by["permuted"] if by["encoded"].error.count else by["encoded"])
        if not met.of
        else f"the error on the permuted target is {ratio} times that on the original one "
        f"({by['permuted'].error} against {by['encoded'].error}; a factor of at most "
        f"{SAME_FACTOR:g} counts as equal: {met.count} of {met.of} seeds).",
        ratio,
    )


def _paragraphs(by: Groups, ratios: list[float]) -> tuple[str, ...]:
    if not any(found.error.count for found in by.values()):
        return panels.nothing(panels.finished(by))
    parts = panels.sentences(
        by,
        lambda found: (
            f"with {found.words} the error is {found.error} and the mean error of the weights is "
            f"{panels.mae(found)}"
        ),
    )
    said = f"Gravity with {BODIES} bodies in the plane, m_h = {M_H}: " + "; ".join(parts) + "."
    ratio, same = geometric_mean(ratios), panels.at_most(ratios, SAME_FACTOR)
    if same.verdict == "open":
        return (said,)
    if same.verdict == "holds":
        return (
            said,
            f"The permuted target is learned equally well: the ratio of the errors is {ratio}.",
        )
    return (
        said,
        f"The permuted target has {ratio} times the error. The reason: output t needs the place of "
        "body t as its query, but position t now holds another body, and one layer of Eq. 5 takes "
        "the query from the token at its own position. Prop. 6.2 needs a ρ whose query depends on "
        "its position only (see the experiment propositions). Here it depends on the value of the "
        "token, and the weights would have to depend on a body that is not the query.",
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
            f"{list(PERMUTATION)}, counted from 0. The last panel is the second one with rows and "
            "columns permuted by p: over "
            f"{_PERMUTED_SEQUENCES} inputs the largest difference is "
            f"{shown.outcome.equivariance:.2g}.",
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
        "In the permuted target output t has the weights of body t, at whatever position it is.",
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
