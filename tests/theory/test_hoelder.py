"""Hölder constants in several variables, against closed forms."""

import numpy as np
import pytest

from attnrate.errors import InputError
from attnrate.theory.domain import box, union
from attnrate.theory.hoelder import scaled_hoelder_constant


def test_a_linear_function_has_the_length_of_its_scaled_gradient():
    region = box((0, 2), (1, 1.5))
    found = scaled_hoelder_constant(lambda x: 3 * x[..., 0] - 4 * x[..., 1], 1.0, region)
    assert found == pytest.approx(np.hypot(3 * 2, 4 * 0.5), rel=1e-6)


@pytest.mark.parametrize("exponent", [0.5, 0.8])
def test_a_power_of_the_distance_from_a_corner_has_the_constant_one(exponent):
    g = lambda x: np.linalg.norm(x, axis=-1) ** exponent  # noqa: E731
    found = scaled_hoelder_constant(g, exponent, box((0, 1), (0, 1)))
    assert found == pytest.approx(1.0, rel=1e-9)


def test_pairs_from_one_box_of_a_union_to_another_count():
    """0 on the first box and 1 on the second, (3-2)/4 of the hull's side apart."""
    region = box(union((0, 2), (3, 4)), (0, 1))
    found = scaled_hoelder_constant(lambda x: 1.0 * (x[..., 0] > 2.5), 1.0, region)
    assert found == pytest.approx(4.0, rel=1e-9)


def test_a_jump_is_refused():
    with pytest.raises(InputError, match="not Hölder continuous"):
        scaled_hoelder_constant(lambda x: 1.0 * (x[..., 0] > 0.3), 1.0, box((0, 1), (0, 1)))
