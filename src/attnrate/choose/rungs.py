"""The classes of maps on the ladder, and the least squares of each."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from attnrate.choose.features import Features, Group
from attnrate.choose.sums import NONE, Blocked

#: Classes of maps. "causal" and "linear" have a matrix for each position, which only panels can
#: show; "set" does not see the order of the tokens before the one now.
Class: TypeAlias = Literal[
    "nothing",
    "memoryless linear",
    "memoryless",
    "filter",
    "causal",
    "linear",
    "additive",
    "pairwise",
    "set",
]
#: The rungs of a ladder, from the poorest class to the richest
CLASSES: tuple[Class, ...] = (
    "nothing",
    "memoryless linear",
    "memoryless",
    "filter",
    "causal",
    "linear",
    "additive",
    "pairwise",
)
#: What each class is, for people
WORDS: dict[Class, str] = {
    "nothing": "a constant at each position",
    "memoryless linear": "a linear map of the token now",
    "memoryless": "any function of the token now",
    "filter": "a linear filter: causal and the same at all times",
    "causal": "a causal linear map, another at each position",
    "linear": "any linear map of the sequence",
    "additive": "a sum of functions of single tokens",
    "pairwise": "a sum of functions of single tokens and of pairs",
    "set": "a sum of functions of single tokens, whose order plays no part",
}
#: The groups of features of each class that is the same at all times
GROUPS: dict[Class, tuple[Group, ...]] = {
    "nothing": ("one",),
    "memoryless linear": ("one", "now"),
    "memoryless": ("one", "now", "curved"),
    "filter": ("one", "now", "past"),
    "additive": ("one", "now", "past", "curved", "additive", "mean"),
    "pairwise": ("one", "now", "past", "curved", "additive", "mean", "pooled", "pairwise"),
    "set": ("one", "now", "curved", "mean"),
}
#: Groups that share a weight of their ridge, in the order in which the weights are chosen, and the
#: classes on which they are; what is chosen on the first of these is kept. Pooled products are few,
#: so that they come before the many products of single tokens, which may then be given no room.
_SHARED: tuple[tuple[tuple[Group, ...], tuple[Class, ...]], ...] = (
    (("now", "past"), ("filter", "memoryless linear")),
    (("curved", "additive", "mean"), ("additive", "memoryless", "set")),
    (("pooled",), ("pairwise",)),
    (("pairwise",), ("pairwise",)),
)
#: Weights of a ridge, beside columns of variance 1; the last leaves nearly nothing of its columns
RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e3)
#: Powers of (1 + lag) by which a ridge grows with the lag
_GROWTHS = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The least squares of one class, in scaled columns.

    Attributes:
        columns: The columns of the class.
        whole: The coefficients of all samples without a ridge, whose error is the least there is.
        apart: The coefficients for each block, from the other blocks, with a ridge.
        kept: The coefficients of all samples with the mean ridge of the blocks, for use.

    """

    columns: Int64[np.ndarray, " some"]
    whole: Float64[np.ndarray, "some out"]
    apart: tuple[Float64[np.ndarray, "some out"], ...]
    kept: Float64[np.ndarray, "some out"]


def fit_classes(features: Features, sums: Blocked) -> dict[Class, Fitted]:
    """Solve the least squares of all classes that are the same at all times.

    The ridge of a block's fit is chosen by the error on the next block, with both left out: first
    that of the linear columns, then that of functions of single tokens, then that of pairs, so that
    a richer class begins with what its poorer one has found.

    Args:
        features: The features.
        sums: Their sums.

    """
    chosen = [_ridges(features, sums, block) for block in range(sums.count)]
    whole = sums.whole()
    found = {}
    for name, groups in GROUPS.items():
        columns = features.columns(*groups)
        apart = []
        for block in range(sums.count):
            rest = sums.beside(block)
            assert rest is not None  # the ladder has asked before
            apart.append(rest.of(columns).solve(chosen[block][name][columns]))
        mine = whole.of(columns)
        ridge = np.mean([np.log(one[name][columns] + NONE) for one in chosen], axis=0)
        found[name] = Fitted(
            columns,
            mine.solve(np.zeros(len(columns))),
            tuple(apart),
            mine.solve(np.exp(ridge)),
        )
    return found


def _ridges(
    features: Features, sums: Blocked, block: int
) -> dict[Class, Float64[np.ndarray, " columns"]]:
    """The ridge of each class for the fit that is judged on one block."""
    after = (block + 1) % sums.count
    rest, watched = sums.beside(block, after), sums.block(after)
    groups = np.array(features.groups)
    # what has not been chosen yet is left out
    known = np.where(groups == "one", 0.0, RIDGES[-1])
    ridges: dict[Class, Float64[np.ndarray, " columns"]] = {}
    assert rest is not None
    for stage, classes in _SHARED:
        free = np.isin(groups, stage)
        for name in classes:
            columns = features.columns(*GROUPS[name])
            mine, judged = rest.of(columns), watched.of(columns)
            growths = _GROWTHS if name in ("filter", "additive") else _GROWTHS[:1]
            options = [
                np.where(free, weight * (1.0 + features.column_lags) ** growth, known)
                for weight in RIDGES
                for growth in growths
            ]
            errors = [judged.error(mine.solve(option[columns])) for option in options]
            ridges[name] = options[int(np.argmin(errors))]
        known = ridges[classes[0]]
    return ridges | {"nothing": np.zeros(len(groups))}
