"""One model trained on real data, in a folder of its own: the command `train`.

While the model is trained, the folder holds checkpoints; a killed run goes on from the last one. In
the end it holds model.safetensors and result.json, and the vocabulary of a translator.
"""

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import torch
from pydantic import TypeAdapter
from torch import nn

from attnrate.data.bpe import Vocabulary
from attnrate.data.translation import TESTS
from attnrate.errors import InputError, StoreError, require_whole
from attnrate.files import alone, write_whole
from attnrate.fitting.device import as_device, as_threads
from attnrate.fitting.fit import initial
from attnrate.fitting.provenance import provenance
from attnrate.folders import look_at, read_mark, write_mark
from attnrate.models.seq2seq import Seq2Seq, seq2seq_settings
from attnrate.models.vit import ViT, vit_settings
from attnrate.settings import Count, Natural, Number, Switch, by, checked
from attnrate.shown import Shown
from attnrate.targets.alter import MOVED, move_to_end
from attnrate.training import checkpoint, images, sentences
from attnrate.training.epochs import EpochRecipe, Precision
from attnrate.training.history import (
    Epoch,
    Training,
    epochs_figure,
    epochs_frame,
    read_epochs,
    rounded,
    without_nan,
)
from attnrate.training.images import ImageErrors
from attnrate.training.sentences import TextScores

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Task: TypeAlias = Literal["cifar10", "translation"]
Preset: TypeAlias = Literal["cpu", "paper"]
#: Passes over the data: up to an hour on two shared cores for either task
EPOCHS: dict[str, int] = {"cifar10": 15, "translation": 4}
#: The name of the command, as it is in the mark of its folders, and what a finished run leaves
COMMAND = "train"
RESULT, WORDS = "result.json", "vocabulary.json"
_STEPS = "checkpoints"
_LOCK = ".lock"
_IMAGES = (50_000, 10_000)
_BATCH, _TOKENS, _LONGEST = 128, 2048, 60


@dataclass(frozen=True, kw_only=True, repr=False)
class ImageScores(Shown, ImageErrors):
    """How well a ViT of `train` recognises images.

    Attributes:
        train_error: The share of wrong answers on 10,000 training images, from 0 to 1.
        test_error: The share of wrong answers on test images, from 0 to 1.
        train_loss: The mean cross entropy on these training images.
        test_loss: The mean cross entropy on test images.
        tests: The number of test images.
        seconds: The seconds of training.

    Examples:
        >>> losses = {"train_loss": 0.3, "test_loss": 0.5}
        >>> ar.ImageScores(train_error=0.1, test_error=0.17, **losses, tests=10_000, seconds=3e3)
        test accuracy 83.0 % on 10,000 images

    """

    tests: int
    seconds: float

    def __str__(self) -> str:
        return f"test accuracy {100 * (1 - self.test_error):.1f} % on {self.tests:,} images"


@dataclass(frozen=True, kw_only=True, repr=False)
class TranslationScores(Shown, TextScores):
    """How well a model of `train` translates.

    Attributes:
        bleu: The score of its translations, from 0 to 100.
        bleu_half: Half of the width of its 95 % interval over sentences.
        signature: How sacrebleu has computed it.
        test_loss: The mean cross entropy per token when the German sentence is given word by word.
        moved: The scores over the sentences that Table 1's altered order changes.
        samples: Some sentences: English, German, and the model's translation.
        tests: The number of test sentences.
        documented: Whether these are the documented test set of Debian 12.
        seconds: The seconds of training.

    Examples:
        >>> class Letters:
        ...     size = 12
        ...
        ...     def decode(self, ids):
        ...         return " ".join("abcdefghijkl"[number] for number in ids)
        >>> pairs, texts = (([3, 4, 5], [5, 4, 3]),) * 8, (("d e f", "f e d"),) * 8
        >>> data = ar.Sentences(pairs, pairs, texts, Letters(), documented=False)
        >>> from attnrate.models.seq2seq import Seq2Seq
        >>> model = Seq2Seq(vocabulary=12, width=16, layers=1)
        >>> scores = vars(ar.score_translations(model, data))
        >>> ar.TranslationScores(**scores, tests=8, documented=False, seconds=1.0)
        BLEU ... ± ... on 8 sentences of another test set; nrefs:1|...

    """

    tests: int
    documented: bool
    seconds: float

    def __str__(self) -> str:
        known = "the documented" if self.documented else "another"
        return (
            f"BLEU {self.bleu:.2f} ± {self.bleu_half:.2f} on {self.tests:,} sentences of {known} "
            f"test set; {self.signature}"
        )


