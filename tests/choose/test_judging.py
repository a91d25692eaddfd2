"""Judging: errors, variances and memory are those of a plain count."""

import copy

import numpy as np
import pytest
import torch
from made_samples import panel, series

from attnrate.choose.contender import Shape
from attnrate.choose.folds import rolling, units
from attnrate.choose.judging import bundles, constant_errors, judged, memory_of
from attnrate.choose.predictor import Make, Predictor
from attnrate.choose.samples import Samples
from attnrate.choose.winner import fit_winner

BOTH = pytest.mark.parametrize(
    "samples", [series(rows=400), panel(count=40)], ids=["series", "panel"]
)


@pytest.fixture(scope="module", params=[0, 1], ids=["series", "panel"])
def fitted(request: pytest.FixtureRequest) -> tuple[Samples, Predictor]:
    samples = [series(rows=400, horizon=2), panel(count=80)][request.param]
    return samples, fit_winner(samples, "linear", 0)


def test_errors_are_sums_over_coordinates_and_means_over_places_of_each_unit(
    fitted: tuple[Samples, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, model = fitted
    held = rolling(samples, 2)[1].held
    monkeypatch.setattr("attnrate.choose.judging._BATCH", 7)
    found = judged(samples, held, model)
    assert found is not None
    with torch.no_grad():
        guess = model(torch.from_numpy(samples.tokens(held))).numpy()
    each = np.square(guess - samples.truth(held)).sum(-1).mean(-1)
    assert found.mse == pytest.approx(each.mean())
    mine = units(samples)[held]
    assert found.units == tuple(np.unique(mine))
    for unit, error, count in zip(found.units, found.errors, found.counts, strict=True):
        assert error == pytest.approx(each[mine == unit].mean())
        assert count == (mine == unit).sum()
    assert sum(found.counts) == len(held)


def test_an_error_that_is_not_finite_is_no_result(fitted: tuple[Samples, Predictor]) -> None:
    samples, model = fitted
    held = rolling(samples, 2)[1].held

    broken = copy.deepcopy(model)
    # one coordinate of one output
    with torch.no_grad():
        broken.model.map.bias[0] = torch.nan
    assert judged(samples, held, broken) is None


@BOTH
def test_the_held_out_variance_is_around_the_mean_of_what_is_held_out(samples: Samples) -> None:
    held = rolling(samples, 2)[0].held
    errors, counts = constant_errors(samples, held)
    y = samples.truth(held)
    assert (errors * counts).sum() / counts.sum() == pytest.approx(y.var())
    assert counts.sum() == len(held)


def test_bundles_hold_whole_units_and_are_few() -> None:
    many = panel(count=1000, length=2)
    found = bundles(many)
    assert set(found) == set(range(400))
    sizes = np.bincount(found)
    assert sizes.max() - sizes.min() <= 1
    one = series(rows=400)
    np.testing.assert_array_equal(bundles(one), units(one))


def test_memory_of_training_grows_with_the_batch_and_holds_the_parameters() -> None:
    make = Make("gru", Shape.of(series()), 8)
    numbers = sum(parameter.numel() for parameter in make.model().parameters())
    few, many = memory_of(make, 4), memory_of(make, 64)
    # the weights, their gradients, and two moments, of four bytes each
    assert 16 * numbers < few < many
    solved = memory_of(Make("linear", Shape.of(series(window=8)), 0), 64)
    # of 8 features and one output: the moments twice, in double precision
    assert solved == 8 * 8 * (2 * 8 + 1)
