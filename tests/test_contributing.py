"""The files that CONTRIBUTING.md shows work by being where it says, and are clean."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm_commands

import attnrate

PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to put files into."""
    shutil.copytree(
        Path(attnrate.__file__).parent,
        tmp_path / "attnrate",
        # what Python has compiled stays valid; what the tests compiled for themselves is not used
        ignore=shutil.ignore_patterns("*jaxtyping*"),
    )
    return tmp_path


def shown(words: str) -> str:
    (block,) = [block for block in BLOCKS if words in block]
    return str(block)


def run(package: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return warm_commands.attnrate(*words, folder=package, settings={"PYTHONPATH": str(package)})


@pytest.mark.parametrize(
    ("place", "words", "settings"),
    [
        ("targets", "TARGETS.add", ["target.kind=ramp", "target.slope=2", "model.kind=gru"]),
        ("models", "MODELS.add", ["target.kind=gravity", "model.kind=pointwise"]),
    ],
)
def test_a_target_and_a_model_are_found_by_being_there(
    place: str, words: str, settings: list[str], package: Path
) -> None:
    (package / "attnrate" / place / "shown.py").write_text(shown(words), encoding="utf-8")
    ended = run(package, "fit", *settings, "recipe.steps=2")
    assert ended.stdout.startswith("mse "), ended.stderr


@pytest.mark.slow
def test_an_experiment_is_found_by_being_there_and_runs(package: Path) -> None:
    place = package / "attnrate" / "experiments" / "paper" / "depth.py"
    place.write_text(shown("contract.Experiment"), encoding="utf-8")
    ended = run(package, "reproduce", "depth", "--out", str(package / "out"), "--json")
    assert ended.returncode == 0, ended.stderr
    assert '"depth-halves"' in ended.stdout
    assert (package / "out" / "figures" / "depth.png").exists()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block).splitlines()[0][3:30])
def test_what_is_shown_is_clean(block: str, tmp_path: Path) -> None:
    file = tmp_path / "shown.py"
    file.write_text(block, encoding="utf-8")
    settings = PAGE.with_name("pyproject.toml")
    for words in (["check"], ["format", "--check"]):
        ended = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--config", str(settings), str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named" in ended.stderr:
            pytest.skip("ruff comes with `make check`")
        assert ended.returncode == 0, ended.stdout + ended.stderr
