"""Fig. 2: the logits' singular values of a ViT over images, head by head.

The paper shows violins for the first head of a ViT-B/16. Here the model is that of Fig. 3 with the
largest head size, trained four times as long, so that what is looked at has learned (quick: as in
Fig. 3, the same task). The first layer's first head is drawn as in the paper, the last layer's
beside it, and all heads are summed up, with and without what softmax cannot see, and beside the
untrained model. Muon, which trains them, moves weights by as much in every direction, so models
trained by AdamW are there to compare, with those of Fig. 3. The rules of the verdicts were written
before any result of the full preset was seen, but for the step of a share of heads, of which there
were fewer after a change of the model (docs/reproduction.md).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnrate.experiments import fig3
from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Preset,
    Result,
    Task,
    select,
)
from attnrate.experiments.fig3_read import ROUNDING
from attnrate.experiments.real_claims import decided, missing, untestable
from attnrate.experiments.real_work import recipe_of
from attnrate.figures.figure import Figure, Matrix, Panel, Table, Violins, violin_values
from attnrate.statistics import Interval, mean

#: In the label of a model that is there to compare optimisers: which one trained it
BESIDE, MUON, ADAMW = "beside", "Muon", "AdamW"
_EPOCHS = 4 * fig3.EPOCHS
#: "Concentrated": the deviation over images is at most so large a share of the mean
_SPREAD = 0.5
#: "Low rank": 99 % of the energy within so large a share of the head size
_SHARE = 0.25
#: Of all heads, this share must be of low rank
_MOST_HEADS = 0.9
#: A model with a larger test error has hardly learned anything that its spectra could tell of
_LEARNED = 0.6
_SHOWN = {"first": "first head of the first layer", "last": "first head of the last layer"}
_UNTRAINED = "The models have learned too little for a verdict."
_TOO_FEW = "One seed has no interval over seeds."


def tasks(preset: Preset) -> list[Task]:
    """Models that are trained for longer, and some to compare; quick has those of Fig. 3."""
    if preset == "quick":
        return fig3.largest_tasks(preset)
    beside = (
        (MUON, fig3.largest_tasks(preset)),
        (ADAMW, fig3.tasks_beside(recipe=recipe_of("rival"))),
    )
    return fig3.tasks_beside(epochs=_EPOCHS) + [
        replace(task, label={**task.label, BESIDE: optimizer})
        for optimizer, listed in beside
        for task in listed
    ]


def conclude(results: Sequence[Result]) -> Conclusion:
    """Violins of two heads, a map of all, and the claims."""
    why = missing(results)
    if why is not None:
        claims = untestable(_claims([]), why)
        return Conclusion((f"The images could not be had: {why}",), (), (), claims)
    found = [one for one in results if "spectra" in one.values]
    done = [one for one in found if BESIDE not in one.label]
    claims = _claims(done)
    if not done:
        return Conclusion(("No model of this experiment is finished.",), (), (), claims)
    one = done[0]
    return Conclusion(_paragraphs(found, claims), _figures(one), (_table(found),), claims)


def variation(head: dict[str, Any]) -> float:
    """Deviation over mean of σ_k over images, averaged with the energies of the mean spectrum."""
    energy = np.square(np.mean(head["groups"], 0))
    return float(np.average(head["variation"], weights=energy))


def low_rank_share(one: Result, which: str = "rank99") -> float:
    """The share of heads whose median rank is at most a quarter of m_h."""
    ranks = np.array(one.values["spectra"][which])
    return float((ranks <= _SHARE * one.label["m_h"]).mean())


def _step(done: Sequence[Result]) -> float:
    """What one dimension more or less makes."""
    return 1 / done[0].label["m_h"] if done else 0.0


def _shares(done: Sequence[Result], which: str) -> Interval:
    """Over seeds; one head of one seed more or less makes a step."""
    heads = sum(np.array(one.values["spectra"][which]).size for one in done)
    found = mean([low_rank_share(one, which) for one in done])
    return found.no_finer_than(1 / max(heads, 1)).within(0.0, 1.0)


def _learned(done: Sequence[Result]) -> bool:
    return bool(done) and max(one.values["test_error"] for one in done) <= _LEARNED


def _verdict(found: Interval, done: Sequence[Result], limit: float, below: bool) -> Verdict:
    """By the interval over seeds; models that have not learned leave it open."""
    if not _learned(done) or math.isnan(found.low):
        return "open"
    if below:
        return "holds" if found.high <= limit else "does not hold" if found.low > limit else "open"
    return "holds" if found.low >= limit else "does not hold" if found.high < limit else "open"


def _claims(done: Sequence[Result]) -> tuple[Claim, ...]:
    spread = mean([variation(one.values["spectra"]["first"]) for one in done])
    ranks = [one.values["spectra"]["first"]["rank99"][2] / one.label["m_h"] for one in done]
    rank = mean(ranks).no_finer_than(_step(done)).within(0.0, 1.0)
    heads, gauged, before = (
        _shares(done, which) for which in ("rank99", "rank99_gauged", "untrained_rank99")
    )
    epochs = {len(one.values["epochs"]) for one in done}
    errors = mean([one.values["test_error"] for one in done])
    after = f"After {min(epochs, default=0)} epochs, with a test error of {errors}."
    doubt = _UNTRAINED if not _learned(done) else _TOO_FEW if math.isnan(spread.low) else ""
    rows: tuple[tuple[str, str, Interval, float, bool, str], ...] = (
        (
            "fig2-concentrated",
            "The singular values of the attention matrix are concentrated over inputs.",
            spread,
            _SPREAD,
            True,
            "deviation over mean of σ_k over images, averaged by energy, first head: "
            f"{spread} (asked: at most {_SPREAD}).",
        ),
        (
            "fig2-first-head-low-rank",
            "The first head's logits have low rank: their singular values decay fast.",
            rank,
            _SHARE,
            True,
            "the rank that holds 99 % of the energy on 95 % of the images, as a share of m_h: "
            f"{rank} (asked: at most {_SHARE}).",
        ),
        (
            "fig2-all-heads-low-rank",
            "Low rank is there in practice: in all heads, not in one.",
            heads,
            _MOST_HEADS,
            False,
            f"share of heads whose rank at 99 % of the energy is at most m_h / 4: {heads} (asked: "
            f"{_MOST_HEADS}); without what softmax cannot see: {gauged}; before any training: "
            f"{before}.",
        ),
    )
    return tuple(
        Claim(
            name,
            "Sec. 5.2, Fig. 2",
            statement,
            "fig2",
            _verdict(found, done, limit, below),
            " ".join(filter(None, (evidence, after, doubt))) if done else "no model is finished.",
            *found.limits,
        )
        for name, statement, found, limit, below, evidence in rows
    )


def _paragraphs(found: Sequence[Result], claims: Sequence[Claim]) -> tuple[str, ...]:
    done = [one for one in found if BESIDE not in one.label]
    errors = mean([one.values["test_error"] for one in done])
    told = []
    for optimizer in (MUON, ADAMW):
        ours = select(found, **{BESIDE: optimizer})
        if ours:
            wrong = mean([one.values["test_error"] for one in ours])
            told.append(
                f"{_mean_rank(ours, 'rank99')} after {len(ours[0].values['epochs'])} epochs of "
                f"{optimizer}, {_mean_rank(ours, 'rank99_gauged')} with row means out, at a test "
                f"error of {wrong}"
            )
    untrained, trained = (_mean_rank(done, which) for which in ("untrained_rank99", "rank99"))
    ranks = (
        f" The mean rank at 99 % of all heads is {untrained} before training and {trained} after "
        f"{len(done[0].values['epochs'])} epochs of {MUON}"
        + "".join(f"; {part}" for part in told)
        + "."
    )
    return (
        f"Logits of trained ViTs ({len(done)} of them) with m_h = {done[0].label['m_h']} on test "
        f"images of CIFAR-10, test error {errors}; the paper has a ViT-B/16, ours is smaller. "
        "Singular values are those of the matrix that goes into softmax, over their length. "
        "Here rank is that of the median image." + ranks,
        decided(claims),
    )


def _figures(one: Result) -> tuple[Figure, ...]:
    spectra = one.values["spectra"]
    violins = [_violins(title, spectra[which]["values"]) for which, title in _SHOWN.items()]
    every = [
        _violins(f"layer {layer + 1}, head {head + 1}", values)
        for layer, row in enumerate(spectra["all"])
        for head, values in enumerate(row)
    ]
    maps: list[Panel] = [
        Matrix(
            title,
            "head",
            "layer",
            tuple(tuple(row) for row in spectra[which]),
            0,
            one.label["m_h"],
            "rank at 99 %",
        )
        for which, title in (
            ("untrained_rank99", "before training"),
            ("rank99", "trained"),
            ("rank99_gauged", "trained, row means out"),
        )
    ]
    return (
        Figure(
            "fig2-violins",
            "Singular values of the logits over images (Fig. 2)",
            f"Seed {one.label['seed']}, m_h = {one.label['m_h']}. A violin a singular value; "
            "values at the rounding of the arithmetic are left out.",
            tuple(violins),
        ),
        Figure(
            "fig2-every-head",
            "The largest singular values of every head over images",
            f"Seed {one.label['seed']}, as above for all heads.",
            tuple(every),
        ),
        Figure(
            "fig2-heads",
            "All heads: the rank that holds 99 % of the energy",
            "The median over images; shades reach up to m_h.",
            tuple(maps),
        ),
    )


def _violins(title: str, rows: Sequence[Sequence[float]]) -> Panel:
    """One violin a singular value."""
    values = tuple(violin_values(row) for row in rows)
    floor = ROUNDING * max(max(row) for row in values)
    count = sum(row[len(row) // 2] > floor for row in values)
    places = tuple(float(place) for place in range(1, count + 1))
    return Violins(title, "k", "σ_k / T", "over images", places, values[:count], y_scale="log")


def _mean_rank(ours: Sequence[Result], which: str) -> Interval:
    return mean([float(np.mean(one.values["spectra"][which])) for one in ours])


def _table(found: Sequence[Result]) -> Table:
    rows = []
    for one in found:
        spectra = one.values["spectra"]
        cells = [float(np.mean(spectra[key])) for key in ("rank99", "rank99_gauged")]
        before = float(np.mean(spectra["untrained_rank99"]))
        spread = [variation(spectra[which]) for which in _SHOWN]
        small = one.label.get(BESIDE)
        epochs = len(one.values["epochs"])
        label = (small or MUON, epochs, one.label["seed"], one.values["test_error"])
        rows.append((*label, *cells, before, *spread))
    return Table(
        f"Heads of the models with m_h = {found[0].label['m_h']}",
        (
            "trained by",
            "epochs",
            "seed",
            "test error",
            "mean rank at 99 %",
            "the same, row means out",
            "before training",
            "deviation / mean, first layer",
            "deviation / mean, last layer",
        ),
        tuple(rows),
        "Ranks are medians over images, averaged over all heads.",
    )


WORK: dict[str, Any] = {}
EXPERIMENT = Experiment(
    "fig2", "Singular values of a ViT's attention", "Sec. 5.2, Fig. 2", tasks, conclude
)
