"""Temporal couplings ρ(u, v): given by a function, by finitely many factors, or by a spectrum."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_callable, require_number, require_whole
from attnrate.settings import Natural, by, checked
from attnrate.targets.checks import require_floats, require_vector

#: The most singular values that a target is given by: more take hours and gigabytes
MOST_RANK = 1_000_000
#: α of σ_k = k^-α, which has to be square summable
Exponent = Annotated[float, by(require_number, 0.5)]
_BLOCK = 64  # bases held at once: the memory of a long spectrum is that of a short one


class Coupling(ABC):
    """ρ(u, v) on torch tensors. The last axis of u and v is d; the axes before it broadcast."""

    d: int

    @abstractmethod
    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """ρ(u, v) as it comes, before its shape and its values are checked."""

    @abstractmethod
    def scaled(self, beta: float) -> "Coupling":
        """The coupling beta ρ."""

    def __call__(
        self, u: Float[torch.Tensor, "... d_u"], v: Float[torch.Tensor, "... d_v"]
    ) -> Float[torch.Tensor, "..."]:
        """ρ(u, v): (..., d), (..., d) -> (...)."""
        self._check_tokens(u, v)
        return _checked(self.raw(u, v), u, v)

    def outer(
        self, u: Float[torch.Tensor, "..."], v: Float[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "... t s"]:
        """Every pair, ρ(u(t), v(s)): (..., t, d), (..., s, d) -> (..., t, s)."""
        return self(*_paired(u, v))

    def _check_tokens(self, u: torch.Tensor, v: torch.Tensor) -> None:
        _check_token("u", u, self.d)
        _check_token("v", v, self.d)
        _pairs_shape(u, v)


@dataclass(frozen=True, init=False)
class FunctionCoupling(Coupling):
    """ρ given by a function of two tensors: (..., d), (..., d) -> (...), with broadcasting."""

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    d: int
    name: str

    def __init__(self, function: object, d: object = 1, name: str = "") -> None:
        object.__setattr__(self, "function", require_callable("rho", function))
        object.__setattr__(self, "d", require_whole("d", d, 1))
        object.__setattr__(self, "name", name)

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """ρ(u, v) as the function gives it."""
        return self.function(u, v)

    def scaled(self, beta: float) -> "FunctionCoupling":
        """The coupling beta ρ."""
        return FunctionCoupling(lambda u, v: beta * self(u, v), self.d, f"{beta:g} {self.name}")


class FiniteRankCoupling(Coupling):
    """ρ(u, v) = Σ_{k ≤ rank} left_k(u) right_k(v), evaluated from its factors."""

    rank: int

    @abstractmethod
    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on u: (..., d) -> (..., rank)."""

    @abstractmethod
    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on v: (..., d) -> (..., rank)."""

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """Σ_k left_k(u) right_k(v)."""
        return (self.left(u) * self.right(v)).sum(-1)

    def outer(
        self, u: Float[torch.Tensor, "..."], v: Float[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "... t s"]:
        """Every pair by one matrix product of the factors, (..., t, rank) by (..., rank, s)."""
        pairs = _paired(u, v)
        self._check_tokens(*pairs)
        return _checked(self._matrix(u, v), *pairs)

    def _matrix(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.left(u) @ self.right(v).mT


@dataclass(frozen=True, init=False)
class FactoredCoupling(FiniteRankCoupling):
    """ρ(u, v) = Σ_{k ≤ rank} left_k(u) right_k(v), each side a function (..., d) -> (..., rank)."""

    left_factors: Callable[[torch.Tensor], torch.Tensor]
    right_factors: Callable[[torch.Tensor], torch.Tensor]
    rank: int
    d: int
    name: str

    def __init__(
        self,
        left_factors: object,
        right_factors: object,
        rank: object,
        d: object = 1,
        name: str = "",
    ) -> None:
        left, right = "left_factors", "right_factors"
        object.__setattr__(self, left, require_callable(left, left_factors))
        object.__setattr__(self, right, require_callable(right, right_factors))
        object.__setattr__(self, "rank", require_whole("rank", rank, 1))
        object.__setattr__(self, "d", require_whole("d", d, 1))
        object.__setattr__(self, "name", name)

    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on u: (..., d) -> (..., rank)."""
        return self._factors("left_factors", self.left_factors, u)

    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """The factors that depend on v: (..., d) -> (..., rank)."""
        return self._factors("right_factors", self.right_factors, v)

    def scaled(self, beta: float) -> "FactoredCoupling":
        """The coupling beta ρ, beta times the left factors."""
        return FactoredCoupling(
            lambda u: beta * self.left(u),
            self.right_factors,
            self.rank,
            self.d,
            f"{beta:g} {self.name}",
        )

    def _factors(
        self, name: str, function: Callable[[torch.Tensor], object], x: torch.Tensor
    ) -> torch.Tensor:
        _check_token("the tokens", x, self.d)
        values, expected = function(x), (*x.shape[:-1], self.rank)
        if not isinstance(values, torch.Tensor) or values.shape != expected:
            raise InputError(
                f"{name} came back with a shape other than {tuple(expected)}",
                tuple(values.shape) if isinstance(values, torch.Tensor) else values,
                f"Return a tensor (..., {self.rank}) for tokens (..., {self.d}).",
            )
        return values.to(x.dtype)


