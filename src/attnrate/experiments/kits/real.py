"""Jobs that train models on real data: training in two orders of the tokens, and translators.

A job keeps its finished epochs in the cache until its outcome is stored, so that after a kill it
continues from the last epoch. Fine-tuning on Table 1's altered order starts from weights of the
same job, so that no job depends on another. `images.py` has the models of images.
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
from attnrate.training import sentences
from attnrate.training.checkpoint import ConfigurationError, training_folder
from attnrate.training.epochs import EpochRecipe
from attnrate.training.history import EpochSummary, rounded
from attnrate.training.sentences import Sentences, TextScores

#: Table 1: the number of tokens that move to the end
MOVED = 10
#: Attention, or a recurrent rival with about as many parameters
Kind = Literal["attention", "gru", "state-space"]

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Steps:
    """The settings of training steps.

    Fine-tuning starts with the step size lr · tuning_rate; a larger one would erase what was
    learned.
    """

    optimizer: Literal["muon", "adamw"] = "muon"
    lr: float = 5e-3
    warmup: float = EpochRecipe.warmup
    weight_decay: float = EpochRecipe.weight_decay
    clip: float = EpochRecipe.clip
    tuning_rate: float = 0.3

    def over(self, epochs: int, seed: int, tuning: bool = False) -> EpochRecipe:
        """Make the recipe of a training, or of fine-tuning with `tuning`.

        The precision is float32 on every machine, so that results can be compared.
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


#: Muon is for the weight matrices of Transformers; recurrent rivals are trained with AdamW
MUON, ADAMW = Steps(), Steps("adamw", 2e-3)


def steps_of(kind: Kind) -> Steps:
    """The steps with which models of this kind are trained."""
    return MUON if kind == "attention" else ADAMW


def with_epochs_kept(key: str, work: Callable[[Path], T]) -> T:
    """Run `work` with a folder for its checkpoints, and round the numbers of its result.

    The folder belongs to the job with this key and stays until the outcome is stored, so that a
    kill loses one epoch at most. Epochs that another version trained with other settings cannot
    be used and are deleted. Raises `Missing` when the data are not available.
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
    """Settings of a training in the original order of the tokens, or in Table 1's order.

    Attributes:
        kind: Attention, or a recurrent rival.
        recipe: The settings of training steps.
        altered: Whether to train from scratch on Table 1's order, in which the first `moved` tokens
            come last.
        moved: The number of tokens that are moved.
        epochs: Epochs of the first training.
        tuned: Epochs of fine-tuning on the altered order, and of further training on the original
            one; 0 for neither.
    """

    kind: Kind = "attention"
    recipe: Steps = MUON
    altered: bool = False
    moved: int = MOVED
    epochs: int
    tuned: int = 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a training went: its duration in seconds and its epochs."""

    seconds: float
    epochs: tuple[EpochSummary, ...]


class ModelOutcome(Outcome, kw_only=True):
    """What every job on real data reports: number of parameters and of test examples."""

    parameters: int
    tests: int


@dataclass(frozen=True)
class Tuned(Generic[T, U]):
    """Results of trained weights in both orders; all None when no fine-tuning was requested."""

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
    """Evaluate trained weights in both orders.

    `make` builds a model of the altered or of the original order. The result has three parts.
    "continued": the original model trained for longer, so that models trained equally long are
    compared. "untuned": the altered model with the trained weights as they are. "tuned": the
    altered model after as much further training. `run` trains a model with a recipe under a
    name and evaluates it; `as_it_is` evaluates a model without training.
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
    """Settings of a translator and of its training data.

    `rules` is the version of the rules that clean the pairs. `longest` is the largest number of
    tokens of a training sentence. `batch` is in tokens. The data are split into `parts` and an
    epoch is one part; fine-tuning is counted in parts, too.
    """

    model: Seq2SeqSettings
    packages: Literal["all", "small"] = "all"
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
    """The scores of a translator after a training, and how the training went."""


class TextOutcome(TextRun, ModelOutcome, kw_only=True):
    """The result of a `Text` job: scores, and scores after fine-tuning."""

    pairs: int
    documented: bool
    continued: TextRun | None = None
    untuned: TextScores | None = None
    tuned: TextRun | None = None


class Text(Work, work="table1_translation.text"):
    """A job that trains one translator, scores its translations and fine-tunes it."""

    text: TextSettings

    def run(self) -> TextOutcome:
        """Train, score and fine-tune the translator; finished epochs are kept."""
        asked = self.text
        wanted = asked.packages, asked.vocabulary, asked.longest, asked.tests
        return with_epochs_kept(
            self.key,
            lambda folder: train_translator(sentences.sentences(*wanted), asked, self.seed, folder),
        )


def train_translator(data: Sentences, asked: TextSettings, seed: int, folder: Path) -> TextOutcome:
    """Train, score and fine-tune a translator, with checkpoints in `folder`."""
    sizes = replace(asked.model, vocabulary=data.vocabulary.size)

    def make(altered: bool) -> Translator:
        chosen = replace(sizes, moved=asked.moved) if altered else sizes
        kind = Seq2Seq if asked.kind == "attention" else translator_like
        return cast(Translator, initial(lambda: kind(chosen), seed))

    def scored(model: Translator) -> TextScores:
        return sentences.score_translations(model, data, asked.beams)

    def run(model: Translator, recipe: EpochRecipe, way: str) -> TextRun:
        done = sentences.train_on_sentences(
            data,
            model,
            recipe,
            folder / way,
            tokens=asked.batch,
            parts=asked.parts,
            smoothing=asked.smoothing,
            progress=False,
        )
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
