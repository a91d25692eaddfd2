"""Laws of the inputs: their ranges, their moments, and what they refuse."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    GaussianInputs,
    IndependentInputs,
    InputLaw,
    PositionedInputs,
    UniformInputs,
)
from attnrate.targets.inputs import float64

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_uniform_inputs_are_u01_by_default():
    x = UniformInputs().draw(40_000, 1, generator())
    assert x.shape == (40_000, 1, 1)
    assert x.dtype == torch.float64
    # five standard errors of the mean and of the variance of U[0, 1]
    assert abs(x.mean().item() - 0.5) < 5 * math.sqrt(1 / 12 / 40_000)
    assert abs(x.var().item() - 1 / 12) < 5 * math.sqrt(1 / 180 / 40_000)


def test_the_moments_of_a_box_are_those_of_the_uniform_law():
    law = UniformInputs((0, -1), (1, 5))
    assert law.d == 2
    assert law.mean == (0.5, 2.0)
    assert law.variance == (1 / 12, 3.0)


@given(st.lists(st.tuples(FINITE, st.floats(0.1, 10)), min_size=1, max_size=4), st.integers(1, 5))
def test_every_draw_lies_in_the_box(sides, length):
    low = [a for a, _ in sides]
    high = [a + width for a, width in sides]
    law = UniformInputs(low, high)
    x = law.draw(7, length, generator()).numpy()
    assert x.shape == (7, length, len(sides))
    assert (x >= np.array(law.low)).all()
    assert (x <= np.array(law.high)).all()


def test_positioned_inputs_keep_to_their_interval():
    law = PositionedInputs(((4.0, 4.5), (0.0, 1.0), (-2.0, -1.0)))
    x = law.draw(500, 3, generator())[..., 0]
    for s, (a, b) in enumerate(law.intervals):
        assert a <= x[:, s].min() < a + 0.05 * (b - a)
        assert b >= x[:, s].max() > b - 0.05 * (b - a)
    assert (law.d, law.low, law.high) == (1, (-2.0,), (4.5,))


def test_shifted_intervals_are_2s_to_2s_plus_1():
    assert PositionedInputs.shifted(3).intervals == ((0.0, 1.0), (2.0, 3.0), (4.0, 5.0))
    assert PositionedInputs.shifted(2, gap=0.5).intervals == ((0.0, 1.0), (1.5, 2.5))


def test_both_are_laws():
    assert isinstance(UniformInputs(), InputLaw)
    assert isinstance(PositionedInputs.shifted(2), InputLaw)


@given(FINITE, st.floats(0, 1e6))
def test_an_empty_or_reversed_box_is_refused_with_its_sides(a, excess):
    with pytest.raises(InputError) as caught:
        UniformInputs((0.0, a), (1.0, a - excess))
    assert caught.value.value == (a, a - excess)
    assert "axis 1" in str(caught.value)


@pytest.mark.parametrize(
    "low", [(), "a", None, ((0.0,),), (math.nan,), (math.inf,), (1j,), (True,)]
)
def test_a_corner_that_is_no_list_of_numbers_is_refused(low):
    with pytest.raises(InputError):
        UniformInputs(low, (5.0,))


def test_corners_of_different_dimension_are_refused():
    with pytest.raises(InputError) as caught:
        UniformInputs((0.0, 0.0), (1.0,))
    assert caught.value.value == (2, 1)


@given(st.integers(2, 6), st.data())
def test_intervals_that_touch_or_overlap_are_refused_by_their_numbers(length, data):
    intervals = list(PositionedInputs.shifted(length).intervals)
    i = data.draw(st.integers(0, length - 2))
    reach = data.draw(st.floats(0.0, 0.99))
    intervals[i] = (intervals[i][0], intervals[i + 1][0] + reach)
    order = data.draw(st.permutations(range(length)))
    shuffled = [intervals[s] for s in order]
    first, second = sorted((order.index(i), order.index(i + 1)))
    with pytest.raises(InputError, match=f"intervals {first} and {second} are not") as caught:
        PositionedInputs(shuffled)
    assert caught.value.value == (shuffled[first], shuffled[second])


@pytest.mark.parametrize(
    "intervals",
    [(), None, 3, "ab", ((0.0,),), ((1.0, 0.0),), ((0.0, 0.0),), ((0.0, math.nan),), ((0, 1, 2),)],
)
def test_what_is_no_list_of_intervals_is_refused(intervals):
    with pytest.raises(InputError):
        PositionedInputs(intervals)


@pytest.mark.parametrize("gap", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_a_gap_that_is_none_is_refused(gap):
    with pytest.raises(InputError) as caught:
        PositionedInputs.shifted(3, gap)
    assert caught.value.value is gap


@pytest.mark.parametrize("length", [1, 4])
def test_positioned_inputs_have_one_length(length):
    with pytest.raises(InputError) as caught:
        PositionedInputs.shifted(3).draw(2, length, generator())
    assert caught.value.value == length


def test_gaussian_inputs_have_their_moments_and_no_bounds():
    law = GaussianInputs((1.0, -2.0), (0.5, 3.0))
    assert (law.mean, law.variance) == ((1.0, -2.0), (0.25, 9.0))
    assert (law.low, law.high) == ((-math.inf,) * 2, (math.inf,) * 2)
    x = law.draw(40_000, 1, generator())[:, 0]
    assert x.dtype == torch.float64
    # five standard errors of the mean and of the variance of a Gaussian
    assert ((x.mean(0) - float64(law.mean)).abs() < 5 * float64(law.std) / 200).all()
    spread = float64(law.variance) * math.sqrt(2 / 40_000)
    assert ((x.var(0) - float64(law.variance)).abs() < 5 * spread).all()


def test_gaussian_tokens_and_coordinates_are_independent():
    x = GaussianInputs((0, 0)).draw(40_000, 2, generator()).reshape(-1, 4).numpy()
    off_diagonal = np.corrcoef(x.T) - np.eye(4)
    assert np.abs(off_diagonal).max() < 5 / math.sqrt(40_000)


def test_a_single_number_stands_for_all_coordinates():
    assert GaussianInputs((0, 1), 2) == GaussianInputs((0.0, 1.0), (2.0, 2.0))
    assert UniformInputs((-1, 0), 1) == UniformInputs((-1.0, 0.0), (1.0, 1.0))
    assert UniformInputs(-1, 1) == UniformInputs((-1.0,), (1.0,))
    assert GaussianInputs().d == 1


@pytest.mark.parametrize("std", [0.0, -1.0, (1.0, 0.0), math.nan, "1", True])
def test_a_standard_deviation_that_is_none_is_refused(std):
    with pytest.raises(InputError, match="std"):
        GaussianInputs((0.0, 0.0), std)


@pytest.mark.parametrize("law", [UniformInputs((0, 1), 2), GaussianInputs(0, 2)])
def test_independent_laws_compare_and_can_be_copied_and_pickled(law):
    assert isinstance(law, IndependentInputs)
    assert isinstance(law, InputLaw)
    again = pickle.loads(pickle.dumps(law))  # noqa: S301 - made here
    for other in (copy.deepcopy(law), again):
        assert other == law
        assert hash(other) == hash(law)
