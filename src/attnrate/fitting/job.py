"""Jobs: pieces of work with plain settings and a key. A trial, that is a fit, is one kind of job.

Sweeps run jobs, engines send them to workers, and stores keep their results; none of these knows
what a job does. Work of another kind than fits is a list of jobs and the function that runs one.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Protocol, TypeVar, runtime_checkable

from attnrate.errors import LARGEST, InputError
from attnrate.settings import by, checked

#: Goes into every key. Increase it when the same settings come to mean another computation.
FORMAT = 1
#: Settings and results between processes and in stores: tables of plain JSON values
Plain = dict[str, Any]


@runtime_checkable
class Settings(Protocol):
    """A table of settings by name, such as a dictionary: numbers, words, lists and tables of them.

    Values are checked when they are used, because each kind of target and model has its own.
    """

    def keys(self) -> Iterable[str]:
        """The names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of one name."""


@runtime_checkable
class Job(Protocol):
    """A piece of work for a sweep: any object with a seed, plain settings and a key.

    A `Trial` is a job that fits a model. For other work write a class with these three properties
    and give `sweep` the function that runs one job. Two jobs are the same when their keys are.

    Attributes:
        seed: The seed of its random numbers.
        settings: Everything that the result depends on, the seed included, in plain JSON values.
        key: The name of the job in a store: `key_of(settings)`.

    Examples:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Square:
        ...     number: int
        ...     seed: int = 0
        ...
        ...     @property
        ...     def settings(self):
        ...         return {"work": "square", "number": self.number, "seed": self.seed}
        ...
        ...     @property
        ...     def key(self):
        ...         return ar.key_of(self.settings)
        >>> isinstance(Square(3), ar.Job)
        True

    """

    @property
    def seed(self) -> int:
        """The seed of the job's random numbers."""

    @property
    def settings(self) -> Plain:
        """Everything that the result depends on, the seed included, in plain JSON values."""

    @property
    def key(self) -> str:
        """The name of the job in a store: `key_of(settings)`."""


J = TypeVar("J", bound=Job, covariant=True)


@runtime_checkable
class JobFunction(Protocol):
    """A function that runs one job in a worker: from the settings of the job to its result.

    Both are dictionaries of plain JSON values. Workers are other processes and import the function
    by its module and name, so it must stand at the top level of a module. If the module has a
    function `prepare`, each worker calls that once before its first job.
    """

    def __call__(self, settings: Plain, /) -> Plain:
        """Run the job with these settings and return its result."""


def _require_job(name: str, job: object) -> Job:
    if not isinstance(job, Job):
        raise InputError("Sized needs a job, such as a Trial", job, "As Sized(trial, 3).")
    return job


def _require_size(name: str, size: object) -> float:
    number = isinstance(size, (int, float)) and not isinstance(size, bool)
    if not number or not 0 <= size < math.inf:  # type: ignore[operator]
        raise InputError("size must be a finite number of at least 0", size)
    return float(size)  # type: ignore[arg-type]


@dataclass(frozen=True, init=False)
class Sized(Generic[J]):
    """A job with its expected cost, by which a sweep orders jobs and estimates the time left.

    Args:
        job: The job.
        size: Its cost relative to the other jobs: a job of twice the size takes twice as long. 0
            stands for a cost that is not known.
        turn: Jobs of a lower turn come first; within a turn the largest come first.

    Examples:
        >>> trial = ar.Trial({"kind": "spectral", "alpha": 1.0, "rank": 2}, {"kind": "gru"})
        >>> ar.Sized(trial, 3).size
        3.0

    """

    job: J
    size: float
    turn: int

    @checked
    def __init__(
        self,
        job: Annotated[J, by(_require_job)],
        size: Annotated[float, by(_require_size)],
        turn: int = 0,
    ) -> None:
        object.__setattr__(self, "job", job)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "turn", turn)


def key_of(settings: Settings) -> str:
    """Return the key by which a store knows the job with these settings.

    The key is the SHA-256 of the settings as JSON. Neither the order of the names nor 1 in place of
    1.0 changes it.

    Args:
        settings: All settings of a job, in plain JSON values.

    Returns:
        64 hexadecimal digits.

    Examples:
        >>> ar.key_of({"number": 3, "seed": 0}) == ar.key_of({"seed": 0.0, "number": 3.0})
        True

    """
    text = canonical({"format": FORMAT, **_whole_floats_as_ints(dict(settings))})
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: object) -> str:
    """`value` as JSON in one spelling: sorted names, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(name: str, value: object) -> Any:
    """A copy of `value` in plain JSON values; an InputError names an entry that is not plain."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise InputError(
                f"{name} must be a whole number of 64 bits", value, f"At most {LARGEST}."
            )
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{name} must be finite", value, f"Pass {name} as a number.")
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"the names in {name} must be words", key)
        return {key: plain(f"{name}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(f"{name}[{i}]", entry) for i, entry in enumerate(value)]
    raise InputError(
        f"{name} must be a plain value: a number, a word, a list or a table",
        value,
        "Convert it, e.g. with .item() or .tolist().",
    )


def _whole_floats_as_ints(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_floats_as_ints(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_whole_floats_as_ints(entry) for entry in value]
    return value
