"""Ridge regression on all tokens: weights and ridge are those of a slow loop over ridges."""

import numpy as np
import pytest
from made_samples import panel, series

from attnrate.choose.contender import Shape
from attnrate.choose.contenders.linear import LinearMap
from attnrate.choose.least_squares import solve
from attnrate.choose.predictor import Scales
from attnrate.choose.samples import Samples

RIDGES = (1e-10, *(10.0**power for power in range(-6, 3)))


def slow(x: np.ndarray, y: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The weights and the constant of centred ridge regression, by least squares of more rows."""
    centred = x - x.mean(0)
    unit = np.square(centred).mean()
    more = np.sqrt(len(x) * ridge * unit) * np.eye(x.shape[1])
    wide = np.concatenate([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))])
    weights = np.linalg.lstsq(np.concatenate([centred, more]), wide, rcond=None)[0]
    return weights, y.mean(0) - x.mean(0) @ weights


@pytest.mark.parametrize(
    "samples",
    [series(rows=60), series(rows=200, horizon=3), panel(count=30), panel(count=80)],
    ids=["few", "ahead", "short panel", "panel"],
)
def test_the_map_is_the_ridge_regression_that_is_best_on_what_is_watched(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnrate.choose.least_squares._BLOCK", 16)
    learned, watched = np.split(np.arange(samples.count), [int(0.8 * samples.count)])
    scales = Scales.of(samples, learned)
    model = LinearMap(Shape.of(samples)).double()
    error, ridge = solve(model, samples, scales, learned, watched)

    def scaled(which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = (samples.tokens(which) - scales.x_mean) / scales.x_scale
        y = (samples.truth(which) - scales.y_mean) / scales.y_scale
        return x.reshape(len(which), -1), y.reshape(len(which), -1)

    errors = []
    for each in RIDGES:
        weights, constant = slow(*scaled(learned), each)
        x, y = scaled(watched)
        errors.append(np.square(x @ weights + constant - y).sum() / len(watched) / samples.places)
    assert ridge == pytest.approx(RIDGES[int(np.argmin(errors))])
    assert error == pytest.approx(min(errors), rel=1e-6)
    weights, constant = slow(*scaled(np.arange(samples.count)), ridge)
    np.testing.assert_allclose(model.map.weight.detach().numpy(), weights.T, atol=1e-6)
    np.testing.assert_allclose(model.map.bias.detach().numpy(), constant, atol=1e-6)
