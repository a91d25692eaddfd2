"""Laws that a function draws, or that are drawn from an array: reproducible, checked, in a box."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import AttentionTarget, InputLaw, SampledInputs, identity, linear_target


def normal(n: int, length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, length, 2))


def uniform(n: int, length: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, length, generator=generator)


def draw(law: SampledInputs, n: int = 5, length: int = 3, seed: int = 0) -> torch.Tensor:
    return law.draw(n, length, torch.Generator().manual_seed(seed))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**31))
def test_a_sampler_gives_the_same_sequences_for_the_same_seed(
    n: int, length: int, seed: int
) -> None:
    law = SampledInputs(normal, d=2)
    x = draw(law, n, length, seed)
    assert x.shape == (n, length, 2)
    assert x.dtype == torch.float64
    assert torch.equal(x, draw(law, n, length, seed))
    assert not torch.equal(x, draw(law, n, length, seed + 1))


def test_a_sampler_of_scalars_needs_no_last_axis_and_may_use_torch() -> None:
    law = SampledInputs(uniform, 0, 1)
    assert isinstance(law, InputLaw)
    assert (law.d, law.low, law.high) == (1, (0.0,), (1.0,))
    assert draw(law).shape == (5, 3, 1)


def test_without_a_box_the_law_has_no_bounds_and_targets_take_it() -> None:
    law = SampledInputs(normal, d=2)
    assert (law.low, law.high) == ((-math.inf,) * 2, (math.inf,) * 2)
    target = AttentionTarget(identity, identity, lambda u, v: (u * v).sum(-1), 4, law)
    assert target(target.sample(3, 0)).shape == (3, 4, 2)


def test_tokens_of_an_array_are_drawn_independently_from_its_rows() -> None:
    values = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    law = SampledInputs.of_tokens(values)
    assert (law.low, law.high) == ((0.0, 1.0), (4.0, 5.0))
    x = draw(law, 4000, 2)
    assert {tuple(row) for row in x.reshape(-1, 2).tolist()} == {tuple(row) for row in values}
    # of 4000 pairs, a third has the same row twice; five standard errors
    same = (x[:, 0] == x[:, 1]).all(-1).double().mean().item()
    assert abs(same - 1 / 3) < 5 * math.sqrt(2 / 9 / 4000)
    assert SampledInputs.of_tokens([1.0, 2.0]).d == 1


def test_sequences_of_an_array_are_drawn_whole() -> None:
    values = torch.arange(24.0).reshape(4, 3, 2)
    law = SampledInputs.of_sequences(values)
    rows = {tuple(one.flatten().tolist()) for one in values}
    assert {tuple(one.flatten().tolist()) for one in draw(law, 100)} == rows
    with pytest.raises(InputError, match="have 3 tokens each") as caught:
        draw(law, length=4)
    assert caught.value.value == 4
    assert SampledInputs.of_sequences(np.zeros((5, 3))).d == 1


@pytest.mark.parametrize("law", [SampledInputs(normal, d=2), SampledInputs.of_tokens([0.0, 1.0])])
def test_a_law_can_be_copied_and_pickled(law: SampledInputs) -> None:
    again = pickle.loads(pickle.dumps(law))  # noqa: S301 - made here
    for other in (copy.copy(law), copy.deepcopy(law), again):
        assert torch.equal(draw(law), draw(other))
        assert repr(other) == repr(law)


def test_it_shows_its_sampler_and_its_box_and_no_data() -> None:
    assert repr(SampledInputs(uniform, 0, 1)) == "SampledInputs(uniform, low=(0.0,), high=(1.0,))"
    assert len(repr(SampledInputs.of_tokens(np.arange(1000.0)))) < 80


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (
            SampledInputs(lambda n, length, seed: np.zeros((n, length, 3)), d=2),
            "must return the shape",
        ),
        (SampledInputs(lambda n, length, seed: 3.0), "must return an array or a tensor"),
        (SampledInputs(lambda n, length, seed: np.full((n, length), 2.0), 0, 1), "outside its box"),
        (SampledInputs(lambda n, length, seed: np.full((n, length), np.nan)), "outside its box"),
        (SampledInputs(lambda n, length, seed: np.full((n, length), np.inf)), "outside its box"),
    ],
)
def test_what_a_sampler_gives_wrongly_is_named(law: SampledInputs, words: str) -> None:
    with pytest.raises(InputError, match=words):
        linear_target("exponential", 3, law) if law.d == 1 else draw(law)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SampledInputs(np.zeros((3, 2))), r"(?s)must be a function .*of_sequences"),
        (lambda: SampledInputs(normal, 1, 0), "the box is empty along axis 0"),
        (lambda: SampledInputs(normal, (0, 0), (1, 1, 1)), "must have as many entries"),
        (lambda: SampledInputs(normal, (0, 0), 1, d=3), "have 2 entries, d is another"),
        (lambda: SampledInputs(normal, math.nan), "not finite"),
        (lambda: SampledInputs(normal, "a"), "low must hold real numbers"),
        (lambda: SampledInputs(normal, d=0), "d must be a whole number"),
        (lambda: SampledInputs.of_tokens([]), "at least one"),
        (lambda: SampledInputs.of_tokens([math.inf]), "finite numbers"),
        (lambda: SampledInputs.of_tokens(np.zeros((2, 2, 2))), r"the shape \(count, d\)"),
        (lambda: SampledInputs.of_sequences([1.0]), r"the shape \(count, length, d\)"),
        (lambda: SampledInputs.of_sequences(["a"]), "finite numbers"),
    ],
)
def test_a_law_that_cannot_be_is_refused(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]


def test_a_sampler_that_ignores_its_seed_is_refused() -> None:
    law = SampledInputs(lambda n, length, seed: np.random.default_rng().normal(size=(n, length)))
    with pytest.raises(InputError, match=r"same sequences for the same seed.*default_rng\(seed\)"):
        linear_target("exponential", 4, law)


def test_a_sampler_is_tried_once_and_its_sequences_are_those_of_the_seed() -> None:
    seeds = []

    def normal(n: int, length: int, seed: int) -> np.ndarray:
        seeds.append(seed)
        return np.random.default_rng(seed).normal(size=(n, length))

    target = linear_target("exponential", 4, SampledInputs(normal))
    tried = len(seeds)
    x = target.sample(3, seed=5)
    assert len(seeds) == tried + 1
    np.testing.assert_array_equal(x[..., 0], np.random.default_rng(seeds[-1]).normal(size=(3, 4)))


def test_a_sampler_of_two_arguments_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"three arguments, \(n, length, seed\): got '\(n, length"):
        SampledInputs(lambda n, length: np.zeros((n, length)))
