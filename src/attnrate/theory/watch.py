"""How long a decomposition may take, and what it says of itself meanwhile."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: Evaluations of rho that a search may take, unless it is told: some seconds for a plain formula
MOST_EVALUATIONS = 10_000_000
_OFTEN = 0.2  # seconds between two reports


class BudgetSpent(Exception):  # noqa: N818 - it ends a search, it is no error
    """The search has taken all that it was given; what it has so far is the answer."""


@dataclass(frozen=True)
class PodProgress:
    """How far a decomposition is.

    `phase` is what it is doing, `evaluations` and `seconds` what that has taken so far, and `error`
    the error of the best answer so far, or None as long as there is none.
    """

    phase: str
    evaluations: int
    seconds: float
    error: float | None

    def __str__(self) -> str:
        best = "" if self.error is None else f", error so far {self.error:.1e}"
        return f"{self.phase}: {self.evaluations:,} evaluations, {self.seconds:.0f} s{best}"


Listener = Callable[[PodProgress], None]


class Watch:
    """Counts what a search takes, ends it when that is too much, and tells a listener.

    With `max_seconds` the answer depends on the machine, with `max_evaluations` it does not.
    """

    def __init__(
        self,
        max_evaluations: int | None = None,
        max_seconds: float | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._most = max_evaluations
        self._seconds = max_seconds
        self._listener = listener
        self._start = self._told = time.monotonic()
        self._free = False
        self.evaluations = 0
        self.spent = False
        self.phase = "looking for slices"
        #: the error of the best answer so far
        self.error: float | None = None

    def count(self, evaluations: int) -> None:
        """Count evaluations that were made; BudgetSpent where there is no more to be spent."""
        self.evaluations += evaluations
        self.check()

    @property
    def timed(self) -> bool:
        """Whether the time is limited: then nothing long is begun that cannot be ended."""
        return self._seconds is not None

    def affords(self, evaluations: int) -> bool:
        """Whether so many more evaluations are within the budget."""
        return self._most is None or self.evaluations + evaluations <= self._most

    def check(self) -> None:
        """Tell the listener, if it is time; BudgetSpent where there is no more to be spent."""
        now = time.monotonic()
        if self._listener is not None and now - self._told >= _OFTEN:
            self._told = now
            self._listener(PodProgress(self.phase, self.evaluations, now - self._start, self.error))
        late = self._seconds is not None and now - self._start > self._seconds
        if late or (self._most is not None and self.evaluations > self._most):
            self.spent = True
            if not self._free:
                raise BudgetSpent

    @contextmanager
    def free(self) -> Iterator[None]:
        """Work that is done whatever it takes: a first answer, and the check of the last one."""
        before, self._free = self._free, True
        try:
            yield
        finally:
            self._free = before
