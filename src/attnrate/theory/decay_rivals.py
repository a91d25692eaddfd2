"""Curves through log sigma_k that are none of the laws; a law has to hold against them."""

import numpy as np
from jaxtyping import Float

from attnrate.theory.decay_curves import Curve, Vector, lines


def rivals(k: Vector, y: Vector) -> list[Curve]:
    """The best of each kind that is no law; first the waves, then the stretched exponential.

    A power law with log-periodic waves, e^{-a k^p} with p below and with p above 1, (log k)^-p, two
    slopes in log k or in k, and (c - k)^p, which sorted random numbers of a bounded range have
    (p = 1: uniform ones).
    """
    shifts = np.linspace(0.2, 3.0, 29)
    knots = np.unique(np.geomspace(k[2], k[-3], 24))
    ends = k[-1] + np.geomspace(0.25, max(k.size, 16) / 2.0, 16)
    return [
        _waves(np.log(k), y),
        _best(k[None, :] ** np.linspace(0.15, 0.85, 15)[:, None], y, 3),
        _best(k[None, :] ** np.linspace(1.15, 3.5, 48)[:, None], y, 3),
        _best(np.log(np.log1p(k[None, :] + shifts[:, None] - 1.0)), y, 3),
        _two_slopes(np.log(k), np.log(knots), y),
        _two_slopes(k, knots, y),
        _best(np.log(ends[:, None] - k[None, :]), y, 3),
    ]


def _best(x: Float[np.ndarray, "g n"], y: Vector, parameters: int) -> Curve:
    residuals = lines(x, y)
    return Curve(residuals[int(np.argmin(np.sum(residuals**2, axis=1)))], parameters)


def _two_slopes(x: Vector, knots: Float[np.ndarray, " g"], y: Vector) -> Curve:
    """A line that bends once, at the best of the knots."""
    xc, yc = x - x.mean(), y - y.mean()
    rest = yc - xc * float(xc @ yc) / float(xc @ xc)
    hinges = np.maximum(x[None, :] - knots[:, None], 0.0)
    hinges = hinges - hinges.mean(axis=1, keepdims=True)
    hinges = hinges - (hinges @ xc)[:, None] * xc / float(xc @ xc)
    size = np.maximum(np.sum(hinges**2, axis=1), np.finfo(np.float64).tiny)
    bent = rest - ((hinges @ rest) / size)[:, None] * hinges
    return Curve(bent[int(np.argmin(np.sum(bent**2, axis=1)))], 4)


def _waves(x: Vector, y: Vector) -> Curve:
    """A line in x = log k and one wave along it, of at least one and a half periods.

    It counts as seven parameters: a line, a wave's two, and its frequency, the best of so many that
    it is worth three.
    """
    least = 1.5 / float(x[-1] - x[0])
    turns = 2.0 * np.pi * np.linspace(least, max(2.0, 2.0 * least), 24)[:, None] * x[None, :]
    columns = np.stack(
        [np.ones_like(turns), np.broadcast_to(x, turns.shape), np.cos(turns), np.sin(turns)], axis=1
    )
    normal = columns @ columns.transpose(0, 2, 1)
    weights = np.linalg.solve(normal, (columns @ y)[..., None])
    residuals = y - np.sum(weights * columns, axis=1)
    return Curve(residuals[int(np.argmin(np.sum(residuals**2, axis=1)))], 7)
