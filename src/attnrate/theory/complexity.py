"""The complexity measures of a target: C0 (Eq. 15), C1 (Eq. 12), C2 (Eq. 14).

In the paper they are infima over all representations (F, f, rho) of one target. What is computed
here is their value at the representation that is given; C1 uses the freedom that softmax leaves
(the gauge).
"""

from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import hypot, pi, sqrt

import numpy as np
import torch
from jaxtyping import Float
from torch.autograd.functional import jacobian

from attnrate.errors import InputError
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, checked
from attnrate.shown import Shown
from attnrate.targets import AttentionTarget
from attnrate.targets.couplings import Exponent
from attnrate.theory.basis import (
    SAMPLED_TOKENS,
    CouplingBasis,
    SoftmaxTarget,
    TokenFunction,
    coupling_basis,
    remembered,
    target_domain,
    token_grid,
)
from attnrate.theory.compile import value_range, value_region
from attnrate.theory.decay import envelope
from attnrate.theory.domain import Region
from attnrate.theory.family import FeedForwardFamily, complexity_on, for_variables
from attnrate.theory.feedforward import FamilyLike, Interpolant, require_family
from attnrate.theory.panels import Array
from attnrate.theory.variables import MOST_VARIABLES
from attnrate.words import GaugeLike

Tensor = torch.Tensor
#: The most values of all phi at the points of one grid that are remembered
_MOST_KEPT = 1 << 21
#: The oscillations of f that the grid resolves on which the size of f is measured
_FEATURES = 512


def decay_exponent(sigma: Float[Array, " rank"]) -> float:
    """The slope of a spectrum in log-log, but at least 0.51: Eq. 12 needs alpha > 1/2."""
    positive = sigma[sigma > 0]
    if len(positive) < 2:
        return 1.0
    slope = np.polyfit(np.log(np.arange(1, len(positive) + 1)), np.log(positive), 1)[0]
    return max(-float(slope), 0.51)


@dataclass(frozen=True, repr=False)
class Complexity(Shown):
    """The complexity measures of a target at its own representation (F, f, rho).

    Attributes:
        C0: max(K_F sup|f| sup(|phi_k| + |psi_k|), 1) (Eq. 15).
        C1: sup_k sigma_k k^alpha (Eq. 12), with the gauge that was asked for.
        C1_plain: C1 without the gauge.
        alpha: The exponent of C1.
        beta: The exponent of C2, which the family decides.
        family: The name of the family of feed-forward networks.
        K_F: The Lipschitz constant of F on the hull of f's values.
        sup_f: The largest |f| over the tokens.
        sup_bases: The largest |phi_k| + |psi_k| over all k, each with its supremum.
        estimated: Whether the numbers are estimates from sampled tokens, because the law of the
            inputs is neither uniform in at most three dimensions nor that of Eq. 7.

    Examples:
        >>> measures = ar.complexity(ar.spectral_target(alpha=1.0, rank=6))
        >>> measures
        C0 = 2.828, C1^(1) = 1 (without the gauge 1)
          interpolant networks: beta = 2; K_F = 1, sup|f| = 1, sup|phi|+|psi| = 2.828
        >>> round(measures.C2(1), 2)
        13.96

    """

    C0: float
    C1: float
    C1_plain: float
    alpha: float
    beta: float
    family: str
    K_F: float
    sup_f: float
    sup_bases: float
    estimated: bool
    _basis: CouplingBasis = field(compare=False)
    _chosen: FeedForwardFamily = field(compare=False)

    @checked
    def C2(self, k: Count) -> float:
        """C_FF(F) + C_FF(f) + Σ_{i<=k} (C_FF(phi_i) + C_FF(psi_i)) (Eq. 14).

        Args:
            k: The number of bases on each side, 1 or more; the m_h of a model.

        Returns:
            C2. Targets with more than three coordinates of tokens or of f, and sampled tokens, have
            none here: InputError.

        """
        return self.of_F() + self.of_f() + float(np.sum(self.of_bases(k)))

    def of_F(self) -> float:
        """C_FF(F) on the range of f, or on the box around the values of a vector f.

        For a vector F it is the root of the sum of squares over its coordinates.
        """
        target = self._basis.target
        _tokens(self._basis)
        return _function_complexity(target.F, self._chosen, value_region(target), target.out)

    def of_f(self) -> float:
        """C_FF(f) on the domain of the tokens; of a vector f as of a vector F."""
        target = self._basis.target
        return _function_complexity(target.f, self._chosen, _tokens(self._basis), target.inner_size)

    @checked
    def of_bases(self, k: Count) -> Float[Array, " k"]:
        """C_FF(phi_i) + C_FF(psi_i) for i = 1, ..., k.

        Args:
            k: The number of bases on each side, 1 or more.

        Returns:
            k numbers; zero where the coupling has no i-th term, or where the term is too small
            for its functions to be differentiated.

        """
        terms = min(k, self._basis.smooth_rank)
        found = np.zeros(k)
        found[:terms] = _bases_complexity(self._basis, self._chosen, terms)
        return found

    def __str__(self) -> str:
        text = (
            f"C0 = {self.C0:.4g}, C1^({self.alpha:.3g}) = {self.C1:.4g} "
            f"(without the gauge {self.C1_plain:.4g})\n"
            f"  {self.family} networks: beta = {self.beta:g}; K_F = {self.K_F:.4g}, "
            f"sup|f| = {self.sup_f:.4g}, sup|phi|+|psi| = {self.sup_bases:.4g}"
        )
        return f"{text}\n  {ESTIMATED}" if self.estimated else text


