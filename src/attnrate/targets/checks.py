"""Checks that the targets share: a finite vector, a square matrix, a tensor of floats."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64

from attnrate.errors import InputError
from attnrate.settings import by


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


#: Numbers along one axis
Numbers = Sequence[float] | npt.NDArray[Any] | torch.Tensor
#: Finite ones, which become a new float64 array
Vector = Annotated[Numbers, by(require_vector)]
