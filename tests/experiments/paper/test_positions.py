"""Position encodings: jobs build and run, and verdicts go both ways."""

from dataclasses import replace
from functools import partial

import conclusions
import pytest

from attnrate.experiments.contract import Done
from attnrate.experiments.kits.encodings import (
    ABSOLUTE,
    ENCODINGS,
    LINEAR,
    ORDERS,
    TARGETS,
    Compiled,
    CompiledOutcome,
    Floors,
    FloorsOutcome,
    Symmetries,
    SymmetriesOutcome,
    Trained,
    TrainedOutcome,
    model_of,
    target_of,
    width_of,
)
from attnrate.experiments.paper import positions as experiment
from attnrate.experiments.paper.positions import group, steepest
from attnrate.models.build import build_model

concluded = partial(conclusions.concluded, experiment.EXPERIMENT)
FOUND = tuple(
    tuple(sorted(group(kind))) for kind in ("all", "none", "none", "none", "none", "reversal")
)
#: The floors (every permutation, reversal) that are made up
MADE = {"original": (0.01, 0.005), "swapped": (0.05, 0.005), "moved": (0.06, 0.03)}


def exact(found=FOUND, gap=1e-15, error=1e-25, floors=MADE):
    return [
        Done(Symmetries(models=1), SymmetriesOutcome(ENCODINGS, found, (gap, gap, gap))),
        *(
            Done(
                Compiled(task=task, order=order, sequences=1),
                CompiledOutcome(ABSOLUTE, (error,) * 3, (error,) * 3, (1e-15,) * 3),
            )
            for task in LINEAR
            for order in ("swapped", "moved")
        ),
        *(
            Done(Floors(task=task, order=order, sequences=1), FloorsOutcome(*floors[order]))
            for task in TARGETS
            for order in ORDERS
        ),
    ]


def trained(times=1.0, by_value=100.0, ranks=(4.0, 4.0), seeds=3, scatter=0.1, error=1e-5):
    """Fits whose error in other orders is `times` (on Fig. 1's target `by_value` times) that."""
    done = []
    for task in TARGETS:
        for order in ("original", "moved") if task == "spectral" else ORDERS:
            for encoding in ENCODINGS:
                for seed in range(seeds):
                    other = order != "original"
                    factor = (by_value if task == "spectral" else times) if other else 1.0
                    floor = MADE[order][0 if encoding == "none" else 1]
                    low = 1.01 * floor if encoding in ("none", "alibi") else error
                    value = low if encoding in ("none", "alibi") else low * factor
                    # each seed scatters by itself in every order
                    value *= 1 + scatter * ((seed + other) % 2)
                    job = Trained(
                        encoding=encoding,
                        task=task,
                        order=order,
                        width=8,
                        recipe={"name": "strong"},
                        seed=seed,
                    )
                    outcome = TrainedOutcome(value, parameters=10, steps=5, rank=ranks[other])
                    done.append(Done(job, outcome))
    return done


def verdicts(done):
    return {c.name.removeprefix("positions-"): c.verdict for c in concluded(done).claims}


TRAINED = tuple(f"trained-{one}" for one in ("learned", "sinusoidal", "shift", "rotary"))


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_is_another_and_all_models_have_about_as_many_parameters(preset):
    sized = experiment.plan(preset)
    assert len({one.job.key for one in sized}) == len(sized)
    seconds = sum(one.size for one in sized)
    assert seconds <= {"quick": 40, "paper": 90 * 60}[preset]
    for task in {one.job.task for one in sized if isinstance(one.job, Trained)}:
        target = target_of(task, "original")
        counts = [
            build_model(model_of(one, width_of(one, task)), target).parameter_count()
            for one in ENCODINGS
        ]
        assert max(counts) / min(counts) < 1.03


def test_everything_as_expected_holds():
    found = verdicts(exact() + trained())
    assert set(found.values()) == {"holds"}
    assert list(found) == [
        *("symmetry", "relabelling", "absolute", "none", "alibi"),
        *TRAINED,
        *("rank", "by-value"),
    ]


