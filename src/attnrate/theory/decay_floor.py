"""Where a spectrum meets the numerical floor, gently or in one step."""

import numpy as np
from jaxtyping import Float

Vector = Float[np.ndarray, " k"]

EPS = float(np.finfo(np.float64).eps)

FLOOR_CEILING = 1e-6
"""A plateau above this share of sigma_1 is a property of the spectrum, not of the arithmetic."""


def numerical_floor(values: Vector) -> tuple[float | None, int]:
    """The numerical floor and how many values stand clear of it.

    Rounding level is a floor always. Above it a plateau is one when it lies below FLOOR_CEILING and
    the spectrum, falling before it, goes on at less than a third of that steepness. Values within
    ten times the plateau are contaminated by it and are left out too.
    """
    hard = 16.0 * EPS * values[0]
    count = int(np.sum(values > hard))
    floor = float(values[count]) if count < values.size else None
    y = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    low = int(np.sum(values > FLOOR_CEILING * values[0]))
    run = 0
    for p in range(max(low, 4), count):
        # The bend itself is rounded, so the two slopes are taken a little away from it.
        width, skip = max(3, p // 4), max(1, p // 5)
        back, near = max(0, p - skip - width), p - skip
        ahead = min(values.size - 1, p + width)
        if ahead - p < max(3, width // 2):
            break
        before, after = (y[back] - y[near]) / (near - back), (y[p] - y[ahead]) / (ahead - p)
        run = run + 1 if before > 3.0 * after and y[back] - y[near] > 0.3 else 0
        # A stair of equal values looks flat too, but not for long.
        if run > 1 + p // 10:
            level = float(values[p + 1 - run])
            return level, int(np.sum(values > 10.0 * level))
    return floor, count


def gap_rank(values: Vector) -> int | None:
    """r when sigma_r falls to the floor within one step that the steps before it do not announce.

    The step must be a factor of a thousand, and either four times any step before (in logarithms)
    or be followed by a plateau. Values below rounding level count as that level.
    """
    if values[0] == 0.0 or values.size < 2:
        return None
    # Relative to the first value, because EPS times a denormal number is zero.
    y = np.log(np.maximum(values / values[0], EPS))
    steps = y[:-1] - y[1:]
    for r in range(1, values.size):
        if values[r] > FLOOR_CEILING * values[0] or steps[r - 1] < np.log(1e3):
            continue
        sudden = r == 1 or steps[r - 1] > 4.0 * steps[: r - 1].max()
        rest = steps[r : r + max(4, r)]
        flat = rest.size >= 2 and rest.max() < 0.2 * steps[r - 1]
        if sudden or flat:
            return r
    return None
