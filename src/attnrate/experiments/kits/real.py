"""Models trained on real data as jobs: training in both orders with epochs kept, and translators.

A job keeps its epochs under the cache until its outcome is stored: killed, it goes on at its last
epoch. Table 1's altered order is fine-tuned from weights of the same job, so that no job needs
another. The models of images are in images.py.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast

from torch import nn

from attnrate.data.registry import FetchError
from attnrate.data.translation import RULES, TESTS
from attnrate.experiments.contract import Missing, Outcome, Work
from attnrate.files import alone
from attnrate.fitting.fit import initial
from attnrate.models.decoding import Translator
from attnrate.models.rivals import translator_like
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.progress import say
from attnrate.targets.alter import MOVED
from attnrate.training import sentences
from attnrate.training.checkpoint import ConfigurationError, training_folder
from attnrate.training.epochs import EpochRecipe, EpochSummary, rounded
from attnrate.training.sentences import Sentences, TextScores

#: Attention, or a recurrent rival with about as many parameters
Kind = Literal["attention", "gru", "state-space"]

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Steps:
    """What a step of training is like.

    Fine-tuning begins at the step size lr · tuning_rate, or it would forget what it starts from.
    """

    optimizer: Literal["muon", "adamw"] = "muon"
    lr: float = 5e-3
    warmup: float = EpochRecipe.warmup
    weight_decay: float = EpochRecipe.weight_decay
    clip: float = EpochRecipe.clip
    tuning_rate: float = 0.3

    def over(self, epochs: int, seed: int, tuning: bool = False) -> EpochRecipe:
        """The recipe of a training, in one precision on every machine, so that results compare.

        `tuning` makes it one for fine-tuning.
        """
        return EpochRecipe(
            epochs=epochs,
            lr=self.lr * (self.tuning_rate if tuning else 1.0),
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            clip=self.clip,
            optimizer=self.optimizer,
            precision="float32",
            seed=seed,
        )


#: The matrices of the rivals are not those that Muon is for
MUON, ADAMW = Steps(), Steps("adamw", 2e-3)


def steps_of(kind: Kind) -> Steps:
    """The steps with which models of this kind are trained."""
    return MUON if kind == "attention" else ADAMW


def with_epochs_kept(key: str, work: Callable[[Path], T]) -> T:
    """What the work comes to, with numbers rounded; it is given a folder for its checkpoints.

    The folder belongs to the job of this key and stays until the outcome is stored, so that no kill
    loses more than an epoch. Epochs that another version has trained with other settings are of no
    use, and are deleted. `Missing` is raised when the data cannot be had.
    """
    folder = training_folder(key)
    with alone(folder.with_suffix(".lock"), wait=True):
        try:
            try:
                return rounded(work(folder))
            except ConfigurationError as problem:
                say(f"epochs of an earlier version are deleted and trained again: {problem}")
                shutil.rmtree(folder)
                return rounded(work(folder))
        except FetchError as problem:
            raise Missing(str(problem)) from problem


@dataclass(frozen=True, kw_only=True)
class OrderSettings:
    """What a model is trained for, in the order of the data or in Table 1's.

    `altered`: trained on Table 1's order, with the first `moved` tokens at the end, from the
    beginning. `tuned`: epochs of fine-tuning on the altered order, and of more training on the
    original one; 0 for neither.
    """

    kind: Kind = "attention"
    recipe: Steps = MUON
    altered: bool = False
    moved: int = MOVED
    epochs: int
    tuned: int = 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a training went: the seconds that it took, and its epochs."""

    seconds: float
    epochs: tuple[EpochSummary, ...]


class ModelOutcome(Outcome, kw_only=True):
    """What every job on real data tells of its model: its size, and how many tests judged it."""

    parameters: int
    tests: int


@dataclass(frozen=True)
class Tuned(Generic[T, U]):
    """What comes of trained weights in both orders; nothing where no fine-tuning is asked for."""

    continued: T | None = None
    untuned: U | None = None
    tuned: T | None = None


def fine_tuned(
    trained: nn.Module,
    asked: OrderSettings,
    seed: int,
    make: Callable[[bool], M],
    run: Callable[[M, EpochRecipe, str], T],
    as_it_is: Callable[[M], U],
) -> Tuned[T, U]:
    """What comes of trained weights in both orders: "continued", "untuned" and "tuned".

    `make` makes a model of the altered order or of the original one. The original one is trained
    on, so that what is compared was trained for as long; the altered one is judged as it is, and
    after as much training. `run` trains a model by the recipe under a name, and judges it.
    """
    if not asked.tuned:
        return Tuned()
    recipe = asked.recipe.over(asked.tuned, seed, tuning=True)
    original, altered = make(False), make(True)
    for model in (original, altered):
        model.load_state_dict(trained.state_dict())
    continued = run(original, recipe, "continued")
    return Tuned(continued, as_it_is(altered), run(altered, recipe, "tuned"))


@dataclass(frozen=True, kw_only=True)
class TextSettings(OrderSettings):
    """What a translator is like, and what it is trained on.

    `rules` is the version of the rules by which pairs are cleaned; `longest` the most tokens of a
    sentence to train on; `batch` is in tokens. An epoch is a part of `parts` of the data, and
    fine-tuning is counted in such parts as well.
    """

    model: Seq2SeqSettings
    packages: str = "all"
    rules: int = RULES
    vocabulary: int = 8000
    longest: int = 60
    tests: int = TESTS
    batch: int = 1024
    smoothing: float = 0.1
    parts: int
    beams: int = 1


@dataclass(frozen=True, kw_only=True)
class TextRun(Run, TextScores):
    """How good a translator is after a training, and how that went."""


class TextOutcome(TextRun, ModelOutcome, kw_only=True):
    """What comes of a translator: its scores, and those after fine-tuning."""

    pairs: int
    documented: bool
    continued: TextRun | None = None
    untuned: TextScores | None = None
    tuned: TextRun | None = None


class Text(Work, work="table1_translation.text"):
    """Train one translator, score its translations, and fine-tune it."""

    text: TextSettings

    def run(self) -> TextOutcome:
        """Train, score and fine-tune, with epochs kept."""
        asked = self.text
        wanted = asked.packages, asked.vocabulary, asked.longest, asked.tests
        return with_epochs_kept(
            self.key,
            lambda folder: train_translator(sentences.sentences(*wanted), asked, self.seed, folder),
        )


def train_translator(data: Sentences, asked: TextSettings, seed: int, folder: Path) -> TextOutcome:
    """Train, score and fine-tune a translator, with checkpoints in the folder."""
    sizes = replace(asked.model, vocabulary=data.vocabulary.size)

    def make(altered: bool) -> Translator:
        chosen = replace(sizes, moved=asked.moved) if altered else sizes
        kind = Seq2Seq if asked.kind == "attention" else translator_like
        return cast(Translator, initial(lambda: kind(chosen), seed))

    def scored(model: Translator) -> TextScores:
        return sentences.scored(model, data, asked.beams)

    def run(model: Translator, recipe: EpochRecipe, way: str) -> TextRun:
        given = asked.batch, asked.parts, recipe, folder / way
        done = sentences.trained_on(data, model, *given, smoothing=asked.smoothing)
        return TextRun(**vars(scored(model)), seconds=done.seconds, epochs=done.summaries)

    model = make(asked.altered)
    found = run(model, asked.recipe.over(asked.epochs, seed), "first")
    return TextOutcome(
        **vars(found),
        parameters=model.parameter_count(),
        pairs=len(data.train),
        tests=len(data.test),
        documented=data.documented,
        **vars(fine_tuned(model, asked, seed, make, run, scored)),
    )
