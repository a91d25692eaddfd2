"""CIFAR-10 for real: a quick model learns; `attnrate train`, killed, has the same weights."""

import os
import signal
import subprocess
import sys
import time

import pytest
from warm_commands import attnrate

from attnrate.data.cifar10 import cifar10
from attnrate.data.registry import cache_folder
from attnrate.experiments.paper import fig3
from attnrate.experiments.run import run_job

pytestmark = pytest.mark.realdata


@pytest.fixture(scope="module", autouse=True)
def _data(real):
    pytest.importorskip("PIL")
    real("attnrate data cifar10", cifar10)


def test_a_quick_model_of_figure_3_learns_from_real_images(tmp_path, monkeypatch):
    data = cifar10().folder
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path))
    cache_folder().mkdir()
    (cache_folder() / data.name).symlink_to(data)
    largest = max((one.job for one in fig3.EXPERIMENT.plan("quick")), key=lambda job: job.m_h)
    found = run_job(largest.settings)
    # of ten classes, by chance nine in ten are wrong
    assert found["test_error"] < 0.8
    assert found["epochs"][-1]["loss"] < found["epochs"][0]["loss"]
    assert len(found["spectra"]["last"]["groups"][0]) == largest.m_h


def training(folder):
    words = "train", "cifar10", "--out", str(folder), "--limit", "128", "--epochs", "5"
    return *words, "--threads", "1", "--m-h", "2", "--precision", "float32"


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    done = attnrate(*training(whole))
    assert done.returncode == 0, done.stderr
    command = [sys.executable, "-m", "attnrate.cli", *training(cut)]
    killed = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (cut / "checkpoints" / "epoch-00002.safetensors").exists():
        assert killed.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert not (cut / "model.safetensors").exists()
    again = attnrate(*training(cut))
    assert again.returncode == 0, again.stderr
    assert "epoch 1/5" not in again.stderr
    assert "epoch 5/5" in again.stderr
    # the file also tells how long epochs took, so the weights are compared
    from safetensors.torch import load_file

    left, right = (load_file(folder / "model.safetensors") for folder in (whole, cut))
    assert left.keys() == right.keys()
    assert all(left[name].equal(right[name]) for name in left)
