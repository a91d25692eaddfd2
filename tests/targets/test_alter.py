"""Permuted and mixed targets by brute force, their inverses, and what is refused."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    AttentionTarget,
    PositionedInputs,
    centre_of_gravity,
    identity,
    inverse,
    linear_target,
    mixed,
    move_to_end,
    permuted,
    spectral_target,
    swap_ends,
)

SEEDS = st.integers(0, 2**31)


def positioned(length=5):
    """A target that is not equivariant: its coupling reads the position off the value (Eq. 7)."""
    return AttentionTarget(
        torch.tanh,
        identity,
        lambda u, v: torch.cos(u[..., 0] - 3 * v[..., 0]),
        length,
        PositionedInputs.shifted(length),
    )


@given(SEEDS, st.permutations(range(5)))
def test_the_permuted_target_at_x_in_the_order_p_is_the_target_at_x(seed, p):
    """Sec. 6.1, H~_t(x∘p) = H_t(x), with (x∘p)(t) = x(p(t)) built position by position."""
    target = positioned()
    x = target.sample(3, seed)
    z = torch.stack([x[:, p[t]] for t in range(5)], 1)
    np.testing.assert_array_equal(target.permuted(p)(z), target(x))


@given(SEEDS, st.permutations(range(5)))
def test_attention_weighs_the_tokens_where_they_now_stand(seed, p):
    target = positioned()
    altered = target.permuted(p)
    z = altered.sample(2, seed)
    attention = altered.attention(z)
    np.testing.assert_allclose(torch.tanh(attention @ z), altered(z), atol=1e-13)
    x = z[:, inverse(p)]
    for t, j in np.ndindex(5, 5):
        np.testing.assert_array_equal(attention[:, t, j], target.attention(x)[:, t, p[j]])


@given(SEEDS, st.permutations(range(5)))
def test_permuting_and_then_back_gives_the_target_itself(seed, p):
    target = positioned()
    back = target.permuted(p).permuted(inverse(p))
    x = target.sample(2, seed)
    np.testing.assert_array_equal(back.sample(2, seed), x)
    np.testing.assert_array_equal(back(x), target(x))
    np.testing.assert_array_equal(back.attention(x), target.attention(x))


@given(SEEDS, st.permutations(range(5)), st.permutations(range(5)))
def test_permuting_twice_is_permuting_by_p_after_q(seed, p, q):
    target = positioned()
    z = target.permuted(p).permuted(q).sample(2, seed)
    once = target.permuted([p[q[t]] for t in range(5)])
    np.testing.assert_array_equal(target.permuted(p).permuted(q)(z), once(z))


@given(SEEDS, st.permutations(range(10)))
def test_a_permuted_target_draws_the_permuted_inputs(seed, p):
    target = centre_of_gravity()
    x, z = target.sample(2, seed), target.permuted(p).sample(2, seed)
    np.testing.assert_array_equal(z, x[:, p])
    np.testing.assert_array_equal(target.permuted(p)(z), target(x))


def test_inputs_of_one_law_are_drawn_as_before():
    target = spectral_target(1, 2, length=4)
    assert target.permuted([3, 1, 2, 0]).inputs == target.inputs


def test_a_target_without_attention_has_none_when_permuted():
    plain = mixed(spectral_target(1, 2, length=4), [1.0])
    assert not hasattr(permuted(plain, [3, 2, 1, 0]), "attention")
    x = plain.sample(2, 0)
    np.testing.assert_array_equal(permuted(plain, [3, 2, 1, 0])(x), plain(x[:, [3, 2, 1, 0]]))


@given(SEEDS, st.lists(st.floats(-2, 2), min_size=1, max_size=6), st.booleans(), st.integers(1, 2))
def test_the_mixed_target_is_the_target_at_the_filtered_sequence(seed, theta, causal, d):
    rho = lambda u, v: (u * v).sum(-1)  # noqa: E731
    law = None if d == 1 else centre_of_gravity(6, 2).inputs
    target = AttentionTarget(identity, identity, rho, 6, law)
    x = target.sample(2, seed)
    filtered = torch.zeros_like(x)
    for t in range(6):
        for s, weight in enumerate(theta):
            source = t - s if causal else t + s
            if 0 <= source < 6:
                filtered[:, t] += weight * x[:, source]
    altered = target.mixed(theta, causal)
    np.testing.assert_allclose(altered(x), target(filtered), atol=1e-12)
    np.testing.assert_array_equal(altered.sample(2, seed), x)
    assert (altered.length, altered.d, altered.out) == (6, target.d, target.out)


def test_mixing_is_causal_unless_told():
    target = linear_target([1.0, 0.0, 0.0], 3)
    x = torch.tensor([[[1.0], [10.0], [100.0]]])
    assert mixed(target, [1, 2])(x).flatten().tolist() == [1, 12, 120]
    assert mixed(target, [1, 2], causal=False)(x).flatten().tolist() == [21, 210, 100]


def test_the_input_is_not_overwritten():
    target = spectral_target(1, 2, length=4)
    x = target.sample(2, 0)
    before = x.clone()
    target.mixed([2.0, 1.0])(x)
    target.permuted([3, 2, 1, 0])(x)
    assert torch.equal(x, before)


def test_the_paper_s_two_orders():
    assert swap_ends(7, 2) == [5, 6, 2, 3, 4, 0, 1]
    assert swap_ends(32)[:10] == list(range(22, 32))
    assert swap_ends(32)[22:] == list(range(10))
    assert move_to_end(7, 2) == [2, 3, 4, 5, 6, 0, 1]
    assert move_to_end(12)[:2] == [10, 11]


@given(st.integers(2, 40), st.data())
def test_swapping_twice_changes_nothing(length, data):
    k = data.draw(st.integers(1, length // 2))
    p = swap_ends(length, k)
    assert [p[i] for i in p] == list(range(length))


@given(st.integers(0, 12).flatmap(lambda n: st.permutations(range(n))))
def test_the_inverse_undoes(p):
    q = inverse(p)
    assert [q[i] for i in p] == list(range(len(p)))
    assert [p[i] for i in q] == list(range(len(p)))


@pytest.mark.parametrize("wrap", [tuple, np.array, torch.tensor, iter])
def test_a_permutation_may_be_any_list_of_whole_numbers(wrap):
    assert spectral_target(1, 2, length=3).permuted(wrap([2, 0, 1])).p == (2, 0, 1)


TARGETS = [spectral_target(1, 2, length=6), linear_target("exponential", 6)]


@pytest.mark.parametrize("target", TARGETS, ids=["attention", "linear"])
@given(p=st.permutations(range(6)), data=st.data())
def test_an_entry_that_repeats_is_named(target, p, data):
    i = data.draw(st.integers(1, 5))
    p[i] = p[data.draw(st.integers(0, i - 1))]
    with pytest.raises(InputError, match=rf"p\[{i}\] repeats") as caught:
        target.permuted(p)
    assert caught.value.value == p[i]


@pytest.mark.parametrize("target", TARGETS, ids=["attention", "linear"])
@given(
    p=st.permutations(range(6)),
    i=st.integers(0, 5),
    bad=st.integers(max_value=-1) | st.integers(6) | st.floats() | st.sampled_from(["1", None]),
)
def test_an_entry_that_is_no_position_is_named(target, p, i, bad):
    p[i] = bad
    with pytest.raises(InputError, match=rf"p\[{i}\]") as caught:
        target.permuted(p)
    assert caught.value.value is bad


@given(st.integers(0, 12).filter(lambda n: n != 6))
def test_a_permutation_of_another_length_is_refused(n):
    for target in TARGETS:
        with pytest.raises(InputError, match=f"6 entries.*not {n}"):
            target.permuted(list(range(n)))


@pytest.mark.parametrize("p", [None, 3, "012345", 1.5])
def test_what_is_no_list_is_no_permutation(p):
    for target in TARGETS:
        with pytest.raises(InputError) as caught:
            target.permuted(p)
        assert caught.value.value is p


@given(st.integers(0, 5), st.sampled_from([math.nan, math.inf, -math.inf]), st.booleans())
def test_a_filter_that_is_not_finite_is_refused_by_index(i, bad, causal):
    theta = [1.0] * 6
    theta[i] = bad
    for target in TARGETS:
        with pytest.raises(InputError, match=rf"theta\[{i}\]"):
            target.mixed(theta, causal)


@pytest.mark.parametrize("theta", [[], [[1.0]], 1.0, None, "a", [1.0] * 7, ["a"], [1j], [True]])
def test_what_is_no_filter_is_refused(theta):
    for target in TARGETS:
        with pytest.raises(InputError):
            target.mixed(theta)


@given(st.integers(-3, 60), st.integers(-3, 60))
def test_orders_need_room(length, k):
    if not (k >= 1 and 2 * k <= length):
        with pytest.raises(InputError):
            swap_ends(length, k)
    if not (1 <= k <= length):
        with pytest.raises(InputError):
            move_to_end(length, k)


@pytest.mark.parametrize("bad", [2.5, "4", None, True])
def test_orders_take_whole_numbers(bad):
    for order in (swap_ends, move_to_end):
        for arguments in ((bad, 1), (8, bad)):
            with pytest.raises(InputError) as caught:
                order(*arguments)
            assert caught.value.value is bad
