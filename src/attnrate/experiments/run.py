"""Running experiments: all of their jobs as one sweep, then what each of them concludes.

A folder belongs to one preset. It holds `trials.sqlite` (the store of the sweep), a record for
every experiment under `records/`, and what the report makes of them. An experiment that fails does
not stop the others. `run_job` is what a worker calls.
"""

import os
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args, get_type_hints

from attnrate.errors import InputError, hint, require_choice
from attnrate.experiments import experiments, load
from attnrate.experiments import names as all_names
from attnrate.experiments.begun import begun_in
from attnrate.experiments.contract import (
    MADE_BY,
    MISSING,
    Conclusion,
    Done,
    Experiment,
    Fit,
    FitOutcome,
    Missing,
    Preset,
    Results,
    Work,
    from_plain,
    to_plain,
)
from attnrate.experiments.record import Record, load_record, save_record
from attnrate.experiments.replicas import cells_of
from attnrate.experiments.settled import Settling, further_jobs, load_settled, seen
from attnrate.fitting import trial as fits
from attnrate.fitting.build import complete
from attnrate.fitting.engines import make_engine
from attnrate.fitting.job import Job, Plain, Sized
from attnrate.fitting.provenance import provenance
from attnrate.fitting.records import Failed, Finished
from attnrate.fitting.spec import require_distinct
from attnrate.fitting.store import Store
from attnrate.fitting.sweep import sweep
from attnrate.folders import as_path, look_at, make_folder, read_mark, write_mark
from attnrate.progress import said_range, say
from attnrate.settings import by, checked
from attnrate.training.checkpoint import clear_epochs

_COMMAND = "reproduce"
STORE = "trials.sqlite"
#: On shared cores jobs have taken up to this many times their planned seconds
_SLOWER = 2.0
_MILLISECONDS = 1000  # sizes of a sweep's jobs are whole numbers of these
_WORTH_SAYING = 60.0  # seconds


@dataclass(frozen=True)
class Planned:
    """An experiment with its jobs, or with the reason why it has none."""

    experiment: Experiment
    jobs: tuple[Sized[Job], ...] = ()
    failed: str | None = None


def require_names(name: str, value: object) -> tuple[str, ...]:
    """The names of experiments, in the order of the page; all of them where none is named.

    `value` is one name or several. InputError where one of them is not known.
    """
    words = (value,) if isinstance(value, str) else value
    if not isinstance(words, Iterable):
        raise InputError(
            f"{name} must be names of experiments", value, f"Known: {', '.join(all_names())}."
        )
    asked = [load(word).name for word in words]
    return tuple(known for known in all_names() if known in asked or not asked)


def require_preset(name: str, value: object) -> Preset:
    """`value` as a preset; InputError where it is none."""
    return cast(Preset, require_choice(name, value, get_args(Preset)))


def require_folder(name: str, value: object) -> Path:
    """The name of a folder as a path; InputError where `value` is no such name."""
    return as_path(os.fspath(value) if isinstance(value, os.PathLike) else value)


#: Parameters of `checked` functions: names of experiments, a preset, the name of a folder
NamesLike = Annotated[str | Iterable[str], by(require_names)]
PresetLike = Annotated[Preset, by(require_preset)]
FolderLike = Annotated[str | os.PathLike[str], by(require_folder)]


@checked
def run_experiments(
    names: NamesLike,
    preset: PresetLike,
    folder: FolderLike | None,
    engine: str = "local",
    workers: int | None = None,
    progress: bool | None = None,
    concluded: Callable[[Record], object] | None = None,
) -> Path:
    """Run the jobs that the folder does not have yet, conclude, and return the folder.

    `names` are experiments, all of them if none is named. The folder is reproduction-PRESET for
    None. It must be new, empty, or one of an earlier run with the same preset; then only the
    missing jobs are run. An experiment is concluded as soon as its last job is finished, and
    `concluded` is called with its record. Afterwards the folder has one record per experiment.
    """
    seats = make_engine(engine, workers).workers  # refused before a folder is made, not after
    plans = [planned(name, preset) for name in names]
    place = claim_folder(folder, preset)
    sized = in_turns((one for plan in plans for one in plan.jobs), preset, without_training(plans))
    with Store(place / STORE) as kept:
        # results that say only that data could not be had: perhaps they can be had now
        rows = kept.finished([one.job for one in sized])
        kept.forget([row.key for row in rows if MISSING in row.result])
        finished = kept.finished_keys()
    if progress:
        say_plan(sized, finished, seats)
    arriving = _Arriving(plans, preset, place, finished, concluded)
    arriving.begin()
    if sized:
        done = sweep(sized, engine, place / STORE, workers, progress, run_job, arriving.stored)
        clear_epochs(row.key for row in done.finished)
    arriving.end()
    return place


