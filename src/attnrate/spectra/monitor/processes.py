"""Which of the processes of a training watches and logs."""

import os

from torch import distributed


def is_first() -> bool:
    """Whether this process watches and logs: the one of rank 0, or the only one.

    The rank is that of torch.distributed. Before that has begun, it is the one that launchers
    (torchrun, accelerate) leave in the environment as RANK.
    """
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank() == 0
    return os.environ.get("RANK", "0") in ("", "0")
