"""The work behind a monitor: waiting for passes, making records, logging, and warning.

From the moment that it is made it never stops a training: whatever cannot be read or written is a
warning, and is said once.
"""

import sys
import warnings
from collections.abc import Sequence
from types import FrameType

from torch import nn

from attnrate.errors import AccuracyWarning, InputError, is_inner
from attnrate.spectra.batches import first_line
from attnrate.spectra.monitor.door import Door
from attnrate.spectra.monitor.loggers import Logger
from attnrate.spectra.monitor.options import Options
from attnrate.spectra.monitor.processes import is_first
from attnrate.spectra.monitor.record import Record
from attnrate.spectra.monitor.schedule import Schedule
from attnrate.spectra.profile import nothing_seen
from attnrate.spectra.watching.watcher import Watcher


class Recorder:
    """Makes records of a model while it is trained.

    Args:
        model: The module that is trained.
        options: The settings of the monitor.
        begun: The number of steps that were done before.
        hook: Whether passes of the model are noticed by a hook; otherwise somebody opens and shuts
            the door.
        compiled: Whether passes come from compiled code outside of the module.

    Attributes:
        door: Where passes are watched.
        begun: The number of steps that were done before.
        done: The number of steps that are done.
        records: What was recorded.

    """

    def __init__(
        self,
        model: nn.Module,
        options: Options,
        begun: int,
        *,
        hook: bool = True,
        compiled: bool = False,
    ) -> None:
        Watcher(model)  # refuses attention that cannot be watched at all
        self.door = Door(model, options.picked.has, compiled)
        self.begun = self.done = begun
        self.records: list[Record] = []
        self._options, self._hook = options, hook
        self._schedule = Schedule(options.every, options.batches, begun)
        self._said: set[str] = set()
        self._closed = False
        self._expect()

    def step(self, done: int, also: Sequence[Logger] = ()) -> None:
        """Take note of a step.

        Args:
            done: The number of steps that are done now.
            also: Where numbers go beside the loggers of the settings.

        """
        before, self.done = self.done, done
        if self._closed:
            return
        self.door.dismiss()
        if self._schedule.ends(before, done) and self.door.waited and is_first():
            self._record(also)
            self.door.empty()
        self._expect()

    def close(self) -> None:
        """Stop watching; what was recorded stays."""
        self.door.dismiss()
        self._closed = True

    def say(self, message: str, topic: str = "") -> None:
        """Warn, once on each topic."""
        if (topic or message) not in self._said:
            self._said.add(topic or message)
            warnings.warn(
                f"Monitor: {message}", AccuracyWarning, stacklevel=_outside(sys._getframe())
            )

    def _expect(self) -> None:
        """Wait for the passes of the step under way, if they are wanted."""
        if not self._closed and is_first():
            self.door.expect(self._schedule.passes(self.done), self._hook)

    def _record(self, also: Sequence[Logger]) -> None:
        """Record what was seen, and log it."""
        for name, problem in self.door.failed.items():
            self.say(f"{name} could not be read ({first_line(problem)}).", name)
        if not self.door.pool.layers:
            self._explain()
            return
        if not self.records:
            self._name_unseen()
        options = self._options
        made = Record.of(self.done, self.door.pool, options.beyond, options.gauge)
        self.records.append(made)
        for layer in made.layers:
            if not layer.is_finite:
                said = f"queries or keys of {layer.name} are not finite at step {made.step}."
                self.say(said, f"not finite {layer.name}")
        scalars = made.scalars(options.each_head)
        for place, logger in enumerate((*options.loggers, *also)):
            try:
                logger(made, dict(scalars))
            except Exception as problem:  # a full disk or a lost connection stops no training
                said = f"step {made.step} could not be logged ({first_line(problem)})"
                self.say(f"{said}; to_frame() has it.", f"logger {place}")

    def _explain(self) -> None:
        """Say why there is nothing to record."""
        door = self.door
        model = type(door.model).__name__
        if door.watched and not door.watcher.sites:
            self.close()
            self.say(f"nothing will be recorded: {nothing_seen(door.model, door.watcher.unseen())}")
        elif door.watched:
            self._check_layers()
        elif door.passed:
            self.say(
                f"this {model} was in evaluation mode, or without gradients, at step {self.done}; "
                "only passes of a training are recorded. Call model.train() before them.",
                "evaluation",
            )
        elif not door.failed:
            self.say(
                f"no forward pass of this {model} was seen at step {self.done}. Pass the module "
                "that the training loop calls: the compiled one, if it is compiled. On several "
                "devices DataParallel runs copies of it, which cannot be watched; "
                "DistributedDataParallel can.",
                "no pass",
            )

    def _name_unseen(self) -> None:
        unseen = self.door.watcher.unseen()
        if unseen:
            listed = "; ".join(map(str, unseen))
            self.say(f"attention that could not be read is left out: {listed}")
        self._check_layers()

    def _check_layers(self) -> None:
        try:
            self._options.picked.check([site.name for site in self.door.watcher.sites])
        except InputError as problem:
            self.say(f"layers: {problem}")


def _outside(frame: FrameType) -> int:
    """The level of the first caller, from this frame on, that is neither ours nor installed."""
    level = 1
    while frame.f_back is not None and is_inner(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level
