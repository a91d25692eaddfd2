"""How far a model is from a target: exact for models whose distance is known."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.targets import error_of, linear_target, nearest_point, spectral_target


def test_a_model_that_is_off_by_a_constant_has_that_error_and_no_spread() -> None:
    target = spectral_target(1.0, 3, length=5)
    shifted = lambda x: target(x) + 0.25  # noqa: E731
    mse, l1 = error_of(shifted, target), error_of(shifted, target, norm="l1")
    assert mse.value == pytest.approx(0.0625)
    assert l1.value == pytest.approx(5 * 0.25)
    assert mse.standard_error < 1e-12
    assert error_of(target, target).value == 0.0


def test_vector_outputs_are_measured_by_their_euclidean_norm() -> None:
    target = nearest_point()
    off = torch.tensor([0.3, 0.4], dtype=torch.float64)
    assert error_of(lambda x: target(x) + off, target, n=10).value == pytest.approx(0.25)


def test_the_standard_error_is_that_of_the_mean() -> None:
    """Predicting zero for y(t) = x(t): E x² = 1/3, and x² has variance 4/45."""
    target = linear_target([1.0, 0.0, 0.0, 0.0], 4)
    found = error_of(lambda x: torch.zeros_like(x), target, n=20_000)
    assert found.standard_error == pytest.approx((4 / 45 / 4 / 20_000) ** 0.5, rel=0.05)
    assert abs(found.value - 1 / 3) < 5 * found.standard_error


def test_a_float32_model_is_measured_against_float64_values() -> None:
    target = spectral_target(1.0, 3)
    assert error_of(target, target, dtype=torch.float32).value < 1e-12


@pytest.mark.parametrize(("name", "value"), [("n", 1), ("n", 2.5), ("seed", -1), ("norm", "l2")])
def test_wrong_arguments_are_named(name: str, value: object) -> None:
    target = spectral_target(1.0, 3)
    with pytest.raises(InputError) as caught:
        error_of(target, target, **{name: value})
    assert caught.value.value == value
