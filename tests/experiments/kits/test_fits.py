"""Errors of fits: by seed and in pairs, without those that diverged."""

from dataclasses import dataclass

from conclusions import fitted

from attnrate.experiments.contract import Done, Fit, FitOutcome
from attnrate.experiments.kits.fits import errors, errors_by_seed, paired


@dataclass(frozen=True)
class Label:
    m_h: int
    seed: int


def fits(*found: float | None) -> list[Done[Fit[Label], FitOutcome]]:
    return [fitted(Label(1, seed), error) for seed, error in enumerate(found)]


def test_those_that_diverged_have_no_error() -> None:
    assert errors(fits(2.0, None, 0.0)) == [2.0, 0.0]
    assert errors_by_seed(fits(2.0, None, 0.0)) == {0: 2.0, 2: 0.0}


def test_fits_are_paired_by_their_labels_and_those_that_diverged_are_left_out() -> None:
    above, below = fits(8.0, None, 3.0, 1.0), fits(2.0, 1.0, 6.0, None)
    assert paired(above, below, "m_h", "seed") == [4.0, 0.5]
    assert paired(above[:1], below, "m_h") == [4.0, 8.0, 8 / 6]
    assert paired(above, [], "seed") == []
