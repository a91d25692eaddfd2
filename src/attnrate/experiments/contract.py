"""What an experiment is: typed jobs to run, and what their outcomes say.

An experiment is a file of `paper/` with an `Experiment`, by custom EXPERIMENT; it is found by being
there. `plan` lists its jobs: fits, or work of its own. All jobs of all experiments go into one
sweep, which stores, resumes and runs them by any engine. `conclude` then turns outcomes into
figures, tables, paragraphs and claims, without training anything, so that it can be repeated at no
cost.

A job of another kind than a fit is a `Work`: its fields are its settings, and `run` returns an
`Outcome`. Both are frozen dataclasses, by their base and without a decorator, and go to JSON and
back by themselves.

    class BoundsOutcome(Outcome):
        value: float

    class Bounds(Work, work="fig1.bounds"):
        alpha: float

        def run(self) -> BoundsOutcome: ...
"""

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, ClassVar, Generic, Literal, TypeVar, dataclass_transform

from pydantic import TypeAdapter

from attnrate.experiments.claims import Claim
from attnrate.figures.figure import Figure, Table
from attnrate.fitting.job import Job, Plain, Sized, key_of, plain
from attnrate.fitting.trial import Trial

#: In the stored values of a job whose data could not be had: why. The next run tries it again.
MISSING = "missing"
#: In the stored values of a job: the versions and the commit that computed them
MADE_BY = "made_by"
#: quick: minutes on two cores, every experiment represented; paper: the full grids, 5 seeds
Preset = Literal["quick", "paper"]


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Outcome:
    """What a job comes to: a frozen dataclass by its base, of finite numbers, words and tuples."""

    def __init_subclass__(cls, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)


O = TypeVar("O", bound=Outcome)  # noqa: E741 - an outcome
W = TypeVar("W", bound="Work")
L = TypeVar("L")
J = TypeVar("J")
T = TypeVar("T")


