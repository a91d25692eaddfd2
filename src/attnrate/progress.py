"""Progress reports: one live line on a terminal or in a notebook, plain lines or nothing elsewhere.

Work that may take more than a second opens a `Progress` and reports how far it is. However many are
open, nested or in threads, there is one live line: the text of the outermost `Progress`, followed
by the texts of the others.
"""

import contextvars
import heapq
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

#: The least and the greatest number of seconds that work will probably take
Range = tuple[float, float]
#: A text, or a function that returns the text when it is shown
Said = str | Callable[[], str]
P = TypeVar("P", bound="Progress")

_SURE = 1.64  # standard deviations on either side: 90 % of normal durations
_LEAST = 3  # with fewer durations an estimate would be a guess
_PIECES = 32  # number of pieces of a share's growth whose durations are remembered
_LINE_EVERY = 10.0  # seconds between plain lines while something happens
QUIET = 1.0  # seconds that work may take before its progress is shown
_QUIET_AT_MOST = 60.0  # seconds between plain lines while nothing happens
_WIDTH, _SHORT = 24, 4  # of a bar, in characters, and where the words need the room
_TURNING = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES, _READINGS = 10.0, 4.0  # per second: drawings of the live line, updates of its text
_CELL_EVERY = 0.5  # seconds between two drawings in a notebook


def say(message: str) -> None:
    """Write a message on stderr."""
    sys.stderr.write(f"attnrate: {message}\n")
    sys.stderr.flush()


def time_left(
    durations: Sequence[float], sizes: Sequence[float], left: Sequence[float], workers: int
) -> Range | None:
    """Estimate how long the remaining pieces of work take; None while it is too early to say.

    A unit of size takes m = Σ durations / Σ sizes seconds, with the standard deviation s of
    duration / size, weighted by size. The running pieces are the largest that are left. They are
    half done on average, and the last of them takes its time however many workers there are. The
    remaining work W then takes W m seconds on average, with the variance s² W q + s² W² / k', where
    q = Σ left² / Σ left and k' = (Σ sizes)² / Σ sizes². The first term is the scatter of single
    pieces, the second the uncertainty of m after k pieces.

    Args:
        durations: Seconds that the k finished pieces took.
        sizes: Sizes of the finished pieces. If any size is 0 (not known), all pieces count as
            equally large.
        left: Sizes of the pieces that are not finished.
        workers: Number of pieces that run at the same time.

    Returns:
        The least and the greatest number of seconds that remain, with about 90 % confidence.

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
    """A duration as a number and its unit: whole seconds or minutes, or tenths of hours."""
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
    """The progress of some work, shown while the context is open.

    On a terminal it is the live line, which disappears at the end unless it is `lasting`. A Jupyter
    notebook shows the same line below the cell, where its last text stays; the next line of the
    same cell replaces it unless it is `lasting`. With a share there is a bar and an estimate of the
    remaining time, otherwise something that turns.

    Args:
        text: The text until the first `at`; a function is called whenever the text is shown.
        share: The share of the work that is done, from 0 to 1; None if it is not known.
        wanted: True writes plain lines where there is no live line, None (the default) writes
            nothing there; False shows nothing anywhere.
        stream: Where it is shown; stderr by default.
        name: The first word of plain lines.
        left: Returns how long the rest takes, where that is known better than by the share's pace.
        after: Seconds before the live line appears, so that short work shows nothing.
        lasting: Whether the last state of the live line stays.
        steady: Whether plain lines are written without a call of `mark`: the first, the last, and
            between them one every ten seconds in which something happened, else one per minute.

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
        # rich replaces stderr while the live line is drawn
        self.stream: TextIO = getattr(given, "rich_proxied_file", given)
        self.lasting = lasting
        self._place: _Terminal | _Notebook | None = None
        if wanted is not False and self.stream.isatty():
            self._place = _LINE
        elif wanted is not False and stream is None and _notebook_shell() is not None:
            self._place = _CELL
        self._plain = bool(wanted) and self._place is None
        self._speaker = threading.Thread(target=self._speak, daemon=True) if steady else None
        self._over = threading.Event()
        self._name, self._left, self._after = name, left, after
        self._timer: threading.Timer | None = None
        self._pace = _Pace()
        self._begun = math.inf
        self._ending = ""
        self.at(text, share)

    def __enter__(self: P) -> P:
        self._begun = time.monotonic()
        self._appear()
        if self._place is not None and self._after > 0:
            # in the context of this thread, by which a notebook knows the cell
            appear = contextvars.copy_context().run
            self._timer = threading.Timer(self._after, appear, (self._appear,))
            self._timer.daemon = True
            self._timer.start()
        if self._plain and self._speaker is not None:
            self.mark()
            self._speaker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        self._ending = "done" if kind is None else "stopped"
        if self._timer is not None:
            self._timer.cancel()
        if self._plain and self._speaker is not None:
            self._speaker.join()
            self.mark()
        if self._place is not None:
            self._place.remove(self)

    def at(self, text: Said, share: float | None = None) -> None:
        """Report where the work is: a text, and the share that is done if it is known."""
        self._text, self.share = text if callable(text) else lambda: text, share
        self._news = True
        if share is not None:
            self._pace.add(share)
        self._appear()

    def mark(self) -> None:
        """Show the current state now: on the live line, or by a plain line if these are wanted."""
        self._news = False
        if self._plain:
            print(f"{self._name}: {self.line}", file=self.stream, flush=True)
        elif self._place is not None:
            self._place.draw()

    @property
    def line(self) -> str:
        """The current text with the estimate of the remaining time."""
        text = self._text()
        if self.share is None or self.share >= 1:
            return text
        left = self._pace.left() if self._left is None else self._left()
        return f"{text} · {said_range(left)}"

    @property
    def last_line(self) -> str:
        """What stays of it in a notebook: the last text and how it ended, or how long it took."""
        if self.lasting:
            return self.line
        took = " after {} {}".format(*said(time.monotonic() - self._begun))
        return self._ending + (f": {text}" if (text := self._text()) else took)

    @property
    def live(self) -> bool:
        """Whether it has a live line, on a terminal or in a notebook."""
        return self._place is not None

    @property
    def over(self) -> bool:
        """Whether the work has ended."""
        return self._over.is_set()

    def _appear(self) -> None:
        if self._place is not None and time.monotonic() - self._begun >= self._after:
            self._place.add(self)

    def _speak(self) -> None:
        last = time.monotonic()
        while not self._over.wait(_LINE_EVERY):
            if self._news or time.monotonic() - last >= _QUIET_AT_MOST:
                self.mark()
                last = time.monotonic()


