"""How training shows that it goes on: a live line on a terminal, a line an epoch elsewhere."""

import math
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import torch

from attnrate.fitting.progress import said

if TYPE_CHECKING:
    from rich.text import Text

Tensor = torch.Tensor


@dataclass(frozen=True)
class Moment:
    """Where a run stands: the share `done` of epoch `number`, and the sums since it began."""

    number: int
    done: float
    seconds: float
    units: int
    loss_sum: Tensor
    right: Tensor
    count: int


class Silent:
    """Says nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing."""

    def tell(self, moment: Moment) -> None:
        """Nothing."""

    def ended(self, test_accuracy: float) -> None:
        """Nothing."""


class EpochLines(Silent):
    """A line after every epoch."""

    def __init__(self, stream: TextIO, unit: str, epochs: int) -> None:
        self._stream, self._unit, self._epochs = stream, unit, epochs
        self._moment: Moment | None = None
        self._tested = math.nan

    def tell(self, moment: Moment) -> None:
        """Remember where the run stands."""
        self._moment = moment

    def ended(self, test_accuracy: float) -> None:
        """An epoch and its test are over."""
        self._tested = test_accuracy
        print(f"train: {self.line}", file=self._stream, flush=True)

    @property
    def line(self) -> str:
        """Everything in one line; the sums are only read here, not at every step."""
        now = self._moment
        if now is None:
            return "the first batch"
        parts = [
            f"epoch {now.number + 1}/{self._epochs}",
            f"loss {float(now.loss_sum) / now.count:.3f}",
            f"accuracy {100 * float(now.right) / now.count:.1f} %",
        ]
        if math.isfinite(self._tested):
            parts.append(f"test {100 * self._tested:.1f} %")
        parts.append(f"{now.units / now.seconds:,.0f} {self._unit}/s")
        left = (self._epochs - now.number - now.done) * now.seconds / now.done
        parts.append("about {} {} left".format(*said(left)))
        return " · ".join(parts)


class LiveEpochs(EpochLines):
    """One line on a terminal that is always up to date."""

    def __init__(self, stream: TextIO, unit: str, epochs: int) -> None:
        super().__init__(stream, unit, epochs)
        from rich.console import Console
        from rich.live import Live

        console = Console(file=stream)
        self._live = Live(get_renderable=self._text, console=console, refresh_per_second=2)

    def __enter__(self) -> "Silent":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the line as it is."""
        self._live.stop()

    def ended(self, test_accuracy: float) -> None:
        """Show the test from now on."""
        self._tested = test_accuracy

    def _text(self) -> "Text":
        from rich.text import Text

        width = 20
        now = self._moment
        full = 0 if now is None else round(width * (now.number + now.done) / self._epochs)
        bar = Text("━" * full, style="green") + Text("━" * (width - full), style="dim")
        return bar + Text(f" {self.line}", style="default")


def make_epoch_progress(
    wanted: bool | None, unit: str, epochs: int, stream: TextIO | None = None
) -> Silent:
    """A live line on a terminal. Elsewhere a line an epoch if `wanted`, silence if None."""
    stream = sys.stderr if stream is None else stream
    if wanted is False:
        return Silent()
    if stream.isatty():
        return LiveEpochs(stream, unit, epochs)
    return EpochLines(stream, unit, epochs) if wanted else Silent()