Scores: TypeAlias = ImageScores | TranslationScores
_SCORES: dict[str, type[Scores]] = {"cifar10": ImageScores, "translation": TranslationScores}


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Shown):
    """A model that was trained on real data, its epochs, and how good it is.

    Attributes:
        model: The trained torch module: a ViT for "cifar10", a Seq2Seq for "translation".
        task: "cifar10" or "translation".
        epochs: What each epoch came to.
        scores: How good the model is: `ImageScores` or `TranslationScores`.
        folder: The folder with model.safetensors and result.json.

    Examples:
        >>> done = ar.train("cifar10", "vit", limit=128, epochs=1, progress=False)
        >>> done
        cifar10: ViT with 810,890 parameters, test accuracy ... % on 128 images.
        1 epoch in ... min, ... s each; in vit
        >>> done.to_frame()[["number", "loss", "accuracy"]].shape
        (1, 3)

    """

    model: nn.Module
    task: Task
    epochs: tuple[Epoch, ...]
    scores: Scores
    folder: Path

    @property
    def seconds(self) -> float:
        """The seconds of training, those of testing left out."""
        return sum(epoch.seconds for epoch in self.epochs)

    def __str__(self) -> str:
        kind, count = type(self.model).__name__, len(self.epochs)
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"{self.task}: {kind} with {parameters:,} parameters, {self.scores}.\n"
            f"{count} epoch{'s' * (count > 1)} in {self.seconds / 60:.1f} min, "
            f"{self.seconds / count:.0f} s each; in {self.folder}"
        )

    def to_frame(self) -> "pd.DataFrame":
        """The epochs as a table.

        Returns:
            A pandas DataFrame with one row per epoch and the fields of `Epoch` as columns.

        """
        return epochs_frame(self.epochs)

    def plot(self) -> "Drawing":
        """Draw the loss and the accuracy of each epoch, in training and on tests.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(epochs_figure(self.task, self.epochs))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()


@dataclass(frozen=True)
class _Asked:
    """The checked settings of a run."""

    task: Task
    preset: str
    changes: Mapping[str, Any]
    altered: bool
    limit: int | None
    recipe: EpochRecipe

    @property
    def plain(self) -> dict[str, Any]:
        """The settings that must not change between an interrupted run and its continuation."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name != "threads"}
        sizes = {"preset": self.preset, "m_h": self.changes.get("m_h"), "altered": self.altered}
        return {**sizes, "limit": self.limit, **recipe}


