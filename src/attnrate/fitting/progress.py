"""How a sweep shows that it goes on: a live line on a terminal, now and then a line elsewhere."""

import math
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TextIO, runtime_checkable

if TYPE_CHECKING:
    from rich.text import Text

_LINE_EVERY = 10.0  # seconds between plain lines when something has happened
_QUIET_AT_MOST = 60.0  # and when nothing has
_SURE = 1.64  # standard deviations either side: nine times in ten, for normal durations
_LEAST = 3  # finished trials before an estimate is more than a guess


def time_left(
    durations: Sequence[float], remaining: int, workers: int
) -> tuple[float, float] | None:
    """Seconds from which to which the sweep will probably still take; None: too early to say.

    The remaining trials are taken to be like the finished ones, of mean m and standard deviation
    s from k durations. Their sum has the mean R m and the variance R s² + R² s²/k: chance in each
    of them, and what k durations leave unknown of m. Trials that run are half done on average, and
    the last round takes a whole trial however many workers there are.
    """
    if remaining == 0:
        return 0.0, 0.0
    if len(durations) < _LEAST:
        return None
    mean, spread = statistics.fmean(durations), statistics.stdev(durations)
    running = min(workers, remaining)
    rounds = max((remaining - running / 2) / workers, 0.5)
    work = rounds * workers
    deviation = spread * math.sqrt(work + work**2 / len(durations)) / workers
    return max(0.0, rounds * mean - _SURE * deviation), rounds * mean + _SURE * deviation


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

    def begin(self, total: int, before: int, workers: int) -> None:
        """The sweep has `total` trials, of which `before` were finished in earlier runs."""

    def finish(self, seconds: float, failed: bool) -> None:
        """A trial has ended after so many seconds."""

    def end(self) -> None:
        """The sweep is over, or has been stopped."""


class Silent:
    """Says nothing."""

    def begin(self, total: int, before: int, workers: int) -> None:
        """Nothing."""

    def finish(self, seconds: float, failed: bool) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class Counts:
    """The numbers behind a display, as one line of text."""

    def __init__(self) -> None:
        self.total = self.done = self.failed = self.before = 0
        self.workers = 1
        self.durations: list[float] = []
        self.start = time.monotonic()

    def begin(self, total: int, before: int, workers: int) -> None:
        """Start to count."""
        self.total, self.before, self.workers = total, before, workers
        self.start = time.monotonic()

    def finish(self, seconds: float, failed: bool) -> None:
        """Count one trial; only those that came to their end tell how long one takes."""
        if failed:
            self.failed += 1
        else:
            self.done += 1
            self.durations.append(seconds)

    @property
    def line(self) -> str:
        """Everything in one line."""
        remaining = self.total - self.before - self.done - self.failed
        parts = [f"{self.before + self.done}/{self.total} trials"]
        parts += [f"{self.before} from before"] if self.before else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{min(self.workers, remaining)} running"] if remaining else []
        parts.append("{} {}".format(*said(time.monotonic() - self.start)))
        if remaining:
            parts.append(said_range(time_left(self.durations, remaining, self.workers)))
        return " · ".join(parts)


class PlainLines(Counts):
    """A line every ten seconds in which something happened, else every minute."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def begin(self, total: int, before: int, workers: int) -> None:
        """The first line."""
        super().begin(total, before, workers)
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

    def begin(self, total: int, before: int, workers: int) -> None:
        """Show the line."""
        super().begin(total, before, workers)
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
