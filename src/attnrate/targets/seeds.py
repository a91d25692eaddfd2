"""Seeds of torch's random numbers, all of whose bits count."""

import numpy as np
import torch

_KEPT = 1 << 32  # torch's generator on the CPU keeps the last 32 bits of a seed and no others


def spread(seed: int) -> int:
    """The seed itself if torch keeps all of it; a hash of all of its bits if not."""
    if seed < _KEPT:
        return seed
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint32)[0])


def generator(seed: int) -> torch.Generator:
    """A generator on the CPU; other seeds, also those far apart, give other numbers."""
    return torch.Generator().manual_seed(spread(seed))