@checked
def train(
    task: Task,
    folder: str | os.PathLike[str] | None = None,
    *,
    preset: Preset = "cpu",
    m_h: Count | None = None,
    altered: Switch = False,
    epochs: Count | None = None,
    lr: Number | None = None,
    limit: Annotated[int, by(require_whole, _BATCH)] | None = None,
    seed: Natural = 0,
    threads: Annotated[int, by(as_threads)] | None = None,
    precision: Precision = "auto",
    device: str | torch.device = "cpu",
    progress: bool | None = None,
) -> Trained:
    """Train the paper's image model or its translation model on real data.

    The data are fetched when first needed: 140 MB for "cifar10", 480 MB for "translation". A run
    that was interrupted goes on from its last epoch when it is called again with the same settings;
    a finished one is read from its folder and not trained again.

    Args:
        task: "cifar10" trains a ViT on photographs of ten kinds, "translation" a Seq2Seq model from
            English to German.
        folder: Where checkpoints, the model and its results are written; by default a folder named
            like the task, in the current one.
        preset: The size of the model: "cpu" for two cores, "paper" for the paper's size on a GPU.
        m_h: The head size; the preset's by default. The size m_v of values stays the same.
        altered: Whether the first ten tokens of each input come last, as in the paper's Table 1.
        epochs: The number of passes over the data; 15 for "cifar10" and 4 for "translation" by
            default.
        lr: The largest step size; 0.005 by default.
        limit: The largest number of examples to train on and to test with, at least 128; all by
            default. For trying things out.
        seed: The seed of the weights and of the batches.
        threads: The number of torch's threads; all cores by default.
        precision: "float32", "bfloat16", or "auto" for whichever is faster on this machine.
        device: Where to train, as torch names it: "cpu", "cuda", "cuda:1", …
        progress: True writes a line per epoch where there is no terminal; False shows nothing. By
            default a terminal shows a live line.

    Returns:
        The model with its epochs and scores.

    Raises:
        InputError: A setting is wrong, or the folder holds a run with other settings.
        FetchError: The data are not in the cache and cannot be fetched.
        StoreError: Another process is training in this folder, or it cannot be written to.

    Examples:
        >>> done = ar.train("cifar10", "vit", m_h=8, limit=128, epochs=1, progress=False)
        >>> done.model.settings.m_h
        8
        >>> ar.trained("vit").scores == done.scores  # read from its folder
        True

    """
    make = vit_settings if task == "cifar10" else seq2seq_settings
    sizes = make(preset)
    changes = {} if m_h is None else {"m_h": m_h, "m_v": sizes.m_v or sizes.m_h}
    recipe = EpochRecipe(
        epochs=EPOCHS[task] if epochs is None else epochs,
        lr=EpochRecipe.lr if lr is None else lr,
        precision=precision,
        threads=threads,
        seed=seed,
    )
    asked = _Asked(task, preset, changes, altered, limit, recipe)
    as_device(device)
    place, mark = look_at(asked.task if folder is None else folder, COMMAND)
    settings = {"task": asked.task, "asked": asked.plain}
    if mark is None:
        write_mark(place, COMMAND, settings)
    elif _finished(place, mark, settings):
        return trained(place)
    with alone(place / _LOCK, wait=False):
        # another process may have written its own mark, or have finished
        if _finished(place, read_mark(place, COMMAND), settings):
            return trained(place)
        write_mark(place, COMMAND, settings)
        begun = provenance()
        run = _on_images if asked.task == "cifar10" else _on_sentences
        done, scores = run(asked, place, {"device": device, "progress": progress})
        kept = _kept(asked, done, scores, place, begun)
    (place / _LOCK).unlink(missing_ok=True)
    return kept


