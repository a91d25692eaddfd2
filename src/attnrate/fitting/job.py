"""A job: work that a worker does, as plain settings with a key. A fit is one kind of it.

Sweeps run jobs, engines send them to workers, stores keep what came of them; none of these knows
what a job does. Whoever has work of another kind than fits gives its jobs and the function that
runs them.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from attnrate.errors import LARGEST, InputError

#: Goes into every key. Raise it when the same settings come to mean another computation.
FORMAT = 1
#: Settings and results between processes and in stores: tables of plain JSON values
Plain = dict[str, Any]


@runtime_checkable
class Job(Protocol):
    """A piece of work whose settings are plain values; two are the same when their keys are."""

    @property
    def seed(self) -> int:
        """The seed of its random numbers."""

    @property
    def settings(self) -> Plain:
        """All that it depends on, the seed among it."""

    @property
    def key(self) -> str:
        """What it is known by in a store: `key_of` its settings."""


J = TypeVar("J", bound=Job, covariant=True)
#: Runs the job with these settings in a worker. It must be a function of a module, found there
#: by its name; if the module has a function `prepare`, that runs before the first job.
Run = Callable[[Plain], Plain]


@dataclass(frozen=True, init=False)
class Sized(Generic[J]):
    """A job, and its expected cost beside others: one of twice the size takes twice as long.

    The size 0 stands for a cost that is not known. Jobs of a lower `turn` come first.
    """

    job: J
    size: float
    turn: int

    def __init__(self, job: object, size: object, turn: int = 0) -> None:
        if not isinstance(job, Job):
            raise InputError("Sized needs a job, such as a Trial", job, "As Sized(trial, 3).")
        number = isinstance(size, (int, float)) and not isinstance(size, bool)
        if not number or not 0 <= size < math.inf:  # type: ignore[operator]
            raise InputError("size must be a finite number of at least 0", size)
        object.__setattr__(self, "job", job)
        object.__setattr__(self, "size", float(size))  # type: ignore[arg-type]
        object.__setattr__(self, "turn", turn)


def key_of(settings: Mapping[str, Any]) -> str:
    """SHA-256 of the settings and FORMAT; neither order nor 1 against 1.0 changes it."""
    text = canonical({"format": FORMAT, **_whole_floats_as_ints(dict(settings))})
    return hashlib.sha256(text.encode()).hexdigest()


def canonical(value: object) -> str:
    """`value` as JSON in one spelling: sorted names, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(name: str, value: object) -> Any:
    """A copy of `value` in plain JSON values, or an InputError naming the entry that is none."""
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
