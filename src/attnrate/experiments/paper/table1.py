"""Table 1: models of images and of sentences, in their order and with the first ten tokens moved.

On CIFAR-10 the originals are the largest models of Fig. 3 (the same jobs), fine-tuned on the
altered order; other models are trained on that order from scratch. `attnrate train cifar10` shows
what a larger model reaches in an hour.

Translation is English to German, messages of programs, on the documented test set of
data/translation.py, scored by sacrebleu. The paper has WMT 2014 and the base model of Vaswani et
al.; ours are smaller than the `cpu` preset, because there are eight of them, and see every pair
once. About half of the sentences have at most ten tokens and are not altered, so the verdicts use
the BLEU of the longer ones; the BLEU of all sentences stands beside it.

For comparison there is a GRU of the same size, which reads one token after the other; the paper has
none.

A job on the original order gives four scores: on the original order; on the altered order with the
same weights; on the altered order after fine-tuning, as in the paper; and on the original order
after as much further training. A job on the altered order gives the score from scratch. A drop is
(original - altered) / original, paired by seed, between models that were trained equally long. The
rules were written before any result of the full preset was seen. The paper's drops are 2 % and 3.5
%, so up to 5 % counts as "not affected". The interval over seeds must lie on one side of that
limit, and a single seed decides only by a large drop. A model whose original score is below
`learned` decides nothing. Our models are fine-tuned briefly: a drop that does not occur from
scratch is not due to the order, and decides nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, at_most, claim_of, decided
from attnrate.experiments.kits import images
from attnrate.experiments.kits.fits import curve, spread
from attnrate.experiments.kits.images import Image, ImageOutcome, Untuned, image_job, largest_jobs
from attnrate.experiments.kits.real import (
    Kind,
    OrderSettings,
    Text,
    TextOutcome,
    TextSettings,
    steps_of,
)
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.fitting.job import Sized
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.statistics import Interval, mean
from attnrate.training.images import ImageErrors
from attnrate.training.sentences import TextScores

Way = Literal["original", "continued", "untuned", "tuned", "scratch"]
WAYS: dict[Way, str] = {
    "original": "original",
    "continued": "original, trained further",
    "untuned": "altered, not fine-tuned",
    "tuned": "altered, fine-tuned",
    "scratch": "altered, from scratch",
}
#: The way on the original order with which each way on the altered order is compared
_BEFORE: dict[Way, Way] = {"untuned": "original", "tuned": "continued", "scratch": "original"}
_COMPARED: dict[Way, str] = {
    "original": "on the original order",
    "continued": "on the original order after as much further training",
}
#: A relative drop of at most ALLOWED counts as none; a single seed decides only by a drop of at
#: least ALONE
ALLOWED, ALONE = 0.05, 0.2
RIVAL = "GRU"
_PLACE = "Sec. 6.1, Table 1"
#: Tokens per second of training on one of two busy cores, tokens in one pass over the pairs, and
#: seconds that a job needs besides training
_SPEED, _TOKENS, _BESIDES = 2400.0, 2.5e6, 60.0
_QUICK_SECONDS = 8.0
_WORD = 40  # letters of a word that are shown; an untrained translator does not end its words
_SHORT = " From scratch nothing is lost, so fine-tuning may have been too short."
T = TypeVar("T")


@dataclass(frozen=True)
class Half:
    """One half of Table 1: images or translation.

    Attributes:
        name: The name of the experiment.
        data: The data in sentences.
        attention: The name of the model that verdicts are about.
        score: What is compared here.
        measure: What the paper's two values measure.
        examples: What a model learns from, in sentences.
        curve: What every epoch reports.
        epoch: What an epoch is called.
        paper: The paper's values on the original and on the altered order.
        learned: The least score with which a model counts.
        cannot: Why the paper's numbers are out of reach.
        beforehand: What is known before training about whether the orders make a difference.
        trained: How little our models were trained.
    """

    name: str
    data: str
    attention: str
    score: str
    measure: str
    examples: str
    curve: str
    epoch: str
    paper: tuple[float, float]
    learned: float
    cannot: str
    beforehand: str
    trained: str = ""

    def name_of(self, asked: OrderSettings) -> str:
        """The name of a model in figures and tables."""
        return self.attention if asked.kind == "attention" else RIVAL


PHOTOGRAPHS = Half(
    name="table1-cifar",
    data="CIFAR-10",
    attention="ViT",
    score="accuracy",
    measure="accuracy",
    examples="images",
    curve="accuracy on some tests",
    epoch="epoch",
    paper=(0.98, 0.96),
    learned=0.4,
    cannot="The paper's ViT-B/16 has 86 million parameters, and its accuracy needs pretraining on "
    "millions of other images; neither is possible here.",
    beforehand=" This must be so up to chance: with learned positions and the mean of all tokens, "
    "both orders are the same problem, with the rows of the initial position table exchanged.",
)
TRANSLATIONS = Half(
    name="table1-translation",
    data="translation",
    attention="Transformer",
    score="BLEU of sentences of more than ten tokens",
    measure="BLEU",
    examples="pairs of sentences",
    curve="training loss",
    epoch="part of the training",
    paper=(26.85, 25.91),
    learned=5.0,
    cannot="WMT 2014 and the paper's training are not available here. Ours are messages of "
    "programs: only the changes of their scores can be compared with the paper's.",
    beforehand=" Nothing guarantees that it does: for sentences of different lengths, moving ten "
    "tokens to the end is a different permutation for every length, and positions cannot undo all "
    "of them at once.",
    trained=" All models have seen every pair once, plus what fine-tuning or further training "
    "adds; longer training may change the result.",
)


PRESETS: dict[contract.Preset, TextSettings] = {
    "quick": TextSettings(
        packages="small",
        vocabulary=1000,
        longest=30,
        tests=40,
        parts=2,
        epochs=2,
        tuned=1,
        model=Seq2SeqSettings(width=64, layers=1, heads=2, m_h=16, m_ff=128),
    ),
    "paper": TextSettings(
        parts=8,
        epochs=8,
        tuned=2,
        model=Seq2SeqSettings(width=192, layers=2, heads=4, m_h=48, m_ff=384),
    ),
}


def plan_cifar(preset: contract.Preset) -> contract.Plan:
    """Plan originals (those of Fig. 3), altered from scratch, and rivals in both orders."""
    m_h, seeds = images.PRESETS[preset].sizes[-1], 1 if preset == "quick" else 3

    def job(kind: Kind, altered: bool, seed: int) -> Sized[Image]:
        return image_job(preset, m_h, seed, kind=kind, altered=altered)

    return [*largest_jobs(preset), *_compared(job, seeds, seeds)]


def plan_translation(preset: contract.Preset) -> contract.Plan:
    """Plan originals with their fine-tuning, altered from scratch, and rivals in both orders."""
    seeds = 1 if preset == "quick" else 3

    def job(kind: Kind, altered: bool, seed: int) -> Sized[Text]:
        asked = replace(PRESETS[preset], kind=kind, recipe=steps_of(kind), altered=altered)
        if kind != "attention" or altered:
            asked = replace(asked, tuned=0)
        passes = (asked.epochs + 2 * asked.tuned) / asked.parts
        seconds = _BESIDES * (3 if asked.tuned else 1) + passes * _TOKENS / _SPEED
        return Sized(Text(text=asked, seed=seed), _QUICK_SECONDS if preset == "quick" else seconds)

    originals = [job("attention", False, seed) for seed in range(seeds)]
    return [*originals, *_compared(job, seeds, 1)]


def _compared(
    job: Callable[[Kind, bool, int], Sized[contract.Work]], scratch: int, rivals: int
) -> contract.Plan:
    """Plan what the originals are compared with: altered from scratch, rivals in both orders."""
    return [
        *(job("attention", True, seed) for seed in range(scratch)),
        *(job("gru", altered, seed) for seed in range(rivals) for altered in (False, True)),
    ]


@dataclass(frozen=True)
class Model:
    """A trained model of Table 1, with its score in every way in which it was evaluated.

    `examples` is the number of examples that it learned from; `curve` has one value per epoch.
    """

    asked: OrderSettings
    seed: int
    found: ImageOutcome | TextOutcome
    examples: int
    scores: Mapping[Way, float]
    curve: tuple[float, ...]


def _by_way(
    altered: bool, first: T, continued: T | None, untuned: T | None, tuned: T | None
) -> dict[Way, T]:
    """Collect what was found in each way, without the ways that were not tried."""
    found: dict[Way, T | None] = {
        "scratch" if altered else "original": first,
        "continued": continued,
        "untuned": untuned,
        "tuned": tuned,
    }
    return {way: values for way, values in found.items() if values is not None}


def kept(interval: Interval, learned: bool) -> Verdict:
    """Decide by the interval of the drop whether nothing is lost."""
    if not learned:
        return "open"
    if interval.count == 1:
        return "does not hold" if interval.value >= ALONE else "open"
    return at_most(interval, ALLOWED)


def lost(interval: Interval, learned: bool) -> Verdict:
    """Decide whether something is lost, the opposite of `kept`."""
    verdicts: dict[Verdict, Verdict] = {"holds": "does not hold", "does not hold": "holds"}
    verdict = kept(interval, learned)
    return verdicts.get(verdict, verdict)


@dataclass(frozen=True)
class Scores:
    """The scores of one half's finished models by model, way and seed, and what follows."""

    half: Half
    models: Sequence[Model]

    @property
    def named(self) -> dict[str, list[Model]]:
        """The models by name."""
        found: dict[str, list[Model]] = {}
        for one in self.models:
            found.setdefault(self.half.name_of(one.asked), []).append(one)
        return found

    def of(self, model: str, way: Way) -> dict[int, float]:
        """The scores of the models with this name, by seed."""
        ours = self.named.get(model, [])
        return {one.seed: one.scores[way] for one in ours if way in one.scores}

    def score(self, model: str, way: Way) -> Interval:
        """The mean of a model's scores over seeds."""
        return mean([*self.of(model, way).values()])

    def pairs(self, model: str, way: Way, since: Way | None = None) -> list[tuple[float, float]]:
        """(score on the original order, score in this way) of the seeds that have both.

        The original score is that of the model that was trained equally long; `since` names
        another way to compare with.
        """
        before, after = self.of(model, since or _BEFORE[way]), self.of(model, way)
        both = [seed for seed, score in before.items() if seed in after and score > 0]
        return [(before[seed], after[seed]) for seed in both]

    def drop(self, model: str, way: Way, since: Way | None = None) -> Interval:
        """The mean relative drop from the original order, over the pairs."""
        return mean([1 - after / before for before, after in self.pairs(model, way, since)])

    def learned(self, model: str) -> bool:
        """Whether every seed of the model is good enough on the original order."""
        return min(self.of(model, "original").values(), default=-math.inf) >= self.half.learned

    def conclusion(
        self, results: contract.Results, note: str, more: Sequence[Table] = ()
    ) -> contract.Conclusion:
        """Assemble the table beside the paper's, the figures, and the claims."""
        claims = self._claims()
        if not self.models:
            return contract.unfinished(results, claims, "data")
        said = (self._paragraph() + results.gaps, decided(claims[:-1]))
        figures = (self._figure(), self._learning())
        return contract.Conclusion(said, figures, (self._table(note), *more), claims)

    def _claims(self) -> tuple[Claim, ...]:
        half, model = self.half, self.half.attention
        learned, ours = self.learned(model), self.score(model, "original")
        tuned, scratch = (kept(self.drop(model, way), learned) for way in ("tuned", "scratch"))
        short = tuned == "does not hold" and scratch == "holds"
        return (
            self._claim(
                "fine-tuned",
                _PLACE,
                f"The performance of the Transformer on {half.data} is unaffected by the temporal "
                "ordering when it is fine-tuned from the original weights.",
                "open" if short else tuned,
                model,
                "tuned",
                (_SHORT if short else "") + half.trained,
            ),
            self._claim(
                "from-scratch",
                "Sec. 6.1, Prop. 6.2",
                f"A Transformer learns {half.data} in the altered order as well as in the "
                "original.",
                scratch,
                model,
                "scratch",
                half.beforehand + half.trained,
            ),
            self._claim(
                "order-matters-untuned",
                "Table 1 (not in the paper)",
                "The original weights are sensitive to the altered order: without fine-tuning the "
                "performance drops.",
                lost(self.drop(model, "untuned"), learned),
                model,
                "untuned",
            ),
            self._claim(
                RIVAL.lower(),
                "Sec. 6.1 (not in Table 1)",
                f"A recurrent model ({RIVAL}) of the same size is affected by the temporal "
                f"ordering of {half.data}, even when it is trained on the altered order.",
                lost(self.drop(RIVAL, "scratch"), self.learned(RIVAL)),
                RIVAL,
                "scratch",
            ),
            # the paper's two numbers
            claim_of(
                half.name,
                "values",
                _PLACE,
                f"The {half.measure} is {half.paper[0]:g} on the original order and "
                f"{half.paper[1]:g} on the altered one.",
                "not testable here",
                f"our model has {ours} on the original order."
                if ours.count
                else "no model is finished.",
                ours,
                half.cannot,
            ),
        )

    def _claim(
        self,
        name: str,
        place: str,
        statement: str,
        verdict: Verdict,
        model: str,
        way: Way,
        more: str = "",
    ) -> Claim:
        drop = self.drop(model, way)
        evidence = "no model that decides this is finished, or its score is zero."
        if drop.count:
            original, altered = (mean(side) for side in zip(*self.pairs(model, way), strict=True))
            evidence = (
                f"{self.half.score} {original} {_COMPARED[_BEFORE[way]]}, {altered} on the "
                f"altered one: a relative drop of {drop} over {drop.count} seed"
                f"{'' if drop.count == 1 else 's'} (a drop of at most {ALLOWED} counts as none)."
            )
            if not self.learned(model):
                evidence += f" Scores below {self.half.learned:g} are too low to decide."
            elif math.isnan(drop.low):
                evidence += f" A single seed decides only by a drop of {ALONE} or more."
            evidence += more
        return claim_of(self.half.name, name, place, statement, verdict, evidence, drop)

    def _paragraph(self) -> str:
        """State the scores of all models, the paper's scores, and the size of our models."""
        half, parts = self.half, []
        for model in self.named:
            ways = [way for way in WAYS if self.of(model, way)]
            wording = [f"{self.score(model, way)} ({WAYS[way]})" for way in ways]
            parts.append(f"{model}: {', '.join(wording)}")
        said = (
            f"{half.score[:1].upper()}{half.score[1:]} on {half.data}, in the original order and "
            f"with the first ten tokens moved to the end: {'; '.join(parts)}. The paper: "
            f"{half.paper[0]:g} and {half.paper[1]:g}. " + half.cannot
        )
        for one in self.named.get(half.attention, [])[:1]:
            said += (
                f" Our {half.attention} has {one.found.parameters:,} parameters and learns from "
                f"{one.examples:,} {half.examples}."
            )
            if one.found.tuned and one.curve:
                long = len(one.found.tuned.epochs) / len(one.curve)
                said += f" It was fine-tuned for {long:.2g} times as long as it was trained."
        return said

    def _figure(self) -> Figure:
        half, places = self.half, {way: float(place) for place, way in enumerate(WAYS)}
        series = []
        for model in self.named:
            found = [(place, [*self.of(model, way).values()]) for way, place in places.items()]
            points = [(place, spread(values)) for place, values in found if values]
            series.append(curve(model, points))
        at = (places["original"], places["tuned"])
        series.append(Series("paper", at, half.paper, style="paper"))
        return Figure(
            half.name,
            f"Table 1: {half.data} in two orders",
            "Means over seeds, bars from the least to the largest. The paper fine-tuned the "
            "original weights on the altered order.",
            (Curves(half.data, "order", half.score, tuple(series), ticks=tuple(WAYS.values())),),
        )

    def _learning(self) -> Figure:
        """Draw the curve over epochs, for the models of the smallest seed."""
        half, seed = self.half, min(one.seed for one in self.models)
        series = [
            Series(
                half.name_of(one.asked) + (", altered" if one.asked.altered else ""),
                tuple(float(number + 1) for number in range(len(one.curve))),
                one.curve,
            )
            for one in self.models
            if one.seed == seed
        ]
        return Figure(
            f"{half.name}-epochs",
            f"{half.curve.capitalize()} during training",
            f"Seed {seed}.",
            (Curves(f"seed {seed}", half.epoch, half.curve, tuple(series)),),
        )

    def _table(self, note: str) -> Table:
        half, rows = self.half, []
        for model, ours in self.named.items():
            found = [
                *(self.score(model, way) for way in WAYS),
                self.drop(model, "tuned"),
                self.drop(model, "tuned", since="original"),
                self.drop(model, "scratch"),
            ]
            wording = [str(each) if each.count else None for each in found]
            seeds = len(self.of(model, "original"))
            rows.append((model, ours[0].found.parameters, seeds, *wording))
        paper = ("paper", None, None, half.paper[0], None, None, half.paper[1], None, None)
        change = 1 - half.paper[1] / half.paper[0]
        return Table(
            f"Table 1, {half.data}: {half.score}",
            (
                "model",
                "parameters",
                "seeds",
                *WAYS.values(),
                "relative drop, fine-tuned, from as much further training",
                "relative drop, fine-tuned, from the original",
                "relative drop, from scratch",
            ),
            (*rows, (*paper, f"{change:.3g}", None)),
            "Means over seeds, with 95 % intervals for two or more seeds. " + note,
        )


