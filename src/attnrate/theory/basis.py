"""The POD of a target's own coupling: sigma, phi and psi on tokens, and what a truncation leaves.

Softmax sees pairs (x(t), x(s)), also those with s = t. The POD gives no bound for these: x(t) and
x(s) are then one token, and Eq. 46 counts them as if they were independent. This module computes
their share of the error separately.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property, lru_cache, partial, wraps
from typing import Annotated, ParamSpec, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import AccuracyWarning, InputError
from attnrate.progress import QUIET, Progress
from attnrate.settings import by, checked
from attnrate.targets import (
    AttentionTarget,
    FiniteRankCoupling,
    PositionedInputs,
    SpectralCoupling,
    UniformInputs,
)
from attnrate.theory.domain import Domain, Mesh, Region, Samples, box, union
from attnrate.theory.evaluate import numbers_only
from attnrate.theory.panels import Array, product_grid
from attnrate.theory.pod import level_of_caller, pod
from attnrate.words import Gauge, GaugeLike, require_gauge

Tensor = torch.Tensor
P = ParamSpec("P")
Result = TypeVar("Result")
#: A function of tokens, (..., d) -> (..., k)
TokenFunction = Callable[[Tensor], Tensor]
#: The number of sampled tokens that stand for a law of the inputs that no grid is made for
SAMPLED_TOKENS = 1024
#: The number of fresh tokens at which a truncation is measured for such a law, and the most of them
#: that are taken from one sequence
_FRESH_TOKENS, _FRESH_POSITIONS = 4096, 256
#: sigma_k / sigma_1 above which phi_k and psi_k can be differentiated, by the number of variables:
#: in several the singular values are known to 1e-7 only
_SMOOTH = {2: 1e-4, 3: 1e-4}
#: The same in one variable, and for networks that are fitted and not differentiated
FAINT = 1e-9


@dataclass(frozen=True, eq=False)
class CouplingBasis:
    """sigma, phi and psi of a target's coupling on the domain of its tokens.

    Attributes:
        target: The target, with its coupling and the law of its inputs.
        domain: Where the tokens live, or samples of them.
        gauge: "softmax" where the mean over v was taken out of the coupling, else "none".
        sigma: The singular values, in descending order.
        rest: The root of the sum of squares of the singular values that are not in `sigma`.
        phi: The functions phi_k of query tokens, (..., d) -> (..., rank).
        psi: The functions psi_k of key tokens, (..., d) -> (..., rank).
        converged: Whether the POD has converged; `rest` counts its error either way.

    """

    target: AttentionTarget
    domain: Domain
    gauge: Gauge
    sigma: Float[Array, " rank"]
    rest: float
    phi: TokenFunction
    psi: TokenFunction
    converged: bool = True

    @property
    def rank(self) -> int:
        """The number of singular values in `sigma`."""
        return len(self.sigma)

    @cached_property
    def smooth_rank(self) -> int:
        """The number of terms whose functions are accurate enough to be differentiated twice.

        The error of phi_k is the error of rho divided by sigma_k. Only these terms get networks.
        """
        return self.rank_above(_SMOOTH.get(self.domain.d, FAINT))

    def rank_above(self, share: float) -> int:
        """The number of singular values above this share of the largest."""
        return int(np.sum(self.sigma > share * self.sigma[0])) if self.rank else 0

    @property
    def estimated(self) -> bool:
        """Whether sampled tokens stand for the law of the inputs, so that results are estimates."""
        return isinstance(self.domain, Samples)

    @property
    def sines(self) -> bool:
        """Whether phi_k = psi_k = √2 sin 2πku: the coupling of sec. 5.1 on [0, 1]."""
        return _has_sines(self.target.rho, self.domain)

    def tail(self, r: int) -> float:
        """(Σ_{k>r} sigma_k²)^½, the root of Eq. 11; the measure is length, or the samples'."""
        return float(np.sqrt(np.sum(self.sigma[r:] ** 2) + self.rest**2))

    def query(self, x: Float[Tensor, "*shape d"], m_h: int) -> Float[Tensor, "*shape m_h"]:
        """The first m_h components sqrt(sigma_k) phi_k(x); zero beyond the rank."""
        return self._factor(self.phi, x, m_h)

    def key(self, x: Float[Tensor, "*shape d"], m_h: int) -> Float[Tensor, "*shape m_h"]:
        """The first m_h components sqrt(sigma_k) psi_k(x); zero beyond the rank."""
        return self._factor(self.psi, x, m_h)

    def _factor(self, side: TokenFunction, x: Tensor, m_h: int) -> Tensor:
        """The first m_h functions of one side at tokens, times sqrt(sigma_k)."""
        r, rho = min(m_h, self.rank), self.target.rho
        # of a million sines only the first are computed
        values = rho.phi(x, r) if self.sines and isinstance(rho, SpectralCoupling) else side(x)
        root = torch.as_tensor(np.sqrt(self.sigma[:r]), dtype=values.dtype, device=values.device)
        return torch.nn.functional.pad(values[..., :r] * root, (0, m_h - r))

    def pair_energy(self, r: int) -> float:
        """E mean_t Σ_{s≠t} |rho - rho_r|² at (x(t), x(s)): the pairs that the POD describes.

        For a sampled law it is the mean over fresh sequences plus two standard errors: the tail of
        the samples themselves would be too small, since phi and psi are made from them.
        """
        if self.estimated:
            return self._measured(r)[0]
        tail = self.tail(r)
        inputs, length = self.target.inputs, self.target.length
        if isinstance(inputs, PositionedInputs):
            # every pair of positions has its own block of the domain; the blocks add up to the tail
            least = min(b - a for a, b in inputs.intervals)
            return tail**2 / (length * least**2)
        return (length - 1) * (tail / self.domain.volume) ** 2

    def diagonal_energy(self, r: int) -> float:
        """E mean_t |rho - rho_r|² at (x(t), x(t)): the pair s = t."""
        if self.estimated:
            return self._measured(r)[1]
        if self.sines:
            # 2 sin² 2πkx = 1 - cos 4πkx, and the cosines are orthogonal
            rest = self.sigma[r:]
            return float(np.sum(rest) ** 2 + np.sum(rest**2) / 2)
        rho, terms, weights = self._diagonal
        gap = rho - np.sum(terms[:, : min(r, self.rank)], axis=1)
        return float(weights @ gap**2)

    def _measured(self, r: int) -> tuple[float, float]:
        """`pair_energy` and `diagonal_energy` of a sampled law, measured at fresh sequences."""
        rho, phi, psi = self._fresh
        left = phi[..., :r] * torch.tensor(self.sigma[:r])
        squares = (rho - left @ psi[..., :r].mT).square()
        positions = squares.shape[-1]
        own = squares.diagonal(dim1=-2, dim2=-1)
        others = (squares.sum((-2, -1)) - own.sum(-1)).clamp(min=0.0)
        a_pair = others / max(positions * (positions - 1), 1)
        return _upper(a_pair) * (self.target.length - 1), _upper(own.mean(-1))

    @cached_property
    def _fresh(self) -> tuple[Tensor, Tensor, Tensor]:
        """rho modulo the gauge at all pairs of tokens of fresh sequences, and phi and psi there."""
        length, d = self.target.length, self.target.d
        positions = min(length, _FRESH_POSITIONS)
        drawn = self.target.sample(-(-_FRESH_TOKENS // positions), seed=1)
        x = drawn[:, np.linspace(0, length - 1, positions).round().astype(int)]
        rho = self.target.rho.outer(x, x)
        if self.gauge == "softmax":
            means = torch.from_numpy(self._row_means(x.reshape(-1, d)))
            rho = rho - means.reshape(len(x), positions, 1)
        return rho, self.phi(x), self.psi(x)

    def largest_logit(self) -> float:
        """A size of the logits: one plus the largest |rho(x, x)| plus the norm of rho."""
        if self.sines:
            return 1.0 + 2.0 * float(np.sum(self.sigma))
        rho, _, _ = self._diagonal
        return 1.0 + float(np.max(np.abs(rho), initial=0.0)) + self.tail(0)

    @cached_property
    def _diagonal(self) -> tuple[Array, Array, Array]:
        """rho(x, x) modulo the gauge on a fine grid of tokens x, its terms, and weights.

        The weights integrate over a token at a position that is drawn at random.
        """
        grid = fine_grid(self.domain, self.rank)
        x = torch.from_numpy(grid.nodes)
        rho = self.target.rho(x, x).numpy()
        if self.gauge == "softmax":
            rho = rho - self._row_means(x)
        terms = (self.phi(x) * self.psi(x)).numpy() * self.sigma
        weights, inputs = grid.weights, self.target.inputs
        if isinstance(inputs, PositionedInputs):
            # every position has the same weight, however short its interval is
            for a, b in inputs.intervals:
                inside = (grid.nodes[:, 0] >= a) & (grid.nodes[:, 0] <= b)
                weights = np.where(inside, weights / (b - a), weights)
        return rho, terms, weights / np.sum(weights)

    def _row_means(self, x: Float[Tensor, "m d"]) -> Float[Array, " m"]:
        """The mean of rho(x, v) over v, which the gauge takes out; the measure is that of `pod`."""
        grid = fine_grid(self.domain, self.rank)
        if isinstance(self.domain, Region) and self.domain.d > 1:
            # the pairs of two fine tensor grids would be too many: v gets a coarser one
            grid = product_grid(self.domain.axes, {2: 32, 3: 16}[self.domain.d], 1)
        v, weights = torch.from_numpy(grid.nodes), grid.weights / np.sum(grid.weights)
        rows = max(1, (1 << 22) // max(1, len(v) * self.target.d))
        parts = []
        with Progress(after=QUIET) as shown:
            for i in range(0, len(x), rows):
                shown.at("averaging the coupling over v", i / len(x))
                parts.append(self.target.rho.outer(x[i : i + rows], v))
        return np.asarray(torch.cat(parts).numpy() @ weights)


def _upper(values: Float[Tensor, " n"]) -> float:
    """The mean of independent values plus two standard errors."""
    spread = float(values.std()) if len(values) > 1 else 0.0
    return float(values.mean()) + 2 * spread / math.sqrt(len(values))


def target_domain(target: AttentionTarget) -> Domain:
    """The domain of a target's tokens, for `pod`.

    Returns:
        A box for uniform tokens in at most three dimensions, a union of intervals for tokens with
        position encoding (Eq. 7). For any other law, bounded or not, `SAMPLED_TOKENS` samples.

    """
    inputs = target.inputs
    if isinstance(inputs, UniformInputs) and inputs.d <= 3:
        return box(*zip(inputs.low, inputs.high, strict=True))
    if isinstance(inputs, PositionedInputs):
        return union(*inputs.intervals)
    count = -(-SAMPLED_TOKENS // target.length)
    return Samples(target.sample(count, seed=0).reshape(-1, target.d).numpy()[:SAMPLED_TOKENS])


def require_softmax(name: str, target: object) -> AttentionTarget:
    """`target` itself if it has the form of Eq. 8 with softmax, else an InputError."""
    if not isinstance(target, AttentionTarget):
        raise InputError(
            f"{name} must have the form of Eq. 8",
            type(target).__name__,
            "Pass an AttentionTarget, with its F, f and rho.",
        )
    if target.normalise != "softmax":
        raise InputError(
            f"{name} must be normalised by softmax, as Eq. 5 is, and not by {{value}}",
            target.normalise,
            f"Pass {name}.softened(beta), whose limit for large beta is the hard-max.",
        )
    return target


#: A target of the form of Eq. 8 with softmax, as a parameter of `checked` functions
SoftmaxTarget = Annotated[AttentionTarget, by(require_softmax)]


def remembered(work: Callable[P, Result], most: int = 64) -> Callable[P, Result]:
    """`work` with a memory of its last results, by its arguments; at most `most` of them.

    Nothing is remembered where the first argument is or holds a torch module, whose weights may
    change, and where an argument has no hash.
    """
    kept = lru_cache(maxsize=most)(work)

    @wraps(work)
    def known(*args: P.args, **kwargs: P.kwargs) -> Result:
        of = args[0]
        parts = [of, *vars(of).values()] if is_dataclass(of) else [of]
        if any(isinstance(part, torch.nn.Module) for part in parts):
            return work(*args, **kwargs)
        try:
            hash((args, *kwargs.values()))
        except TypeError:
            return work(*args, **kwargs)
        return kept(*args, **kwargs)  # type: ignore[arg-type]

    return known


@checked
@remembered
def coupling_basis(target: AttentionTarget, gauge: GaugeLike = "softmax") -> CouplingBasis:
    """The POD of the target's coupling, in closed form where there is one.

    Args:
        target: A target of the form of Eq. 8.
        gauge: "softmax" takes the mean over v out of the coupling, "none" leaves it.

    Returns:
        sigma, phi and psi on the domain of the tokens (`target_domain`).

    """
    gauge = require_gauge("gauge", gauge)
    domain, rho = target_domain(target), target.rho
    if isinstance(rho, SpectralCoupling) and _has_sines(rho, domain):
        # the sines have no mean on [0, 1], so the gauge leaves them alone
        rank = int(np.sum(rho.sigma > 0)) or 1
        sines = partial(rho.phi, k=rank)
        return CouplingBasis(target, domain, gauge, rho.sigma[:rank], 0.0, sines, sines)
    # tensor grids in several dimensions cannot give twelve digits; what they miss joins the rest
    with warnings.catch_warnings():
        # the advice of `pod` is about arguments that are not given here
        warnings.simplefilter("ignore", AccuracyWarning)
        result = pod(rho, domain, gauge=gauge, rtol=1e-12 if domain.d == 1 else 1e-7)
    if not result.converged:
        warnings.warn(
            f"the singular values of the coupling of {target.name or 'this target'} are known to "
            f"{result.error:.1e} only: their computation did not converge. Bounds count that as an "
            "error, so nothing needs to be done unless it is of their size.",
            AccuracyWarning,
            stacklevel=level_of_caller(),
        )
    return CouplingBasis(
        target,
        domain,
        gauge,
        result.sigma,
        float(np.hypot(result.rest, result.error)),
        _OnTokens(result.phi, numbers_only(domain)),
        _OnTokens(result.psi, numbers_only(domain)),
        result.converged,
    )


def _has_sines(rho: object, domain: Domain) -> bool:
    return isinstance(rho, SpectralCoupling) and domain == box((0.0, 1.0))


def exact_factors(target: AttentionTarget, m_h: int) -> tuple[TokenFunction, TokenFunction] | None:
    """Both factors of a coupling of finite rank, padded to m_h; no POD is needed then.

    None where the coupling is not given by factors, or where it has more than m_h of them.
    """
    rho = target.rho
    if not isinstance(rho, FiniteRankCoupling) or rho.rank > m_h:
        return None
    return _Padded(rho.left, m_h), _Padded(rho.right, m_h)


@dataclass(frozen=True)
class _Padded:
    """A function of tokens with zeros appended to its values, `size` numbers in all."""

    function: TokenFunction
    size: int

    def __call__(self, x: Tensor) -> Tensor:
        values = self.function(x)
        return torch.nn.functional.pad(values, (0, self.size - values.shape[-1]))


@dataclass(frozen=True)
class _OnTokens:
    """A function of numpy points as a function of token tensors with a last axis of d numbers."""

    function: Callable[[Array], Array]
    #: Whether the function takes plain numbers instead of points with a last axis of length 1
    numbers: bool

    def __call__(self, x: Tensor) -> Tensor:
        points = x.detach().cpu().double().numpy()
        values = self.function(points[..., 0] if self.numbers else points)
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)


def fine_grid(domain: Domain, features: int) -> Mesh:
    """A grid that integrates functions well that have up to `features` oscillations per axis.

    Samples are their own grid.
    """
    if isinstance(domain, Samples):
        return domain
    pieces = {1: max(32, features // 4), 2: 4, 3: 1}[domain.d]
    return product_grid(domain.axes, 32, -(-pieces // len(domain.axes[0])))


def token_grid(domain: Domain, features: int) -> Float[Tensor, "n d"]:
    """A fine grid of tokens, on intervals with their end points, where suprema often lie."""
    points = torch.from_numpy(fine_grid(domain, features).nodes)
    if isinstance(domain, Region) and domain.d == 1:
        ends = torch.tensor([t for i in domain.axes[0] for t in i], dtype=torch.float64)
        points = torch.cat([points, ends[:, None]])
    return points
