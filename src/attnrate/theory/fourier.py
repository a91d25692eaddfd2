"""Moments of a Fourier representation of a function on an interval (Barron's complexity)."""

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError, require_whole
from attnrate.theory.smooth import Function, Interval, checked_interval, evaluate

TOLERANCE = 1e-8
"""A representation counts when it meets the function to this share of its largest value."""

_PERIODS = (1.1, 1.3, 1.6, 2.0, 3.0, 5.0, 8.0)
_TERMS = (4, 8, 16, 32, 64, 128, 256)


def fourier_moment(g: Function, order: int, interval: object = (0.0, 1.0)) -> float:
    """integral |omega|^order |g^(omega)| d omega for a representation of g on `interval`.

    Barron's C_f is the infimum of the first moment over all extensions of g beyond the interval.
    Every representation g(u) = sum_k c_k e^{i omega_k u} bounds it by sum |c_k| |omega_k|^order:
    the Fourier series when g is periodic on the interval, and extensions to longer periods (least
    squares by a truncated SVD). The least of those that meet g at points of their own is returned.
    An InputError says so when none does: at a kink or a jump no finite moment can be computed.
    """
    order = require_whole("order", order, 0, 8)
    a, b = checked_interval(interval)
    check = a + (b - a) * np.linspace(0.0, 1.0, 1531)
    values = evaluate(g, check)
    scale = float(np.max(np.abs(values)))
    if scale == 0.0:
        return 0.0
    best = _series_moment(g, order, (a, b), check, values)
    for terms in _TERMS:
        extended = [
            _extension_moment(g, order, (a, b), check, values, share, terms) for share in _PERIODS
        ]
        met = np.isfinite(best)
        best = min(best, *extended)
        # One size beyond the first that meets g: more terms may find a smoother extension.
        if met:
            break
    if not np.isfinite(best):
        raise InputError(
            f"no Fourier representation of g on {(a, b)} has a moment of order {order} in sight",
            (a, b),
            "g has a kink or a jump, or oscillates too fast; use 'hoelder', or a shorter interval.",
        )
    return best


def _series_moment(
    g: Function,
    order: int,
    interval: Interval,
    check: Float[np.ndarray, " n"],
    values: Float[np.ndarray, " n"],
) -> float:
    """The moment of the Fourier series on the interval; infinite when it has not converged."""
    a, b = interval
    scale = float(np.max(np.abs(values)))
    if abs(values[0] - values[-1]) > TOLERANCE * scale:
        return float("inf")
    for n in (64, 512, 4096, 32768):
        samples = evaluate(g, a + (b - a) * np.arange(n) / n)
        c = np.fft.rfft(samples) / n
        c[1:] *= 2.0
        tail = float(np.max(np.abs(c[-n // 8 :])))
        if tail <= 1e-13 * scale:
            omega = 2.0 * np.pi * np.arange(c.size) / (b - a)
            kept = np.flatnonzero(np.abs(c) > 1e-14 * scale)
            phase = omega[kept] * (check[:, None] - a)
            met = np.real(np.exp(1j * phase) @ c[kept]) if kept.size * check.size < 4e6 else values
            if np.max(np.abs(met - values)) <= TOLERANCE * scale:
                return float(np.sum(np.abs(c[kept]) * omega[kept] ** order))
    return float("inf")


def _extension_moment(
    g: Function,
    order: int,
    interval: Interval,
    check: Float[np.ndarray, " n"],
    values: Float[np.ndarray, " n"],
    share: float,
    terms: int,
) -> float:
    """The moment of an extension to period share * (b - a); infinite where it does not meet g."""
    a, b = interval
    scale = float(np.max(np.abs(values)))
    nodes = (a + b) / 2 + (b - a) / 2 * np.cos(np.pi * (np.arange(5 * terms) + 0.5) / (5 * terms))
    omega = 2.0 * np.pi * np.arange(terms + 1) / (share * (b - a))
    basis = _basis(nodes - a, omega)
    # Columns are divided by their frequency, so that the least-norm solution prefers low ones.
    weight = np.concatenate([np.maximum(omega, omega[1]), omega[1:]]) ** max(order, 1)
    solved = np.linalg.lstsq(basis / weight, evaluate(g, nodes), rcond=1e-13)[0] / weight
    if np.max(np.abs(_basis(check - a, omega) @ solved - values)) > TOLERANCE * scale:
        return float("inf")
    size = np.hypot(solved[1 : terms + 1], solved[terms + 1 :])
    constant = abs(float(solved[0])) if order == 0 else 0.0
    return constant + float(np.sum(size * omega[1:] ** order))


def _basis(u: Float[np.ndarray, " n"], omega: Float[np.ndarray, " k"]) -> Float[np.ndarray, "n p"]:
    phase = u[:, None] * omega
    return np.concatenate([np.cos(phase), np.sin(phase[:, 1:])], axis=1)
