"""What a store says of trials: finished ones, failed ones, and how far a sweep has come."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finished:
    """A finished trial: its settings, its result, how long it took, where, and when it ended."""

    key: str
    settings: dict[str, Any]
    result: dict[str, Any]
    seconds: float
    worker: str
    finished: str

    @property
    def row(self) -> dict[str, Any]:
        """The trial as a row of a table."""
        return {
            **self.settings,
            **self.result,
            "trial_seconds": self.seconds,
            "worker": self.worker,
            "finished": self.finished,
        }


@dataclass(frozen=True)
class Failed:
    """A trial that failed: its settings, why, and in how many runs so far; it will be retried."""

    key: str
    settings: dict[str, Any]
    error: str
    attempts: int
    worker: str
    failed: str


@dataclass(frozen=True)
class Status:
    """How far a sweep has come."""

    total: int
    finished: int
    failed: int
    running: int

    @property
    def waiting(self) -> int:
        """Trials that nobody has begun."""
        return self.total - self.finished - self.failed - self.running

    @property
    def summary(self) -> dict[str, Any]:
        """The same in plain values."""
        return {**asdict(self), "waiting": self.waiting}

    def __str__(self) -> str:
        parts = [f"{self.finished} of {self.total} trials finished"]
        parts += [f"{self.failed} failed (to be retried)"] if self.failed else []
        parts += [f"{self.running} running"] if self.running else []
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        return ", ".join(parts)
