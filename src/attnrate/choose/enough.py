"""The simplest class of maps that no other one beats."""

import math

import numpy as np
from jaxtyping import Float64

from attnrate.choose.ladder import Ladder
from attnrate.choose.rungs import Class
from attnrate.statistics import t_quantile

#: A class is beaten if its error is larger by this many standard errors (of a normal law),
SURE = 3.0
#: and by this share of what it leaves, or of what the best class explains if that is less,
WORTH = 0.005
#: and by this share of the variance, below which lies rounding
LEAST = 1e-3
#: The chance of a value below `SURE` standard errors, by a normal law
_BELOW = (1 + math.erf(SURE / math.sqrt(2))) / 2


def beaten(ladder: Ladder, simple: Class, other: Class) -> bool:
    """Say whether a class of maps is surely and noticeably worse than another.

    Its mean error has to be larger by what is worth it. Sure is either the difference of the errors
    of units, or the logarithm of their ratio, which few units with large errors do not drown: such
    as those with a spike that no map foresees.

    Args:
        ladder: The ladder.
        simple: The class in question.
        other: The class that may be better.

    """
    gain = ladder.gain(simple, other).value
    explained = 1 - min(rung.upper.value for rung in ladder.rungs)
    if gain < max(WORTH * min(ladder[simple].upper.value, explained), LEAST):
        return False
    errors = ladder.errors
    one, two = errors.held[simple], errors.held[other]
    # a unit without any error says nothing of a ratio
    some = (one > 0) & (two > 0)
    return _sure((one - two) / errors.points.mean()) or _sure(np.log(one[some] / two[some]))


def _sure(values: Float64[np.ndarray, " units"]) -> bool:
    """Whether the mean of the values of units is surely above 0."""
    if len(values) < 2:
        return False
    error = values.std(ddof=1) / np.sqrt(len(values))
    return bool(values.mean() > error * t_quantile(len(values) - 1, _BELOW))


def enough(ladder: Ladder) -> Class:
    """Find the simplest class that none of the others beats.

    Args:
        ladder: The ladder.

    Returns:
        The class.

    """
    names = [rung.name for rung in ladder.rungs]
    for name in names:
        if not any(beaten(ladder, name, other) for other in names if other != name):
            return name
    # beaten is no order, as classes are not nested: the least error then
    return min(names, key=lambda name: ladder[name].upper.value)
