"""Samples cut of arrays, a slow ladder beside them, and laws of data that are known."""

import numpy as np

from attnrate.choose.samples import Samples


def sequences(x: np.ndarray, y: np.ndarray) -> Samples:
    """A panel of sequences x (N, T, d) with an output y (N, T, k) at each token."""
    count, length, d = x.shape
    return Samples(
        np.ascontiguousarray(x, dtype=float).reshape(-1, d),
        np.ascontiguousarray(y, dtype=float).reshape(count * length, -1),
        np.arange(count) * length,
        length,
        0,
        True,
        np.repeat(np.arange(count), length),
        tuple(f"x{number}" for number in range(d)),
        tuple(f"y{number}" for number in range(y.shape[-1])),
    )


def windows(x: np.ndarray, y: np.ndarray, window: int, horizon: int = 0) -> Samples:
    """Windows of one series x (n, d); where something ahead is wanted, y (n, k) is named as x."""
    names = tuple(f"x{number}" for number in range(x.shape[1]))
    return Samples(
        np.ascontiguousarray(x, dtype=float),
        np.ascontiguousarray(y, dtype=float),
        np.arange(len(x) - window - horizon + 1),
        window,
        horizon,
        False,
        np.arange(len(x)),
        names,
        names[: y.shape[1]] if horizon else tuple(f"y{number}" for number in range(y.shape[1])),
    )


def autoregressive(rows: int, *weights: float, seed: int = 0) -> np.ndarray:
    """A series x(t) = Σ_s weights[s] x(t-1-s) + normal noise, of shape (rows, 1)."""
    x = np.random.default_rng(seed).normal(size=rows)
    for t in range(rows):
        x[t] += sum(weight * x[t - 1 - s] for s, weight in enumerate(weights) if t > s)
    return x[:, None]


def filtered(x: np.ndarray, rho: list[float], noise: float, seed: int = 0) -> np.ndarray:
    """The series Σ_s rho(s) x(t-s), of shape (rows, 1), with noise of this standard deviation."""
    clean = np.convolve(x[:, 0], rho)[: len(x), None]
    return clean + noise * np.random.default_rng(1000 + seed).normal(size=clean.shape)


def attended(count: int, length: int, noise: float, seed: int = 0) -> Samples:
    """Sequences in which the output is the token now times the mean of all, and no sum sees it."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(count, length, 1))
    y = x * x.mean(1, keepdims=True) * np.sqrt(length)
    return sequences(x, y + noise * drawn.normal(size=y.shape))
