"""What benchmarks write of what they measured: files that grow and keep what is in them."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
# behind Python's own folders: there is a profile.py among the benchmarks
sys.path.append(str(ROOT / "benchmarks"))

import _report  # noqa: E402
import compress  # noqa: E402


def found(change: float) -> dict[str, Any]:
    rows = [{"way": "KQ-SVD", "change": change}]
    return _report.finding({"rows": rows}, {"small": change < 1}, time.perf_counter(), {"cpu": "?"})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Runs compress.py on parts that measure nothing; the parts that were run."""
    done: list[str] = []

    def part(name: str) -> Callable[[], dict[str, Any]]:
        def work() -> dict[str, Any]:
            done.append(name)
            return found(float(len(done)))

        return work

    def stopped() -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(compress, "PARTS", {"a": part("a"), "b": part("b"), "stop": stopped})

    def main(*words: str) -> list[str]:
        done.clear()
        monkeypatch.setattr(sys, "argv", ["compress.py", *words])
        compress.main()
        return [*done]

    return main


def test_a_finding_has_its_rows_requirements_seconds_and_machine() -> None:
    assert found(2.0) == {
        "rows": [{"way": "KQ-SVD", "change": 2.0}],
        "requirements": {"small": False},
        "seconds": 0.0,
        "machine": {"cpu": "?"},
    }


def test_parts_that_are_in_the_file_are_not_run_again_unless_asked(
    run: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "content.json"
    assert run("a", "--out", str(file)) == ["a"]
    assert run("a", "b", "--out", str(file)) == ["b"]
    assert "a: in " in capsys.readouterr().out
    parts = json.loads(file.read_text())["parts"]
    assert {name: part["rows"][0]["change"] for name, part in parts.items()} == {"a": 1, "b": 1}
    assert run("b", "a", "--again", "--out", str(file)) == ["b", "a"]
    parts = json.loads(file.read_text())["parts"]
    assert {name: part["rows"][0]["change"] for name, part in parts.items()} == {"a": 2, "b": 1}


def test_a_run_that_is_stopped_leaves_its_finished_parts(
    run: Callable[..., list[str]], tmp_path: Path
) -> None:
    file = tmp_path / "content.json"
    with pytest.raises(KeyboardInterrupt):
        run("b", "stop", "--out", str(file))
    assert [*json.loads(file.read_text())["parts"]] == ["b"]


def test_two_runs_into_one_file_keep_the_parts_of_both(tmp_path: Path) -> None:
    file = tmp_path / "content.json"
    one, other = _report.Parts(file), _report.Parts(file)
    one.add("a", found(1.0))
    other.add("b", found(1.0))
    assert {*json.loads(file.read_text())["parts"]} == {"a", "b"}


def test_without_a_file_nothing_is_written(run: Callable[..., list[str]], tmp_path: Path) -> None:
    assert run("a") == ["a"]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("text", ["", "[]", '{"scores": {}}', '{"parts": 3}'])
def test_a_file_of_something_else_is_refused_and_stays(
    text: str, run: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(SystemExit):
        run("a", "--out", str(file))
    assert "move it away, or name another file" in capsys.readouterr().err
    assert file.read_text() == text


def test_a_folder_that_is_not_there_is_said_before_the_work(
    run: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run("stop", "--out", str(tmp_path / "no" / "content.json"))
    assert "make the folder of" in capsys.readouterr().err
