"""Errors of fits: paired by their labels, without those that diverged."""

from dataclasses import dataclass

from attnrate.experiments.contract import Done, Fit, FitOutcome
from attnrate.experiments.kits.fits import curve, errors, errors_by_seed, paired
from attnrate.fitting.trial import Trial
from attnrate.statistics import Interval


@dataclass(frozen=True)
class Curve:
    m_h: int
    seed: int


def fits(errors: dict[int, float | None]) -> list[Done[Fit[Curve], FitOutcome]]:
    return [
        Done(Fit(Curve(1, seed), Trial({}, {})), FitOutcome(error))
        for seed, error in errors.items()
    ]


def test_fits_are_paired_by_their_labels_and_those_that_diverged_are_left_out() -> None:
    above, below = fits({0: 8.0, 1: 3.0, 2: None, 3: 5.0}), fits({1: 6.0, 0: 2.0, 2: 1.0, 3: None})
    assert paired(above, below, "m_h", "seed") == [4.0, 0.5]
    assert paired(above[:1], below, "m_h") == [8 / 6, 4.0, 8.0]
    assert paired(above, [], "seed") == []


def test_a_fit_that_diverged_has_no_error() -> None:
    done = fits({4: 2.0, 5: None, 6: 3.0})
    assert errors(done) == [2.0, 3.0]
    assert errors_by_seed(done) == {4: 2.0, 6: 3.0}


def test_a_curve_has_the_values_with_their_intervals() -> None:
    drawn = curve("error", [(1.0, Interval(2.0, 1.5, 2.5, 3)), (2.0, Interval(4.0, 3.0, 5.0, 3))])
    assert (drawn.x, drawn.y) == ((1.0, 2.0), (2.0, 4.0))
    assert (drawn.low, drawn.high) == ((1.5, 3.0), (2.5, 5.0))
