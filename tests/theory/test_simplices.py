"""Interpolants on simplices: the network is Kuhn's interpolant, within its bound and no better."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnrate.errors import InputError
from attnrate.theory.domain import box, union
from attnrate.theory.feedforward import Interpolant
from attnrate.theory.simplices import cells_of, grid_nodes, looseness, mesh_network, units_of

REGIONS = {
    "square": box((0, 1), (0, 1)),
    "rectangle": box((0, 1), (-1, 2)),
    "cube": box((0, 1), (0, 2), (1, 1.5)),
    "two boxes": box(union((0, 1), (2, 2.5)), (0, 1)),
    "four boxes": box((0, 1), union((0, 1), (3, 4)), union((0, 0.3), (1, 2))),
}


def made(region, n, g) -> nn.Sequential:
    return mesh_network(region, n, torch.from_numpy(g(grid_nodes(region, n)))[:, None])


def hidden_units(network) -> int:
    return sum(layer.out_features for layer in list(network)[:-1] if isinstance(layer, nn.Linear))


def by_sorting(region, n, g, points) -> np.ndarray:
    """Kuhn's interpolant by its definition: along unit steps, the largest share first."""
    found = []
    for point in points:
        corner, share, step = [], [], []
        for x, axis in zip(point, region.axes, strict=True):
            a, b = next((a, b) for a, b in axis if a <= x <= b)
            h = (b - a) / n
            k = min(int((x - a) / h), n - 1)
            corner.append(a + k * h)
            share.append((x - a) / h - k)
            step.append(h)
        at = np.array(corner)
        value = total = g(at[None])[0]
        for i in np.argsort(share)[::-1]:
            at[i] += step[i]
            total += share[i] * (g(at[None])[0] - value)
            value = g(at[None])[0]
        found.append(total)
    return np.array(found)


def wave(x):
    return np.sin(3 * x[..., 0]) * np.cos(2 * x[..., 1]) + x[..., -1] ** 2


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", REGIONS)
def test_the_network_is_kuhns_interpolant_with_the_units_that_are_counted(name, n):
    region = REGIONS[name]
    network, points = made(region, n, wave), region.draw(60, np.random.default_rng(n))
    with torch.no_grad():
        found = network(torch.from_numpy(points))[:, 0].numpy()
    np.testing.assert_allclose(found, by_sorting(region, n, wave, points), atol=1e-12)
    assert hidden_units(network) == units_of(region, n)
    with_bends = int(any(len(axis) > 1 for axis in region.axes))
    assert sum(isinstance(layer, nn.ReLU) for layer in network) == region.d + with_bends


@pytest.mark.parametrize(("d", "exact"), [(2, 0.25), (3, 0.75)])
def test_the_bound_is_attained(d, exact):
    """Σ_{i<j} x_i x_j on one cell: |D²g| = d - 1, and the error at the centre is d (d-1) / 8."""
    region = box(*[(0, 1)] * d)
    g = lambda x: (x.sum(-1) ** 2 - (x**2).sum(-1)) / 2  # noqa: E731
    with torch.no_grad():
        centre = made(region, 1, g)(torch.full((1, d), 0.5, dtype=torch.float64))
    error = abs(float(centre) - g(np.full(d, 0.5)))
    assert error == pytest.approx(exact, rel=1e-12)
    bound = Interpolant(d=d).rate(g, units_of(region, 1), region)
    assert bound == pytest.approx(exact, rel=1e-9)


@given(
    name=st.sampled_from(["rectangle", "cube", "two boxes"]),
    amplitudes=st.lists(st.floats(-3, 3), min_size=4, max_size=4),
    m_ff=st.integers(0, 300),
)
@settings(max_examples=8)
def test_networks_of_random_waves_stay_within_their_bound(name, amplitudes, m_ff):
    region = REGIONS[name]
    m_ff += units_of(region, 1)
    directions = np.random.default_rng(3).normal(size=(4, region.d))
    g = lambda x: sum(a * np.cos(x @ w) for a, w in zip(amplitudes, directions, strict=True))  # noqa: E731
    network, points = (
        made(region, cells_of(region, m_ff), g),
        region.draw(2000, np.random.default_rng(0)),
    )
    with torch.no_grad():
        error = np.abs(network(torch.from_numpy(points))[:, 0].numpy() - g(points)).max()
    family = Interpolant(d=region.d)
    assert hidden_units(network) <= m_ff
    assert error <= family.rate(g, m_ff, region) + 1e-10
    assert family.rate(g, m_ff, region) <= family.complexity(g, region) / m_ff**family.beta + 1e-12


def test_values_stay_between_those_at_the_nodes():
    region = REGIONS["cube"]
    values = torch.rand(len(grid_nodes(region, 2)), 2, generator=torch.Generator().manual_seed(0))
    points = torch.from_numpy(region.draw(500, np.random.default_rng(1)))
    with torch.no_grad():
        found = mesh_network(region, 2, values.double())(points)
    assert (found <= values.max() + 1e-12).all()
    assert (found >= values.min() - 1e-12).all()


@given(st.sampled_from(sorted(REGIONS)), st.integers(0, 10_000))
def test_no_more_cells_would_fit(name, more):
    region = REGIONS[name]
    m_ff = units_of(region, 1) + more
    n = cells_of(region, m_ff)
    assert units_of(region, n) <= m_ff < units_of(region, n + 1)
    exponent = 2 / region.d
    assert m_ff**exponent / n**2 <= looseness(region, exponent)


def test_on_an_interval_nothing_is_lost():
    assert looseness(box((0, 1)), 2.0) == 1.0
    assert cells_of(box((0, 1)), 17) == 17


def test_too_few_units_and_too_many_are_refused_with_a_way_out():
    with pytest.raises(InputError, match="at least 7"):
        cells_of(REGIONS["square"], 6)
    with pytest.raises(InputError, match="jackson_bound needs no network"):
        made(REGIONS["cube"], 40, wave)
