"""Ladders made up from the error that each class leaves, with noise that all classes share."""

import numpy as np

from attnrate.choose.kernel import Kernel
from attnrate.choose.ladder import Ladder, Rung
from attnrate.choose.rung_errors import Coupling, Errors, ratio
from attnrate.choose.rungs import CLASSES, WORDS, Class
from attnrate.statistics import Interval
from attnrate.theory.recurrent import RNNComplexity


def made_ladder(
    left: dict[Class, float],
    own: float = 0.01,
    drift: Interval | None = None,
    rank: int = 0,
    reach: int = -1,
    complexity: RNNComplexity | None = None,
    paired: bool = True,
) -> Ladder:
    """A ladder of 40 units.

    Args:
        left: The share of the variance that each class leaves; a class takes that of the one named
            before it if it is not among them.
        own: The standard deviation of what a unit has of its own with each class.
        drift: The ratio of errors from far and near.
        rank: How many singular values of the coupling are above noise.
        reach: The reach of the kernel.
        complexity: C_RNN of the kernel.
        paired: Whether the class of pairs has any.

    """
    drawn = np.random.default_rng(0)
    points = np.full(40, 10)
    common = 1 + 0.1 * (noise := drawn.normal(size=40)) - 0.1 * noise.mean()
    held, share = {}, 1.0
    for name in CLASSES:
        share = left.get(name, share)
        mine = own * drawn.normal(size=40) if name in left else np.zeros(40)
        held[name] = 10 * share * (common + mine - mine.mean())
    errors = Errors(held, {name: 0.9 * value for name, value in held.items()}, points)
    sizes = dict.fromkeys(CLASSES, 3) | {"additive": 9, "pairwise": 20 if paired else 9}
    rungs = tuple(
        Rung(
            name,
            WORDS[name],
            sizes[name],
            ratio(errors.inside[name], points, 1.0),
            ratio(errors.held[name], points, 1.0),
        )
        for name in CLASSES
    )
    flat = np.zeros((4, 1, 1))
    kernel = Kernel(np.arange(4), ("x",), ("y",), flat, flat, reach, complexity)
    coupling = Coupling(tuple([1.0] * rank + [0.1] * 3), 0.5)
    return Ladder(rungs, 1.0, errors, drift, coupling, kernel, {})
