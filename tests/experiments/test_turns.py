"""The order of a run's tasks, and what is said of them before any piece of work has ended."""

import pytest

from attnrate.experiments.turns import in_turns, say_plan
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial


def task(seed: int, cost: float) -> Sized[Trial]:
    return Sized(Trial({"work": "any"}, {}, {}, seed), cost)


TASKS = [task(2, 60.0), task(0, 3600.0), task(1, 1800.0), task(0, 3600.0)]


def test_seeds_come_in_turn_in_the_paper_preset_and_no_trial_twice() -> None:
    assert [(one.job.seed, one.turn) for one in in_turns(TASKS, "paper")] == [
        (2, 2),
        (0, 0),
        (1, 1),
    ]
    assert [(one.job.seed, one.turn) for one in in_turns(TASKS, "quick")] == [
        (2, 0),
        (0, 0),
        (1, 0),
    ]


@pytest.mark.parametrize(
    ("left", "workers", "said"),
    [
        ([0, 1, 2], 1, "3 pieces of work; by plan about 1.5-3.0 h left"),
        ([1, 2], 2, "2 pieces of work; by plan about 16-31 min left"),
        # more workers than work are of no use
        ([1], 8, "1 piece of work; by plan about 30-60 min left"),
    ],
)
def test_the_plan_is_told_of_what_is_left(
    capsys: pytest.CaptureFixture[str], left: list[int], workers: int, said: str
) -> None:
    sized = in_turns(TASKS, "paper")
    done = {one.job.key for one in sized if one.job.seed not in left}
    say_plan(sized, done, workers)
    assert capsys.readouterr().err == f"attnrate: {said}\n"


def test_nothing_is_said_of_what_is_short_or_done(capsys: pytest.CaptureFixture[str]) -> None:
    say_plan(in_turns([task(0, 59.0)], "paper"), set(), 1)
    sized = in_turns(TASKS, "paper")
    say_plan(sized, {one.job.key for one in sized}, 1)
    assert not capsys.readouterr().err
