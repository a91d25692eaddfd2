"""Batches of real data: what is in them depends on the seed and the epoch alone; made ahead."""

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
"""What goes in and what shall come out."""

#: Means and deviations of CIFAR-10's red, green and blue
PIXEL_MEAN, PIXEL_DEVIATION = (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)
_AHEAD = 4  # batches that are kept ready


@dataclass(frozen=True)
class Outcome:
    """What a model made of a batch: its loss, how many of `count` answers are right."""

    loss: Tensor
    right: Tensor
    count: int
    units: int


@runtime_checkable
class Feed(Protocol):
    """Data to train on or to be judged by."""

    @property
    def unit(self) -> str:
        """What the speed is counted in."""

    def facts(self) -> dict[str, object]:
        """What tells this feed from another one."""

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, always the same ones."""

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """The loss of a batch, to be made small."""


@dataclass(frozen=True, eq=False)
class Images:
    """Images with labels; with `augment`, each is flipped by chance and cropped from a border of 4.

    The last batch of an epoch may be smaller when nothing is augmented; in training it is left out.
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
        """Counts and settings; a sum over the labels stands for the data."""
        place = np.arange(1, len(self.labels) + 1)
        return {
            "images": len(self.images),
            "labels": int((self.labels * place).sum() % (1 << 31)),
            **{name: getattr(self, name) for name in ("batch", "augment", "smoothing", "seed")},
        }

    def steps(self, epoch: int) -> int:
        """Whole batches when training, else all."""
        whole, rest = divmod(len(self.images), self.batch)
        return whole + bool(rest and not self.augment)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """In another order every epoch when training."""
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
        """Cross entropy over the classes; images are enlarged for a model of larger ones."""
        images, labels = batch
        logits = model(_enlarged(images, model))
        return _outcome(logits, labels, self.smoothing if model.training else 0.0, len(labels))


def _require_paired(what: str, ones: Sized, others: Sized) -> None:
    """An InputError unless there are as many of the ones as of the others, and any at all."""
    if len(ones) != len(others) or len(ones) == 0:
        raise InputError(f"{what}, and at least one", (len(ones), len(others)))


def _outcome(
    logits: Float[Tensor, "count classes"],
    answers: Int[Tensor, " count"],
    smoothing: float,
    units: int,
) -> Outcome:
    """The mean cross entropy of the answers, and how many of them are the likeliest."""
    loss = functional.cross_entropy(logits, answers, label_smoothing=smoothing)
    right = (logits.detach().argmax(-1) == answers).sum()
    return Outcome(loss, right, len(answers), units)


def _enlarged(images: Tensor, model: nn.Module) -> Tensor:
    """Images of the size that the model has been made for; here, so that batches stay small."""
    size = getattr(getattr(model, "settings", None), "image", images.shape[-1])
    if size == images.shape[-1]:
        return images
    return functional.interpolate(images, size=(size, size), mode="bilinear", antialias=True)


def normalised(
    images: UInt8[np.ndarray, "count height width channels"],
) -> Float[Tensor, "count channels height width"]:
    """Images as models take them: channels first, of mean zero and deviation one."""
    mean, deviation = (np.array(each, dtype=np.float32) for each in (PIXEL_MEAN, PIXEL_DEVIATION))
    return torch.from_numpy((images - mean) / deviation).permute(0, 3, 1, 2)


def flipped_and_cropped(
    images: UInt8[np.ndarray, "count height width channels"],
    random: np.random.Generator,
    border: int = 4,
) -> UInt8[np.ndarray, "count height width channels"]:
    """Every image moved by up to `border` pixels either way, half of them mirrored.

    What comes in at an edge is black; one gather does all of it.
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
    """Sentences with their translations, as token numbers without begin and end.

    Batches hold sentences of like length, as many as `tokens` places for source and target allow.
    A training epoch mixes their order and, by chance, sentences of neighbouring length.
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
        """Depends on how the sentences of an epoch fit together."""
        return len(self._groups(epoch))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Sources with their end; targets with begin and end."""
        for group in self._groups(epoch):
            special = self.specials
            source = [[*self.sources[i], special.end] for i in group]
            target = [[special.begin, *self.targets[i], special.end] for i in group]
            yield padded(source, special.pad), padded(target, special.pad)

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """Cross entropy with smoothed labels over the target's tokens, padding left out."""
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
        # by the target's length, and by the source's where that is about the same
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
    """Token numbers as one tensor, with padding behind the shorter rows."""
    filled = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for number, row in enumerate(rows):
        filled[number, : len(row)] = row
    return torch.from_numpy(filled)


class Ahead:
    """Batches made by a thread of their own while the model works; counts the seconds of waiting.

    Leave it as a context, so that the thread ends when the loop breaks off.
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
    """A feed whose epochs are parts of another's: checkpoints come `parts` times as often."""

    whole: Feed
    parts: int

    @property
    def unit(self) -> str:
        """What the speed is counted in."""
        return self.whole.unit

    def facts(self) -> dict[str, object]:
        """What tells the whole from another feed, and the number of parts."""
        return {**self.whole.facts(), "parts": self.parts}

    def steps(self, epoch: int) -> int:
        """Batches of this part."""
        return len(range(epoch % self.parts, self.whole.steps(epoch // self.parts), self.parts))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of the whole that are `parts` apart, from the number of the part on."""
        every = self.whole.batches(epoch // self.parts)
        return itertools.islice(every, epoch % self.parts, None, self.parts)

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """The loss of a batch, as the whole has it."""
        return self.whole.outcome(model, batch)
