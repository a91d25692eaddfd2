"""Values of inputs far outside of all others are drawn in, so that no fit hangs on one of them."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from attnrate.choose.samples import Samples

#: The middle of the values: from this quantile to its mirror image
_MIDDLE = 0.001
#: How many times the width of the middle a value may lie outside of it
_FAR = 3.0


@dataclass(frozen=True, eq=False)
class Bounds:
    """The least and the greatest value of each coordinate of a token.

    Attributes:
        low: The least values.
        high: The greatest values.

    """

    low: Float64[np.ndarray, " d"]
    high: Float64[np.ndarray, " d"]

    def of(self, x: Float64[np.ndarray, "*shape d"]) -> Float64[np.ndarray, "*shape d"]:
        """Draw values in.

        Args:
            x: Tokens.

        """
        return np.asarray(np.clip(x, self.low, self.high))


def bounds_of(samples: Samples) -> Bounds:
    """Find how far values may lie outside of the middle 99.8 % of their coordinate.

    At least the least and the greatest value are not of the middle.

    Args:
        samples: The samples.

    """
    low, high = np.full(samples.d, -np.inf), np.full(samples.d, np.inf)
    for each in range(samples.d):
        known = samples.x[:, each]
        there = known[np.isfinite(known)]
        # values of the data further inside, so that of few values the extremes are no part of it
        one = np.quantile(there, _MIDDLE, method="higher")
        two = np.quantile(there, 1 - _MIDDLE, method="lower")
        # a column that is nearly always the same has no width to go by
        if two > one:
            low[each], high[each] = one - _FAR * (two - one), two + _FAR * (two - one)
    return Bounds(low, high)


def drawn_in(samples: Samples, bounds: Bounds) -> tuple[Samples, tuple[str, ...]]:
    """Draw the inputs of samples in; what is wanted stays as it is.

    Args:
        samples: The samples.
        bounds: How far values may lie outside.

    Returns:
        The samples, and a sentence for each coordinate in which a value was drawn in.

    """
    said = []
    for each, name in enumerate(samples.inputs):
        known = samples.x[:, each]
        far = (known < bounds.low[each]) | (known > bounds.high[each])
        if far.any():
            worst = known[far][np.argmax(np.abs(known[far]))]
            many = f"{far.sum():,} values lie" if far.sum() > 1 else "1 value lies"
            said.append(
                f"column '{name}': {many} far outside of all others, such as {worst:.6g}, and "
                f"as an input {'are' if far.sum() > 1 else 'is'} drawn in to "
                f"{bounds.low[each]:.4g} or {bounds.high[each]:.4g}"
            )
    return replace(samples, x=bounds.of(samples.x)), tuple(said)
