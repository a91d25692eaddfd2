"""Linear maps with a matrix for each position of a sequence: causal ones, and any."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.linalg import cho_solve, cholesky, solve_triangular

from attnrate.choose.rungs import RIDGES, Class
from attnrate.choose.samples import Samples
from attnrate.choose.sums import NONE, Normal, sums
from attnrate.choose.sums import scaled as scaled_columns

#: Coordinates of a whole sequence at most
MOST = 1024


@dataclass(frozen=True, eq=False)
class ByPosition:
    """Squared errors of linear maps by position, a sum over the outputs of each sequence.

    Attributes:
        inside: The errors of the least squares of all sequences, without a ridge.
        held: The errors of each sequence by the least squares of the other blocks.

    """

    inside: Float64[np.ndarray, " samples"]
    held: Float64[np.ndarray, " samples"]


def by_position(samples: Samples, count: int, seed: int) -> dict[Class, ByPosition]:
    """Fit the causal and any linear maps of a panel, with a matrix and a constant per position.

    Args:
        samples: A panel.
        count: The number of blocks.
        seed: Where the random numbers start that divide the panel.

    Returns:
        The errors of both classes; nothing where sequences are too long for this.

    """
    if samples.length * samples.d > MOST:
        return {}
    flat = _flat(samples)
    data = scaled_columns(
        flat,
        lambda which: np.concatenate(
            [np.ones((len(which), 1)), flat.x[flat.starts[which]]], axis=1
        ),
    )
    blocked = sums(data, count, seed)
    # the outputs of each position follow those of the position before; so do the coordinates
    out = samples.y.shape[1]
    ends = 1 + samples.d * np.arange(1, samples.length + 1)
    found: dict[Class, ByPosition] = {}
    classes: tuple[Class, Class] = ("causal", "linear")
    for name in classes:
        last = ends if name == "causal" else np.full(samples.length, data.width)
        whole = _solved(blocked.whole(), 0.0, last, out)
        inside, held = np.empty(samples.count), np.empty(samples.count)
        for block in range(count):
            ridge = _ridge(
                blocked.beside(block, (block + 1) % count),
                blocked.block((block + 1) % count),
                last,
                out,
            )
            rest = blocked.beside(block)
            assert rest is not None
            apart = _solved(rest, ridge, last, out)
            for some, x, y in data.batches(np.flatnonzero(blocked.numbers == block)):
                inside[some] = ((y - x @ whole) ** 2).sum(1)
                held[some] = ((y - x @ apart) ** 2).sum(1)
        found[name] = ByPosition(inside, held)
    return found


def _flat(samples: Samples) -> Samples:
    """The panel as single tokens that hold whole sequences, with all their outputs."""
    count = samples.count
    every = samples.starts[:, None] + np.arange(samples.length)
    return Samples(
        x=samples.x[every].reshape(count, -1),
        y=samples.y[every].reshape(count, -1),
        starts=np.arange(count),
        length=1,
        horizon=0,
        whole=True,
        time=np.arange(count),
        inputs=tuple(map(str, range(samples.length * samples.d))),
        outputs=tuple(map(str, range(samples.length * samples.y.shape[1]))),
    )


def _ridge(
    rest: Normal | None, watched: Normal, last: Int64[np.ndarray, " length"], out: int
) -> float:
    """The weight of the ridge whose maps are best on the watched sequences."""
    assert rest is not None
    errors = [watched.error(_solved(rest, ridge, last, out)) for ridge in RIDGES]
    return RIDGES[int(np.argmin(errors))]


def _solved(
    sums: Normal, ridge: float, last: Int64[np.ndarray, " length"], out: int
) -> Float64[np.ndarray, "columns outputs"]:
    """The least squares of each position from its first columns alone.

    The factor of the first columns is the first part of the factor of all of them.
    """
    matrix = sums.gram / sums.points
    weight = np.full(len(matrix), ridge + NONE)
    weight[0] = NONE
    # as in `Normal.solve`
    matrix[np.diag_indices_from(matrix)] += weight * np.maximum(1.0, np.diagonal(matrix))
    factor = cholesky(matrix, lower=True)
    if (last == len(matrix)).all():
        return np.asarray(cho_solve((factor, True), sums.cross / sums.points))
    half = solve_triangular(factor, sums.cross / sums.points, lower=True)
    theta = np.zeros_like(half)
    for place, end in enumerate(last):
        mine = slice(place * out, (place + 1) * out)
        theta[:end, mine] = solve_triangular(
            factor[:end, :end], half[:end, mine], lower=True, trans=1
        )
    return theta
