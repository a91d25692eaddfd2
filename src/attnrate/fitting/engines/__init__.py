"""Engines run jobs: their interface, the engine that a name means, and how a worker runs a job."""

import json
import os
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, runtime_checkable

from attnrate.errors import InputError, hint, require_whole
from attnrate.fitting.job import Job, JobFunction, Plain, canonical
from attnrate.fitting.ship import unpack


@dataclass(frozen=True)
class Outcome:
    """The end of a job: a result or the text of an error, the seconds it took, and its worker."""

    job: Job
    result: Plain | None
    error: str | None
    seconds: float
    worker: str


@runtime_checkable
class Engine(Protocol):
    """Runs jobs somewhere. Workers only compute; the caller keeps the results."""

    @property
    def workers(self) -> int:
        """The number of jobs that run at the same time, as far as it is known before the run."""

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Outcome, None, None]:
        """Run each job with the function; yield outcomes in the order in which jobs end.

        A job is taken from `jobs`, which has at most `most` of them, only when a worker is free.
        Workers first unpack `shipped` (see `ship.py`). Closing the iterator stops the workers.
        """


def require_engine(name: str, value: object) -> str:
    """`value` as the name of an engine: "local", "ray", or the address of a Ray cluster."""
    if isinstance(value, str) and (value in ("local", "ray") or value.startswith("ray://")):
        return value
    remedy = hint(str(value), ("local", "ray", "ray://HOST:PORT"))
    raise InputError(f"{name} is not known", value, remedy)


def make_engine(engine: object, workers: object = None) -> Engine:
    """The engine that a name means: "local", "ray", or the address of a Ray cluster."""
    count = None if workers is None else require_whole("workers", workers, 1)
    name = require_engine("engine", engine)
    if name == "local":
        from attnrate.fitting.engines.local import LocalEngine

        return LocalEngine(count or cores())
    from attnrate.fitting.engines.ray import RayEngine

    return RayEngine(None if name == "ray" else name, count)


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def name_of(function: JobFunction) -> str:
    """The module and name by which a worker, another process, finds the function."""
    module, name = function.__module__, getattr(function, "__qualname__", repr(function))
    if module == "__main__" or not name.isidentifier():
        raise InputError(
            "workers, which are other processes, cannot find the function {value}",
            f"{module}:{name}",
            "Put it into a module, at its top level.",
        )
    return f"{module}:{name}"


def load(name: str, shipped: bytes = b"") -> JobFunction:
    """The function of that name, after its module's `prepare`, if any, and `shipped` functions."""
    module_name, _, attribute = name.partition(":")
    module = import_module(module_name)
    getattr(module, "prepare", lambda: None)()
    unpack(shipped)
    function: JobFunction = getattr(module, attribute)
    return function


def execute(function: JobFunction, settings: str) -> str:
    """Run the job with these settings (JSON) and return its outcome (JSON); never raises.

    Every engine runs jobs by this function, so that engines differ only in where it runs.
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
    """The outcome of a job from the JSON that `execute` returned."""
    return Outcome(job, **json.loads(said), worker=worker)
