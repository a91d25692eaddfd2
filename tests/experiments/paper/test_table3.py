"""The experiment table3: strong fits refute the paper's reading, its own numbers confirm it."""

import conclusions
import numpy as np
import pytest
from conclusions import cell_fits, survives_json

from attnrate.experiments.contract import Results
from attnrate.experiments.paper.table3 import CELLS, EXPERIMENT, simple_costs, targets
from attnrate.targets.build import build_target

AS_PRINTED = {(cell.model, cell.target): cell.paper for cell in CELLS}
STRONGER = {
    ("RNN", "original"): 1e-6,
    ("RNN", "permuted"): 0.31,
    ("Transformer", "original"): 1e-4,
    ("Transformer", "permuted"): 1.2e-4,
}


def results(errors: dict[tuple[str, str], float], seeds: int = 3) -> Results:
    return cell_fits(errors, seeds, step=-0.01)


def verdicts(found: Results) -> dict[str, str]:
    return conclusions.verdicts(EXPERIMENT, found)


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
    assert set(verdicts(Results()).values()) == {"open"}
    rnn = [one for one in results(STRONGER, 2).done if one.label.model == "RNN"]
    found = verdicts(Results(rnn))
    assert found["table3-rnn-cannot"] == "does not hold"
    assert found["table3-transformer-can"] == "open"
    above = verdicts(results(STRONGER | {("Transformer", "permuted"): 1.0}))
    assert above["table3-transformer-ordering"] == "open"


@pytest.mark.parametrize("seeds", [0, 1, 2])
def test_the_record_survives_json(seeds):
    again = survives_json(EXPERIMENT.conclude(results(STRONGER, seeds)))
    assert len(again.claims) == 4
