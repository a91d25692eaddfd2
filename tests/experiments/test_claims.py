"""Claims: verdicts from what holds and what fails, and the number that decides."""

import pytest

from attnrate.experiments.claims import claim_of, judge
from attnrate.statistics import Interval


@pytest.mark.parametrize(
    ("holds", "fails", "enough", "verdict"),
    [
        (True, False, True, "holds"),
        (False, True, True, "does not hold"),
        (False, False, True, "open"),
        (True, False, False, "open"),
        (False, True, False, "open"),
    ],
)
def test_a_verdict_needs_enough_results(
    holds: bool, fails: bool, enough: bool, verdict: str
) -> None:
    assert judge(holds, fails, enough) == verdict


def test_a_claim_has_its_experiment_s_name_and_the_interval_of_its_number() -> None:
    claim = claim_of("fig1", "falls", "Sec. 5.1", "It falls.", "holds", "By half.", 0.5)
    assert (claim.name, claim.experiment) == ("fig1-falls", "fig1")
    assert (claim.value, claim.low, claim.high) == (0.5, None, None)
    bounded = claim_of("fig1", "a", "b", "c", "open", "d", Interval(2.0, 1.0, 3.0, 4))
    assert (bounded.value, bounded.low, bounded.high) == (2.0, 1.0, 3.0)
    assert claim_of("fig1", "a", "b", "c", "open", "d").value is None
