"""How samples are divided: blocks to hold out, a rolling origin, and units that are independent."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from attnrate.choose.samples import Samples

#: Units of a series at most; a unit is at least as long as a window and its horizon
_UNITS = 50


@dataclass(frozen=True, eq=False)
class Fold:
    """One division of the samples.

    Attributes:
        train: The numbers of the samples that are learned from.
        held: The numbers of the samples that are held out; none shares a row with those of `train`.

    """

    train: Int64[np.ndarray, " train"]
    held: Int64[np.ndarray, " held"]


def blocks(samples: Samples, count: int, seed: int = 0) -> Int64[np.ndarray, " samples"]:
    """Number the samples by blocks of about equal size: of time, or of a panel drawn at random.

    Args:
        samples: The samples.
        count: The number of blocks.
        seed: Where the random numbers start that divide a panel.

    Returns:
        The block of each sample, from 0.

    """
    if samples.whole:
        order = np.random.default_rng(seed).permutation(samples.count)
        where = np.empty(samples.count, dtype=int)
        where[order] = np.arange(samples.count)
    else:
        _, last = samples.moments()
        # samples of one time, of several series, stay together
        where = np.searchsorted(np.sort(last), last)
    return (where * count // samples.count).astype(np.int64)


def units(samples: Samples) -> Int64[np.ndarray, " samples"]:
    """Number the samples by units whose errors are nearly independent of each other.

    Of a panel each sequence is one. Of a series a unit is a stretch of time, at least as long as a
    window and its horizon, because samples that overlap have errors in common.

    Args:
        samples: The samples.

    Returns:
        The unit of each sample, from 0 without gaps.

    """
    if samples.whole:
        return np.arange(samples.count, dtype=np.int64)
    _, last = samples.moments()
    span = last.max() - last.min() + 1
    size = max(samples.reach, span / _UNITS)
    count = max(1, int(span // size))
    found = np.minimum((last - last.min()) * count // span, count - 1)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def held_out(samples: Samples, numbers: Int64[np.ndarray, " samples"], block: int) -> Fold:
    """Hold out one block; samples that share a row's time with it are not learned from.

    Args:
        samples: The samples.
        numbers: The block of each sample.
        block: The block that is held out.

    """
    held = np.flatnonzero(numbers == block)
    apart = numbers != block
    if not samples.whole:
        first, last = samples.moments()
        apart &= (last < first[held].min()) | (first > last[held].max())
    return Fold(np.flatnonzero(apart), held)


def rolling(samples: Samples, count: int = 3, seed: int = 0) -> list[Fold]:
    """Divide by a rolling origin: learn from the past, hold out what comes next.

    The last half of the time is divided into `count` stretches, each held out once with all that
    lies before it learned from. Panels have no order of time: `count` of 2 `count` random blocks of
    their sequences are held out in turn.

    Args:
        samples: The samples.
        count: The number of folds.
        seed: Where the random numbers start that divide a panel.

    """
    numbers = blocks(samples, 2 * count, seed)
    folds = [held_out(samples, numbers, block) for block in range(count, 2 * count)]
    if samples.whole:
        return folds
    return [
        Fold(fold.train[numbers[fold.train] < numbers[fold.held[0]]], fold.held) for fold in folds
    ]
