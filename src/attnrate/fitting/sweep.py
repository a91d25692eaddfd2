"""Sweeps: grids of trials that an engine runs and a store keeps; begun, interrupted, resumed."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from attnrate.errors import InputError, require_whole
from attnrate.fitting.engines import Engine, make_engine, name_of
from attnrate.fitting.job import Job, JobFunction, Sized
from attnrate.fitting.progress import SweepProgress
from attnrate.fitting.records import Status
from attnrate.fitting.result import SweepResult
from attnrate.fitting.ship import pack
from attnrate.fitting.spec import SpecLike, load_spec, require_distinct
from attnrate.fitting.store import NoStoreError, Store, StoreFile
from attnrate.fitting.trial import Trial, run_trial
from attnrate.settings import by, checked
from attnrate.words import Wanted

__all__ = ["SweepResult", "run_from_cli", "sweep", "sweep_status"]

_ASK_AGAIN = 0.2  # seconds between two looks at what another sweep is running


def _require_engine(name: str, engine: object) -> str:
    make_engine(engine)
    return str(engine)


def _require_workers(name: str, workers: object) -> int | None:
    return None if workers is None else require_whole(name, workers, 1)


def _require_spec(name: str, spec: object) -> object:
    return spec  # `load_spec` checks it, piece by piece


_Spec = Annotated[SpecLike, by(_require_spec)]
_Engine = Annotated[str, by(_require_engine)]
_Workers = Annotated[int | None, by(_require_workers)]


@checked
def sweep(
    grid: _Spec,
    engine: _Engine = "local",
    store: StoreFile = "sweep.sqlite",
    workers: _Workers = None,
    progress: Wanted = None,
    function: JobFunction = run_trial,
    stored: Callable[[Job], object] | None = None,
) -> SweepResult:
    """Run every trial of a grid that the store does not have yet.

    A trial is one fit. It is stored as soon as it is finished. A sweep that was killed, interrupted
    or stopped by a full disk goes on when it is called again, and a trial that failed is tried
    again. Trials are known by all of their settings, so a changed grid uses every result that is
    still part of it. Sweeps that run on one store at the same time share the work.

    Args:
        grid: The name of a TOML file, a dictionary of the same form (see `SweepSpec`), a list of
            `Trial`s, or a list of `Sized` jobs. Jobs of a lower turn come first, and within a turn
            the largest; sizes also tell how long the rest will take. The size of a trial is by
            default its number of parameters times the number of tokens that it trains on.
        engine: "local" runs one process per core with one thread each; "ray" uses the Ray cluster
            at RAY_ADDRESS, or one on this machine; "ray://HOST:PORT" that cluster.
        store: The SQLite file that keeps the results.
        workers: The number of jobs that run at the same time; by default one per core.
        progress: None shows a live line on a terminal or in a notebook; True prints lines
            elsewhere too, False shows nothing.
        function: The function that runs one job, from its settings to its result, for other work
            than fits; `grid` is then a list of `Sized` jobs of your own (see `Job`). Workers import
            it by its name, so it must stand at the top level of a module.
        stored: A function that is called with every job that ran here, once its result is stored.

    Returns:
        All finished trials, those of earlier runs included, and the failed ones.

    Raises:
        InputError: If a setting or an argument is wrong; nothing has run then.
        StoreError: If the store cannot be read or written.

    Examples:
        >>> spec: ar.SweepSpec = {
        ...     "target": {"kind": "linear", "kernel": "exponential", "length": 4},
        ...     "model": {"kind": "linear_rnn", "hidden": 2},
        ...     "recipe": {"steps": 5},
        ... }
        >>> result = ar.sweep(spec, store="one.sqlite", workers=1)
        >>> result.ran, ar.sweep(spec, store="one.sqlite").ran
        (1, 0)

    """
    sized = _sized(grid, function)
    name_of(function)  # refused before a store is made, not after
    shipped = pack([one.job for one in sized]) if function is run_trial else b""
    return run_sized(sized, engine, store, workers, progress, function, stored, shipped)


def run_sized(
    sized: Sequence[Sized[Job]],
    engine: str,
    store: str | Path,
    workers: int | None,
    progress: bool | None,
    function: JobFunction,
    stored: Callable[[Job], object] | None = None,
    shipped: bytes = b"",
) -> SweepResult:
    """Run the jobs that the store does not have yet; see `sweep`.

    Args:
        sized: The jobs with their sizes; no two are the same.
        engine: The name of the engine.
        store: The SQLite file that keeps the results.
        workers: The number of jobs at the same time; by default one per core.
        progress: As in `sweep`.
        function: The function that runs one job.
        stored: A function that is called with every job that ran here.
        shipped: What every worker unpacks before its first job; see `ship.py`.

    """
    trials = [one.job for one in sized]
    runner = make_engine(engine, workers)
    start = time.monotonic()
    with Store(store) as kept:
        before = kept.finished_keys()
        # the largest first: a long trial at the end would leave the other workers idle
        in_turn = sorted(sized, key=lambda one: (one.turn, -one.size))
        todo = [one for one in in_turn if one.job.key not in before]
        ran = 0
        if todo:
            sizes, at_once = [one.size for one in todo], min(runner.workers, len(todo))
            with SweepProgress(len(trials), sizes, at_once, progress) as display:
                running = _Running(runner, kept, display, function, shipped, stored)
                ran = running.run_all(todo, len(trials))
        return SweepResult(
            tuple(kept.finished(trials)),
            tuple(kept.failed(trials)),
            ran,
            time.monotonic() - start,
            kept.path,
        )


@checked
def sweep_status(
    grid: _Spec, store: StoreFile = "sweep.sqlite", function: JobFunction = run_trial
) -> Status:
    """Say how far a sweep has come, without running anything.

    Args:
        grid: The trials, as in `sweep`.
        store: The SQLite file that keeps the results; it need not exist yet.
        function: The function that runs one job, as in `sweep`.

    Returns:
        The number of trials that are finished, failed, running and waiting.

    Raises:
        InputError: If a setting is wrong.

    Examples:
        >>> trial = ar.Trial({"kind": "linear", "kernel": "exponential", "length": 4},
        ...                  {"kind": "linear_rnn"})
        >>> ar.sweep_status([trial])
        0 of 1 trials finished, 1 waiting

    """
    return _status([one.job for one in _sized(grid, function)], store, None)


def run_from_cli(
    path: object,
    store: str | Path | None = None,
    engine: str = "local",
    workers: int | None = None,
    status: bool = False,
    export: object = None,
    progress: bool | None = True,
) -> SweepResult | Status:
    """Run or resume a sweep for `attnrate sweep`, or only say how far it is; export if wanted.

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
            result.export(check_export(export))
        return result
    return _status([one.job for one in _sized(path, run_trial)], store, export)