def in_turns(
    jobs: Iterable[Sized[Job]], preset: Preset, first: Collection[str] = ()
) -> list[Sized[Job]]:
    """Every job once, with its turn: in the paper preset one turn per seed.

    So early results of the paper preset cover all experiments. In the quick preset the jobs with
    the keys `first` come before all others.
    """
    each = {one.job.key: one for one in jobs}

    def turn(job: Job) -> int:
        return job.seed if preset == "paper" else -1 if job.key in first else 0

    return [
        Sized(one.job, max(1, round(_MILLISECONDS * one.size)), turn(one.job))
        for one in each.values()
    ]


def without_training(plans: Iterable[Planned]) -> set[str]:
    """The keys of the jobs of those experiments that train nothing at all."""
    jobs = [[one.job for one in plan.jobs] for plan in plans]
    return {
        job.key
        for each in jobs
        if all(isinstance(job, Work) and not job.trains for job in each)
        for job in each
    }


def say_plan(sized: Iterable[Sized[Job]], done: set[str], workers: int) -> None:
    """Say how many jobs are left and how long they take by plan, if that is a minute or more."""
    left = [one for one in sized if one.job.key not in done]
    seconds = sum(one.size for one in left) / _MILLISECONDS / min(workers, max(1, len(left)))
    if seconds >= _WORTH_SAYING:
        planned_range = said_range((seconds, _SLOWER * seconds))
        say(f"{len(left)} job{'s' if len(left) > 1 else ''}; by plan {planned_range}")


class _Arriving:
    """Concludes each experiment as soon as its last job is stored, and the others at the end."""

    def __init__(
        self,
        plans: Sequence[Planned],
        preset: Preset,
        place: Path,
        finished: Collection[str],
        concluded: Callable[[Record], object] | None,
    ) -> None:
        self._preset, self._place, self._concluded = preset, place, concluded
        self._left = [
            (plan, {one.job.key for one in plan.jobs}.difference(finished)) for plan in plans
        ]

    def begin(self) -> None:
        """Conclude the experiments whose jobs an earlier run has finished."""
        self._conclude(lambda plan, left: bool(plan.jobs) and not left)

    def stored(self, job: Job) -> None:
        """Delete what a finished job has kept for a restart; conclude whose last job it was."""
        clear_epochs([job.key])
        for _, left in self._left:
            left.discard(job.key)
        self.begin()

    def end(self) -> None:
        """Conclude the experiments that are left, of which jobs failed or run elsewhere."""
        self._conclude(lambda plan, left: True)

    def _conclude(self, ready: Callable[[Planned, set[str]], bool]) -> None:
        now = [plan for plan, left in self._left if ready(plan, left)]
        self._left = [(plan, left) for plan, left in self._left if not ready(plan, left)]
        for record in conclude_experiments(now, self._preset, self._place):
            if self._concluded is not None:
                self._concluded(record)


def conclude_folder(folder: str | os.PathLike[str]) -> Path:
    """Conclude again from the jobs that are finished in the folder, without running any.

    If the folder's store has no job of an experiment, its record stays as it is.
    """
    place, preset = open_folder(folder)
    plans = [planned(name, preset) for name in all_names()]
    with Store(place / STORE) as kept:
        done = kept.finished_keys()
    before = {record.name: record for record in records_in(place)}
    keys = {plan.experiment.name: {one.job.key for one in plan.jobs} for plan in plans}
    ours = begun_in(done, keys, before.keys())
    others = [name for name, record in before.items() if record.finished and name not in ours]
    if others:
        say(f"kept as recorded, their jobs are not in {place / STORE}: {', '.join(others)}")
    begun = (ours | before.keys()) - {*others}
    chosen = [plan for plan in plans if plan.experiment.name in begun]
    for _ in conclude_experiments(chosen if begun or others else plans, preset, place):
        pass
    return place


