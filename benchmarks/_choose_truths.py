"""Data whose truth is known: six kinds within the ladder's classes, and four outside of them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

import attnrate as ar
from attnrate.choose.samples import Samples

#: Kinds of truth within the classes, with the verdicts that are right, and those that are richer
WITHIN: dict[str, tuple[set[str], set[str]]] = {
    "nothing": ({"nothing"}, {"memoryless", "linear", "short-memory", "pairwise"}),
    "memoryless": ({"memoryless"}, {"linear", "short-memory", "pairwise"}),
    "filter": ({"linear"}, {"short-memory", "pairwise"}),
    "permuted": ({"linear"}, {"short-memory", "pairwise"}),
    "additive": ({"short-memory"}, {"pairwise"}),
    "attention": ({"pairwise"}, set()),
}
#: Kinds of truth outside, with the verdicts that are right
OUTSIDE: dict[str, set[str]] = {
    "gru": {"short-memory", "pairwise"},
    "mixed": {"pairwise"},
    "d = 4": {"pairwise"},
    "series": {"pairwise"},
}


def panel(x: np.ndarray, y: np.ndarray) -> Samples:
    """Sequences x (N, T, d) with an output y (N, T, k) at each token."""
    count, length, d = x.shape
    return Samples(
        x=x.reshape(-1, d),
        y=y.reshape(count * length, -1),
        starts=np.arange(count) * length,
        length=length,
        horizon=0,
        whole=True,
        time=np.repeat(np.arange(count), length),
        inputs=tuple(f"x{i}" for i in range(d)),
        outputs=tuple(f"y{i}" for i in range(y.shape[-1])),
    )


def series(x: np.ndarray, y: np.ndarray, window: int, horizon: int) -> Samples:
    """Windows of one series of tokens x (n, d), with the values y (n, k) that are wanted."""
    count = len(x) - window - horizon + 1
    return Samples(
        x=x,
        y=y,
        starts=np.arange(count),
        length=window,
        horizon=horizon,
        whole=False,
        time=np.arange(len(x)),
        inputs=tuple(f"x{i}" for i in range(x.shape[1])),
        outputs=tuple(f"y{i}" for i in range(y.shape[1])),
    )


def uniform(drawn: np.random.Generator, shape: tuple[int, int], memory: float) -> np.ndarray:
    """Values on [0, 1], uniform at each time; along the last axis with correlation `memory`."""
    if memory == 0:
        return drawn.uniform(size=shape)
    z = drawn.normal(size=shape)
    for t in range(1, shape[1]):
        z[:, t] = memory * z[:, t - 1] + math.sqrt(1 - memory**2) * z[:, t]
    return np.asarray(stats.norm.cdf(z))


def wave(drawn: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """A smooth function on [0, 1] that is not linear."""
    size, phase = drawn.normal(size=3), drawn.uniform(0, 2 * math.pi, 3)

    def value(u: np.ndarray) -> np.ndarray:
        return np.asarray(
            sum(size[j] * np.sin(2 * (j + 1) * u + phase[j]) / (j + 1) for j in range(3))
        )

    return value


def lagged(x: np.ndarray, lag: int) -> np.ndarray:
    """The values so many tokens before, with zeros before the beginning."""
    return np.concatenate([np.zeros_like(x[:, :lag]), x[:, : x.shape[1] - lag]], axis=1)


def clean(kind: str, drawn: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """The outputs of a kind of truth for tokens x (N, T), without noise."""
    length = x.shape[1]
    tokens = torch.from_numpy(x)[..., None]
    if kind == "nothing":
        return np.zeros_like(x)
    if kind == "memoryless":
        return wave(drawn)(x)
    if kind == "filter":
        rho = np.exp(-np.arange(length) / drawn.uniform(1, 6))
        return ar.linear_target(rho, length)(tokens).numpy()[..., 0]
    if kind == "permuted":
        rho = np.exp(-np.arange(length) / drawn.uniform(1, 6))
        target = ar.linear_target(rho, length).permuted(drawn.permutation(length))
        return target(tokens).numpy()[..., 0]
    if kind == "additive":
        return wave(drawn)(x) + lagged(wave(drawn)(x), 1) + lagged(wave(drawn)(x), 3)
    alpha, rank = float(drawn.uniform(0.5, 2)), int(drawn.integers(1, 6))
    target = ar.spectral_target(alpha, rank, length=length)
    if kind == "mixed":
        target = target.mixed([1.0, 0.5, 0.25])
    return target(tokens).numpy()[..., 0]


@dataclass(frozen=True)
class Set:
    """One drawn set of data: what it is made of."""

    kind: str
    seed: int
    count: int = 2000
    length: int = 16
    noise: float = 0.1
    memory: float = 0.0


def within(one: Set) -> Samples:
    """A panel whose truth is in one of the classes of the ladder."""
    drawn = np.random.default_rng(one.seed)
    x = uniform(drawn, (one.count, one.length), one.memory)
    y = clean(one.kind, drawn, x)
    return panel(x[..., None], noisy(y, one.noise, drawn)[..., None])


def noisy(y: np.ndarray, noise: float, drawn: np.random.Generator) -> np.ndarray:
    """Outputs with noise, as a multiple of their standard deviation."""
    return y + noise * (float(y.std()) or 1.0) * drawn.normal(size=y.shape)


def outside(one: Set) -> Samples:
    """Data whose truth is in none of the classes."""
    drawn = np.random.default_rng(one.seed)
    if one.kind == "series":
        # products of the token now with a mean of those before, in one long series
        x = uniform(drawn, (1, 10 * one.count), 0.9)[0]
        past = np.convolve(x, np.ones(8) / 8)[: len(x)]
        y = np.tanh(3 * (x - 0.5) * (past - past.mean()) / past.std()) + 0.3 * x
        return series(x[:, None], noisy(y, one.noise, drawn)[:, None], one.length, 0)
    if one.kind == "d = 4":
        x = drawn.normal(size=(one.count, one.length, 4))
        first = np.einsum("ntd,nsd->nts", x[..., :2], x[..., 2:]) / math.sqrt(2)
        weights = np.exp(first - first.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        y = np.einsum("nts,ns->nt", weights, x[..., 0])
        return panel(x, noisy(y, one.noise, drawn)[..., None])
    x = uniform(drawn, (one.count, one.length), one.memory)
    if one.kind == "gru":
        with torch.random.fork_rng():
            torch.manual_seed(one.seed)
            gru, out = torch.nn.GRU(1, 8, batch_first=True), torch.nn.Linear(8, 1)
        with torch.no_grad():
            for weight in gru.parameters():
                weight.mul_(4)
            tokens = torch.from_numpy(4 * x[..., None] - 2).float()
            y = out(gru(tokens)[0])[..., 0].double().numpy()
    else:
        y = clean(one.kind, drawn, x)
    return panel(x[..., None], noisy(y, one.noise, drawn)[..., None])
