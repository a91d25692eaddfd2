"""Filters fitted nearby in time and far away: if a law changes, the far ones are worse."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from attnrate.choose.features import Features
from attnrate.choose.rungs import GROUPS
from attnrate.choose.sums import Blocked, Normal, Scaled

#: The ridge of these filters, beside columns of variance 1
_RIDGE = 1e-2
#: A column of differences has at least this mean square, beside that of its tokens; below it there
#: is little but rounding, as where a column is constant over all of the blocks that are fitted
_LEAST = 1e-10


@dataclass(frozen=True, eq=False)
class NearAndFar:
    """Coefficients of the filter's columns for each block, in scaled columns.

    Attributes:
        near: Those fitted on the two blocks next to it.
        far: Those fitted on the two blocks farthest from it.

    """

    near: tuple[Float64[np.ndarray, "columns out"], ...]
    far: tuple[Float64[np.ndarray, "columns out"], ...]


@dataclass(frozen=True, eq=False)
class _Following:
    """Filters θ = add + basis φ that follow the level: what they predict rises with all tokens.

    Each output is that coordinate of the token now of which it is the future, plus a filter of the
    differences of successive tokens.
    """

    basis: Float64[np.ndarray, "columns differences"]
    add: Float64[np.ndarray, "columns out"]

    def solve(self, sums: Normal) -> Float64[np.ndarray, "columns out"]:
        """The ridge regression over all φ, beside differences of mean square 1."""
        gram = self.basis.T @ sums.gram @ self.basis
        cross = self.basis.T @ (sums.cross - sums.gram @ self.add)
        least = _LEAST * np.square(self.basis).sum(0)
        size = np.sqrt(np.maximum(np.diagonal(gram) / sums.points, least))
        scaled = Normal(gram / np.outer(size, size), cross / size[:, None], 0.0, sums.points)
        return np.asarray(self.add + self.basis @ (scaled.solve(_ridge(len(gram))) / size[:, None]))


def near_and_far(features: Features, data: Scaled, sums: Blocked) -> tuple[NearAndFar, ...] | None:
    """Fit the filter for each block from the two blocks next to it, and from the two farthest.

    Where the data have one law at all times, both are equally good on average. That fails for a
    plain filter if the level of a series wanders, as that of a random walk or a trend does: fitted
    at another level, it is off although the law is the same. A filter that follows the level is
    not, so that it is fitted as well where the wanted columns are among the tokens. The law has
    changed only if both kinds say so.

    Args:
        features: The features of a series.
        data: Their scaled columns.
        sums: Their sums, in the order of time.

    Returns:
        The coefficients of the plain filter, then of the one that follows the level if there is
        one; None if there are too few samples.

    """
    columns = features.columns(*GROUPS["filter"])
    following = _following(features, data)
    plain: tuple[list[Float64[np.ndarray, "columns out"]], ...] = ([], [])
    level: tuple[list[Float64[np.ndarray, "columns out"]], ...] = ([], [])
    for block in range(sums.count):
        others = sorted((b for b in range(sums.count) if b != block), key=lambda b: abs(b - block))
        for which, some in enumerate((others[:2], others[-2:])):
            of = sums.beside(block, of=tuple(some))
            if of is None:
                return None
            mine = of.of(columns)
            plain[which].append(mine.solve(_ridge(len(columns))))
            if following is not None:
                level[which].append(following.solve(mine))
    found = [plain] if following is None else [plain, level]
    return tuple(NearAndFar(tuple(near), tuple(far)) for near, far in found)


def _ridge(count: int) -> Float64[np.ndarray, " columns"]:
    ridge = np.full(count, _RIDGE)
    ridge[0] = 0.0
    return ridge


def _following(features: Features, data: Scaled) -> _Following | None:
    """The filters that follow the level; None if what is wanted is not the future of tokens."""
    samples = features.samples
    if samples.horizon == 0 or not set(samples.outputs) <= set(samples.inputs):
        return None
    # the constant, then lag by lag the coordinates of a token
    columns = features.columns(*GROUPS["filter"])
    centre, scale = data.centre[columns], data.scale[columns]
    basis = np.zeros((len(columns), len(columns) - samples.d))
    basis[0, 0] = 1.0
    for one in range(1, len(columns) - samples.d):
        other = one + samples.d
        basis[one, one], basis[other, one] = scale[one], -scale[other]
        basis[0, one] = centre[one] - centre[other]
    add = np.zeros((len(columns), samples.out))
    for out in range(samples.out):
        # the outputs of each step ahead follow those of the step before
        each = samples.inputs.index(samples.outputs[out % len(samples.outputs)])
        add[1 + each, out] = scale[1 + each]
        add[0, out] = centre[1 + each] + features.middle[each] - data.level[out]
    return _Following(basis, add)
