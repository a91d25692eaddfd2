"""What an experiment is: trials to run, and what their results say.

An experiment is a module of this room with an object EXPERIMENT. Its trials go into one sweep
together with those of the other experiments: they are stored when finished, resumed, and run by any
engine. `conclude` then turns the results into figures, tables, paragraphs and claims, without
training anything, so that it can be repeated at no cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnrate.experiments.contract import Conclusion, Preset
from attnrate.fitting.trial import Trial

#: In the values of a task whose data could not be had: why. It is tried again by the next run.
MISSING = "missing"
#: In the values of a task, as they are stored: the versions and the commit that computed them
MADE_BY = "made_by"


@dataclass(frozen=True)
class Task:
    """One piece of work of an experiment: a fit, or what `other_work` names.

    `label` are plain values by which `conclude` finds the result again; `cost` is the expected
    number of seconds on one core, for the order and the estimate of the time left.
    """

    trial: Trial
    label: Mapping[str, Any]
    cost: float | int = 1


@dataclass(frozen=True)
class Result:
    """What became of a task: its label and the plain values that its work returned."""

    label: Mapping[str, Any]
    values: Mapping[str, Any]


@dataclass(frozen=True)
class OldExperiment:
    """One figure, table or question: its name on the command line, tasks, and conclusion."""

    name: str
    title: str
    place: str
    tasks: Callable[[Preset], Sequence[Task]]
    conclude: Callable[[Sequence[Result]], Conclusion]


def other_work(
    work: str,
    settings: Mapping[str, Any],
    label: Mapping[str, Any],
    seed: int = 0,
    cost: float | int = 1,
) -> Task:
    """A task that is no fit: `work` is "module.name", an entry of that experiment's table WORK.

    The function takes the trial, with `settings` in its target, and returns plain values.
    """
    return Task(Trial({"work": work, **settings}, {}, {}, seed), label, cost)


def select(results: Sequence[Result], **wanted: object) -> list[Result]:
    """The results whose labels have these values."""
    return [
        one for one in results if all(one.label.get(key) == value for key, value in wanted.items())
    ]


def errors(results: Sequence[Result]) -> list[float]:
    """The errors of those fits that did not diverge."""
    return [one.values["error"] for one in results if one.values.get("error") is not None]


def errors_by_seed(results: Sequence[Result]) -> dict[int, float]:
    """The same by seed, of results that differ in their seeds alone."""
    return {int(one.label["seed"]): error for one in results for error in errors([one])}


def paired(above: Sequence[Result], below: Sequence[Result], *keys: str) -> list[float]:
    """error / error of every two fits, one of each list, whose labels agree in these keys."""
    found: dict[tuple[object, ...], list[float]] = {}
    for one in below:
        found.setdefault(tuple(one.label[key] for key in keys), []).extend(errors([one]))
    return [
        a / b
        for one in above
        for a in errors([one])
        for b in found.get(tuple(one.label[key] for key in keys), [])
    ]


Experiment = OldExperiment
__all__ = ["Conclusion", "Preset"]
