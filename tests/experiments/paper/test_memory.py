"""The experiment memory: jobs build and run, verdicts go both ways, closed forms of its floors."""

from dataclasses import replace
from functools import cache, partial

import conclusions
import numpy as np
import pytest
from conclusions import fitted

from attnrate.experiments.contract import Done, Fit, Results, to_plain
from attnrate.experiments.paper import memory as experiment
from attnrate.experiments.paper.memory import (
    AHEAD,
    BACKWARD,
    ELAPSED,
    HALF,
    LAGS,
    LENGTH,
    NAMES,
    PIVOT,
    SMALL,
    STATES,
    TASKS,
    TIME,
    Exact,
    ExactOutcome,
    Fitted,
    delayed,
    measured,
    smooth,
    variance_of,
)
from attnrate.experiments.run import run_job
from attnrate.fitting.build import complete
from attnrate.targets.build import build_target

concluded = partial(conclusions.concluded, experiment.EXPERIMENT)
EXACT = ExactOutcome(
    c_rnn=10.0,
    c_rnn_smooth=2.0,
    register=0.0,
    head=1e-30,
    cascade=1e-30,
    below=0.1,
    few=0.5,
    causal=0.48,
    invariant=0.9,
)


def known(**changes):
    return [Done(Exact(lag=lag), replace(EXACT, **changes)) for lag in LAGS]


def error_of(task, name):
    """The share of the variance that a made-up fit misses."""
    if name == SMALL:
        return 1e-4 if task.startswith("smooth") else 0.6
    if task == BACKWARD and name != PIVOT:
        return 0.7
    if task in (ELAPSED, TIME):
        return {(ELAPSED, PIVOT): 0.05, (ELAPSED, "GRU"): 1e-3}.get((task, name), 0.01)
    return 1e-3 if name == "GRU" else 1e-5


@cache
def whole_of(task):
    return variance_of(build_target(TASKS[task]))


def trained(changes=None, seeds=3, scatter=0.05):
    """Fits of every cell; `changes` has other errors for some (task, model)."""
    changes = changes or {}
    done = []
    for task in TASKS:
        whole = whole_of(task)
        for name in (*NAMES, SMALL):
            error = changes.get((task, name), error_of(task, name)) * whole
            # seeds that scatter do so in their own ways, so that ratios do too
            turn = 1 if task in (delayed(1), TIME) or name == "linear RNN" else -1
            done += [
                fitted(Fitted(task, name, seed), error * (1 + scatter) ** (turn * seed))
                for seed in range(seeds)
            ]
    return done


def verdicts(done):
    return {c.name.removeprefix("memory-"): c.verdict for c in concluded(done).claims}


@pytest.mark.parametrize(("preset", "seconds"), [("quick", 40), ("paper", 90 * 60)])
def test_every_job_builds_once_within_its_time(preset, seconds):
    plan = experiment.plan(preset)
    jobs = [one.job for one in plan]
    assert len({job.key for job in jobs}) == len(jobs)
    assert sum(one.size for one in plan) <= seconds
    complete([job.trial for job in jobs if isinstance(job, Fit)])


def test_verdicts_hold():
    assert set(verdicts([*known(), *trained()]).values()) == {"holds"}


@pytest.mark.parametrize(
    ("claim", "exact", "changes"),
    [
        ("states", {"register": 1e-3}, {}),
        ("states", {"below": 0.0}, {}),
        ("head", {"head": 1e-3}, {}),
        ("blurred", {"few": 0.0}, {}),
        ("blurred", {}, {(smooth(HALF), SMALL): 0.1}),
        ("transformer-reach", {}, {(delayed(HALF), PIVOT): 1e-3}),
        ("reach", {}, {(delayed(32), "convolution"): 0.1}),
        ("gates", {}, {(delayed(HALF), "GRU"): 1e-7}),
        ("reversed", {"causal": 0.2}, {}),
        ("reversed-transformer", {}, {(BACKWARD, PIVOT): 0.1}),
        ("irregular-gru", {}, {(ELAPSED, "GRU"): 0.05}),
        ("irregular-transformer", {}, {(TIME, PIVOT): 0.05}),
    ],
)
def test_each_claim_can_fail(claim, exact, changes):
    found = verdicts([*known(**exact), *trained(changes)])
    assert found[claim] == "does not hold"
    assert {one for name, one in found.items() if name != claim} <= {"holds", "does not hold"}


