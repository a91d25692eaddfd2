"""An engine for tests of what is kept and concluded: a worker takes seconds to import torch."""

from collections.abc import Generator, Iterator

from attnrate.fitting import engines
from attnrate.fitting.engines import Outcome as Ended
from attnrate.fitting.job import Job, JobFunction, canonical


class Here:
    """An engine that runs trials in this process, by the function by which every engine does."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Ended, None, None]:
        work = engines.load(engines.name_of(function), shipped)
        for job in jobs:
            said = engines.execute(work, canonical(job.settings))
            yield engines.outcome(job, said, "here")
