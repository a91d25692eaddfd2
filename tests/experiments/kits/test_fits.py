"""Errors of fits: diverged ones are left out, pairs agree in the fields of their labels."""

from dataclasses import dataclass

from attnrate.experiments.contract import Done, Fit, FitOutcome
from attnrate.experiments.kits.fits import errors, errors_by_seed, paired
from attnrate.fitting.trial import Trial


@dataclass(frozen=True)
class Label:
    size: int
    seed: int


def done(error, size=1, seed=0):
    return Done(Fit(Label(size, seed), Trial({}, {}, {}, seed)), FitOutcome(error))


def test_diverged_fits_have_no_error():
    fits = [done(0.5), done(None, seed=1), done(0.25, seed=2)]
    assert errors(fits) == [0.5, 0.25]
    assert errors_by_seed(fits) == {0: 0.5, 2: 0.25}


def test_pairs_agree_in_the_fields_asked_for():
    above = [done(1.0, size=1), done(2.0, size=2), done(None, size=1, seed=1)]
    below = [done(0.5, size=2), done(4.0, size=1), done(1.0, size=1, seed=1)]
    assert paired(above, below, "size", "seed") == [0.25, 4.0]
    assert paired(above, below, "size") == [0.25, 1.0, 4.0]
    assert paired(above, [], "size") == []