#: What results say that sampled tokens were used for
ESTIMATED = f"estimated: {SAMPLED_TOKENS} sampled tokens stand for the law of the inputs"


@checked
def complexity(
    target: SoftmaxTarget,
    alpha: Exponent | None = None,
    family: FamilyLike = "interpolant",
    gauge: GaugeLike = "softmax",
) -> Complexity:
    """C0, C1^(alpha) and C2^(beta) of a target (Eq. 12, 14, 15).

    C0 is the maximum of K_F ‖f‖ sup(‖psi_i‖ + ‖phi_i‖) and 1: Eq. 15 prints an infimum of the two,
    which would not bound every term. Sizes are measured on fine grids of tokens, or on sampled
    tokens where the law of the inputs has neither a box of at most three dimensions nor intervals
    (Gaussian tokens, for instance): the result then says that it is an estimate.

    Args:
        target: A target of the form of Eq. 8, with softmax.
        alpha: The exponent of C1, greater than 1/2. By default the slope of the spectrum in
            log-log, but at least 0.51.
        family: The feed-forward networks, which decide beta and C2: "interpolant", "barron",
            "klusowski-barron", "sobolev", "hoelder", or an object such as `Sobolev(order=3)`. In
            several variables its version for the larger of d and n' is taken, so that one beta
            holds for F and f alike.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.

    Returns:
        The measures; `C2(k)` is computed when it is asked for.

    Raises:
        InputError: If the target is not of this form, if F has no finite derivative somewhere, or
            if an argument is wrong.

    Examples:
        >>> measures = ar.complexity(ar.spectral_target(alpha=1.0, rank=6), alpha=1.0)
        >>> measures.C1
        1.0

    """
    chosen = _for_target(require_family("family", family), target)
    basis, plain = coupling_basis(target, gauge), coupling_basis(target, "none")
    exponent = decay_exponent(basis.sigma) if alpha is None else alpha
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
        estimated=basis.estimated,
        _basis=basis,
        _chosen=chosen,
    )


@remembered
def _function_complexity(
    function: TokenFunction, chosen: FeedForwardFamily, on: Region, components: int
) -> float:
    """C_FF of a function of tokens: the root of the sum of squares over its components."""
    each = [complexity_on(chosen, _Component(function, i), on) for i in range(components)]
    return each[0] if components == 1 else hypot(*each)


def _for_target(chosen: FeedForwardFamily, target: AttentionTarget) -> FeedForwardFamily:
    """The family's version for the functions of a target, as far as there is one."""
    variables = max(target.d, target.inner_size)
    return chosen if variables > MOST_VARIABLES else for_variables(chosen, variables)


def _bases_complexity(
    basis: CouplingBasis, chosen: FeedForwardFamily, terms: int
) -> Float[Array, " terms"]:
    """C_FF(phi_i) + C_FF(psi_i) of the first terms."""
    region = _tokens(basis)
    if basis.sines and isinstance(chosen, Interpolant):
        ((a, b),) = region.axes[0]
        # √2 sin 2πku has |second derivative| <= √2 (2πk)²
        return 2 * (b - a) ** 2 / 8 * sqrt(2.0) * (2 * pi * np.arange(1.0, terms + 1)) ** 2
    values = np.empty(terms)
    with Progress(after=QUIET) as shown:
        for i in range(terms):
            shown.at(f"measuring phi and psi: {i} of {terms}", i / terms)
            values[i] = _basis_complexity(basis, chosen, i)
    return values


