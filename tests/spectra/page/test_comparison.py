"""The page of a comparison: complete, safe, small, whole or not there at all."""

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from attnrate.errors import InputError
from attnrate.figures.figure import Figure
from attnrate.spectra.compare import compare
from attnrate.spectra.comparison import Comparison
from attnrate.spectra.page import comparison
from attnrate.spectra.page.comparison import check_folder
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> $x$ {{ 7*7 }} &amp;"


class Elements(HTMLParser):
    """The names of all elements, and what they link to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        goals = [value or "" for name, value in attrs if name in ("href", "src")]
        self.links += [goal for goal in goals if not goal.startswith("#")]


def changed(profile: Profile, model: str) -> Profile:
    """The profile with singular values of one size in the last head of each layer."""
    layers = []
    for layer in profile.layers:
        sigma = {key: values.copy() for key, values in layer.sigma.items()}
        for values in sigma.values():
            values[:, -1] = values[:, -1, :1]
        layers.append(replace(layer, sigma=sigma))
    return replace(profile, layers=tuple(layers), model=model)


@pytest.fixture(scope="module")
def found(made: Made) -> Comparison:
    layers = ({"name": HOSTILE, "heads": 2, "m_h": 12}, {"name": "b", "heads": 3, "m_h": 8})
    before = made(*layers, {"name": "only.before", "heads": 1, "m_h": 4}, model="base")
    return compare(before, changed(made(*layers), HOSTILE))


@pytest.fixture(scope="module")
def folder(found: Comparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return found.save(tmp_path_factory.mktemp("pages") / "page").parent


def test_the_page_has_the_sentences_the_map_and_the_tables(found: Comparison, folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert found.counts == {"gained": 2, "lost": 0, "same": 3, "open": 0}
    for words in ("of 5 heads 2 gained rank", "In short", "2 heads that gained or lost rank"):
        assert words in page
    assert "only.before (before): no layer after has this name" in page
    assert len(page) < 100_000
    for one in found.heads:
        assert f"<td>{one.verdict}</td>" in page or one.verdict == "same"


def test_nothing_from_outside_becomes_an_element(folder: Path) -> None:
    tags = Elements((folder / "index.html").read_text(encoding="utf-8")).found
    assert tags.count("script") == 1
    assert tags.count("img") == 0


def test_the_files_beside_the_page(found: Comparison, folder: Path) -> None:
    links = Elements((folder / "index.html").read_text(encoding="utf-8")).links
    assert {"heads.csv", "comparison.json", "figures/changes.svg", "figures/changes.png"} == {
        *links
    }
    assert all((folder / link).stat().st_size for link in links)
    frame = found.to_frame()
    pd.testing.assert_frame_equal(pd.read_csv(folder / "heads.csv"), frame)
    kept = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    assert kept["counts"] == found.counts
    assert [row["rank99_change"] for row in kept["heads"]] == frame.rank99_change.tolist()
    assert kept["unmatched"] == [vars(one) for one in found.unmatched]
    assert (kept["before"], kept["after"], kept["paired"]) == ("base", HOSTILE, True)


def test_without_intervals_the_numbers_are_missing_and_the_page_is_there(
    made: Made, tmp_path: Path
) -> None:
    layer = {"name": "a", "heads": 2, "m_h": 8}
    one = made(layer, inputs=1)
    page = compare(one, one).save(tmp_path / "page")
    kept = json.loads((page.parent / "comparison.json").read_text(encoding="utf-8"))
    assert [row["rank99_change_low"] for row in kept["heads"]] == [None, None]
    assert np.isnan(pd.read_csv(page.parent / "heads.csv").rank99_change_low).all()


def test_a_folder_of_somebody_else_is_left_as_it_is(found: Comparison, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for refuse in (check_folder, found.save):
        with pytest.raises(InputError, match="not made by attnrate profile --against"):
            refuse(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_leaves_nothing_half_written(
    found: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(figure: Figure, folder: Path) -> None:
        (folder / "half.png").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(comparison, "save_figure", failing)
    with pytest.raises(InputError, match="No space left on device"):
        found.save(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
