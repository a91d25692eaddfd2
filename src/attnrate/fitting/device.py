"""Where a model is trained: the device (the CPU by default) and the number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attnrate.errors import InputError, require_whole

#: More than any machine has; with far more, the threads' own library ends the process
MOST_THREADS = 1024


def as_device(device: object) -> torch.device:
    """The device of that name; an InputError when torch cannot compute on it here."""
    try:
        found = torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError, AssertionError, ImportError) as problem:
        raise InputError(*_refusal(device)) from problem
    return torch.device(found.device)


def _refusal(device: object) -> tuple[str, object, str]:
    """Why torch refuses a device: what is wrong, the device, and which ones there are."""
    count = torch.cuda.device_count()
    usable = ["cpu", *(f"cuda:{number}" for number in range(count))]
    if torch.backends.mps.is_available():
        usable.append("mps")
    remedy = f"Usable here: {', '.join(map(repr, usable))}."
    try:
        kind = torch.device(device).type  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        return "device is not known to torch", device, remedy
    if kind != "cuda":
        return "torch cannot compute on this device here", device, remedy
    if torch.version.cuda is None and torch.version.hip is None:
        return "this torch was built without CUDA, so it has no such device", device, remedy
    if count == 0:
        return "torch finds no CUDA device in this machine", device, remedy
    return f"this machine has {count} CUDA devices, and this is none of them", device, remedy


def as_threads(name: str, threads: object) -> int:
    """The number of threads; an InputError that names the setting when no machine has that many."""
    return require_whole(name, threads, 1, MOST_THREADS)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """While it is open, torch computes with `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
