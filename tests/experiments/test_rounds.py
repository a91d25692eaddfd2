"""The rounds of a run, and what is said of them before any piece of work has ended."""

import pytest

from attnrate.experiments.experiment import Task
from attnrate.experiments.rounds import rounds_of, say_round
from attnrate.fitting.trial import Trial


def task(seed: int, cost: float) -> Task:
    return Task(Trial({"work": "any"}, {}, {}, seed), {}, cost)


TASKS = [task(2, 60.0), task(0, 3600.0), task(1, 1800.0), task(0, 3600.0)]


def test_a_round_is_a_seed_and_no_trial_comes_twice() -> None:
    rounds = rounds_of(TASKS, "paper")
    assert [[one.trial.seed for one in each] for each in rounds] == [[0], [1], [2]]
    assert [[one.trial.seed for one in each] for each in rounds_of(TASKS, "quick")] == [[2, 0, 1]]
    assert rounds_of([], "quick") == rounds_of([], "paper") == []


def test_a_round_says_what_is_left_by_plan(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = rounds_of(TASKS, "paper")
    say_round(0, rounds, set(), workers=1)
    assert capsys.readouterr().err == (
        "attnrate: round 1 of 3: 1 piece of work and 2 after it; by plan about 1.5-3.0 h left\n"
    )
    say_round(1, rounds, {rounds[0][0].trial.key}, workers=2)
    assert "round 2 of 3: 1 piece of work and 1 after it; by plan about 16-31 min" in (
        capsys.readouterr().err
    )
    say_round(2, rounds, set(), workers=2)
    assert "round 3 of 3: 1 piece of work; by plan about 30-60 s left" in capsys.readouterr().err


def test_nothing_is_said_of_a_round_without_work_or_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rounds = rounds_of(TASKS, "paper")
    say_round(0, rounds, {rounds[0][0].trial.key}, workers=1)
    say_round(0, rounds_of(TASKS, "quick"), set(), workers=1)
    assert not capsys.readouterr().err
