"""Sums of products of features and outputs, from which least squares of any columns follow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.linalg import cho_factor, cho_solve

from attnrate.choose.folds import blocks, held_out
from attnrate.choose.samples import Samples

#: Numbers in the features of one batch of samples
_BATCH = 4_000_000
#: Samples from which the centre and the scale of each column are taken
_SCALED = 20_000
#: The ridge of least squares that are to have none, beside columns of variance 1: rounding
NONE = 1e-10
#: Columns whose scale is below this share of their size are constant
_CONSTANT = 1e-9

#: From the numbers of samples to their features, one row for each of their points
Made = Callable[[Int64[np.ndarray, " some"]], Float64[np.ndarray, "points columns"]]


@dataclass(frozen=True, eq=False)
class Scaled:
    """Features and outputs by batches, every column but the first with mean 0 and variance 1.

    The first column is constant, so that centring the others leaves what they span as it is.
    """

    samples: Samples
    make: Made
    centre: Float64[np.ndarray, " columns"]
    scale: Float64[np.ndarray, " columns"]
    level: Float64[np.ndarray, " out"]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.centre)

    def batches(
        self, which: Int64[np.ndarray, " some"]
    ) -> Iterator[
        tuple[
            Int64[np.ndarray, " batch"],
            Float64[np.ndarray, "points columns"],
            Float64[np.ndarray, "points out"],
        ]
    ]:
        """Give the numbers of some samples, their features and their outputs, batch by batch."""
        size = max(1, _BATCH // (self.width * self.samples.places))
        for first in range(0, len(which), size):
            some = which[first : first + size]
            truth = self.samples.truth(some).reshape(-1, self.samples.out) - self.level
            found = self.make(some)
            found -= self.centre
            found /= self.scale
            yield some, found, truth


def scaled(samples: Samples, make: Made) -> Scaled:
    """Take the centre and the scale of each column from samples all over the data.

    Args:
        samples: The samples.
        make: Computes the features; their first column is 1.

    """
    few = max(1, _SCALED // samples.places)
    some = np.unique(np.linspace(0, samples.count - 1, min(few, samples.count)).astype(int))
    size = max(1, _BATCH // (make(some[:1]).size))
    near = make(some[:1])[0]
    total = square = np.zeros(())
    points = 0
    for first in range(0, len(some), size):
        # beside one of them, because squares of large numbers would drown the variance
        found = make(some[first : first + size]) - near
        total, square = total + found.sum(0), square + (found**2).sum(0)
        points += len(found)
    middle = total / points
    centre = near + middle
    spread = np.sqrt(np.maximum(square / points - middle**2, 0.0))
    spread[spread <= _CONSTANT * np.abs(centre)] = 1.0
    centre[0], spread[0] = 0.0, 1.0
    level = samples.truth(some).reshape(-1, samples.out).mean(0)
    return Scaled(samples, make, centre, spread, level)


@dataclass(frozen=True, eq=False)
class Normal:
    """The sums XᵀX, XᵀY and Σ y² of some points, and the number of points."""

    gram: Float64[np.ndarray, "columns columns"]
    cross: Float64[np.ndarray, "columns out"]
    square: float
    points: int

    def plus(self, other: "Normal") -> "Normal":
        """The sums over the points of both."""
        return Normal(
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
            self.points + other.points,
        )

    def of(self, columns: Int64[np.ndarray, " some"]) -> "Normal":
        """The sums of some columns."""
        return Normal(
            self.gram[np.ix_(columns, columns)], self.cross[columns], self.square, self.points
        )

    def solve(self, ridge: Float64[np.ndarray, " columns"]) -> Float64[np.ndarray, "columns out"]:
        """Minimise the mean of |y - θᵀx|² plus Σ_j ridge_j |θ_j|².

        Columns have variance 1 in the samples that gave their scale. Where one has more here, such
        as a column with a single value outside of those samples, its penalty grows with it.

        Args:
            ridge: The weight of each column's penalty.

        """
        matrix = self.gram / self.points
        size = np.maximum(1.0, np.diagonal(matrix))
        matrix[np.diag_indices_from(matrix)] += (ridge + NONE) * size
        return np.asarray(cho_solve(cho_factor(matrix, lower=True), self.cross / self.points))

    def error(self, theta: Float64[np.ndarray, "columns out"]) -> float:
        """The mean of |y - θᵀx|² over the points, summed over the coordinates of an output."""
        across = float((theta * (self.gram @ theta - 2 * self.cross)).sum())
        return max(0.0, self.square + across) / self.points


@dataclass(frozen=True, eq=False)
class Blocked:
    """The sums of each block of samples, in pieces by what may be learned from beside others.

    Attributes:
        count: The number of blocks.
        numbers: The block of each sample.
        pieces: The sums of each piece.
        own: The block of each piece.
        barred: At [piece, block], whether the piece shares rows with the block, or belongs to it.

    """

    count: int
    numbers: Int64[np.ndarray, " samples"]
    pieces: tuple[Normal, ...]
    own: Int64[np.ndarray, " pieces"]
    barred: Bool[np.ndarray, "pieces blocks"]

    def whole(self) -> Normal:
        """The sums over all samples."""
        return _added([*self.pieces])

    def block(self, number: int) -> Normal:
        """The sums over one block."""
        return _added(
            [one for one, own in zip(self.pieces, self.own, strict=True) if own == number]
        )

    def beside(self, *numbers: int, of: tuple[int, ...] | None = None) -> Normal | None:
        """Add the sums of the other blocks, without samples that share rows with these.

        Args:
            numbers: The blocks that are left out.
            of: The blocks that are taken; by default all others.

        Returns:
            The sums; None if nothing is left.

        """
        free = np.asarray(~self.barred[:, list(numbers)].any(1))
        if of is not None:
            free &= np.isin(self.own, of)
        kept = [one for one, taken in zip(self.pieces, free, strict=True) if taken]
        return _added(kept) if kept else None


def _added(kept: list[Normal]) -> Normal:
    """The sums over all of these."""
    return Normal(
        sum((one.gram for one in kept[1:]), kept[0].gram),
        sum((one.cross for one in kept[1:]), kept[0].cross),
        sum(one.square for one in kept),
        sum(one.points for one in kept),
    )


def sums(
    data: Scaled, count: int, seed: int, look: Callable[[float], object] = lambda share: None
) -> Blocked:
    """Sum up the features and outputs of all samples, block by block.

    Args:
        data: The features and outputs.
        count: The number of blocks.
        seed: Where the random numbers start that divide a panel.
        look: Is called with the share that is done.

    """
    samples = data.samples
    numbers = blocks(samples, count, seed)
    barred = np.ones((samples.count, count), dtype=bool)
    for block in range(count):
        barred[held_out(samples, numbers, block).train, block] = False
    keys, piece = np.unique(
        np.column_stack([numbers, barred]).astype(np.int64), axis=0, return_inverse=True
    )
    piece = piece.reshape(-1)
    made, done = [], 0
    for number in range(len(keys)):
        gram = np.zeros((data.width, data.width))
        cross = np.zeros((data.width, samples.out))
        square, points = 0.0, 0
        for some, x, y in data.batches(np.flatnonzero(piece == number)):
            gram += x.T @ x
            cross += x.T @ y
            square += float((y**2).sum())
            points += len(y)
            done += len(some)
            look(done / samples.count)
        made.append(Normal(gram, cross, square, points))
    return Blocked(count, numbers, tuple(made), keys[:, 0], keys[:, 1:].astype(bool))
