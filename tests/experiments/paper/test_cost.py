"""What architectures cost: the plan, and verdicts both ways from made-up counts and fits."""

from dataclasses import replace
from functools import partial

import conclusions
import pytest

from attnrate.experiments.contract import Done, Results
from attnrate.experiments.kits.costs import Cost
from attnrate.experiments.kits.past import FloorOutcome
from attnrate.experiments.kits.prices import (
    GRAPH,
    LAST,
    NAMES,
    ORIGINAL,
    PAST,
    PERMUTED,
    PIVOT,
    SIZES,
    TASKS,
    Counted,
    Floor,
    Seconds,
    SecondsOutcome,
    Trained,
    TrainedOutcome,
    Written,
    WrittenOutcome,
    entrants,
)
from attnrate.experiments.paper import cost as experiment

concluded = partial(conclusions.concluded, experiment.EXPERIMENT)
LENGTHS = (16, 32, 64, *LAST)


def counted(square=10.0, straight=20.0, times=1.0, state=100, power=1):
    """The Transformer's costs are a τ² + b τ, those of the others `times` τ^power."""
    done = []
    for name in NAMES:
        for n in LENGTHS:
            own = name == PIVOT
            operations = round(square * n**2 + straight * n if own else times * n**power)
            size = round(10 * n**2 if own else times * n)
            found = Cost(
                parameters=10,
                inference=operations,
                training=3 * operations,
                inference_bytes=size,
                training_bytes=size,
                state=8 * n if own else state,
            )
            done.append(Done(Counted(name=name, model={}, length=n), found))
    return done


def timed():
    seconds = tuple((1.0 + place, 1.1 + place) for place in range(len(NAMES)))
    return [
        Done(Seconds(models={name: {} for name in NAMES}, length=n, rounds=2), found)
        for n in (64, 256, 1024)
        for found in [SecondsOutcome(seconds, seconds)]
    ]


def floors(value=0.5):
    least = {ORIGINAL: 0.0, PERMUTED: value, GRAPH: value, PAST: 0.0}
    return [Done(Floor(task=task), FloorOutcome(least[task], 0.001)) for task in TASKS]


def written(operations=5):
    return [Done(Written(sequences=1), WrittenOutcome(1e-14, operations))]


def trained(errors, seeds=3, tasks=TASKS):
    """Fits whose sizes cost 10, 100, ... operations; `errors` by model, else 1 for all sizes."""
    return [
        Done(
            Trained(task=task, name=name, size=size, recipe={}, seed=seed),
            TrainedOutcome(error * (1 + 0.02 * seed), operations=10 ** (1 + place), seconds=1.0),
        )
        for task in tasks
        for name in entrants(task)
        for place, (size, error) in enumerate(
            zip(SIZES[name][2], errors.get(name, (1.0,) * len(SIZES[name][2])), strict=True)
        )
        for seed in range(seeds)
    ]


GOOD = {PIVOT: (1e-6, 1e-6, 1e-6), "GRU": (1.0, 1e-6, 1e-6, 1e-6)}
LATE = {PIVOT: (1.0, 1.0, 1e-6), "GRU": (1e-6, 1e-6, 1e-6, 1e-6)}


def verdicts(done):
    found = conclusions.verdicts(experiment.EXPERIMENT, Results(done))
    return {name.removeprefix("cost-"): verdict for name, verdict in found.items()}


def everything(errors=GOOD, floor=0.5, own=5, **counts):
    return [*counted(**counts), *timed(), *floors(floor), *written(own), *trained(errors)]


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_is_planned_once_and_within_its_time(preset):
    plan = experiment.plan(preset)
    assert len({one.job.key for one in plan}) == len(plan)
    assert sum(one.size for one in plan) <= {"quick": 40, "paper": 30 * 60}[preset]
    kinds = {type(one.job) for one in plan}
    assert kinds == {Counted, Seconds, Floor, Written, Trained}


