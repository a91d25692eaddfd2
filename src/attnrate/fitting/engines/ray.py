"""Jobs on a Ray cluster: one task per job. Jobs of a lost machine run again on another one."""

import functools
import os
import time
from collections.abc import Generator, Iterator
from typing import Any

from attnrate.errors import WorkerError
from attnrate.extras import missing
from attnrate.fitting.engines import Outcome, cores, execute, load, name_of, outcome
from attnrate.fitting.job import Job, JobFunction, canonical

#: How often Ray begins a job anew when its worker or its machine is lost.
RETRIES = 3
_LOOK_AGAIN = 2.0  # seconds after which the cluster may have another size


class RayEngine:
    """A Ray cluster: the one at `address`, else at RAY_ADDRESS, else one made on this machine.

    An open session of Ray is used as it is. Every machine needs the same version of attnrate.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            given = address or "ray"
            raise missing("ray", "ray", "the engine", given, "Use engine='local'") from None
        self._ray: Any = ray
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._workers = workers

    @property
    def workers(self) -> int:
        """The number of jobs that run at the same time: as requested, else one per core."""
        if self._workers is not None:
            return self._workers
        if self._ray.is_initialized():
            return max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return cores()

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Outcome, None, None]:
        """Run each job; see `Engine.run`."""
        mine = self._connect()
        task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_task)
        running: dict[Any, Job] = {}
        try:
            seats, looked = self.workers, time.monotonic()
            while True:
                if time.monotonic() - looked > _LOOK_AGAIN:
                    seats, looked = self.workers, time.monotonic()
                while len(running) < seats and (job := next(jobs, None)) is not None:
                    settings = canonical(job.settings)
                    running[task.remote(name_of(function), shipped, settings)] = job
                if not running:
                    return
                done, _ = self._ray.wait([*running], num_returns=1, timeout=_LOOK_AGAIN)
                for reference in done:
                    yield self._outcome(reference, running.pop(reference))
        finally:
            for reference in running:
                self._ray.cancel(reference, force=True)
            if mine:
                self._ray.shutdown()

    def _connect(self) -> bool:
        """Connect to Ray; return whether a session was opened here, and so must be closed here."""
        if self._ray.is_initialized():
            return False
        here: dict[str, Any] = {"num_cpus": self.workers, "include_dashboard": False}
        try:
            self._ray.init(
                address=self._address or "local",
                log_to_driver=False,
                logging_level="ERROR",
                **({} if self._address else here),
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            where = f"at {self._address}" if self._address else "on this machine"
            raise WorkerError(
                f"Ray cannot be reached {where}: {problem}. Start it (ray start --head), or use "
                "the engine local."
            ) from problem
        return True

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
