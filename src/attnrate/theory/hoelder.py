"""The Hölder constant of a function of one to three variables, measured.

In several variables distances are |S⁻¹(x - y)|, S the side lengths of the smallest box around the
domain: the constant is that of the function rescaled to the unit cube.
"""

from collections.abc import Callable
from itertools import product
from typing import Annotated

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy import optimize

from attnrate.errors import InputError, require_callable, require_number
from attnrate.settings import by, checked
from attnrate.theory.domain import Region
from attnrate.theory.panels import Array
from attnrate.theory.smooth import checked_interval, evaluate
from attnrate.theory.variables import Function, boxes_of, hull_sides, values_at


def _require_interval(name: str, value: object) -> tuple[float, float]:
    """`value` as an interval (a, b) with a < b, or an InputError."""
    return checked_interval(value)


#: A function of one variable, written with numpy: it takes an array and gives one value per entry
OneVariable = Annotated[Callable[[Array], npt.ArrayLike], by(require_callable)]
#: A Hölder exponent
HoelderExponent = Annotated[float, by(require_number, 0.0, 1.0)]
#: An interval (a, b) with a < b
Interval = Annotated[tuple[float, float], by(_require_interval)]
#: Grid points along each axis of the three grids, and the most distances tried on the finest
_POINTS = {1: (2048, 16384, 131072), 2: (33, 97, 289), 3: (11, 23, 47)}
_DISTANCES = {1: 160, 2: 40, 3: 20}


@checked
def hoelder_constant(
    g: OneVariable, exponent: HoelderExponent = 1.0, interval: Interval = (0.0, 1.0)
) -> float:
    """sup |g(x) - g(y)| / |x - y|^exponent, measured: a lower estimate that converges to it.

    The largest quotient over many distances on a fine grid is the start of a local search.

    Args:
        g: A function that takes an array of numbers and gives one value for each.
        exponent: The Hölder exponent, greater than 0 and at most 1.
        interval: Where x and y lie, (a, b).

    Returns:
        The largest quotient found.

    Raises:
        InputError: If the quotient keeps growing as the grid is refined: it has no supremum.

    """
    a, b = interval
    found_on = [_largest_quotient(g, exponent, (a, b), n) for n in (2048, 16384, 131072)]
    (coarse, *_), (middle, *_), (fine, x, y) = found_on
    # a fine feature that the first grid misses makes the quotient grow once, not twice
    if middle > 1.05 * coarse + 1e-12 and fine > 1.05 * middle + 1e-12:
        raise InputError(
            f"g is not Hölder continuous with exponent {exponent} near u = {x:.6g}",
            fine,
            "Choose a smaller exponent.",
        )

    def negative(ends: Float[np.ndarray, " two"]) -> float:
        low, high = np.clip(np.sort(ends), a, b)
        if high - low < 1e-7 * (b - a):
            return 0.0
        values = evaluate(g, np.array([low, high]))
        return -float(abs(values[1] - values[0]) / (high - low) ** exponent)

    start = np.array([x, y])
    found = optimize.minimize(negative, start, method="Nelder-Mead", options={"xatol": 1e-9})
    return max(fine, -float(found.fun))


def _largest_quotient(
    g: OneVariable, exponent: float, interval: tuple[float, float], n: int
) -> tuple[float, float, float]:
    """The largest Hölder quotient of g over many distances on n + 1 points, with its two points."""
    a, b = interval
    u = np.linspace(a, b, n + 1)
    values = evaluate(g, u)
    best = (0.0, a, b)
    for lag in np.unique(np.geomspace(1, n, 160).astype(int)):
        steps = np.abs(values[lag:] - values[:-lag])
        i = int(np.argmax(steps))
        quotient = float(steps[i] / (u[i + lag] - u[i]) ** exponent)
        if quotient > best[0]:
            best = (quotient, float(u[i]), float(u[i + lag]))
    return best


def scaled_hoelder_constant(g: Function, exponent: float, region: Region) -> float:
    """sup |g(x) - g(y)| / |S⁻¹(x - y)|^exponent on a region, measured: a lower estimate.

    Pairs of points of a tensor grid are tried in the directions of its axes and diagonals, also
    from one box of a union to another. The best pair begins a local search. An InputError says
    where the quotient keeps growing as the grid is refined.
    """
    S = hull_sides(region)
    found = [_largest_on_grid(g, exponent, region, n) for n in _POINTS[region.d]]
    (coarse, *_), (middle, *_), (fine, x, y) = found
    # a fine feature that the first grid misses makes the quotient grow once, not twice
    if middle > 1.05 * coarse + 1e-12 and fine > 1.05 * middle + 1e-12:
        raise InputError(
            f"g is not Hölder continuous with exponent {exponent} near u = {x.tolist()}",
            fine,
            "Choose a smaller exponent.",
        )
    if fine == 0.0:
        return 0.0

    def negative(ends: Float[np.ndarray, " two_d"]) -> float:
        pair = ends.reshape(2, -1) * S
        distance = float(np.linalg.norm((pair[0] - pair[1]) / S))
        if distance < 1e-6 or not _inside(region, pair).all():
            return 0.0
        rise = np.diff(values_at(g, pair))
        return -float(abs(rise[0]) / distance**exponent)

    start = np.concatenate([x / S, y / S])
    searched = optimize.minimize(negative, start, method="Nelder-Mead", options={"xatol": 1e-9})
    return max(fine, -float(searched.fun))


def _inside(region: Region, points: Float[Array, "n d"]) -> Array:
    """For each point, whether it lies in the region."""
    within = [
        np.all([(a <= x) & (x <= b) for x, (a, b) in zip(points.T, sides, strict=True)], axis=0)
        for sides in boxes_of(region)
    ]
    return np.asarray(np.any(within, axis=0))


def _largest_on_grid(
    g: Function, exponent: float, region: Region, n: int
) -> tuple[float, Array, Array]:
    """The largest Hölder quotient along axes and diagonals of a grid, with its two points."""
    d, S = region.d, hull_sides(region)
    axes = [
        np.concatenate([np.linspace(a, b, max(2, n // len(axis) + 1)) for a, b in axis])
        for axis in region.axes
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    values = values_at(g, points.reshape(-1, d)).reshape(points.shape[:-1])
    best = (0.0, points[(0,) * d], points[(-1,) * d])
    most = min(map(len, axes)) - 1
    lags = np.unique(np.geomspace(1, most, min(most, _DISTANCES[d])).astype(int))
    # one of each two opposite directions
    directions = [e for e in product((0, 1, -1), repeat=d) if next(filter(None, e), -1) > 0]
    for lag, direction in product(lags, directions):
        ahead = tuple(_part(int(lag) * e, True) for e in direction)
        behind = tuple(_part(int(lag) * e, False) for e in direction)
        squares = np.zeros((1,) * d)
        for i, axis in enumerate(axes):
            step = (axis[ahead[i]] - axis[behind[i]]) / S[i]
            squares = squares + (step**2).reshape([-1 if k == i else 1 for k in range(d)])
        quotients = np.abs(values[ahead] - values[behind]) / squares ** (exponent / 2)
        place = np.unravel_index(int(np.argmax(quotients)), quotients.shape)
        if quotients[place] > best[0]:
            best = float(quotients[place]), points[behind][place], points[ahead][place]
    return best


def _part(lag: int, ahead: bool) -> slice:
    """The part of an axis that has a neighbour at this lag, or the neighbours themselves."""
    if lag == 0:
        return slice(None)
    if (lag > 0) == ahead:
        return slice(abs(lag), None)
    return slice(None, -abs(lag))