@dataclass(frozen=True, eq=False, init=False)
class SpectralCoupling(FiniteRankCoupling):
    """Sec. 5.1: ρ(u, v) = Σ_k σ_k φ_k(u) ψ_k(v) with φ_k = ψ_k = √2 sin 2πku on [0, 1].

    The bases are orthonormal in L²[0, 1], so σ is the spectrum of ρ (Eq. 10). The sum is
    accumulated over blocks of k, hence a spectrum of thousands costs no more memory than a short
    one. ku is reduced modulo 1 in float64, which keeps high frequencies exact in float32 too.
    """

    sigma: Float64[np.ndarray, " rank"]
    rank: int = field(init=False)
    d: int = field(default=1, init=False)

    def __init__(self, sigma: object) -> None:
        sigma = require_vector("sigma", sigma)
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
        object.__setattr__(self, "sigma", sigma)
        object.__setattr__(self, "rank", int(sigma.size))

    def phi(self, u: Float[torch.Tensor, "... d_u"], k: object) -> Float[torch.Tensor, "... k"]:
        """φ_1(u), ..., φ_k(u), where φ_i(u) = √2 sin 2πiu: (..., 1) -> (..., k)."""
        _check_token("u", u, self.d)
        return _sines(u, 1, require_whole("k", k, 1) + 1)

    def psi(self, v: Float[torch.Tensor, "... d_v"], k: object) -> Float[torch.Tensor, "... k"]:
        """ψ_1(v), ..., ψ_k(v); here ψ = φ."""
        return self.phi(v, k)

    def left(self, u: Float[torch.Tensor, "... d_u"]) -> Float[torch.Tensor, "... rank"]:
        """σ_k φ_k(u) for every k: (..., 1) -> (..., rank)."""
        return _on(self.sigma, u) * self.phi(u, self.rank)

    def right(self, v: Float[torch.Tensor, "... d_v"]) -> Float[torch.Tensor, "... rank"]:
        """ψ_k(v) for every k: (..., 1) -> (..., rank)."""
        return self.psi(v, self.rank)

    @checked
    def tail(self, r: Natural) -> float:
        """(Σ_{k > r} σ_k²)^{1/2}, the error of the best coupling of rank r (Eq. 11)."""
        return float(np.linalg.norm(self.sigma[r:]))

    def scaled(self, beta: float) -> "SpectralCoupling":
        """The coupling beta ρ, of spectrum beta σ (beta must not be negative)."""
        return SpectralCoupling(beta * self.sigma)

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """Σ_k σ_k φ_k(u) ψ_k(v), a block of k at a time."""
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


#: How many singular values a coupling has
Rank = Annotated[int, by(_require_rank)]


@checked
def spectral_coupling(alpha: Exponent, rank: Rank) -> SpectralCoupling:
    """The coupling of sec. 5.1 with σ_k = k^-α for k = 1, ..., rank."""
    k = np.arange(1, rank + 1, dtype=np.float64)
    return SpectralCoupling(k**-alpha)


def _sines(u: torch.Tensor, first: int, stop: int) -> torch.Tensor:
    """√2 sin 2πku for first <= k < stop: (..., 1) -> (..., stop - first)."""
    k = torch.arange(first, stop, dtype=torch.float64, device=u.device)
    cycles = u.double() * k
    # sin takes a phase below half a cycle: in float32 a phase of hundreds would lose its digits.
    phase = (2 * math.pi) * (cycles - cycles.round()).to(u.dtype)
    return math.sqrt(2) * torch.sin(phase)


def _on(sigma: Float64[np.ndarray, " k"], u: torch.Tensor) -> torch.Tensor:
    return torch.tensor(sigma, dtype=u.dtype, device=u.device)


def _check_token(name: str, tokens: torch.Tensor, d: int) -> None:
    require_floats(name, tokens)
    if tokens.ndim == 0 or tokens.shape[-1] != d:
        raise InputError(
            f"the last axis of {name} must have the {d} entries of one token",
            tuple(tokens.shape),
            f"Pass {name} with the shape (..., {d}).",
        )


def _paired(u: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """u and v with axes added, so that they broadcast to every pair: (..., t, s, d)."""
    for name, tokens in (("u", u), ("v", v)):
        if require_floats(name, tokens).ndim < 2:
            raise InputError(f"{name} must be a sequence of tokens", tuple(tokens.shape))
    return u.unsqueeze(-2), v.unsqueeze(-3)


def _pairs_shape(u: torch.Tensor, v: torch.Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(u.shape[:-1], v.shape[:-1])
    except ValueError as error:
        raise InputError(
            "the axes of u and v before the last do not broadcast",
            (tuple(u.shape), tuple(v.shape)),
        ) from error


def _checked(values: object, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """`values` broadcast to the pairs of u and v, or an InputError: wrong shape, or not finite."""
    shape = _pairs_shape(u, v)
    if isinstance(values, (int, float)):
        values = torch.tensor(float(values), dtype=u.dtype, device=u.device)
    if not isinstance(values, torch.Tensor):
        raise InputError("rho must return a torch tensor", values, "Use torch functions in rho.")
    try:
        values = values.to(torch.promote_types(u.dtype, v.dtype)).expand(shape)
    except RuntimeError as error:
        raise InputError(
            f"rho came back with a shape that does not broadcast to the expected {shape}",
            tuple(values.shape),
            "rho must reduce the last axis of its arguments, e.g. with .sum(-1).",
        ) from error
    finite = values.isfinite()
    if not finite.all():
        at = tuple((~finite).nonzero()[0].tolist())
        where = ", ".join(
            f"{name} = {tokens.expand(*shape, -1)[at].tolist()}"
            for name, tokens in (("u", u), ("v", v))
        )
        raise InputError(f"rho is not finite at {where}, entry {at}", float(values[at]))
    return values
