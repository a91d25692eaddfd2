"""What an experiment is: typed jobs to run, and what their outcomes say.

An experiment is an `Experiment` in a file of `paper/`, by custom with the name EXPERIMENT; it is
found by being there. `plan` lists its jobs: fits, or work of its own. All jobs of all experiments
go into one sweep, which stores, resumes and runs them by any engine. `conclude` then turns outcomes
into figures, tables, paragraphs and claims. It trains nothing, so that it can be repeated at no
cost.

A job that is not a fit is a `Work`: its fields are its settings, and `run` returns an `Outcome`.
Subclasses of both are frozen dataclasses without a decorator, and go to JSON and back by
themselves.

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

#: The key, in the stored values of a job, of the reason why its data could not be had. The next run
#: tries such a job again.
MISSING = "missing"
#: The key, in the stored values of a job, of the versions and the commit that computed them
MADE_BY = "made_by"
#: quick: minutes on two cores, every experiment represented; paper: the full grids, 5 seeds
Preset = Literal["quick", "paper"]


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Outcome:
    """The result of a job: finite numbers, words and tuples of them.

    Every subclass becomes a frozen dataclass.
    """

    def __init_subclass__(cls, kw_only: bool = False) -> None:
        dataclass(frozen=True, kw_only=kw_only)(cls)


O = TypeVar("O", bound=Outcome)  # noqa: E741 - an outcome
W = TypeVar("W", bound="Work")
L = TypeVar("L")
J = TypeVar("J")
T = TypeVar("T")


class Missing(Exception):  # noqa: N818 - it is a result, kept until the next run tries again
    """Raised by a job whose data cannot be had; the text says why."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """A job that is not a fit; every subclass becomes a frozen dataclass.

    Its fields, apart from the seed, are its settings. A finished job is known by its settings and
    not by its code: after a change of `run`, use another folder or change a setting.

    `work` is "EXPERIMENT.NAME", with _ for - in the experiment's name. It is part of the key, as in
    stores of earlier versions. `trains=False` marks work that fits no model: experiments of such
    work alone come first in a quick run, so that its first verdicts do not wait for training.
    """

    work: ClassVar[str]
    trains: ClassVar[bool] = True
    kinds: ClassVar[dict[str, type["Work"]]] = {}

    seed: int = 0

    def __init_subclass__(cls, work: str = "", trains: bool = True) -> None:
        dataclass(frozen=True, kw_only=True)(cls)
        cls.trains = trains
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
        """Do the work, in a worker with one thread; raise `Missing` where data cannot be had.

        Its annotation must name the class of `Outcome` that it returns, because the stored outcome
        is read by it.
        """

    @property
    def settings(self) -> Plain:
        """The settings as a store keeps them, in the tables that a fit has."""
        fields = {"work": self.work, **to_plain(self)}
        seed = fields.pop("seed")
        return {"target": plain(self.work, fields), "model": {}, "recipe": {}, "seed": seed}

    @property
    def key(self) -> str:
        """The key by which a store knows the job."""
        return key_of(self.settings)


class FittedOutcome(Outcome):
    """How a fit went, for work that looks at the fitted model; the error is None if it diverged."""

    error: float | None = None
    standard_error: float | None = None
    seconds: float = 0.0
    steps: int = 0
    stopped: str = ""


class FitOutcome(FittedOutcome):
    """The outcome of a job that is a plain fit."""

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
        """The key by which a store knows the trial."""
        return self.trial.key


@dataclass(frozen=True, eq=False)
class Done(Generic[J, O]):
    """A job with its outcome."""

    job: J
    outcome: O

    @property
    def label(self) -> Any:
        """The label of a fit; for other work, the job itself."""
        return self.job.label if isinstance(self.job, Fit) else self.job


class Results:
    """The finished jobs of an experiment, which are asked for by kind.

    `of(Bounds, BoundsOutcome)` and `fits(Curve)` are lists of `Done`, in the order of the plan.
    `missing` has the reasons why the data of some jobs could not be had.
    """

    def __init__(self, done: Sequence[Done[Any, Any]] = (), missing: Sequence[str] = ()) -> None:
        self.done, self.missing = tuple(done), tuple(missing)

    def of(self, work: type[W], outcome: type[O]) -> list[Done[W, O]]:
        """The finished jobs of a class of work, with their outcomes."""
        found = [one for one in self.done if isinstance(one.job, work)]
        assert all(isinstance(one.outcome, outcome) for one in found)
        return found

    def fits(self, label: type[L]) -> list[Done[Fit[L], FitOutcome]]:
        """The finished fits whose labels are of a type."""
        return [
            one
            for one in self.done
            if isinstance(one.job, Fit) and isinstance(one.job.label, label)
        ]

    @property
    def gaps(self) -> str:
        """A sentence about the jobs whose data could not be had; "" where there are none."""
        if not self.missing:
            return ""
        count = len(self.missing)
        return f" {count} of {len(self) + count} models are missing: {self.missing[0]}"

    def __len__(self) -> int:
        return len(self.done)


@dataclass(frozen=True)
class Conclusion:
    """What an experiment concludes: a paragraph or two of plain text, figures, tables, claims."""

    paragraphs: tuple[str, ...]
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()


def unfinished(results: Results, claims: Sequence[Claim], data: str) -> Conclusion:
    """The conclusion where no job is finished; it names `data` where they could not be had."""
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

    `place` is where the paper has it. `order` is its place on the page (the paper's own have tens
    up to 160). `parts` are further names, of parts of it, for which the whole is run.
    """

    name: str
    title: str
    place: str
    order: int
    plan: Callable[[Preset], Plan]
    conclude: Callable[[Results], Conclusion]
    parts: tuple[str, ...] = ()


def select(found: Sequence[Done[J, O]], **wanted: object) -> list[Done[J, O]]:
    """The finished jobs whose labels have these values."""
    return [
        one
        for one in found
        if all(getattr(one.label, name) == value for name, value in wanted.items())
    ]


def to_plain(value: Outcome | Work) -> Plain:
    """An outcome or work as plain JSON values, with lists instead of tuples."""
    made: Plain = json.loads(json.dumps(asdict(value)))
    return made


_checker: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def from_plain(kind: type[T], values: Mapping[str, Any]) -> T:
    """The dataclass with these values, after checking them; names that it lacks are ignored."""
    made: T = _checker(kind).validate_python(dict(values))
    return made
