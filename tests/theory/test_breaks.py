"""Kinks and jumps of functions of one variable are found to rounding, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.theory.breaks import find_breaks
from attnrate.theory.panels import panel_rule

NODES = panel_rule(32).nodes
PLACES = st.floats(-0.75, 0.75)


def broken(place, jump):
    """Smooth on both sides of `place`; a kink there, or a jump."""

    def function(t):
        right = np.cos(t) + (jump if jump else 2.0 * (t - place))
        return np.where(t > place, right, np.cos(t))

    return function


@settings(max_examples=30)
@given(PLACES, st.sampled_from([0.0, 0.5, -3.0]))
def test_a_kink_or_a_jump_is_found_by_asking(place, jump):
    function = broken(place, jump)
    found, where = find_breaks(
        NODES, function(NODES)[None, :, None], lambda rows, t: function(t)[:, None]
    )
    assert found[0]
    # a kink is where two lines cross that are known to the error of the two polynomials
    assert where[0] == pytest.approx(place, abs=1e-14 if jump else 1e-6)


@settings(max_examples=30)
@given(PLACES)
def test_a_kink_is_found_without_asking_where_the_two_sides_meet(place):
    function = broken(place, 0.0)
    found, where = find_breaks(NODES, function(NODES)[None, :, None])
    assert found[0]
    assert where[0] == pytest.approx(place, abs=1e-6)


@pytest.mark.parametrize(
    "function",
    [np.cos, lambda t: np.exp(3 * t), lambda t: np.abs(t + 0.97), lambda t: np.abs(t) ** 0.3],
    ids=["cos", "exp", "too near the end", "cusp"],
)
def test_what_does_not_break_between_smooth_sides_is_left_alone(function):
    found, _ = find_breaks(NODES, function(NODES)[None, :, None])
    assert not found[0]
