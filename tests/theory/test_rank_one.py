"""m_h = 1 for every equivariant map: tokens come back, maps to rounding, and what is refused."""

import doctest
import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import spectral_target
from attnrate.theory import rank_one as module
from attnrate.theory.pod import pod
from attnrate.theory.rank_one import apart, clustered, pooled, rank_one, token_errors
from attnrate.theory.steepness import steepness

EPS = torch.finfo(torch.float64).eps
#: Rounding errors of a pooled vector and of the solution: sums of up to 4 terms, powers up to 7
ROUNDINGS = 16
UNIT = (0.0, 1.0)


def largest(x):
    return x.amax(1, keepdim=True).expand(x.shape)


def place(x):
    return (x > x.mT).sum(-1, keepdim=True).to(x.dtype)


def others(x):
    return x.sum(1, keepdim=True) - x


def polynomial(x):
    return x.square() * x.sum(1, keepdim=True) - x * x.prod(1, keepdim=True)


def two_outputs(x):
    return torch.cat([x.sin(), x.cos().mean(1, keepdim=True).expand(x.shape)], dim=-1)


def maps_of(length):
    closed = (largest, place, others, polynomial, two_outputs)
    return (*closed, spectral_target(1.0, 3, length))


def sequences(length, margin, count=40):
    drawn = apart(count, length, margin, UNIT, seed=5)
    return torch.cat([drawn, clustered(count, length, margin, UNIT)])


@pytest.mark.parametrize("margin", [0.1, 0.04])
@pytest.mark.parametrize("length", [2, 3, 4])
def test_maps_are_represented_to_rounding_times_the_steepness_of_f(length, margin):
    x = sequences(length, margin)
    for H in maps_of(length):
        model = rank_one(H, length, margin)
        off = (model(x) - H(x)).abs().amax((1, 2))
        steep = steepness(H, partial(pooled, model), x)
        assert (off <= ROUNDINGS * EPS * (1 + steep)).all()
        assert off.max() < 1e-11


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_tokens_come_back_to_rounding_times_their_condition(length):
    def ordered(x):
        return x.sort(1).values.mT.expand(-1, length, -1)

    x = sequences(length, 0.06)
    model = rank_one(others, length, 0.06)
    off = token_errors(model, x)
    condition = steepness(ordered, partial(pooled, model), x)
    assert (off <= ROUNDINGS * EPS * (1 + condition)).all()
    assert off.max() > 0


def test_it_is_eq_5_with_one_dimension_of_attention():
    model = rank_one(others, 3, 0.1)
    assert (model.m_h, model.n, model.heads, model.layers) == (1, 5, 1, 1)
    assert pod(model.coupling(), UNIT).rank == 1
    # ρ(u, v) = (2u - 1)(2v - 1)
    x = torch.tensor([[[0.1], [0.4], [0.8]]], dtype=torch.float64)
    z = 2 * x - 1
    assert torch.allclose(model.logits(x), z @ z.mT, atol=1e-15)
    weights = (z @ z.mT).softmax(-1)
    moments = torch.cat([(weights @ z**j) for j in range(1, 6)], dim=-1)
    assert torch.allclose(pooled(model, x), moments, atol=1e-15)


def test_intervals_of_any_place_and_length():
    H = others
    model = rank_one(H, 3, 30.0, (900.0, 1200.0))
    x = apart(40, 3, 30.0, (900.0, 1200.0), seed=2)
    assert ((model(x) - H(x)) / H(x)).abs().max() < 1e-12


def test_inputs_in_single_precision_are_computed_with_in_double():
    model, x = rank_one(others, 3, 0.1), sequences(3, 0.1).float()
    assert (model(x) - others(x.double())).abs().max() < 1e-12


@given(st.integers(2, 4), st.integers(0, 2**20), st.randoms(use_true_random=False))
def test_permuted_tokens_give_permuted_outputs(length, seed, random):
    x = apart(4, length, 0.08, UNIT, seed)
    order = list(range(length))
    random.shuffle(order)
    model = rank_one(spectral_target(1.0, 3, length), length, 0.08)
    assert (model(x[:, order]) - model(x)[:, order]).abs().max() < 1e-12


@given(st.integers(2, 6), st.floats(0.01, 0.15), st.integers(0, 2**20))
def test_drawn_tokens_keep_the_margin_and_the_interval(length, margin, seed):
    for x in (apart(8, length, margin, UNIT, seed), clustered(8, length, margin, UNIT)):
        ordered = x[..., 0].sort(-1).values
        assert ordered.diff(dim=-1).min() >= margin * (1 - 1e-9)
        assert 0 <= ordered.min() <= ordered.max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("H", "changes", "said"),
    [
        (others, {"margin": 0.6}, "cannot be that far apart"),
        (others, {"margin": 1e-3, "length": 4}, "float64 cannot tell 4 tokens apart"),
        (others, {"margin": -1.0}, "margin"),
        (others, {"length": 1}, "length"),
        (others, {"length": 9}, "length"),
        (others, {"interval": (1.0, 0.0)}, "interval must have a < b"),
        (others, {"interval": 3.0}, "interval must be a pair"),
        (lambda x: x.cumsum(1), {}, "permutation-equivariant"),
        (lambda x: x.sum(1), {}, "must return (batch, length, out)"),
        (lambda _: 1.0, {}, "must return (batch, length, out)"),
        (3, {}, "H"),
    ],
)
def test_what_cannot_be_represented_is_refused(H, changes, said):
    with pytest.raises(InputError, match=re.escape(said)):
        rank_one(H, **{"length": 3, "margin": 0.1, **changes})


def test_building_draws_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    rank_one(others, 3, 0.1)
    assert torch.equal(before, torch.get_rng_state())


def test_the_example_of_the_docstring_runs():
    found = doctest.testmod(module)
    assert found.failed == 0 < found.attempted
