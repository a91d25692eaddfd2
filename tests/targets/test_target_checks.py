"""The shared checks: what passes comes back as float64, what does not is named."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError, require_number
from attnrate.targets.checks import require_floats, require_matrix, require_vector


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int64(2), Fraction(2)])
def test_any_real_number_is_a_number(value):
    number = require_number("x", value, above=1.0)
    assert number == 2.0
    assert type(number) is float


@given(st.floats(-1e9, 1e9))
def test_a_number_at_or_below_the_bound_is_refused(bound):
    with pytest.raises(InputError) as caught:
        require_number("x", bound, above=bound)
    assert caught.value.value == bound
    assert require_number("x", bound) == bound


@pytest.mark.parametrize("values", [[1, 2], (1.0, 2.0), np.array([1, 2], "u1"), torch.ones(2)])
def test_any_list_of_numbers_is_a_vector(values):
    vector = require_vector("x", values)
    assert vector.dtype == np.float64
    assert vector.shape == (2,)


def test_a_vector_and_a_matrix_are_copies():
    given_vector, given_matrix = np.ones(2), np.ones((2, 2))
    require_vector("x", given_vector)[0] = 5
    require_matrix("x", given_matrix)[0, 0] = 5
    assert given_vector.tolist() == [1, 1]
    assert given_matrix.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("value", [None, 1.0, [1.0], np.ones(2), torch.ones(2, dtype=torch.int64)])
def test_only_float_tensors_are_tensors_of_floats(value):
    with pytest.raises(InputError):
        require_floats("x", value)
    assert require_floats("x", torch.ones(2)).tolist() == [1, 1]
