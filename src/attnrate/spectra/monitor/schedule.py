"""At which steps of a training forward passes are watched, and at which a record is made."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """A record after the first step, and one whenever `every` more steps are done.

    Steps count from 1. A record of step n pools forward passes of the steps just before n and of n
    itself, so that it is complete when n is done.

    Attributes:
        every: Steps between two records.
        batches: The largest number of forward passes in a record.
        begun: The number of steps that were done before the training began; 0 without a checkpoint.

    """

    every: int
    batches: int
    begun: int = 0

    def passes(self, done: int) -> int:
        """The number of forward passes to watch in the step that follows `done` steps.

        With accumulated gradients a step has several forward passes, of which only the first is
        watched, so that the passes of a record spread over steps. The first step has to do alone.
        """
        if done == self.begun:
            return self.batches
        left = self.every - done % self.every
        return math.ceil(self.batches / self.every) if left <= self.batches else 0

    def ends(self, before: int, after: int) -> bool:
        """Whether a record ends when the number of steps that are done goes from one to another."""
        return before == self.begun or after // self.every > before // self.every