class _Pace:
    """How fast a share grows, from the durations of at most `_PIECES` pieces of its growth."""

    _marks: tuple[tuple[float, float], ...] = ()

    def add(self, share: float) -> None:
        """Remember when a share was reached. A smaller share than before begins other work."""
        marks = () if self._marks and share < self._marks[-1][1] else self._marks
        if not marks or share > marks[-1][1]:
            marks = (*marks, (time.monotonic(), share))
        self._marks = marks[::2] if len(marks) > _PIECES else marks

    def left(self) -> Range | None:
        """Estimate how long the rest takes, as a number of pieces like the finished ones."""
        marks = self._marks
        steps = [(two[0] - one[0], two[1] - one[1]) for one, two in pairwise(marks)]
        if not steps:
            return None
        durations, sizes = zip(*steps, strict=True)
        rest = 1 - marks[-1][1]
        count = max(1, round(rest * len(sizes) / math.fsum(sizes)))
        return time_left(durations, sizes, [rest / count] * count, 1)


class _Place:
    """A place that shows one live line for all open `Progress`es, the outermost first."""

    def __init__(self) -> None:
        self._open: list[Progress] = []
        self._lock = threading.RLock()

    def add(self, one: Progress) -> None:
        """Show this one from now on, unless it has ended meanwhile."""
        with self._lock:
            if one not in self._open and not one.over:
                self._open.append(one)
                self.start()
                self.draw()

    def start(self) -> None:
        """Begin to show the line if any `Progress` is open."""
        raise NotImplementedError

    def draw(self) -> None:
        """Show the current texts now."""
        raise NotImplementedError

    def _words(self) -> str:
        return " · ".join(filter(None, (one.line for one in [*self._open])))

    def _share(self) -> float | None:
        return next((one.share for one in [*self._open] if one.share is not None), None)


