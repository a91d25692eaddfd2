"""Checks that the targets share: vectors, matrices, tensors, permutations, functions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float64

from attnrate.errors import AttnrateError, InputError, is_out_of_memory, require_whole
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


def as_permutation(p: object, length: int | None) -> tuple[int, ...]:
    """`p` as a tuple, or an InputError naming the first entry that keeps it from being one."""
    if isinstance(p, (str, bytes)) or not isinstance(p, Iterable):
        raise InputError("p must be a list of positions", p, "Pass e.g. swap_ends(length, 10).")
    entries = p.tolist() if isinstance(p, torch.Tensor) else list(p)
    if length is not None and len(entries) != length:
        raise InputError(
            f"p must have {length} entries, one for every position, not {len(entries)}", entries
        )
    order: list[int] = []
    seen: set[int] = set()
    for i, entry in enumerate(entries):
        position = require_whole(f"p[{i}]", entry, 0, len(entries) - 1)
        if position in seen:
            raise InputError(f"p[{i}] repeats an entry, so p is no permutation", position)
        order.append(position)
        seen.add(position)
    return tuple(order)


def on_last_axis(
    name: str, function: Callable[[torch.Tensor], object], x: torch.Tensor
) -> torch.Tensor:
    """`function(x)` in the dtype of x; an InputError unless it keeps all axes of x but the last."""
    try:
        values = function(x)
    except AttnrateError:
        raise
    except Exception as problem:
        if is_out_of_memory(problem):
            raise
        said = f"{type(problem).__name__}: {problem}"
        raise InputError(
            f"{name} fails on a tensor of shape {tuple(x.shape)} ({said})",
            getattr(function, "__name__", type(function).__name__),
            "Write it with functions of whole tensors: torch.sin for math.sin.",
        ) from problem
    if not isinstance(values, torch.Tensor) or values.shape[:-1] != x.shape[:-1]:
        raise InputError(
            f"{name} must act on the last axis: it was given {tuple(x.shape)}",
            tuple(values.shape) if isinstance(values, torch.Tensor) else values,
            f"Return a tensor of shape ({', '.join(map(str, x.shape[:-1]))}, k).",
        )
    return values.to(x.dtype)


def _require_permutation(name: str, p: object) -> tuple[int, ...]:
    return as_permutation(p, None)


def _require_dtype(name: str, value: object) -> torch.dtype:
    if not isinstance(value, torch.dtype) or not value.is_floating_point:
        raise InputError(f"{name} must be a floating-point type", value, "Pass torch.float32.")
    return value


#: Numbers along one axis
Numbers = Sequence[float] | npt.NDArray[Any] | torch.Tensor
#: Finite numbers along one axis, which become a new float64 array
Vector = Annotated[Numbers, by(require_vector)]
#: The entries of a square matrix
SquareMatrix = Annotated[
    Sequence[Sequence[float]] | npt.NDArray[Any] | torch.Tensor, by(require_matrix)
]
#: The positions 0, ..., length - 1 in some order
Permutation = Annotated[Sequence[int] | npt.NDArray[Any] | torch.Tensor, by(_require_permutation)]
#: A tensor of floating-point numbers
Floats = Annotated[torch.Tensor, by(require_floats)]
#: float16, float32, float64, ...
FloatType = Annotated[torch.dtype, by(_require_dtype)]
#: Where random numbers start
Seed = Annotated[int, by(require_whole, 0, 2**63 - 1)]
