"""One model trained on real data, in a folder of its own: the command `train`.

The folder holds checkpoints while it is trained (a killed run goes on from the last one), and in
the end model.safetensors and result.json; a translator's vocabulary, too.
"""

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from pydantic import TypeAdapter
from torch import nn

from attnrate.data.translation import TESTS
from attnrate.errors import InputError, StoreError, require_whole
from attnrate.files import alone, write_whole
from attnrate.fitting.device import as_device, as_threads
from attnrate.fitting.fit import initial
from attnrate.fitting.provenance import provenance
from attnrate.folders import look_at, read_mark, write_mark
from attnrate.models.seq2seq import Seq2Seq, seq2seq_settings
from attnrate.models.vit import ViT, vit_settings
from attnrate.settings import Count, Natural, Number, by, checked
from attnrate.targets.alter import MOVED, move_to_end
from attnrate.training import checkpoint, images, sentences
from attnrate.training.epochs import (
    Epoch,
    EpochRecipe,
    Precision,
    Training,
    read_epochs,
    rounded,
    without_nan,
)
from attnrate.training.images import ImageErrors
from attnrate.training.sentences import TextScores

Task = Literal["cifar10", "translation"]
#: Passes over the data: up to an hour on two shared cores for either
EPOCHS: dict[str, int] = {"cifar10": 15, "translation": 4}
_COMMAND = "train"
_RESULT, _WORDS, _STEPS = "result.json", "vocabulary.json", "checkpoints"
_LOCK = ".lock"
_IMAGES = (50_000, 10_000)
_BATCH, _TOKENS, _LONGEST = 128, 2048, 60


@dataclass(frozen=True, kw_only=True)
class ImageScores(ImageErrors):
    """How good a ViT is on `tests` images, and the seconds that it was trained for."""

    tests: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TranslationScores(TextScores):
    """How good a translator is on `tests` sentences, and the seconds that it was trained for.

    `documented` says whether they are those of the documented test set (data/translation.py).
    """

    tests: int
    documented: bool
    seconds: float


Scores = ImageScores | TranslationScores
_SCORES: dict[str, type[Scores]] = {"cifar10": ImageScores, "translation": TranslationScores}


@dataclass(frozen=True, eq=False)
class Trained:
    """A model that was trained on real data, its epochs, and how good it is.

    `scores` has test_error, test_loss and the like for images, bleu (with sacrebleu's signature)
    and samples for translation.
    """

    model: nn.Module
    task: Task
    epochs: tuple[Epoch, ...]
    scores: Scores
    folder: Path

    @property
    def seconds(self) -> float:
        """Seconds of training, without those of testing."""
        return sum(epoch.seconds for epoch in self.epochs)


@dataclass(frozen=True)
class _Asked:
    """What a run is asked for, all of it checked."""

    task: Task
    preset: str
    changes: Mapping[str, Any]
    altered: bool
    limit: int | None
    recipe: EpochRecipe

    @property
    def plain(self) -> dict[str, Any]:
        """What two runs must have in common to be one, for the folder's mark."""
        recipe = {name: value for name, value in asdict(self.recipe).items() if name != "threads"}
        sizes = {"preset": self.preset, "m_h": self.changes.get("m_h"), "altered": self.altered}
        return {**sizes, "limit": self.limit, **recipe}


@checked
def train(
    task: Task,
    folder: str | os.PathLike[str] | None = None,
    *,
    preset: str = "cpu",
    m_h: Count | None = None,
    altered: bool = False,
    epochs: Count | None = None,
    lr: Number | None = None,
    limit: Annotated[int, by(require_whole, _BATCH)] | None = None,
    seed: Natural = 0,
    threads: Annotated[int, by(as_threads)] | None = None,
    precision: Precision = "auto",
    device: str | torch.device = "cpu",
    progress: bool | None = None,
) -> Trained:
    """Train the ViT on CIFAR-10 ("cifar10") or the Seq2Seq on English-German ("translation").

    `m_h` is the head size, the preset's by default; values keep their size. `altered`: Table 1's
    order, the first ten tokens moved to the end. `lr` is the step size of Muon. `limit` is the most
    examples to train on and to test with, to try things. precision="auto" measures whether bfloat16
    is faster here, else it is "float32" or "bfloat16". The folder is named as the task by default.
    Called again, it goes on after an interruption, and only reads the results when all is done.
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
    place, mark = look_at(asked.task if folder is None else folder, _COMMAND)
    told = {"task": asked.task, "asked": asked.plain}
    if mark is None:
        write_mark(place, _COMMAND, told)
    elif _finished(place, mark, told):
        return trained(place)
    with alone(place / _LOCK, wait=False):
        # another process may have written its own mark, or have finished
        if _finished(place, read_mark(place, _COMMAND), told):
            return trained(place)
        write_mark(place, _COMMAND, told)
        begun = provenance()
        run = _on_images if asked.task == "cifar10" else _on_sentences
        done, scores = run(asked, place, {"device": device, "progress": progress})
        kept = _kept(asked, done, scores, place, begun)
    (place / _LOCK).unlink(missing_ok=True)
    return kept


def _finished(place: Path, mark: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether what is asked for is there; an InputError where something else is, or begun."""
    done = (place / _RESULT).is_file()
    if done or (place / _STEPS).is_dir():
        if mark.get("task") != told["task"]:
            what = f"this folder holds a model for {mark.get('task')!r}"
            raise InputError(what, str(place), "Name another one.")
        asked = mark.get("asked")
        _require_same(asked if isinstance(asked, dict) else {}, told["asked"])
    return done


def trained(folder: object) -> Trained:
    """The model of a folder in which `train` has finished."""
    place, mark = look_at(folder, _COMMAND)
    result = place / _RESULT
    if mark is None or not result.is_file():
        raise InputError(
            "there is no finished model in this folder", str(place), "Run the same train again."
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
    done = images.trained_on(data, model, _BATCH, asked.recipe, place / _STEPS, **how)
    found = images.judged(done.model, data)
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
    done = sentences.trained_on(data, model, _TOKENS, 1, asked.recipe, steps, **how)
    # without it the numbers of the tokens would mean nothing
    write_whole(place / _WORDS, data.vocabulary.file.read_bytes())
    found = sentences.scored(cast(Seq2Seq, done.model), data, beams=1)
    return done, TranslationScores(
        **vars(found),
        tests=len(data.test),
        documented=data.documented,
        seconds=done.seconds,
    )


def _kept(
    asked: _Asked, done: Training, scores: Scores, place: Path, begun: Mapping[str, Any]
) -> Trained:
    """Write the model and then the result, whose file says that all is there."""
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
    write_whole(place / _RESULT, (text + "\n").encode())
    shutil.rmtree(place / _STEPS, ignore_errors=True)
    return Trained(done.model, asked.task, done.epochs, scores, place)


def _with_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that JSON has none of as NaN again."""
    return {name: math.nan if value is None else value for name, value in values.items()}
