"""Models of images: the photographs of CIFAR-10, training on them, and how many are recognised."""

import os
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import nn

from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, checked
from attnrate.training.epochs import EpochRecipe, evaluate, train_epochs
from attnrate.training.feed import Images
from attnrate.training.history import Training

#: The number of training images that the training error is measured on
JUDGED = 10_000
_WATCHED = 1000  # test images that are judged after every epoch
_BATCH = 250
_COUNTS = (50_000, 10_000)


@dataclass(frozen=True, eq=False)
class Photographs:
    """Images with labels, to train on and to test with.

    Attributes:
        train_images: The training images, values 0 to 255, (images, height, width, channels).
        train_labels: The class of each training image, from 0.
        test_images: The test images.
        test_labels: The class of each test image.

    Examples:
        >>> import numpy as np
        >>> images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.arange(8)
        >>> data = ar.Photographs(images[:6], labels[:6], images[6:], labels[6:])
        >>> len(data.test_labels)
        2

    """

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int[np.ndarray, " test"]

    def __repr__(self) -> str:
        return f"{len(self.train_labels):,} training and {len(self.test_labels):,} test images"


@dataclass(frozen=True, kw_only=True)
class ImageErrors:
    """How well a model recognises images.

    Attributes:
        train_error: The share of wrong answers on training images, from 0 to 1.
        test_error: The share of wrong answers on test images, from 0 to 1.
        train_loss: The mean cross entropy on training images.
        test_loss: The mean cross entropy on test images.

    Examples:
        >>> ar.ImageErrors(train_error=0.1, test_error=0.2, train_loss=0.3, test_loss=0.6)
        ImageErrors(train_error=0.1, test_error=0.2, train_loss=0.3, test_loss=0.6)

    """

    train_error: float
    test_error: float
    train_loss: float
    test_loss: float


@checked
def photographs(train: Count = _COUNTS[0], test: Count = _COUNTS[1]) -> Photographs:
    """CIFAR-10: small photographs of ten kinds of things, fetched when first needed (140 MB).

    Args:
        train: The number of training images, from the beginning; at most 50,000.
        test: The number of test images, from the beginning; at most 10,000.

    Returns:
        The images, 32 × 32 pixels, with their labels from 0 to 9.

    Raises:
        FetchError: The images are not in the cache and cannot be fetched.

    Examples:
        >>> ar.photographs(train=1000, test=200)
        1,000 training and 200 test images

    """
    from attnrate.data.cifar10 import cifar10

    data = cifar10()
    ours = data.train_images[:train], data.train_labels[:train]
    return Photographs(*map(np.array, (*ours, data.test_images[:test], data.test_labels[:test])))


def train_on_images(
    data: Photographs,
    model: nn.Module,
    recipe: EpochRecipe,
    folder: str | os.PathLike[str] | None = None,
    *,
    batch: int = 128,
    device: str | torch.device = "cpu",
    progress: bool | None = None,
) -> Training:
    """Train any model of images, which are mirrored and shifted at random.

    After every epoch the model is tested on the first 1,000 test images.

    Args:
        data: The images.
        model: A torch module from images (batch, 3, height, width), normalised as by `normalised`,
            to one logit per class. It is trained itself, not a copy of it.
        recipe: How to train.
        folder: Where a checkpoint is written after every epoch. A run that finds checkpoints there
            goes on from the last one. None keeps no checkpoints.
        batch: The number of images in a batch.
        device: Where to train, as torch names it.
        progress: True writes a line per epoch where there is no terminal; False shows nothing. By
            default a terminal shows a live line.

    Returns:
        The model, its epochs, and how it was computed.

    Examples:
        >>> import numpy as np, torch
        >>> images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.arange(8)
        >>> data = ar.Photographs(images, labels, images, labels)
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
        >>> done = ar.train_on_images(data, model, ar.EpochRecipe(epochs=2), batch=4)
        >>> len(done.epochs)
        2

    """
    feed = Images(data.train_images, data.train_labels, batch, seed=recipe.seed)
    watched = _judging(data.test_images[:_WATCHED], data.test_labels[:_WATCHED])
    return train_epochs(
        model, feed, recipe, test=watched, folder=folder, progress=progress, device=device
    )


def judge_images(model: nn.Module, data: Photographs, count: int = JUDGED) -> ImageErrors:
    """Measure how well a model recognises images.

    Args:
        model: A torch module from normalised images to one logit per class.
        data: The images.
        count: The number of training images that the training error is measured on.

    Returns:
        Errors and losses on all test images and on the first `count` training images, neither
        mirrored nor shifted.

    Examples:
        >>> import numpy as np, torch
        >>> images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.zeros(8, int)
        >>> data = ar.Photographs(images, labels, images, labels)
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 1))
        >>> ar.judge_images(model, data).test_error
        0.0

    """
    seen = _judging(data.train_images[:count], data.train_labels[:count])
    with Progress("judging on training images", after=QUIET) as shown:
        train_loss, train_right = evaluate(model, seen)
        shown.at("judging on test images")
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
