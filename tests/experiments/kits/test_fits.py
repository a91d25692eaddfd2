"""Errors of fits: paired by labels, over sizes and seeds, their exponents and power laws."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from conclusions import fitted

from attnrate.experiments.contract import Done, Fit, FitOutcome
from attnrate.experiments.kits.fits import (
    Fits,
    cell_of,
    curve,
    errors,
    fit_power_law,
    listed,
    paired,
    slope_of,
)
from attnrate.statistics import Interval, geometric_mean


@dataclass(frozen=True)
class Label:
    size: int
    seed: int


def fit(m_h: int, error: float | None, seed: int = 0, steps: int = 0) -> Done[Fit, FitOutcome]:
    return fitted(Label(m_h, seed), error, steps=steps)


def fits(errors: dict[int, float | None]) -> Fits:
    return Fits(fit(1, error, seed) for seed, error in errors.items())


def test_fits_are_paired_by_their_labels_and_those_that_diverged_are_left_out() -> None:
    above, below = fits({0: 8.0, 1: 3.0, 2: None, 3: 5.0}), fits({1: 6.0, 0: 2.0, 2: 1.0, 3: None})
    assert paired(above, below, "size", "seed") == [4.0, 0.5]
    assert paired(above[:1], below, "size") == [8 / 6, 4.0, 8.0]
    assert paired(above, [], "seed") == []
    assert above.over(below, "size", "seed") == [4.0, 0.5]


def test_a_fit_that_diverged_has_no_error() -> None:
    done = fits({4: 2.0, 5: None, 6: 3.0})
    assert errors(done) == [2.0, 3.0]
    assert done.by_seed == {4: 2.0, 6: 3.0}


def test_a_curve_has_the_values_with_their_intervals() -> None:
    drawn = curve("error", [(1.0, Interval(2.0, 1.5, 2.5, 3)), (2.0, Interval(4.0, 3.0, 5.0, 3))])
    assert (drawn.x, drawn.y) == ((1.0, 2.0), (2.0, 4.0))
    assert (drawn.low, drawn.high) == ((1.5, 3.0), (2.5, 5.0))


FITS = Fits([fit(4, 1.0), fit(2, 4.0), fit(2, 16.0, 1), fit(8, None), fit(4, 4.0, 1)])


def test_points_are_in_order_and_without_fits_that_diverged() -> None:
    found = FITS.points
    assert found == [(2, 4.0), (2, 16.0), (4, 1.0), (4, 4.0)]
    assert FITS.slope.value == pytest.approx(-2.0)
    assert slope_of(found) == FITS.slope
    assert not slope_of(found, 3).known


def test_a_series_has_means_over_seeds_where_there_are_errors() -> None:
    series = FITS.series("errors")
    assert series.x == (2.0, 4.0)
    assert series.y == pytest.approx((8.0, 2.0))
    assert FITS.mean(size=2).value == pytest.approx(8.0)
    assert math.isnan(FITS.mean(size=8).value)


def test_what_is_not_known_is_said_so() -> None:
    assert (geometric_mean([]).shown, geometric_mean([]).limits[0]) == ("not run", None)
    assert geometric_mean([2.0]).limits[0] == pytest.approx(2.0)
    assert listed({"a": "1", "b": geometric_mean([2.0])}) == "a: 1; b: 2"
    assert listed({}) == "not run"


def test_fits_that_all_diverged_are_not_fits_that_were_not_run() -> None:
    lost, kept, none = fits({0: None, 1: None}), fits({0: 2.0, 1: None}), Fits()
    assert (lost.diverged, kept.diverged, none.diverged) == (True, False, False)
    assert [one.mean().shown for one in (lost, kept, none)] == ["diverged", "2", "not run"]
    assert [one.slope.shown for one in (lost, kept, none)] == ["diverged", "not run", "not run"]
    pairs = ((lost, kept), (kept, lost), (none, lost), (kept, none), (kept, kept))
    words = ["diverged", "diverged", "not run", "not run", "1"]
    assert [one.ratio(other, "seed").shown for one, other in pairs] == words
    assert (listed({}, lost), listed({}, kept)) == ("diverged", "not run")
    assert [cell_of(one.mean()) for one in (lost, none)] == ["diverged", None]
    assert not lost.mean().known


def test_seeds_and_steps_of_fits() -> None:
    assert FITS.seeds == {0, 1}
    assert FITS.steps == ""
    assert Fits([fit(1, 1.0, steps=1200)]).steps == ", 1,200 steps"
    assert Fits(fit(1, 1.0, steps=s) for s in (5, 40)).steps == ", 5 to 40 steps"


SIZES = [1, 2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("b", [0.1, 0.27, 1.0, 2.5])
def test_an_exact_law_is_found(b: float) -> None:
    law = fit_power_law(SIZES, [2.0 * m**-b + 1.05 for m in SIZES])
    assert law is not None
    assert law.b.value == pytest.approx(b, rel=5e-3)
    assert law.at(1) == pytest.approx(3.05, rel=1e-3)
    assert law.at(64) == pytest.approx(2.0 * 64**-b + 1.05, rel=1e-3)
    assert law.p_flat < 1e-6


@pytest.mark.parametrize("relative", [False, True])
def test_the_interval_holds_the_truth_as_often_as_it_says(relative: bool) -> None:
    random = np.random.default_rng(2 * relative)
    m = np.array(SIZES * (3 if relative else 2), dtype=float)
    truth = m**-1.5 + 0.01 if relative else m**-0.5 + 1.0
    held = 0
    for _ in range(100):
        noise = random.standard_normal(len(m))
        noisy = truth * np.exp(0.1 * noise) if relative else truth + 0.02 * noise
        law = fit_power_law(m.tolist(), noisy.tolist(), relative)
        assert law is not None
        held += law.b.low <= (1.5 if relative else 0.5) <= law.b.high
    assert 88 <= held <= 100


@pytest.mark.parametrize("b", [0.1, 1.0, 2.5])
def test_errors_over_decades_are_fitted_by_their_shares(b: float) -> None:
    law = fit_power_law(SIZES, [2.0 * m**-b + 1e-4 for m in SIZES], relative=True)
    assert law is not None
    assert law.b.value == pytest.approx(b, rel=5e-3)
    # a constant far below all values is hardly seen
    assert law.c == pytest.approx(1e-4, rel=0.2 if b > 0.1 else 1e3)


def test_relative_constants_are_not_negative() -> None:
    falling = [2.0 * m**-1.0 - 0.02 for m in SIZES]
    free, bounded = (fit_power_law(SIZES, falling, relative) for relative in (False, True))
    assert free is not None
    assert bounded is not None
    assert free.c < -0.01
    assert bounded.c >= 0
    assert bounded.b.value > 1.0


def test_noise_without_a_law_bounds_no_exponent_and_looks_flat() -> None:
    random = np.random.default_rng(1)
    found = [fit_power_law(SIZES * 2, random.standard_normal(14).tolist()) for _ in range(40)]
    assert np.mean([law is not None and law.p_flat < 0.05 for law in found]) <= 0.2
    assert not all(law is not None and law.bounded for law in found)


def test_too_few_values_have_no_law() -> None:
    assert fit_power_law([1, 2, 4], [3.0, 2.0, 1.5]) is None
    assert fit_power_law([1, 1, 2, 2], [3.0, 2.0, 1.5, 1.0]) is None


def test_an_end_of_what_was_looked_at_is_no_limit() -> None:
    rising = fit_power_law(SIZES, [1.0, 1.3, 1.1, 1.2, 1.3, 1.1, 1.2])
    assert rising is not None
    assert not rising.seen
    assert rising.limits[1:] == (None, None)
    assert str(rising).endswith(" [≤ 0.01, ≥ 8]")
    law = fit_power_law(SIZES, [2.0 * m**-0.5 + 1.05 for m in SIZES])
    assert law is not None
    assert law.seen
    assert None not in law.limits
    assert "≤" not in str(law)
