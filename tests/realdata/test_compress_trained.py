"""`attnrate train` for a moment, then `attnrate compress` on its folder: accuracy and BLEU."""

import json
from pathlib import Path
from typing import Any

import pytest
from warm_commands import attnrate

import attnrate as ar
from attnrate.data.cifar10 import cifar10
from attnrate.data.translation import translation

pytestmark = [pytest.mark.realdata, pytest.mark.slow]
IMAGES = "attnrate data cifar10"
SENTENCES = "attnrate data translation"
TASKS = {"cifar10": (IMAGES, "PIL", cifar10), "translation": (SENTENCES, "polib", translation)}


def answer(*words: object) -> dict[str, Any]:
    done = attnrate(*words, "--json", settings={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_a_model_of_train_is_cut_and_judged_as_it_was_after_its_training(
    task: str, real: Any, tmp_path: Path
) -> None:
    command, package, fetch = TASKS[task]
    pytest.importorskip(package)
    real(command, fetch)
    whole, thin = tmp_path / "whole", tmp_path / "thin"
    few = "--limit", 128, "--epochs", 1, "--threads", 1, "--altered", "--m-h", 16
    scores = answer("train", task, "--out", whole, *few)["scores"]
    words = "--size", 8, "--limit", 30, "--repair", 2, "--timing", 0
    found = answer("compress", whole, "--out", thin, *words)
    (score,) = found["quality"]
    assert (score["tests"], scores["tests"]) == (128, 128)
    if task == "cifar10":
        assert score["measure"] == "accuracy"
        assert score["before"] == pytest.approx(1 - scores["test_error"], abs=1e-5)
        right = 1 - ar.judge_images(ar.load_model(thin).model, ar.photographs(1, 128)).test_error
        assert score["after"] == pytest.approx(right)
    else:
        assert score["measure"] == "bleu"
        assert score["before"] == pytest.approx(scores["bleu"], abs=1e-3)
        assert "bytes per token in the cache instead of" in found["summary"]
        assert (thin / "vocabulary.json").read_bytes() == (whole / "vocabulary.json").read_bytes()
