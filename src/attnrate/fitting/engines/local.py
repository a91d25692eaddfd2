"""Jobs on this machine: one process per core with one thread each, kept for the whole sweep.

Each worker is a Python of its own (engines/worker.py) that imports torch once. It is not made by
`multiprocessing`, which would run the user's script again in every worker. A thread of the parent
waits for each worker's answers, so nothing polls and a worker gets its next job at once.
"""

import base64
import os
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import SimpleQueue

from attnrate.errors import WorkerError
from attnrate.fitting.engines import Outcome, name_of, outcome
from attnrate.fitting.job import Job, JobFunction, canonical

#: A job over which this many workers died has failed.
ATTEMPTS = 3
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
_GRACE = 1.0  # seconds to wait for the last words of a process that has ended
_SHOWN = 20  # lines that a worker wrote before it died


class LocalEngine:
    """Runs jobs in `workers` processes. If a worker dies, another one begins its job again."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Outcome, None, None]:
        """Run each job; see `Engine.run`."""
        crew = _Crew(jobs, name_of(function), shipped)
        try:
            for _ in range(min(self.workers, most)):
                crew.hire()
            while crew.busy():
                ended = crew.next_outcome()
                if ended is not None:
                    yield ended
        finally:
            crew.dismiss()


class _Crew:
    """The workers of one run, and the jobs that they still have to do."""

    def __init__(self, jobs: Iterator[Job], function: str, shipped: bytes) -> None:
        self.jobs = jobs
        self.function, self.shipped = function, shipped
        self.inbox: SimpleQueue[tuple[_Worker, bytes]] = SimpleQueue()
        self.workers: list[_Worker] = []
        self.put_back: deque[Job] = deque()
        self.exhausted = False
        self.begun: Counter[str] = Counter()
        self.stillborn = 0

    def busy(self) -> bool:
        """Whether a job is running, waits to be begun again, or may still come."""
        running = any(worker.job is not None for worker in self.workers)
        return running or bool(self.put_back) or not self.exhausted

    def hire(self) -> None:
        """Start a worker; it reports when it is ready."""
        self.workers.append(_Worker(self.function, self.shipped, self.inbox))

    def next_outcome(self) -> Outcome | None:
        """Wait for a message of a worker; return the outcome of a job that has ended, if any."""
        worker, line = self.inbox.get()
        if worker not in self.workers:
            return None
        if not line:
            return self._bury(worker)
        job, worker.job = worker.job, None
        worker.ready, self.stillborn = True, 0
        self._employ(worker)  # first, so that it works while the caller keeps the outcome
        if job is None:
            return None
        return outcome(job, line.decode(), worker.name)

    def dismiss(self) -> None:
        """End every worker, whatever it is doing."""
        for worker in self.workers:
            worker.process.kill()
        for worker in self.workers:
            worker.join()
        self.workers.clear()

    def _employ(self, worker: "_Worker") -> None:
        job = self._next_job()
        if job is not None:
            self.begun[job.key] += 1
            worker.begin(job)

    def _next_job(self) -> Job | None:
        if self.put_back:
            return self.put_back.popleft()
        job = None if self.exhausted else next(self.jobs, None)
        self.exhausted = job is None
        return job

    def _bury(self, worker: "_Worker") -> Outcome | None:
        self.workers.remove(worker)
        ending = worker.join()
        job = worker.job
        if not worker.ready:
            self.stillborn += 1
            if self.stillborn == ATTEMPTS:
                raise WorkerError(f"the workers cannot start: {ending}")
        failed = job is not None and self.begun[job.key] >= ATTEMPTS
        if job is not None and not failed:
            self.put_back.append(job)
        idle = next((w for w in self.workers if w.ready and w.job is None), None)
        if idle is not None:
            self._employ(idle)
        elif self.put_back or not self.exhausted:
            self.hire()
        if job is None or not failed:
            return None
        error = f"the worker died {ATTEMPTS} times over this job; the last time, {ending}"
        return Outcome(job, None, error, 0.0, worker.name)


class _Worker:
    """A process, what it is doing, and the threads that listen to it."""

    def __init__(
        self, function: str, shipped: bytes, inbox: "SimpleQueue[tuple[_Worker, bytes]]"
    ) -> None:
        self.job: Job | None = None
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "attnrate.fitting.engines.worker", function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        self.name = f"local-{self.process.pid}"
        self.last_lines: deque[bytes] = deque(maxlen=_SHOWN)
        self.listener = _started(self._listen, inbox)
        self.keeper = _started(self._keep_last_lines)
        self.waiter = _started(self._tell_the_end, inbox)
        # in a thread: a pipe holds little, and the process must start before it reads
        self.giver = _started(self._send, base64.b64encode(shipped))

    def begin(self, job: Job) -> None:
        """Send a job. If the worker is dead already, its listener will find out."""
        self.job = job
        self._send(canonical(job.settings).encode())

    def _send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def join(self) -> str:
        """Wait for the end of a process that is ending; return how it ended, in words."""
        self.waiter.join()
        self.keeper.join(_GRACE)  # no longer: a child left behind may hold the other end
        self.giver.join(_GRACE)
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # a job that it no longer read
            self.process.stdin.close()
        code = self.process.returncode
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"with exit code {code}"
        lines = b"".join(self.last_lines).decode(errors="replace").strip()
        return how + (f", after writing:\n{lines}" if lines else "")

    def _listen(self, inbox: "SimpleQueue[tuple[_Worker, bytes]]") -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # else it died while it was writing
                    inbox.put((self, line))

    def _tell_the_end(self, inbox: "SimpleQueue[tuple[_Worker, bytes]]") -> None:
        self.process.wait()
        self.listener.join(_GRACE)  # what it said last comes first
        inbox.put((self, b""))

    def _keep_last_lines(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            self.last_lines.extend(lines)


def _started(target: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread


def _environment() -> dict[str, str]:
    """The environment of a worker: one thread per library, and the module path of this process."""
    here = [entry or os.getcwd() for entry in sys.path]
    threads = {f"{library}_NUM_THREADS": "1" for library in _THREADS}
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(here)}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
