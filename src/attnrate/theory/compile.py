"""A target written into the weights of Eq. 5, as the proof of Theorem 4.1 does it.

Rows of W_Q and W_K are unit vectors (Eq. 18, with e_{k+m_h} for W_K), W_V picks the last features,
and f̂ stacks sqrt(sigma_k) phi_k, sqrt(sigma_k) psi_k (k <= m_h) and f.
"""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError, require_choice
from attnrate.models import Transformer, feed_forward
from attnrate.settings import Count, Natural, by, checked
from attnrate.targets import AttentionTarget, seeds
from attnrate.theory.basis import (
    FAINT,
    SoftmaxTarget,
    TokenFunction,
    coupling_basis,
    exact_factors,
    target_domain,
    token_grid,
)
from attnrate.theory.domain import Region
from attnrate.theory.simplices import cells_of, grid_nodes, mesh_network, pieces_of
from attnrate.theory.variables import MOST_VARIABLES
from attnrate.words import GaugeLike

Tensor = torch.Tensor
Intervals = tuple[tuple[float, float], ...]
#: How networks for functions of several variables are made
Networks = Literal["auto", "interpolant"]
#: Points along each axis on which the range of a vector f is measured, and by which share of its
#: length a side of the range is widened where its end is not the value at a corner
_RANGE = {1: 4097, 2: 129, 3: 33}
_WIDENED = 0.005


def _require_networks(name: str, value: object) -> Networks:
    words: tuple[Networks, ...] = ("auto", "interpolant")
    return require_choice(name, value, words)


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
    networks: Annotated[Networks, by(_require_networks)] = "auto",
) -> Transformer:
    """The Transformer of Eq. 5 that the proof of Theorem 4.1 constructs for a target.

    Its logits are those of the coupling cut at rank m_h. With m_ff=None the components
    sqrt(sigma_k) phi_k, sqrt(sigma_k) psi_k, f and F are evaluated exactly, so the error of the
    model is the error of the rank alone. With a number, f̂ and F̂ are ReLU networks with m_ff hidden
    units for every component. For functions of one variable they have one hidden layer and are its
    piecewise-linear interpolant. For functions of several variables, or where sampled tokens stand
    for the law of the inputs, they have one hidden layer and are fitted to samples: their errors
    are often small, and not bounded. With networks="interpolant" functions of two and three
    variables are interpolated on simplices by two and three hidden layers instead (see
    `Interpolant`), for which `jackson_bound` holds.

    Args:
        target: A target of the form of Eq. 8, with softmax.
        m_h: The size of the attention head, 1 or more.
        m_ff: The number of hidden units per component; None (the default) for exact components.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.
        seed: Draws the hidden units and the samples of networks that are fitted.
        networks: How functions of several variables are approximated: "auto" (the default) fits,
            "interpolant" interpolates in at most three variables.

    Returns:
        A Transformer in float64. `error_of(model, target)` measures its error, and
        `jackson_bound(target, m_h, m_ff)` bounds it, unless networks were fitted.

    Raises:
        InputError: If the target is not of this form, or m_ff is too small for its intervals.

    Examples:
        >>> target = ar.spectral_target(alpha=1.0, rank=4)
        >>> model = ar.compile_target(target, m_h=4)
        >>> x = target.sample(8, seed=0)
        >>> bool((model(x) - target(x)).abs().max() < 1e-12)
        True

    """
    exact = networks == "auto" or target.d == 1
    features = _features(target, m_h, gauge, smooth=m_ff is not None, factors=exact)
    inner = target.inner_size
    f_hat: nn.Module = ExactFunction(features)
    F_hat: nn.Module = ExactFunction(target.F)
    n = 2 * m_h + inner
    # modules are created with random weights; every one of them is overwritten below
    with torch.random.fork_rng(devices=[]):
        if m_ff is not None:
            f_hat = _feature_networks(target, features, m_ff, seed, networks)
            F_hat = _outer_network(target, inner, m_ff, seed, networks)
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


