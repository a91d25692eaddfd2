"""Jobs on a Ray cluster: one task per job. Jobs of a lost machine run again on another one."""

import functools
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

from attnrate.fitting.engines import Outcome, execute, load, name_of, outcome
from attnrate.fitting.engines.cluster import RETRIES, Cluster
from attnrate.fitting.job import Job, JobFunction, canonical

_LOOK_AGAIN = 2.0  # seconds after which the cluster may have another size


class RayEngine:
    """Runs jobs on a Ray cluster; `Cluster` says which one."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._cluster = Cluster(address)
        self._ray: Any = self._cluster.ray
        self._workers = workers

    @property
    def workers(self) -> int:
        """The number of jobs that run at the same time: as requested, else one per core."""
        return self._cluster.cores if self._workers is None else self._workers

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Outcome, None, None]:
        """Run each job; see `Engine.run`."""
        with self._cluster.session(self.workers):
            yield from self._run(jobs, function, shipped)

    def _run(
        self, jobs: Iterator[Job], function: JobFunction, shipped: bytes
    ) -> Generator[Outcome, None, None]:
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_task)
        running: dict[Any, Job] = {}
        sent = self._ray.put(shipped)  # once, and not with every job
        try:
            seats, looked = self.workers, time.monotonic()
            while True:
                if time.monotonic() - looked > _LOOK_AGAIN:
                    seats, looked = self.workers, time.monotonic()
                while len(running) < seats and (job := next(jobs, None)) is not None:
                    settings = canonical(job.settings)
                    running[task.remote(name_of(function), sent, settings)] = job
                if not running:
                    return
                done, _ = self._ray.wait([*running], num_returns=1, timeout=_LOOK_AGAIN)
                for reference in done:
                    yield self._outcome(reference, running.pop(reference))
        finally:
            for reference in running:
                self._ray.cancel(reference, force=True)

    def _outcome(self, reference: Any, job: Job) -> Outcome:
        try:
            worker, said = self._ray.get(reference)
        except self._ray.exceptions.RayError as problem:
            # `execute` never raises: this is Ray itself, after its retries.
            return Outcome(job, None, f"Ray gave up: {problem}", 0.0, "ray")
        return outcome(job, said, worker)


def _task(function: str, shipped: bytes, settings: str) -> tuple[str, str]:
    """Run a job in a Ray worker, by `execute` as in a local worker."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    return f"ray-{node[:8]}-{os.getpid()}", execute(_loaded(function, shipped), settings)


@functools.cache
def _loaded(function: str, shipped: bytes) -> Any:
    return load(function, shipped)
