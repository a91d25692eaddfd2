"""Laws that users write: what they lack or draw wrongly is named, with the class."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from attnrate.errors import InputError
from attnrate.targets import AttentionTarget, IndependentInputs, InputLaw, identity, linear_target


def product(u, v):
    return u * v


class Coins(InputLaw):
    low, high = (0.0,), (1.0,)

    def draw(self, n, length, generator):
        return torch.randint(0, 2, (n, length, 1), generator=generator).double()


def test_a_law_of_ones_own_draws_the_same_sequences_as_without_the_checks() -> None:
    target = linear_target("exponential", 5, Coins())
    alone = Coins().draw(7, 5, torch.Generator().manual_seed(3))
    assert torch.equal(target.sample(7, seed=3), alone)


def test_a_law_may_set_its_box_when_it_is_made_and_need_not_derive_from_anything() -> None:
    class Wide(InputLaw):
        def __init__(self, width):
            self.low, self.high = (-width,), (width,)

        def draw(self, n, length, generator):
            size = (n, length, 1)
            return torch.rand(size, generator=generator).double() * 2 * self.high[0] - self.high[0]

    class Plain:
        d, low, high = 1, (-math.inf,), (math.inf,)

        def draw(self, n, length, generator):
            return torch.randn((n, length, 1), generator=generator)  # float32 becomes float64

    for law in (Wide(0.1), Plain()):
        x = linear_target("exponential", 4, law).sample(50, seed=0)
        assert x.dtype == torch.float64


def changed(**parts: Any) -> Any:
    return type("Mine", (Coins,), parts)()


def numpy_draw(self, n, length, generator):
    return np.zeros((n, length, 1))


def flat_draw(self, n, length, generator):
    return torch.zeros((n, length)).double()


def far_draw(self, n, length, generator):
    return 5 + torch.rand((n, length, 1), generator=generator).double()


def nan_draw(self, n, length, generator):
    return torch.full((n, length, 1), math.nan).double()


def free_draw(self, n, length, generator):
    return torch.rand((n, length, 1)).double()


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (type("Mine", (InputLaw,), {"draw": Coins.draw})(), "Mine, .* 'low' is missing"),
        (type("Mine", (InputLaw,), {"low": (0.0,), "high": (1.0,)})(), "'draw' is missing"),
        (changed(low=0.0, high=1.0), r"Mine.low must be a tuple of numbers.*got 0.0.*\(0.0,\)"),
        (changed(high=(1.0, 1.0)), "Mine.high must be a tuple of numbers"),
        (changed(draw=numpy_draw), "Mine.draw must return a torch tensor: got 'ndarray'"),
        (changed(draw=flat_draw), r"Mine.draw must return the shape .*: got \(\d+, 4\)"),
        (changed(draw=far_draw), "Mine.draw gave a token outside its box.*got 5"),
        (changed(draw=nan_draw), "Mine.draw gave a token outside its box.*got nan"),
        (changed(draw=free_draw), "Mine.draw must give the same sequences for the same seed"),
    ],
)
def test_what_a_law_lacks_or_draws_wrongly_is_named(law: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        AttentionTarget(identity, identity, product, 4, law)
    with pytest.raises(InputError, match=words):
        linear_target("exponential", 4, law)


def test_independent_tokens_need_their_mean_and_variance() -> None:
    class Mine(IndependentInputs):
        low, high, variance = (0.0,), (1.0,), (0.25,)
        draw = Coins.draw

    with pytest.raises(InputError, match=r"Mine, the law of the inputs, .* 'mean' is missing"):
        linear_target("exponential", 4, Mine())


@pytest.mark.parametrize(
    ("value", "way"),
    [((0, 1), r"UniformInputs\(0, 1\)"), (len, r"SampledInputs\(function\)"), (3, "UniformInputs")],
)
def test_what_is_no_law_is_refused_with_the_law_that_was_meant(value: Any, way: str) -> None:
    with pytest.raises(InputError, match=f"inputs must be a law of the inputs.*{way}"):
        AttentionTarget(identity, identity, product, 4, value)
