"""Makes `sweep_standin` importable here and, through the path they inherit, in the workers."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the stand-in notes what it begins and ends."""
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv("STANDIN_LOG", str(path))
    return path
