"""A grid of trials, run by an engine and kept in a store: begun, interrupted, resumed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnrate.errors import InputError
from attnrate.fitting.engines import Engine, make_engine, name_of
from attnrate.fitting.job import Job, Run, Sized
from attnrate.fitting.progress import SweepProgress
from attnrate.fitting.records import Failed, Finished, Status
from attnrate.fitting.spec import load_spec, require_distinct
from attnrate.fitting.store import NoStoreError, Store
from attnrate.fitting.trial import run_trial

if TYPE_CHECKING:
    import pandas as pd

_ASK_AGAIN = 0.2  # seconds between two looks at what another sweep is running


@dataclass(frozen=True)
class SweepResult:
    """The trials of a sweep that are finished, in its order, and those that failed.

    `ran` trials were finished by this run; the others were in the store or came from another
    sweep on the same store.
    """

    finished: tuple[Finished, ...]
    failed: tuple[Failed, ...]
    ran: int
    seconds: float
    store: Path

    def to_frame(self) -> "pd.DataFrame":
        """The finished trials of this sweep, one row each."""
        from attnrate.fitting.table import frame

        return frame(row.row for row in self.finished)

    def export(self, path: object) -> Path:
        """Write the finished trials of this sweep to a .csv or .parquet file."""
        from attnrate.fitting.table import export_frame

        return export_frame(self.to_frame(), path)

    @property
    def summary(self) -> dict[str, Any]:
        """The counts, and why trials failed, in plain values."""
        return {
            "total": len(self.finished) + len(self.failed),
            "finished": len(self.finished),
            "failed": len(self.failed),
            "failures": [{"settings": row.settings, "error": row.error} for row in self.failed],
            "ran": self.ran,
            "seconds": self.seconds,
            "store": str(self.store),
        }

    def __str__(self) -> str:
        total = len(self.finished) + len(self.failed)
        lines = [
            f"{len(self.finished)} of {total} trials finished, {self.ran} of them now, "
            f"in {self.seconds:.1f} s; kept in {self.store}"
        ]
        if self.failed:
            last = self.failed[0].error.strip().splitlines()[-1]
            lines.append(f"{len(self.failed)} failed and will be retried; the first: {last}")
        return "\n".join(lines)


def sweep(
    grid: object,
    engine: object = "local",
    store: object = "sweep.sqlite",
    workers: object = None,
    progress: bool | None = None,
    function: Run = run_trial,
    stored: Callable[[Job], None] | None = None,
) -> SweepResult:
    """Run the trials of a grid that the store does not have yet.

    `grid` is a TOML file, a dictionary or a list of trials (see `fitting/spec.py`), or a list of
    `Sized`. The trials of the largest size in a turn come first, and the sizes, which otherwise are
    what a fit roughly costs, tell how long the rest will take. `engine` is "local", one process a
    core with one thread each; "ray", the cluster at RAY_ADDRESS or one made on this machine; or a
    cluster's "ray://HOST:PORT". `workers` limits how many trials run at a time. `progress` shows a
    live line on a terminal; True also prints lines elsewhere, False neither.

    Every trial is stored the moment it is finished. A sweep that was killed, interrupted or
    stopped by a full disk goes on when it is called again; a trial that failed is tried again. A
    grid that has changed uses all results that are still part of it. Sweeps that run on one store
    at the same time share the work.

    Other work than fits is a list of `Sized` jobs and the `function` that runs one in a worker (see
    `fitting/job.py`). `stored` is called with every job that ran here, once its result is safe.
    """
    sized = _sized(grid, function)
    name_of(function)  # refused before a store is made, not after
    trials = [one.job for one in sized]
    runner = make_engine(engine, workers)
    start = time.monotonic()
    with Store(store) as kept:
        before = kept.finished_keys()
        # The largest first: a long trial that comes last leaves the other workers idle.
        in_turn = sorted(sized, key=lambda one: (one.turn, -one.size))
        todo = [one for one in in_turn if one.job.key not in before]
        ran = 0
        if todo:
            sizes, at_once = [one.size for one in todo], min(runner.workers, len(todo))
            with SweepProgress(len(trials), sizes, at_once, progress) as display:
                ran = _run_all(todo, len(trials), runner, kept, display, function, stored)
        return SweepResult(
            tuple(kept.finished(trials)),
            tuple(kept.failed(trials)),
            ran,
            time.monotonic() - start,
            kept.path,
        )


def sweep_status(grid: object, store: object, function: Run = run_trial) -> Status:
    """How far the sweep of this grid has come in that store, which need not be there yet."""
    return _status([one.job for one in _sized(grid, function)], store, None)


def run_from_cli(
    path: object,
    store: object = None,
    engine: object = "local",
    workers: object = None,
    status: bool = False,
    export: object = None,
    progress: bool | None = True,
) -> SweepResult | Status:
    """What `attnrate sweep` does: run or resume, or only say how far it is; perhaps export.

    Without `store`, the store is beside the spec: grid.toml -> grid.sqlite. With `status`,
    `export` writes what is finished so far. Where nothing is finished, no table is written.
    """
    from attnrate.fitting.table import check_export

    if not isinstance(path, (str, Path)) or not Path(path).name:
        raise InputError("the spec must be a file", path, "As grid.toml.")
    store = Path(path).with_suffix(".sqlite") if store is None else store
    if export is not None:
        check_export(export)
    if not status:
        result = sweep(path, engine, store, workers, progress)
        if export is not None and result.finished:
            result.export(export)
        return result
    return _status([one.job for one in _sized(path, run_trial)], store, export)


def _status(trials: Sequence[Job], store: object, export: object) -> Status:
    """How far the trials are in the store; a table of the finished ones, if there are any."""
    from attnrate.fitting.table import export_frame, frame

    try:
        kept = Store(store, writable=False)
    except NoStoreError:
        return Status(total=len(trials), finished=0, failed=0, running=0)
    with kept:
        if export is not None and (finished := kept.finished(trials)):
            export_frame(frame(row.row for row in finished), export)
        return kept.status(trials)


def _sized(grid: object, function: Run) -> Sequence[Sized[Job]]:
    """The jobs of the grid, checked, with their sizes; fits complete."""
    given: Sequence[Sized[Job]] | None = None
    if isinstance(grid, list | tuple) and grid and all(isinstance(one, Sized) for one in grid):
        given = grid
        grid = [one.job for one in grid]
        if function is not run_trial:  # what the settings mean is that function's affair
            require_distinct(grid)
            return given
    trials = load_spec(grid).trials
    if function is not run_trial:
        return [Sized(trial, 0) for trial in trials]
    from attnrate.fitting.build import complete

    completed = complete(trials)
    require_distinct(one.job for one in completed)
    if given is None:
        return completed
    return [Sized(one.job, of.size, of.turn) for one, of in zip(completed, given, strict=True)]


def _run_all(
    todo: list[Sized[Job]],
    total: int,
    engine: Engine,
    kept: Store,
    display: SweepProgress,
    function: Run,
    stored: Callable[[Job], None] | None,
) -> int:
    """Run the trials, and wait for those that another sweep is running; how many ran here."""
    ran, left = 0, [one.job for one in todo]
    sizes = {one.job.key: one.size for one in todo}
    failed_before = {row.key: row.attempts for row in kept.failed(left)}

    def tell(trial: Job, seconds: float | None, failed: bool) -> None:
        display.finish(sizes[trial.key], seconds, failed)
        if stored is not None and not failed and seconds is not None:
            stored(trial)

    try:
        while left:
            held: list[Job] = []
            ran += _run(left, held, engine, kept, tell, function)
            finished = kept.finished_keys()
            failed = {
                row.key for row in kept.failed(held) if row.attempts > failed_before.get(row.key, 0)
            }
            ended = finished | failed
            left = [trial for trial in held if trial.key not in ended]
            for trial in held:
                if trial.key in ended:
                    tell(trial, None, trial.key not in finished)
            if left:
                time.sleep(_ASK_AGAIN)
    except KeyboardInterrupt:
        done = kept.status(one.job for one in todo).finished + total - len(todo)
        raise KeyboardInterrupt(
            f"stopped with {done} of {total} trials finished, all kept in {kept.path}; "
            "run the same sweep again to go on"
        ) from None
    finally:
        kept.release()
    return ran


def _run(
    todo: list[Job],
    held: list[Job],
    engine: Engine,
    kept: Store,
    tell: Callable[[Job, float | None, bool], None],
    function: Run,
) -> int:
    """Run what can be claimed, put the rest into `held`; how many were finished."""
    first = next(claimed := _claimed(todo, held, kept), None)
    if first is None:
        return 0
    ran = 0
    with closing(engine.run(_chained(first, claimed), len(todo), function)) as outcomes:
        for outcome in outcomes:
            if outcome.result is None:
                kept.add_failure(outcome.job, outcome.error or "", outcome.worker)
            else:
                ran += kept.add(outcome.job, outcome.result, outcome.seconds, outcome.worker)
            tell(outcome.job, outcome.seconds, outcome.result is None)
    return ran


def _claimed(trials: list[Job], held: list[Job], kept: Store) -> Iterator[Job]:
    """The trials, each claimed when it is asked for; those that another sweep has go to `held`."""
    for trial in trials:
        if kept.claim(trial):
            yield trial
        else:
            held.append(trial)


def _chained(first: Job, rest: Iterator[Job]) -> Iterator[Job]:
    yield first
    yield from rest
