"""The page of an answer and its files: complete, safe, whole or not there at all."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from chromium import CHROMIUM
from made_choices import HOSTILE, linear_choice, raced_choice, refused_choice
from playwright.sync_api import Browser

from attnrate.choose.page import write
from attnrate.choose.page.write import check_folder
from attnrate.choose.result import Choice
from attnrate.errors import InputError, StoreError
from attnrate.figures.figure import Figure
from attnrate.pages import skeleton


class Elements(HTMLParser):
    """The names of all elements, what they link to, and the words of the page in order."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.page = (folder / "index.html").read_text(encoding="utf-8")
        self.feed(self.page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        goals = [value or "" for name, value in attrs if name in ("href", "src")]
        self.links += [goal for goal in goals if not goal.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def raced() -> Choice:
    return raced_choice()


@pytest.fixture(scope="module")
def linear() -> Choice:
    return linear_choice()


@pytest.fixture(scope="module")
def folder(raced: Choice, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return raced.save(tmp_path_factory.mktemp("answer") / "page").parent


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures as empty files: drawing takes seconds."""

    def quick(figure: Figure, folder: Path) -> None:
        (folder / f"{figure.name}.png").touch()

    monkeypatch.setattr(write, "save_figure", quick)


def test_the_page_goes_from_the_verdict_to_the_picture_to_the_reasons(folder: Path) -> None:
    words = Elements(folder).words
    wanted = [
        "No difference between models: take the cheapest",
        "Take: Transformer, with heads of size m_h = 2.",
        "What is left of the variance",
        "Why",
        "A reason with [1, 2].",
        "The race",
        "Head size",
        "The kernel",
        "The data",
        "One thing was said.",
        "have no order in time",
        "ar.load_choice",
        "What the words mean",
    ]
    body = words[words.index("Skip to the content") :]
    places = [body.index(each) for each in wanted]
    assert places == sorted(places)


def test_nothing_from_outside_becomes_an_element(folder: Path) -> None:
    found = Elements(folder)
    assert found.found.count("script") == 1  # the theme
    assert found.found.count("img") == 0
    assert HOSTILE in found.words
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', found.page)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;")
    assert "http" not in "".join(found.links)


def test_the_files_beside_the_page_are_those_it_links_to(raced: Choice, folder: Path) -> None:
    links = {*Elements(folder).links}
    files = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    } - {"index.html", "attnrate.json"}
    figures = {f"figures/{name}" for name in ("ladder", "race", "heads", "kernel")}
    assert links == files
    assert {f"{name}.{kind}" for name in figures for kind in ("png", "svg")} <= files
    assert {"ladder.csv", "race.csv", "heads.csv", "kernel.csv", "model.safetensors"} <= files
    for part, name in ((raced.ladder, "ladder"), (raced.race, "race"), (raced.heads, "heads")):
        assert part is not None
        kept = pd.read_csv(folder / f"{name}.csv")
        pd.testing.assert_frame_equal(kept, part.to_frame(), check_exact=True)


def no_nan(text: str) -> float:
    raise AssertionError(f"{text} is no JSON")


def test_the_answer_as_json_has_all_parts_and_null_for_what_is_not_known(
    raced: Choice, folder: Path
) -> None:
    text = (folder / "choose.json").read_text(encoding="utf-8")
    kept = json.loads(text, parse_constant=no_nan)
    plain = raced.to_plain()
    assert {name: kept[name] for name in plain} == plain
    assert (kept["verdict"], kept["winner"], kept["m_h"]) == ("tie", "transformer", 2)
    last = kept["race"]["contenders"][-1]
    assert (last["contender"], last["share"], last["diverged"]) == ("linear", None, 4)
    assert raced.kernel is not None
    assert raced.ladder is not None
    assert kept["kernel"]["values"] == raced.kernel.values.tolist()
    assert kept["kernel"]["half"] == raced.kernel.half.tolist()
    classes = [rung.name for rung in raced.ladder.rungs]
    assert [each["class"] for each in kept["ladder"]["classes"]] == classes
    assert kept["heads"]["sizes"][0]["m_h"] == 1
    assert kept["about"]["inputs"] == [HOSTILE, "x1"]


def test_an_answer_without_a_ladder_has_a_page_with_its_reasons(tmp_path: Path) -> None:
    choice = refused_choice()
    found = Elements(choice.save(tmp_path / "page").parent)
    assert "These data cannot tell" in found.words
    assert "The target 'load' is 3 in all rows" in found.words
    assert "load_choice" not in found.words
    names = {path.name for path in (tmp_path / "page").iterdir()}
    assert names == {"index.html", "choose.json", "attnrate.json", "figures"}
    plain = choice.to_plain()
    assert plain["ladder"] is plain["race"] is plain["heads"] is plain["kernel"] is None


@pytest.mark.usefixtures("undrawn")
def test_written_again_it_leaves_nothing_of_the_earlier_answer_but_what_is_not_its_own(
    raced: Choice, tmp_path: Path
) -> None:
    place = tmp_path / "deep" / "new"
    assert raced.save(place) == place / "index.html"
    (place / "notes.txt").write_text("mine", encoding="utf-8")
    assert (place / "race.csv").exists()
    refused_choice().save(place)
    there = {"attnrate.json", "figures", "index.html", "choose.json", "notes.txt"}
    assert {one.name for one in place.iterdir()} == there
    assert [one.name for one in place.parent.iterdir()] == ["new"]


def test_a_folder_of_somebody_else_is_left_as_it_is(linear: Choice, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    refusals: tuple[Callable[[Path], object], ...] = (check_folder, linear.save)
    for refuse in refusals:
        with pytest.raises(InputError, match="not made by attnrate choose"):
            refuse(tmp_path)
        with pytest.raises(InputError, match="this is a file"):
            refuse(tmp_path / "notes.txt")
    (tmp_path / "attnrate.json").write_text('{"made_by": "attnrate profile", "format": 1}')
    with pytest.raises(InputError, match="not made by attnrate choose"):
        linear.save(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"notes.txt", "attnrate.json"}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("there", [False, True], ids=["new", "of an earlier run"])
@pytest.mark.parametrize("part", ["figure", "model"])
def test_a_full_disk_leaves_nothing_half_written(
    raced: Choice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool, part: str
) -> None:
    place = tmp_path / "deep" / "out"
    if there:
        raced.save(place)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    if part == "figure":
        monkeypatch.setattr(write, "save_figure", full)
    else:
        monkeypatch.setattr("os.fsync", full)
    with pytest.raises((InputError, StoreError), match="No space left on device"):
        raced.save(place)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    assert there or not list(tmp_path.iterdir())


def test_names_that_are_no_text_do_not_stop_the_page(linear: Choice, tmp_path: Path) -> None:
    odd = replace(linear, about=replace(linear.about, source="a\udce9b.csv"))
    page = odd.save(tmp_path / "page").read_text(encoding="utf-8")
    assert "a?b.csv" in page


def test_no_number_that_is_not_finite_is_shown_as_such(folder: Path) -> None:
    assert not re.search(r"\bnan\b|\binf\b", Elements(folder).words)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to show the page in")
def test_in_a_browser_it_is_quiet_and_fits_on_a_desk_and_a_phone(
    browser: Browser, folder: Path
) -> None:
    for width, scheme in ((1280, "light"), (390, "dark")):
        said: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page = context.new_page()
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, said=said: said.append(request.url))
        page.goto((folder / "index.html").as_uri())
        assert said == [(folder / "index.html").as_uri()]
        assert page.evaluate("() => window.hacked === undefined")
        page.locator("details > summary").first.click()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        wide = """() => [...document.querySelectorAll(".panel, .scroll, pre")].every(
            one => one.getBoundingClientRect().right <= window.innerWidth)"""
        assert page.evaluate(wide)
        # the first picture is in sight
        top = page.locator(".panel").first.bounding_box()
        assert top is not None
        assert top["y"] < 500
        context.close()


def test_without_its_extra_the_page_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skeleton._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    try:
        with pytest.raises(InputError, match="jinja2"):
            check_folder(tmp_path)
    finally:
        skeleton._environment.cache_clear()
