"""What a model is trained on: the device, the CPU unless another is asked for, and its threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attnrate.errors import InputError, require_whole

#: More than any machine has; far more, and the threads' own library ends the process
MOST_THREADS = 1024


def as_device(device: object) -> torch.device:
    """The device of that name, if it is in this machine."""
    try:
        found = torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError, AssertionError) as problem:
        raise InputError(
            "device is not known to torch, or not in this machine", device, "Pass 'cpu' or 'cuda'."
        ) from problem
    return torch.device(found.device)


def as_threads(name: str, threads: object) -> int:
    """The number of threads; an InputError that names the setting when no machine has so many."""
    return require_whole(name, threads, 1, MOST_THREADS)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """While it is open, torch computes with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
