"""Suprema of second derivatives in two and three variables, against what they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.theory.smooth_boxes import expand_box, sup_hessian, sup_partials

UNIT = {2: ((0.0, 1.0),) * 2, 3: ((0.0, 1.0),) * 3}
#: by how much the suprema may exceed the truth: 1 / cos(π / 24)², 1 / cos(π / 12)³
ABOVE = {2: 1.02, 3: 1.11}


def assert_supremum(found: float, exact: float, d: int) -> None:
    assert exact * (1 - 1e-7) <= found <= exact * ABOVE[d]


@pytest.mark.parametrize("d", [2, 3])
@given(frequency=st.lists(st.floats(0.2, 4), min_size=3, max_size=3), data=st.data())
@settings(max_examples=3)
def test_a_plane_wave_bends_by_its_frequency_squared(d, frequency, data):
    """D² cos(w·x) = -w wᵀ cos(w·x), of norm |w|² where a crest lies inside."""
    sides = tuple((a, a + data.draw(st.floats(0.5, 2.0))) for a in (-0.3, 0.2, 1.0)[:d])
    w = np.array(frequency[:d])
    S = np.array([b - a for a, b in sides])
    centre = np.array([a + b for a, b in sides]) / 2
    g = lambda x: np.cos((x - centre) @ w)  # noqa: E731
    assert_supremum(sup_hessian(g, sides), float(np.sum((S * w) ** 2)), d)


@pytest.mark.parametrize("d", [2, 3])
def test_a_gaussian_is_most_bent_at_its_top(d):
    g = lambda x: np.exp(-((x - 0.5) ** 2).sum(-1) / 0.3)  # noqa: E731
    assert_supremum(sup_hessian(g, UNIT[d]), 2 / 0.3, d)


@pytest.mark.parametrize("d", [2, 3])
def test_a_product_of_cosines(d):
    """At a crest D² is -(2π)² I; nowhere is its norm larger."""
    g = lambda x: np.cos(2 * np.pi * x).prod(-1)  # noqa: E731
    assert_supremum(sup_hessian(g, UNIT[d]), (2 * np.pi) ** 2, d)
    exact = [[2 * np.pi, (2 * np.pi) ** 2, (2 * np.pi) ** 3]] * d
    found = sup_partials(g, 3, UNIT[d])
    assert (found >= np.multiply(exact, 1 - 1e-7)).all()
    assert (found <= np.multiply(exact, ABOVE[d])).all()


def test_quadratic_forms_have_their_spectral_norm_exactly():
    for d in (2, 3):
        A = np.random.default_rng(d).normal(size=(d, d))
        A = A + A.T
        found = sup_hessian(lambda x, A=A: np.einsum("ni,ij,nj->n", x, A, x) / 2, UNIT[d])
        assert found == pytest.approx(np.linalg.norm(A, 2), rel=1e-9)


def test_a_linear_function_and_a_constant_do_not_bend():
    assert sup_hessian(lambda x: 3 * x[..., 0] - x[..., 1] + 2, UNIT[2]) == pytest.approx(
        0, abs=1e-9
    )
    assert sup_hessian(lambda x: 7.0, UNIT[3]) == 0.0


def test_a_narrow_bell_is_cut_into_pieces():
    g = lambda x: np.exp(-((x - 0.4) ** 2).sum(-1) / 0.01)  # noqa: E731
    assert len(expand_box(g, UNIT[2]).low) > 1
    assert_supremum(sup_hessian(g, UNIT[2]), 200.0, 2)


@pytest.mark.parametrize(
    "g",
    [
        lambda x: np.abs(x[..., 0] - 0.5) * x[..., 1],
        lambda x: np.abs(x[..., 0] - 0.3) * x[..., 1],
        lambda x: np.where(x[..., 1] < 0.5, 0.0, 1.0),
        lambda x: np.sqrt((x**2).sum(-1)),
    ],
)
def test_a_kink_or_a_jump_is_refused_with_its_place(g):
    with pytest.raises(InputError, match=r"at u = \(|near u = \("):
        sup_hessian(g, UNIT[2])


def test_a_jump_of_the_second_derivative_leaves_its_supremum():
    g = lambda x: np.where(x[..., 0] < 0.5, 0.0, (x[..., 0] - 0.5) ** 2)  # noqa: E731
    assert sup_hessian(g, UNIT[2]) == pytest.approx(2.0, rel=1e-6)
    with pytest.raises(InputError, match="derivative 2 of g along coordinate 0 jumps"):
        sup_partials(g, 3, UNIT[2])