def test_what_the_verdicts_ask_for_is_in_both_presets():
    for preset in ("quick", "paper"):
        jobs = [one.job for one in experiment.plan(preset)]
        lengths = {job.length for job in jobs if isinstance(job, Counted)}
        assert {experiment.PAPER_LENGTH, 2 * experiment.PAPER_LENGTH, *LAST} <= lengths
        fitted = {(job.task, job.name) for job in jobs if isinstance(job, Trained)}
        assert fitted == {(task, name) for task in TASKS for name in entrants(task)}


def test_verdicts_hold_where_all_is_as_they_say():
    assert verdicts(everything()) == {
        "square": "holds",
        "short": "does not hold",
        "operations": "holds",
        "memory": "holds",
        "state": "holds",
        "linear": "holds",
        "permuted": "holds",
        "graph": "holds",
        "past": "holds",
    }


def test_verdicts_go_the_other_way():
    assert verdicts(everything(square=0.001, straight=1.0))["short"] == "holds"
    # the networks keep the exponent of the operations below 2, that of memory is 2
    corrected = everything(square=1.0, straight=3000.0)
    assert verdicts(corrected)["square"] == "holds when corrected"
    assert verdicts(everything(power=2))["square"] == "does not hold"
    rivals = verdicts(everything(times=1e6))
    assert rivals["operations"] == rivals["memory"] == "does not hold"
    assert verdicts(everything(state=10**9))["state"] == "does not hold"
    assert verdicts(everything(own=11))["linear"] == "does not hold"
    below = verdicts(everything(floor=0.001))
    assert below["permuted"] == below["graph"] == "does not hold"
    assert verdicts(everything(errors=LATE))["past"] == "does not hold"


def test_fits_that_reach_nothing_refute_nothing():
    nothing = verdicts(everything(errors={}))
    assert nothing["permuted"] == nothing["graph"] == nothing["past"] == "open"
    assert nothing["linear"] == "open"


def test_an_interval_on_both_sides_leaves_the_price_open():
    wide = [
        replace_error(one, 10.0 ** (-3 * one.job.seed)) if one.job.task == PAST else one
        for one in trained(GOOD)
    ]
    done = [*counted(), *floors(), *written(), *wide]
    assert verdicts(done)["past"] == "open"


def replace_error(one, error):
    return Done(one.job, replace(one.outcome, error=error))


def test_missing_results_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    assert concluded([]).figures == ()
    assert concluded([]).tables == ()
    for part in (counted()[:3], timed(), floors(), written(), trained(GOOD)[:3]):
        assert set(verdicts(part).values()) == {"open"}


def test_what_was_made_up_is_in_the_claims_figures_and_tables():
    said = concluded(everything())
    by = {claim.name: claim for claim in said.claims}
    # a τ² + b τ with a = 10 and b = 20: attention has a half at τ = 2, 32/34 at τ = 32
    assert by["cost-short"].value == pytest.approx(32 / 34)
    assert "a half at 2" in by["cost-short"].evidence
    assert by["cost-memory"].value == pytest.approx(10 * 4096)
    assert by["cost-state"].value == pytest.approx(8 * 4096 / 100)
    assert by["cost-linear"].value == pytest.approx(2.0)
    assert by["cost-past"].value == pytest.approx(10.0)
    assert [figure.name for figure in said.figures] == ["cost", "cost-price"]
    assert [len(figure.panels) for figure in said.figures] == [3, 4]
    assert [len(table.rows) for table in said.tables] == [7, 7, 7, 12]
    assert all(len(table.columns) <= 6 for table in said.tables)
    growth = dict(zip(said.tables[0].columns, said.tables[0].rows[2], strict=True))
    assert growth["exponent of operations"] == "1 [1, 1]"
    cheapest = said.tables[-1].rows[0]
    assert cheapest[2:4] == ("Transformer: 10 [10 to 10]", "GRU: 100 [100 to 100]")
    assert cheapest[-1] == "Transformer of size 16: 1 [1, 1] s"
    assert len(said.paragraphs) == 3
