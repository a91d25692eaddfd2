"""How long a decomposition may take, and what it reports meanwhile."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: The most evaluations of rho in a search, by default: some seconds for a plain formula
MOST_EVALUATIONS = 10_000_000
_OFTEN = 0.2  # seconds between two reports


class BudgetSpent(Exception):  # noqa: N818 - it ends a search, it is no error
    """The search has spent its budget; the best answer so far is the answer."""


@dataclass(frozen=True)
class PodProgress:
    """How far a decomposition has come; what `pod` gives to its listener.

    Attributes:
        phase: What it is doing, in words.
        evaluations: The number of pairs at which rho was evaluated so far.
        seconds: The time that has passed.
        error: The error of the best answer so far; None as long as there is none.

    Examples:
        >>> print(ar.PodProgress("looking for slices", 12_000, 1.4, 2e-5))
        looking for slices: 12,000 evaluations, 1 s, error so far 2.0e-05

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
    """Counts what a search takes, ends it when its budget is spent, and reports to a listener.

    Args:
        max_evaluations: The most evaluations of rho; None for no limit.
        max_seconds: The longest time; None for no limit. With it the answer depends on the machine.
        listener: Is called a few times a second.

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
        self._start = self._reported = time.monotonic()
        self._free = False
        self.evaluations = 0
        self.spent = False
        self.phase = "looking for slices"
        #: the error of the best answer so far
        self.error: float | None = None

    def count(self, evaluations: int) -> None:
        """Count evaluations that were made; raise BudgetSpent where they exceed the budget."""
        self.evaluations += evaluations
        self.check()

    @property
    def timed(self) -> bool:
        """Whether the time is limited; then nothing long is begun that cannot be interrupted."""
        return self._seconds is not None

    def affords(self, evaluations: int) -> bool:
        """Whether this number of further evaluations is within the budget."""
        return self._most is None or self.evaluations + evaluations <= self._most

    def check(self) -> None:
        """Call the listener if it is time; raise BudgetSpent where the budget is exceeded."""
        now = time.monotonic()
        if self._listener is not None and now - self._reported >= _OFTEN:
            self._reported = now
            self._listener(self.now())
        late = self._seconds is not None and now - self._start > self._seconds
        if late or (self._most is not None and self.evaluations > self._most):
            self.spent = True
            if not self._free:
                raise BudgetSpent

    def now(self) -> PodProgress:
        """How far the search has come."""
        seconds = time.monotonic() - self._start
        return PodProgress(self.phase, self.evaluations, seconds, self.error)

    @contextmanager
    def free(self) -> Iterator[None]:
        """Do work whatever it takes: a first answer, and the check of the last one."""
        before, self._free = self._free, True
        try:
            yield
        finally:
            self._free = before
