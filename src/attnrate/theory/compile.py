"""A target written into the weights of Eq. 5, as the proof of Theorem 4.1 does it.

Rows of W_Q and W_K are unit vectors (Eq. 18, with e_{k+m_h} for W_K), W_V picks the last features,
and f̂ stacks sqrt(sigma_k) phi_k, sqrt(sigma_k) psi_k (k <= m_h) and f.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError
from attnrate.models import Transformer, feed_forward
from attnrate.settings import Count, Natural, checked
from attnrate.targets import AttentionTarget, seeds
from attnrate.theory.basis import (
    SoftmaxTarget,
    TokenFunction,
    coupling_basis,
    exact_factors,
    target_domain,
    token_grid,
)
from attnrate.theory.domain import Region
from attnrate.words import GaugeLike

Tensor = torch.Tensor
Intervals = tuple[tuple[float, float], ...]


class ExactFunction(nn.Module):
    """A known function of tokens as a module without parameters."""

    def __init__(self, function: TokenFunction) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape k"]:
        """The function's value at every token."""
        return self.function(x)


def knots(intervals: Intervals, m_ff: int) -> tuple[float, ...]:
    """The places where piecewise-linear interpolants bend: equispaced, with m_ff pieces in all.

    Each interval of a union has the same number of pieces. One more piece bridges each gap, where
    there are no tokens.
    """
    each = pieces_of(intervals, m_ff) + 1
    return tuple(t for a, b in intervals for t in np.linspace(a, b, each).tolist())


def pieces_of(intervals: Intervals, m_ff: int) -> int:
    """The number of linear pieces on each interval, for a network of m_ff units."""
    pieces = (m_ff + 1) // len(intervals) - 1
    if pieces < 1:
        raise InputError(
            f"m_ff must be at least {2 * len(intervals) - 1} to reach {len(intervals)} intervals",
            m_ff,
            "A network bends at least once in each interval and once in each gap.",
        )
    return pieces


def _network(
    inner: Float[Tensor, "m_ff d"],
    shift: Float[Tensor, " m_ff"],
    outer: Float[Tensor, "k m_ff"],
    bias: Float[Tensor, " k"],
) -> nn.Sequential:
    """x -> outer relu(inner x + shift) + bias in float64, as the networks that are trained."""
    network = feed_forward(inner.shape[1], outer.shape[0], inner.shape[0], depth=1).double()
    with torch.no_grad():
        for weight, value in zip(network.parameters(), (inner, shift, outer, bias), strict=True):
            weight.copy_(value)
    return network


def interpolant(
    places: tuple[float, ...], values: Float[Tensor, "knots k"], m_ff: int
) -> nn.Sequential:
    """A ReLU network of width m_ff that is piecewise linear through (places, values)."""
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
    """A ReLU network of width m_ff fitted to samples: random hidden units, then least squares."""
    generator = seeds.generator(seed)
    inner = torch.randn(m_ff, points.shape[1], generator=generator, dtype=torch.float64)
    inner = inner / inner.norm(dim=-1, keepdim=True)
    through = points[torch.randint(len(points), (m_ff,), generator=generator)]
    shift = -(inner * through).sum(-1)
    hidden = (points @ inner.T + shift).relu()
    design = torch.cat([hidden, torch.ones(len(points), 1, dtype=torch.float64)], dim=1)
    weights = torch.linalg.lstsq(design, values, driver="gelsd").solution
    return _network(inner, shift, weights[:-1].T, weights[-1])


