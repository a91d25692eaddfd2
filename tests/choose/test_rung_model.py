"""Rungs as models: they predict what the design times the coefficients is, in any batch."""

import numpy as np
import pytest
from cut_samples import attended, autoregressive, filtered, windows

from attnrate.choose.features import Features
from attnrate.choose.ladder import BLOCKS, ladder
from attnrate.choose.rung_model import rung_model
from attnrate.choose.rungs import GROUPS, Class, fit_classes
from attnrate.choose.samples import Samples
from attnrate.choose.sums import scaled, sums

X = autoregressive(300, 0.5) + 20.0
SERIES = windows(X, np.concatenate([X, filtered(X, [0.5, 1.0], 0.3)], axis=1)[:, :1], 6, 2)
PANEL = attended(60, 4, 0.3)
HOLES = X.copy()
HOLES[100:103] = np.nan
FREE = SERIES.starts[(SERIES.starts > 102) | (SERIES.starts + 8 <= 100)]
BROKEN = Samples(HOLES, HOLES, FREE, 6, 2, False, SERIES.time, ("x0",), ("x0",))


@pytest.mark.parametrize("samples", [SERIES, PANEL, BROKEN], ids=["series", "panel", "missing"])
def test_predictions_are_the_design_times_the_coefficients(samples: Samples) -> None:
    features = Features(samples)
    data = scaled(samples, features.of)
    fitted = fit_classes(features, sums(data, BLOCKS, 0))
    every = np.arange(samples.count)
    design = (features.of(every) - data.centre) / data.scale
    for one in fitted.values():
        wanted = design[:, one.columns] @ one.kept + data.level
        found = rung_model(features, data, one)(samples.tokens(every))
        assert found.shape == samples.truth(every).shape
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=1e-8)


@pytest.mark.parametrize("samples", [SERIES, PANEL], ids=["series", "panel"])
@pytest.mark.parametrize("name", [*GROUPS])
def test_a_sample_is_predicted_alike_whatever_stands_beside_it(
    samples: Samples, name: Class, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ladder(samples, progress=False).models[name]
    x = samples.tokens(np.arange(40))
    whole = model(x)
    np.testing.assert_allclose(model(x[7:9]), whole[7:9], atol=1e-9)
    monkeypatch.setattr("attnrate.choose.rung_model._BATCH", 20)
    np.testing.assert_allclose(model(x), whole, atol=1e-9)
    assert model(x[:0]).shape == (0, *whole.shape[1:])


def test_new_tokens_are_ranked_among_those_that_were_learned_from() -> None:
    drawn = np.random.default_rng(0)
    x = drawn.uniform(-1, 1, (4000, 1))
    samples = windows(x, np.abs(x) + 0.01 * drawn.normal(size=x.shape), 2)
    model = ladder(samples, progress=False).models["memoryless"]
    new = np.array([[[0.0], [-0.5]], [[0.3], [0.7]]])
    np.testing.assert_allclose(model(new)[:, 0, 0], [0.5, 0.7], atol=0.05)