class _Notebook(_Place):
    """The live line of a Jupyter notebook: an output of the cell that is replaced as work goes on.

    A thread draws it every half second, because a kernel has no other moment for it. An output
    cannot be taken away, so the last text stays until the next line of the cell replaces it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._handle: Any = None
        self._free: tuple[Any, str | None] = (None, None)  # the last line's output, and its cell
        self._idle = threading.Event()

    def remove(self, one: Progress) -> None:
        """Show the other `Progress`es only; of the last one its last text stays."""
        with self._lock:
            if self._open == [one] and self._handle is not None:
                self._idle.set()
                share = one.share if one.lasting else None
                self._handle.update(_data(one.last_line, share), raw=True)
                self._free = (None, None) if one.lasting else (self._handle, _cell())
                self._handle = None
            if one in self._open:
                self._open.remove(one)

    def start(self) -> None:
        """Make the output and the thread that draws it, if there is none."""
        if self._handle is not None or not self._open:
            return
        self._handle, cell = self._free
        if cell is None or cell != _cell():
            display = import_module("IPython.display").display
            self._handle = display(self._data(), raw=True, display_id=True)
        self._idle = threading.Event()
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(self._tick, self._idle), daemon=True).start()

    def draw(self) -> None:
        """Replace the output by the current texts."""
        with self._lock:
            if self._handle is not None:
                self._handle.update(self._data(), raw=True)

    def _tick(self, idle: threading.Event) -> None:
        while not idle.wait(_CELL_EVERY):
            with self._lock:
                if not idle.is_set():
                    self.draw()

    def _data(self) -> dict[str, str]:
        return _data(self._words() or "working", self._share())


def _data(words: str, share: float | None) -> dict[str, str]:
    """An output of a notebook: the words, after a bar if a share is known."""
    bar = "" if share is None else f'<progress max="1" value="{share:.3f}"></progress> '
    return {"text/plain": words, "text/html": f"<div>{bar}{escape(words)}</div>"}


def _cell() -> str | None:
    """The request that runs the current cell of a notebook; None if it is not known."""
    parent: dict[str, dict[str, str]] = getattr(_notebook_shell(), "get_parent", dict)()
    return parent.get("header", {}).get("msg_id")


def _notebook_shell() -> Any:
    """The shell of the Jupyter kernel that this process is; None if it is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


class _Terminal(_Place):
    """The live line of the terminal, cut to its width."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._read = (-math.inf, "")

    def remove(self, one: Progress) -> None:
        """Show the other `Progress`es only; after the last one the terminal is free again."""
        with self._lock:
            if self._open == [one] and self._live is not None:
                self.draw()
                self._live.transient = not one.lasting
                self.stop()
            if one in self._open:
                self._open.remove(one)

    def draw(self) -> None:
        """Draw the current texts, not those of the last reading."""
        with self._lock:
            self._read = (-math.inf, "")
            if self._live is not None:
                self._live.refresh()

    def start(self) -> None:
        """Begin to draw if any `Progress` is open."""
        if self._live is not None or not self._open:
            return
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(file=self._open[0].stream),
            get_renderable=self._text,
            refresh_per_second=_FRAMES,
            transient=True,
            # printed text comes above the line, unless stdout goes to a file
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

        now = time.monotonic()
        if now - self._read[0] >= 1 / _READINGS:
            self._read = now, self._words()
        share = self._share()
        if share is None:
            parts = [(_TURNING[int(_FRAMES * now) % len(_TURNING)], "green")]
        else:
            room = self._live.console.width - len(self._read[1]) - 1 if self._live else _WIDTH
            width = min(_WIDTH, max(_SHORT, room))
            full = round(width * share)
            parts = [("━" * full, "green"), ("━" * (width - full), "dim")]
        return Text.assemble(*parts, " ", self._read[1], no_wrap=True, overflow="ellipsis")


_LINE, _CELL = _Terminal(), _Notebook()


@contextmanager
def aside() -> Iterator[None]:
    """Take the live line off the terminal while another library draws there."""
    _LINE.stop()
    try:
        yield
    finally:
        _LINE.start()
