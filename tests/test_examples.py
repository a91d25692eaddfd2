"""The demo of the README runs and says what it promises; so does the example of a metric."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import attnrate as ar

ROOT = Path(__file__).resolve().parents[1]


def test_the_first_example_prints_a_spectrum_a_bound_an_error_and_draws(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "first.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "sigma = 1.26217, 0.5, 0.396143" in done.stdout
    assert "bound, mse" in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_the_metric_of_the_example_is_the_loss_of_its_language_model() -> None:
    import torch

    example = runpy.run_path(str(ROOT / "examples" / "metric.py"), run_name="metric")
    torch.manual_seed(0)
    model, texts = example["trained"](5), example["texts"](8)
    advice = ar.advise(ar.profile(model, example["texts"](8)), budget=4)
    found = advice.check(model, texts, metric=example["loss_per_token"]).metric
    assert found is not None
    with torch.no_grad():
        loss = model.eval()(**texts, labels=texts["input_ids"]).loss
    assert found.before.value == pytest.approx(float(loss), rel=1e-5)
    assert (found.per_input, found.change.count) == (True, 8)
