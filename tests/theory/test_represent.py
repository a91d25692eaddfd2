"""Theorem A.3: what is represented is H itself, and the printed proof's f does not suffice."""

import pickle
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import PositionedInputs
from attnrate.theory.domain import union
from attnrate.theory.pod import pod
from attnrate.theory.represent import Superposition, pair_product, product_and_sum, represent

TWO = ((0.0, 1.0), (2.0, 3.0))
UNORDERED = ((4.0, 4.5), (0.5, 1.5), (2.0, 3.0))


def draw(intervals, n=200, seed=1):
    return PositionedInputs(intervals).draw(n, len(intervals), torch.Generator().manual_seed(seed))


def wild(x):
    """A continuous map that is no short superposition, with two outputs at every position."""
    a = torch.sin(x.cumsum(1)) * x.prod(1, keepdim=True)
    return torch.cat([a, torch.cos(x * x.sum(1, keepdim=True))], dim=-1)


def test_a_product_is_represented_with_the_theorems_attention():
    x = draw(TWO)
    target = represent(pair_product(TWO), TWO)
    expected = torch.stack([x[:, 0] * x[:, 1], (x[:, 0] - x[:, 1]) ** 2], dim=1)
    assert (target(x) - expected).abs().max() < 1e-12
    weights = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64) / 3
    assert (target.attention(x) - weights).abs().max() < 1e-15


def test_three_variables_on_intervals_in_any_order():
    x = draw(UNORDERED)
    target = represent(product_and_sum(UNORDERED), UNORDERED)
    t = torch.arange(3.0, dtype=torch.float64)[:, None]
    expected = x.prod(1, keepdim=True) + t * x.sum(1, keepdim=True) ** 2
    assert ((target(x) - expected) / expected).abs().max() < 1e-12
    weights = (1 + torch.eye(3, dtype=torch.float64)) / 4
    assert (target.attention(x) - weights).abs().max() < 1e-15


@pytest.mark.parametrize("intervals", [TWO, UNORDERED, ((0.0, 1.0),)])
def test_any_continuous_map_needs_only_a_slot_a_token(intervals):
    x = draw(intervals)
    target = represent(wild, intervals)
    assert (target(x) - wild(x)).abs().max() < 1e-12
    assert target.inner(x).shape[-1] == len(intervals) + 1
    assert target.out == 2


def test_n_is_that_of_the_theorem_for_a_full_superposition():
    length, sums = 2, 5  # Q = 2τd + 1
    H = Superposition([[torch.sigmoid] * length] * sums, [[torch.sin] * sums] * length)
    x = draw(TWO)
    target = represent(H, TWO)
    assert target.inner(x).shape[-1] == length * (2 * length + 1) + 1
    assert (target(x) - H(x)).abs().max() < 1e-12


@given(st.floats(1e-3, 5.0), st.integers(2, 5), st.integers(0, 2**20))
def test_f_and_u_stay_in_the_unit_cube_and_every_strength_represents_h(strength, length, seed):
    law = PositionedInputs.shifted(length, 0.3)
    x = draw(law.intervals, n=8, seed=seed)
    target = represent(wild, law, strength)
    assert 0 <= target.f(x).min() <= target.f(x).max() <= 1
    assert 0 <= target.inner(x).min() <= target.inner(x).max() <= 1
    scale = 1 + wild(x).abs().max()
    assert (target(x) - wild(x)).abs().max() < 1e-11 * scale


def test_the_target_works_in_float32():
    x = draw(UNORDERED)
    single = represent(wild, UNORDERED)(x.float())
    assert single.dtype == torch.float32
    assert (single - wild(x)).abs().max() < 1e-3


def test_the_rank_of_rho_is_the_number_of_positions_and_one_less_for_softmax():
    law = PositionedInputs.shifted(3)
    rho, domain = represent(wild, law).rho, union(*law.intervals)
    np.testing.assert_allclose(pod(rho, domain).sigma, [log(2)] * 3, rtol=1e-12)
    np.testing.assert_allclose(pod(rho, domain, gauge="softmax").sigma, [log(2)] * 2, rtol=1e-12)


def test_singular_values_are_strength_times_width_so_c1_has_no_positive_infimum():
    rho = represent(wild, UNORDERED, strength=1e-4).rho
    sigma = pod(rho, union(*UNORDERED)).sigma
    np.testing.assert_allclose(sigma, [1e-4, 1e-4, 0.5e-4], rtol=1e-12)
    x = draw(UNORDERED)
    assert (represent(wild, UNORDERED, strength=1e-4)(x) - wild(x)).abs().max() < 1e-9