def conclude_cifar(results: contract.Results) -> contract.Conclusion:
    """Compare accuracies by order, and draw how they grew over the epochs."""
    models = []
    for one in results.of(Image, ImageOutcome):
        asked, found = one.job.image, one.outcome
        ways: dict[Way, ImageErrors | Untuned] = _by_way(
            asked.altered, found, found.continued, found.untuned, found.tuned
        )
        scores = {way: 1 - errors.test_error for way, errors in ways.items()}
        curve = [each.test_accuracy for each in found.epochs if each.test_accuracy is not None]
        models.append(Model(asked, one.job.seed, found, found.images, scores, tuple(curve)))
    return Scores(PHOTOGRAPHS, models).conclusion(
        results,
        "Accuracies on the test images; the altered order moves the first ten patches to the end "
        "before positions are added.",
    )


def conclude_translation(results: contract.Results) -> contract.Conclusion:
    """Compare BLEU by order, and show some translations."""
    done = results.of(Text, TextOutcome)
    models = []
    for one in done:
        asked, found = one.job.text, one.outcome
        scores = {way: each.moved.bleu for way, each in _translated(one).items()}
        curve = tuple(each.loss for each in found.epochs)
        models.append(Model(asked, one.job.seed, found, found.pairs, scores, curve))
    said = Scores(TRANSLATIONS, models)
    if not done:
        return said.conclusion(results, "")
    first = done[0].outcome
    known = "the documented test set" if first.documented else "not the documented test set"
    note = f"{first.moved.count} of {first.tests} test sentences, {known}."
    every = [found for one in done for found in _translated(one).values()]
    mute = [found for found in every if not _speaks(found)]
    if mute:
        note += (
            f" {len(mute)} of {len(every)} models have a BLEU of 0.00: they have not learned to "
            "translate, and their scores and translations are not listed."
        )
    tables = () if len(mute) == len(every) else (_whole(done), _samples(done))
    return said.conclusion(results, note, tables)


