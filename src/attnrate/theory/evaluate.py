"""Calling a coupling safely: finite values in the right shape, and a count of evaluations.

How rho wants its arguments is found out by `calling.py`. Values far from 1 are measured in a unit
of their own, because the squares of 1e±200 overflow or vanish.
"""

import copy
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Float

from attnrate.calling import Called, Library, find_call, not_real
from attnrate.errors import InputError, require_callable
from attnrate.theory.domain import Domain, Mesh, Samples
from attnrate.theory.panels import Array
from attnrate.theory.watch import Watch

#: The most entries per call of rho, so that intermediate arrays stay small
_BLOCK = 1 << 20
#: Powers of two beyond which squares come near to the ends of float64
_FARTHEST = 300
#: Points of each domain at which rho is tried first
_FEW = 12


def numbers_only(domain: Domain | Mesh) -> bool:
    """Whether points of this domain are plain numbers, without an axis for coordinates."""
    return domain.points.ndim == 1 if isinstance(domain, Samples) else domain.d == 1


class Evaluator:
    """rho on arrays of points, with its values checked.

    Args:
        rho: A function of two arrays, a torch module, a coupling of a target, or any of these as
            `Called`, so that it need not be tried.
        u: The domain of the first argument.
        v: The domain of the second argument.
        watch: Counts the pairs at which rho is evaluated.

    """

    def __init__(self, rho: object, u: Domain, v: Domain, watch: Watch | None = None) -> None:
        self.watch = watch or Watch()
        self._rho, pairs = _as_called(rho, u, v)
        with self.watch.free():
            self.watch.count(pairs)
        #: what values are divided by: a power of two, so that nothing is rounded
        self.unit = 1.0

    def change_unit(self, size: float) -> bool:
        """Rescale by `size`, given in the present unit, if it is far from 1; return whether it was.

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
        """rho(u_i, v_j) for all pairs, in a unit in which the largest value is not far from 1."""
        values = self.outer(u, v)
        return self.outer(u, v) if self.change_unit(float(np.max(np.abs(values)))) else values

    def pairs(self, u: Float[Array, "*m d"], v: Float[Array, "*n e"]) -> Float[Array, "..."]:
        """rho(u_i, v_i), point by point; the axes before the last are broadcast."""
        shape = np.broadcast_shapes(u.shape[:-1], v.shape[:-1])
        self.watch.count(prod(shape))
        raw = self._rho.on_arrays(u, v)
        if raw.dtype.kind not in "fiub":
            raise not_real(raw)
        try:
            values = raw if raw.shape == shape else np.broadcast_to(raw, shape)
        except ValueError:
            raise InputError(
                f"rho was called with arrays of tokens that broadcast to {shape}, and must "
                "return one number for each; the shape of what it returned does not fit",
                raw.shape,
                "Write rho so that it works on arrays of any shape.",
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


def _as_called(rho: object, u: Domain, v: Domain) -> tuple[Called, int]:
    """How to call rho, and the number of pairs at which it was called to find that out.

    Torch modules are copied and evaluated in float64, on the CPU.
    """
    if isinstance(rho, Called):
        return rho, 0
    function: Any = require_callable("rho", rho)
    kinds = _kinds(rho)
    if "attnrate.targets.coupling_base.Coupling" in kinds:
        return Called(function, "torch", axis=True), 0
    module = "torch.nn.modules.module.Module" in kinds
    if module:
        function = copy.deepcopy(function).cpu().double().eval()
    generator = np.random.default_rng(11)
    libraries: tuple[Library, ...] = ("torch",) if module else ("numpy", "torch")
    few_u, few_v = (domain.draw(_FEW, generator) for domain in (u, v))
    return find_call(function, few_u, few_v, "numpy", libraries)


def _kinds(thing: object) -> set[str]:
    """The names of all classes of a thing: torch is not imported for a numpy function."""
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__}