@partial(remembered, most=4096)
def _basis_complexity(basis: CouplingBasis, chosen: FeedForwardFamily, i: int) -> float:
    """C_FF(phi_i) + C_FF(psi_i), i counted from 0."""
    phi, psi = _Component(_again(basis.phi), i), _Component(_again(basis.psi), i)
    region = _tokens(basis)
    return complexity_on(chosen, phi, region) + complexity_on(chosen, psi, region)


def _tokens(basis: CouplingBasis) -> Region:
    """The domain of the tokens; an InputError where they or f are of too many dimensions."""
    d, inner = basis.target.d, basis.target.inner_size
    if max(d, inner) > MOST_VARIABLES:
        raise InputError(
            f"C_FF is computed for functions of at most {MOST_VARIABLES} variables; the sizes "
            "(d, n') are {value}",
            (d, inner),
            "Leave m_ff out: the rank term alone holds in any dimension.",
        )
    if not isinstance(basis.domain, Region):
        raise InputError(
            "C_FF of the bases needs tokens that are uniform on intervals or on a box",
            basis.target.inputs,
            "Leave m_ff out: the rank term alone holds for any inputs.",
        )
    return basis.domain


@lru_cache(maxsize=8)
def _again(function: TokenFunction) -> TokenFunction:
    """A function that remembers its values at the last points, for all of its components.

    All components are expanded on the same first grid, and phi has as many as the coupling.
    """
    kept: dict[tuple[int, ...] | bytes, Tensor] = {}

    def known(x: Tensor) -> Tensor:
        key = x.numpy().tobytes()
        if key not in kept:
            values = function(x)
            if values.numel() > _MOST_KEPT:
                return values
            kept.clear()
            kept[key] = values
        return kept[key]

    return known


@dataclass(frozen=True)
class _Component:
    """One component of a function of token tensors, as a function of numbers or points."""

    function: TokenFunction
    component: int

    def __call__(self, t: Array) -> Array:
        x = torch.as_tensor(np.asarray(t, dtype=float))
        x = x[..., None] if x.ndim == 1 else x
        with torch.no_grad():
            return np.asarray(self.function(x)[..., self.component].numpy())


def _values_of_f(target: AttentionTarget) -> Float[Tensor, "n inner"]:
    """f on a fine grid of tokens, or on the sampled tokens."""
    return target.f(token_grid(target_domain(target), _FEATURES))


@lru_cache(maxsize=64)
def _sup_bases(basis: CouplingBasis) -> float:
    """The largest ‖psi_i‖_∞ + ‖phi_i‖_∞ over all i, measured on a fine grid of tokens."""
    if basis.rank == 0:
        return 0.0
    if basis.sines:
        return 2 * sqrt(2.0)
    x = token_grid(basis.domain, 4 * basis.rank)
    both = basis.phi(x).abs().amax(0) + basis.psi(x).abs().amax(0)
    return float(both.max())


def radius_of_f(target: AttentionTarget) -> float:
    """R_f = min_c sup|f - c|, with c the centre of f's bounding box.

    The weights of softmax sum to one, so a constant c in f costs nothing.
    """
    values = _values_of_f(target)
    middle = (values.amax(0) + values.amin(0)) / 2
    return float((values - middle).norm(dim=-1).max())


@remembered
def lipschitz_of_F(target: AttentionTarget) -> float:
    """K_F: the largest operator norm of F's Jacobian over the hull of f's values.

    For a scalar f the hull is its range, with end points. Otherwise random points of the hull are
    tried.
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
    # F acts on each row alone, so the derivative of the sum over rows is that of each row
    slopes = jacobian(lambda y: target.F(y).sum(0), points).movedim(1, 0)  # type: ignore[no-untyped-call]
    finite = slopes.isfinite().all(-1).all(-1)
    if not finite.all():
        raise InputError(
            "F has no finite derivative at y = {value}, and so no K_F",
            points[~finite][0].tolist(),
            "Pass an F that is Lipschitz continuous on the hull of f's values.",
        )
    return float(torch.linalg.matrix_norm(slopes, ord=2).max())
