"""Seeds of torch's random numbers in which every bit counts."""

import numpy as np
import torch

_KEPT = 1 << 32  # torch's CPU generator uses only the last 32 bits of a seed


def spread(seed: int) -> int:
    """The seed itself if torch uses all of its bits, else a hash of all of them."""
    if seed < _KEPT:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint32)[0])


def generator(seed: int) -> torch.Generator:
    """A generator on the CPU. Different seeds give different numbers, however large they are."""
    return torch.Generator().manual_seed(spread(seed))
