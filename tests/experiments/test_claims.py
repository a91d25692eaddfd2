"""Claims: verdicts from what holds and what fails, and the number that decides."""

import math

import pytest

from attnrate.experiments.claims import (
    Verdict,
    at_least,
    at_most,
    below,
    claim_of,
    equivalent,
    judge,
    judge_each,
    or_no_difference,
)
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


def test_verdicts_go_by_the_side_on_which_an_interval_lies():
    inside, touching = Interval(0.5, 0.4, 0.6, 3), Interval(0.4, 0.3, 0.5, 3)
    alone = Interval(0.1, float("nan"), float("nan"), 1)
    assert at_most(inside, 0.5) == at_least(inside, 0.5) == below(inside, 0.5) == "open"
    assert (at_most(touching, 0.5), below(touching, 0.5)) == ("holds", "open")
    assert (at_least(touching, 0.3), at_least(touching, 0.6)) == ("holds", "does not hold")
    assert at_most(inside, 0.3) == below(inside, 0.3) == "does not hold"
    assert at_most(alone, 0.5) == at_least(alone, 0.0) == below(alone, 0.5) == "open"


def test_a_statement_about_several_values_needs_all_of_them_and_falls_by_one():
    def said(*lows: float, least: int = 1) -> str:
        found = [Interval(low + 0.5, low, low + 1, 3) for low in lows]
        return judge_each(found, lambda one: one.low > 0, lambda one: one.high < 0, least)

    assert (said(1.0, 2.0), said(1.0, -0.5), said(1.0, -2.0)) == ("holds", "open", "does not hold")
    assert (said(), said(1.0, least=2)) == ("open", "open")


@pytest.mark.parametrize(
    ("verdict", "low", "high", "said"),
    [
        ("open", 0.6, 1.9, "no difference"),
        ("open", 0.5, 2.0, "no difference"),
        ("open", 0.4, 1.9, "open"),  # the interval reaches beyond what counts as equal
        ("open", 0.6, 2.1, "open"),
        ("open", math.nan, math.nan, "open"),  # a single seed shows no equality
        ("holds", 1.1, 1.9, "holds"),  # a small difference that is seen is one
        ("does not hold", 0.6, 0.9, "does not hold"),
    ],
)
def test_no_difference_needs_an_interval_within_what_counts_as_equal(
    verdict: Verdict, low: float, high: float, said: str
) -> None:
    assert or_no_difference(verdict, Interval(1.0, low, high, 3), 2.0) == said


def test_equivalence_has_limits_of_its_own_on_either_side() -> None:
    assert equivalent(Interval(0.0, -0.1, 0.2, 5), -0.1, 0.3)
    assert not equivalent(Interval(0.0, -0.2, 0.2, 5), -0.1, 0.3)
