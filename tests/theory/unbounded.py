"""A law of the inputs without a bounded box, for tests of what the theory says about such laws."""

from dataclasses import dataclass
from math import inf

import torch

from attnrate.targets import InputLaw


@dataclass(frozen=True)
class Normal(InputLaw):
    """Independent tokens from N(0, 1), which no box contains."""

    low: tuple[float, ...] = (-inf,)
    high: tuple[float, ...] = (inf,)

    def draw(self, n, length, generator):
        return torch.randn(n, length, self.d, generator=generator, dtype=torch.float64)
