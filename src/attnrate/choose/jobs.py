"""Fits of contenders as jobs of a sweep: settings, results, and how samples reach the workers."""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from attnrate.choose.contender import Shape, contender
from attnrate.choose.folds import Fold, rolling
from attnrate.choose.samples import Samples
from attnrate.choose.training import RECIPE, Raced, import_optimizer, train_on
from attnrate.errors import WorkerError
from attnrate.fitting.job import Plain, Sized, key_of
from attnrate.fitting.ship import given, pack_bytes
from attnrate.fitting.sweep import run_sized

_ARRAYS = ("x", "y", "starts", "time")
_raced = TypeAdapter(Raced)


@dataclass(frozen=True)
class _Facts:
    """What samples have beside arrays."""

    length: int
    horizon: int
    whole: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class RaceJob:
    """One contender on one fold with one seed.

    Attributes:
        data: The digest of the samples, by which workers find them.
        contender: The name of the contender.
        m_h: Its head size; None for models without heads.
        parameters: The number of parameters that its size is nearest to, at the head size that it
            has in the race: a smaller head leaves everything else as it is.
        steps: The number of steps.
        batch: The number of samples in a step.
        fold: The number of the fold.
        folds: The number of all folds.
        division: The seed by which a panel is divided into folds.
        seed: The seed of weights and batches.

    """

    data: str
    contender: str
    m_h: int | None
    parameters: int
    steps: int
    batch: int
    fold: int
    folds: int
    division: int
    seed: int

    @property
    def settings(self) -> Plain:
        """Everything that the result depends on, in plain JSON values."""
        return {"work": "choose.race", "recipe": RECIPE, **asdict(self)}

    @property
    def key(self) -> str:
        """The name of the job in a store."""
        return key_of(self.settings)

    def nominal(self, shape: Shape) -> float:
        """Give the seconds that it takes by the fixed model of costs.

        Args:
            shape: What the contender maps.

        """
        kind = contender(self.contender)
        size = kind.size(shape, self.parameters)
        parameters = kind.parameters(shape, size, self.m_h)
        return training_seconds(kind.name, shape, parameters, self.steps, self.batch)

    def run(self, samples: Samples) -> Raced:
        """Train and judge the contender.

        Args:
            samples: The samples, those of the digest.

        """
        fold = folded(samples, self.folds, self.division)[self.fold]
        size = contender(self.contender).size(Shape.of(samples), self.parameters)
        return train_on(
            samples, fold, self.contender, size, self.seed, self.steps, self.batch, self.m_h
        )


@dataclass(frozen=True)
class Row:
    """A finished job."""

    job: RaceJob
    raced: Raced


@dataclass(frozen=True)
class Place:
    """Where jobs run and where their results are kept, as for sweeps.

    Attributes:
        engine: "local", "ray", or the address of a Ray cluster.
        store: The SQLite file that keeps the results.
        workers: The number of jobs at the same time. Default: one per core.
        progress: None shows a live line on a terminal, True lines elsewhere too, False nothing.

    """

    engine: str = "local"
    store: str | Path = "choose.sqlite"
    workers: int | None = None
    progress: bool | None = None


@dataclass(frozen=True)
class Ran:
    """What a sweep of jobs gave.

    Attributes:
        rows: The finished jobs, in the order in which they were asked for.
        failures: Why others failed: the last line of each error.

    """

    rows: tuple[Row, ...]
    failures: tuple[str, ...]


def run_jobs(samples: Samples, jobs: Sequence[RaceJob], place: Place) -> Ran:
    """Run the jobs that the store does not have yet.

    Args:
        samples: The samples; they are sent to the workers, on this machine and elsewhere.
        jobs: The jobs, all of these samples.
        place: Where they run.

    Raises:
        WorkerError: If none of them ended.

    """
    shape = Shape.of(samples)
    sized = [Sized(job, job.nominal(shape)) for job in jobs]
    sent = pack_bytes(digest_of(samples), to_bytes(samples))
    result = run_sized(
        sized, place.engine, place.store, place.workers, place.progress, run_job, None, sent
    )
    found = {row.key: _raced.validate_python(row.result) for row in result.finished}
    rows = [Row(job, found[job.key]) for job in jobs if job.key in found]
    if not rows:
        raise WorkerError(f"no fit ended: {result.failed[0].reason}")
    return Ran(tuple(rows), tuple(each.reason for each in result.failed))


def prepare() -> None:
    """Import what training needs, in a worker, so that no fit's seconds hold it."""
    import_optimizer()


def run_job(settings: Plain) -> Plain:
    """Run one job in a worker, from its settings to its result, both plain JSON values."""
    fields = {name: value for name, value in settings.items() if name not in ("work", "recipe")}
    job = TypeAdapter(RaceJob).validate_python(fields)
    result: Plain = json.loads(json.dumps(asdict(job.run(_opened(job.data)))))
    return result


def training_seconds(name: str, shape: Shape, parameters: int, steps: int, batch: int) -> float:
    """Give the nominal seconds of a training.

    Args:
        name: The name of the contender.
        shape: What it maps.
        parameters: The number of its parameters.
        steps: The number of steps.
        batch: The number of samples in a step.

    """
    return steps * contender(name).cost.seconds(shape, parameters, batch)


def folded(samples: Samples, folds: int, division: int) -> list[Fold]:
    """Divide the samples as all jobs do.

    Args:
        samples: The samples.
        folds: The number of folds.
        division: The seed by which a panel is divided.

    """
    return rolling(samples, folds, division)


def digest_of(samples: Samples) -> str:
    """Give the SHA-256 of the samples, the same on each machine.

    Args:
        samples: The samples.

    """
    found = hashlib.sha256(_facts(samples))
    for name in _ARRAYS:
        array = getattr(samples, name)
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def to_bytes(samples: Samples) -> bytes:
    """Write samples as an npz file without pickles.

    Args:
        samples: The samples.

    """
    file = io.BytesIO()
    facts = np.frombuffer(_facts(samples), dtype=np.uint8)
    one = samples
    np.savez(file, facts=facts, x=one.x, y=one.y, starts=one.starts, time=one.time)
    return file.getvalue()


def from_bytes(data: bytes) -> Samples:
    """Read samples that `to_bytes` wrote.

    Args:
        data: The bytes of the npz file.

    """
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        facts = TypeAdapter(_Facts).validate_json(bytes(file["facts"]))
        x, y, starts, time = (file[name] for name in _ARRAYS)
    return Samples(
        x,
        y,
        starts,
        facts.length,
        facts.horizon,
        facts.whole,
        time,
        facts.inputs,
        facts.outputs,
    )


def by_contender(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Give the rows of each contender, in their order.

    Args:
        rows: The finished jobs.

    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.job.contender, []).append(row)
    return found


def _facts(samples: Samples) -> bytes:
    one = samples
    facts = _Facts(one.length, one.horizon, one.whole, one.inputs, one.outputs)
    return json.dumps(asdict(facts)).encode()


@lru_cache(maxsize=1)
def _opened(digest: str) -> Samples:
    """The samples that were sent to this worker; they must be those of the digest."""
    samples = from_bytes(given(digest))
    if digest_of(samples) != digest:
        raise ValueError("the samples that came are others than those that the job is for")
    return samples
