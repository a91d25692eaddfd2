"""Contenders: equal parameters, the right shapes, and what an output can see."""

import pytest
import torch

from attnrate.choose.contender import Contender, Shape, contender, contenders, count_of
from attnrate.errors import InputError

NAMES = ["linear", "gru", "patches", "state_space", "tcn", "transformer"]
TRAINED = [name for name in NAMES if name != "linear"]
SHAPES = [Shape(1, 1, 16, False), Shape(3, 2, 24, False), Shape(2, 1, 12, True)]


def test_contenders_are_found_by_being_there_and_the_linear_map_comes_first() -> None:
    assert [*contenders()] == NAMES


def test_a_name_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="transformer"):
        contender("transfomer")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_contender_gives_an_output_at_the_last_token_or_at_each(name: str, shape: Shape) -> None:
    kind = contender(name)
    model = kind.make(shape, kind.size(shape, 5000), kind.m_h)
    found = model(torch.randn(3, shape.length, shape.d))
    assert found.shape == (3, shape.length if shape.whole else 1, shape.out)


@pytest.mark.parametrize("budget", [5000, 8000])
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parameters_are_within_a_tenth_of_the_budget(name: str, shape: Shape, budget: int) -> None:
    kind = contender(name)
    size = kind.size(shape, budget)
    made = count_of(kind.make(shape, size, kind.m_h))
    assert made == kind.parameters(shape, size)
    assert abs(made - budget) <= 0.1 * budget


def depends(kind: Contender, shape: Shape, at: int, on: int) -> bool:
    torch.manual_seed(0)
    model = kind.make(shape, 16, kind.m_h).double()
    x = torch.randn(1, shape.length, shape.d, dtype=torch.float64, requires_grad=True)
    model(x)[0, at].sum().backward()
    assert x.grad is not None
    return bool(x.grad[0, on].abs().sum() > 1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_on_panels_recurrent_and_convolutional_ones_are_causal_and_the_others_not(
    name: str,
) -> None:
    shape = Shape(1, 1, 12, True)
    assert depends(contender(name), shape, at=8, on=3)
    causal = name in ("gru", "state_space", "tcn")
    assert depends(contender(name), shape, at=3, on=8) is not causal


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [5, 16, 50])
def test_of_a_window_every_token_is_seen(name: str, length: int) -> None:
    shape = Shape(1, 1, length, False)
    assert all(depends(contender(name), shape, 0, on) for on in (0, length // 2, length - 1))


@pytest.mark.parametrize("whole", [False, True])
def test_the_transformer_that_is_read_at_the_last_token_gives_what_the_whole_one_gives_there(
    whole: bool,
) -> None:
    model = contender("transformer").make(Shape(1, 2, 9, whole), 5, 4)
    x = torch.randn(3, 9, 1)
    every = model.model(x)
    assert torch.allclose(model(x), every if whole else every[:, -1:], atol=1e-6)
