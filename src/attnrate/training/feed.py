"""Batches of real data, made ahead; what is in them depends only on the seed and the epoch."""

import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import nn
from torch.nn import functional

from attnrate.errors import InputError, require_whole
from attnrate.models.decoding import Specials, Translator

Tensor = torch.Tensor
Batch = tuple[Tensor, Tensor]
"""The inputs of a model and the outputs that are wanted."""

#: Means and standard deviations of CIFAR-10's red, green and blue
PIXEL_MEAN, PIXEL_DEVIATION = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)
_AHEAD = 4  # batches that are made before they are needed


@dataclass(frozen=True)
class Outcome:
    """How well a model does on a batch.

    Attributes:
        loss: The mean loss.
        right: The number of right answers.
        count: The number of answers.
        units: The number of images or tokens, by which speed is measured.

    """

    loss: Tensor
    right: Tensor
    count: int
    units: int


@runtime_checkable
class Feed(Protocol):
    """Data to train on or to test with."""

    @property
    def unit(self) -> str:
        """What the speed is counted in: "images" or "tokens"."""

    def facts(self) -> dict[str, object]:
        """Counts and settings that identify the feed."""

    def steps(self, epoch: int) -> int:
        """The number of batches in an epoch."""

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch; every call gives the same ones."""

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """How well the model does on a batch; its loss is to be made small."""


@dataclass(frozen=True, eq=False)
class Images:
    """A feed of images with labels.

    With `augment`, as in training, images are mirrored and shifted at random, their order changes
    from epoch to epoch, and a last batch that is not full is left out.
    """

    images: UInt8[np.ndarray, "count height width channels"]
    labels: Int[np.ndarray, " labels"]
    batch: int = 128
    augment: bool = True
    smoothing: float = 0.0
    seed: int = 0
    unit: str = field(default="images", init=False)

    def __post_init__(self) -> None:
        require_whole("batch", self.batch, 1)
        _require_paired("there must be as many labels as images", self.images, self.labels)
        if self.augment and len(self.images) < self.batch:
            raise InputError(
                f"a batch cannot be larger than the {len(self.images)} images", self.batch
            )

    def facts(self) -> dict[str, object]:
        """Counts and settings; a sum over the labels stands for the images."""
        place = np.arange(1, len(self.labels) + 1)
        return {
            "images": len(self.images),
            "labels": int((self.labels * place).sum() % (1 << 31)),
            **{name: getattr(self, name) for name in ("batch", "augment", "smoothing", "seed")},
        }

    def steps(self, epoch: int) -> int:
        """The number of batches in an epoch; full ones only in training."""
        whole, rest = divmod(len(self.images), self.batch)
        return whole + bool(rest and not self.augment)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch; in training their order depends on the epoch."""
        random = np.random.default_rng([self.seed, epoch])
        count = len(self.images)
        order = random.permutation(count) if self.augment else np.arange(count)
        for step in range(self.steps(epoch)):
            chosen = order[step * self.batch : (step + 1) * self.batch]
            images = self.images[chosen]
            if self.augment:
                images = flipped_and_cropped(images, random)
            yield normalised(images), torch.from_numpy(self.labels[chosen].astype(np.int64))

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Cross entropy over the classes; images are enlarged to the size that the model takes."""
        images, labels = batch
        logits = model(enlarged(images, model))
        return _outcome(logits, labels, self.smoothing if model.training else 0.0, len(labels))


def _require_paired(what: str, ones: Sized, others: Sized) -> None:
    """Raise an InputError unless both have the same length, which is not 0."""
    if len(ones) != len(others) or len(ones) == 0:
        raise InputError(f"{what}, and at least one", (len(ones), len(others)))


def _outcome(
    logits: Float[Tensor, "count classes"],
    answers: Int[Tensor, " count"],
    smoothing: float,
    units: int,
) -> Outcome:
    """The mean cross entropy of the answers, and the number of those that are the likeliest."""
    loss = functional.cross_entropy(logits, answers, label_smoothing=smoothing)
    right = (logits.detach().argmax(-1) == answers).sum()
    return Outcome(loss, right, len(answers), units)


def enlarged(images: Tensor, model: nn.Module) -> Tensor:
    """The images in the size that the model takes; enlarged late, so that batches stay small."""
    size = getattr(getattr(model, "settings", None), "image", images.shape[-1])
    if size == images.shape[-1]:
        return images
    return functional.interpolate(images, size=(size, size), mode="bilinear", antialias=True)


def normalised(
    images: UInt8[np.ndarray, "count height width channels"],
) -> Float[Tensor, "count channels height width"]:
    """Turn CIFAR-10's images into what models of images take.

    Args:
        images: Values 0 to 255, (images, height, width, channels).

    Returns:
        Numbers of about mean 0 and standard deviation 1, (images, channels, height, width).

    Examples:
        >>> import numpy as np
        >>> ar.normalised(np.zeros((2, 32, 32, 3), np.uint8)).shape
        torch.Size([2, 3, 32, 32])

    """
    mean, deviation = (np.array(each, dtype=np.float32) for each in (PIXEL_MEAN, PIXEL_DEVIATION))
    return torch.from_numpy((images - mean) / deviation).permute(0, 3, 1, 2)


def flipped_and_cropped(
    images: UInt8[np.ndarray, "count height width channels"],
    random: np.random.Generator,
    border: int = 4,
) -> UInt8[np.ndarray, "count height width channels"]:
    """Shift each image by up to `border` pixels in both directions, and mirror half of them.

    What comes in at an edge is black. One gather does all of it.
    """
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (border, border), (border, border), (0, 0)))
    top, left = random.integers(0, 2 * border + 1, (2, count, 1))
    mirrored = random.random((count, 1)) < 0.5
    rows = top + np.arange(height)
    columns = np.where(mirrored, np.arange(width)[::-1], np.arange(width)) + left
    found: np.ndarray = padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]]
    return found


@dataclass(frozen=True, eq=False)
class Pairs:
    """A feed of sentences with their translations, as token numbers without begin and end.

    A batch holds sentences of similar length, and at most `tokens` places for sources and targets.
    With `shuffle`, as in training, the order of batches and the sentences in them change from epoch
    to epoch.
    """

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    specials: Specials
    tokens: int = 4096
    shuffle: bool = True
    smoothing: float = 0.1
    seed: int = 0
    unit: str = field(default="tokens", init=False)

    def __post_init__(self) -> None:
        require_whole("tokens", self.tokens, 1)
        _require_paired("there must be as many targets as sources", self.sources, self.targets)
        longest = max(map(sum, zip(*self._lengths, strict=True)))
        if longest > self.tokens:
            raise InputError(
                f"tokens must leave room for the longest pair, {longest} tokens",
                self.tokens,
                f"Pass tokens={longest} or leave the pair out.",
            )

    @property
    def _lengths(self) -> tuple[list[int], list[int]]:
        return [len(s) + 1 for s in self.sources], [len(t) + 1 for t in self.targets]

    def facts(self) -> dict[str, object]:
        """Counts and settings; a sum over the tokens stands for the data."""
        return {
            "pairs": len(self.sources),
            "sum": sum(map(sum, self.sources)) + 3 * sum(map(sum, self.targets)),
            **{name: getattr(self, name) for name in ("tokens", "shuffle", "smoothing", "seed")},
        }

    def steps(self, epoch: int) -> int:
        """The number of batches in an epoch, which depends on how its sentences fit together."""
        return len(self._groups(epoch))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch: sources with their end, targets with begin and end."""
        for group in self._groups(epoch):
            special = self.specials
            source = [[*self.sources[i], special.end] for i in group]
            target = [[special.begin, *self.targets[i], special.end] for i in group]
            yield padded(source, special.pad), padded(target, special.pad)

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Cross entropy with smoothed labels over the tokens of targets, padding left out."""
        if not isinstance(model, Translator):
            raise InputError("pairs are for a model that translates", type(model).__name__)
        source, target = batch
        given, wanted = target[:, :-1], target[:, 1:]
        kept = wanted != self.specials.pad
        logits = model.read_out(model.states(source, given)[kept])
        units = int(kept.sum() + (source != self.specials.pad).sum())
        return _outcome(logits, wanted[kept], self.smoothing if model.training else 0.0, units)

    def _groups(self, epoch: int) -> list[list[int]]:
        random = np.random.default_rng([self.seed, epoch])
        source, target = (np.array(lengths) for lengths in self._lengths)
        spread = random.uniform(-1, 1, (2, len(source))) if self.shuffle else np.zeros((2, 1))
        # by the target's length, then by the source's among those of about the same
        order = np.lexsort((source + spread[0], np.round(target + spread[1])))
        groups: list[list[int]] = [[]]
        widths = 0, 0
        for i in order.tolist():
            wider = max(widths[0], int(source[i])), max(widths[1], int(target[i]))
            if sum(wider) * (len(groups[-1]) + 1) > self.tokens:
                groups.append([])
                wider = int(source[i]), int(target[i])
            widths = wider
            groups[-1].append(i)
        return [groups[i] for i in random.permutation(len(groups))] if self.shuffle else groups


def padded(rows: Sequence[Sequence[int]], pad: int) -> Int[Tensor, "batch longest"]:
    """Rows of token numbers as one tensor, with padding after the shorter rows."""
    filled = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return torch.from_numpy(filled)


class Ahead:
    """The batches of an epoch, made by a thread while the model works.

    `waited` counts the seconds in which the model waited for a batch. It is used as a context, so
    that the thread ends when the loop is left early.
    """

    def __init__(self, feed: Feed, epoch: int) -> None:
        self.waited = 0.0
        self._batches = feed.batches(epoch)
        self._maker = ThreadPoolExecutor(1)

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        self._maker.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[Batch]:
        ready = deque(self._asked() for _ in range(_AHEAD))
        while True:
            begin = time.perf_counter()
            found = ready.popleft().result()
            self.waited += time.perf_counter() - begin
            if found is None:
                return
            ready.append(self._asked())
            yield found

    def _asked(self) -> "Future[Batch | None]":
        return self._maker.submit(next, self._batches, None)


@dataclass(frozen=True, eq=False)
class Parts:
    """A feed whose epochs are parts of another feed's, so that checkpoints come more often.

    `parts` epochs make one epoch of the whole feed.
    """

    whole: Feed
    parts: int

    @property
    def unit(self) -> str:
        """What the speed is counted in: "images" or "tokens"."""
        return self.whole.unit

    def facts(self) -> dict[str, object]:
        """The facts of the whole feed, and the number of parts."""
        return {**self.whole.facts(), "parts": self.parts}

    def steps(self, epoch: int) -> int:
        """The number of batches in this part."""
        return len(range(epoch % self.parts, self.whole.steps(epoch // self.parts), self.parts))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Each `parts`-th batch of the whole epoch, beginning with the number of the part."""
        every = self.whole.batches(epoch // self.parts)
        return itertools.islice(every, epoch % self.parts, None, self.parts)

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """How well the model does on a batch, as the whole feed measures it."""
        return self.whole.outcome(model, batch)
