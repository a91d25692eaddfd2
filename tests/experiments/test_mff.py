"""The second term: its tasks build, its work measures the networks, its verdicts go both ways."""

import json
import math

import pytest

from attnrate.experiments import mff
from attnrate.experiments.experiment import Result
from attnrate.experiments.mff_conclude import needed, unit_slope
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.work import run_job
from attnrate.fitting.build import complete
from attnrate.fitting.trial import Trial

SIZES = (1, 2, 4, 8, 16)


def compiled(target, m_h, beta=2.0, growth=1.0, bound=3.0, error=-0.5):
    """An error exact + c (m_h^growth / m_ff)^(2 beta), and a printed term m_h^bound / m_ff^beta."""
    exact = m_h**error
    networks = [exact * (4 * m_h**growth / m_ff) ** (2 * beta) for m_ff in mff.UNITS]
    values = {
        "m_ff": list(mff.UNITS),
        "exact": exact,
        "networks": networks,
        "total": [exact + e for e in networks],
        "rigorous": [100 * m_h**bound * m_ff**-4.0 for m_ff in mff.UNITS],
        "printed": [1e4 * m_h ** (2 * bound) * m_ff**-2.0 for m_ff in mff.UNITS],
    }
    return Result({"curve": "compiled", **target.label, "m_h": m_h}, values)


def everything(**changes):
    results = [compiled(t, m_h, **changes) for t in mff.TARGETS for m_h in SIZES]
    for t in mff.TARGETS:
        split = {"parameters": [1, 2, 3], "m_h": [1, 2, 4], "m_ff": [10, 20, 40]}
        results.append(Result({"curve": "split", **t.label}, split))
    target, m_h = mff.TRAINED
    for width in (8, 16, 32):
        for seed in (0, 1):
            label = {**target.label, "m_h": m_h, "width": width, "seed": seed}
            error = {"error": (1 + 0.1 * seed) / width}
            results.append(Result({"curve": "trained", **label}, error))
    return results


def concluded(results):
    said = mff.conclude(results)
    record = Record("mff", "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    return said


def verdicts(results):
    return {c.name.removeprefix("mff-"): c.verdict for c in concluded(results).claims}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_task_builds_once(preset):
    tasks = mff.tasks(preset)
    assert len({task.trial.key for task in tasks}) == len(tasks)
    complete([task.trial for task in tasks if "work" not in task.trial.target])


def test_what_is_made_up_is_found():
    values = compiled(mff.TARGETS[0], 4, growth=1.5).values
    assert unit_slope(values, 4).value == pytest.approx(-4.0)
    # exact (1 + (4 · 8 / m_ff)^4) is within 10 % from m_ff = 32 · 10^(1/4)
    assert needed(values) == pytest.approx(32 * 10**0.25, rel=0.02)
    assert needed({**values, "total": [1.0] * len(mff.UNITS)}) != needed(values)
    assert math.isnan(needed({**values, "total": [9.0] * len(mff.UNITS)}))
    assert needed({**values, "total": [values["exact"]] * len(mff.UNITS)}) == mff.UNITS[0]


def test_verdicts_go_both_ways():
    found = verdicts(everything(bound=1.5))
    assert found == {
        "rate": "holds",
        "must-grow": "holds",
        "condition": "holds",
        "bound-not-error": "holds",
    }
    # the printed term asks for m_ff = m_h^3, the error for m_ff = m_h
    assert verdicts(everything(bound=3.0))["condition"] == "holds when corrected"
    # that the error asks for more than the bound does not make the bound's condition wrong
    assert verdicts(everything(bound=1.5, growth=2.0))["condition"] == "holds"
    assert verdicts(everything(beta=1.0))["rate"] == "does not hold"
    assert verdicts(everything(growth=0.0))["must-grow"] == "does not hold"
    assert verdicts(everything(bound=-1.0))["bound-not-error"] == "does not hold"


def test_needs_that_scatter_leave_it_open_whether_they_grow():
    scattered = [
        compiled(target, m_h, growth=2.0 if m_h == 2 else 0.0)
        for target in mff.TARGETS
        for m_h in SIZES
    ]
    assert verdicts(scattered)["must-grow"] == "open"


def test_the_trained_and_the_split_are_told_with_their_numbers():
    said = concluded(everything())
    assert "width 8 and 32" in said.paragraphs[1]
    assert "-1 [" in said.paragraphs[1]
    assert "to the power α = 1, r = ∞: 1 [1, 1]" in said.paragraphs[0]


def test_missing_results_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    few = [one for one in everything() if one.label.get("m_h") == 1]
    assert verdicts(few)["must-grow"] == "open"


def test_compiled_networks_converge_with_their_rate():
    units = [32, 64, 128]
    settings = {"work": "mff.compiled", "alpha": 1.0, "rank": 2, "m_h": 2, "sequences": 64}
    found = run_job(Trial({**settings, "m_ff": units}, {}, {}, 0).settings)
    assert found["exact"] < 1e-20
    assert found["total"] == pytest.approx(found["networks"])
    assert all(b > e for b, e in zip(found["rigorous"], found["networks"], strict=True))
    # piecewise-linear interpolation: a fourth of the error, squared
    for coarse, fine in zip(found["networks"], found["networks"][1:], strict=False):
        assert coarse / fine == pytest.approx(16, rel=0.1)
    assert found["printed"][0] / found["printed"][1] == pytest.approx(4)


def test_splits_spend_what_they_are_given():
    settings = {"work": "mff.split", "alpha": 1.0, "rank": 16, "parameters": [100, 1000]}
    found = run_job(Trial(settings, {}, {}, 0).settings)
    assert found["m_h"][0] < found["m_h"][1]
    assert found["m_ff"][0] < found["m_ff"][1]
    assert found["root_bound"][0] > found["root_bound"][1]
