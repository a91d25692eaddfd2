"""Sizes that change least within a budget, exactly: every layer takes one of its measured sizes.

To first order the changes of a model's output by cuts of its layers are vectors without a common
direction, so that their squares add up. So the sum of squares over layers is made least under a
budget Σ cost ≤ B. With costs counted in units of their greatest common divisor, which are at most
some thousands, the least sum f_l(c) of the first l layers at cost c is found for all c at once:
f_l(c) = min_i f_{l-1}(c - cost_i) + square_i. One table gives the best sizes for all budgets.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


@dataclass(frozen=True)
class Options:
    """The sizes that a layer may take.

    Attributes:
        sizes: The sizes, rising.
        costs: What each of them costs: whole numbers, such as bytes.
        changes: How much the output of the model changes when this layer alone has that size.

    """

    sizes: tuple[int, ...]
    costs: tuple[int, ...]
    changes: tuple[float, ...]


@dataclass(frozen=True)
class Front:
    """For every budget the sizes with the least sum of squared changes.

    Attributes:
        costs: The costs at which the sum falls, rising.
        squares: The sums of squared changes there, falling.

    """

    costs: Int[Array, " points"]
    squares: Float[Array, " points"]
    _layers: tuple[Options, ...]
    _picks: Int[Array, "layers units"]
    _units: Int[Array, " points"]
    _steps: tuple[tuple[int, ...], ...]

    def sizes(self, point: int) -> tuple[int, ...]:
        """The size of each layer at a point of the front."""
        left, found = int(self._units[point]), []
        for layer, picks, steps in zip(
            reversed(self._layers), self._picks[::-1], reversed(self._steps), strict=True
        ):
            pick = int(picks[left])
            found.append(layer.sizes[pick])
            left -= steps[pick]
        return tuple(reversed(found))

    def within(self, budget: int) -> int:
        """The point with the least sum of squares whose cost is at most a budget; -1 for none."""
        return int(np.searchsorted(self.costs, budget, side="right")) - 1


def front(layers: Sequence[Options]) -> Front:
    """Find the sizes with the least sum of squared changes for all budgets.

    Args:
        layers: The sizes that each layer may take.

    Returns:
        The points at which another unit of cost makes the sum smaller; the first is the cheapest.

    """
    least = [min(layer.costs) for layer in layers]
    more = [[cost - low for cost in layer.costs] for layer, low in zip(layers, least, strict=True)]
    unit = max(1, math.gcd(*(cost for own in more for cost in own)))
    steps = tuple(tuple(cost // unit for cost in own) for own in more)
    units = sum(max(own) for own in steps) + 1
    best = np.full(units, np.inf)
    best[0] = 0.0
    picks = np.zeros((len(layers), units), dtype=np.int32)
    for layer, own, pick in zip(layers, steps, picks, strict=True):
        sums = np.full(units, np.inf)
        for number, (step, change) in enumerate(zip(own, layer.changes, strict=True)):
            tried = best[: units - step] + change**2
            better = tried < sums[step:]
            sums[step:][better] = tried[better]
            pick[step:][better] = number
        best = sums
    lowest = np.minimum.accumulate(best)
    falls = np.flatnonzero(best < np.concatenate([[np.inf], lowest[:-1]]))
    costs = sum(least) + unit * falls
    return Front(costs, best[falls], tuple(layers), picks, falls, steps)
