"""The winner: the best of several starts by what is watched, and an error if all diverged."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made_samples import series

from attnrate.choose import winner
from attnrate.choose.winner import fit_winner
from attnrate.errors import WorkerError

SAMPLES = series(rows=200)


def test_of_several_starts_the_least_watched_error_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = {5: 0.4, 6: 0.2, 7: None}
    model = {start: fit_winner(SAMPLES, "linear", 0) for start in watched}
    called = []

    def fit_on(samples, which, name, size, start, steps, batch, m_h, division):
        called.append((start, division))
        assert len(which) == samples.count
        return SimpleNamespace(watched=watched[start], predictor=model[start])

    monkeypatch.setattr(winner, "fit_on", fit_on)
    assert fit_winner(SAMPLES, "gru", 10, seed=5) is model[6]
    # what is watched is the same for all starts, so that their errors can be compared
    assert called == [(5, 5), (6, 5), (7, 5)]
    called.clear()
    fit_winner(SAMPLES, "linear", 0, seed=5)
    assert called == [(5, 5)]


def test_where_all_diverged_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = SimpleNamespace(watched=None, predictor=None)
    monkeypatch.setattr(winner, "fit_on", lambda *given: gone)
    with pytest.raises(WorkerError, match="gru diverged on all samples"):
        fit_winner(SAMPLES, "gru", 10)


def test_the_linear_winner_is_least_squares_of_all_samples() -> None:
    every = np.arange(SAMPLES.count)
    model = fit_winner(SAMPLES, "linear", 0)
    with torch.no_grad():
        found = model(torch.from_numpy(SAMPLES.tokens(every))).numpy()
    design = np.column_stack([np.ones(SAMPLES.count), SAMPLES.tokens(every)[..., 0]])
    truth = SAMPLES.truth(every)[:, 0]
    least = np.square(truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]).mean()
    error = np.square(found[:, 0] - truth).mean()
    assert least <= error < 1.02 * least
    assert math.isfinite(error)