def _finished(place: Path, mark: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether the folder holds the finished run of these settings.

    An InputError when it holds another run, finished or begun.
    """
    done = (place / RESULT).is_file()
    if done or (place / _STEPS).is_dir():
        if mark.get("task") != settings["task"]:
            what = f"this folder holds a model for {mark.get('task')!r}"
            raise InputError(what, str(place), "Name another one.")
        asked = mark.get("asked")
        _require_same(asked if isinstance(asked, dict) else {}, settings["asked"])
    return done


def trained(folder: str | os.PathLike[str]) -> Trained:
    """Read a model from the folder in which `train` has finished.

    Args:
        folder: The folder.

    Returns:
        The model, in evaluation mode, with its epochs and scores.

    Raises:
        InputError: The folder was not made by `train`, or its run is not finished.
        StoreError: The results in the folder cannot be read.

    Examples:
        >>> _ = ar.train("cifar10", "vit", limit=128, epochs=1, progress=False)
        >>> ar.trained("vit").task
        'cifar10'

    """
    place, mark = look_at(folder, COMMAND)
    result = place / RESULT
    if mark is None or not result.is_file():
        raise InputError(
            "there is no finished model in this folder", str(place), "Run train again to finish it."
        )
    try:
        task = mark["task"]
        found = json.loads(result.read_text(encoding="utf-8"))
        epochs = read_epochs(map(_with_nan, found["epochs"]))
        scores = TypeAdapter(_SCORES[task]).validate_python(found["scores"])
        if not epochs:
            raise ValueError("there are no epochs")
    except (*checkpoint.UNREADABLE, AttributeError, KeyError, TypeError) as problem:
        what = f"the results cannot be read ({problem})"
        raise StoreError(what, result, "Train again in another folder.") from problem
    return Trained(checkpoint.read_model(place), task, epochs, scores, place)


def _require_same(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name, value in now.items():
        if name not in before or before[name] != value:
            raise InputError(
                f"this folder holds a run with another {name}: {before.get(name)} there and here",
                value,
                "Train with the same settings, or in another folder.",
            )


def _on_images(asked: _Asked, place: Path, how: Mapping[str, Any]) -> tuple[Training, Scores]:
    train_count, test_count = (min(count, asked.limit or count) for count in _IMAGES)
    data = images.photographs(train_count, test_count)
    sizes = vit_settings(asked.preset, **asked.changes)
    if asked.altered:
        sizes = replace(sizes, order=tuple(move_to_end(sizes.tokens)))
    model = initial(lambda: ViT(sizes), asked.recipe.seed)
    steps = place / _STEPS
    done = images.train_on_images(data, model, asked.recipe, steps, batch=_BATCH, **how)
    found = images.judge_images(done.model, data)
    return done, ImageScores(**vars(found), tests=test_count, seconds=done.seconds)


def _on_sentences(asked: _Asked, place: Path, how: Mapping[str, Any]) -> tuple[Training, Scores]:
    sizes = seq2seq_settings(asked.preset, **asked.changes, moved=MOVED if asked.altered else 0)
    tests = min(TESTS, asked.limit or TESTS)
    data = sentences.sentences("all", sizes.vocabulary, _LONGEST, tests)
    if asked.limit is not None:
        step = max(1, len(data.train) // asked.limit)
        data = replace(data, train=data.train[::step][: asked.limit])
    sizes = replace(sizes, vocabulary=data.vocabulary.size)
    model = cast(Seq2Seq, initial(lambda: Seq2Seq(sizes), asked.recipe.seed))
    steps = place / _STEPS
    done = sentences.train_on_sentences(data, model, asked.recipe, steps, tokens=_TOKENS, **how)
    # without the vocabulary the token numbers would mean nothing
    write_whole(place / WORDS, cast(Vocabulary, data.vocabulary).file.read_bytes())
    found = sentences.score_translations(cast(Seq2Seq, done.model), data)
    return done, TranslationScores(
        **vars(found),
        tests=len(data.test),
        documented=data.documented,
        seconds=done.seconds,
    )


def _kept(
    asked: _Asked, done: Training, scores: Scores, place: Path, begun: Mapping[str, Any]
) -> Trained:
    """Write the model and then the result; the file of the result says that all is there."""
    checkpoint.keep_model(place, checkpoint.read(cast(Path, done.checkpoint)))
    scores = rounded(scores)
    result = {
        "task": asked.task,
        "scores": asdict(scores),
        "parameters": cast(ViT | Seq2Seq, done.model).parameter_count(),
        "threads": done.threads,
        "precision": done.precision,
        "epochs": [without_nan(asdict(epoch)) for epoch in done.epochs],
        **begun,
    }
    text = json.dumps(result, indent=1, ensure_ascii=False)
    write_whole(place / RESULT, (text + "\n").encode())
    shutil.rmtree(place / _STEPS, ignore_errors=True)
    return Trained(done.model, asked.task, done.epochs, scores, place)


def _with_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with NaN in place of None, which JSON has instead."""
    return {name: math.nan if value is None else value for name, value in values.items()}
