"""Functions of one variable as piecewise Chebyshev expansions, and certified suprema from them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev

from attnrate.errors import InputError

Function = Callable[..., object]
Interval = tuple[float, float]
Values = Float[np.ndarray, " n"]

DEGREE = 32
"""Degree of the expansion on each piece."""

DEPTH = 14
"""Pieces are halved at most this often; a function that is not smooth then has a kink."""

FINE, COARSE = 1e-13, 1e-9
"""An expansion has converged when its last coefficients fall below FINE of the largest value, or
below COARSE where halving no longer helps (the function itself carries noise)."""

_PROBES = np.array([-0.9431, -0.6127, -0.2719, 0.0713, 0.3851, 0.7043, 0.9613])


@dataclass(frozen=True)
class Expansion:
    """Chebyshev coefficients, one row per piece between `edges`, and the noise cut off."""

    edges: Float[np.ndarray, " pieces_plus_1"]
    coefficients: Float[np.ndarray, "pieces degree_plus_1"]
    noise: Float[np.ndarray, " pieces"]

    def derivative(self, order: int) -> Float[np.ndarray, "pieces degree_plus_1_minus_order"]:
        """Coefficients of the derivative of the given order on each piece."""
        if order == 0:
            return self.coefficients
        scale = (2.0 / np.diff(self.edges)) ** order
        return np.asarray(chebyshev.chebder(self.coefficients, order, axis=1) * scale[:, None])


def checked_interval(interval: object) -> Interval:
    """`interval` as finite floats a < b; an InputError if it is no such pair."""
    try:
        a, b = (float(end) for end in interval)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InputError("an interval is two numbers", interval, "Pass e.g. (0.0, 1.0).") from None
    if not (np.isfinite(a) and np.isfinite(b) and a < b):
        raise InputError("an interval must be finite, with a < b", interval, "Pass (0.0, 1.0).")
    return a, b


def evaluate(g: Function, u: Values) -> Values:
    """g(u) in float64; an InputError names the place where a value is missing or not finite."""
    with np.errstate(all="ignore"):
        returned = g(u)
    try:
        values = np.asarray(returned, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("g must return real numbers", returned) from None
    if values.shape == ():
        values = np.full(u.shape, float(values))
    if values.shape != u.shape:
        raise InputError(
            f"g must return one value per point, shape {u.shape}",
            values.shape,
            "Write g with numpy functions of its whole argument.",
        )
    wrong = ~np.isfinite(values)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(f"g is not finite at u = {float(u[i])!r}", float(values[i]))
    return values


def expand(g: Function, interval: object = (0.0, 1.0)) -> Expansion:
    """Expand g in Chebyshev series on pieces of `interval`, halved until every piece converges.

    Each piece is also tested at points that were not used to compute it. An InputError names the
    place where halving does not end: a kink, a jump or a singularity of g.
    """
    a, b = checked_interval(interval)
    nodes = chebyshev.chebpts1(DEGREE + 1)
    inverse = np.linalg.inv(chebyshev.chebvander(nodes, DEGREE))
    trial = chebyshev.chebvander(_PROBES, DEGREE)
    points = np.concatenate([nodes, _PROBES])
    open_pieces = np.array([[a, b, np.inf]])
    done: list[tuple[float, Float[np.ndarray, " c"]]] = []
    scale = 0.0
    for depth in range(DEPTH + 1):
        left, right, parent = open_pieces.T
        u = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * points
        values = evaluate(g, u.ravel()).reshape(u.shape)
        scale = max(scale, float(np.max(np.abs(values))))
        coefficients = values[:, : nodes.size] @ inverse.T
        misfit = np.max(np.abs(values[:, nodes.size :] - coefficients @ trial.T), axis=1)
        tail = np.maximum(np.max(np.abs(coefficients[:, -4:]), axis=1), misfit)
        noisy = (depth >= 4) & (tail <= COARSE * scale) & (tail > 0.25 * parent)
        good = (tail <= FINE * scale) | noisy
        done += [(float(left[i]), coefficients[i]) for i in np.flatnonzero(good)]
        if good.all():
            break
        if depth == DEPTH:
            worst = int(np.argmax(np.where(good, 0.0, tail)))
            place = float((left[worst] + right[worst]) / 2)
            raise InputError(
                f"g is not smooth near u = {place:.6g}",
                place,
                "Use a family that asks for no derivatives, such as 'hoelder'.",
            )
        middle = (left + right) / 2
        halves = np.concatenate(
            [np.stack([left, middle, tail], 1)[~good], np.stack([middle, right, tail], 1)[~good]]
        )
        open_pieces = halves
    done.sort(key=lambda piece: piece[0])
    edges = np.array([piece[0] for piece in done] + [b])
    stacked = np.stack([piece[1] for piece in done])
    noise = np.maximum(2.0 * np.max(np.abs(stacked[:, -4:]), axis=1), 1e-16 * scale)
    return Expansion(edges, _chopped(stacked, noise), noise)


def sup_derivative(g: Function, order: int, interval: object = (0.0, 1.0)) -> float:
    """An upper estimate of sup |g^(order)| on `interval`; lower derivatives must be continuous.

    The supremum of a polynomial of degree n is at most max|samples| / cos(n pi / 2m) over m > n
    Chebyshev points (Ehlich & Zeller 1964): rigorous for the expansion, whose own error is at
    rounding level. Derivatives below `order` must agree where pieces meet; where one jumps,
    g^(order) does not exist and an InputError says so.
    """
    return sup_derivatives(g, order, interval)[order]


def sup_derivatives(g: Function, order: int, interval: object = (0.0, 1.0)) -> list[float]:
    """Upper estimates of sup |g^(r)| for r = 0, …, order, from one expansion."""
    expansion = expand(g, interval)
    for lower in range(order):
        _require_continuous(expansion, lower)
    return [_sup(expansion.derivative(r)) for r in range(order + 1)]


def _sup(coefficients: Float[np.ndarray, "pieces c"]) -> float:
    degree = coefficients.shape[1] - 1
    m = 16 * max(degree, 1)
    values = coefficients @ chebyshev.chebvander(chebyshev.chebpts1(m), degree).T
    return float(np.max(np.abs(values)) / np.cos(degree * np.pi / (2 * m)))


def _chopped(
    coefficients: Float[np.ndarray, "pieces c"], noise: Float[np.ndarray, " pieces"]
) -> Float[np.ndarray, "pieces c"]:
    """Set coefficients below the noise to zero, which differentiation would amplify."""
    above = np.abs(coefficients) > noise[:, None]
    last = coefficients.shape[1] - np.argmax(above[:, ::-1], axis=1)
    keep = np.arange(coefficients.shape[1]) < np.where(above.any(axis=1), last, 0)[:, None]
    return np.asarray(np.where(keep, coefficients, 0.0))


def _require_continuous(expansion: Expansion, order: int) -> None:
    """Raise an InputError where the derivative of the given order jumps between two pieces."""
    coefficients = expansion.derivative(order)
    signs = (-1.0) ** np.arange(coefficients.shape[1])
    starts, ends = coefficients @ signs, coefficients.sum(axis=1)
    size = float(np.max(np.abs(coefficients).sum(axis=1)))
    # Markov's inequality bounds the derivatives of the noise of each piece.
    spoilt = expansion.noise * (DEGREE**2 * 2.0 / np.diff(expansion.edges)) ** order
    for i, edge in enumerate(expansion.edges[1:-1]):
        jump = float(abs(starts[i + 1] - ends[i]))
        if jump > 1e-6 * size + spoilt[i] + spoilt[i + 1]:
            name = "g" + "'" * order
            raise InputError(
                f"{name} jumps at u = {float(edge):.6g}, so the derivative after it does not exist",
                jump,
                "Use a family that asks for no derivatives, such as 'hoelder'.",
            )
