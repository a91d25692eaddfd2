"""What people see on the way: one live line on a terminal, plain lines or nothing elsewhere.

Work that takes its time opens a `Progress` and says how far it is. However many are open, one in
another or in threads, a terminal has one line: what the outermost says, then what the others add.
"""

import heapq
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

#: Seconds from which to which work will probably take
Range = tuple[float, float]
#: What is said, or a function that says it when it is asked
Said = str | Callable[[], str]
P = TypeVar("P", bound="Progress")

_SURE = 1.64  # standard deviations either side: nine times in ten, for normal durations
_LEAST = 3  # durations before an estimate is more than a guess
_PIECES = 32  # of a share's growth, whose durations are remembered
_LINE_EVERY = 10.0  # seconds between plain lines when something has happened
_QUIET_AT_MOST = 60.0  # and when nothing has
_WIDTH = 24  # of a bar, in characters
_TURNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES, _READINGS = 10.0, 4.0  # a second: drawings, and looks at what there is to be said


def say(message: str) -> None:
    """Write a message on stderr."""
    sys.stderr.write(f"attnrate: {message}\n")
    sys.stderr.flush()


def time_left(
    durations: Sequence[float], sizes: Sequence[float], left: Sequence[float], workers: int
) -> Range | None:
    """Seconds from which to which pieces of work will probably still take; None: too early to say.

    Of k finished pieces with these durations and sizes, `left` are the sizes of the others. A unit
    of size takes m = Σ durations / Σ sizes seconds, with the standard deviation s of duration /
    size, weighted by size. Pieces that run, the largest of those left, are half done on average,
    and the last of them takes its time however many workers there are. The work W that is left
    then has the mean W m and the variance s² W q + s² W² / k', where q = Σ left² / Σ left and
    k' = (Σ sizes)² / Σ sizes²: chance in each piece, and what k durations leave unknown of m.

    Where a size is not known (0), all pieces are taken to be alike, that is of size 1.
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


def said_range(left: Range | None) -> str:
    """A range of durations as people say it: "about 3-5 min left"."""
    if left is None:
        return "time left not known yet"
    low, high = said(left[0]), said(left[1])
    if low == high:
        return f"about {low[0]} {low[1]} left"
    if low[1] == high[1]:
        return f"about {low[0]}-{high[0]} {high[1]} left"
    return f"about {low[0]} {low[1]} - {high[0]} {high[1]} left"


class Progress:
    """Work that shows how far it is, while it is open as a context.

    On a terminal that is the live line, which is gone afterwards unless it is `lasting`. With a
    share it has a bar and says how long the rest will take, else it has something that turns.

    Args:
        text: What is said until `at` says something else; a function is asked when it is shown.
        share: How much of the work is done, from 0 to 1; None where that is not known.
        wanted: True writes plain lines where there is no terminal, None nothing; with False
            there is no live line either.
        stream: Where it is shown; stderr by default.
        name: What plain lines begin with.
        left: How long the rest will take, where that is known better than by the share's pace.
        after: Seconds that the work may take before anything is drawn; then the next `at` does.
        lasting: Whether the last state of the live line stays on the terminal.
        steady: Whether plain lines come by themselves: the first, the last, and between them one
            every ten seconds in which something happened, else every minute. They come by `mark`
            alone otherwise.

    """

    def __init__(
        self,
        text: Said = "",
        share: float | None = None,
        *,
        wanted: bool | None = None,
        stream: TextIO | None = None,
        name: str = "attnrate",
        left: Callable[[], Range | None] | None = None,
        after: float = 0.0,
        lasting: bool = False,
        steady: bool = False,
    ) -> None:
        given = sys.stderr if stream is None else stream
        # rich stands before stderr while the live line is drawn
        self.stream: TextIO = getattr(given, "rich_proxied_file", given)
        self.lasting = lasting
        self.live = wanted is not False and self.stream.isatty()
        self._plain = bool(wanted) and not self.live
        self._speaker = threading.Thread(target=self._speak, daemon=True) if steady else None
        self._over = threading.Event()
        self._name, self._left, self._after = name, left, after
        self._pace = _Pace()
        self._begun = math.inf
        self.at(text, share)

    def __enter__(self: P) -> P:
        self._begun = time.monotonic()
        self._appear()
        if self._plain and self._speaker is not None:
            self.mark()
            self._speaker.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._plain and self._speaker is not None:
            self._over.set()
            self._speaker.join()
            self.mark()
        _LINE.remove(self)

    def at(self, text: Said, share: float | None = None) -> None:
        """Say where the work is: what is done, and the share of it that is behind."""
        self._text, self.share = text, share
        self._news = True
        if share is not None:
            self._pace.add(share)
        self._appear()

    def mark(self) -> None:
        """Show where the work is now: at once on a terminal, elsewhere by a plain line."""
        self._news = False
        if self._plain:
            print(f"{self._name}: {self.line}", file=self.stream, flush=True)
        else:
            _LINE.draw()

    @property
    def line(self) -> str:
        """All that there is to be said now."""
        text = self._text if isinstance(self._text, str) else self._text()
        if self.share is None or self.share >= 1:
            return text
        left = self._pace.left() if self._left is None else self._left()
        return f"{text} · {said_range(left)}"

    def _appear(self) -> None:
        if self.live and time.monotonic() - self._begun >= self._after:
            _LINE.add(self)

    def _speak(self) -> None:
        last = time.monotonic()
        while not self._over.wait(_LINE_EVERY):
            if self._news or time.monotonic() - last >= _QUIET_AT_MOST:
                self.mark()
                last = time.monotonic()


class _Pace:
    """How fast a share grows, by the durations of at most so many pieces of its growth."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []

    def add(self, share: float) -> None:
        """Remember that the share is reached now; a smaller one than before is of other work."""
        marks = [] if self._marks and share < self._marks[-1][1] else self._marks
        if not marks or share > marks[-1][1]:
            marks = [*marks, (time.monotonic(), share)]
        self._marks = marks[::2] if len(marks) > _PIECES else marks

    def left(self) -> Range | None:
        """How long the rest will take, as a number of pieces like those that are behind."""
        marks = self._marks
        steps = [(two[0] - one[0], two[1] - one[1]) for one, two in pairwise(marks)]
        if not steps:
            return None
        durations, sizes = zip(*steps, strict=True)
        rest = 1 - marks[-1][1]
        count = max(1, round(rest * len(sizes) / math.fsum(sizes)))
        return time_left(durations, sizes, [rest / count] * count, 1)