def conclude_experiments(plans: Sequence[Planned], preset: Preset, place: Path) -> Iterator[Record]:
    """Write the record of every plan from the finished jobs in the folder's store, one by one."""
    if not plans:
        return
    make_folder(place / "records")
    settled = load_settled(place)
    with Store(place / STORE, writable=False) as kept:
        for plan in plans:
            jobs = [one.job for one in plan.jobs]
            ours = [one for one in settled if one.experiment == plan.experiment.name]
            more = [one.job for one in further_jobs(ours, cells_of(plan.jobs))] if ours else []
            finished = {row.key: row for row in kept.finished([*jobs, *more])}
            record = record_of(plan, preset, finished, kept.failed(jobs), ours)
            save_record(record, _record_path(place, plan.experiment.name))
            yield record


def records_in(place: Path) -> list[Record]:
    """The records of a folder, in the order of the page."""
    paths = [_record_path(place, name) for name in all_names()]
    return [load_record(path) for path in paths if path.exists()]


def claim_folder(folder: str | os.PathLike[str] | None, preset: Preset) -> Path:
    """Make the folder, or take one that an earlier run with the same preset has made."""
    place, mark = look_at(f"reproduction-{preset}" if folder is None else folder, _COMMAND)
    if mark is None:
        write_mark(place, _COMMAND, {"preset": preset})
    there = open_folder(place)[1]
    if there != preset:
        raise InputError(
            f"the folder {{value}} holds the results of the preset {there!r}",
            str(place),
            f"Name another folder for {preset!r}.",
        )
    return place


def open_folder(folder: str | os.PathLike[str]) -> tuple[Path, Preset]:
    """A folder that `reproduce` has made, and its preset; InputError for any other."""
    place = as_path(folder)
    way_out = "Name a folder that attnrate reproduce has made, such as reproduction-quick."
    if not place.exists():
        raise InputError("there is no folder {value}", str(place), way_out)
    mark = read_mark(place, _COMMAND, way_out)
    return place, require_preset("preset", mark.get("preset"))


def _record_path(place: Path, name: str) -> Path:
    """The file of an experiment's record."""
    return place / "records" / f"{name}.json"


def planned(name: str, preset: Preset) -> Planned:
    """The experiment of that name with its jobs, in which all settings of fits are spelled out."""
    experiment = load(name)
    try:
        jobs = _spelled_out(experiment.plan(preset))
        # listed twice, one result would count as two
        require_distinct(one.job for one in jobs)
        return Planned(experiment, jobs)
    except InputError as problem:
        return Planned(experiment, failed=str(problem))
    except Exception:  # one experiment that cannot be set up must not stop the others
        return Planned(experiment, failed=traceback.format_exc(limit=-4))


def _spelled_out(jobs: Sequence[Sized[Job]]) -> tuple[Sized[Job], ...]:
    """The jobs with every setting of their fits, defaults included.

    All fits are completed at once, so that targets and models that they share are built once.
    """
    for one in jobs:
        if not isinstance(one, Sized):
            raise InputError("a plan must list jobs with their seconds", one, "As Sized(job, 3.0).")
    fits = [one.job for one in jobs if isinstance(one.job, Fit)]
    whole = iter(complete(fit.trial for fit in fits))
    return tuple(
        Sized(Fit(one.job.label, next(whole).job), one.size) if isinstance(one.job, Fit) else one
        for one in jobs
    )


def _made_by(rows: Sequence[Finished]) -> dict[str, object]:
    """Every version and commit that computed the jobs, and when the last of them was finished.

    It says nothing of the versions that conclude from them.
    """
    found: dict[str, dict[object, None]] = {name: {} for name in provenance()}
    for row in rows:
        made = row.result.get(MADE_BY, row.result)
        for name, values in found.items():
            if made.get(name) is not None:
                values[made[name]] = None
    last = max((row.finished for row in rows), default="")
    return {name: list(values) for name, values in found.items()} | {"finished": last}


