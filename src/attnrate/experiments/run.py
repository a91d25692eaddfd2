"""Running experiments: all of their jobs as one sweep, then what each of them concludes.

A folder belongs to one preset. It holds `trials.sqlite` (the store of the sweep), a record for
every experiment under `records/`, and whatever the report makes of them. An experiment that fails
leaves the others alone. `run_job` is what a worker calls.
"""

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

from attnrate.errors import InputError, hint, require_choice
from attnrate.experiments import experiments, load
from attnrate.experiments import names as all_names
from attnrate.experiments.contract import (
    MADE_BY,
    MISSING,
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
from attnrate.training.checkpoint import clear_epochs

_COMMAND = "reproduce"
_STORE = "trials.sqlite"
#: On shared cores work has taken up to this many times its planned seconds
_SLOWER = 2.0
_MILLISECONDS = 1000  # sizes of a sweep's jobs are whole numbers of these
_WORTH_SAYING = 60.0  # seconds


@dataclass(frozen=True)
class Planned:
    """An experiment with its jobs, or with the reason why it has none."""

    experiment: Experiment
    jobs: tuple[Sized[Job], ...] = ()
    failed: str | None = None


def run_experiments(
    names: object,
    preset: object,
    folder: object,
    engine: object = "local",
    workers: object = None,
    progress: bool | None = None,
) -> Path:
    """Run what is not in the folder yet and conclude; the folder, with a record an experiment.

    `names` are experiments, all of them if none is named. The folder is reproduction-PRESET for
    None; it must be new, empty, or one of an earlier run with the same preset, which then goes
    on. Called again it runs only what is missing.
    """
    chosen, size = as_names(names), as_preset(preset)
    seats = make_engine(engine, workers).workers  # refused before a folder is made, not after
    plans = [planned(name, size) for name in chosen]
    place = claim_folder(folder, size)
    sized = in_turns((one for plan in plans for one in plan.jobs), size)
    with Store(place / _STORE) as kept:
        # results that say only that data could not be had: perhaps they can be had now
        rows = kept.finished([one.job for one in sized])
        kept.forget([row.key for row in rows if MISSING in row.result])
        finished = kept.finished_keys()
    if progress:
        say_plan(sized, finished, seats)
    if sized:
        done = sweep(sized, engine, place / _STORE, workers, progress, run_job, _clear)
        clear_epochs(row.key for row in done.finished)
    conclude_experiments(plans, size, place)
    return place


def in_turns(jobs: Iterable[Sized[Job]], preset: Preset) -> list[Sized[Job]]:
    """All jobs, each once; the paper preset by seeds, so that early results cover all."""
    each = {one.job.key: one for one in jobs}
    return [
        Sized(
            one.job,
            max(1, round(_MILLISECONDS * one.size)),
            turn=one.job.seed if preset == "paper" else 0,
        )
        for one in each.values()
    ]


def say_plan(sized: Iterable[Sized[Job]], done: set[str], workers: int) -> None:
    """How much there is to do and how long that takes by plan, if it is long."""
    left = [one for one in sized if one.job.key not in done]
    seconds = sum(one.size for one in left) / _MILLISECONDS / min(workers, max(1, len(left)))
    if seconds >= _WORTH_SAYING:
        told = said_range((seconds, _SLOWER * seconds))
        say(f"{len(left)} piece{'s' if len(left) > 1 else ''} of work; by plan {told}")


def _clear(job: Job) -> None:
    clear_epochs([job.key])


def conclude_folder(folder: object) -> Path:
    """Conclude again from what is finished in the folder, running nothing.

    A record of work that is not in the folder's store, as in docs/reproduction, stays as it is.
    """
    place, preset = open_folder(folder)
    plans = [planned(name, preset) for name in all_names()]
    with Store(place / _STORE) as kept:
        done = kept.finished_keys()
    before = {record.name: record for record in records_in(place)}
    ours = {plan.experiment.name for plan in plans if any(one.job.key in done for one in plan.jobs)}
    others = [name for name, record in before.items() if record.finished and name not in ours]
    if others:
        say(f"kept as recorded, their work is not in {place / _STORE}: {', '.join(others)}")
    begun = (ours | before.keys()) - {*others}
    chosen = [plan for plan in plans if plan.experiment.name in begun]
    conclude_experiments(chosen if begun or others else plans, preset, place)
    return place


def conclude_experiments(plans: Sequence[Planned], preset: Preset, place: Path) -> None:
    """Write the record of every plan from the finished trials in the folder's store."""
    make_folder(place / "records")
    with Store(place / _STORE) as kept:
        for plan in plans:
            jobs = [one.job for one in plan.jobs]
            finished = {row.key: row for row in kept.finished(jobs)}
            record = _record(plan, preset, finished, kept.failed(jobs))
            save_record(record, _record_path(place, plan.experiment.name))


def records_in(place: Path) -> list[Record]:
    """The records of a folder, in the order of the page."""
    paths = [_record_path(place, name) for name in all_names()]
    return [load_record(path) for path in paths if path.exists()]


def as_names(names: object) -> tuple[str, ...]:
    """The names of experiments, each known and in the order of the page; all for none."""
    words = (names,) if isinstance(names, str) else names
    if not isinstance(words, Iterable):
        raise InputError(
            "names must be names of experiments", names, f"Known: {', '.join(all_names())}."
        )
    asked = [load(name).name for name in words]
    return tuple(name for name in all_names() if name in asked or not asked)


def as_preset(preset: object) -> Preset:
    """The preset, if it is one."""
    require_choice("preset", preset, get_args(Preset))
    return cast(Preset, preset)


def claim_folder(folder: object, preset: Preset) -> Path:
    """Make the folder, or take one that an earlier run with the same preset has made."""
    place, mark = look_at(f"reproduction-{preset}" if folder is None else folder, _COMMAND)
    if mark is None:
        write_mark(place, _COMMAND, {"preset": preset})
    there = open_folder(place)[1]
    if there != preset:
        raise InputError(
            f"this folder holds the results of the preset {there!r}",
            str(place),
            f"Name another folder for {preset!r}.",
        )
    return place


def open_folder(folder: object) -> tuple[Path, Preset]:
    """A folder that `reproduce` has made, and its preset; InputError for any other."""
    place = as_path(folder)
    preset = as_preset(read_mark(place, _COMMAND).get("preset"))
    return place, preset


def _record_path(place: Path, name: str) -> Path:
    return place / "records" / f"{name}.json"


def planned(name: str, preset: Preset) -> Planned:
    """The jobs of the experiment of that name, with all settings of fits spelled out."""
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
    """All fits at once: targets and models that they share are then built once."""
    for one in jobs:
        if not isinstance(one, Sized):
            raise InputError("a plan lists jobs with their seconds", one, "As Sized(job, 3.0).")
    fits = [one.job for one in jobs if isinstance(one.job, Fit)]
    whole = iter(complete(fit.trial for fit in fits))
    return tuple(
        Sized(Fit(one.job.label, next(whole).job), one.size) if isinstance(one.job, Fit) else one
        for one in jobs
    )


def _made_by(rows: Sequence[Finished]) -> dict[str, object]:
    """Of the tasks, not of who concludes from them: each version and commit that there is."""
    found: dict[str, dict[object, None]] = {name: {} for name in provenance()}
    for row in rows:
        made = row.result.get(MADE_BY, row.result)
        for name, values in found.items():
            if made.get(name) is not None:
                values[made[name]] = None
    last = max((row.finished for row in rows), default="")
    return {name: list(values) for name, values in found.items()} | {"finished": last}


def _record(
    plan: Planned, preset: Preset, finished: dict[str, Finished], failures: Sequence[Failed]
) -> Record:
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
        problem = f"{len(failures)} of {len(plan.jobs)} tasks failed; the first:\n"
        problem += failures[0].error
    try:
        results = results_of([one.job for one in plan.jobs], finished)
        return replace(record, conclusion=experiment.conclude(results), failed=problem)
    except Exception:  # what it cannot conclude is said on the page, beside what the others can
        return replace(record, failed=(problem or "") + traceback.format_exc(limit=-4))


def results_of(jobs: Iterable[Job], finished: Mapping[str, Finished]) -> Results:
    """The outcomes of those jobs that are finished, typed."""
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
    """Run a fit, or the work "EXPERIMENT.NAME" of an experiment; with what made the outcome."""
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
    experiment = work.partition(".")[0]
    if experiment.replace("_", "-") not in experiments():
        raise InputError(
            "the work is of no experiment",
            work,
            f"EXPERIMENT.NAME; {hint(experiment, experiments())}",
        )
    if work not in Work.kinds:
        known = sorted(name for name in Work.kinds if name.startswith(f"{experiment}."))
        raise InputError("that experiment has no such work", work, f"It has {known}.")
    return Work.kinds[work]


def prepare() -> None:
    """Load what jobs need before a worker's first one."""
    fits.prepare()