class _Line:
    """The live line of the terminal: whoever is open, the outermost first."""

    def __init__(self) -> None:
        self._open: list[Progress] = []
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._read = (-math.inf, "")

    def add(self, one: Progress) -> None:
        """Draw this one, too, from now on."""
        with self._lock:
            if one not in self._open:
                self._open.append(one)
                self.start()
                self.draw()

    def remove(self, one: Progress) -> None:
        """Draw the others alone; after the last of them the terminal is free again."""
        with self._lock:
            if self._open == [one] and self._live is not None:
                self.draw()
                self._live.transient = not one.lasting
                self.stop()
            if one in self._open:
                self._open.remove(one)

    def draw(self) -> None:
        """Draw what there is to be said now, not what there was a moment ago."""
        with self._lock:
            self._read = (-math.inf, "")
            if self._live is not None:
                self._live.refresh()

    def start(self) -> None:
        """Begin to draw, if anyone is open."""
        if self._live is not None or not self._open:
            return
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(file=self._open[0].stream),
            get_renderable=self._text,
            refresh_per_second=_FRAMES,
            transient=True,
            # what is printed comes above the line, but stays out of it where it goes to a file
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()

    def stop(self) -> None:
        """Take the line off the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _text(self) -> "Text":
        from rich.text import Text

        shown, now = [*self._open], time.monotonic()
        if now - self._read[0] >= 1 / _READINGS:
            self._read = now, " · ".join(filter(None, (one.line for one in shown)))
        share = next((one.share for one in shown if one.share is not None), None)
        if share is None:
            turning = _TURNING[int(_FRAMES * now) % len(_TURNING)]
            return Text.assemble((turning, "green"), " ", self._read[1])
        full = round(_WIDTH * share)
        bar = ("━" * full, "green"), ("━" * (_WIDTH - full), "dim")
        return Text.assemble(*bar, " ", self._read[1])


_LINE = _Line()


@contextmanager
def aside() -> Iterator[None]:
    """While this is open, the live line is off the terminal, for what another library draws."""
    _LINE.stop()
    try:
        yield
    finally:
        _LINE.start()
