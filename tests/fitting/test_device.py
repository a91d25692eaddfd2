"""Devices and threads: what no machine has is refused before torch is asked for it."""

import pytest

from attnrate.errors import InputError
from attnrate.fitting.device import MOST_THREADS, as_device, as_threads


def test_a_device_that_torch_knows_is_taken_and_any_other_refused() -> None:
    assert as_device("cpu").type == "cpu"
    with pytest.raises(InputError, match="device"):
        as_device("abacus")


@pytest.mark.parametrize("threads", [1, 2, MOST_THREADS])
def test_threads_that_a_machine_can_have_are_taken(threads: int) -> None:
    assert as_threads("threads", threads) == threads


@pytest.mark.parametrize("threads", [0, -1, MOST_THREADS + 1, 10**9, 2**70, 1.5, True, "2"])
def test_threads_that_would_end_the_process_are_refused(threads: object) -> None:
    """The threads' own library ends the process when the system has no more of them."""
    with pytest.raises(InputError, match="threads must be a whole number"):
        as_threads("threads", threads)
