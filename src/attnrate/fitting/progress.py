"""How a sweep shows that it goes on: a live line on a terminal, now and then a line elsewhere."""

import heapq
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO, runtime_checkable

if TYPE_CHECKING:
    from rich.text import Text

_LINE_EVERY = 10.0  # seconds between plain lines when something has happened
_QUIET_AT_MOST = 60.0  # and when nothing has
_SURE = 1.64  # standard deviations either side: nine times in ten, for normal durations
_LEAST = 3  # finished trials before an estimate is more than a guess


def time_left(
    durations: Sequence[float], sizes: Sequence[float], left: Sequence[float], workers: int
) -> tuple[float, float] | None:
    """Seconds from which to which the sweep will probably still take; None: too early to say.

    Of k finished trials with these durations and sizes, `left` are the sizes of the others. A unit
    of size takes m = Σ durations / Σ sizes seconds, with the standard deviation s of duration /
    size, weighted by size. Trials that run, the largest of those left, are half done on average,
    and the last of them takes its time however many workers there are. The work W that is left
    then has the mean W m and the variance s² W q + s² W² / k', where q = Σ left² / Σ left and
    k' = (Σ sizes)² / Σ sizes²: chance in each trial, and what k durations leave unknown of m.

    Where a size is not known (0), all trials are taken to be alike, that is of size 1.
    """
    if not left:
        return 0.0, 0.0
    if len(durations) < _LEAST:
        return None
    if min(min(sizes), min(left)) <= 0:
        sizes, left = [1.0] * len(sizes), [1.0] * len(left)
    whole, known = math.fsum(left), math.fsum(sizes)
    rate = math.fsum(durations) / known
    off = math.fsum(
        size * (seconds / size - rate) ** 2 for seconds, size in zip(durations, sizes, strict=True)
    )
    spread = math.sqrt(off / known * len(sizes) / (len(sizes) - 1))
    running = heapq.nlargest(workers, left)
    work = max(whole - math.fsum(running) / 2, running[0] / 2 * workers)
    chance = work * math.fsum(size**2 for size in left) / whole
    doubt = work**2 * math.fsum(size**2 for size in sizes) / known**2
    deviation = spread * math.sqrt(chance + doubt)
    low, high = rate * work - _SURE * deviation, rate * work + _SURE * deviation
    return max(0.0, low / workers), high / workers


def said(seconds: float) -> tuple[str, str]:
    """A duration as a number and its unit: whole seconds, minutes, or hours to a tenth."""
    if seconds < 90:
        return f"{seconds:.0f}", "s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f}", "min"
    return f"{seconds / 3600:.1f}", "h"


def said_range(left: tuple[float, float] | None) -> str:
    """A range of durations as people say it: "about 3-5 min left"."""
    if left is None:
        return "time left not known yet"
    low, high = said(left[0]), said(left[1])
    if low == high:
        return f"about {low[0]} {low[1]} left"
    if low[1] == high[1]:
        return f"about {low[0]}-{high[0]} {high[1]} left"
    return f"about {low[0]} {low[1]} - {high[0]} {high[1]} left"


@runtime_checkable
class Progress(Protocol):
    """What a sweep tells of its course."""

    def begin(self, total: int, todo: Iterable[float], workers: int) -> None:
        """The sweep has `total` trials; those that are to run have the sizes `todo`."""

    def finish(self, size: float, seconds: float | None, failed: bool) -> None:
        """A trial has ended after so many seconds; None: in another sweep on the same store."""

    def end(self) -> None:
        """The sweep is over, or has been stopped."""


class Silent:
    """Says nothing."""

    def begin(self, total: int, todo: Iterable[float], workers: int) -> None:
        """Nothing."""

    def finish(self, size: float, seconds: float | None, failed: bool) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class Counts:
    """The numbers behind a display, as one line of text."""

    def __init__(self) -> None:
        self.total = self.done = self.failed = self.before = 0
        self.workers = 1
        self.left: Counter[float] = Counter()
        self.sizes: list[float] = []
        self.durations: list[float] = []
        self.start = time.monotonic()

    def begin(self, total: int, todo: Iterable[float], workers: int) -> None:
        """Start to count."""
        self.left = Counter(todo)
        self.total, self.before = total, total - self.left.total()
        self.workers = workers
        self.start = time.monotonic()

    def finish(self, size: float, seconds: float | None, failed: bool) -> None:
        """Count one trial; only those that came to their end here tell how long one takes."""
        self.left[size] -= 1
        if failed:
            self.failed += 1
            return
        self.done += 1
        if seconds is not None:
            self.sizes.append(size)
            self.durations.append(seconds)

    @property
    def line(self) -> str:
        """Everything in one line."""
        left = [*self.left.elements()]
        parts = [f"{self.before + self.done}/{self.total} trials"]
        parts += [f"{self.before} from before"] if self.before else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{min(self.workers, len(left))} running"] if left else []
        parts.append("{} {}".format(*said(time.monotonic() - self.start)))
        if left:
            known = min(len(self.sizes), len(self.durations))  # a trial may end meanwhile
            ended = self.durations[:known], self.sizes[:known]
            parts.append(said_range(time_left(*ended, left, self.workers)))
        return " · ".join(parts)


class PlainLines(Counts):
    """A line every ten seconds in which something happened, else every minute."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def begin(self, total: int, todo: Iterable[float], workers: int) -> None:
        """The first line."""
        super().begin(total, todo, workers)
        self._say()
        self._thread.start()

    def end(self) -> None:
        """The last line."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._say()

    def _speak(self) -> None:
        told, last = 0, time.monotonic()
        while not self._over.wait(_LINE_EVERY):
            ended = self.done + self.failed
            if ended != told or time.monotonic() - last >= _QUIET_AT_MOST:
                self._say()
                told, last = ended, time.monotonic()

    def _say(self) -> None:
        print(f"sweep: {self.line}", file=self._stream, flush=True)


class LiveLine(Counts):
    """One line on a terminal that is always up to date."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream)
        self._live = Live(get_renderable=self._text, console=console, refresh_per_second=4)

    def begin(self, total: int, todo: Iterable[float], workers: int) -> None:
        """Show the line."""
        super().begin(total, todo, workers)
        self._live.start()

    def end(self) -> None:
        """Leave the line as it is."""
        self._live.stop()

    def _text(self) -> "Text":
        from rich.text import Text

        width = 24
        share = (self.before + self.done + self.failed) / max(self.total, 1)
        full = round(width * share)
        bar = Text("━" * full, style="green") + Text("━" * (width - full), style="dim")
        return bar + Text(f" {self.line}", style="default")


def make_progress(wanted: bool | None, stream: TextIO | None = None) -> Progress:
    """A live line on a terminal. Elsewhere plain lines if they are `wanted`, silence if None."""
    stream = sys.stderr if stream is None else stream
    if wanted is False:
        return Silent()
    if stream.isatty():
        return LiveLine(stream)
    return PlainLines(stream) if wanted else Silent()
