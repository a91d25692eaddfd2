"""Functions of one to three variables: where they are asked for, and their values, checked."""

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.theory.domain import Interval, Region, Samples, box
from attnrate.theory.panels import Array
from attnrate.theory.smooth import checked_interval

#: A function of points: (n, d) -> (n,); of plain numbers, (n,) -> (n,), where d = 1
Function = Callable[..., object]
#: The sides of a box in R^d, one pair per coordinate
Box = tuple[Interval, ...]
MOST_VARIABLES = 3
_REMEDY = (
    "Pass (a, b) for one variable, ar.box((a, b), (c, d)) for two, or ar.union((a, b), (c, d)) for "
    "several intervals; a union can be a side of a box."
)


def as_region(name: str, value: object) -> Region:
    """`value` as intervals, boxes or a product of unions in at most three variables.

    A pair of numbers is an interval and a list of pairs is a box, as everywhere.
    """
    if isinstance(value, Samples):
        raise InputError(
            f"{name} must be a box or a union; C_FF is not computed on samples", value, _REMEDY
        )
    if isinstance(value, Region):
        return _sound(name, value)
    nested = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if nested and value and all(isinstance(side, Sequence | np.ndarray) for side in value):  # type: ignore[attr-defined]
        return box(*value)  # type: ignore[misc]
    return Region(((checked_interval(value),),))


def _sound(name: str, region: Region) -> Region:
    """The region itself, if it has one to three axes, none of them empty."""
    if not 1 <= region.d <= MOST_VARIABLES:
        raise InputError(
            f"{name} must have one to {MOST_VARIABLES} coordinates, and has {{value}}",
            region.d,
            "C_FF is computed for functions of at most three variables.",
        )
    for axis in region.axes:
        if not axis:
            raise InputError(f"{name} has a coordinate without an interval", region, _REMEDY)
        for interval in axis:
            checked_interval(interval)
    return region


def boxes_of(region: Region) -> tuple[Box, ...]:
    """The boxes whose union the region is: the products of one interval of each axis."""
    return tuple(product(*region.axes))


def hull_sides(region: Region) -> Float[Array, " d"]:
    """The side lengths of the smallest box that contains the region."""
    return np.array([axis[-1][1] - axis[0][0] for axis in region.axes])


def values_at(g: Function, points: Float[Array, "n d"]) -> Float[Array, " n"]:
    """g at points, in float64; an InputError names the point where a value is not finite.

    With d = 1 the function is given plain numbers.
    """
    given = points[:, 0] if points.shape[1] == 1 else points
    with np.errstate(all="ignore"):
        try:
            returned = g(given)
        except InputError:
            raise
        except (IndexError, TypeError, ValueError) as problem:
            # a function of two arguments, of more coordinates than there are, or of one point
            raise InputError(
                f"g could not be called with an array of {points.shape[1]} coordinates per point, "
                f"shape {given.shape} ({type(problem).__name__}: {problem}); g is {{value}}",
                g,
                _written(points.shape[1]),
            ) from None
    try:
        values = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("g must return real numbers", returned) from None
    if values.shape == ():
        values = np.full(len(points), float(values))
    if values.shape != (len(points),):
        raise InputError(
            f"g was given points of shape {given.shape} and must return one value per point, "
            f"shape {(len(points),)}",
            values.shape,
            _written(points.shape[1]),
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        i = int(np.argmax(wrong))
        at = float(points[i, 0]) if points.shape[1] == 1 else points[i].tolist()
        raise InputError(f"g is not finite at u = {at}", float(values[i]))
    return values


def _written(d: int) -> str:
    if d == 1:
        return "Write g with numpy functions of its whole argument."
    return "Write g with numpy functions of its coordinates x[..., 0], x[..., 1], and so on."