def record_of(
    plan: Planned,
    preset: Preset,
    finished: Mapping[str, Finished],
    failures: Sequence[Failed],
    settled: Sequence[Settling] = (),
) -> Record:
    """What an experiment concludes from its finished jobs, or why it cannot.

    Claims that were looked at again have the verdicts of these looks; all else, figures and tables
    too, is from the jobs of the plan.
    """
    done = [finished[one.job.key] for one in plan.jobs if one.job.key in finished]
    experiment = plan.experiment
    record = Record(
        name=experiment.name,
        title=experiment.title,
        place=experiment.place,
        preset=preset,
        tasks=len(plan.jobs),
        finished=len(done),
        seconds=sum((row.seconds for row in done), 0.0),
        provenance=_made_by(done),
    )
    if plan.failed is not None:
        return replace(record, failed=plan.failed)
    problem = None
    if failures:
        problem = f"{len(failures)} of {len(plan.jobs)} jobs failed; the first:\n"
        problem += failures[0].error
    try:
        said = experiment.conclude(results_of([one.job for one in plan.jobs], finished))
        if settled:
            said = _settled(plan, said, finished, settled)
        return replace(record, conclusion=said, failed=problem)
    except Exception:  # what it cannot conclude is said on the page, beside what the others can
        return replace(record, failed=(problem or "") + traceback.format_exc(limit=-4))


def _settled(
    plan: Planned,
    said: Conclusion,
    finished: Mapping[str, Finished],
    settled: Sequence[Settling],
) -> Conclusion:
    """The conclusion with the claims that were looked at again as these looks leave them."""
    cells, jobs = cells_of(plan.jobs), [one.job for one in plan.jobs]
    again = {one.claim: one for one in settled}

    def results(some: Sequence[Job]) -> Results | None:
        return results_of(some, finished) if all(job.key in finished for job in some) else None

    claims = tuple(
        seen(again[one.name], one, jobs, cells, results, plan.experiment.conclude).claim
        if one.name in again
        else one
        for one in said.claims
    )
    return replace(said, claims=claims)


def results_of(jobs: Iterable[Job], finished: Mapping[str, Finished]) -> Results:
    """The outcomes of the finished ones among the jobs, as typed values."""
    done: list[Done[Any, Any]] = []
    missing: list[str] = []
    for job in jobs:
        if job.key not in finished:
            continue
        values = finished[job.key].result
        if MISSING in values:
            missing.append(str(values[MISSING]))
            continue
        kind = get_type_hints(job.run)["return"] if isinstance(job, Work) else FitOutcome
        done.append(Done(job, from_plain(kind, values)))
    return Results(done, missing)


def run_job(settings: Plain) -> Plain:
    """Run a fit, or the work "EXPERIMENT.NAME" of an experiment, from its settings.

    The result is the outcome as plain values, with the versions that made it.
    """
    work = settings["target"].get("work")
    if work is None:
        return fits.run_trial(settings)
    job = from_plain(_kind(str(work)), {**settings["target"], "seed": settings["seed"]})
    try:
        values = to_plain(job.run())
    except Missing as why:
        values = {MISSING: str(why)}
    return {**values, MADE_BY: provenance()}


def _kind(work: str) -> type[Work]:
    """The class of the work "EXPERIMENT.NAME"."""
    experiment = work.partition(".")[0]
    if experiment.replace("_", "-") not in experiments():
        raise InputError(
            "the work {value} is of no experiment",
            work,
            f"Write EXPERIMENT.NAME. {hint(experiment, experiments())}",
        )
    if work not in Work.kinds:
        known = sorted(name for name in Work.kinds if name.startswith(f"{experiment}."))
        raise InputError("its experiment has no work {value}", work, f"It has {known}.")
    return Work.kinds[work]


def prepare() -> None:
    """Import what jobs need, before a worker gets its first one."""
    fits.prepare()
