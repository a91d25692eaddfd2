"""The simplest class of maps that no other one beats."""

from scipy import stats

from attnrate.choose.ladder import Ladder
from attnrate.choose.rungs import Class
from attnrate.statistics import Interval

#: A class is beaten if its error is larger by this many standard errors (of a normal law),
SURE = 3.0
#: and by this share of what it leaves, or of what the best class explains if that is less,
WORTH = 0.005
#: and by this share of the variance, below which lies rounding
LEAST = 1e-3


def beaten(ladder: Ladder, simple: Class, other: Class) -> bool:
    """Say whether a class of maps is surely and noticeably worse than another.

    Args:
        ladder: The ladder.
        simple: The class in question.
        other: The class that may be better.

    """
    gain = ladder.gain(simple, other)
    explained = 1 - min(rung.upper.value for rung in ladder.rungs)
    if gain.value < max(WORTH * min(ladder[simple].upper.value, explained), LEAST):
        return False
    return gain.value > _half(gain)


def _half(gain: Interval) -> float:
    """The size of a gain that is sure, from its 95 % interval and the number of its units."""
    freedom = max(1, gain.count - 1)
    error = (gain.high - gain.value) / float(stats.t.ppf(0.975, freedom))
    return error * float(stats.t.isf(stats.norm.sf(SURE), freedom))


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
