"""How much of a mixed coupling a head can have that sees single tokens.

Take ρ(u, v) = Σ_k σ_k 2 sin(2πku) sin(2πkv) and tokens z = θ∗x, with x independent and uniform on
[0, 1]. A head of Eq. 5 on the tokens x(t), x(s) can at best have the part of ρ(z(t), z(s)) that is
a function of this pair, K(u, v) = E[ρ(z(t), z(s)) | x(t) = u, x(s) = v], cut at rank m_h. What is
left depends on other tokens or is beyond that rank. Where the windows of t and s overlap, the rank
of K is up to twice that of ρ, as in App. D.3; where they do not, it is not larger.

All expectations are products of that of e^{icx}, φ(c) = e^{ic/2} sin(c/2)/(c/2), because a product
of two sines is a difference of two cosines of sums of tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex128, Float64

from attnrate.errors import require_whole
from attnrate.targets.checks import require_vector

#: Nodes of the quadrature: exact to rounding for the frequencies of Fig. 1's sines
_NODES = 48
#: Singular values below this share of the largest are rounding errors
_ROUNDING = 1e-10


@dataclass(frozen=True)
class Blurred:
    """The part of a mixed coupling at one distance that pairs of tokens can have.

    Attributes:
        sigma: The singular values of K, in decreasing order.
        square: The mean square of ρ(z(t), z(s)).

    """

    sigma: tuple[float, ...]
    square: float

    @property
    def rank(self) -> int:
        """The rank of K."""
        return sum(one > _ROUNDING * self.sigma[0] for one in self.sigma)

    def kept(self, rank: int) -> float:
        """The mean square of K cut at a rank."""
        return float(np.square(self.sigma[:rank]).sum())


def blurred(sigma: Sequence[float], theta: Sequence[float], lag: int) -> Blurred:
    """Compute the part of the coupling of z(t) and z(t - lag) that x(t) and x(t - lag) determine.

    Args:
        sigma: The singular values of ρ, σ_1, σ_2, ...
        theta: The filter θ(0), θ(1), ...
        lag: The distance of the two tokens, from 1. The earlier one is the key; with the query
            earlier, K is transposed.

    Returns:
        The spectrum of K and the mean square of the coupling.

    """
    values = require_vector("theta", theta)
    late = np.zeros(require_whole("lag", lag, 1) + values.size)
    early = late.copy()
    # the token of age i, x(t - i), has these weights in z(t) and in z(t - lag)
    late[: values.size], early[lag:] = values, values
    waves = [
        (sign * each, 2 * math.pi * k * (late - sign * early))
        for k, each in enumerate(require_vector("sigma", sigma), 1)
        for sign in (1.0, -1.0)
    ]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    u, w = (nodes + 1) / 2, weights / 2
    pairs = np.zeros((_NODES, _NODES))
    for amount, wave in waves:
        others = np.delete(wave, [0, lag])
        phase = np.add.outer(wave[0] * u, wave[lag] * u)
        pairs += amount * np.real(np.exp(1j * phase) * np.prod(_phi(others)))
    scaled = np.sqrt(w)[:, None] * pairs * np.sqrt(w)
    square = 0.5 * sum(
        one * two * (_mean_cosine(wave - other) + _mean_cosine(wave + other))
        for one, wave in waves
        for two, other in waves
    )
    return Blurred(tuple(np.linalg.svd(scaled, compute_uv=False).tolist()), float(square))


def missed_share(sigma: Sequence[float], theta: Sequence[float], rank: int, length: int) -> float:
    """The share of a mixed coupling that heads of this rank on single tokens miss.

    It is the mean square of what is left, over that of the coupling, over all pairs of different
    tokens of a sequence; what comes before the sequence is counted as tokens.

    Args:
        sigma: The singular values of ρ.
        theta: The filter.
        rank: The head size.
        length: The number of tokens of a sequence.

    Returns:
        The share, from 0 to 1.

    """
    found = [(length - lag, blurred(sigma, theta, lag)) for lag in range(1, length)]
    whole = sum(count * one.square for count, one in found)
    return float(1 - sum(count * one.kept(rank) for count, one in found) / whole)


def _phi(c: Float64[np.ndarray, "*shape"]) -> Complex128[np.ndarray, "*shape"]:
    """E e^{icx} for x uniform on [0, 1]."""
    value: np.ndarray = np.exp(0.5j * c) * np.sinc(c / (2 * math.pi))
    return value


def _mean_cosine(wave: Float64[np.ndarray, " tokens"]) -> float:
    return float(np.real(np.prod(_phi(wave))))
