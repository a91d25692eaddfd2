"""Moments of a Fourier representation of a function on an interval (Barron's complexity)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError, require_whole
from attnrate.theory.smooth import Function, Values, checked_interval, evaluate

TOLERANCE = 1e-8
"""A representation counts when its error is at most this share of the largest value of g."""

PERIODS = (1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 8.0)
_TERMS = (4, 8, 16, 32, 64, 128, 256)


def fourier_moment(g: Function, order: int, interval: object = (0.0, 1.0)) -> float:
    """The moment ∫ |omega|^order |g^(omega)| d omega of a Fourier representation of g.

    Barron's C_f is the infimum of the first moment over all extensions of g beyond the interval.
    Every representation g(u) = sum_k c_k e^{i omega_k u} bounds it by sum |c_k| |omega_k|^order:
    the Fourier series when g is periodic on the interval, and extensions to longer periods (least
    squares by a truncated SVD). The smallest moment of those that agree with g at test points is
    returned. An InputError is raised when none agrees: at a kink or a jump no finite moment can be
    computed.
    """
    order = require_whole("order", order, 0, 8)
    a, b = checked_interval(interval)
    check = a + (b - a) * np.linspace(0.0, 1.0, 1531)
    values = evaluate(g, check)
    scale = float(np.max(np.abs(values)))
    if scale == 0.0:
        return 0.0
    asked = _Asked(g, order, a, b, check, values, scale)
    best = asked.of_series()
    for terms in _TERMS:
        met = np.isfinite(best)
        best = min(best, *(asked.of_extension(share, terms) for share in PERIODS))
        # One size beyond the first that agrees with g: more terms may find a smoother extension.
        if met:
            break
    if not np.isfinite(best):
        raise InputError(
            f"no Fourier representation of g on {(a, b)} with a moment of order {order} was found",
            (a, b),
            "g has a kink or a jump, or oscillates too fast; use 'hoelder', or a shorter interval.",
        )
    return best


@dataclass(frozen=True, eq=False)
class _Asked:
    """The moment to compute, of g on (a, b), and the points at which representations are tested.

    The moment of a representation that does not agree with g at these points counts as infinite.
    """

    g: Function
    order: int
    a: float
    b: float
    check: Values
    values: Values
    scale: float

    def _met(self, tried: Values) -> bool:
        return bool(np.max(np.abs(tried - self.values)) <= TOLERANCE * self.scale)

    def of_series(self) -> float:
        """The moment of the Fourier series on the interval; infinite when it has not converged."""
        length = self.b - self.a
        if abs(self.values[0] - self.values[-1]) > TOLERANCE * self.scale:
            return float("inf")
        for n in (64, 512, 4096, 32768):
            c = np.fft.rfft(evaluate(self.g, self.a + length * np.arange(n) / n)) / n
            c[1:] *= 2.0
            if float(np.max(np.abs(c[-n // 8 :]))) <= 1e-13 * self.scale:
                omega = 2.0 * np.pi * np.arange(c.size) / length
                kept = np.flatnonzero(np.abs(c) > 1e-14 * self.scale)
                small = kept.size * self.check.size < 4e6
                phase = omega[kept] * (self.check[:, None] - self.a)
                if not small or self._met(np.real(np.exp(1j * phase) @ c[kept])):
                    return float(np.sum(np.abs(c[kept]) * omega[kept] ** self.order))
        return float("inf")

    def of_extension(self, share: float, terms: int) -> float:
        """The moment of an extension with period share * (b - a) and `terms` frequencies."""
        a, b = self.a, self.b
        angles = np.pi * (np.arange(5 * terms) + 0.5) / (5 * terms)
        nodes = (a + b) / 2 + (b - a) / 2 * np.cos(angles)
        omega = 2.0 * np.pi * np.arange(terms + 1) / (share * (b - a))
        # Columns are divided by their frequency, so that the least-norm solution prefers low ones.
        weight = np.concatenate([np.maximum(omega, omega[1]), omega[1:]]) ** max(self.order, 1)
        basis, sampled = _basis(nodes - a, omega) / weight, evaluate(self.g, nodes)
        solved = np.linalg.lstsq(basis, sampled, rcond=1e-13)[0] / weight
        if not self._met(_basis(self.check - a, omega) @ solved):
            return float("inf")
        size = np.hypot(solved[1 : terms + 1], solved[terms + 1 :])
        constant = abs(float(solved[0])) if self.order == 0 else 0.0
        return constant + float(np.sum(size * omega[1:] ** self.order))


def _basis(u: Float[np.ndarray, " n"], omega: Float[np.ndarray, " k"]) -> Float[np.ndarray, "n p"]:
    phase = u[:, None] * omega
    return np.concatenate([np.cos(phase), np.sin(phase[:, 1:])], axis=1)
