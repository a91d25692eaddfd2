"""Piecewise Legendre grids: quadrature, interpolation, refinement."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.special import eval_legendre

from attnrate.errors import InputError
from attnrate.theory.panels import (
    Axis,
    Grid,
    missed,
    orthonormal_legendre,
    panel_rule,
    product_grid,
)


def line(*cuts: float, order: int = 32) -> Grid:
    return Grid((Axis(np.array(cuts[:-1], float), np.array(cuts[1:], float), order),))


def test_the_polynomials_are_scaled_legendre_polynomials():
    t = np.linspace(-1, 1, 41)
    j = np.arange(40)
    expected = np.sqrt(j + 0.5) * eval_legendre(j, t[:, None])
    np.testing.assert_allclose(orthonormal_legendre(t, 40), expected, atol=1e-12)
    assert orthonormal_legendre(t, 1).shape == (41, 1)


@pytest.mark.parametrize("order", [1, 2, 8, 16, 32])
def test_the_transform_of_a_panel_is_orthogonal(order):
    transform = panel_rule(order).transform
    np.testing.assert_allclose(transform.T @ transform, np.eye(order), atol=1e-13)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=16), st.floats(-2, 2), st.floats(0.1, 5))
@settings(max_examples=60)
def test_polynomials_are_integrated_and_interpolated_exactly(coefficients, a, length):
    p = Polynomial(coefficients)
    grid = line(a, a + 0.3 * length, a + length, order=16)
    values = p(grid.nodes[:, 0])
    antiderivative = p.integ()
    size = 1 + np.max(np.abs(values))
    exact = antiderivative(a + length) - antiderivative(a)
    scale = size * max(1.0, length) + abs(antiderivative(a))
    assert abs(grid.weights @ values - exact) <= 1e-11 * scale
    points = np.linspace(a, a + length, 17)[:, None]
    got = grid.interpolate(values[:, None], points)[:, 0]
    np.testing.assert_allclose(got, p(points[:, 0]), rtol=0, atol=1e-11 * size)


def test_a_product_of_polynomials_is_interpolated_on_a_box():
    grid = product_grid((((0.0, 1.0),), ((-1.0, 0.0), (2.0, 3.0))), 8, 2)

    def f(points: np.ndarray) -> np.ndarray:
        return np.stack([points[:, 0] ** 5 * points[:, 1] ** 7, points.sum(axis=1)], axis=-1)

    points = np.array([[0.0, -1.0], [1.0, 3.0], [0.3, -0.4], [0.77, 2.5], [0.5, 0.0]])
    np.testing.assert_allclose(grid.interpolate(f(grid.nodes), points), f(points), atol=1e-10)
    assert grid.interpolate(f(grid.nodes), np.empty((0, 2))).shape == (0, 2)
    assert grid.volume == pytest.approx(2.0)


def test_refinement_keeps_the_nodes_of_the_panels_it_leaves_alone():
    grid = line(0, 1, 2, 3)
    step = grid.refined((np.array([0.0, 1.0, 0.0]),), 0.5)
    assert step is not None
    finer, kept = step
    assert finer.axes[0].panels == 4
    known = kept >= 0
    assert known.sum() == 64
    np.testing.assert_array_equal(finer.nodes[known], grid.nodes[kept[known]])
    assert np.all((finer.nodes[~known] > 1) & (finer.nodes[~known] < 2))
    assert finer.volume == pytest.approx(3.0)
    assert grid.refined((np.zeros(3),), 0.5) is None


def test_refinement_of_a_box_keeps_what_both_axes_keep():
    grid = product_grid((((0.0, 1.0),), ((0.0, 1.0),)), 32, 2)
    step = grid.refined((np.array([1.0, 0.0]), np.zeros(2)), 0.5)
    assert step is not None
    finer, kept = step
    known = kept >= 0
    assert known.sum() == 32 * 64
    np.testing.assert_array_equal(finer.nodes[known], grid.nodes[kept[known]])


def test_a_low_order_is_raised_before_panels_are_cut():
    finer = line(0, 1, order=8).finer()
    assert (finer.axes[0].panels, finer.axes[0].order) == (1, 32)
    assert finer.finer().axes[0].panels == 2


def test_a_panel_that_rounding_could_not_halve_is_left_alone():
    grid = line(0, 2.0**-50, 1)
    step = grid.refined((np.array([1.0, 0.0]),), 0.5)
    assert step is None


@pytest.mark.parametrize("k", [1, 5, 20])
def test_smooth_functions_are_resolved_and_kinks_are_not(k):
    grid = line(0, 0.5, 1)
    t = grid.nodes[:, 0]
    (smooth,) = grid.unresolved(np.cos(k * t)[:, None])
    (kink,) = grid.unresolved(np.abs(t - 0.3)[:, None])
    assert np.all(smooth < 1e-13)
    assert kink[0] > 1e-5
    assert kink[1] < 1e-14


def test_a_kink_between_the_last_node_and_the_end_of_a_panel_is_not_hidden():
    grid = line(0, 1)
    t, edges = grid.nodes[:, 0], grid.axes[0].edges

    def late(x: np.ndarray) -> np.ndarray:
        return np.maximum(x - 0.9995, 0)[:, None]

    assert not late(t).any()
    assert grid.unresolved(late(t))[0] == 0.0
    assert grid.axes[0].hidden(late(t), late(edges))[0] > 1e-6
    np.testing.assert_allclose(
        grid.axes[0].hidden(np.exp(t)[:, None], np.exp(edges)[:, None]), 0, atol=1e-14
    )


def test_what_is_missed_follows_geometric_decay_and_stays_where_there_is_none():
    geometric = 10.0 ** -np.arange(8.0)
    flat = np.ones(8)
    assert missed(geometric) < 1e-3 * np.linalg.norm(geometric[4:])
    assert missed(flat) == pytest.approx(2.0)
    assert missed(np.zeros(8)) == 0.0


@given(st.floats(-10, 10).filter(lambda t: not (0 <= t <= 1 or 2 <= t <= 3)))
@settings(max_examples=300)
def test_points_outside_all_panels_are_refused(t):
    axis = Axis(np.array([0.0, 2.0]), np.array([1.0, 3.0]), 8)
    if min(abs(t - end) for end in (0, 1, 2, 3)) < 1e-11:
        return
    with pytest.raises(InputError, match="outside") as caught:
        axis.locate(np.array([0.5, t, 2.5]))
    assert caught.value.value == t
