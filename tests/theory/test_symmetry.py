"""Floors of symmetric models: closed forms against brute force, and against every model tried."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    GaussianInputs,
    LinearTarget,
    PositionedInputs,
    linear_target,
    spectral_target,
)
from attnrate.theory.symmetry import averaged, reordered_floor, symmetric_floor, symmetries

GROUPS = {
    "all": lambda n: list(permutations(range(n))),
    "reversal": lambda n: [tuple(range(n)), tuple(range(n))[::-1]],
    "none": lambda n: [tuple(range(n))],
}


def matrix(length, seed):
    return np.random.default_rng(seed).normal(size=(length, length))


@given(st.sampled_from([*GROUPS]), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=30)
def test_the_mean_over_a_group_is_the_mean_over_its_permutations(symmetry, length, seed):
    M = matrix(length, seed)
    group = [list(g) for g in GROUPS[symmetry](length)]
    slow = np.mean([M[np.ix_(g, g)] for g in group], axis=0)
    found = averaged(M, symmetry)
    np.testing.assert_allclose(found, slow, atol=1e-14)
    for g in group:
        np.testing.assert_allclose(found[np.ix_(g, g)], found, atol=1e-14)


@given(st.sampled_from([*GROUPS]), st.integers(2, 5), st.integers(0, 99))
@settings(max_examples=20)
def test_no_equivariant_linear_map_beats_the_floor_and_the_mean_attains_it(symmetry, length, seed):
    target = LinearTarget(matrix(length, seed), GaussianInputs(mean=0.7, std=1.3))

    def cost(A):
        D = target.matrix - A
        return np.mean(1.3**2 * (D**2).sum(1) + (0.7 * D.sum(1)) ** 2)

    floor = symmetric_floor(target, symmetry)
    best = averaged(target.matrix, symmetry)
    assert floor == pytest.approx(cost(best), abs=1e-14)
    for other in range(5):
        assert cost(best + 0.1 * averaged(matrix(length, other), symmetry)) >= floor - 1e-14


def test_nonlinear_maps_do_not_beat_the_floor_either():
    # least squares over many functions of (x(t), all tokens in order) is a slow, separate answer
    target = linear_target("exponential", 3)
    x = target.sample(40_000, 1)
    y = target(x)[..., 0]
    ordered = x[..., 0].sort(1).values
    columns = []
    for t in range(3):
        own = x[:, t]
        parts = [
            own**i * ordered[:, j : j + 1] ** k
            for i in range(3)
            for j in range(3)
            for k in (0, 1, 2)
        ]
        columns.append(torch.cat(parts, 1))
    design, wanted = torch.cat(columns), y.T.reshape(-1)
    left = (
        wanted - design @ torch.linalg.lstsq(design, wanted[:, None], driver="gelsd").solution[:, 0]
    )
    floor = symmetric_floor(target, "all")
    assert float(left.square().mean()) == pytest.approx(floor, rel=0.02)


def test_a_symmetric_target_has_no_floor_and_one_that_swaps_two_tokens_has_a_known_one():
    assert symmetric_floor(LinearTarget([[2.0, 1.0], [1.0, 2.0]]), "all") == 0
    # y = (x_0, 0): half of it can be had at each position, of variance 1/12 and mean square 1/3
    floor = symmetric_floor(LinearTarget([[1.0, 0.0], [0.0, 0.0]]), "reversal")
    assert floor == pytest.approx((1 / 12 + 1 / 4) / 4)


def test_an_order_that_commutes_with_the_reversal_does_not_change_its_floor():
    target = linear_target("exponential", 6)
    swapped = target.permuted([4, 5, 2, 3, 0, 1])
    assert symmetric_floor(swapped, "reversal") == pytest.approx(
        symmetric_floor(target, "reversal")
    )
    assert symmetric_floor(swapped, "all") > symmetric_floor(target, "all")


@pytest.mark.parametrize("symmetry", ["all", "reversal"])
def test_an_equivariant_target_in_another_order_has_the_floor_of_its_mean(symmetry):
    p, n = [1, 2, 0, 3], 4
    target = spectral_target(1.0, 2, n)
    permuted = target.permuted(p)
    x = target.sample(4000, 3)
    group = [list(g) for g in GROUPS[symmetry](n)]
    mean = sum(permuted(x[:, g])[:, np.argsort(g)] for g in group) / len(group)
    y = permuted(x)
    spread = float(target(x).var(1).mean())
    slow = float((y - mean).square().mean())
    assert reordered_floor(p, spread, symmetry) == pytest.approx(slow, rel=0.05)
    assert reordered_floor(range(n), spread, symmetry) == 0


def test_symmetries_are_found_by_trying():
    assert len(symmetries(lambda x: x.sum(1, keepdim=True) - x**2, 4, 1e-12)) == 24
    assert symmetries(lambda x: x.cumsum(1), 3, 1e-12) == ((0, 1, 2),)
    turned = symmetries(lambda x: x.cumsum(1) + x.flip(1).cumsum(1).flip(1) * x, 3, 1e-12)
    assert turned == ((0, 1, 2),)
    even = symmetries(lambda x: (x.roll(1, 1) + x.roll(-1, 1)).square(), 4, 1e-12)
    assert len(even) == 8  # the symmetries of a square


def test_what_has_no_such_floor_is_refused():
    with pytest.raises(InputError, match="independent and of one law"):
        symmetric_floor(linear_target("exponential", 3, PositionedInputs.shifted(3)), "all")
    with pytest.raises(InputError, match="6 positions at most"):
        symmetries(lambda x: x, 7, 1e-12)
