"""Numbers over fits and their intervals, and the rule of verdicts."""

import math
from typing import get_type_hints

import pytest
from conclusions import survives_json

from attnrate.experiments import load
from attnrate.experiments.contract import Done, Results
from attnrate.experiments.kits import panels
from attnrate.experiments.kits.maps import Example, Measures, RowsOutcome
from attnrate.experiments.paper.fig4 import Links


def group(*outcomes):
    jobs = [Links(target={}, model={}, recipe={}, seed=seed) for seed in range(len(outcomes))]
    return panels.Group("a case", tuple(map(Done, jobs, outcomes)))


def link(*values):
    outcomes = [RowsOutcome(rows=Measures(link=value, link_se=0.01)) for value in values]
    return group(*outcomes).link(lambda one: one.rows)


def test_one_seed_has_the_interval_of_its_inputs_several_that_over_seeds():
    one = link(0.9)
    assert (one.low, one.high) == pytest.approx((0.9 - 0.0196, 0.9 + 0.0196))
    two = link(0.6, 0.61)
    assert (two.value, two.count) == (pytest.approx(0.605), 2)
    assert two.high - two.value == pytest.approx(12.706 * 0.005, rel=1e-3)


def test_what_is_missing_is_left_out():
    measured, diverged = RowsOutcome(rows=Measures(link=0.9, link_se=0.01)), RowsOutcome(error=None)
    assert group(measured, diverged).link(lambda one: one.rows).count == 1
    assert link().count == 0
    assert link(0.9).seeds == ""
    assert "from 0.8 to 0.9 over 2 seeds" in link(0.9, 0.8).seeds


def test_fits_are_grouped_by_their_case():
    model = {"m_h": 4, "readout": "linear"}
    one = Done(Links(target={}, model=model, recipe={}, seed=3), RowsOutcome())
    by = panels.grouped([one], {"network": "a network", "linear": "linear"})
    assert {case: len(found) for case, found in by.items()} == {"network": 0, "linear": 1}
    assert by["linear"].words == "linear"


@pytest.mark.parametrize(
    ("whole", "restricted", "said"),
    [
        ((2, 2), (0, 2), "holds"),
        ((2, 2), (0, 0), "holds"),
        ((0, 2), (2, 2), "holds when corrected"),
        ((1, 2), (2, 2), "holds when corrected"),
        ((0, 2), (0, 2), "does not hold"),
        ((1, 2), (0, 2), "open"),
        ((0, 2), (1, 2), "open"),
        ((0, 2), (0, 0), "open"),
        ((0, 0), (2, 2), "open"),
    ],
)
def test_a_restricted_model_can_correct_a_statement_but_not_decide_it(whole, restricted, said):
    assert panels.verdict(panels.Kept(*whole), panels.Kept(*restricted)) == said


def test_fits_that_differ_leave_it_open():
    assert panels.at_most([0.001, 0.03], 0.02) == panels.Kept(1, 2)
    assert panels.at_most([0.001, 0.03], 0.02).verdict == "open"
    assert link(0.001, 0.02).at_most(0.02).verdict == "holds"
    assert link(0.001, 0.02).at_least(0.02).verdict == "open"
    assert link(0.001, 0.01).at_least(0.02).verdict == "does not hold"
    assert link().at_least(0.02).verdict == "open"


def test_intervals_end_where_shares_and_errors_do():
    shares = link(0.2, 1.0)
    assert (shares.low, shares.high) == (0.0, 1.0)
    errors = group(RowsOutcome(error=0.0), RowsOutcome(error=4.0)).error
    assert errors.low == 0.0
    assert errors.high > 4.0


def test_shares_are_printed_in_per_cent():
    assert panels.Number(0.99, 0.95, 1.0, 5).percent == "99.0 % [95.0, 100.0]"
    assert panels.Number(0.5, math.nan, math.nan, 1).percent == "50.0 %"
    assert link().percent == "–"


def test_links_are_drawn_from_a_weight_on_and_right_where_the_truth_has_them():
    shown = Example(((0.0,), (0.0,)), ((0.3, 0.7), (0.05, 0.95)), ((0.0, 1.0), (1.0, 0.0)), 0.6)
    places = {0: (0.0, 0.0), 1: (1.0, 0.0)}
    drawn = panels.links_panel("links", shown, {1: (1.0, 1.0)}, places, 0.05, 0.5, ("a", "b"))
    assert drawn.links == ((0, 0, 0.05), (0, 1, 0.95))
    assert drawn.right == (True, False)


@pytest.mark.parametrize("name", ["fig4", "fig5", "fig6", "gravity"])
def test_an_experiment_whose_fits_all_diverged_says_so(name: str) -> None:
    experiment = load(name)
    jobs = [one.job for one in experiment.plan("quick")]
    kinds = {type(job): get_type_hints(type(job).run)["return"] for job in jobs}
    said = experiment.conclude(Results([Done(job, kinds[type(job)]()) for job in jobs]))
    survives_json(said)
    assert said.paragraphs == ("Every finished fit of this experiment diverged.",)
    assert {claim.verdict for claim in said.claims} == {"open"}
    assert all("diverged" in claim.evidence for claim in said.claims)
    assert {row[2] for row in said.tables[0].rows} == {"diverged"}
    nothing = experiment.conclude(Results([]))
    assert nothing.paragraphs == ("No fit of this experiment is finished.",)
    assert not any("diverged" in claim.evidence for claim in nothing.claims)
