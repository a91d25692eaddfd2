"""The page in real headless Chromium: drawn, quiet, in light and dark, on a desk and on a phone."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM
from PIL import Image
from playwright.sync_api import Browser, Page

from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.figures.figure import Cell, Table
from attnrate.figures.style import COLOURS
from attnrate.report.page import write_report

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium to show the page in: apt-get install chromium"
)


@dataclass
class Seen:
    """The page, its folder, and what happened while it was open."""

    page: Page
    folder: Path
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def drawn(self) -> None:
        """Wait until every plot has been drawn."""
        self.page.wait_for_selector("html[data-plots=drawn]", timeout=60_000)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(f"() => {script}")


@pytest.fixture(scope="module")
def folder(records: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(records, folder)
    return folder


@pytest.fixture(scope="module")
def seen(browser: Browser, folder: Path) -> Iterator[Seen]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    found = Seen(page, folder)
    page.on("console", lambda message: found.console.append(message.text))
    page.on("pageerror", lambda error: found.console.append(str(error)))
    page.on("request", lambda request: found.requests.append(request.url))
    page.goto((folder / "index.html").as_uri())
    found.drawn()
    yield found
    context.close()


def test_it_says_nothing_on_the_console_and_asks_for_no_other_file(seen: Seen) -> None:
    assert seen.console == []
    assert seen.requests == [(seen.folder / "index.html").as_uri()]


def test_every_plot_is_drawn_with_all_its_traces(seen: Seen) -> None:
    drawn = """[...document.querySelectorAll(".canvas")].map(place => [
        place.classList.contains("js-plotly-plot"),
        place.querySelectorAll(".scatterlayer .trace").length,
        place.querySelectorAll(".heatmaplayer .hm").length,
        place.querySelectorAll(".shapelayer path").length,
        place.data.filter(trace => trace.type === "scatter").length,
    ])"""
    curves, others, hostile = seen.ask(drawn)
    assert curves == [True, 10, 0, 2, 10]
    assert others == [True, 5, 2, 0, 5]
    assert hostile == [True, 8, 1, 2, 8]


def test_no_button_sends_the_data_of_a_plot_anywhere(seen: Seen) -> None:
    titles = "[...document.querySelectorAll('.modebar-btn')].map(one => one.dataset.title)"
    plain = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
    assert {*seen.ask(titles)} == plain


def test_hostile_text_is_shown_and_does_not_run(seen: Seen) -> None:
    assert seen.ask("window.hacked === undefined")
    assert seen.ask("document.body.innerText.includes('<script>window.hacked=1</script>')")
    assert seen.ask("document.querySelectorAll('main b, main script, main img').length") == 0
    legends = seen.ask("document.querySelector('#plot-3 .legend').textContent")
    assert "<script>" in legends


def test_every_link_leads_somewhere(seen: Seen) -> None:
    links = seen.ask("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    inner = [link[1:] for link in links if link.startswith("#")]
    assert seen.page.evaluate("ids => ids.every(id => document.getElementById(id))", inner)
    files = [link for link in links if not link.startswith("#")]
    assert len(files) == 6
    assert all((seen.folder / link).is_file() for link in files)


def test_a_click_on_an_experiment_shows_it(seen: Seen) -> None:
    seen.page.click(".map .name >> nth=2")
    seen.page.wait_for_url("**#experiment-lost")


def test_evidence_is_folded_until_it_is_asked_for(seen: Seen) -> None:
    evidence = seen.page.locator("#claim-claim-0 p").first
    assert not evidence.is_visible()
    seen.page.click("#claim-claim-0 summary")
    assert evidence.is_visible()
    assert "This run: value: 0.5 [0.25, 0.75]" in evidence.inner_text()
    seen.page.click("#claim-claim-0 summary")


def test_a_picture_comes_first_and_no_table_before_it(seen: Seen) -> None:
    top = "document.querySelector('main figure').getBoundingClientRect().top + scrollY"
    assert seen.ask(top) < 600
    first = """[...document.querySelectorAll('main figure, main table')]
        .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].tagName"""
    assert seen.ask(first) == "FIGURE"


def test_a_wide_table_is_whole_at_1400_pixels(
    browser: Browser, records: list[Record], tmp_path: Path
) -> None:
    columns = tuple(f"a long name, {k}" for k in range(13))
    row: tuple[Cell, ...] = ("Transformer, permuted", *[1.2345e-9] * 12)
    table = Table("thirteen columns", columns, (row,))
    said = Conclusion((), tables=(table,), claims=records[0].claims)
    write_report([replace(records[0], conclusion=said)], tmp_path)
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto((tmp_path / "index.html").as_uri())
    page.click("summary:has-text('thirteen columns')")
    whole = """() => [...document.querySelectorAll('.scroll')].map(place => {
        const room = place.getBoundingClientRect();
        return place.scrollWidth <= place.clientWidth && room.left >= 0 && room.right <= innerWidth;
    })"""
    assert page.evaluate(whole) == [True]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
    page.close()


def background(page: Page, path: Path) -> tuple[int, ...]:
    page.screenshot(path=path)
    with Image.open(path) as image:
        return image.convert("RGB").getpixel((2, 2))


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))


def test_light_and_dark_by_system_and_by_button(seen: Seen, tmp_path: Path) -> None:
    light, dark = map(rgb, COLOURS["background"])
    ink = "document.querySelector('#plot-1 .xtitle').style.fill"
    assert background(seen.page, tmp_path / "a.png") == light
    in_light = seen.ask(ink)
    seen.page.emulate_media(color_scheme="dark")
    seen.page.wait_for_selector("button:has-text('Light')")
    seen.drawn()
    assert background(seen.page, tmp_path / "b.png") == dark
    assert seen.ask(ink) != in_light
    seen.page.click("#theme")
    seen.page.wait_for_selector("button:has-text('Dark')")
    seen.drawn()
    assert background(seen.page, tmp_path / "c.png") == light
    assert seen.ask(ink) == in_light
    seen.ask("localStorage.clear()")


def test_it_fits_on_a_phone_and_plots_take_the_room_they_need(seen: Seen) -> None:
    before = seen.ask("document.querySelector('#plot-1').clientHeight")
    seen.page.set_viewport_size({"width": 390, "height": 844})
    seen.page.wait_for_selector("#plot-1[data-width=narrow]")
    seen.page.wait_for_selector("#plot-2[data-width=narrow]")
    seen.drawn()
    assert seen.ask("document.documentElement.scrollWidth") <= 390
    assert seen.ask("document.querySelector('.map').getBoundingClientRect().top + scrollY") < 700
    assert seen.ask("document.querySelector('#plot-1').clientHeight") > 2 * before
    inside = """[...document.querySelectorAll(".canvas")].every(place => {
        const drawn = place.querySelector(".main-svg").getBoundingClientRect();
        const room = place.getBoundingClientRect();
        return drawn.width <= room.width + 1 && Math.abs(drawn.height - room.height) < 2;
    })"""
    assert seen.ask(inside)
    seen.page.set_viewport_size({"width": 1280, "height": 900})
    seen.page.wait_for_selector("#plot-1[data-width=wide]")
    assert seen.ask("document.querySelector('#plot-1').clientHeight") == before
    assert seen.console == []


def test_without_scripts_the_figures_are_pictures(browser: Browser, folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "index.html").as_uri())
    widths = page.locator("noscript img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert len(widths) == 3
    assert min(widths) > 300
    assert not page.locator("#theme").is_visible()
    context.close()
