"""The complexity measures of a target: C0 (Eq. 15), C1 (Eq. 12), C2 (Eq. 14).

They are infima over representations (F, f, rho) of the same target. What is computed here is their
value at the representation given, with the freedom that softmax leaves (the gauge) used for C1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import pi, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch.autograd.functional import jacobian

from attnrate.errors import InputError, require_number, require_whole
from attnrate.targets import AttentionTarget
from attnrate.theory.basis import (
    CouplingBasis,
    TokenFunction,
    as_gauge,
    coupling_basis,
    remembered,
    require_softmax,
    target_domain,
    token_grid,
)
from attnrate.theory.compile import value_range
from attnrate.theory.decay import envelope
from attnrate.theory.domain import Region
from attnrate.theory.feedforward import FeedForwardFamily, Interpolant
from attnrate.theory.feedforward import family as resolve_family
from attnrate.theory.panels import Array

Tensor = torch.Tensor
#: How fine the grid is on which the sizes of f are measured
_FEATURES = 512


def decay_exponent(sigma: Float[Array, " rank"]) -> float:
    """An alpha > 1/2 for a spectrum: its slope in log-log. Every alpha > 1/2 is allowed."""
    positive = sigma[sigma > 0]
    if len(positive) < 2:
        return 1.0
    slope = np.polyfit(np.log(np.arange(1, len(positive) + 1)), np.log(positive), 1)[0]
    return max(-float(slope), 0.51)


@dataclass(frozen=True)
class Complexity:
    """C0, C1 and C2 of a target at its own representation; `C1_plain` is without the gauge."""

    C0: float
    C1: float
    C1_plain: float
    alpha: float
    beta: float
    family: str
    K_F: float
    sup_f: float
    sup_bases: float
    _basis: CouplingBasis = field(repr=False, compare=False)
    _chosen: Any = field(repr=False, compare=False)  # a family, with a hash

    def C2(self, k: object) -> float:
        """C_FF(F) + C_FF(f) + Σ_{i<=k} (C_FF(phi_i) + C_FF(psi_i)) (Eq. 14)."""
        k = require_whole("k", k, 1)
        return self.of_F() + self.of_f() + float(np.sum(self.of_bases(k)))

    def of_F(self) -> float:
        """C_FF(F) over the values of f."""
        target = self._basis.target
        require_one_variable(target)
        return _function_complexity(target.F, self._chosen, value_range(target))

    def of_f(self) -> float:
        """C_FF(f)."""
        return _function_complexity(self._basis.target.f, self._chosen, _hull(self._basis))

    def of_bases(self, k: int) -> Float[Array, " k"]:
        """C_FF(phi_i) + C_FF(psi_i) for i <= k, zero where there is no network (`smooth_rank`)."""
        terms = min(k, self._basis.smooth_rank)
        values = [_basis_complexity(self._basis, self._chosen, i) for i in range(terms)]
        return np.array(values + [0.0] * (k - terms))

    def __str__(self) -> str:
        return (
            f"C0 = {self.C0:.4g}, C1^({self.alpha:.3g}) = {self.C1:.4g} "
            f"(without the gauge {self.C1_plain:.4g})\n"
            f"  {self.family} networks: beta = {self.beta:g}; K_F = {self.K_F:.4g}, "
            f"sup|f| = {self.sup_f:.4g}, sup|phi|+|psi| = {self.sup_bases:.4g}"
        )


def complexity(
    target: object,
    alpha: object = None,
    family: object = "interpolant",
    gauge: object = "softmax",
) -> Complexity:
    """C0, C1^(alpha) and C2^(beta) of a target of the form of Eq. 8.

    alpha defaults to the slope of the spectrum; any alpha > 1/2 may be asked for. The feed-forward
    family decides beta. C0 is the maximum of K_F ‖f‖ sup(‖psi_i‖ + ‖phi_i‖) and 1: Eq. 15 prints
    an infimum over the two, which would not bound every term.
    """
    target = require_softmax(target)
    modulo, chosen = as_gauge(gauge), resolve_family(family)
    asked = None if alpha is None else require_number("alpha", alpha, above=0.5)
    basis, plain = coupling_basis(target, modulo), coupling_basis(target, None)
    exponent = decay_exponent(basis.sigma) if asked is None else asked
    sup_f = float(_values_of_f(target).norm(dim=-1).max())
    K_F, sup_bases = lipschitz_of_F(target), _sup_bases(basis)
    with np.errstate(over="ignore"):  # an alpha far beyond the spectrum's has the envelope inf
        C1, C1_plain = (envelope(each.sigma, exponent) for each in (basis, plain))
    return Complexity(
        C0=max(K_F * sup_f * sup_bases, 1.0),
        C1=C1,
        C1_plain=C1_plain,
        alpha=exponent,
        beta=chosen.beta,
        family=chosen.name,
        K_F=K_F,
        sup_f=sup_f,
        sup_bases=sup_bases,
        _basis=basis,
        _chosen=chosen,
    )


@remembered
def _function_complexity(
    function: TokenFunction, chosen: FeedForwardFamily, on: tuple[float, float]
) -> float:
    return float(chosen.complexity(_plain(function), on))


@lru_cache(maxsize=4096)
def _basis_complexity(basis: CouplingBasis, chosen: FeedForwardFamily, i: int) -> float:
    hull = _hull(basis)
    if basis.sines and isinstance(chosen, Interpolant):
        a, b = hull
        # √2 sin 2πku has |second derivative| <= √2 (2πk)²
        return 2 * (b - a) ** 2 / 8 * sqrt(2.0) * (2 * pi * (i + 1)) ** 2
    phi, psi = _plain(basis.phi, i), _plain(basis.psi, i)
    return float(chosen.complexity(phi, hull) + chosen.complexity(psi, hull))


def require_one_variable(target: AttentionTarget) -> None:
    """An InputError for a target of more than one variable, for which there are no C_FF here."""
    inner = target.inner_size
    if target.d != 1 or inner != 1 or target.out != 1:
        raise InputError(
            "the C_FF families are computed for functions of one variable; this target has "
            "(d, n', out)",
            (target.d, inner, target.out),
            "Leave m_ff out: the rank term alone holds in any dimension.",
        )


def _hull(basis: CouplingBasis) -> tuple[float, float]:
    """The one interval on which the bases are functions; C_FF does not go across gaps."""
    require_one_variable(basis.target)
    domain = basis.domain
    if not isinstance(domain, Region) or len(domain.axes[0]) != 1:
        raise InputError(
            "C_FF of the bases needs tokens from one interval; this target's live in",
            basis.target.inputs,
            "Leave m_ff out: the rank term alone holds for any inputs.",
        )
    return domain.axes[0][0]


def _plain(function: TokenFunction, component: int = 0) -> Callable[[Array], Array]:
    """One component of a function of token tensors as a function of numbers."""

    def evaluate(t: Array) -> Array:
        x = torch.as_tensor(np.asarray(t, dtype=float))[..., None]
        with torch.no_grad():
            return np.asarray(function(x)[..., component].numpy())

    return evaluate


def _values_of_f(target: AttentionTarget) -> Float[Tensor, "n inner"]:
    return target.f(token_grid(target_domain(target), _FEATURES))


@lru_cache(maxsize=64)
def _sup_bases(basis: CouplingBasis) -> float:
    """sup_i ‖psi_i‖_∞ + ‖phi_i‖_∞."""
    if basis.rank == 0:
        return 0.0
    if basis.sines:
        return 2 * sqrt(2.0)
    x = token_grid(basis.domain, 4 * basis.rank)
    both = basis.phi(x).abs().amax(0) + basis.psi(x).abs().amax(0)
    return float(both.max())


def radius_of_f(target: AttentionTarget) -> float:
    """min_c sup |f - c|, from the bounding box of f: softmax weights sum to one, so c is free."""
    values = _values_of_f(target)
    middle = (values.amax(0) + values.amin(0)) / 2
    return float((values - middle).norm(dim=-1).max())


@remembered
def lipschitz_of_F(target: AttentionTarget) -> float:
    """K_F: the largest operator norm of F's Jacobian over the hull of f's values.

    For scalar f the hull is its range, with end points; otherwise random points of the hull.
    """
    inner = target.inner_size
    if inner == 1:
        low, high = value_range(target)
        points = torch.linspace(low, high, 4097, dtype=torch.float64)[:, None]
    else:
        values = target.f(target.sample(256, 0)).reshape(-1, target.length, inner)
        generator = torch.Generator().manual_seed(0)
        weights = torch.rand(len(values), 4, target.length, generator=generator).double()
        hull = (weights / weights.sum(-1, keepdim=True)) @ values
        points = torch.cat([hull.reshape(-1, inner), values.reshape(-1, inner)])[:4096]
    # rows do not mix in F, so that the derivatives of its sum over them are those of each row
    slopes = jacobian(lambda y: target.F(y).sum(0), points).movedim(1, 0)  # type: ignore[no-untyped-call]
    finite = slopes.isfinite().all(-1).all(-1)
    if not finite.all():
        raise InputError(
            "F has no finite derivative, so no K_F, at y",
            points[~finite][0].tolist(),
            "Pass an F that is Lipschitz continuous on the hull of f's values.",
        )
    return float(torch.linalg.matrix_norm(slopes, ord=2).max())
