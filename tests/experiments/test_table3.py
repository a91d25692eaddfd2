import json

import numpy as np
import pytest

from attnrate.experiments import load
from attnrate.experiments.experiment import Result
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.table3 import CELLS, EXPERIMENT, targets, tasks
from attnrate.experiments.table3_claims import simple_costs
from attnrate.fitting.build import build_target, complete

AS_PRINTED = {(cell.model, cell.target): cell.paper for cell in CELLS}
STRONGER = {
    ("RNN", "original"): 1e-6,
    ("RNN", "permuted"): 0.31,
    ("Transformer", "original"): 1e-4,
    ("Transformer", "permuted"): 1.2e-4,
}


def results(errors: dict[tuple[str, str], float], seeds: int = 3) -> list[Result]:
    return [
        Result(
            {"model": model, "target": target, "recipe": recipe, "seed": seed},
            {"error": error * (1 - 0.01 * seed)},
        )
        for (model, target), error in errors.items()
        for recipe in ("paper", "strong")
        for seed in range(seeds)
    ]


def verdicts(found: list[Result]) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in EXPERIMENT.conclude(found).claims}


@pytest.mark.parametrize(("preset", "seconds"), [("quick", 95), ("paper", 0.8 * 3600)])
def test_every_cell_is_fitted_by_both_recipes_within_the_budget(preset, seconds):
    listed = tasks(preset)
    assert len({task.trial.key for task in listed}) == len(listed)
    assert len(complete([task.trial for task in listed])) == len(listed)
    labels = {(t.label["model"], t.label["target"], t.label["recipe"]) for t in listed}
    assert labels == {(c.model, c.target, r) for c in CELLS for r in ("paper", "strong")}
    assert sum(task.cost for task in listed) <= seconds
    assert load("table3") is EXPERIMENT


def test_the_costs_of_constants_are_those_of_a_large_sample():
    constant, offsets = simple_costs(targets()["original"])
    target = build_target(targets()["original"])
    y = target(target.sample(20_000, 5)).numpy()
    assert constant == pytest.approx(np.var(y), rel=0.02)
    assert offsets == pytest.approx(np.mean(np.var(y, axis=0)), rel=0.02)


def test_a_stronger_fit_refutes_that_the_rnn_cannot_learn_it():
    found = verdicts(results(STRONGER))
    assert found == {
        "table3-rnn-cannot": "does not hold",
        "table3-transformer-can": "holds",
        "table3-transformer-ordering": "holds",
        "table3-no-temporal-ordering": "does not hold",
    }


def test_the_papers_numbers_would_confirm_it():
    printed = {key: value * 1.03 if key[0] == "RNN" else value for key, value in AS_PRINTED.items()}
    assert set(verdicts(results(printed)).values()) == {"holds"}


def test_what_is_missing_leaves_a_claim_open():
    assert set(verdicts([]).values()) == {"open"}
    rnn = [r for r in results(STRONGER, 2) if r.label["model"] == "RNN"]
    found = verdicts(rnn)
    assert found["table3-rnn-cannot"] == "does not hold"
    assert found["table3-transformer-can"] == "open"
    above = verdicts(results(STRONGER | {("Transformer", "permuted"): 1.0}))
    assert above["table3-transformer-ordering"] == "open"


@pytest.mark.parametrize("seeds", [0, 1, 2])
def test_the_record_survives_json(seeds):
    said = EXPERIMENT.conclude(results(STRONGER, seeds))
    text = json.dumps(
        record_to_plain(Record("table3", "t", "p", "paper", 1, 1, 1.0, {}, said)), allow_nan=False
    )
    again = record_from_plain(json.loads(text))
    assert json.dumps(record_to_plain(again)) == text
    assert len(again.claims) == 4
