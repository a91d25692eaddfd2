"""Calling a coupling safely: broadcasting, torch or numpy, finite values, and a count of calls.

Values far from 1 are measured in a unit of their own, because the squares of 1e±200 are no numbers.

In one dimension rho sees numbers: u of shape (m, 1), v of shape (1, n). In d dimensions (and for
samples given as rows) it sees points: (m, 1, d) and (1, n, d).
"""

import copy
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError, require_callable
from attnrate.theory.domain import Domain, Mesh, Samples
from attnrate.theory.panels import Array
from attnrate.theory.watch import Watch

#: Entries asked of rho in one call, so that intermediate arrays stay small
_BLOCK = 1 << 20
#: Powers of two beyond which squares come near to the ends of float64
_FARTHEST = 300


def numbers_only(domain: Domain | Mesh) -> bool:
    """Whether points of this domain are plain numbers, without an axis for coordinates."""
    return domain.points.ndim == 1 if isinstance(domain, Samples) else domain.d == 1


class Evaluator:
    """rho on arrays of points, checked; `watch` counts at how many pairs it was asked."""

    def __init__(self, rho: object, u: Domain, v: Domain, watch: Watch | None = None) -> None:
        self._plain = numbers_only(u), numbers_only(v)
        self._rho = _as_numpy_function(rho, all(self._plain))
        self.watch = watch or Watch()
        #: what values are divided by: a power of two, so that nothing is rounded
        self.unit = 1.0

    def change_unit(self, size: float) -> bool:
        """Take `size`, in the unit so far, as the new unit if it is far from 1; whether it was.

        The unit falls at most once and then only rises, so that asking again and again ends.
        """
        power = int(np.frexp(size)[1])
        falls = power < -_FARTHEST and self.unit == 1.0 and size > 0.0
        if not falls and power <= _FARTHEST:
            return False
        self.unit = float(np.ldexp(self.unit, power))
        return True

    def outer(self, u: Float[Array, "m d"], v: Float[Array, "n e"]) -> Float[Array, "m n"]:
        """rho(u_i, v_j) for all pairs."""
        rows = max(1, _BLOCK // max(1, len(v)))
        if len(u) > rows:
            parts = [self.outer(u[i : i + rows], v) for i in range(0, len(u), rows)]
            return np.concatenate(parts)
        return self.pairs(u[:, None], v[None])

    def outer_near_one(self, u: Float[Array, "m d"], v: Float[Array, "n e"]) -> Float[Array, "m n"]:
        """rho(u_i, v_j) for all pairs, in a unit in which the largest is not far from 1."""
        values = self.outer(u, v)
        return self.outer(u, v) if self.change_unit(float(np.max(np.abs(values)))) else values

    def pairs(self, u: Float[Array, "*m d"], v: Float[Array, "*n e"]) -> Float[Array, "..."]:
        """rho(u_i, v_i), point by point; leading shapes are broadcast against each other."""
        shape = np.broadcast_shapes(u.shape[:-1], v.shape[:-1])
        self.watch.count(prod(shape))
        left, right = (
            side[..., 0] if plain else side for side, plain in zip((u, v), self._plain, strict=True)
        )
        with np.errstate(all="ignore"):
            raw = np.asarray(self._rho(left, right))
        if raw.dtype.kind not in "fiub":
            raise InputError("rho must return real numbers; it returned dtype", str(raw.dtype))
        try:
            values = raw if raw.shape == shape else np.broadcast_to(raw, shape)
        except ValueError:
            raise InputError(
                f"rho was called with arrays of shape {left.shape} and {right.shape}, which "
                f"broadcast to {shape}, and came back with a shape that does not",
                raw.shape,
                "Write rho so that it works elementwise on numpy arrays.",
            ) from None
        if not np.all(np.isfinite(values)):
            bad = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            at_u, at_v = (_show(np.broadcast_to(a, (*shape, a.shape[-1]))[bad]) for a in (u, v))
            raise InputError(
                f"rho is not finite at u = {at_u}, v = {at_v}",
                float(values[bad]),
                "Change the domain so that it leaves out that point, or rho so that it is finite.",
            )
        return np.asarray(np.divide(values, self.unit, dtype=float))


def _show(point: Array) -> str:
    return f"{point[0]:.17g}" if point.size == 1 else str(point.tolist())


def _as_numpy_function(rho: object, numbers: bool) -> Callable[[Array, Array], Any]:
    """Couplings and torch modules are evaluated in float64 and handed back as numpy arrays."""
    require_callable("rho", rho)
    if not _lives_in_torch(rho):
        return rho  # type: ignore[return-value]
    import torch

    function: Any = rho
    if isinstance(rho, torch.nn.Module):
        function = copy.deepcopy(rho).cpu().double().eval()
    # a Coupling always has an axis for coordinates, a plain module sees what numpy would see
    add_axis = numbers and hasattr(rho, "d")

    def evaluate(u: Array, v: Array) -> Array:
        with torch.no_grad():
            tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in (u, v)]
            if add_axis:
                tensors = [t.unsqueeze(-1) for t in tensors]
            return np.asarray(function(*tensors).detach().cpu().numpy())

    return evaluate


def _lives_in_torch(rho: object) -> bool:
    # looked up by name so that decomposing a numpy function never imports torch
    names = {f"{c.__module__}.{c.__qualname__}" for c in type(rho).__mro__}
    return bool(names & {"torch.nn.modules.module.Module", "attnrate.targets.couplings.Coupling"})