def _translated(one: contract.Done[Text, TextOutcome]) -> dict[Way, TextScores]:
    found = one.outcome
    return _by_way(one.job.text.altered, found, found.continued, found.untuned, found.tuned)


def _speaks(scores: TextScores) -> bool:
    """Whether a model has a score that is not shown as 0.00."""
    return max(scores.bleu, scores.moved.bleu) >= 0.005


def _whole(done: Sequence[contract.Done[Text, TextOutcome]]) -> Table:
    """Tabulate the BLEU of all test sentences, with sacrebleu's interval over sentences."""
    rows: list[tuple[Cell, ...]] = []
    for one in done:
        for way, scores in _translated(one).items():
            if not _speaks(scores):
                continue
            wording = [f"{e.bleu:.2f} ± {e.bleu_half:.2f}" for e in (scores, scores.moved)]
            rows.append((TRANSLATIONS.name_of(one.job.text), WAYS[way], one.job.seed, *wording))
    return Table(
        "BLEU of every model",
        ("model", "order", "seed", "all test sentences", "sentences that are altered"),
        tuple(rows),
        f"sacrebleu {done[0].outcome.signature}; ± is its 95 % interval over sentences.",
    )


def _samples(done: Sequence[contract.Done[Text, TextOutcome]]) -> Table:
    """Tabulate some test sentences as the models of the smallest seed translate them."""
    seed = min(one.job.seed for one in done)
    shown = [one for one in done if one.job.seed == seed]
    rows: list[tuple[str, str]] = []
    for place, (english, german, _) in enumerate(shown[0].outcome.samples):
        rows += [("English", english), ("German, reference", german)]
        for one in shown:
            name = TRANSLATIONS.name_of(one.job.text)
            for way, scores in _translated(one).items():
                if _speaks(scores) and (name != RIVAL or way == "original"):
                    words = scores.samples[place][2].split()
                    cut = [word if len(word) <= _WORD else word[:_WORD] + "…" for word in words]
                    rows.append((f"{name}, {WAYS[way]}", " ".join(cut)))
    return Table(
        f"Translations of test sentences, seed {seed}",
        ("by", "text"),
        tuple(rows),
        "Evenly spread over the test set, not selected; long ones are cut.",
    )


CIFAR = contract.Experiment(
    PHOTOGRAPHS.name, "CIFAR-10 with its patches reordered", _PLACE, 40, plan_cifar, conclude_cifar
)
TRANSLATION = contract.Experiment(
    TRANSLATIONS.name,
    "Translation with its words reordered",
    _PLACE,
    50,
    plan_translation,
    conclude_translation,
)
