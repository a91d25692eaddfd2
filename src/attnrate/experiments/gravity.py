"""Gravity: a graph task with its attention, before and after a permutation of the positions.

A review of the first version asked for a task with a known graph, such as gravity, its attention
patterns, and whether they change under a permutation. Body t attends to the bodies around it by
their softened pull. Without position encoding the trained attention must permute with the bodies,
exactly (App. A.1). With a learned one we train on the target and on the permuted one, H~(x∘p) =
H(x) of sec. 6.1, and compare errors, which Prop. 6.2 leads one to expect to be the same.
"""

from collections.abc import Sequence
from typing import Any

import torch

from attnrate.experiments.attention_maps import (
    Case,
    Fitted,
    MapSettings,
    attentions,
    example,
    fresh,
    map_tasks,
    matrix,
    measured,
    measures,
)
from attnrate.experiments.claims import Claim
from attnrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Preset,
    Result,
    Task,
    paired,
    select,
)
from attnrate.experiments.map_panels import (
    MOST_MAE,
    at_most,
    attention_panel,
    first,
    number,
    percent,
    seeds_text,
    values_of,
)
from attnrate.figures.figure import Figure, Table
from attnrate.fitting.trial import Trial
from attnrate.statistics import geometric_mean

BODIES, DIM, M_H = 8, 2, 8
#: A fixed order that leaves no position where it is
PERMUTATION = (3, 6, 1, 7, 0, 2, 4, 5)
FITS = {
    "plain": "no position encoding, F̂ linear",
    "encoded": "learned encoding, F̂ a network",
    "permuted": "the same, permuted target",
}
#: Errors that differ by less than this factor count as the same
SAME_FACTOR = 2.0
#: What float64 leaves of an exact identity
ROUNDING = 1e-10
_PERMUTED_SEQUENCES = 256


QUICK = MapSettings(1, 400, 32, {"plain": 6.0, "encoded": 7.5, "permuted": 8.0})
PAPER = MapSettings(5, 2000, 128, {"plain": 36.0, "encoded": 50.0, "permuted": 50.0})


def tasks(preset: Preset) -> list[Task]:
    """Without encoding, with it, and with it on the permuted target, for every seed."""
    return map_tasks("gravity.fit", QUICK if preset == "quick" else PAPER, "fit", _case)


def _case(name: str) -> Case:
    target = {"kind": "gravity", "bodies": BODIES, "dim": DIM}
    model = {"kind": "transformer", "m_h": M_H}
    return {
        "plain": Case(target, {**model, "readout": "linear"}),
        "encoded": Case(target, {**model, "position": "learned"}),
        "permuted": Case(
            {**target, "permute": list(PERMUTATION)}, {**model, "position": "learned"}
        ),
    }[name]


def fit_gravity(trial: Trial) -> dict[str, Any]:
    """Fit, compare weights on fresh inputs, and permute the bodies of the trained model's input."""

    def look(done: Fitted, x: torch.Tensor) -> dict[str, Any]:
        model, target = done.model, done.target
        shown = fresh(target, trial.seed, 1)
        return {
            "rows": measures(model, target, x),
            "equivariance": equivariance(done, trial.seed),
            "example": example(model, target, shown),
            "after": matrix(attentions(model, target, shown[:, list(PERMUTATION)])[0][0]),
        }

    return measured(trial, look)


def equivariance(done: Fitted, seed: int) -> float:
    """The largest |Â(x∘p) - Â(x)∘p| of a weight when the bodies change places."""
    order = list(PERMUTATION)
    x = fresh(done.target, seed, _PERMUTED_SEQUENCES)
    with torch.no_grad():
        before, after = done.model.attention(x), done.model.attention(x[:, order])
    return float((after - before[:, order][:, :, order]).abs().max())


def conclude(results: Sequence[Result]) -> Conclusion:
    """Weights, equivariance, and what the permuted target costs."""
    by = {name: select(results, fit=name) for name in FITS}
    # the error on the permuted target over that on the original one, seed by seed
    ratios = paired(by["permuted"], by["encoded"], "seed")
    claims = (_attention_claim(by), _equivariance_claim(by), _order_claim(by, ratios))
    return Conclusion(_paragraphs(by, ratios), _figures(by), (_table(by),), claims)


