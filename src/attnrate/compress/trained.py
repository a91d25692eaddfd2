"""Models that `train` has made: inputs to cut them by, and the score by which they are judged.

Which task a run had, and with how many tests it was judged, is read from result.json in its folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import nn

from attnrate.compress.quality import Score
from attnrate.data.bpe import Vocabulary
from attnrate.errors import InputError
from attnrate.folders import read_mark
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, checked
from attnrate.spectra.inputs.batched import Batches
from attnrate.training import images, sentences
from attnrate.training.checkpoint import UNREADABLE, first_line, holds_model
from attnrate.training.feed import enlarged, normalised, padded
from attnrate.training.train import COMMAND, RESULT, WORDS, Task

Tensor = torch.Tensor
#: Inputs that are taken from the training data, if nothing else is asked for
INPUTS = 512
_MODELS: dict[str, type[nn.Module]] = {"cifar10": ViT, "translation": Seq2Seq}
_OTHERS = "With inputs of your own (--images or --inputs) a cut works without it, and has no score."


@dataclass(frozen=True)
class TaskData:
    """The data of a task.

    Attributes:
        inputs: Inputs from the training data, without labels.
        score: Judges a model on the test data.

    """

    inputs: Batches
    score: Score


@dataclass(frozen=True)
class Run:
    """A finished run of `train`.

    Attributes:
        folder: Its folder.
        task: What its model was trained for.
        tests: The number of tests with which the model was judged.

    """

    folder: Path
    task: Task
    tests: int

    @checked
    def data(self, model: nn.Module, limit: Count = INPUTS, batch: Count = 8) -> TaskData:
        """The data of its task, fetched when first needed.

        Args:
            model: The model of the run. It has the order in which the tokens of its inputs come
                (`altered`), so that it is given them as they are.
            limit: The largest number of inputs to take from the training data, evenly spread.
            batch: The number of inputs in a batch.

        Returns:
            Inputs, and the score on the tests with which the run was judged.

        Raises:
            InputError: The model is not of the task, or is one of other words than the sentences of
                this machine.
            FetchError: The data are not in the cache and cannot be fetched.

        """
        if isinstance(model, ViT) and self.task == "cifar10":
            return _photographs(model, self.tests, limit, batch)
        if isinstance(model, Seq2Seq) and self.task == "translation":
            return _sentences(model, self.folder, self.tests, limit, batch)
        raise InputError(
            f"{RESULT} is that of a {_MODELS[self.task].__name__} for {self.task}, and the model "
            "beside it is a {value}",
            type(model).__name__,
            f"Put the {RESULT} of the training of this model there. {_OTHERS}",
        )


def run_of(folder: Path) -> Run | None:
    """What `train` has written into a folder.

    Args:
        folder: Any folder.

    Returns:
        The run; None for a folder that is not of `train`.

    Raises:
        InputError: The run is not finished, or its result.json is missing or cannot be read.

    """
    if not holds_model(folder) and not _is_marked(folder):
        return None
    path = folder / RESULT
    if not path.is_file():
        raise InputError(
            f"the folder {{value}} of attnrate train has no {RESULT}, which a run writes at its "
            "end and which says how its model is judged",
            str(folder),
            "Run the same attnrate train again, which finishes it, or copy that file from where "
            f"the model was trained. {_OTHERS}",
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        task, tests = found["task"], found["scores"]["tests"]
        if task not in _MODELS:
            raise ValueError(f"the task {task!r} is not known")
        if type(tests) is not int or tests < 1:
            raise ValueError(f"it says that there were {tests!r} tests")
    except (*UNREADABLE, KeyError, TypeError) as problem:
        raise InputError(
            f"{RESULT} does not say how the model is judged ({first_line(problem)})",
            str(path),
            f"Copy that file from where the model was trained. {_OTHERS}",
        ) from problem
    return Run(folder, task, tests)


def _is_marked(folder: Path) -> bool:
    """Whether a folder was made by `train`, be it that there is no model yet."""
    try:
        read_mark(folder, COMMAND)
    except InputError:
        return False
    return True


def _spread(count: int, limit: int) -> slice:
    """At most `limit` of so many things, evenly spread."""
    step = max(1, count // limit)
    return slice(0, step * limit, step)


def _photographs(model: ViT, tests: int, limit: int, batch: int) -> TaskData:
    data = images.photographs(test=tests)
    own = data.train_images[_spread(len(data.train_images), limit)]

    def make(start: int, stop: int) -> dict[str, Tensor]:
        return {"images": enlarged(normalised(own[start:stop]), model)}

    def accuracy(judged: nn.Module) -> float:
        with Progress("judging on test images", after=QUIET):
            return 1 - images.error_on_tests(judged, data)

    score = Score("accuracy", accuracy, len(data.test_images))
    return TaskData(Batches(len(own), batch, make), score)


def _sentences(model: Seq2Seq, folder: Path, tests: int, limit: int, batch: int) -> TaskData:
    data = sentences.sentences("all", model.settings.vocabulary, tests=tests)
    words, file = cast(Vocabulary, data.vocabulary).file, folder / WORDS
    if not file.is_file() or file.read_bytes() != words.read_bytes():
        raise InputError(
            f"this model has other words than the sentences of this machine; those of {words} are "
            f"not in {WORDS} of its folder",
            str(folder),
            "Another version of Debian has other sentences: cut the model where it was trained. "
            f"{_OTHERS}",
        )
    pairs, special = data.train[_spread(len(data.train), limit)], model.specials
    # the last inputs are held out, and neighbours in the data are from the same program
    order = np.random.default_rng(0).permutation(len(pairs)).tolist()

    def make(start: int, stop: int) -> dict[str, Tensor]:
        own = [pairs[i] for i in order[start:stop]]
        return {
            "source": padded([[*english, special.end] for english, _ in own], special.pad),
            "target": padded([[special.begin, *german] for _, german in own], special.pad),
        }

    def bleu(judged: nn.Module) -> float:
        return sentences.score_translations(cast(Seq2Seq, judged), data).bleu

    score = Score("bleu", bleu, len(data.test))
    return TaskData(Batches(len(pairs), batch, make), score)
