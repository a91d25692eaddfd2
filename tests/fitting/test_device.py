"""Devices and threads: what no machine has is refused before torch is asked for it."""

import pytest
import torch

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


@pytest.mark.parametrize(
    ("cuda", "count", "said"),
    [
        (None, 0, "this torch was built without CUDA"),
        ("12.4", 0, "torch finds no CUDA device in this machine"),
        ("12.4", 2, "this machine has 2 CUDA devices"),
    ],
)
def test_a_cuda_device_that_is_not_there_is_said_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, count: int, said: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr(torch, "empty", refused)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(InputError, match=said) as caught:
        as_device("cuda:7")
    assert caught.value.value == "cuda:7"
    assert "Usable here: 'cpu'" in str(caught.value)
    assert ("'cuda:1'" in str(caught.value)) == (count == 2)


def test_a_device_that_torch_knows_and_cannot_use_is_no_unknown_one() -> None:
    with pytest.raises(InputError, match="cannot compute on this device here"):
        as_device("hpu")
