"""Table 1 on translation: BLEU with sentences in their order, and with the first ten tokens moved.

English to German, messages of programs, on the documented test set of data/translation.py, scored
by sacrebleu. The paper has WMT 2014 and the base model of Vaswani et al.; ours is smaller than the
`cpu` preset, because there are eight of them, and sees every pair once. Sentences of ten tokens and
fewer, about half, stay as they are, so that the verdicts go by the BLEU of the longer ones; that of
all stands beside it. A GRU translator of the same size, without attention, is there as well; the
paper has none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, cast

from attnrate.data.translation import RULES, TESTS
from attnrate.experiments.contract import (
    Conclusion,
    Done,
    Experiment,
    Outcome,
    Plan,
    Preset,
    Results,
    Work,
)
from attnrate.experiments.kits.orders import WAYS, Half, Model, Way, by_way, conclusion
from attnrate.experiments.kits.real import (
    MUON,
    Kind,
    Steps,
    fine_tuned,
    steps_of,
    with_epochs_kept,
)
from attnrate.figures.figure import Table
from attnrate.fitting.fit import initial
from attnrate.fitting.job import Sized
from attnrate.models.decoding import Translator
from attnrate.models.rivals import translator_like
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.targets.alter import MOVED
from attnrate.training import sentences
from attnrate.training.epochs import EpochRecipe, EpochSummary
from attnrate.training.sentences import Bleu, Sentences, TextScores

MODEL, RIVAL = "Transformer", "GRU"
#: Tokens a second on one core while the other is as busy; in one pass over the pairs; and what is
#: paid besides training
_SPEED, _TOKENS, _BESIDES = 2400.0, 2.5e6, 60.0
_QUICK_SECONDS = 8.0
_WORD = 40  # letters of a word that are shown; what has not been learned does not end
_CANNOT = (
    "WMT 2014 and the paper's training cannot be had here; ours are messages of programs, whose "
    "scores do not compare, only their change."
)
_BEFOREHAND = (
    " Nothing promises that it does: where sentences differ in length, moving ten tokens to the "
    "end is another permutation for every length, which positions cannot undo for all at once."
)
_TRAINED = (
    " All models have seen every pair once, but for what fine-tuning or training on adds; it may "
    "be otherwise after more training."
)
HALF = Half(
    "table1-translation",
    data="translation",
    score="BLEU of sentences of more than ten tokens",
    measure="BLEU",
    examples="pairs of sentences",
    curve="training loss",
    epoch="part of the training",
    attention=MODEL,
    rivals=(RIVAL,),
    paper=(26.85, 25.91),
    learned=5.0,
    cannot=_CANNOT,
    beforehand=_BEFOREHAND,
    trained=_TRAINED,
)


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """What a translator is like, what it is trained on, and what is done with it.

    `rules` is the version of the rules by which pairs are cleaned; `longest` the most tokens of a
    sentence to train on; `batch` is in tokens. An epoch is a part of `parts` of the data; `epochs`
    and `tuned` (fine-tuning, 0 for none) are counted in such parts. `altered`: trained on Table 1's
    order from the beginning.
    """

    kind: Kind = "attention"
    model: Seq2SeqSettings
    recipe: Steps = MUON
    packages: str = "all"
    rules: int = RULES
    vocabulary: int = 8000
    longest: int = 60
    tests: int = TESTS
    batch: int = 1024
    smoothing: float = 0.1
    parts: int
    altered: bool = False
    moved: int = MOVED
    epochs: int
    tuned: int = 0
    beams: int = 1


PRESETS: dict[Preset, TextSettings] = {
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


@dataclass(frozen=True, kw_only=True)
class TextRun(TextScores):
    """How good a translator is after a training, and how that went."""

    seconds: float
    epochs: tuple[EpochSummary, ...]


@dataclass(frozen=True, kw_only=True)
class TextOutcome(TextRun, Outcome):
    """What comes of a translator: its scores, and those after fine-tuning."""

    parameters: int
    pairs: int
    tests: int
    documented: bool
    continued: TextRun | None = None
    untuned: TextScores | None = None
    tuned: TextRun | None = None


@dataclass(frozen=True, kw_only=True)
class Text(Work):
    """Train one translator, score its translations, and fine-tune it."""

    work: ClassVar[str] = "table1_translation.text"

    text: TextSettings

    def run(self) -> TextOutcome:
        """Train, score and fine-tune, with epochs kept."""
        asked = self.text

        def work(folder: Path) -> TextOutcome:
            sizes = asked.vocabulary, asked.longest, asked.tests
            data = sentences.sentences(asked.packages, *sizes)
            return train_on(data, asked, self.seed, folder)

        return with_epochs_kept(self.key, work)


def train_on(data: Sentences, asked: TextSettings, seed: int, folder: Path) -> TextOutcome:
    """Train, score and fine-tune a translator, with checkpoints in the folder."""
    sizes = replace(asked.model, vocabulary=data.vocabulary.size)

    def make(altered: bool) -> Translator:
        chosen = replace(sizes, moved=asked.moved) if altered else sizes
        kind = Seq2Seq if asked.kind == "attention" else translator_like
        return cast(Translator, initial(lambda: kind(chosen), seed))

    def run(model: Translator, recipe: EpochRecipe, way: str) -> TextRun:
        done = sentences.trained_on(
            data,
            model,
            asked.batch,
            asked.parts,
            recipe,
            folder / way,
            smoothing=asked.smoothing,
        )
        found = sentences.scored(model, data, asked.beams)
        return TextRun(**vars(found), seconds=done.seconds, epochs=done.summaries)

    model = make(asked.altered)
    found = run(model, asked.recipe.over(asked.epochs, seed), "first")
    outcome = TextOutcome(
        **vars(found),
        parameters=model.parameter_count(),
        pairs=len(data.train),
        tests=len(data.test),
        documented=data.documented,
    )
    if not asked.tuned:
        return outcome
    continued, untuned, tuned = fine_tuned(
        model,
        asked.recipe.over(asked.tuned, seed, tuning=True),
        make,
        run,
        lambda model: sentences.scored(model, data, asked.beams),
    )
    return replace(outcome, continued=continued, untuned=untuned, tuned=tuned)


def plan(preset: Preset) -> Plan:
    """Originals with their fine-tuning, altered from scratch, rivals in both orders."""
    originals, scratch, rivals = (1, 1, 1) if preset == "quick" else (3, 3, 1)
    return [
        *(_job(preset, "attention", seed) for seed in range(originals)),
        *(_job(preset, "attention", seed, altered=True) for seed in range(scratch)),
        *(
            _job(preset, "gru", seed, altered)
            for seed in range(rivals)
            for altered in (False, True)
        ),
    ]


def _job(preset: Preset, kind: Kind, seed: int, altered: bool = False) -> Sized[Text]:
    asked = replace(PRESETS[preset], kind=kind, recipe=steps_of(kind), altered=altered)
    if kind != "attention" or altered:
        asked = replace(asked, tuned=0)
    passes = (asked.epochs + 2 * asked.tuned) / asked.parts
    seconds = _BESIDES * (3 if asked.tuned else 1) + passes * _TOKENS / _SPEED
    return Sized(Text(text=asked, seed=seed), _QUICK_SECONDS if preset == "quick" else seconds)


def conclude(results: Results) -> Conclusion:
    """BLEU by order, and some translations to look at."""
    done = results.of(Text, TextOutcome)
    models = [_model(one) for one in done]
    if not done:
        return conclusion(results, models, HALF)
    found = done[0].outcome
    known = "the documented test set" if found.documented else "not the documented test set"
    note = f"{found.moved.count} of {found.tests} test sentences, {known}."
    return conclusion(results, models, HALF, (_whole(done), _samples(done)), note)


def _name(one: Done[Text, TextOutcome]) -> str:
    return MODEL if one.job.text.kind == "attention" else RIVAL


def _by_way(one: Done[Text, TextOutcome]) -> dict[Way, TextScores]:
    found = one.outcome
    return by_way(one.job.text.altered, found, found.continued, found.untuned, found.tuned)


def _model(one: Done[Text, TextOutcome]) -> Model:
    found = one.outcome
    return Model(
        _name(one),
        one.job.text.altered,
        one.job.seed,
        found.parameters,
        found.pairs,
        {way: scores.moved.bleu for way, scores in _by_way(one).items()},
        tuple(each.loss for each in found.epochs),
        len(found.tuned.epochs) if found.tuned else 0,
    )


def _whole(done: Sequence[Done[Text, TextOutcome]]) -> Table:
    """BLEU of all test sentences, with sacrebleu's interval over sentences."""
    rows = [
        (_name(one), WAYS[way], one.job.seed, _interval(scores), _interval(scores.moved))
        for one in done
        for way, scores in _by_way(one).items()
    ]
    return Table(
        "BLEU of every model",
        ("model", "order", "seed", "all test sentences", "those that are moved"),
        tuple(rows),
        f"sacrebleu {done[0].outcome.signature}; ± is its 95 % interval over sentences.",
    )


def _interval(score: Bleu) -> str:
    return f"{score.bleu:.2f} ± {score.bleu_half:.2f}"


def _samples(done: Sequence[Done[Text, TextOutcome]]) -> Table:
    """Some test sentences as the models of the least seed translate them."""
    seed = min(one.job.seed for one in done)
    shown = [one for one in done if one.job.seed == seed]
    rows: list[tuple[str, str]] = []
    for place, (english, german, _) in enumerate(shown[0].outcome.samples):
        rows += [("English", english), ("German of the program", german)]
        for one in shown:
            for way, scores in _by_way(one).items():
                if _name(one) == MODEL or way == "original":
                    words = scores.samples[place][2].split()
                    cut = [word if len(word) <= _WORD else word[:_WORD] + "…" for word in words]
                    rows.append((f"{_name(one)}, {WAYS[way]}", " ".join(cut)))
    return Table(
        f"Translations of test sentences, seed {seed}",
        ("by", "text"),
        tuple(rows),
        "Evenly spread over the test set, not chosen; long ones are cut.",
    )


EXPERIMENT = Experiment(
    "table1-translation",
    "Translation with its words reordered",
    "Sec. 6.1, Table 1",
    50,
    plan,
    conclude,
)