def _features(
    target: AttentionTarget, m_h: int, gauge: GaugeLike, smooth: bool, factors: bool
) -> TokenFunction:
    """f̂ of Eq. 18 as a function; with `smooth`, of the terms that can be differentiated.

    With `factors`, a coupling that is given by its factors keeps them.
    """
    known = exact_factors(target, m_h) if factors or not smooth else None
    if known is not None:
        return _Features(*known, target.f, m_h)
    basis = coupling_basis(target, gauge)
    terms = m_h
    if smooth:
        # fitted networks take terms too faint to be differentiated
        terms = min(m_h, basis.rank_above(FAINT) if factors else basis.smooth_rank)
    return _Features(partial(basis.query, m_h=terms), partial(basis.key, m_h=terms), target.f, m_h)


def _feature_networks(
    target: AttentionTarget, features: TokenFunction, m_ff: int, seed: int, networks: Networks
) -> nn.Sequential:
    """f̂ as a ReLU network: interpolants on intervals, else fitted to tokens of drawn sequences."""
    domain = target_domain(target)
    if isinstance(domain, Region) and domain.d == 1:
        return _interpolated(features, domain.axes[0], m_ff)
    if networks == "interpolant":
        if not isinstance(domain, Region):
            raise InputError(
                "interpolants need tokens that are uniform on a box of at most "
                f"{MOST_VARIABLES} dimensions or on intervals; this law is sampled",
                type(target.inputs).__name__,
                'Leave networks="interpolant" out: the networks are then fitted to samples.',
            )
        return _meshed(features, domain, m_ff)
    x = target.sample(max(64, 20 * m_ff // target.length), seed)
    points = x.reshape(-1, target.d)
    return fitted(points, features(points), m_ff, seed)


def _outer_network(
    target: AttentionTarget, inner: int, m_ff: int, seed: int, networks: Networks
) -> nn.Sequential:
    """F̂ as a ReLU network: an interpolant on the range of a scalar f, else fitted to samples."""
    if inner == 1:
        return _interpolated(target.F, (value_range(target),), m_ff)
    if networks == "interpolant":
        if inner > MOST_VARIABLES:
            raise InputError(
                f"F can be interpolated if f has at most {MOST_VARIABLES} coordinates",
                inner,
                'Leave networks="interpolant" out: the networks are then fitted to samples.',
            )
        return _meshed(target.F, value_region(target), m_ff)
    x = target.sample(max(1, 20 * m_ff // target.length), seed)
    points = target.inner(x).reshape(-1, inner)
    return fitted(points, target.F(points), m_ff, seed)


def _interpolated(function: TokenFunction, intervals: Intervals, m_ff: int) -> nn.Sequential:
    """The piecewise-linear interpolant of a function of one variable, as a ReLU network."""
    places = knots(intervals, m_ff)
    at = torch.tensor(places, dtype=torch.float64)[:, None]
    return interpolant(places, function(at), m_ff)


def _meshed(function: TokenFunction, region: Region, m_ff: int) -> nn.Sequential:
    """The interpolant of a function of two or three variables on simplices, as a ReLU network."""
    n = cells_of(region, m_ff)
    with torch.no_grad():
        values = function(torch.from_numpy(grid_nodes(region, n)))
    return mesh_network(region, n, values.double())


def value_region(target: AttentionTarget) -> Region:
    """A box around the values of f, on tokens that are uniform on boxes or intervals.

    A side ends at a value of f at a corner of the tokens' domain, or a little beyond the largest
    value that is found on a fine grid.
    """
    if target.inner_size == 1:
        return Region(((value_range(target),),))
    domain = target_domain(target)
    assert isinstance(domain, Region)
    with torch.no_grad():
        values = target.f(torch.from_numpy(grid_nodes(domain, _RANGE[domain.d] - 1)))
        corners = target.f(torch.from_numpy(grid_nodes(domain, 1)))
    sides = []
    for found, at_corners in zip(values.T, corners.T, strict=True):
        low, high = float(found.min()), float(found.max())
        extra = _WIDENED * (high - low)
        low -= extra if low < float(at_corners.min()) else 0.0
        high += extra if high > float(at_corners.max()) else 0.0
        sides.append(((low, high) if high > low else (low - 0.5, high + 0.5),))
    return Region(tuple(sides))


def value_range(target: AttentionTarget) -> tuple[float, float]:
    """The least and the largest value of a scalar f, on a fine grid or on sampled tokens."""
    values = target.f(token_grid(target_domain(target), 128))
    low, high = float(values.min()), float(values.max())
    # a constant f has a range of one point; networks need an interval
    return (low, high) if high > low else (low - 0.5, high + 0.5)
