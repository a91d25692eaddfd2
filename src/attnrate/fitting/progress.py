"""The progress of a sweep: trials that are done, running and left, and how long the rest takes."""

import time
from collections import Counter
from collections.abc import Iterable
from typing import TextIO

from attnrate.progress import Progress, Range, said, time_left


class SweepProgress(Progress):
    """The progress of a sweep.

    Args:
        total: The number of all trials of the sweep.
        todo: The sizes of the trials that still have to run.
        workers: The number of trials that run at the same time.
        wanted: As in `Progress`.
        stream: As in `Progress`.

    """

    def __init__(
        self,
        total: int,
        todo: Iterable[float],
        workers: int,
        wanted: bool | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self._todo: Counter[float] = Counter(todo)
        self._total, self._before = total, total - self._todo.total()
        self._done = self._failed = 0
        self._workers = workers
        self._starting = False
        self._ended: list[tuple[float, float]] = []
        self._start = time.monotonic()
        super().__init__(
            self._counts,
            self._before / max(total, 1),
            wanted=wanted,
            stream=stream,
            name="sweep",
            left=self._time_left,
            lasting=True,
            steady=True,
        )

    def start(self) -> None:
        """Say that the workers start, until the first trial begins."""
        self._starting = True

    def begin(self) -> None:
        """Say that trials run from now on."""
        self._starting = False

    def finish(self, size: float, seconds: float | None, failed: bool) -> None:
        """Count a trial that has ended.

        Args:
            size: Its size.
            seconds: The seconds that it took; None if it ran in another sweep on the same store.
                Only trials that ran here enter the estimate of the remaining time.
            failed: Whether it failed.

        """
        self._todo[size] -= 1
        self._failed += failed
        self._done += not failed
        if seconds is not None and not failed:
            self._ended.append((seconds, size))
        ended = self._before + self._done + self._failed
        self.at(self._counts, ended / max(self._total, 1))

    def _time_left(self) -> Range | None:
        ended = [*self._ended]  # another trial may end meanwhile
        durations, sizes = [seconds for seconds, _ in ended], [size for _, size in ended]
        return time_left(durations, sizes, [*self._todo.elements()], self._workers)

    def _counts(self) -> str:
        left = self._todo.total()
        parts = [f"{self._before + self._done}/{self._total} trials"]
        parts += [f"{self._before} from before"] if self._before else []
        parts += [f"{self._failed} failed"] if self._failed else []
        busy = min(self._workers, left)
        plural = "s" if busy > 1 else ""
        doing = f"starting {busy} worker{plural}" if self._starting else f"{busy} running"
        parts += [doing] if left else []
        parts.append("{} {}".format(*said(time.monotonic() - self._start)))
        return " · ".join(parts)
