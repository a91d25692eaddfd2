"""Settling: work on open claims alone until they are decided, given up, or out of time.

A round makes one further look at each open claim, the widest interval against its limit first. A
look is begun when its jobs end in time by what such jobs have taken, and is then finished. It is
written into the folder (settled.py) before its jobs run, so that after a kill the same command goes
on where it was. Which claims are looked at, when and how wide, follows rules that are fixed
(looks.py); nothing that a user sees on the way can change a verdict.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from attnrate.errors import InputError
from attnrate.experiments.replicas import cells_of
from attnrate.experiments.run import (
    STORE,
    Planned,
    conclude_experiments,
    conclude_folder,
    in_turns,
    open_folder,
    planned,
    run_job,
)
from attnrate.experiments.settled import Settling, further_jobs, load_settled, save_settled
from attnrate.experiments.survey import Open, Standing, Survey
from attnrate.fitting.engines import make_engine
from attnrate.fitting.job import Job, Sized
from attnrate.fitting.store import Store
from attnrate.fitting.sweep import sweep
from attnrate.settings import by
from attnrate.training.checkpoint import clear_epochs

Ending = Standing | Literal["out of time", "failed"]
"""How settling has ended for a claim: as it stands, without time for its next look, or failed."""
_HOUR = 3600.0


def _require_hours(name: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:  # type: ignore[operator]
        raise InputError(
            f"{name} must be a number of hours, 0 or more",
            value,
            "0 only says what would be done; leave it out to go on until nothing is left to do.",
        )
    return float(value)  # type: ignore[arg-type]


HoursLike = Annotated[float, by(_require_hours)]


@dataclass(frozen=True)
class Settled:
    """A claim that the first look left open, and how settling has ended for it.

    Attributes:
        open: The claim as it is now, with its seeds, and those that it needs.
        ending: How settling has ended for it.
        now: Whether it was looked at in this call.

    """

    open: Open
    ending: Ending
    now: bool


@dataclass(frozen=True)
class Told:
    """Called on the way: with all open claims before the first look, and with each claim after."""

    begin: Callable[[Sequence[Open], int], object]
    looked: Callable[[Open], object]


def settle_experiments(
    names: tuple[str, ...],
    folder: Path,
    hours: float | None = None,
    engine: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
    told: Told | None = None,
) -> tuple[Settled, ...]:
    """Look again at the open claims of a folder until they are decided, futile, or out of time.

    Args:
        names: The names of experiments.
        folder: A folder that `run_experiments` has made.
        hours: The time for all looks that are begun; None for as long as it takes, 0 for none.
        engine: Where jobs run.
        workers: The number of jobs at a time.
        progress: As for a sweep.
        told: Functions that are called on the way.

    Returns:
        Every claim that the first look left open. If no look was made, nothing has changed.

    """
    seats = make_engine(engine, workers).workers
    begun = time.monotonic()
    desk = _Desk.of(names, folder)
    opened = desk.survey(desk.plans)
    if told:
        told.begin([*opened.values()], seats)
    looked: set[str] = set()
    failed: set[str] = set()
    while True:
        left = math.inf if hours is None else hours * _HOUR - (time.monotonic() - begun)
        chosen = in_time([o for n, o in opened.items() if n not in failed], left, seats)
        if not chosen:
            break
        desk = desk.begin(chosen)
        failed |= desk.run(chosen, engine, workers, progress)
        looked |= {one.claim.name for one in chosen}
        there = {one.experiment for one in chosen}
        desk = desk.read()
        opened |= desk.survey([one for one in desk.plans if one.experiment.name in there])
        for one in chosen:
            if told and one.claim.name not in failed:
                told.looked(opened[one.claim.name])
    if looked:
        desk.conclude()
    return tuple(_ended(one, failed, looked) for one in opened.values())


def _ended(one: Open, failed: set[str], looked: set[str]) -> Settled:
    """How settling has ended for a claim."""
    name = one.claim.name
    ending: Ending = one.standing
    if name in failed:
        ending = "failed"
    elif one.standing == "can be settled":
        ending = "out of time"
    return Settled(one, ending, name in looked)


def in_time(claims: Sequence[Open], seconds: float, workers: int) -> list[Open]:
    """The claims whose next look ends in time, the widest interval against its limit first.

    Jobs that several claims need count once. A look whose jobs are all there takes no time.
    """
    chosen: list[Open] = []
    jobs: dict[str, float] = {}
    can = [one for one in claims if one.standing == "can be settled"]
    for one in sorted(can, key=lambda one: (-one.width, one.claim.name)):
        all_jobs = jobs | {each.job.key: each.size for each in one.jobs}
        if seconds > 0 and duration(all_jobs.values(), workers) <= seconds:
            chosen.append(one)
            jobs = all_jobs
    return chosen


def duration(sizes: Iterable[float], workers: int) -> float:
    """The seconds that jobs take that run so many at a time, without waiting for each other."""
    every = [*sizes]
    return max(sum(every) / workers, max(every, default=0.0))


@dataclass(frozen=True)
class _Desk:
    """A folder with its experiments, what was looked at again in it, and the finished jobs."""

    place: Path
    plans: tuple[Planned, ...]
    surveys: Mapping[str, Survey]
    settled: tuple[Settling, ...]

    @classmethod
    def of(cls, names: tuple[str, ...], folder: Path) -> "_Desk":
        """The experiments that have results in the folder; InputError if none has."""
        place, preset = open_folder(folder)
        way_out = "Run attnrate reproduce without --settle first."
        if not (place / STORE).exists():
            raise InputError("the folder {value} has no results to settle", str(place), way_out)
        plans = tuple(planned(name, preset) for name in names)
        desk = cls(place, plans, {}, ()).read()
        there = tuple(
            plan
            for plan in plans
            if any(one.job.key in desk.surveys[plan.experiment.name].finished for one in plan.jobs)
        )
        if not there:
            raise InputError("the folder {value} has no results to settle", str(place), way_out)
        return replace(desk, plans=there)

    def read(self) -> "_Desk":
        """The folder as it is now."""
        settled = load_settled(self.place)
        surveys = {}
        with Store(self.place / STORE, writable=False) as kept:
            for plan in self.plans:
                name = plan.experiment.name
                ours = tuple(one for one in settled if one.experiment == name)
                jobs = [*plan.jobs, *further_jobs(ours, cells_of(plan.jobs))]
                rows = kept.finished([one.job for one in jobs])
                surveys[name] = Survey(plan, {row.key: row for row in rows}, ours)
        return replace(self, surveys=surveys, settled=settled)

    def survey(self, plans: Sequence[Planned]) -> dict[str, Open]:
        """The open claims of some experiments, by name."""
        found = [one for plan in plans for one in self.surveys[plan.experiment.name].open()]
        return {one.claim.name: one for one in found}

    def conclude(self) -> None:
        """Write the records anew."""
        if not (self.place / "records").exists():  # then those of the other experiments are due too
            conclude_folder(self.place)
        for _ in conclude_experiments(self.plans, open_folder(self.place)[1], self.place):
            pass

    def begin(self, chosen: Sequence[Open]) -> "_Desk":
        """Write down that these looks are begun."""
        settled = {one.claim: one for one in self.settled}
        for one in chosen:
            assert one.again is not None
            name = one.claim.name
            before = settled.get(name, Settling(name, one.experiment, one.first, ()))
            if one.again not in before.looks:
                settled[name] = replace(before, looks=(*before.looks, one.again))
        save_settled(self.place, settled.values())
        return replace(self, settled=tuple(settled.values()))

    def run(
        self, chosen: Sequence[Open], engine: str, workers: int | None, progress: bool | None
    ) -> set[str]:
        """Run the jobs of these looks; the names of claims of which a job failed."""
        jobs = [each for one in chosen for each in one.jobs]
        sized: list[Sized[Job]] = in_turns(jobs, "quick")
        if not sized:
            return set()
        done = sweep(sized, engine, self.place / STORE, workers, progress, run_job)
        clear_epochs(row.key for row in done.finished)
        lost = {row.key for row in done.failed}
        return {one.claim.name for one in chosen if any(j.job.key in lost for j in one.jobs)}
