"""Random couplings with features of a known size, and what is true of a decomposition of one.

Every member is a smooth coupling, or one with a feature added: a kink or a jump along a curve, a
corner, a disc, a ridge, a peak, an oscillation, a rough network. `share` is the part of the domain
that the feature covers, at least 1/2,000, or 1 where it reaches everywhere. What is true is
estimated at points of this file's own, which `pod` knows nothing of.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnrate.theory.decomposition import Pod

LEAST_SHARE = 1 / 2000
KINDS = (
    "smooth",
    "kink",
    "jump",
    "corner kink",
    "corner jump",
    "disc",
    "cone",
    "ridge",
    "strip",
    "peak",
    "oscillation",
    "packet",
    "relu net",
    "step net",
)
Rho = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Member:
    """A coupling on [0, 1]^d x [0, 1]^d; `seed` and `kind` make it again."""

    kind: str
    seed: int
    d: int
    rho: Rho
    share: float

    @property
    def domain(self):
        return (0.0, 1.0) if self.d == 1 else [(0.0, 1.0)] * self.d


def member(seed: int, kind: str | None = None) -> Member:
    """The member of that seed; of a random kind unless one is given. A quarter is in the plane."""
    rng = np.random.default_rng([seed, 2026])
    drawn = KINDS[rng.integers(len(KINDS))]
    kind = kind or drawn
    d = 2 if rng.uniform() < 0.25 else 1
    smooth = _smooth(rng, d)
    if kind == "smooth":
        return Member(kind, seed, d, _on_points(smooth, d), 1.0)
    feature, share = _feature(rng, kind, d)
    size = 10 ** rng.uniform(-3, 0.5)

    def rho(x):
        return smooth(x) + size * feature(x)

    return Member(kind, seed, d, _on_points(rho, d), share)


def _on_points(function: Callable[[np.ndarray], np.ndarray], d: int) -> Rho:
    """A function of points in [0, 1]^2d as one of u and v that broadcast."""

    def rho(u, v):
        if d == 1:
            u, v = u[..., None], v[..., None]
        shape = np.broadcast_shapes(u.shape, v.shape)
        return function(np.concatenate([np.broadcast_to(u, shape), np.broadcast_to(v, shape)], -1))

    return rho


def _smooth(rng, d):
    """One of: a few products, a Gaussian, a rational function, an exponential."""
    which = rng.integers(4)
    w = rng.normal(size=(3, 2 * d)) * rng.uniform(0.5, 4)
    phase, length = rng.uniform(0, 6, 3), rng.uniform(0.15, 1.5)
    if which == 0:
        return lambda x: np.sum(
            np.cos(x[..., :d] @ w[:, :d].T + phase) * np.sin(x[..., d:] @ w[:, d:].T + phase), -1
        )
    if which == 1:
        return lambda x: np.exp(-np.sum((x[..., :d] - x[..., d:]) ** 2, -1) / (2 * length**2))
    if which == 2:
        return lambda x: 1 / (1 + length + np.sum(x[..., :d] * x[..., d:], -1))
    return lambda x: np.exp(np.sum(x[..., :d] * x[..., d:], -1) - 1) + x[..., 0]


def _feature(rng, kind, d):
    """A feature of that kind, and the share of the domain that it covers."""
    n = 2 * d
    direction = rng.normal(size=n)
    direction /= np.linalg.norm(direction)
    middle = rng.uniform(0.1, 0.9, n)
    bend = rng.normal() * 0.6

    def level(x):
        """Zero on a random curve through the domain."""
        along = (x - middle) @ np.roll(direction, 1)
        return (x - middle) @ direction + bend * along**2

    share = 10 ** rng.uniform(np.log10(LEAST_SHARE), -0.7)
    if kind == "kink":
        return (lambda x: np.abs(level(x))), 1.0
    if kind == "jump":
        return (lambda x: (level(x) > 0).astype(float)), 1.0
    if kind.startswith("corner"):
        signs = rng.choice([-1.0, 1.0], n)
        corner = (1 + signs) / 2
        # the simplex {x : signs·(corner - x) < reach} at a corner has the volume reach^n / n!
        reach = (share * np.prod(np.arange(1, n + 1))) ** (1 / n)

        def depth(x):
            return reach - np.abs(corner - x).sum(-1)

        if kind == "corner kink":
            return (lambda x: np.maximum(depth(x), 0) / reach), share
        return (lambda x: (depth(x) > 0).astype(float)), share
    if kind in ("disc", "cone", "peak"):
        volume = {2: np.pi, 4: np.pi**2 / 2}[n]
        radius = (share / volume) ** (1 / n)
        centre = rng.uniform(min(radius, 0.5), max(1 - radius, 0.5), n)

        def distance(x):
            return np.sqrt(np.sum((x - centre) ** 2, -1))

        if kind == "disc":
            return (lambda x: (distance(x) < radius).astype(float)), share
        if kind == "cone":
            return (lambda x: np.maximum(1 - distance(x) / radius, 0)), share
        return (lambda x: np.exp(-2 * (distance(x) / radius) ** 2)), share
    if kind in ("ridge", "packet"):
        width = _width(rng, level, share, n)
        if kind == "ridge":
            return (lambda x: np.exp(-2 * (level(x) / width) ** 2)), share
        waves = rng.uniform(5, 60)
        return (
            lambda x: np.exp(-2 * (level(x) / width) ** 2) * np.cos(waves * (x @ direction))
        ), share
    if kind == "strip":
        axis, start = rng.integers(n), rng.uniform(0, 1 - share)
        edge = rng.integers(2)

        def strip(x):
            inside = (x[..., axis] > start) & (x[..., axis] < start + share)
            shape = 1.0 if edge else np.sin(np.pi * (x[..., axis] - start) / share) ** 2
            return inside * shape * np.cos(x.sum(-1))

        return strip, share
    if kind == "oscillation":
        waves = 10 ** rng.uniform(1, 2.2)
        return (lambda x: np.cos(waves * level(x))), 1.0
    width = int(rng.integers(3, 24))
    W, b = rng.normal(size=(n, width)) * 2, rng.normal(size=width)
    a = rng.normal(size=width) / np.sqrt(width)
    if kind == "relu net":
        return (lambda x: np.maximum(x @ W + b, 0) @ a), 1.0
    return (lambda x: np.sign(x @ W + b) @ a), 1.0


def _width(rng, level, share, n):
    """The half-width of a ridge along a curve that covers that share, by sampling."""
    return max(float(np.quantile(np.abs(level(rng.uniform(size=(200_000, n)))), share)), 1e-6)


@dataclass(frozen=True)
class Truth:
    """What a decomposition really misses, at a million points, each with three standard errors.

    `residual` is the L² norm of rho minus the sum that was returned. `sigma` is the largest error
    of a returned singular value, to first order: |<rho - sum, phi_k psi_k>|.
    """

    residual: float
    residual_doubt: float
    sigma: float


def truth_of(made: Member, result: Pod) -> Truth:
    """The truth of a decomposition of that member, at 1,000 x 1,000 points of this file's own."""
    rng = np.random.default_rng([made.seed, 7])
    shape = (1000,) if made.d == 1 else (1000, made.d)
    u, v = rng.uniform(size=shape), rng.uniform(size=shape)
    phi, psi = result.phi(u), result.psi(v)
    gap = made.rho(u[:, None], v[None]) - (phi * result.sigma) @ psi.T
    squares = gap**2
    residual = float(np.sqrt(squares.mean()))
    doubt = 3 * _error_of_mean(squares.mean(1), squares.mean(0)) / (2 * max(residual, 1e-300))
    by_u, by_v = phi * (gap @ psi) / 1000, psi * (gap.T @ phi) / 1000
    off = np.abs(by_u.mean(0)) - 3 * _error_of_mean(by_u, by_v)
    return Truth(residual, float(np.max(doubt)), float(np.max(off, initial=0.0)))


def _error_of_mean(by_u: np.ndarray, by_v: np.ndarray) -> np.ndarray:
    """The standard error of a mean over a tensor of points, whose rows and columns count once."""
    return np.sqrt((np.var(by_u, axis=0) + np.var(by_v, axis=0)) / len(by_u))
