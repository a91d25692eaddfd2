"""What pairs of tokens can have of a mixed coupling: closed forms, and drawn sequences."""

import math

import numpy as np
import pytest

from attnrate.errors import InputError
from attnrate.theory.blurred import blurred, missed_share

SIGMA = [1.0, 0.5, 1 / 3]


def rho(u, v):
    return sum(
        2 * one * np.sin(2 * math.pi * k * u) * np.sin(2 * math.pi * k * v)
        for k, one in enumerate(SIGMA, 1)
    )


def test_without_mixing_pairs_have_the_whole_coupling():
    for lag in (1, 5):
        found = blurred(SIGMA, [1.0], lag)
        assert found.sigma[:3] == pytest.approx(SIGMA)
        assert found.rank == 3
        assert found.square == pytest.approx(sum(one**2 for one in SIGMA))
    assert missed_share(SIGMA, [1.0], 3, 8) == pytest.approx(0, abs=1e-12)
    # beyond a smaller head there is the tail
    tail = (0.5**2 + 1 / 9) / (1 + 0.5**2 + 1 / 9)
    assert missed_share(SIGMA, [1.0], 1, 8) == pytest.approx(tail)


def test_mixing_doubles_the_rank_where_windows_overlap_and_nowhere_else():
    theta = [0.6, 0.4]
    assert blurred(SIGMA, theta, 1).rank == 6
    assert blurred(SIGMA, theta, 2).rank == 3


@pytest.mark.parametrize("lag", [1, 2, 4])
def test_drawn_sequences_have_the_same_mean_square_and_conditional_mean(lag):
    theta = np.array([0.5, -0.3, 0.4])
    drawn = np.random.default_rng(0).uniform(size=(40_000, lag + 3))
    late, early = drawn[:, :3] @ theta, drawn[:, lag : lag + 3] @ theta
    values = rho(late, early)
    found = blurred(SIGMA, theta.tolist(), lag)
    error = np.square(values).std() / 200
    assert abs(np.square(values).mean() - found.square) < 4 * error
    # E[K²] = E[ρ ρ'] for another ρ' with the same two tokens and others drawn anew
    other = np.random.default_rng(1).uniform(size=drawn.shape)
    other[:, [0, lag]] = drawn[:, [0, lag]]
    product = values * rho(other[:, :3] @ theta, other[:, lag : lag + 3] @ theta)
    assert abs(product.mean() - found.kept(len(found.sigma))) < 4 * product.std() / 200


def test_more_mixing_and_smaller_heads_miss_more():
    theta = np.array([0.2, 0.5, 0.3])
    blends = [(1 - share) * np.eye(3)[0] + share * theta for share in (0.0, 0.2, 0.5)]
    missed = [missed_share(SIGMA, one.tolist(), 3, 8) for one in blends]
    assert missed == sorted(missed)
    assert missed[0] < 1e-12 < missed[1]
    heads = [missed_share(SIGMA, theta.tolist(), rank, 8) for rank in (1, 2, 3, 6)]
    assert heads == sorted(heads, reverse=True)
    assert 0 < heads[-1] < heads[0] < 1


def test_a_token_is_not_paired_with_itself():
    with pytest.raises(InputError, match="lag"):
        blurred(SIGMA, [1.0], 0)