def test_with_the_f_of_eq_26_no_F_can_exist():
    # H_0 = y_0 + y_1 with y_s = x_s - low_s: 2τd+1 = 5 inner sums, of which one is used
    inner = [[lambda x: x, lambda x: x - 2.0]] * 5
    outer = [[lambda a: a, *[torch.zeros_like] * 4]] * 2
    H = Superposition(inner, outer)
    b = (0.0, 0.5)

    def u_printed(x):
        f = torch.stack(
            [torch.tensor([*(row[s](x[0, s, 0]) for row in inner), b[s]]) for s in (0, 1)]
        )
        return (2 * f[0] + f[1]) / 3

    one = torch.tensor([[[0.0], [3.0]]], dtype=torch.float64)
    two = torch.tensor([[[0.5], [2.0]]], dtype=torch.float64)
    assert torch.equal(u_printed(one), u_printed(two))
    assert H(one)[0, 0, 0] == 1.0
    assert H(two)[0, 0, 0] == 0.5
    mended = represent(H, TWO)
    assert mended(one)[0, 0, 0] == pytest.approx(1.0, abs=1e-14)
    assert mended(two)[0, 0, 0] == pytest.approx(0.5, abs=1e-14)


def test_a_token_in_a_gap_counts_as_the_nearer_interval():
    target = represent(wild, TWO)
    gap = torch.tensor([[[1.2], [1.8]]], dtype=torch.float64)
    edge = torch.tensor([[[1.0], [2.0]]], dtype=torch.float64)
    assert torch.equal(target(gap), target(edge))


@pytest.mark.parametrize(
    ("inner", "outer", "value"),
    [
        ([], [[torch.sin]], []),
        ("sin", [[torch.sin]], "sin"),
        ([[torch.sin, 3]], [[torch.sin]] * 2, 3),
        ([[torch.sin] * 2, [torch.sin]], [[torch.sin] * 2] * 2, 1),
        ([[torch.sin] * 2], [[torch.sin]] * 3, 3),
        ([[torch.sin] * 2], [[torch.sin] * 4] * 2, 4),
    ],
)
def test_a_superposition_with_missing_functions_is_refused(inner, outer, value):
    with pytest.raises(InputError) as caught:
        Superposition(inner, outer)
    assert caught.value.value == value


@given(st.floats(allow_nan=True, allow_infinity=True).filter(lambda c: not 1e-6 <= c <= 20))
def test_a_strength_that_f_cannot_undo_is_refused(strength):
    with pytest.raises(InputError) as caught:
        represent(wild, TWO, strength)
    assert caught.value.value is strength or caught.value.value == strength


@given(st.floats(0.0, 1.0), st.floats(1e-3, 2.0))
def test_intervals_that_meet_are_refused(gap, width):
    pair = ((0.0, width), (width * (1 - gap), 3 * width))
    with pytest.raises(InputError, match="not disjoint") as caught:
        represent(wild, pair)
    assert caught.value.value == pair


def test_inner_functions_must_map_into_the_unit_interval():
    H = Superposition([[lambda x: x, lambda x: x]], [[torch.sin]] * 2)
    with pytest.raises(InputError, match=r"inner\[0\]\[1\]") as caught:
        represent(H, TWO)
    assert caught.value.value == 2.0


def test_an_inner_function_must_act_elementwise():
    H = Superposition([[torch.sigmoid, lambda x: x.mean()]], [[torch.sin]] * 2)
    with pytest.raises(InputError, match="elementwise") as caught:
        represent(H, TWO)
    assert caught.value.value == ()


def test_the_number_of_intervals_must_be_that_of_the_positions():
    with pytest.raises(InputError) as caught:
        represent(pair_product(TWO), UNORDERED)
    assert caught.value.value == 3


@pytest.mark.parametrize(
    ("H", "value"), [(7, 7), (lambda x: x[:, :1], (2, 1, 1)), (lambda x: 3, 3)]
)
def test_what_is_no_sequence_map_is_refused(H, value):
    with pytest.raises(InputError) as caught:
        represent(H, TWO)
    assert caught.value.value == value


def test_the_examples_refuse_intervals_that_they_are_not_made_for():
    with pytest.raises(InputError, match="two intervals"):
        pair_product(UNORDERED)
    with pytest.raises(InputError, match="positive") as caught:
        product_and_sum(TWO)
    assert caught.value.value == 0.0


def test_a_represented_map_can_be_pickled_where_the_map_can():
    elementwise = Superposition([[torch.sigmoid] * 2], [[torch.square], [torch.exp]])
    for H in (wild, elementwise):
        target = represent(H, TWO)
        again = pickle.loads(pickle.dumps(target))  # noqa: S301 - our own, just made
        x = draw(TWO, 20)
        assert torch.equal(again(x), target(x))


def test_a_superposition_says_how_large_it_is():
    assert repr(pair_product(TWO)) == "Superposition of 2 positions and 2 sums"
