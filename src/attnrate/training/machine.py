"""How training uses the machine: memory that stays with the process, and the faster precision.

Each step frees hundreds of megabytes of intermediate values. The C library of Linux (glibc) hands
them back to the system, which has to clear every page when the next step asks for memory. On the
machine where this was measured, that took an eighth of the time of a ViT's step.
"""

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch

#: A lower precision must be this many times faster before it is taken
_WORTH = 1.3
# the names of glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MEGABYTE = 1 << 20
# the largest threshold that glibc takes for mmap, and the usual one for trimming
_MMAP_MOST, _TRIM_USUAL = 32 * _MEGABYTE, 64 * _MEGABYTE
_NEVER = 2**31 - 1


@contextmanager
def kept_memory() -> Iterator[bool]:
    """While it is open, freed memory stays with the process; afterwards it is given back.

    It yields whether that works: with another C library than glibc it does nothing.
    """
    libc = _glibc()
    if libc is None:
        yield False
        return
    libc.mallopt(_M_MMAP_THRESHOLD, _MMAP_MOST)
    libc.mallopt(_M_TRIM_THRESHOLD, _NEVER)
    try:
        yield True
    finally:
        libc.mallopt(_M_TRIM_THRESHOLD, _TRIM_USUAL)
        libc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows has no such handle
        return None
    names = ("gnu_get_libc_version", "mallopt", "malloc_trim")
    return libc if all(hasattr(libc, name) for name in names) else None


def fast_precision(device: torch.device) -> Literal["float32", "bfloat16"]:
    """The faster precision: bfloat16 where it multiplies matrices at least 1.3 times faster."""
    gain = _seconds(torch.float32, device) / _seconds(torch.bfloat16, device)
    return "bfloat16" if gain >= _WORTH else "float32"


def _seconds(dtype: torch.dtype, device: torch.device) -> float:
    """The shortest time of three products of two matrices, after one to warm up."""
    # on a GPU a small product takes as long in any precision: the time that it takes to start
    size = 256 if device.type == "cpu" else 4096
    x = torch.ones(size, size, dtype=dtype, device=device)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        (x @ x)[0, 0].item()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