def _status(trials: Sequence[Job], store: str | Path, export: object) -> Status:
    """How far the trials are in the store; exports a table of the finished ones, if any."""
    from attnrate.fitting.table import export_frame, trials_frame

    try:
        kept = Store(store, writable=False)
    except NoStoreError:
        return Status(total=len(trials), finished=0, failed=0, running=0)
    with kept:
        if export is not None and (finished := kept.finished(trials)):
            export_frame(trials_frame(finished), export)
        return kept.status(trials)


def _sized(grid: object, function: JobFunction) -> Sequence[Sized[Job]]:
    """The jobs of the grid with their sizes; trials are checked and have all settings."""
    given: Sequence[Sized[Job]] | None = None
    if isinstance(grid, list | tuple) and grid and all(isinstance(one, Sized) for one in grid):
        given = grid
        grid = [one.job for one in grid]
        if function is not run_trial:  # only that function knows what the settings mean
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


@dataclass(frozen=True)
class _Running:
    """One run of a sweep: where its jobs run, where their results go, and who is notified."""

    engine: Engine
    kept: Store
    display: SweepProgress
    function: JobFunction
    shipped: bytes
    stored: Callable[[Job], object] | None

    def run_all(self, todo: list[Sized[Job]], total: int) -> int:
        """Run the jobs, wait for those that another sweep runs; return the number that ran here."""
        kept = self.kept
        ran, left = 0, [one.job for one in todo]
        sizes = {one.job.key: one.size for one in todo}
        failed_before = {row.key: row.attempts for row in kept.failed(left)}
        try:
            while left:
                held: list[Job] = []
                ran += self._run(left, held, sizes)
                finished = kept.finished_keys()
                failed = {
                    row.key
                    for row in kept.failed(held)
                    if row.attempts > failed_before.get(row.key, 0)
                }
                ended = finished | failed
                left = [job for job in held if job.key not in ended]
                for job in held:
                    if job.key in ended:
                        self.display.finish(sizes[job.key], None, job.key not in finished)
                if left:
                    time.sleep(_ASK_AGAIN)
        except KeyboardInterrupt:
            done = kept.status(one.job for one in todo).finished + total - len(todo)
            what = "trials" if all(isinstance(one.job, Trial) for one in todo) else "jobs"
            where = f", all kept in {kept.path}" if done else ""
            raise KeyboardInterrupt(
                f"stopped with {done or 'none'} of {total} {what} finished{where}; "
                "run the same again to go on"
            ) from None
        finally:
            kept.release()
        return ran

    def _run(self, todo: list[Job], held: list[Job], sizes: dict[str, float]) -> int:
        """Run the jobs that can be claimed, put the others into `held`; return the number done."""
        first = next(claimed := _claimed(todo, held, self.kept), None)
        if first is None:
            return 0
        ran = 0
        self.display.start()
        jobs = _chained(first, claimed, self.display.begin)
        running = self.engine.run(jobs, len(todo), self.function, self.shipped)
        with closing(running) as outcomes:
            for one in outcomes:
                lost = one.result is None
                if one.result is None:
                    self.kept.add_failure(one.job, one.error or "", one.worker)
                else:
                    ran += self.kept.add(one.job, one.result, one.seconds, one.worker)
                self.display.finish(sizes[one.job.key], one.seconds, lost)
                if self.stored is not None and not lost:
                    self.stored(one.job)
        return ran


def _claimed(jobs: list[Job], held: list[Job], kept: Store) -> Iterator[Job]:
    """Yield the jobs, each claimed when it is taken; jobs of another sweep go to `held`."""
    for job in jobs:
        if kept.claim(job):
            yield job
        else:
            held.append(job)


def _chained(first: Job, rest: Iterator[Job], begin: Callable[[], None]) -> Iterator[Job]:
    """Yield the first job and the rest; `begin` is called when the first worker takes a job."""
    begin()
    yield first
    yield from rest
