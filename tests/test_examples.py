"""The demo of the README runs and says what the README promises."""

import subprocess
import sys
from pathlib import Path

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
