"""The figures of docs/choose come from the file of the benchmark, as many as are there."""

import json
import sys
from pathlib import Path

import pytest

from attnrate.figures.figure import Curves

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.append(str(ROOT / "benchmarks"))

import choose_figures  # noqa: E402
from _choose_truths import WITHIN  # noqa: E402

TRUTHS = {
    "rows": [
        {"kind": "filter", "noise": 0.1, "memory": 0.0, "verdicts": {"linear": 3, "nothing": 1}},
        {"kind": "filter", "noise": 1.0, "memory": 0.0, "verdicts": {"linear": 4}},
        {"kind": "filter", "noise": 0.1, "memory": 0.9, "verdicts": {"linear": 4}},
        {"kind": "filter", "noise": 1.0, "memory": 0.9, "verdicts": {"pairwise": 4}},
    ]
}
REGRET = {
    "rows": [{"rule": "choose", "median": 1.1, "regrets": [1.2, 1.0]}],
    "tasks": 2,
}


def test_right_verdicts_are_shares_for_each_noise_and_memory() -> None:
    panels = choose_figures.truths(TRUTHS).panels
    shares = [panel.series[0].y for panel in panels if isinstance(panel, Curves)]
    assert shares == [(75.0, 100.0), (100.0, 0.0)]


def test_the_right_verdicts_are_those_of_the_benchmark() -> None:
    assert {kind: {name} for kind, name in choose_figures.RIGHT.items()} == {
        kind: right for kind, (right, _) in WITHIN.items()
    }


def test_regrets_are_a_share_of_tasks_that_grows_to_all() -> None:
    (panel,) = choose_figures.regret(REGRET).panels
    assert isinstance(panel, Curves)
    assert panel.series[0].x == (1.0, 1.2)
    assert panel.series[0].y == (50.0, 100.0)


def test_the_parts_that_are_there_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "real.json").write_text(json.dumps({"parts": {"regret": REGRET}}))
    assert choose_figures.draw_all(tmp_path) == [tmp_path / "regret.png"]
    assert "truths is not in" in capsys.readouterr().out
    assert {file.name for file in tmp_path.iterdir()} == {"real.json", "regret.png"}


@pytest.mark.parametrize("text", ["", "[]", '{"parts": {"regret": {}}}'])
def test_a_file_of_something_else_is_said(text: str, tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(text)
    with pytest.raises(ValueError, match="write it again"):
        choose_figures.draw_all(tmp_path)
