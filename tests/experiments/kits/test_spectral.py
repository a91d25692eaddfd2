"""Errors over sizes and seeds: points in order, means with intervals, exponents, words."""

import math
from dataclasses import dataclass

import pytest
import torch
from conclusions import fitted

from attnrate.experiments.kits.spectral import (
    LONG,
    Spectral,
    cell,
    error_series,
    known,
    known_value,
    outputs,
    points,
    seeds_word,
    shown,
    slope_of,
    steps_word,
)
from attnrate.statistics import geometric_mean
from attnrate.theory.compile import compile_target


@dataclass(frozen=True)
class Label:
    m_h: int
    seed: int


def fit(m_h, error, seed=0, steps=0):
    return fitted(Label(m_h, seed), error, steps=steps)


FITS = [fit(4, 1.0), fit(2, 4.0), fit(2, 16.0, 1), fit(8, None), fit(4, 4.0, 1)]


def test_points_are_in_order_and_without_fits_that_diverged():
    assert points(FITS, "m_h") == [(2, 4.0), (2, 16.0), (4, 1.0), (4, 4.0)]
    assert slope_of(points(FITS, "m_h")).value == pytest.approx(-2.0)
    assert not known(slope_of(points(FITS, "m_h"), 3))


def test_a_series_has_means_over_seeds_where_there_are_errors():
    series = error_series("errors", FITS, "m_h")
    assert series.x == (2.0, 4.0)
    assert series.y == pytest.approx((8.0, 2.0))
    assert cell(FITS, m_h=2).value == pytest.approx(8.0)
    assert math.isnan(cell(FITS, m_h=8).value)


def test_what_is_not_known_is_said_so():
    assert (shown(geometric_mean([])), known_value(geometric_mean([]))) == ("not run", None)
    assert known_value(geometric_mean([2.0])) == pytest.approx(2.0)


def test_words_for_seeds_steps_and_ranks():
    assert (seeds_word(FITS[:1]), seeds_word(FITS)) == ("one seed", "2 seeds")
    assert steps_word(FITS) == ""
    assert steps_word([fit(1, 1.0, steps=1200)]) == ", 1,200 steps"
    assert steps_word([fit(1, 1.0, steps=s) for s in (5, 40)]) == ", 5 to 40 steps"
    assert Spectral(1.0, LONG).name == "α = 1, r = ∞"


def test_outputs_in_parts_are_those_of_the_whole():
    target = Spectral(1.0, 2).build()
    model, x = compile_target(target, 1), target.sample(300, 0)
    with torch.no_grad():
        assert torch.allclose(outputs(model, x), model(x), rtol=0, atol=1e-12)
