"""The rounds of a run: in the paper preset a seed each, so that early results cover all.

How long all of them will take is told from the plan, before any piece of work has ended.
"""

from collections.abc import Iterable

from attnrate.data.registry import say
from attnrate.experiments.experiment import Preset, Task
from attnrate.fitting.progress import said_range
from attnrate.fitting.trial import Sized

#: What the work has taken at most beside its plan, where the cores were shared
_SLOWER = 2.0
_MILLISECONDS = 1000  # sizes are whole numbers of these


def rounds_of(tasks: Iterable[Task], preset: Preset) -> list[list[Sized]]:
    """All tasks, each trial once."""
    costs = {task.trial: task.cost for task in tasks}
    sized = [Sized(trial, max(1, round(_MILLISECONDS * cost))) for trial, cost in costs.items()]
    if preset == "quick":
        return [sized] if sized else []
    seeds = sorted({one.trial.seed for one in sized})
    return [[one for one in sized if one.trial.seed == seed] for seed in seeds]


def say_round(number: int, rounds: list[list[Sized]], done: set[str], workers: int) -> None:
    """Which round begins, if it has work, and what is left by plan; a single round needs none."""
    left = [[one for one in each if one.trial.key not in done] for each in rounds[number:]]
    if len(rounds) == 1 or not left[0]:
        return
    seconds = sum(one.size for each in left for one in each) / _MILLISECONDS / workers
    told = said_range((seconds, _SLOWER * seconds))
    more = f" and {rest} after it" if (rest := sum(map(len, left[1:]))) else ""
    now = f"{len(left[0])} piece{'s' if len(left[0]) > 1 else ''} of work{more}"
    say(f"round {number + 1} of {len(rounds)}: {now}; by plan {told}")
