"""Models of equal size: the setting that gives a model as many parameters as another has."""

from bisect import bisect_left
from collections.abc import Callable, Sequence


def nearest_size(wanted: int, sizes: Sequence[int], count: Callable[[int], int]) -> int:
    """The one of `sizes` with which a model has nearest to `wanted` parameters.

    `count` gives the number of parameters at a size. It rises with the size, so it is asked for few
    of them; of two that are as near the smaller one is taken.
    """
    above = bisect_left(sizes, wanted, key=count)
    near = sizes[max(0, above - 1) : above + 1]
    return min(near, key=lambda size: abs(count(size) - wanted))
