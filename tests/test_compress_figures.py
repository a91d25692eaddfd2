"""The figures of docs/compress come from the files of the benchmarks, as many as are there."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from attnrate.figures.figure import Curves, Figure

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import compress_figures  # noqa: E402


def part(model: str, size: int, **changes: float) -> dict[str, Any]:
    """A part of content.json; an underscore stands for what is ours."""
    rows = [
        {
            "model": model,
            "whole": 32,
            "size": size,
            "by": "ours" if way.startswith("_") else "rival",
            "way": way,
            "change": change,
        }
        for way, change in changes.items()
    ]
    return {"rows": rows}


CONTENT = {
    "parts": {
        "minilm8": part("minilm", 8, PCA=0.5, SVD=0.4, KQ=0.3, _cut=0.25),
        "other16": part("other", 16, PCA=0.1, SVD=0.2, KQ=0.15, _cut=0.1, _repaired=0.05),
    }
}


def row(kept: int, way: str, growth: float) -> dict[str, Any]:
    return {"kept": kept, "pairs": 32, "way": way, "growth": growth}


ROTARY = {
    "rows": [
        row(32, "whole", 0.0),
        row(24, "pairs by norm", 0.137),
        row(16, "pairs by norm", 1.09),
        row(24, "repair", 0.024),
        row(24, "stock Llama", 0.2),
    ]
}
THIN = {
    "scores": {
        "vit": {
            "whole": [0.7, 0.72, 0.74],
            "trained thin": [0.68, 0.7, 0.72],
            "whole, as on record": [0.7, 0.72, 0.74],
            "cut": [0.5, 0.5, 0.5],
        },
        "translator": {"trained thin": [25.0], "cut": [20.0]},
    }
}
FILES = {"content.json": CONTENT, "rotary.json": ROTARY, "thin.json": THIN}


def panels(figure: Figure) -> list[Curves]:
    found = [panel for panel in figure.panels if isinstance(panel, Curves)]
    assert len(found) == len(figure.panels)
    return found


def points(panel: Curves) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    return {line.label: (line.x, line.y) for line in panel.series}


def test_our_cuts_stand_beside_the_two_best_rivals_of_each_model_and_size() -> None:
    (panel,) = panels(compress_figures.content(CONTENT))
    assert panel.ticks == ("MiniLM, 32 → 8", "other, 32 → 16")
    assert points(panel) == {
        "KQ": ((0, 1), (0.3, 0.15)),
        "SVD": ((0, 1), (0.4, 0.2)),
        "PCA": ((0, 1), (0.5, 0.1)),
        "_cut": ((0, 1), (0.25, 0.1)),
        "_repaired": ((1,), (0.05,)),
    }
    assert [line.group for line in panel.series] == ["rivals"] * 3 + ["ours"] * 2
    first = {"parts": {"minilm8": CONTENT["parts"]["minilm8"]}}
    (panel,) = panels(compress_figures.content(first))
    assert [*points(panel)] == ["KQ", "SVD", "_cut"]


def test_growth_of_perplexity_is_in_percent_of_all_ways_that_leave_values() -> None:
    (panel,) = panels(compress_figures.rotary(ROTARY))
    assert panel.ticks == ("24 of 32", "16 of 32")
    found = points(panel)
    assert {*found} == {"pairs by norm", "ours, with refit and repair"}
    assert found["pairs by norm"][1] == pytest.approx((13.7, 109))
    assert panel.y_scale == "log"
    shrunk = {"rows": [*ROTARY["rows"], row(16, "refit", -0.01)]}
    (panel,) = panels(compress_figures.rotary(shrunk))
    assert panel.y_scale == "linear"


def test_scores_are_means_with_intervals_over_seeds() -> None:
    vit, translator = panels(compress_figures.thin(THIN))
    # what is on record is a check of the benchmark and no way of its own
    assert vit.ticks == ("trained thin", "cut", "whole")
    (line,) = vit.series
    assert line.y == pytest.approx((0.7, 0.5, 0.72))
    assert line.low is not None
    assert line.low == pytest.approx((0.6503, 0.5, 0.6703), abs=1e-4)
    assert vit.lines[0].y == pytest.approx(0.7)
    assert (vit.y_label, translator.y_label) == (
        "accuracy on test images",
        "BLEU on test sentences",
    )
    assert translator.ticks == ("trained thin", "cut")


def test_what_is_not_there_is_skipped_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compress_figures.draw_all(tmp_path) == []
    for name, found in FILES.items():
        (tmp_path / name).write_text(json.dumps(found))
    (tmp_path / "rotary.json").unlink()
    capsys.readouterr()
    drawn = compress_figures.draw_all(tmp_path)
    assert [path.name for path in drawn] == ["content.png", "thin.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("content.json", "content.png", "thin.json", "thin.png")
    }
    assert f"rotary.json is not in {tmp_path}: no figure of it" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{", "[]", '{"parts": [1]}', '{"parts": {"a": {}}}'])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "content.json").write_text(text)
    with pytest.raises(ValueError, match=r"content\.json is not what the benchmark writes"):
        compress_figures.draw_all(tmp_path)


def test_the_ways_of_the_figures_are_those_of_the_benchmarks() -> None:
    rotary = (ROOT / "benchmarks" / "compress_rotary.py").read_text(encoding="utf-8")
    assert all(f'"{way}"' in rotary for way in compress_figures.ROTARY)
    thin = (ROOT / "benchmarks" / "compress_thin.py").read_text(encoding="utf-8")
    assert all(f'"{way}"' in thin for way in compress_figures.WAYS)
