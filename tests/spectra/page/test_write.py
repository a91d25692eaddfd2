"""The files of a profile: complete, safe, whole or not there at all."""

import json
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attnrate.errors import InputError
from attnrate.figures.figure import Figure
from attnrate.spectra.advise import advise
from attnrate.spectra.page import write
from attnrate.spectra.page.write import check_folder
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> $x$ {{ 7*7 }} &amp;"
LAYERS: tuple[dict[str, Any], ...] = (
    {"name": "encoder.0", "heads": 3, "m_h": 12, "rotary": True},
    {"name": "decoder.0", "heads": 2, "m_h": 16, "rotary": True},
)


class Elements(HTMLParser):
    """The names of all elements, and what they link to."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.feed((folder / "index.html").read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        goals = [value or "" for name, value in attrs if name in ("href", "src")]
        self.links += [goal for goal in goals if not goal.startswith("#")]


@pytest.fixture(scope="module")
def profile(made: Made) -> Profile:
    return made(*LAYERS)


@pytest.fixture(scope="module")
def hostile(made: Made) -> Profile:
    return made({**LAYERS[0], "name": HOSTILE}, LAYERS[1], model=HOSTILE)


@pytest.fixture(scope="module")
def folder(hostile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.save(tmp_path_factory.mktemp("profile"), advise(hostile)).parent


def test_nothing_from_outside_becomes_an_element(folder: Path) -> None:
    tags = Elements(folder).found
    assert tags.count("script") == 3  # the heads as data, the theme, the drawing
    assert tags.count("img") == 0


def test_the_files_beside_the_page(hostile: Profile, folder: Path) -> None:
    links = Elements(folder).links
    assert {"heads.csv", "profile.json", "figures/violins.svg", "figures/needed-map.png"} <= {
        *links
    }
    assert all((folder / link).stat().st_size for link in links)
    assert len([*(folder / "figures").iterdir()]) == 14
    read = pd.read_csv(folder / "heads.csv")
    assert read.rank99.tolist() == hostile.to_frame().rank99.tolist()
    assert read.name.tolist() == [HOSTILE] * 3 + ["decoder.0"] * 2
    kept = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
    assert kept["tokens"] == [7] * 5
    assert kept["heads"][4]["name"] == "decoder.0"
    layer = kept["layers"][1]
    assert layer["pooled"]["logits"][1] == pytest.approx(hostile.pooled(1, 1), rel=1e-5)
    assert layer["pooled"]["plain"][1] == pytest.approx(hostile.pooled(1, 1, "plain"), rel=1e-5)
    middle = [row[1] for row in layer["inputs"]]
    assert middle[0] == pytest.approx(hostile.sigma(1, 0)[2], rel=1e-2)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures as empty files: drawing takes seconds."""

    def quick(figure: Figure, folder: Path) -> None:
        (folder / f"{figure.name}.png").touch()

    monkeypatch.setattr(write, "save_figure", quick)


@pytest.mark.usefixtures("undrawn")
def test_written_again_it_replaces_its_own_files_and_leaves_others(
    profile: Profile, made: Made, tmp_path: Path
) -> None:
    place = tmp_path / "deep" / "new"
    assert profile.save(place) == place / "index.html"
    assert (place / "figures" / "rotation.png").exists()
    (place / "notes.txt").write_text("mine", encoding="utf-8")
    page = made({**LAYERS[0], "rotary": False, "name": "other"}).save(place)
    assert "encoder.0" not in page.read_text(encoding="utf-8")
    assert not (place / "figures" / "rotation.png").exists()
    there = {"attnrate.json", "figures", "heads.csv", "index.html", "profile.json", "notes.txt"}
    there.add("moments.safetensors")
    assert {one.name for one in place.iterdir()} == there
    assert [one.name for one in place.parent.iterdir()] == ["new"]


def test_a_folder_of_somebody_else_is_left_as_it_is(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for refuse in (check_folder, lambda place: profile.save(place)):
        with pytest.raises(InputError, match="not made by attnrate profile"):
            refuse(tmp_path)
        with pytest.raises(InputError, match="this is a file"):
            refuse(tmp_path / "notes.txt")
        with pytest.raises(InputError, match="folder"):
            refuse(tmp_path / "notes.txt" / "below" if refuse is not check_folder else 7)
    (tmp_path / "attnrate.json").write_text('{"made_by": "attnrate reproduce", "format": 1}')
    with pytest.raises(InputError, match="not made by attnrate profile"):
        profile.save(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"notes.txt", "attnrate.json"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("there", [False, True], ids=["new", "of an earlier run"])
def test_a_failure_leaves_nothing_half_written(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    place = tmp_path / "deep" / "out"
    if there:
        profile.save(place)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    drawn = []

    def failing(figure: object, folder: Path) -> None:
        drawn.append(figure)
        (folder / "half.png").write_bytes(b"half")
        if len(drawn) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(write, "save_figure", failing)
    with pytest.raises(InputError, match="No space left on device"):
        replace(profile, model="other").save(place)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert there or list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("undrawn")
def test_advice_is_that_of_the_profile_or_is_made(
    profile: Profile, made: Made, tmp_path: Path
) -> None:
    said = profile.save(tmp_path / "a").read_text(encoding="utf-8")
    assert "5.0 % (this page)" in said.replace("\xa0", " ")
    said = profile.save(tmp_path / "b", advise(profile, tolerance=0.03)).read_text(encoding="utf-8")
    assert "3.0 % (this page)" in said.replace("\xa0", " ")
    for wrong in (7, "0.05", advise(made(LAYERS[0])), advise(replace(profile, model="other"))):
        with pytest.raises(InputError, match="advise"):
            profile.save(tmp_path / "c", wrong)  # type: ignore[arg-type]
    assert {one.name for one in tmp_path.iterdir()} == {"a", "b"}
