"""The target in real time against a direct sum, its variance and its floor against sampling."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.targets import error_of
from attnrate.targets.build import build_target
from attnrate.targets.irregular import irregular_target


def test_both_tokens_tell_the_same_times():
    elapsed, time = (irregular_target(0.5, 6, carries=one) for one in ("elapsed", "time"))
    x, z = elapsed.sample(5, 0), time.sample(5, 0)
    assert torch.allclose(x[..., 0], z[..., 0])
    assert torch.allclose(x[..., 1].cumsum(1) / 6, z[..., 1])
    assert torch.allclose(elapsed(x), time(z))


def test_the_output_is_the_weighted_sum():
    target = irregular_target(0.7, 5)
    x = target.sample(3, 0)
    times = x[..., 1].cumsum(1)
    weights = (-0.7 * (times[:, :, None] - times[:, None, :])).exp().tril()
    assert torch.allclose(target(x), weights @ x[..., :1])
    assert not x[:, 0, 1].any()


def test_the_variance_is_that_of_samples():
    target = irregular_target(0.5, 7)
    squares = target(target.sample(40_000, 0)).square().mean((1, 2))
    assert abs(squares.mean() - target.variance()) < 4 * squares.std() / 200


def test_the_floor_is_the_error_of_the_mean_weights():
    target = irregular_target(0.5, 7)
    lag = torch.arange(7)[:, None] - torch.arange(7)
    mean_weights = torch.tensor(1 / 1.5, dtype=torch.float64).pow(lag.clamp(min=0)).tril()
    found = error_of(lambda x: mean_weights @ x[..., :1], target, 40_000, seed=0)
    assert abs(found.value - target.untimed_floor()) < 4 * found.standard_error


def test_least_squares_in_values_and_times_stays_at_the_floor():
    target = irregular_target(1.0, 4)
    x, fresh = target.sample(40_000, 0), target.sample(40_000, 1)
    columns = torch.cat([x.flatten(1), torch.ones(len(x), 1)], dim=1)
    best = torch.linalg.lstsq(columns, target(x)[..., 0], driver="gelsd").solution
    off = torch.cat([fresh.flatten(1), torch.ones(len(x), 1)], dim=1) @ best - target(fresh)[..., 0]
    each = off.square().mean(1)
    assert abs(each.mean() - target.untimed_floor()) < 5 * each.std() / 200


def test_slow_decay_loses_little_without_the_times():
    slow, fast = irregular_target(1e-3), irregular_target(1.0)
    assert slow.untimed_floor() / slow.variance() < 1e-4
    assert fast.untimed_floor() / fast.variance() > 0.1


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"carries": "steps"}, {"length": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError):
        build_target({"kind": "irregular", **wrong})
