"""Checks that the targets share: a finite number, a finite vector, a tensor of floats."""

import math
from numbers import Real

import numpy as np
import torch
from jaxtyping import Float64

from attnrate.errors import InputError


def require_number(
    name: str, value: object, above: float | None = None, most: float | None = None
) -> float:
    """`value` as a float, or an InputError when it is not finite, not above `above` or too large.

    `most` is the largest that is taken; without it any finite number is.
    """
    wanted = "a finite number" + ("" if above is None else f" greater than {above:g}")
    wanted += "" if most is None else f", at most {most:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be {wanted}", value, f"Pass {name} as a number.")
    number = float(value)
    low, high = above is not None and number <= above, most is not None and number > most
    if not math.isfinite(number) or low or high:
        raise InputError(f"{name} must be {wanted}", value, f"Pass {name} as {wanted}.")
    return number


def require_vector(name: str, values: object) -> Float64[np.ndarray, " k"]:
    """`values` as a new 1-D float64 array, or an InputError when it is not finite, real and 1-D."""
    array = _as_array(name, values)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} must have one axis and at least one entry, not the shape {array.shape}",
            values,
            f"Pass {name} as a list of numbers.",
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise InputError(f"{name}[{bad[0]}] is not finite", float(array[bad[0]]))
    return array


def require_matrix(name: str, values: object) -> Float64[np.ndarray, "k k"]:
    """`values` as a new square float64 array, or an InputError when it is none."""
    array = _as_array(name, values)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InputError(f"{name} must be a square matrix", array.shape, "Pass (length, length).")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        t, s = bad[0]
        raise InputError(f"{name}[{t}, {s}] is not finite", float(array[t, s]))
    return array


def require_floats(name: str, value: object) -> torch.Tensor:
    """`value` itself, or an InputError when it is no torch tensor of floating-point numbers."""
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{name} must be a torch tensor", value, "Wrap it in torch.as_tensor.")
    if not value.is_floating_point():
        raise InputError(f"{name} must hold floats", value.dtype, f"Pass {name}.double().")
    return value


def _as_array(name: str, values: object) -> Float64[np.ndarray, "..."]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name} is no array of numbers", values, str(error)) from error
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers", values, "Pass numbers only.")
    return np.array(array, dtype=np.float64)
