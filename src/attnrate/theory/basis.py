"""The POD of a target's own coupling: sigma, phi and psi on tokens, and what a truncation leaves.

Softmax sees pairs (x(t), x(s)) with s = t among them, and for those the POD promises nothing:
Eq. 46 counts them as if x(t) and x(s) were independent. Here their share is computed apart.
"""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property, lru_cache, partial, wraps
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.targets import (
    AttentionTarget,
    FiniteRankCoupling,
    PositionedInputs,
    SpectralCoupling,
    UniformInputs,
)
from attnrate.theory.decomposition import Gauge
from attnrate.theory.decomposition import as_gauge as as_gauge
from attnrate.theory.domain import Domain, Mesh, Region, Samples, box, union
from attnrate.theory.evaluate import numbers_only
from attnrate.theory.panels import Array, product_grid
from attnrate.theory.pod import pod

Tensor = torch.Tensor
Result = TypeVar("Result")
TokenFunction = Callable[[Tensor], Tensor]
#: Tokens that stand for an input law without a grid
_TOKENS = 1024
#: sigma_k / sigma_1 above which phi_k and psi_k can be differentiated
_SMOOTH = 1e-9


@dataclass(frozen=True, eq=False)
class CouplingBasis:
    """sigma, phi and psi of a target's coupling on the domain of its tokens."""

    target: AttentionTarget
    domain: Domain
    gauge: Gauge
    sigma: Float[Array, " rank"]
    rest: float
    phi: TokenFunction
    psi: TokenFunction

    @property
    def rank(self) -> int:
        """How many terms are known."""
        return len(self.sigma)

    @property
    def smooth_rank(self) -> int:
        """How many terms have functions that are known well enough to be differentiated twice.

        The error of phi_k is that of rho over sigma_k; networks are made for these terms only.
        """
        return int(np.sum(self.sigma > _SMOOTH * self.sigma[0])) if self.rank else 0

    @property
    def sines(self) -> bool:
        """Whether phi_k = psi_k = √2 sin 2πku: sec. 5.1's coupling on the domain it is made for."""
        return _has_sines(self.target.rho, self.domain)

    def tail(self, r: int) -> float:
        """(Σ_{k>r} sigma_k²)^½ with respect to length, as in Eq. 11."""
        return float(np.sqrt(np.sum(self.sigma[r:] ** 2) + self.rest**2))

    def query(self, x: Float[Tensor, "*shape d"], m_h: int) -> Float[Tensor, "*shape m_h"]:
        """sqrt(sigma_k) phi_k(x) for k <= m_h, zero beyond the rank."""
        return self._factor(self.phi(x), m_h)

    def key(self, x: Float[Tensor, "*shape d"], m_h: int) -> Float[Tensor, "*shape m_h"]:
        """sqrt(sigma_k) psi_k(x) for k <= m_h, zero beyond the rank."""
        return self._factor(self.psi(x), m_h)

    def _factor(self, values: Tensor, m_h: int) -> Tensor:
        r = min(m_h, self.rank)
        root = torch.as_tensor(np.sqrt(self.sigma[:r]), dtype=values.dtype, device=values.device)
        return torch.nn.functional.pad(values[..., :r] * root, (0, m_h - r))

    def pair_energy(self, r: int) -> float:
        """E mean_t Σ_{s≠t} |rho - rho_r|² at (x(t), x(s)): the pairs that the POD speaks of."""
        tail = self.tail(r)
        inputs, length = self.target.inputs, self.target.length
        if isinstance(inputs, PositionedInputs):
            # every pair of positions has its own block of the domain, and they add up to the tail
            least = min(b - a for a, b in inputs.intervals)
            return tail**2 / (length * least**2)
        return (length - 1) * (tail / self.domain.volume) ** 2

    def diagonal_energy(self, r: int) -> float:
        """E mean_t |rho - rho_r|² at (x(t), x(t)), the pair s = t."""
        if self.sines:
            # 2 sin² 2πkx = 1 - cos 4πkx, and the cosines are orthogonal
            rest = self.sigma[r:]
            return float(np.sum(rest) ** 2 + np.sum(rest**2) / 2)
        rho, terms, weights = self._diagonal
        gap = rho - np.sum(terms[:, : min(r, self.rank)], axis=1)
        return float(weights @ gap**2)

    def largest_logit(self) -> float:
        """The size of rho where it is largest on average: on the diagonal, or its norm."""
        if self.sines:
            return 1.0 + 2.0 * float(np.sum(self.sigma))
        rho, _, _ = self._diagonal
        return 1.0 + float(np.max(np.abs(rho), initial=0.0)) + self.tail(0)

    @cached_property
    def _diagonal(self) -> tuple[Array, Array, Array]:
        """On a fine grid of tokens x: rho(x, x) modulo the gauge, its terms, and the weights.

        The weights integrate over a token whose position is drawn at random.
        """
        grid = fine_grid(self.domain, self.rank)
        x = torch.from_numpy(grid.nodes)
        rho = self.target.rho(x, x).numpy()
        if self.gauge == "softmax":
            rho = rho - self._row_means(x)
        terms = (self.phi(x) * self.psi(x)).numpy() * self.sigma
        weights, inputs = grid.weights, self.target.inputs
        if isinstance(inputs, PositionedInputs):
            # every position counts the same, however short its interval is
            for a, b in inputs.intervals:
                inside = (grid.nodes[:, 0] >= a) & (grid.nodes[:, 0] <= b)
                weights = np.where(inside, weights / (b - a), weights)
        return rho, terms, weights / np.sum(weights)

    def _row_means(self, x: Float[Tensor, "m d"]) -> Float[Array, " m"]:
        """The mean over v that the gauge takes out, with respect to length as in `pod`."""
        grid = fine_grid(self.domain, self.rank)
        if isinstance(self.domain, Region) and self.domain.d > 1:
            # all pairs of two tensor grids are too many for one as fine as that of x
            grid = product_grid(self.domain.axes, {2: 32, 3: 16}[self.domain.d], 1)
        v, weights = torch.from_numpy(grid.nodes), grid.weights / np.sum(grid.weights)
        rows = max(1, (1 << 22) // max(1, len(v) * self.target.d))
        parts = [self.target.rho.outer(x[i : i + rows], v) for i in range(0, len(x), rows)]
        return np.asarray(torch.cat(parts).numpy() @ weights)


def target_domain(target: AttentionTarget) -> Domain:
    """Where the tokens of a target live, as a domain for `pod`."""
    inputs = target.inputs
    if isinstance(inputs, UniformInputs) and inputs.d <= 3:
        return box(*zip(inputs.low, inputs.high, strict=True))
    if isinstance(inputs, PositionedInputs):
        return union(*inputs.intervals)
    count = -(-_TOKENS // target.length)
    return Samples(target.sample(count, seed=0).reshape(-1, target.d).numpy()[:_TOKENS])


def require_softmax(target: object) -> AttentionTarget:
    """`target` itself if it is of the form of Eq. 8 with softmax, else an InputError."""
    if not isinstance(target, AttentionTarget):
        raise InputError(
            "the target is not of the form of Eq. 8",
            type(target).__name__,
            "Pass an AttentionTarget, with its F, f and rho.",
        )
    if target.normalise != "softmax":
        raise InputError(
            "Eq. 5 has softmax, the target has",
            target.normalise,
            "Pass target.softened(beta), whose limit for large beta is the hard-max.",
        )
    return target


def remembered(work: Callable[..., Result]) -> Callable[..., Result]:
    """Results are kept by what they are of, unless that can change (a module with its weights) or
    cannot be told from others (what has no hash)."""
    kept = lru_cache(maxsize=64)(work)

    @wraps(work)
    def known(of: Any, *rest: Any) -> Result:
        parts = [of, *vars(of).values()] if is_dataclass(of) else [of]
        if any(isinstance(part, torch.nn.Module) for part in parts):
            return work(of, *rest)
        try:
            hash((of, *rest))
        except TypeError:
            return work(of, *rest)
        return kept(of, *rest)

    return known


@remembered
def coupling_basis(target: AttentionTarget, gauge: Gauge = "softmax") -> CouplingBasis:
    """The POD of the target's coupling, in closed form where there is one."""
    domain, rho = target_domain(target), target.rho
    if isinstance(rho, SpectralCoupling) and _has_sines(rho, domain):
        # the sines have no mean on [0, 1], so the gauge leaves them alone
        rank = int(np.sum(rho.sigma > 0)) or 1
        sines = partial(rho.phi, k=rank)
        return CouplingBasis(target, domain, gauge, rho.sigma[:rank], 0.0, sines, sines)
    # tensor grids in several dimensions cannot carry twelve digits; what is missed joins the rest
    result = pod(rho, domain, gauge=gauge, rtol=1e-12 if domain.d == 1 else 1e-7)
    return CouplingBasis(
        target,
        domain,
        gauge,
        result.sigma,
        float(np.hypot(result.rest, result.error)),
        _on_tokens(result.phi, domain),
        _on_tokens(result.psi, domain),
    )


def _has_sines(rho: object, domain: Domain) -> bool:
    return isinstance(rho, SpectralCoupling) and domain == box((0.0, 1.0))


def exact_factors(target: AttentionTarget, m_h: int) -> tuple[TokenFunction, TokenFunction] | None:
    """The factors of a finite-rank coupling when m_h holds them all: no POD is needed then."""
    rho = target.rho
    if not isinstance(rho, FiniteRankCoupling) or rho.rank > m_h:
        return None

    def padded(side: TokenFunction) -> TokenFunction:
        return lambda x: torch.nn.functional.pad(side(x), (0, m_h - rho.rank))

    return padded(rho.left), padded(rho.right)


def _on_tokens(function: Callable[[object], Array], domain: Domain) -> TokenFunction:
    """A function of numpy points as a function of token tensors with a last axis of d numbers."""
    numbers = numbers_only(domain)

    def evaluate(x: Tensor) -> Tensor:
        points = x.detach().cpu().double().numpy()
        values = function(points[..., 0] if numbers else points)
        return torch.as_tensor(values, dtype=x.dtype, device=x.device)

    return evaluate


def fine_grid(domain: Domain, features: int) -> Mesh:
    """A grid on which functions with up to `features` oscillations an axis are integrated well."""
    if isinstance(domain, Samples):
        return domain
    pieces = {1: max(32, features // 4), 2: 4, 3: 1}[domain.d]
    return product_grid(domain.axes, 32, -(-pieces // len(domain.axes[0])))


def token_grid(domain: Domain, features: int) -> Float[Tensor, "n d"]:
    """A fine grid of tokens; of intervals with their end points, where sups are often found."""
    points = torch.from_numpy(fine_grid(domain, features).nodes)
    if isinstance(domain, Region) and domain.d == 1:
        ends = torch.tensor([t for i in domain.axes[0] for t in i], dtype=torch.float64)
        points = torch.cat([points, ends[:, None]])
    return points