def test_a_fit_below_the_causal_floor_leaves_reversal_open():
    said = concluded([*known(), *trained({(BACKWARD, "GRU"): 0.1})])
    claim = next(one for one in said.claims if one.name == "memory-reversed")
    assert claim.verdict == "open"
    assert "the GRU is below" in claim.evidence


def test_seeds_that_scatter_and_single_seeds_leave_ratios_open():
    wide = verdicts([*known(), *trained(scatter=5.0)])
    assert {wide[name] for name in ("transformer-reach", "irregular-transformer")} == {"open"}
    single = verdicts([*known(), *trained(seeds=1)])
    decided = {name for name, one in single.items() if one != "open"}
    assert decided == {"states", "head", "reversed"}


def test_no_results_and_parts_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    assert concluded([]).figures == ()
    assert concluded([]).tables == ()
    few = verdicts(known()[:3])
    assert set(few.values()) == {"open"}
    diverged = [fitted(one.job.label, None) for one in trained(seeds=2)]
    lost = concluded(diverged)
    assert {claim.verdict for claim in lost.claims} == {"open"}
    assert {cell for row in lost.tables[0].rows for cell in row[1:]} == {"diverged"}


def test_errors_are_shares_of_the_variance():
    found = measured(Results(trained(scatter=0.0)))
    assert found.error(delayed(HALF), "GRU").value == pytest.approx(1e-3)
    assert found.error(TIME, PIVOT).value == pytest.approx(0.01)
    samples = build_target(TASKS[smooth(4)])
    y = samples(samples.sample(20_000, 0))
    assert variance_of(samples) == pytest.approx(float(y.square().mean()), rel=0.02)


def test_what_was_made_up_is_in_sentences_figures_and_tables():
    said = concluded([*known(), *trained({(delayed(8), PIVOT): 0.3})])
    assert "Transformer: s = 4; linear RNN: s = 32" in said.paragraphs[-1]
    assert "8 states: no lag" in said.paragraphs[-1]
    assert [figure.name for figure in said.figures] == ["memory", "memory-order"]
    lags, states = said.figures[0].panels
    assert [one.label for one in lags.series] == list(NAMES)
    assert [one.label for one in states.series][-1] == "delay, floor"
    assert [len(table.columns) for table in said.tables] == [6, 6]
    assert len(said.tables[1].rows) == len(TASKS)
    assert AHEAD in {row[0] for row in said.tables[1].rows}


def test_what_is_exact_has_its_closed_forms():
    found = Exact(lag=8).run()
    assert run_job(Exact(lag=8).settings).items() >= to_plain(found).items()
    assert found.c_rnn == pytest.approx(np.exp(8))
    assert 1 < found.c_rnn_smooth < found.c_rnn
    assert max(found.register, found.head, found.cascade) < 1e-20
    assert (found.below, found.few) == (pytest.approx(1 / 9), pytest.approx(1 - STATES / 9))
    # of the outputs at t = 8, ..., 32, those before t = 20 ask for a token to come
    assert found.causal == pytest.approx(12 / 25)
    seen = [t for t in range(8, LENGTH) if t >= 20]
    # each is alone on its diagonal, which has τ - j entries, j = 2t - 40
    kept = sum(1 / (LENGTH - (2 * t - 40)) for t in seen) / 25
    assert found.invariant == pytest.approx(1 - kept)
