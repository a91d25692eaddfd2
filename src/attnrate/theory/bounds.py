"""Theorem 4.1: the bound as printed (Eq. 17) and as proved, and the best split of a budget.

As proved. Let delta be the error of the coupling. The Jacobian of softmax maps delta to
a_s (delta_s - mean delta), so |softmax(rho + delta) - softmax(rho)|_1 <= max_s |delta_s|. With
R_f = min_c sup|f - c| (the weights sum to one, so a constant in f is free) and K_F,

    |H_t - Ĥ_t| <= K_F (R_f max_s |delta_s| + sup|f - f̂|) + sup|F - F̂|,

and max_s |delta_s| <= (Σ_s delta_s²)^½ + sup|rho_m - rho^|. The mean of Σ_s delta_s² is
(tau - 1) tail² plus D², the share of the pair s = t, which Eq. 46 overlooks. Hence

    mse <= (K_F R_f)² ((tau - 1) tail(m_h)² + D²),      l1 <= tau sqrt(the bound on mse)

with exact bases. The paper inserts the squared tail where the tail itself belongs (Eq. 46-50), so
that its exponent 2 alpha - 1 is that of the mean squared error; in L1 it is alpha - 1/2. That is
the rate of the pairs s ≠ t. D² falls more slowly: like m_h^-(2 alpha - 2) for the spectra of Fig. 1
with alpha > 1, and for alpha <= 1 it does not vanish as their rank grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal

import numpy as np

from attnrate.errors import InputError, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, by, checked
from attnrate.shown import Shown
from attnrate.targets import AttentionTarget
from attnrate.targets.couplings import Exponent
from attnrate.theory.basis import CouplingBasis, SoftmaxTarget, coupling_basis, remembered
from attnrate.theory.compile import value_region
from attnrate.theory.complexity import (
    ESTIMATED,
    Complexity,
    complexity,
    lipschitz_of_F,
    radius_of_f,
)
from attnrate.theory.decomposition import EPS
from attnrate.theory.domain import Region
from attnrate.theory.feedforward import FamilyLike, Interpolant
from attnrate.theory.simplices import cells_of
from attnrate.words import Gauge, GaugeLike, Norm, NormLike

#: What float64 adds to a logit, relative to the largest: with exact rank and bases, only this
#: rounding error remains
_ROUNDING = 64 * EPS
_NOT_CONVERGED = "the singular values have not converged: their error is counted in the bound"
Form = Literal["printed", "rigorous"]


@dataclass(frozen=True, repr=False)
class Bound(Shown):
    """A bound on the error of the best Transformer with head size m_h and networks of m_ff units.

    In the norm "l1" the two terms add up to the value; in "mse" their roots add up to its root.

    Attributes:
        value: The bound.
        rank_term: The share of the coupling's rank.
        feedforward_term: The share of the networks; 0 with exact components (`m_ff` is None).
        norm: The norm of the error, "mse" or "l1".
        form: "rigorous" for the bound as proved, "printed" for Eq. 17.
        m_h: The size of the attention head.
        m_ff: The number of hidden units per component; None for exact components.
        trivial: An error that every model reaches whose outputs stay within the range of f; a
            larger bound says nothing.
        estimated: Whether the number is an estimate from sampled tokens, because the law of the
            inputs is neither uniform in at most three dimensions nor that of Eq. 7.
        converged: Whether the singular values of the coupling were computed to full accuracy; the
            bound counts their error either way.

    Examples:
        >>> bound = ar.jackson_bound(ar.spectral_target(alpha=2.0, rank=6), m_h=3)
        >>> bound
        rigorous bound, mse, m_h = 3: 0.02857 (rank 0.02857, feed-forward 0)
        >>> bound.value < bound.trivial
        True

    """

    value: float
    rank_term: float
    feedforward_term: float
    norm: Norm
    form: Form
    m_h: int
    m_ff: int | None
    trivial: float
    estimated: bool = False
    converged: bool = True

    def __str__(self) -> str:
        size = f"m_h = {self.m_h}" + ("" if self.m_ff is None else f", m_ff = {self.m_ff}")
        idle = (
            f"; above {self.trivial:.3g}, so it says nothing" if self.value > self.trivial else ""
        )
        text = (
            f"{self.form} bound, {self.norm}, {size}: {self.value:.4g} "
            f"(rank {self.rank_term:.4g}, feed-forward {self.feedforward_term:.4g}{idle})"
        )
        text += f"\n  {ESTIMATED}" if self.estimated else ""
        return text if self.converged else f"{text}\n  {_NOT_CONVERGED}"


def _require_size(name: str, value: object) -> int:
    if isinstance(value, Sequence) and not isinstance(value, str):
        what = f"{name} must be a whole number, and one only"
        raise InputError(what, value, "bound_curve takes several head sizes.")
    return require_whole(name, value, 1)


#: One head size
HeadSize = Annotated[int, by(_require_size)]


@checked
def jackson_bound(
    target: SoftmaxTarget,
    m_h: HeadSize,
    m_ff: Count | None = None,
    norm: NormLike = "mse",
    form: Form = "rigorous",
    *,
    alpha: Exponent | None = None,
    family: FamilyLike = "interpolant",
    gauge: GaugeLike = "softmax",
) -> Bound:
    """A bound on the error of the best Transformer of a given size (Theorem 4.1).

    The rigorous form is an upper bound on the error of `compile_target(target, m_h, m_ff)`, and so
    on that of the best Transformer. It always uses the interpolants that are compiled; in two and
    three variables those of `compile_target(..., networks="interpolant")`, whose error falls like
    m_ff^(-2/d). Its sizes
    (R_f, K_F, sup|phi|) are measured on fine grids, K_F of a vector f at random points of the hull.
    Where the inputs have neither a box of at most three dimensions nor intervals (Gaussian tokens,
    for instance), 1024 sampled tokens stand for their law, and the bound is an estimate.

    The printed form is Eq. 17 with C0, C1^(alpha) and the chosen family. The paper states it in L1
    and compares it with mean squared errors (Fig. 1), so it is the same number in both norms.

    Args:
        target: A target of the form of Eq. 8, with softmax.
        m_h: The size of the attention head, 1 or more.
        m_ff: The number of hidden units per component (Eq. 14); None (the default) for exact
            components, with a feed-forward term of zero.
        norm: "mse" for E mean_t |H_t - Ĥ_t|², "l1" for E Σ_t |H_t - Ĥ_t|.
        form: "rigorous" for the bound as proved, "printed" for Eq. 17 as it stands.
        alpha: The exponent of C1, greater than 1/2, for the printed form. By default the slope of
            the spectrum in log-log, but at least 0.51.
        family: The feed-forward networks of the printed form: "interpolant", "barron",
            "klusowski-barron", "sobolev", "hoelder", or an object such as `Sobolev(order=3)`.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.

    Returns:
        The bound with its two terms.

    Raises:
        InputError: If the target is not of this form, if m_ff is given for a target whose tokens
            are not uniform on intervals or on a box, or whose d or n' is greater than 3, or if an
            argument is wrong.

    Examples:
        >>> target = ar.spectral_target(alpha=2.0, rank=6)
        >>> [round(ar.jackson_bound(target, m_h).value, 4) for m_h in (1, 2, 4, 6)]
        [0.3747, 0.0867, 0.0103, 0.0]

    """
    diameter = 2 * lipschitz_of_F(target) * radius_of_f(target)
    trivial = target.length * diameter if norm == "l1" else diameter**2
    if form == "printed":
        measures = complexity(target, alpha, family, gauge)
        rank, networks = _printed(target, measures, m_h, m_ff)
        value = rank + networks
        if not isfinite(measures.C1) or not isfinite(value):
            raise InputError(
                "the printed bound is beyond the largest number with this alpha",
                alpha,
                "Pass the alpha of the spectrum, or leave it out.",
            )
        basis = coupling_basis(target, gauge)
        marks = measures.estimated, basis.converged
        return Bound(value, rank, networks, norm, form, m_h, m_ff, trivial, *marks)
    basis = coupling_basis(target, gauge)
    terms = m_h if m_ff is None else min(m_h, basis.smooth_rank)
    rank = lipschitz_of_F(target) * radius_of_f(target) * _logit_error(basis, terms)
    networks = 0.0 if m_ff is None else _network_error(basis, m_h, m_ff)
    if norm == "l1":
        rank, networks = target.length * rank, target.length * networks
        value = rank + networks
    else:
        value = (rank + networks) ** 2
        rank, networks = rank**2, networks**2
    marks = basis.estimated, basis.converged
    return Bound(value, rank, networks, norm, form, m_h, m_ff, trivial, *marks)


def _printed(
    target: AttentionTarget, measures: Complexity, m_h: int, m_ff: int | None
) -> tuple[float, float]:
    """The two terms of Eq. 17 as it stands: that of the rank and that of the networks."""
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
    """(E mean_t Σ_s delta_s²)^½ of the coupling cut at rank r, plus the rounding of the logits."""
    rounding = _ROUNDING * basis.largest_logit()
    return float(np.sqrt(basis.pair_energy(r) + basis.diagonal_energy(r))) + rounding


@remembered
def _measures(target: AttentionTarget, gauge: Gauge) -> Complexity:
    """The complexity of a target with the family that is compiled, computed once."""
    return complexity(target, gauge=gauge)


def _network_error(basis: CouplingBasis, m_h: int, m_ff: int) -> float:
    """K_F (R_f sup|rho_m - rho^| + sup|f - f̂|) + sup|F - F̂| of the compiled interpolants."""
    target, domain = basis.target, basis.domain
    measures = _measures(target, basis.gauge)
    if not isinstance(domain, Region):
        raise InputError(
            "the networks' term needs tokens that are uniform on intervals; this law is sampled",
            type(target.inputs).__name__,
            "Leave m_ff out: the rank term alone holds for any law.",
        )
    bases = measures.of_bases(m_h)[: basis.smooth_rank]
    # C_FF holds for every m_ff; here it is the number of cells on each side that counts
    family = Interpolant().in_dimension(max(target.d, target.inner_size))
    share, cells = family.share(domain), cells_of(domain, m_ff)
    both = bases / share / cells**2
    sigma, sup = basis.sigma[: len(both)], measures.sup_bases
    # |phi psi - phî psî| <= |phi| e_psi + |psi| e_phi + e_phi e_psi, with e_phi + e_psi = both
    coupling = float(np.sum(sigma * (sup * both + both**2 / 4)))
    values = value_region(target)
    outer = measures.of_F() / family.share(values) / cells_of(values, m_ff) ** 2
    inner = measures.of_f() / share / cells**2
    return measures.K_F * (radius_of_f(target) * coupling + inner) + outer


@dataclass(frozen=True, repr=False)
class Split(Shown):
    """The m_h and m_ff that make the bound smallest for a number of parameters.

    Attributes:
        m_h: The size of the attention head.
        m_ff: The number of hidden units per component.
        parameters: The number of parameters that the model of this size has.
        bound: The rigorous bound at this size.

    Examples:
        >>> ar.best_split(ar.spectral_target(alpha=2.0, rank=40), parameters=3_000)
        m_h = 10, m_ff = 97 (2,985 parameters)
          rigorous bound, mse, m_h = 10, m_ff = 97: 0.004815 (rank 0.002333, feed-forward 0.0004446)

    """

    m_h: int
    m_ff: int
    parameters: int
    bound: Bound

    def __str__(self) -> str:
        return (
            f"m_h = {self.m_h}, m_ff = {self.m_ff} ({self.parameters:,} parameters)\n  {self.bound}"
        )


def parameters_of(m_h: int, m_ff: int, d: int = 1, inner: int = 1, out: int = 1) -> int:
    """The number of parameters of a compiled Transformer.

    It has f̂ and F̂ with m_ff hidden units, W_Q, W_K and W_V; tokens in R^d, `inner` coordinates of
    f and `out` of the output.
    """
    n = 2 * m_h + inner
    f_hat = (d + 1) * m_ff + (m_ff + 1) * n
    F_hat = (inner + 1) * m_ff + (m_ff + 1) * out
    return f_hat + F_hat + n * (2 * m_h + inner)


@checked
def best_split(
    target: SoftmaxTarget,
    parameters: Count,
    norm: NormLike = "mse",
    *,
    gauge: GaugeLike = "softmax",
) -> Split:
    """The head size and network width with the smallest rigorous bound for a number of parameters.

    Every m_h up to the rank of the coupling is tried, each with the largest m_ff that the
    parameters allow.

    Args:
        target: A target of the form of Eq. 8, with softmax, of scalar tokens and outputs.
        parameters: The number of parameters to spend, at least that of m_h = m_ff = 1.
        norm: The norm of the bound, "mse" or "l1". Both give the same split.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.

    Returns:
        The split with its bound.

    Raises:
        InputError: If the parameters are too few, or if the target has no feed-forward term (see
            `jackson_bound`).

    Examples:
        >>> target = ar.spectral_target(alpha=2.0, rank=40)
        >>> [ar.best_split(target, count).m_h for count in (300, 1_000, 10_000)]
        [3, 5, 19]

    """
    if parameters < parameters_of(1, 1):
        raise InputError(
            "the smallest compiled Transformer has more parameters than that",
            parameters,
            f"Pass at least {parameters_of(1, 1)}.",
        )
    if (target.d, target.inner_size, target.out) != (1, 1, 1):
        raise InputError(
            "a split is found for scalar tokens, f and outputs, whose networks have one hidden "
            "layer; the sizes (d, n', out) are {value}",
            (target.d, target.inner_size, target.out),
            "jackson_bound(target, m_h, m_ff) bounds the error of any one size.",
        )
    basis = coupling_basis(target, gauge)
    if not isinstance(basis.domain, Region):
        raise InputError(
            "a split needs tokens that are uniform on intervals, for the networks' term; this law "
            "is sampled",
            type(target.inputs).__name__,
            "jackson_bound(target, m_h) bounds the error of the rank alone.",
        )
    least = 2 * len(basis.domain.axes[0]) - 1
    if parameters < parameters_of(1, least):
        raise InputError(
            f"a network for these intervals has {least} units or more, and more parameters",
            parameters,
            f"Pass at least {parameters_of(1, least)}.",
        )
    rank = max(basis.rank, 1)
    sizes = []
    for m_h in range(1, rank + 1):
        base = parameters_of(m_h, 0)
        m_ff = (parameters - base) // (parameters_of(m_h, 1) - base)
        if m_ff < least:
            break
        sizes.append((m_h, m_ff))
    splits = []
    with Progress(after=QUIET) as shown:
        for done, (m_h, m_ff) in enumerate(sizes):
            shown.at(f"splitting {parameters:,} parameters: m_h = {m_h}", done / len(sizes))
            bound = jackson_bound(target, m_h, m_ff, norm, gauge=gauge)
            splits.append(Split(m_h, m_ff, parameters_of(m_h, m_ff), bound))
    return min(splits, key=lambda split: split.bound.value)
