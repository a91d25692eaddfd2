"""The experiment propositions: checks survive as claims, Theorem A.3 is checked."""

import json

import pytest

from attnrate.experiments import load
from attnrate.experiments.experiment import Result
from attnrate.experiments.propositions import check_A_3
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.work import run_task

EXPERIMENT = load("propositions")


@pytest.fixture(scope="module")
def result():
    (task,) = EXPERIMENT.tasks("quick")
    values = run_task(task.trial)
    return Result(task.label, json.loads(json.dumps(values, allow_nan=False)))


def test_both_presets_run_the_same_checks():
    assert [t.trial for t in EXPERIMENT.tasks("quick")] == [
        t.trial for t in EXPERIMENT.tasks("paper")
    ]


def test_every_check_becomes_a_claim_with_its_verdict(result):
    claims = EXPERIMENT.conclude([result]).claims
    checks = result.values["checks"]
    assert [claim.verdict for claim in claims] == [check["verdict"] for check in checks]
    assert [claim.value for claim in claims] == [check["value"] for check in checks]
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


def test_a_refuted_check_is_a_refuted_claim(result):
    spoilt = [{**check, "verdict": "does not hold"} for check in result.values["checks"]]
    said = EXPERIMENT.conclude([Result(result.label, {"checks": spoilt})])
    assert {claim.verdict for claim in said.claims} == {"does not hold"}
    assert f"{len(spoilt)} does not hold" in said.paragraphs[0]


def test_the_record_survives_json(result):
    said = EXPERIMENT.conclude([result])
    record = Record("propositions", "", "", "quick", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_from_plain(plain).conclusion == said


def test_without_results_nothing_is_claimed():
    assert EXPERIMENT.conclude([]).claims == ()


def test_theorem_A_3_holds_to_rounding_with_fewer_features_than_stated():
    check = check_A_3(samples=50, seed=3)
    assert check.verdict == "holds"
    assert check.value < 1e-12
    assert "n = 5, 7, 4 (the theorem: at most 11, 22, 22)" in check.detail


def test_theorem_A_3_can_fail(monkeypatch):
    from attnrate.experiments import propositions

    monkeypatch.setattr(propositions, "represent", lambda H, where: represent_twice(H, where))
    assert check_A_3(samples=20).verdict == "does not hold"


def represent_twice(H, intervals):
    from attnrate.theory.represent import represent

    return represent(lambda x: 2 * H(x), intervals)
