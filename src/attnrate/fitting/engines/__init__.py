"""Engines run jobs: what they are given, what they give back, and which one a name means."""

import json
import os
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, runtime_checkable

from attnrate.errors import InputError, hint, require_whole
from attnrate.fitting.job import Job, Plain, Run, canonical


@dataclass(frozen=True)
class Outcome:
    """What became of a job: a result, or the text of the error; how long it took, and where."""

    job: Job
    result: Plain | None
    error: str | None
    seconds: float
    worker: str


@runtime_checkable
class Engine(Protocol):
    """Runs jobs somewhere. Workers only compute: what comes back is for the caller to keep."""

    @property
    def workers(self) -> int:
        """How many jobs run at a time, as far as is known before the run."""

    def run(self, jobs: Iterator[Job], most: int, function: Run) -> Generator[Outcome, None, None]:
        """Run each job with the function; outcomes in the order they end.

        A job is taken from `jobs`, which has at most `most` of them, only when there is
        somebody to run it. Closing the iterator stops the workers.
        """


def make_engine(engine: object, workers: object = None) -> Engine:
    """The engine that a name means: "local", "ray", or the address of a Ray cluster."""
    count = None if workers is None else require_whole("workers", workers, 1)
    if engine == "local":
        from attnrate.fitting.engines.local import LocalEngine

        return LocalEngine(count or cores())
    if engine == "ray" or (isinstance(engine, str) and engine.startswith("ray://")):
        from attnrate.fitting.engines.ray import RayEngine

        return RayEngine(None if engine == "ray" else engine, count)
    remedy = hint(str(engine), ("local", "ray", "ray://HOST:PORT"))
    raise InputError("engine is not known", engine, remedy)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def name_of(function: Run) -> str:
    """What a worker, which is another process, finds the function by: its module and its name."""
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or not name.isidentifier():
        raise InputError(
            "workers are other processes, and cannot find a function of a script or within another",
            f"{module}:{name}",
            "Put it into a module, at its top level.",
        )
    return f"{module}:{name}"


def load(name: str) -> Run:
    """The function of that name; if its module has a function `prepare`, that ran first."""
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    getattr(module, "prepare", lambda: None)()
    function: Run = getattr(module, attribute)
    return function


def execute(function: Run, settings: str) -> str:
    """Run the job with these settings (JSON) and say what became of it (JSON); never raises.

    Every engine runs jobs by this one function, so that they differ only in where it runs.
    """
    start = time.perf_counter()
    try:
        result = function(json.loads(settings))
        said = canonical({"result": result, "error": None, "seconds": time.perf_counter() - start})
    except (Exception, SystemExit):
        error = traceback.format_exc(limit=-8)
        said = canonical({"result": None, "error": error, "seconds": time.perf_counter() - start})
    return said


def outcome(job: Job, said: str, worker: str) -> Outcome:
    """What `execute` said of the job."""
    return Outcome(job, **json.loads(said), worker=worker)