class Missing(Exception):  # noqa: N818 - it is a result, kept until the next run tries again
    """A job's data cannot be had; the text says why."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """A job that is no fit: a dataclass by its base. Its fields, the seed apart, are its settings.

    The settings are what a finished job is known by, the code is not: after a change of `run` use
    another folder, or change a setting.

    `work` is "EXPERIMENT.NAME", with _ for - in the experiment's name. It goes into the key, as it
    did in stores of earlier versions.
    """

    work: ClassVar[str]
    kinds: ClassVar[dict[str, type["Work"]]] = {}

    seed: int = 0

    def __init_subclass__(cls, work: str = "") -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        if work:
            other = Work.kinds.get(work)
            if other is not None and other.__module__ != cls.__module__:
                raise TypeError(f"two kinds of work are named {work!r}, the other is {other}")
            if inspect.get_annotations(cls.run).get("return") in (None, Outcome):
                raise TypeError(f"{cls.__qualname__}.run must say which Outcome it returns")
            cls.work = work
            Work.kinds[work] = cls

    @abstractmethod
    def run(self) -> Outcome:
        """Do it, in a worker with one thread; `Missing` where data cannot be had.

        Its annotation says which `Outcome` it returns, and by that the stored one is read again.
        """

    @property
    def settings(self) -> Plain:
        """Its settings as a store keeps them, in the tables of a fit."""
        told = {"work": self.work, **to_plain(self)}
        seed = told.pop("seed")
        return {"target": plain(self.work, told), "model": {}, "recipe": {}, "seed": seed}

    @property
    def key(self) -> str:
        """What it is known by in a store."""
        return key_of(self.settings)


class FittedOutcome(Outcome):
    """How a fit went, for work that looks at what was fitted; the error is None if it diverged."""

    error: float | None = None
    standard_error: float | None = None
    seconds: float = 0.0
    steps: int = 0
    stopped: str = ""


class FitOutcome(FittedOutcome):
    """What a job that is a plain fit came to."""

    parameters: int | None = None


@dataclass(frozen=True, eq=False)
class Fit(Generic[L]):
    """A job that fits a model to a target; `label` is a dataclass by which it is found again.

    `kits.fits` asks labels for their `seed`, and for a `size` where errors over sizes are wanted.
    """

    label: L
    trial: Trial

    @property
    def seed(self) -> int:
        """The seed of the trial."""
        return self.trial.seed

    @property
    def settings(self) -> Plain:
        """The settings of the trial, as a store keeps them."""
        return self.trial.settings

    @property
    def key(self) -> str:
        """What the trial is known by in a store."""
        return self.trial.key


@dataclass(frozen=True, eq=False)
class Done(Generic[J, O]):
    """A job and what came of it."""

    job: J
    outcome: O

    @property
    def label(self) -> Any:
        """What it is found by: the label of a fit, otherwise the job itself."""
        return self.job.label if isinstance(self.job, Fit) else self.job


class Results:
    """What is finished of an experiment, by kind; `missing` are reasons why data could not be had.

    `of(Bounds, BoundsOutcome)` and `fits(Curve)` are lists of `Done`, in the order of the plan.
    """

    def __init__(self, done: Sequence[Done[Any, Any]] = (), missing: Sequence[str] = ()) -> None:
        self.done, self.missing = tuple(done), tuple(missing)

    def of(self, work: type[W], outcome: type[O]) -> list[Done[W, O]]:
        """The finished work of a kind, with its outcomes."""
        found = [one for one in self.done if isinstance(one.job, work)]
        assert all(isinstance(one.outcome, outcome) for one in found)
        return found

    def fits(self, label: type[L]) -> list[Done[Fit[L], FitOutcome]]:
        """The finished fits whose labels are of that type."""
        return [
            one
            for one in self.done
            if isinstance(one.job, Fit) and isinstance(one.job.label, label)
        ]

    @property
    def gaps(self) -> str:
        """A sentence about those jobs among others whose data could not be had, or nothing."""
        if not self.missing:
            return ""
        count = len(self.missing)
        return f" {count} of {len(self) + count} models are missing: {self.missing[0]}"

    def __len__(self) -> int:
        return len(self.done)


@dataclass(frozen=True)
class Conclusion:
    """What an experiment has to say: `paragraphs` are plain text, one or two, for the page."""

    paragraphs: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()


def unfinished(results: Results, claims: Sequence[Claim], data: str) -> Conclusion:
    """What is said when nothing is finished: that `data` could not be had, where that is why."""
    if results.done or not results.missing:
        return Conclusion(("No model of this experiment is finished.",), claims=tuple(claims))
    why = results.missing[0]
    untestable = tuple(claim.untestable(why) for claim in claims)
    return Conclusion((f"The {data} could not be had: {why}",), claims=untestable)


#: Jobs of an experiment, each with the seconds that it is expected to take on one core
Plan = Sequence[Sized[Job]]


@dataclass(frozen=True)
class Experiment:
    """One figure, table or question: its name on the command line, its jobs, its conclusion.

    `place` is where the paper has it, `order` where it stands on the page (the paper's are tens up
    to 160); `parts` are names of parts of it, which come with the whole.
    """

    name: str
    title: str
    place: str
    order: int
    plan: Callable[[Preset], Plan]
    conclude: Callable[[Results], Conclusion]
    parts: tuple[str, ...] = ()


def select(found: Sequence[Done[J, O]], **wanted: object) -> list[Done[J, O]]:
    """Those whose labels have these values."""
    return [
        one
        for one in found
        if all(getattr(one.label, name) == value for name, value in wanted.items())
    ]


def to_plain(value: Outcome | Work) -> Plain:
    """A dataclass as plain JSON values, tuples as lists."""
    made: Plain = json.loads(json.dumps(asdict(value)))
    return made


_checker: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def from_plain(kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass with these values, checked; names that it does not have are passed over."""
    made: T = _checker(kind).validate_python(dict(values))
    return made
