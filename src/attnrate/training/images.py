"""Models of images: the images of CIFAR-10, training on them, and how many it recognises."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8
from torch import nn

from attnrate.training.epochs import EpochRecipe, Training, evaluate, train_epochs
from attnrate.training.feed import Images

#: Training images that the training error is of
JUDGED = 10_000
_WATCHED = 1000  # test images after every epoch
_BATCH = 250


@dataclass(frozen=True, eq=False)
class Photographs:
    """Images and labels to train on and to be judged by."""

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int[np.ndarray, " test"]


@dataclass(frozen=True, kw_only=True)
class ImageErrors:
    """How good a model of images is: shares of wrong answers, and cross entropies."""

    train_error: float
    test_error: float
    train_loss: float
    test_loss: float


def photographs(train: int, test: int) -> Photographs:
    """The first images of both splits of CIFAR-10."""
    from attnrate.data.cifar10 import cifar10

    data = cifar10()
    ours = data.train_images[:train], data.train_labels[:train]
    return Photographs(*map(np.array, (*ours, data.test_images[:test], data.test_labels[:test])))


def trained_on(
    data: Photographs,
    model: nn.Module,
    batch: int,
    recipe: EpochRecipe,
    folder: Path,
    progress: bool | None = False,
    device: object = "cpu",
) -> Training:
    """Train on the images, with a look at some tests after every epoch."""
    feed = Images(data.train_images, data.train_labels, batch, seed=recipe.seed)
    watched = _judging(data.test_images[:_WATCHED], data.test_labels[:_WATCHED])
    return train_epochs(
        model, feed, recipe, test=watched, folder=folder, progress=progress, device=device
    )


def judged(model: nn.Module, data: Photographs, count: int = JUDGED) -> ImageErrors:
    """Errors and losses on all tests and on the first `count` training images, unaugmented."""
    seen = _judging(data.train_images[:count], data.train_labels[:count])
    train_loss, train_right = evaluate(model, seen)
    test_loss, test_right = evaluate(model, _judging(data.test_images, data.test_labels))
    return ImageErrors(
        train_error=1 - train_right,
        test_error=1 - test_right,
        train_loss=train_loss,
        test_loss=test_loss,
    )


def error_on_tests(model: nn.Module, data: Photographs) -> float:
    """The share of test images that the model takes for something else."""
    return 1 - evaluate(model, _judging(data.test_images, data.test_labels))[1]


def _judging(images: np.ndarray, labels: np.ndarray) -> Images:
    return Images(images, labels, _BATCH, augment=False)
