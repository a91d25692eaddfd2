"""`attnrate train` on CIFAR-10, killed for real: the same weights as without."""

import os
import signal
import subprocess
import sys
import time

import pytest

from attnrate.data.cifar10 import cifar10
from attnrate.data.registry import FetchError

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module", autouse=True)
def _data():
    pytest.importorskip("PIL")
    try:
        cifar10()
    except FetchError as problem:
        pytest.skip(f"CIFAR-10: {problem}")


def command(folder):
    words = [sys.executable, "-m", "attnrate.cli", "train", "cifar10", "--out", str(folder)]
    return [*words, "--limit", "128", "--epochs", "5", "--threads", "1", "--m-h", "2"]


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run(command(whole), check=True, capture_output=True)
    killed = subprocess.Popen(command(cut), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (cut / "checkpoints" / "epoch-00002.safetensors").exists():
        assert killed.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (cut / "model.safetensors").exists()
    again = subprocess.run(command(cut), check=True, capture_output=True, text=True)
    assert "epoch 1/5" not in again.stderr
    assert "epoch 5/5" in again.stderr
    # the file also tells how long epochs took, so the weights are compared
    from safetensors.torch import load_file

    left, right = (load_file(folder / "model.safetensors") for folder in (whole, cut))
    assert left.keys() == right.keys()
    assert all(left[name].equal(right[name]) for name in left)
