"""How far a model is from a target: exact for models whose distance is known."""

from collections.abc import Callable

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


def attend() -> torch.nn.Module:
    return torch.nn.MultiheadAttention(1, 1, batch_first=True)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: x.mean(1, keepdim=True), r"the shape .* \(1024, 4, 1\): got \(1024, 1, 1\)"),
        (lambda x: x[:, :2], r"got \(1024, 2, 1\)"),
        (lambda x: x.sum(1), r"got \(1024, 1\)"),
        (lambda x: x.expand(-1, -1, 2), r"got \(1024, 4, 2\). Make it for out = 1"),
        (lambda x: x.numpy(), "must return a torch tensor: got 'ndarray'"),
        (lambda x: (x, None), "got 'tuple'. Wrap it in a module that returns the first"),
        (torch.nn.Linear(4, 1), r"Linear fails on inputs of shape \(1024, 4, 1\) \(RuntimeError"),
        (attend(), r"MultiheadAttention fails on inputs .*missing 2 required"),
    ],
)
def test_a_model_that_fails_or_gives_another_shape_is_refused(model: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        error_of(model, linear_target("exponential", 4))


def test_a_result_or_swapped_arguments_are_recognised() -> None:
    target, model = linear_target("exponential", 4), torch.nn.Linear(1, 1)
    found = type("Fit", (), {"model": model})()
    with pytest.raises(InputError, match=r"model must be .*got 'a Fit'. Pass its \.model"):
        error_of(found, target)
    with pytest.raises(InputError, match=r"The model comes first: error_of\(model, target\)"):
        error_of(target, model)


def test_a_long_measurement_shows_its_progress(
    on_a_terminal: Callable[[Callable[[], object]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnrate.targets.error.QUIET", 0.0)
    target = linear_target("exponential", 4)
    written = on_a_terminal(lambda: error_of(lambda x: x, target, n=3000))
    assert "measuring the error on 3,000 sequences" in written
    assert on_a_terminal(lambda: error_of(lambda x: x, target, progress=False)) == ""
    with pytest.raises(InputError, match="progress must be None, True or False"):
        error_of(lambda x: x, target, progress="yes")
