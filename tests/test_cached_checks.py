"""Types of nested functions are checked at every call, though their checks are written once."""

from collections.abc import Callable

import pytest
import torch
from cached_checks import checked
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor


def made(hint: object, default: object = None) -> Callable[..., object]:
    """A nested function, made anew, with that type of its argument and of its result."""

    def inner(x: hint, y: object = default) -> hint:  # type: ignore[valid-type]
        return x if y is None else y

    return jaxtyped(inner, typechecker=checked)


def test_a_function_that_is_made_again_has_its_own_types_checked_again() -> None:
    for hint, right, wrong in ((int, 1, "a"), (str, "a", 1), (int, 2, "b"), (str, "b", 2)):
        again = made(hint)
        assert again(right) == right
        with pytest.raises(TypeCheckError):
            again(wrong)
        with pytest.raises(TypeCheckError):
            again(right, wrong)
        with pytest.raises(TypeCheckError):
            made(hint, wrong)(right)


def test_shapes_are_those_of_each_call() -> None:
    for rows in (2, 3):
        square = made(Float[Tensor, "n n"])
        assert square(torch.zeros(rows, rows)).shape == (rows, rows)
        with pytest.raises(TypeCheckError):
            square(torch.zeros(rows, rows + 1))
        with pytest.raises(TypeCheckError):
            square(torch.zeros(rows, rows), torch.zeros(rows + 1, rows + 1))