def test_exact_claims_are_refuted_by_one_counterexample():
    one_more = (FOUND[0], (*FOUND[1], (3, 2, 1, 0)), *FOUND[2:])
    assert verdicts(exact(found=one_more))["symmetry"] == "does not hold"
    assert verdicts(exact(found=FOUND[::-1]))["symmetry"] == "does not hold"
    assert verdicts(exact(gap=1e-6))["relabelling"] == "does not hold"
    assert verdicts(exact(error=1e-9))["absolute"] == "does not hold"
    same = dict.fromkeys(ORDERS, (0.01, 1e-6))
    found = verdicts(exact(floors=same))
    assert (found["none"], found["alibi"]) == ("does not hold", "does not hold")


def test_exact_claims_need_no_fit():
    found = verdicts(exact())
    assert {name for name, said in found.items() if said == "holds"} == {
        *("symmetry", "relabelling", "absolute", "none", "alibi"),
    }
    assert set(found.values()) == {"holds", "open"}


@pytest.mark.parametrize("encoding", ["none", "alibi"])
def test_a_fit_below_its_floor_is_an_error_of_the_program_and_decides_nothing(encoding):
    done = exact() + trained()
    low = [
        Done(one.job, replace(one.outcome, error=1e-9))
        if isinstance(one.job, Trained) and one.job.encoding == encoding
        else one
        for one in done
    ]
    assert verdicts(low)[encoding] == "open"
    said = {c.name: c.evidence for c in concluded(low).claims}[f"positions-{encoding}"]
    assert "this program has an error" in said


def test_training_decides_by_the_interval_of_the_ratio():
    found = verdicts(exact() + trained(times=10.0))
    assert {found[name] for name in TRAINED} == {"does not hold"}
    # an interval with both sides of the limit, and a single seed, decide nothing
    assert {verdicts(exact() + trained(times=3.0))[name] for name in TRAINED} == {"open"}
    one = exact() + trained(seeds=1)
    single = [each for each in one if getattr(each.job, "order", "") != "moved"]
    single = [each for each in single if getattr(each.job, "task", "") != "table3"]
    assert {verdicts(single)[name] for name in TRAINED} == {"open"}


def test_a_target_that_was_not_learned_says_nothing():
    found = verdicts(exact() + trained(error=0.004))
    assert {found[name] for name in TRAINED} == {"open"}
    said = {c.name: c.evidence for c in concluded(exact() + trained(error=0.004)).claims}
    assert "Not learned in the original order" in said["positions-trained-learned"]


def test_the_ranks_of_both_orders_are_compared():
    assert verdicts(exact() + trained(ranks=(4.0, 12.0)))["rank"] == "does not hold"
    assert verdicts(exact() + trained(ranks=(12.0, 4.0)))["rank"] == "does not hold"
    assert verdicts(exact() + trained(ranks=(4.0, 6.0)))["rank"] == "holds"


def test_one_encoding_that_keeps_the_promise_refutes_that_none_does():
    assert verdicts(exact() + trained(by_value=1.0))["by-value"] == "does not hold"
    done = [
        Done(one.job, replace(one.outcome, error=1e-5))
        if isinstance(one.job, Trained) and one.job.encoding == "rotary"
        else one
        for one in exact() + trained()
    ]
    assert verdicts(done)["by-value"] == "does not hold"


def test_diverged_fits_and_missing_jobs_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    said = concluded([])
    assert (said.figures, said.tables) == ((), ())
    lost = [Done(one.job, TrainedOutcome(None)) for one in trained()]
    found = verdicts(exact() + lost)
    assert {found[name] for name in (*TRAINED, "rank", "by-value")} == {"open"}
    whole = exact() + trained()
    for start in range(0, len(whole), 40):
        concluded(whole[start : start + 1])
    assert set(verdicts(trained()).values()) == {"open"}


def test_figures_and_tables_have_every_encoding_and_few_columns():
    said = concluded(exact() + trained())
    (figure,) = said.figures
    assert [len(panel.rows) for panel in figure.panels] == [len(ENCODINGS)] * 3
    assert [len(table.rows) for table in said.tables] == [len(ENCODINGS)] * 4
    assert all(len(table.columns) <= 6 for table in said.tables)
    assert said.tables[0].rows[0][1:3] == ("every permutation", "0.01, 0.05, 0.06")


def test_the_slope_of_the_shift_is_the_largest_jump_between_neighbours():
    # Table 1's order jumps from 31 to 0: 62 intervals' ends apart, and one more
    assert (steepest("original"), steepest("moved"), steepest("swapped")) == (1, 63, 43)
