"""Predictors: in units of the data, to a file and back; the winner."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from made_samples import panel, series

from attnrate.choose.contender import Shape, contender
from attnrate.choose.predictor import Predictor, Scales
from attnrate.choose.samples import Samples
from attnrate.choose.training import fit_on
from attnrate.choose.winner import fit_winner
from attnrate.errors import InputError, StoreError

NAMES = ["linear", "gru", "patches", "state_space", "tcn", "transformer"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("samples", [series(horizon=2), panel()], ids=["series", "panel"])
def test_a_model_that_was_saved_and_opened_gives_the_same_numbers(
    name: str, samples: Samples, tmp_path: Path
) -> None:
    model = fit_winner(samples, name, steps=2, parameters=900, batch=8, starts=1)
    x = torch.from_numpy(samples.tokens(np.arange(5)))
    opened = Predictor.load(model.save(tmp_path / "model.safetensors"))
    with torch.no_grad():
        found = model(x)
        assert torch.equal(opened(x), found)
    assert found.shape == (5, samples.places, samples.out)
    assert opened.make == model.make


def test_a_linear_map_predicts_in_units_of_the_data() -> None:
    samples = panel(count=400)
    model = fit_winner(samples, "linear", steps=0)
    which = np.arange(100)
    error = model(torch.from_numpy(samples.tokens(which))).detach().numpy() - samples.truth(which)
    assert error.std() == pytest.approx(0.1, rel=0.15)


def test_heads_of_another_size_are_kept_in_the_file(tmp_path: Path) -> None:
    model = fit_winner(panel(), "transformer", steps=1, parameters=2500, m_h=2, batch=8)
    assert Predictor.load(model.save(tmp_path / "model.safetensors")).make.m_h == 2


def test_tokens_of_another_shape_are_refused() -> None:
    model = fit_winner(panel(), "linear", steps=0)
    with pytest.raises(InputError, match=r"\(N, 6, 2\)"):
        model(torch.zeros(3, 5, 2))


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_a_file_that_is_no_model_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreError, match="no whole model"):
        Predictor.load(path)


def test_scales_are_those_of_the_rows_that_are_learned_from_each_counted_once() -> None:
    samples = series(horizon=2)
    scales = Scales.of(samples, np.arange(50))
    inside, wanted = samples.x[: 50 + 7], samples.y[8 : 50 + 9]
    assert scales.x_mean == pytest.approx(inside.mean(0))
    assert scales.x_scale == pytest.approx(inside.std(0))
    assert scales.y_mean == pytest.approx(np.tile(wanted.mean(0), 2))
    assert scales.y_scale == pytest.approx(np.tile(wanted.std(0), 2))


def test_a_constant_coordinate_does_no_harm() -> None:
    samples = panel()
    samples.x[:, 1] = 0.1
    model = fit_winner(samples, "gru", steps=2, parameters=300, batch=8)
    assert torch.isfinite(model(torch.from_numpy(samples.tokens(np.arange(3))))).all()


def test_of_several_starts_the_one_with_the_least_watched_error_is_kept() -> None:
    samples = panel()
    size = contender("tcn").size(Shape.of(samples), 300)
    every = np.arange(samples.count)
    fits = [fit_on(samples, every, "tcn", size, seed, 5, 8, None, 0) for seed in (0, 1, 2)]
    errors = [math.inf if each.watched is None else each.watched for each in fits]
    best = fits[int(np.argmin(errors))].predictor
    found = fit_winner(samples, "tcn", steps=5, parameters=300, batch=8, starts=3)
    x = torch.from_numpy(samples.tokens(every))
    assert best is not None
    assert torch.equal(best(x), found(x))
