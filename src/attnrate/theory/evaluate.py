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
from attnrate.theory.domain import Domain, Region
from attnrate.theory.panels import Array
from attnrate.theory.watch import Watch

#: Entries asked of rho in one call, so that intermediate arrays stay small
_BLOCK = 1 << 20
#: Powers of two beyond which squares come near to the ends of float64
_FARTHEST = 300


def numbers_only(domain: Domain) -> bool:
    """Whether points of this domain are plain numbers, without an axis for coordinates."""
    return domain.d == 1 if isinstance(domain, Region) else domain.points.ndim == 1


class Evaluator:
    """rho on arrays of points, checked; `watch` counts at how many pairs it was asked."""

    def __init__(self, rho: object, u: Domain, v: Domain, watch: Watch | None = None) -> None:
        self._rho = _as_numpy_function(rho, numbers_only(u) and numbers_only(v))
        self._plain = (numbers_only(u), numbers_only(v))
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
        left = u[:, 0][:, None] if self._plain[0] else u[:, None, :]
        right = v[:, 0][None, :] if self._plain[1] else v[None, :, :]
        return self._checked(left, right, (len(u), len(v)), u, v)

    def pairs(self, u: Float[Array, "*n d"], v: Float[Array, "*n e"]) -> Float[Array, "*n"]:
        """rho(u_i, v_i), point by point, any leading shape."""
        left = u[..., 0] if self._plain[0] else u
        right = v[..., 0] if self._plain[1] else v
        return self._checked(left, right, u.shape[:-1], u, v)

    def _checked(
        self, left: Array, right: Array, shape: tuple[int, ...], u: Array, v: Array
    ) -> Array:
        self.watch.count(prod(shape))
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
            at_u = u[bad] if u.ndim == len(shape) + 1 else u[bad[0]]
            at_v = v[bad] if v.ndim == len(shape) + 1 else v[bad[-1]]
            raise InputError(
                f"rho is not finite at u = {_show(at_u)}, v = {_show(at_v)}",
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
