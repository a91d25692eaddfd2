"""Couplings ρ(u, v) of finite rank, given by their factors or by their spectrum."""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_callable, require_number, require_whole
from attnrate.settings import Count, Natural, by, checked
from attnrate.targets.checks import require_vector
from attnrate.targets.coupling_base import Coupling as Coupling
from attnrate.targets.coupling_base import CouplingLike as CouplingLike
from attnrate.targets.coupling_base import FunctionCoupling as FunctionCoupling
from attnrate.targets.coupling_base import check_tokens, checked_values, paired

#: The most singular values that a target is given by: more take hours and gigabytes
MOST_RANK = 1_000_000
#: Tokens, of shape (..., d)
Tokens: TypeAlias = Float[torch.Tensor, "..."]
#: α of σ_k = k^-α, which has to be square summable
Exponent = Annotated[float, by(require_number, 0.5)]
_BLOCK = 64  # bases held at once: the memory of a long spectrum is that of a short one


class FiniteRankCoupling(Coupling):
    """ρ(u, v) = Σ_{k ≤ rank} left_k(u) right_k(v), evaluated from its factors."""

    rank: int

    @abstractmethod
    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on u, (..., d) -> (..., rank)."""

    @abstractmethod
    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on v, (..., d) -> (..., rank)."""

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """Σ_k left_k(u) right_k(v)."""
        return (self.left(u) * self.right(v)).sum(-1)

    def outer(
        self, u: Float[torch.Tensor, "..."], v: Float[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "... t s"]:
        """ρ(u(t), v(s)) for every pair, by one matrix product of the factors."""
        pairs = paired(u, v)
        self._check_tokens(*pairs)
        return checked_values(self._matrix(u, v), *pairs)

    def _matrix(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.left(u) @ self.right(v).mT


TokenFactors: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""A function of torch tensors, (..., d) -> (..., rank)."""


@dataclass(frozen=True, init=False)
class FactoredCoupling(FiniteRankCoupling):
    """ρ(u, v) = Σ_{k ≤ rank} left_k(u) right_k(v), given by a function for each side.

    Args:
        left_factors: left_1, …, left_rank: a function of torch tensors, (..., d) -> (..., rank).
        right_factors: right_1, …, right_rank: a function of torch tensors, (..., d) -> (..., rank).
        rank: The number of products.
        d: The dimension of one token.
        name: What ρ is called in texts.

    Examples:
        -|u - v|² without its part in u alone, on tokens in R², is a sum of three products:

        >>> import torch
        >>> rho = ar.FactoredCoupling(
        ...     lambda u: torch.cat([2 * u, -torch.ones_like(u[..., :1])], -1),
        ...     lambda v: torch.cat([v, v.square().sum(-1, keepdim=True)], -1),
        ...     rank=3,
        ...     d=2,
        ... )
        >>> rho(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]))
        tensor(0.)

    """

    left_factors: TokenFactors
    right_factors: TokenFactors
    rank: int
    d: int
    name: str

    @checked
    def __init__(
        self,
        left_factors: Annotated[TokenFactors, by(require_callable)],
        right_factors: Annotated[TokenFactors, by(require_callable)],
        rank: Count,
        d: Count = 1,
        name: str = "",
    ) -> None:
        object.__setattr__(self, "left_factors", left_factors)
        object.__setattr__(self, "right_factors", right_factors)
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "d", d)
        object.__setattr__(self, "name", name)

    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on u.

        Args:
            u: Tokens of shape (..., d).

        Returns:
            left_1(u), …, left_rank(u), of shape (..., rank).

        """
        return self._factors("left_factors", self.left_factors, u)

    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on v.

        Args:
            v: Tokens of shape (..., d).

        Returns:
            right_1(v), …, right_rank(v), of shape (..., rank).

        """
        return self._factors("right_factors", self.right_factors, v)

    def scaled(self, beta: float) -> "FactoredCoupling":
        """The coupling beta ρ: the left factors times beta.

        Args:
            beta: A factor.

        """
        left = functools.partial(_times, beta, self.left)
        name = f"{beta:g} {self.name}"
        return FactoredCoupling(left, self.right_factors, self.rank, self.d, name)

    def _factors(
        self, name: str, function: Callable[[torch.Tensor], object], x: torch.Tensor
    ) -> torch.Tensor:
        check_tokens("the tokens", x, self.d)
        values, expected = function(x), (*x.shape[:-1], self.rank)
        if not isinstance(values, torch.Tensor) or values.shape != expected:
            raise InputError(
                f"{name} came back with a shape other than {tuple(expected)}",
                tuple(values.shape) if isinstance(values, torch.Tensor) else values,
                f"Return a tensor (..., {self.rank}) for tokens (..., {self.d}).",
            )
        return values.to(x.dtype)


def _require_spectrum(_: str, values: object) -> Float64[np.ndarray, " rank"]:
    sigma = require_vector("sigma", values)
    negative = np.flatnonzero(sigma < 0)
    if negative.size:
        raise InputError(f"sigma[{negative[0]}] is negative", float(sigma[negative[0]]))
    rises = np.flatnonzero(np.diff(sigma) > 0)
    if rises.size:
        k = int(rises[0]) + 1
        raise InputError(
            f"sigma must descend, but sigma[{k}] is larger than sigma[{k - 1}]",
            (float(sigma[k - 1]), float(sigma[k])),
            "Sort the singular values in descending order.",
        )
    sigma.flags.writeable = False
    return sigma


@dataclass(frozen=True, eq=False, init=False, repr=False)
class SpectralCoupling(FiniteRankCoupling):
    """A coupling on [0, 1] with given singular values (sec. 5.1).

    ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v) with φ_k(u) = ψ_k(u) = √2 sin 2πku. These functions are
    orthonormal in L²[0, 1], so σ is the spectrum of ρ (Eq. 10). The sum is taken over blocks of k,
    so that a spectrum of thousands needs no more memory than a short one. ku is reduced modulo 1 in
    float64, which keeps high frequencies exact in float32 too.

    Args:
        sigma: The singular values, descending and not negative.

    Attributes:
        rank: The number of singular values.
        d: The dimension of one token: 1.

    Examples:
        >>> rho = ar.SpectralCoupling([4.0, 3.0])
        >>> rho
        SpectralCoupling of rank 2: sigma = 4, 3
        >>> rho.tail(1)
        3.0

    """

    sigma: Float64[np.ndarray, " rank"]
    rank: int = field(init=False)
    d: int = field(default=1, init=False)

    @checked
    def __init__(self, sigma: Annotated[npt.ArrayLike, by(_require_spectrum)]) -> None:
        values: Any = sigma
        object.__setattr__(self, "sigma", values)
        object.__setattr__(self, "rank", len(values))

    def __repr__(self) -> str:
        shown = ", ".join(f"{s:.6g}" for s in self.sigma[:4]) + (", …" if self.rank > 4 else "")
        return f"SpectralCoupling of rank {self.rank}: sigma = {shown}"

    @checked
    def phi(self, u: Tokens, k: Count) -> Float[torch.Tensor, "... k"]:
        """φ_1(u), …, φ_k(u), where φ_i(u) = √2 sin 2πiu.

        Args:
            u: Tokens of shape (..., 1).
            k: The number of functions.

        Returns:
            Their values, of shape (..., k).

        """
        check_tokens("u", u, self.d)
        return _sines(u, 1, k + 1)

    @checked
    def psi(self, v: Tokens, k: Count) -> Float[torch.Tensor, "... k"]:
        """ψ_1(v), …, ψ_k(v); here ψ = φ.

        Args:
            v: Tokens of shape (..., 1).
            k: The number of functions.

        Returns:
            Their values, of shape (..., k).

        """
        return self.phi(v, k)

    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """σ_k φ_k(u) for every k.

        Args:
            u: Tokens of shape (..., 1).

        Returns:
            The values, of shape (..., rank).

        """
        return _on(self.sigma, u) * self.phi(u, self.rank)

    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """ψ_k(v) for every k.

        Args:
            v: Tokens of shape (..., 1).

        Returns:
            The values, of shape (..., rank).

        """
        return self.psi(v, self.rank)

    @checked
    def tail(self, r: Natural) -> float:
        """(Σ_{k > r} σ_k²)^{1/2}, the error of the best coupling of rank r (Eq. 11).

        Args:
            r: A rank, from 0 on.

        """
        return float(np.linalg.norm(self.sigma[r:]))

    def scaled(self, beta: float) -> "SpectralCoupling":
        """The coupling beta ρ, with the spectrum beta σ.

        Args:
            beta: A factor, not negative.

        """
        return SpectralCoupling(beta * self.sigma)

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """Σ_k σ_k φ_k(u) ψ_k(v), one block of k after the other.

        Args:
            u: Tokens of shape (..., 1).
            v: Tokens of shape (..., 1), whose other axes broadcast against those of u.

        """
        total: torch.Tensor | float = 0.0
        for start in range(0, self.rank, _BLOCK):
            left, right = self._block(u, v, start)
            total = total + (left * right).sum(-1)
        return total

    def _matrix(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        left, right = self._block(u, v, 0)
        total = left @ right.mT
        for start in range(_BLOCK, self.rank, _BLOCK):
            left, right = self._block(u, v, start)
            total = total + left @ right.mT
        return total

    def _block(
        self, u: torch.Tensor, v: torch.Tensor, start: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        stop = min(start + _BLOCK, self.rank)
        phi = _sines(u, start + 1, stop + 1)
        psi = phi if v is u else _sines(v, start + 1, stop + 1)
        return _on(self.sigma[start:stop], u) * phi, psi


def _require_rank(name: str, rank: object) -> int:
    if isinstance(rank, float) and rank == math.inf:
        raise InputError(
            f"{name} must be finite: for alpha <= 1 the infinite series diverges on the diagonal "
            "u = v (rho(u, u) = sum_k 2 sigma_k sin²(2 pi k u)), so Eq. 8 has no value there",
            rank,
            "The paper's r = ∞ must be a long finite sum: pass e.g. rank=256.",
        )
    return require_whole(name, rank, 1, MOST_RANK)


#: The number of singular values of a coupling
Rank = Annotated[int, by(_require_rank)]


@checked
def spectral_coupling(alpha: Exponent, rank: Rank) -> SpectralCoupling:
    """The coupling of sec. 5.1 with the singular values σ_k = k^-α, k = 1, …, rank.

    Args:
        alpha: The exponent α, above 1/2, so that the squares of the σ_k have a finite sum.
        rank: The number of singular values.

    Returns:
        A coupling on tokens in [0, 1].

    Raises:
        InputError: alpha or rank is out of range. An infinite rank is refused, because the series
            diverges at u = v for α ≤ 1.

    Examples:
        >>> ar.spectral_coupling(2.0, 3)
        SpectralCoupling of rank 3: sigma = 1, 0.25, 0.111111

    """
    k = np.arange(1, rank + 1, dtype=np.float64)
    return SpectralCoupling(k**-alpha)


def _times(beta: float, factors: TokenFactors, x: torch.Tensor) -> torch.Tensor:
    return beta * factors(x)


def _sines(u: torch.Tensor, first: int, stop: int) -> torch.Tensor:
    """√2 sin 2πku for first <= k < stop: (..., 1) -> (..., stop - first)."""
    k = torch.arange(first, stop, dtype=torch.float64, device=u.device)
    cycles = u.double() * k
    # sin takes a phase below half a cycle: in float32 a phase of hundreds would lose its digits.
    phase = (2 * math.pi) * (cycles - cycles.round()).to(u.dtype)
    return math.sqrt(2) * torch.sin(phase)


def _on(sigma: Float64[np.ndarray, " k"], u: torch.Tensor) -> torch.Tensor:
    return torch.tensor(sigma, dtype=u.dtype, device=u.device)