@checked
def compile_target(
    target: SoftmaxTarget,
    m_h: Count,
    m_ff: Count | None = None,
    *,
    gauge: GaugeLike = "softmax",
    seed: Natural = 0,
) -> Transformer:
    """The Transformer of Eq. 5 that the proof of Theorem 4.1 constructs for a target.

    Its logits are those of the coupling cut at rank m_h. With m_ff=None the components
    sqrt(sigma_k) phi_k, sqrt(sigma_k) psi_k, f and F are evaluated exactly, so the error of the
    model is the error of the rank alone. With a number, f̂ and F̂ are ReLU networks with one hidden
    layer of m_ff units for every component: its piecewise-linear interpolant for functions of one
    variable, and a network fitted to samples for functions of several variables, or where sampled
    tokens stand for the law of the inputs.

    Args:
        target: A target of the form of Eq. 8, with softmax.
        m_h: The size of the attention head, 1 or more.
        m_ff: The number of hidden units per component; None (the default) for exact components.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.
        seed: Draws the hidden units and the samples of networks that are fitted.

    Returns:
        A Transformer in float64. `error_of(model, target)` measures its error, and
        `jackson_bound(target, m_h, m_ff)` bounds it.

    Raises:
        InputError: If the target is not of this form, or m_ff is too small for its intervals.

    Examples:
        >>> target = ar.spectral_target(alpha=1.0, rank=4)
        >>> model = ar.compile_target(target, m_h=4)
        >>> x = target.sample(8, seed=0)
        >>> bool((model(x) - target(x)).abs().max() < 1e-12)
        True

    """
    features = _features(target, m_h, gauge, exact=m_ff is None)
    inner = target.inner_size
    f_hat: nn.Module = ExactFunction(features)
    F_hat: nn.Module = ExactFunction(target.F)
    n = 2 * m_h + inner
    # modules are created with random weights; every one of them is overwritten below
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


@dataclass(frozen=True)
class _Features:
    """(query, key, f) of tokens side by side, both sides padded to m_h: (..., d) -> (..., n)."""

    query: TokenFunction
    key: TokenFunction
    f: TokenFunction
    m_h: int

    def __call__(self, x: Tensor) -> Tensor:
        sides = [
            nn.functional.pad(values, (0, self.m_h - values.shape[-1]))
            for values in (self.query(x), self.key(x))
        ]
        return torch.cat([*sides, self.f(x)], dim=-1)


def _features(target: AttentionTarget, m_h: int, gauge: GaugeLike, exact: bool) -> TokenFunction:
    """f̂ of Eq. 18 as a function; with networks, of the terms that can be differentiated."""
    factors = exact_factors(target, m_h)
    if factors is not None:
        return _Features(*factors, target.f, m_h)
    basis = coupling_basis(target, gauge)
    terms = m_h if exact else min(m_h, basis.smooth_rank)
    return _Features(partial(basis.query, m_h=terms), partial(basis.key, m_h=terms), target.f, m_h)


def _feature_networks(
    target: AttentionTarget, features: TokenFunction, m_ff: int, seed: int
) -> nn.Sequential:
    """f̂ as a ReLU network: interpolants on intervals, else fitted to tokens of drawn sequences."""
    domain = target_domain(target)
    if isinstance(domain, Region) and domain.d == 1:
        return _interpolated(features, domain.axes[0], m_ff)
    x = target.sample(max(64, 20 * m_ff // target.length), seed)
    points = x.reshape(-1, target.d)
    return fitted(points, features(points), m_ff, seed)


def _outer_network(target: AttentionTarget, inner: int, m_ff: int, seed: int) -> nn.Sequential:
    """F̂ as a ReLU network: an interpolant on the range of a scalar f, else fitted to samples."""
    if inner == 1:
        return _interpolated(target.F, (value_range(target),), m_ff)
    x = target.sample(max(1, 20 * m_ff // target.length), seed)
    points = target.inner(x).reshape(-1, inner)
    return fitted(points, target.F(points), m_ff, seed)


def _interpolated(function: TokenFunction, intervals: Intervals, m_ff: int) -> nn.Sequential:
    """The piecewise-linear interpolant of a function of one variable, as a ReLU network."""
    places = knots(intervals, m_ff)
    at = torch.tensor(places, dtype=torch.float64)[:, None]
    return interpolant(places, function(at), m_ff)


def value_range(target: AttentionTarget) -> tuple[float, float]:
    """The least and the largest value of a scalar f, on a fine grid or on sampled tokens."""
    values = target.f(token_grid(target_domain(target), 128))
    low, high = float(values.min()), float(values.max())
    # a constant f has a range of one point; networks need an interval
    return (low, high) if high > low else (low - 0.5, high + 0.5)
