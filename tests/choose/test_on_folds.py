"""Least squares on the folds of a race: those of the past alone, and beside its models."""

from dataclasses import replace

import numpy as np
import pytest
from made_samples import row
from made_samples import series as short_series

from attnrate.choose.folds import rolling
from attnrate.choose.on_folds import learned_from, rung_rows
from attnrate.choose.planning import Course
from attnrate.choose.race import least_squares_of, race_of
from attnrate.choose.samples import Samples


def autoregressive(rows: int = 1500, window: int = 4) -> Samples:
    """Windows of y(t) = 0.5 y(t-1) + 0.3 y(t-2) + noise, with the next value wanted."""
    noise = np.random.default_rng(0).normal(size=rows)
    y = np.zeros(rows)
    for t in range(2, rows):
        y[t] = 0.5 * y[t - 1] + 0.3 * y[t - 2] + noise[t]
    starts = np.arange(rows - window)
    column = y[:, None]
    return Samples(column, column, starts, window, 1, False, np.arange(rows), ("y",), ("y",))


def test_a_class_of_the_ladder_is_judged_as_least_squares_of_the_past() -> None:
    line = autoregressive()
    rows = rung_rows(line, "filter", 2, 0, progress=False)
    for fold, found in zip(rolling(line, 2), rows, strict=True):
        x = line.tokens(np.arange(line.count))[..., 0]
        x = np.column_stack([x, np.ones(line.count)])
        y = line.truth(np.arange(line.count))[:, 0, 0]
        kept = np.linalg.lstsq(x[fold.train], y[fold.train])[0]
        error = np.square(x[fold.held] @ kept - y[fold.held]).mean()
        assert found.raced.judged is not None
        assert found.raced.judged.mse == pytest.approx(error, rel=0.005)


def test_what_a_class_learns_from_has_none_of_the_rows_held_out() -> None:
    line = autoregressive()
    for fold in rolling(line, 2):
        learned = learned_from(line, fold)
        assert len(learned.x) <= line.starts[fold.held].min() + line.length
        assert (learned.starts + learned.reach <= len(learned.x)).all()
        assert learned.count == len(fold.train)


def test_least_squares_win_only_where_they_are_surely_better_on_the_same_folds() -> None:
    line = autoregressive()
    own = rung_rows(line, "filter", 2, 0, progress=False)

    def against(factor: float) -> bool:
        """A race of one model whose errors are those of least squares times a factor."""
        rows = []
        for each in own:
            judged = each.raced.judged
            assert judged is not None
            worse = tuple(factor * error for error in judged.errors)
            more = replace(judged, mse=factor * judged.mse, errors=worse)
            job = row("gru", each.job.fold, 0, [1.0]).job
            rows.append(replace(each, job=job, raced=replace(each.raced, judged=more)))
        found = race_of(line, rows, Course(10, 1, 2))
        least = least_squares_of(line, "filter", rows, found, progress=False)
        assert least is not None
        assert least.ratio == pytest.approx(1 / factor)
        return replace(found, least_squares=least).solved

    assert against(1.2)
    assert not against(1.005)
    assert not against(0.8)


def test_folds_that_are_too_short_for_a_ladder_have_no_least_squares() -> None:
    assert rung_rows(short_series(rows=60), "filter", 2, 0, progress=False) == []
