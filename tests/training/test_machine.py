"""Freed memory stays while asked for, and goes back afterwards."""

import resource
import sys

import pytest
import torch

from attnrate.training.machine import kept_memory


def faults_of_rounds() -> int:
    """Pages that the system had to clear for ten times 64 MB in pieces of 4."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        held = [torch.ones(1 << 20) for _ in range(16)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for its counts")
def test_memory_is_kept_and_then_given_back() -> None:
    with kept_memory() as kept:
        if not kept:
            pytest.skip("another C library than glibc")
        faults_of_rounds()
        again = faults_of_rounds()
        # a fresh 64 MB is 16,384 pages; ten rounds would need ten times as many
        assert again < 1600
        inside = resident()
    assert resident() < inside - (32 << 20)
