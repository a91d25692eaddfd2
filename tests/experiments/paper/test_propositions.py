"""The experiment propositions: checks survive as claims, Theorem A.3 is checked."""

import json
from dataclasses import replace

import pytest

from attnrate.experiments.contract import Done, Results
from attnrate.experiments.paper.propositions import EXPERIMENT, ChecksOutcome, check_A_3
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.run import results_of, run_job
from attnrate.fitting.records import Finished


@pytest.fixture(scope="module")
def results():
    """As a worker makes them and a store keeps them."""
    (one,) = EXPERIMENT.plan("quick")
    kept = json.loads(json.dumps(run_job(one.job.settings), allow_nan=False))
    row = Finished(one.job.key, one.job.settings, kept, 1.0, "here", "now")
    return results_of([one.job], {row.key: row})


def test_both_presets_run_the_same_checks():
    quick, paper = EXPERIMENT.plan("quick"), EXPERIMENT.plan("paper")
    assert [one.job.key for one in quick] == [one.job.key for one in paper]


def test_every_check_becomes_a_claim_with_its_verdict(results):
    claims = EXPERIMENT.conclude(results).claims
    checks = results.done[0].outcome.checks
    assert [claim.verdict for claim in claims] == [check.verdict for check in checks]
    assert [claim.value for claim in claims] == [check.value for check in checks]
    assert [claim.name for claim in claims] == [
        "propositions-equivariance",
        "propositions-6-1",
        "propositions-6-2",
        "propositions-6-3",
        "propositions-b-1-1",
        "propositions-b-1-2",
        "propositions-b-1-3",
        "propositions-theorem-a-3",
    ]
    for claim in claims:
        assert bool(claim.correction) == (claim.verdict == "holds when corrected")
        assert claim.place.startswith(("App.", "Sec."))


def test_a_refuted_check_is_a_refuted_claim(results):
    (one,) = results.done
    spoilt = tuple(replace(check, verdict="does not hold") for check in one.outcome.checks)
    said = EXPERIMENT.conclude(Results([Done(one.job, ChecksOutcome(spoilt))]))
    assert {claim.verdict for claim in said.claims} == {"does not hold"}
    assert f"{len(spoilt)} does not hold" in said.paragraphs[0]


def test_the_record_survives_json(results):
    said = EXPERIMENT.conclude(results)
    record = Record("propositions", "", "", "quick", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_from_plain(plain).conclusion == said


def test_without_results_nothing_is_claimed():
    assert EXPERIMENT.conclude(Results()).claims == ()


def test_theorem_A_3_holds_to_rounding_with_fewer_features_than_stated():
    check = check_A_3(samples=50, seed=3)
    assert check.verdict == "holds"
    assert check.value < 1e-12
    assert "n = 5, 7, 4 (the theorem: at most 11, 22, 22)" in check.detail


def test_theorem_A_3_can_fail(monkeypatch):
    from attnrate.experiments.paper import propositions

    monkeypatch.setattr(propositions, "represent", lambda H, where: represent_twice(H, where))
    assert check_A_3(samples=20).verdict == "does not hold"


def represent_twice(H, intervals):
    from attnrate.theory.represent import represent

    return represent(lambda x: 2 * H(x), intervals)
