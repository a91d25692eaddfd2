"""When an open claim is looked at again, how wide its intervals are then, and when it is given up.

A claim is first concluded from the seeds of its preset with 95 % intervals. An interval misses a
limit to the wrong side with a probability of 2.5 % at most. An open claim is then looked at again
with 8, 12, 18, 27 and 40 seeds, with intervals that are wider. Their level is such that all looks
together, the first included, end on the wrong side of a limit with a probability of 5 % at most.
It is the same for all later looks and depends on the seeds of the first look only.

The levels are for observations that are normal and independent, as Student's intervals are, and
were found by simulation with an unknown and with a known variance (benchmarks/settle.py; means over
many cells are between the two). Fewer seeds at the first look leave more to be gained by looking,
and ask for wider intervals.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attnrate.statistics import LEVEL, t_quantile

#: The numbers of seeds at which an open claim is looked at
SEEDS = (5, 8, 12, 18, 27, 40)
#: The least seeds of a first look, with the level of the later ones
_LEVELS = ((5, 0.982), (3, 0.986), (0, 0.988))
#: A verdict is wrong with this probability at most
ERROR = 0.05
#: The largest number of seeds that is ever named
MOST = 10_000
_STEP = 1.05  # between two numbers of seeds that are tried


@dataclass(frozen=True)
class Look:
    """A look at a claim.

    Attributes:
        number: 1 for the first look after that at the results of the preset.
        of: How many such looks there are at most.
        seeds: The number of seeds that the fits have then.
        level: The level of all intervals.

    """

    number: int
    of: int
    seeds: int
    level: float


def looks(first: int) -> tuple[Look, ...]:
    """The later looks at a claim whose first look had `first` seeds; () where it had the most."""
    seeds = [count for count in SEEDS if count > first]
    level = next(level for least, level in _LEVELS if first >= least)
    return tuple(Look(k, len(seeds), count, level) for k, count in enumerate(seeds, 1))


def futile_from(seeds: int) -> float:
    """The number of needed seeds from which on a claim is given up, where it has `seeds` now.

    It is 40 · 40 / seeds: an estimate from few seeds is uncertain, and must not end what more seeds
    would decide. Giving up gives no verdict, and so makes none wrong.
    """
    return SEEDS[-1] ** 2 / seeds


def level_as_with(have: int, seeds: float, level: float) -> float:
    """The level at which `have` seeds give an interval as wide as `seeds` would at `level`.

    Student's interval of a mean is t(n - 1, level) s / √n wide on either side. With the present
    estimate and spread, that of n seeds follows from the present seeds at another level.
    """
    from scipy import special

    wide = t_quantile(seeds - 1.0, 0.5 + level / 2) * (have / seeds) ** 0.5
    return float(2 * special.stdtr(have - 1.0, wide) - 1)


def seeds_needed(have: int, decided: Callable[[float], bool], level: float = LEVEL) -> float | None:
    """The least number of seeds with which a claim would be decided; None if there is none.

    It assumes that the estimate and the spread stay what they are. `have` is the number of seeds,
    at least 2, and `decided` says whether the claim is decided from them with intervals of a level.
    """
    counts = [float(have)]
    while counts[-1] < MOST:
        counts.append(max(counts[-1] + 1, counts[-1] * _STEP) // 1)
    if not decided(level_as_with(have, counts[-1], level)):
        return None
    low, high = 0, len(counts) - 1
    while low < high:
        middle = (low + high) // 2
        if decided(level_as_with(have, counts[middle], level)):
            high = middle
        else:
            low = middle + 1
    return counts[high]
