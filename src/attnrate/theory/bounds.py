"""Theorem 4.1: the bound as printed (Eq. 17) and as proved, and the best split of a budget.

As proved. Let delta be the error of the coupling. The Jacobian of softmax maps delta to
a_s (delta_s - mean delta), so |softmax(rho + delta) - softmax(rho)|_1 <= max_s |delta_s|. With
R_f = min_c sup|f - c| (the weights sum to one, so a constant in f is free) and K_F,

    |H_t - Ĥ_t| <= K_F (R_f max_s |delta_s| + sup|f - f̂|) + sup|F - F̂|,

and max_s |delta_s| <= (Σ_s delta_s²)^½ + sup|rho_m - rho^|. The mean of Σ_s delta_s² is
(tau - 1) tail² plus the pair s = t, which Eq. 46 overlooks. Hence

    mse <= (K_F R_f)² ((tau - 1) tail(m_h)² + D²),      l1 <= tau sqrt(the same)

with exact bases. The paper inserts the squared tail where the tail itself belongs (Eq. 46-50), so
that its exponent 2 alpha - 1 is that of the mean squared error; in L1 it is alpha - 1/2. That is
the share of the pairs s ≠ t. D², the pair s = t, falls more slowly: like m_h^-(2 alpha - 2) for the
spectra of Fig. 1 with alpha > 1, and for alpha <= 1 it does not vanish as their rank grows.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Literal

import numpy as np

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.targets import AttentionTarget
from attnrate.theory.basis import CouplingBasis, as_gauge, coupling_basis, require_softmax
from attnrate.theory.compile import pieces_of, value_range
from attnrate.theory.complexity import (
    Complexity,
    complexity,
    lipschitz_of_F,
    radius_of_f,
    require_one_variable,
)
from attnrate.theory.decomposition import EPS
from attnrate.theory.domain import Region

#: What float64 adds to a logit, relative to the largest: where rank and bases are exact, the
#: bound is that of the arithmetic
_ROUNDING = 64 * EPS
Norm = Literal["l1", "mse"]
Form = Literal["printed", "rigorous"]


@dataclass(frozen=True)
class Bound:
    """A bound on the error of the best Transformer with head size m_h and m_ff units a component.

    For l1 the two terms add up; for mse their roots do. `trivial` is what any model reaches whose
    values stay among those of f: a bound above it says nothing.
    """

    value: float
    rank_term: float
    feedforward_term: float
    norm: Norm
    form: Form
    m_h: int
    m_ff: int | None
    trivial: float

    def __str__(self) -> str:
        size = f"m_h = {self.m_h}" + ("" if self.m_ff is None else f", m_ff = {self.m_ff}")
        idle = (
            f"; above {self.trivial:.3g}, so it says nothing" if self.value > self.trivial else ""
        )
        return (
            f"{self.form} bound, {self.norm}, {size}: {self.value:.4g} "
            f"(rank {self.rank_term:.4g}, feed-forward {self.feedforward_term:.4g}{idle})"
        )


def jackson_bound(
    target: object,
    m_h: object,
    m_ff: object = None,
    norm: object = "l1",
    form: object = "rigorous",
    *,
    alpha: object = None,
    family: object = "interpolant",
    gauge: object = "softmax",
) -> Bound:
    """Theorem 4.1 for a target: l1 is E Σ_t |H_t - Ĥ_t|, mse is E mean_t |H_t - Ĥ_t|².

    With m_ff=None the feed-forward term is zero. The rigorous form is an upper bound on the error
    of `compile_target(target, m_h, m_ff)`, and so on the best; it always uses the interpolants
    that are compiled. Sizes (R_f, K_F, sup|phi|) are measured on fine grids, K_F of a vector f at
    random points of the hull. Where the inputs have neither a box of at most three dimensions nor
    intervals, sampled tokens stand for their law and the rigorous form is an estimate.

    The printed form is Eq. 17 with C0, C1^(alpha) and the chosen family; the paper states it in L1
    and compares it with mean squared errors (Fig. 1), so it is the same number for both norms.
    """
    target = require_softmax(target)
    m_h = require_whole("m_h", m_h, 1)
    m_ff = None if m_ff is None else require_whole("m_ff", m_ff, 1)
    require_choice("norm", norm, ("l1", "mse"))
    modulo = as_gauge(gauge)
    require_choice("form", form, ("printed", "rigorous"))
    chosen: Norm = "l1" if norm == "l1" else "mse"
    diameter = 2 * lipschitz_of_F(target) * radius_of_f(target)
    trivial = target.length * diameter if chosen == "l1" else diameter**2
    if form == "printed":
        measures = complexity(target, alpha, family, modulo)
        rank, networks = _printed(target, measures, m_h, m_ff)
        value = rank + networks
        if not isfinite(measures.C1) or not isfinite(value):
            raise InputError(
                "the printed bound is beyond the largest number with this alpha",
                alpha,
                "Pass the alpha of the spectrum, or leave it out.",
            )
        return Bound(value, rank, networks, chosen, "printed", m_h, m_ff, trivial)
    basis = coupling_basis(target, modulo)
    terms = m_h if m_ff is None else min(m_h, basis.smooth_rank)
    rank = lipschitz_of_F(target) * radius_of_f(target) * _logit_error(basis, terms)
    networks = 0.0 if m_ff is None else _network_error(basis, m_h, m_ff)
    if chosen == "l1":
        rank, networks = target.length * rank, target.length * networks
        return Bound(rank + networks, rank, networks, chosen, "rigorous", m_h, m_ff, trivial)
    value = (rank + networks) ** 2
    return Bound(value, rank**2, networks**2, chosen, "rigorous", m_h, m_ff, trivial)


def _printed(
    target: AttentionTarget, measures: Complexity, m_h: int, m_ff: int | None
) -> tuple[float, float]:
    """Eq. 17 as it stands: the term of the rank and that of the networks."""
    scale = target.length**2 * measures.C0
    try:
        rank = scale * measures.C1 / m_h ** (2 * measures.alpha - 1)
    except OverflowError:  # m_h^(2α-1) is beyond 1e308
        rank = 0.0
    if m_ff is None:
        return rank, 0.0
    beta = measures.beta
    return rank, scale * measures.C2(m_h) * m_h ** (beta + 1) / m_ff**beta


def _logit_error(basis: CouplingBasis, r: int) -> float:
    """(E mean_t Σ_s delta_s²)^½ of the coupling cut at rank r, and the rounding of the logits."""
    rounding = _ROUNDING * basis.largest_logit()
    return float(np.sqrt(basis.pair_energy(r) + basis.diagonal_energy(r))) + rounding


def _network_error(basis: CouplingBasis, m_h: int, m_ff: int) -> float:
    """K_F (R_f sup|rho_m - rho^| + sup|f - f̂|) + sup|F - F̂| of the compiled interpolants."""
    target, domain = basis.target, basis.domain
    require_one_variable(target)
    measures = complexity(target, gauge=basis.gauge)
    if not isinstance(domain, Region):
        raise InputError(
            "the networks' term needs tokens from an interval; this target's are known by samples",
            type(target.inputs).__name__,
            "Leave m_ff out: the rank term alone holds for any law.",
        )
    pieces = pieces_of(domain.axes[0], m_ff)
    both = measures.of_bases(m_h)[: basis.smooth_rank] / pieces**2
    sigma, sup = basis.sigma[: len(both)], measures.sup_bases
    # |phi psi - phî psî| <= |phi| e_psi + |psi| e_phi + e_phi e_psi, with e_phi + e_psi = both
    coupling = float(np.sum(sigma * (sup * both + both**2 / 4)))
    outer = measures.of_F() / pieces_of((value_range(target),), m_ff) ** 2
    return measures.K_F * (radius_of_f(target) * coupling + measures.of_f() / pieces**2) + outer


@dataclass(frozen=True)
class Split:
    """The m_h and m_ff that make the bound smallest for a number of parameters."""

    m_h: int
    m_ff: int
    parameters: int
    bound: Bound

    def __str__(self) -> str:
        return (
            f"m_h = {self.m_h}, m_ff = {self.m_ff} ({self.parameters:,} parameters)\n  {self.bound}"
        )


def parameters_of(m_h: int, m_ff: int, d: int = 1, inner: int = 1, out: int = 1) -> int:
    """Parameters of the compiled Transformer: f̂ and F̂ with m_ff hidden units, W_Q, W_K, W_V."""
    n = 2 * m_h + inner
    f_hat = (d + 1) * m_ff + (m_ff + 1) * n
    F_hat = (inner + 1) * m_ff + (m_ff + 1) * out
    return f_hat + F_hat + n * (2 * m_h + inner)


def best_split(
    target: object,
    parameters: object,
    norm: object = "l1",
    *,
    gauge: object = "softmax",
) -> Split:
    """Spend a number of parameters on m_h and m_ff so that the rigorous bound is smallest."""
    target = require_softmax(target)
    parameters = require_whole("parameters", parameters, 1)
    if parameters < parameters_of(1, 1):
        raise InputError(
            "the smallest compiled Transformer has more parameters than that",
            parameters,
            f"Pass at least {parameters_of(1, 1)}.",
        )
    rank = coupling_basis(target, as_gauge(gauge)).rank
    splits = []
    for m_h in range(1, max(rank, 1) + 1):
        base = parameters_of(m_h, 0)
        each = parameters_of(m_h, 1) - base
        m_ff = (parameters - base) // each
        if m_ff < 1:
            break
        bound = jackson_bound(target, m_h, m_ff, norm, gauge=gauge)
        splits.append(Split(m_h, m_ff, parameters_of(m_h, m_ff), bound))
    return min(splits, key=lambda split: split.bound.value)
