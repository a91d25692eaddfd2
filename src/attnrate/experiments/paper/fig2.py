"""Fig. 2: the singular values of a ViT's logits over images, for every head.

The paper shows violins for the first head of a ViT-B/16. The model here is that of Fig. 3 with the
largest head size, trained four times as long, so that it has learned something (quick: the same job
as in Fig. 3). The first head of the first layer is drawn as in the paper, and that of the last
layer beside it. All heads are summarised with and without the softmax gauge, and before training.
Muon, which trains these models, changes the weights equally in all directions; models trained with
AdamW are therefore compared with those of Fig. 3. The rules of the verdicts were written before any
result of the full preset was seen, except for the step of a share of heads: a change of the model
reduced their number (docs/reproduction.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnrate.experiments.claims import Claim, Verdict, at_least, at_most, claim_of, decided
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results, unfinished
from attnrate.experiments.kits import images
from attnrate.experiments.kits.fits import table_of
from attnrate.experiments.kits.real import ADAMW
from attnrate.figures.figure import Figure, Matrix, Panel, Table, Violins, violin_values
from attnrate.statistics import Interval, mean

_EPOCHS = 4 * images.EPOCHS
#: "Concentrated": the standard deviation over images is at most this share of the mean
_SPREAD = 0.5
#: "Low rank": the rank that holds 99 % of the energy is at most this share of the head size
_SHARE = 0.25
#: At least this share of all heads must have low rank
_MOST_HEADS = 0.9
#: A model with a larger test error has learned too little for its spectra to mean anything
_LEARNED = 0.6
_OPTIMIZERS = {"muon": "Muon", "adamw": "AdamW"}
#: The reported ranks of all heads: trained, trained under the softmax gauge, untrained
Ranks = Callable[[images.Spectra], images.Heads]
RANKS: Mapping[str, Ranks] = {
    "trained": lambda spectra: spectra.rank99,
    "trained, row means out": lambda spectra: spectra.rank99_gauged,
    "before training": lambda spectra: spectra.untrained_rank99,
}
_UNTRAINED = "The models have learned too little for a verdict."
_TOO_FEW = "A single seed has no interval."


def plan(preset: Preset) -> Plan:
    """Plan models that train longer, and models to compare with; quick has those of Fig. 3."""
    if preset == "quick":
        return images.largest_jobs(preset)
    seeds, m_h = range(images.PRESETS[preset].seeds), images.PRESETS[preset].sizes[-1]
    longer = [images.image_job(preset, m_h, seed, epochs=_EPOCHS, profiled=True) for seed in seeds]
    adamw = [images.image_job(preset, m_h, seed, recipe=ADAMW, profiled=True) for seed in seeds]
    return [*longer, *images.largest_jobs(preset), *adamw]


def conclude(results: Results) -> Conclusion:
    """Draw violins of two heads and a map of all heads, and decide the claims."""
    found = images.profiled(results)
    done = [one for one in found if not beside(one)]
    claims = _claims(done)
    if not done:
        return unfinished(results, claims, "images")
    return Conclusion(_paragraphs(found, done, claims), _figures(done[0]), (_table(found),), claims)


def beside(one: images.Profiled) -> bool:
    """Whether a model is for comparing optimisers: it was trained as long as those of Fig. 3."""
    return one.job.image.epochs == images.EPOCHS


def variation(head: images.FirstHead) -> float:
    """The relative deviation of σ_k over images, averaged over k with weights σ_k²."""
    energy = np.square(np.mean(head.groups, 0))
    return float(np.average(head.variation, weights=energy))


def _low_rank_heads(done: Sequence[images.Profiled], ranks: Ranks) -> Interval:
    """The share of heads whose median rank is at most a quarter of m_h: mean over seeds.

    Its interval is at least as wide as the step that one head of one seed makes.
    """
    low = [np.array(ranks(one.spectra)) <= _SHARE * one.m_h for one in done]
    heads = sum(each.size for each in low)
    shares = mean([float(each.mean()) for each in low])
    return shares.no_finer_than(1 / max(heads, 1)).within(0.0, 1.0)


def _claims(done: Sequence[images.Profiled]) -> tuple[Claim, ...]:
    learned = bool(done) and max(one.found.test_error for one in done) <= _LEARNED
    spread = mean([variation(one.spectra.first) for one in done])
    step = 1 / done[0].m_h if done else 0.0  # the change that one dimension makes
    ranks = [one.spectra.first.rank99[2] / one.m_h for one in done]
    rank = mean(ranks).no_finer_than(step).within(0.0, 1.0)
    heads, gauged, before = (_low_rank_heads(done, ranks) for ranks in RANKS.values())
    epochs = min((len(one.found.epochs) for one in done), default=0)
    after = f"After {epochs} epochs, with a test error of {_test_error(done)}."
    doubt = _UNTRAINED if not learned else _TOO_FEW if math.isnan(spread.low) else ""

    def claim(name: str, statement: str, found: Interval, verdict: Verdict, evidence: str) -> Claim:
        said = " ".join(filter(None, (evidence, after, doubt))) if done else "no model is finished."
        decided = verdict if learned else "open"
        return claim_of("fig2", name, "Sec. 5.2, Fig. 2", statement, decided, said, found)

    return (
        claim(
            "concentrated",
            "The singular values of the attention matrix are concentrated over inputs.",
            spread,
            at_most(spread, _SPREAD),
            "relative standard deviation of σ_k over images in the first head, averaged with "
            f"weights σ_k²: {spread} (limit: at most {_SPREAD}).",
        ),
        claim(
            "first-head-low-rank",
            "The first head's logits have low rank: their singular values decay fast.",
            rank,
            at_most(rank, _SHARE),
            "the rank that holds 99 % of the energy for 95 % of the images, as a share of m_h: "
            f"{rank} (limit: at most {_SHARE}).",
        ),
        claim(
            "all-heads-low-rank",
            "Low rank is found in practice: in all heads, not in one only.",
            heads,
            at_least(heads, _MOST_HEADS),
            f"share of heads whose rank at 99 % of the energy is at most m_h / 4: {heads} (limit: "
            f"at least {_MOST_HEADS}); under the softmax gauge: {gauged}; before training: "
            f"{before}.",
        ),
    )


def _paragraphs(
    found: Sequence[images.Profiled], done: Sequence[images.Profiled], claims: Sequence[Claim]
) -> tuple[str, ...]:
    def ranks(ours: Sequence[images.Profiled]) -> list[Interval]:
        """For each entry of RANKS the mean rank of all heads, averaged over models."""
        return [mean([float(np.mean(of(one.spectra))) for one in ours]) for of in RANKS.values()]

    trained, _, untrained = ranks(done)
    wording = (
        f" The mean rank over all heads is {untrained} before training and {trained} after "
        f"{len(done[0].found.epochs)} epochs of {_trained_by(done[0])}"
    )
    for optimizer in _OPTIMIZERS.values():
        ours = [one for one in found if beside(one) and _trained_by(one) == optimizer]
        if ours:
            trained, gauged, _ = ranks(ours)
            wording += (
                f"; {trained} after {len(ours[0].found.epochs)} epochs of {optimizer}, {gauged} "
                f"under the softmax gauge, at a test error of {_test_error(ours)}"
            )
    return (
        f"Logits of {len(done)} trained ViT{'' if len(done) == 1 else 's'} with m_h = "
        f"{done[0].m_h} on test images of CIFAR-10, test error {_test_error(done)}; the paper has "
        "a ViT-B/16, ours is smaller. Singular values are those of the matrix of logits, divided "
        "by the length T of the sequence. The rank of a head is the rank that holds 99 % of the "
        "energy for the median image." + f"{wording}.",
        decided(claims),
    )


def _trained_by(one: images.Profiled) -> str:
    return _OPTIMIZERS[one.job.image.recipe.optimizer]


def _test_error(ours: Sequence[images.Profiled]) -> Interval:
    return mean([one.found.test_error for one in ours])


def _figures(one: images.Profiled) -> tuple[Figure, ...]:
    spectra = one.spectra
    violins = (
        _violins("first head of the first layer", spectra.first.values),
        _violins("first head of the last layer", spectra.last.values),
    )
    every = [
        _violins(f"layer {layer + 1}, head {head + 1}", values)
        for layer, row in enumerate(spectra.all)
        for head, values in enumerate(row)
    ]
    maps: list[Panel] = [
        Matrix(title, "head", "layer", RANKS[title](spectra), 0, one.m_h, "rank at 99 %")
        for title in ("before training", "trained", "trained, row means out")
    ]
    return (
        Figure(
            "fig2-violins",
            "Singular values of the logits over images (Fig. 2)",
            f"Seed {one.job.seed}, m_h = {one.m_h}. One violin per singular value; values at "
            "rounding level are left out.",
            violins,
        ),
        Figure(
            "fig2-every-head",
            "The largest singular values of every head over images",
            f"Seed {one.job.seed}. One violin per singular value, for all heads.",
            tuple(every),
        ),
        Figure(
            "fig2-heads",
            "All heads: the rank that holds 99 % of the energy",
            "The median over images; the scale ends at m_h.",
            tuple(maps),
        ),
    )


def _violins(title: str, rows: Sequence[Sequence[float]]) -> Panel:
    """Draw one violin per singular value."""
    values = tuple(violin_values(row) for row in rows)
    floor = images.ROUNDING * max(max(row) for row in values)
    count = sum(row[len(row) // 2] > floor for row in values)
    places = tuple(float(place) for place in range(1, count + 1))
    return Violins(title, "k", "σ_k / T", "over images", places, values[:count], y_scale="log")


def _table(found: Sequence[images.Profiled]) -> Table:
    def mean_rank(name: str) -> Callable[[images.Profiled], float]:
        return lambda one: float(np.mean(RANKS[name](one.spectra)))

    return table_of(
        f"Heads of the models with m_h = {found[0].m_h}",
        found,
        {
            "trained by": _trained_by,
            "epochs": lambda one: len(one.found.epochs),
            "seed": lambda one: one.job.seed,
            "test error": lambda one: one.found.test_error,
            "mean rank at 99 %": mean_rank("trained"),
            "mean rank at 99 %, row means out": mean_rank("trained, row means out"),
            "before training": mean_rank("before training"),
            "deviation / mean, first layer": lambda one: variation(one.spectra.first),
            "deviation / mean, last layer": lambda one: variation(one.spectra.last),
        },
        "Ranks are medians over images, averaged over all heads. Row means out: under the softmax "
        "gauge.",
    )


EXPERIMENT = Experiment(
    "fig2", "Singular values of a ViT's attention", "Sec. 5.2, Fig. 2", 20, plan, conclude
)
