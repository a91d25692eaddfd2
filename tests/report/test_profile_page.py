"""The page of a profile: complete, safe, whole or not there at all, drawn in a real browser."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from chromium import CHROMIUM
from playwright.sync_api import Browser, Page

from attnrate.errors import InputError
from attnrate.figures.figure import Figure
from attnrate.report import profile_page
from attnrate.report.profile_figures import profile_figures
from attnrate.report.profile_page import check_folder, render_profile, write_profile
from attnrate.spectra.advise import LayerAdvice
from attnrate.spectra.result import Profile

Made = Callable[..., Profile]
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> $x$ {{ 7*7 }} &amp;"
LAYERS: tuple[dict[str, Any], ...] = (
    {"name": "encoder.0", "heads": 3, "m_h": 12, "rotary": True},
    {"name": "decoder.0", "heads": 2, "m_h": 16, "rotary": True},
)


class Advice:
    """Stands in for what `advise` returns."""

    def to_frame(self) -> pd.DataFrame:
        row = LayerAdvice(0, HOSTILE, 12, 5, 4, 0.0123, 0.0345)
        return pd.DataFrame([vars(row)])

    def __str__(self) -> str:
        return f"Heads of 5 would do.\n{HOSTILE}"


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
    return write_profile(hostile, tmp_path_factory.mktemp("profile"), Advice()).parent


def test_the_page_begins_with_the_summary_and_tells_every_layer(profile: Profile) -> None:
    page = render_profile(profile, profile_figures(profile))
    for line in str(profile).splitlines():
        assert line.replace("'", "&#39;") in page
    for words in ("encoder.0", "decoder.0", "exponential", "5.5%", "0123456789", "In short"):
        assert words in page
    assert page.index("In short") < page.index("What the words mean") < page.index("Layers<")
    assert "Advice" not in page


def test_advice_has_its_sentence_and_its_table(profile: Profile) -> None:
    page = render_profile(profile, profile_figures(profile), Advice())
    assert "Heads of 5 would do." in page
    assert "0.0123" in page
    with pytest.raises(InputError, match="advise"):
        render_profile(profile, {}, 7)


def test_nothing_from_outside_becomes_an_element(folder: Path) -> None:
    tags = Elements(folder).found
    assert tags.count("script") == 4
    assert tags.count("img") == tags.count("noscript") == 6


def test_the_files_beside_the_page(hostile: Profile, folder: Path) -> None:
    links = Elements(folder).links
    assert {"heads.csv", "profile.json", "figures/violins.svg"} <= {*links}
    assert all((folder / link).stat().st_size for link in links)
    assert len([*(folder / "figures").iterdir()]) == 12
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

    monkeypatch.setattr(profile_page, "save_figure", quick)


@pytest.mark.usefixtures("undrawn")
def test_written_again_it_replaces_its_own_files_and_leaves_others(
    profile: Profile, made: Made, tmp_path: Path
) -> None:
    place = tmp_path / "deep" / "new"
    assert write_profile(profile, place) == place / "index.html"
    assert (place / "figures" / "rotation.png").exists()
    (place / "notes.txt").write_text("mine", encoding="utf-8")
    page = write_profile(made({**LAYERS[0], "rotary": False, "name": "other"}), place)
    assert "encoder.0" not in page.read_text(encoding="utf-8")
    assert not (place / "figures" / "rotation.png").exists()
    there = {"attnrate.json", "figures", "heads.csv", "index.html", "profile.json", "notes.txt"}
    assert {one.name for one in place.iterdir()} == there
    assert [one.name for one in place.parent.iterdir()] == ["new"]


def test_a_folder_of_somebody_else_is_left_as_it_is(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for refuse in (check_folder, lambda place: write_profile(profile, place)):
        with pytest.raises(InputError, match="not made by attnrate profile"):
            refuse(tmp_path)
        with pytest.raises(InputError, match="this is a file"):
            refuse(tmp_path / "notes.txt")
        with pytest.raises(InputError, match="folder"):
            refuse(tmp_path / "notes.txt" / "below" if refuse is not check_folder else 7)
    (tmp_path / "attnrate.json").write_text('{"made_by": "attnrate reproduce", "format": 1}')
    with pytest.raises(InputError, match="not made by attnrate profile"):
        write_profile(profile, tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"notes.txt", "attnrate.json"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("there", [False, True], ids=["new", "of an earlier run"])
def test_a_failure_leaves_nothing_half_written(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    place = tmp_path / "deep" / "out"
    if there:
        write_profile(profile, place)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    drawn = []

    def failing(figure: object, folder: Path) -> None:
        drawn.append(figure)
        (folder / "half.png").write_bytes(b"half")
        if len(drawn) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(profile_page, "save_figure", failing)
    with pytest.raises(InputError, match="No space left on device"):
        write_profile(replace(profile, model="other"), place)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert there or list(tmp_path.iterdir()) == []


def test_only_a_profile_has_a_page(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a profile"):
        write_profile("profile", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def shown(browser: Browser, folder: Path) -> Iterator[tuple[Page, list[str]]]:
    said: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto((folder / "index.html").as_uri())
    page.wait_for_selector("html[data-plots=drawn]", timeout=60_000)
    yield page, said
    page.close()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to show the page in")
def test_a_browser_draws_all_of_it_in_peace(shown: tuple[Page, list[str]], folder: Path) -> None:
    page, said = shown
    assert said == [(folder / "index.html").as_uri()]
    assert page.evaluate("() => window.hacked === undefined")
    drawn = """() => [...document.querySelectorAll(".canvas")].map(place => [
        place.querySelectorAll(".scatterlayer .trace").length,
        place.querySelectorAll(".heatmaplayer .hm").length,
    ])"""
    # violins: outlines, medians, pooled spectrum and law, twice; then the heads with their median
    assert page.evaluate(drawn) == [[8, 0], [7, 0], [0, 2], [0, 2], [2, 1], [2, 1]]
    assert page.locator("h1").inner_text() == f"What the attention of {HOSTILE} uses"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to show the page in")
def test_it_fits_on_a_phone(shown: tuple[Page, list[str]]) -> None:
    page, _ = shown
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector("#plot-6[data-width=narrow]")
    page.wait_for_selector("html[data-plots=drawn]")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    # the colour bar and its words stay within the figure
    within = """() => [...document.querySelectorAll(".canvas")].every(place => {
        const right = place.getBoundingClientRect().right;
        return [...place.querySelectorAll(".infolayer *")].every(
            one => one.getBoundingClientRect().right <= right + 1);
    })"""
    assert page.evaluate(within)
