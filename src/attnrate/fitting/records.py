"""Rows of a store: finished and failed trials, and the count of them in a sweep."""

from dataclasses import asdict, dataclass
from typing import Any

from attnrate.shown import Shown


@dataclass(frozen=True, repr=False)
class Finished(Shown):
    """A finished trial, as stores and sweeps return it.

    Attributes:
        key: The name of the trial in the store.
        settings: All of its settings: the tables target, model and recipe, and the seed.
        result: What the trial gave. For a fit: error, standard_error, seconds, steps, stopped,
            diverged, parameters, and the versions of attnrate, torch and Python.
        seconds: Seconds of the whole trial; in a fit, more than the seconds of training.
        worker: The name of the process that ran it.
        finished: When it ended, in UTC.

    Examples:
        >>> spec: ar.SweepSpec = {
        ...     "target": {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4},
        ...     "model": {"kind": "transformer", "width": 8, "depth": 1},
        ...     "recipe": {"steps": 5},
        ...     "grid": {"model.m_h": [1, 2]},
        ... }
        >>> rows = ar.sweep(spec, store="grid.sqlite", workers=1).finished
        >>> best: ar.Finished = min(rows, key=lambda row: row.result["error"])
        >>> best.settings["model"]["kind"], best.result["steps"]
        ('transformer', 5)

    """

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

    def __str__(self) -> str:
        error = self.result.get("error")
        parts = ["diverged"] if self.result.get("diverged") else []
        parts += [f"error {error:.3g}"] if isinstance(error, int | float) else []
        return f"{_named(self.key, self.settings)}: {', '.join([*parts, f'{self.seconds:.1f} s'])}"


@dataclass(frozen=True, repr=False)
class Failed(Shown):
    """A trial that failed when it was last tried; the next sweep tries it again.

    Attributes:
        key: The name of the trial in the store.
        settings: All of its settings: the tables target, model and recipe, and the seed.
        error: The whole text of the error, with its traceback.
        attempts: The number of times that it was tried.
        worker: The name of the process that ran it.
        failed: When it failed, in UTC.

    Examples:
        >>> def line(row: ar.Failed) -> str:
        ...     return f"seed {row.settings['seed']}: {row.error.splitlines()[-1]}"
        >>> line(ar.Failed("3f2a", {"seed": 1}, "MemoryError", 2, "host:1", "2026-01-01T12:00:00"))
        'seed 1: MemoryError'

    """

    key: str
    settings: dict[str, Any]
    error: str
    attempts: int
    worker: str
    failed: str

    @property
    def reason(self) -> str:
        """The last line of the error, without its traceback."""
        return (self.error.strip().splitlines() or [""])[-1]

    def __str__(self) -> str:
        return f"{_named(self.key, self.settings)} failed: {self.reason}"


def _named(key: str, settings: dict[str, Any]) -> str:
    """A trial in words: the first digits of its key, its kinds and its seed."""
    kinds = [
        f"{part} {settings[part]['kind']}"
        for part in ("target", "model")
        if isinstance(settings.get(part), dict) and "kind" in settings[part]
    ]
    seed = [f"seed {settings['seed']}"] if "seed" in settings else []
    return f"trial {key[:8]} ({', '.join([*kinds, *seed])})"


@dataclass(frozen=True, repr=False)
class Status(Shown):
    """The count of a sweep's trials: finished, failed, running and waiting.

    Attributes:
        total: All trials of the sweep.
        finished: Trials whose results are in the store.
        failed: Trials that failed when they were last tried; the next run tries them again.
        running: Trials that a living process runs now.

    Examples:
        >>> status = ar.Status(total=24, finished=5, failed=0, running=2)
        >>> status
        5 of 24 trials finished, 2 running, 17 waiting
        >>> status.waiting
        17

    """

    total: int
    finished: int
    failed: int
    running: int

    @property
    def waiting(self) -> int:
        """The number of trials that have not begun."""
        return self.total - self.finished - self.failed - self.running

    @property
    def summary(self) -> dict[str, Any]:
        """All counts in plain values."""
        return {**asdict(self), "waiting": self.waiting}

    def __str__(self) -> str:
        parts = [f"{self.finished} of {self.total} trials finished"]
        parts += [f"{self.failed} failed (to be retried)"] if self.failed else []
        parts += [f"{self.running} running"] if self.running else []
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        return ", ".join(parts)