def _attention_claim(by: dict[str, list[Result]]) -> Claim:
    mae = number(by["plain"], "rows", "mae")
    met = at_most(values_of(by["plain"], "rows", "mae"), MOST_MAE)
    return Claim(
        "gravity-attention",
        "a review of the first version; App. B.1",
        "On a task with a known graph, the learned attention is that graph: here the pull of the "
        "bodies on each other.",
        "gravity",
        met.verdict,
        f"mean |Â - A| over fresh inputs is {mae}{seeds_text(by['plain'], 'rows', 'mae')} without "
        f"position encoding and with F̂ linear (asked: at most {MOST_MAE}); the strongest pull has "
        f"the largest weight in {percent(number(by['plain'], 'rows', 'link'))}."
        if met.of
        else "the fit without position encoding is not finished.",
        *mae.limits,
    )


def _equivariance_claim(by: dict[str, list[Result]]) -> Claim:
    gaps = {name: _largest(by[name]) for name in ("plain", "encoded")}
    gap = gaps["plain"]
    beside = (
        f"; with a learned encoding it is {gaps['encoded']:.2g}"
        if gaps["encoded"] is not None
        else ""
    )
    return Claim(
        "gravity-equivariance",
        "App. A.1",
        "Without position encoding Ĥ(x∘p) = Ĥ(x)∘p: the attention permutes with the bodies.",
        "gravity",
        "open" if gap is None else "holds" if gap <= ROUNDING else "does not hold",
        "the fit without position encoding is not finished."
        if gap is None
        else f"largest |Â(x∘p) - Â(x)∘p| of the trained model = {gap:.2g}{beside}.",
        gap,
    )


def _largest(results: list[Result]) -> float | None:
    found = [one.values["equivariance"] for one in results if "equivariance" in one.values]
    return max(found, default=None)


def _order_claim(by: dict[str, list[Result]], ratios: list[float]) -> Claim:
    ratio = geometric_mean(ratios)
    met = at_most(ratios, SAME_FACTOR)
    return Claim(
        "gravity-order",
        "Sec. 6.1, Prop. 6.2",
        "With position encoding the Transformer learns the permuted target H~(x∘p) = H(x) as well "
        "as H.",
        "gravity",
        met.verdict,
        "one of the two fits is not finished."
        if not met.of
        else f"the error on the permuted target is {ratio} times that on the original one "
        f"({number(by['permuted'], 'error')} against {number(by['encoded'], 'error')}; same means "
        f"at most {SAME_FACTOR:g} times, which {met.count} of {met.of} seeds have).",
        *ratio.limits,
    )


def _paragraphs(by: dict[str, list[Result]], ratios: list[float]) -> tuple[str, ...]:
    parts = [
        f"{words}: error {number(by[name], 'error')}, weights off by "
        f"{number(by[name], 'rows', 'mae')}"
        for name, words in FITS.items()
        if by[name]
    ]
    if not parts:
        return ("No fit of this experiment is finished.",)
    said = f"Gravity with {BODIES} bodies in the plane, m_h = {M_H}. " + "; ".join(parts) + "."
    ratio, same = geometric_mean(ratios), at_most(ratios, SAME_FACTOR)
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


def _figures(by: dict[str, list[Result]]) -> tuple[Figure, ...]:
    one = first(by["plain"])
    if one is None:
        return ()
    shown = one.values["example"]
    return (
        Figure(
            "gravity-attention",
            "Attention among eight bodies, before and after they change places",
            f"No position encoding, first fresh input of seed {one.label['seed']}; p = "
            f"{list(PERMUTATION)}, counted from 0. Rows and columns of the last panel are those of "
            "the second, permuted by p: the largest difference from that is "
            f"{one.values['equivariance']:.2g} over {_PERMUTED_SEQUENCES} inputs.",
            (
                attention_panel("true weights", shown["true"]),
                attention_panel("learned", shown["learned"]),
                attention_panel("learned, bodies permuted", one.values["after"]),
            ),
        ),
    )


def _table(by: dict[str, list[Result]]) -> Table:
    rows = tuple(
        (
            words,
            len(by[name]),
            str(number(by[name], "error")),
            str(number(by[name], "rows", "mae")),
            percent(number(by[name], "rows", "link")),
            _largest(by[name]),
        )
        for name, words in FITS.items()
        if by[name]
    )
    return Table(
        "Gravity: errors and weights",
        (
            "fit",
            "seeds",
            "mean squared error",
            "mean |Â - A|, fresh inputs",
            "strongest pull has the largest weight",
            "largest |Â(x∘p) - Â(x)∘p|",
        ),
        rows,
        "A of the permuted target gives output t the weights of body t, wherever that body stands.",
    )


WORK = {"fit": fit_gravity}
EXPERIMENT = Experiment(
    "gravity",
    "Gravity: attention before and after a permutation",
    "a review of the first version; App. A.1, sec. 6.1",
    tasks,
    conclude,
)
