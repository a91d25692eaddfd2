"""A target into the weights of Eq. 5: the Transformer that the proof of Theorem 4.1 constructs.

Rows of W_Q and W_K are unit vectors (Eq. 18, with e_{k+m_h} for W_K), W_V picks the last features,
and f̂ stacks sqrt(sigma_k) phi_k, sqrt(sigma_k) psi_k (k <= m_h) and f.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models import Transformer, feed_forward
from attnrate.targets import AttentionTarget, seeds
from attnrate.theory.basis import (
    TokenFunction,
    as_gauge,
    coupling_basis,
    exact_factors,
    require_softmax,
    target_domain,
    token_grid,
)
from attnrate.theory.decomposition import Gauge
from attnrate.theory.domain import Region

Tensor = torch.Tensor
Intervals = tuple[tuple[float, float], ...]


class ExactFunction(nn.Module):
    """A known function of tokens as a module without parameters."""

    def __init__(self, function: TokenFunction) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape k"]:
        """The function itself."""
        return self.function(x)


def knots(intervals: Intervals, m_ff: int) -> tuple[float, ...]:
    """Where piecewise-linear interpolants bend: at equispaced places, m_ff pieces in all.

    Each interval of a union gets the same number of pieces. One more piece bridges each gap, where
    there are no tokens.
    """
    each = pieces_of(intervals, m_ff) + 1
    return tuple(t for a, b in intervals for t in np.linspace(a, b, each).tolist())


def pieces_of(intervals: Intervals, m_ff: int) -> int:
    """How many pieces each interval gets in a network of m_ff units."""
    pieces = (m_ff + 1) // len(intervals) - 1
    if pieces < 1:
        raise InputError(
            f"m_ff must be at least {2 * len(intervals) - 1} to reach {len(intervals)} intervals",
            m_ff,
            "A network bends once in each interval and once in each gap at the least.",
        )
    return pieces


def _network(
    inner: Float[Tensor, "m_ff d"],
    shift: Float[Tensor, " m_ff"],
    outer: Float[Tensor, "k m_ff"],
    bias: Float[Tensor, " k"],
) -> nn.Sequential:
    """x -> outer relu(inner x + shift) + bias, a network as training uses it, in float64."""
    network = feed_forward(inner.shape[1], outer.shape[0], inner.shape[0], depth=1).double()
    with torch.no_grad():
        for weight, value in zip(network.parameters(), (inner, shift, outer, bias), strict=True):
            weight.copy_(value)
    return network


def interpolant(
    places: tuple[float, ...], values: Float[Tensor, "knots k"], m_ff: int
) -> nn.Sequential:
    """The piecewise-linear functions through (places, values) as a ReLU network of width m_ff."""
    at = torch.tensor(places, dtype=torch.float64)
    slopes = (values[1:] - values[:-1]) / (at[1:] - at[:-1])[:, None]
    bends = torch.cat([slopes[:1], slopes[1:] - slopes[:-1]])
    spare = m_ff - len(bends)
    outer = nn.functional.pad(bends.T, (0, spare))
    shift = nn.functional.pad(-at[:-1], (0, spare))
    return _network(torch.ones(m_ff, 1, dtype=torch.float64), shift, outer, values[0])


def fitted(
    points: Float[Tensor, "n d"], values: Float[Tensor, "n k"], m_ff: int, seed: int
) -> nn.Sequential:
    """A ReLU network of width m_ff fitted to samples: random hinges, least squares behind them."""
    generator = seeds.generator(seed)
    inner = torch.randn(m_ff, points.shape[1], generator=generator, dtype=torch.float64)
    inner = inner / inner.norm(dim=-1, keepdim=True)
    through = points[torch.randint(len(points), (m_ff,), generator=generator)]
    shift = -(inner * through).sum(-1)
    hidden = (points @ inner.T + shift).relu()
    design = torch.cat([hidden, torch.ones(len(points), 1, dtype=torch.float64)], dim=1)
    weights = torch.linalg.lstsq(design, values, driver="gelsd").solution
    return _network(inner, shift, weights[:-1].T, weights[-1])


def compile_target(
    target: object,
    m_h: object,
    m_ff: object = None,
    *,
    gauge: object = "softmax",
    seed: object = 0,
) -> Transformer:
    """The Transformer (Eq. 5, float64) that the proof builds for `target` with head size m_h.

    With m_ff=None every component is evaluated exactly, so what is left is the error of the rank.
    With a number f̂ and F̂ are ReLU networks with one hidden layer of m_ff units, so that every
    component (sqrt(sigma) phi_k, sqrt(sigma) psi_k, f, F) is one: its piecewise-linear interpolant
    for functions of one variable, fitted to samples (with `seed`) for functions of several. The
    gauge is used unless gauge=None.
    """
    target = require_softmax(target)
    m_h = require_whole("m_h", m_h, 1)
    m_ff = None if m_ff is None else require_whole("m_ff", m_ff, 1)
    modulo, seed = as_gauge(gauge), require_whole("seed", seed, 0)
    features = _features(target, m_h, modulo, exact=m_ff is None)
    inner = target.inner_size
    f_hat: nn.Module = ExactFunction(features)
    F_hat: nn.Module = ExactFunction(target.F)
    n = 2 * m_h + inner
    # modules are born with random weights; every one of them is overwritten below
    with torch.random.fork_rng(devices=[]):
        if m_ff is not None:
            f_hat = _feature_networks(target, features, m_ff, seed)
            F_hat = _outer_network(target, inner, m_ff, seed)
        model = Transformer(
            target.d, target.out, n=n, m_h=m_h, m_v=inner, f_hat=f_hat, F_hat=F_hat
        ).double()
    unit = torch.eye(n, dtype=torch.float64)
    with torch.no_grad():
        model.W_Q.weight.copy_(unit[:m_h])
        model.W_K.weight.copy_(unit[m_h : 2 * m_h])
        model.W_V.weight.copy_(unit[2 * m_h :])
    return model


def _features(target: AttentionTarget, m_h: int, gauge: Gauge, exact: bool) -> TokenFunction:
    factors = exact_factors(target, m_h)
    if factors is not None:
        query, key = factors
        return lambda x: torch.cat([query(x), key(x), target.f(x)], dim=-1)
    basis = coupling_basis(target, gauge)
    terms = m_h if exact else min(m_h, basis.smooth_rank)

    def features(x: Tensor) -> Tensor:
        sides = [
            nn.functional.pad(side(x, terms), (0, m_h - terms)) for side in (basis.query, basis.key)
        ]
        return torch.cat([*sides, target.f(x)], dim=-1)

    return features


def _feature_networks(
    target: AttentionTarget, features: TokenFunction, m_ff: int, seed: int
) -> nn.Sequential:
    domain = target_domain(target)
    if isinstance(domain, Region) and domain.d == 1:
        return _interpolated(features, domain.axes[0], m_ff)
    x = target.sample(max(64, 20 * m_ff // target.length), seed)
    points = x.reshape(-1, target.d)
    return fitted(points, features(points), m_ff, seed)


def _outer_network(target: AttentionTarget, inner: int, m_ff: int, seed: int) -> nn.Sequential:
    if inner == 1:
        return _interpolated(target.F, (value_range(target),), m_ff)
    x = target.sample(max(1, 20 * m_ff // target.length), seed)
    points = target.inner(x).reshape(-1, inner)
    return fitted(points, target.F(points), m_ff, seed)


def _interpolated(function: TokenFunction, intervals: Intervals, m_ff: int) -> nn.Sequential:
    places = knots(intervals, m_ff)
    at = torch.tensor(places, dtype=torch.float64)[:, None]
    return interpolant(places, function(at), m_ff)


def value_range(target: AttentionTarget) -> tuple[float, float]:
    """The least and the largest value of a scalar f, from a fine grid with its end points."""
    values = target.f(token_grid(target_domain(target), 128))
    low, high = float(values.min()), float(values.max())
    # a constant f has a range of one point; networks need an interval
    return (low, high) if high > low else (low - 0.5, high + 0.5)
