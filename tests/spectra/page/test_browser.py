"""The page of a profile in real headless Chromium: quiet, usable by keys, on a desk and a phone."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM
from playwright.sync_api import Browser, Page

from attnrate.spectra.advise import advise
from attnrate.spectra.page import write
from attnrate.spectra.result import Profile

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium to show the page in: apt-get install chromium"
)
Made = Callable[..., Profile]
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> $x$ {{ 7*7 }} &amp;"
LAYERS: tuple[dict[str, Any], ...] = (
    {"name": HOSTILE, "heads": 30, "m_h": 12, "rotary": True},
    {"name": "decoder.0", "heads": 2, "m_h": 16, "rotary": True},
)


@dataclass
class Seen:
    """The page of a profile, and what happened while it was open."""

    page: Page
    profile: Profile
    folder: Path
    said: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        return self.page.evaluate(f"() => {script}")

    def words(self) -> str:
        return self.page.locator("#head-words").inner_text()


@pytest.fixture(scope="module")
def folder(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "save_figure", lambda figure, folder: None)  # it takes seconds
        made(*LAYERS, model=HOSTILE).save(folder)
    return folder


@pytest.fixture(scope="module")
def seen(browser: Browser, made: Made, folder: Path) -> Iterator[Seen]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    found = Seen(page, made(*LAYERS, model=HOSTILE), folder)
    page.on("console", lambda message: found.said.append(message.text))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: found.said.append(request.url))
    page.goto((folder / "index.html").as_uri())
    yield found
    context.close()


def test_it_is_quiet_loads_nothing_and_runs_no_text(seen: Seen) -> None:
    assert seen.said == [(seen.folder / "index.html").as_uri()]
    assert seen.ask("window.hacked === undefined")
    assert seen.page.locator("h1").inner_text() == f"What the attention of {HOSTILE} uses"
    assert HOSTILE in seen.words()
    assert seen.ask("document.querySelectorAll('main b, main script, main img').length") == 0


def test_the_first_head_is_drawn_at_once(seen: Seen) -> None:
    needed = advise(seen.profile).by_head().needed[0]
    assert f"head 0: needs {needed} of 12 dimensions so that at most 5.0 %" in seen.words()
    assert "σ_k ~ e^(−βk), β = 0.125" in seen.words()
    assert (
        seen.ask("document.querySelector('#head .dots').getAttribute('d').match(/M/g).length") == 12
    )


def test_a_click_on_the_map_and_the_lists_choose_a_head(seen: Seen) -> None:
    seen.page.locator("#map tbody tr:not(.part)").nth(1).locator("td").nth(1).click()
    assert seen.words().startswith("Layer 1 (decoder.0), head 1: needs ")
    assert seen.page.locator("#head-layer").input_value() == "1"
    assert seen.page.locator("#head-number").input_value() == "1"
    assert seen.page.locator("#head-number option").count() == 2
    seen.page.locator("#map td.none").click()  # no head is there
    assert seen.words().startswith("Layer 1 (decoder.0), head 1: needs ")
    seen.page.select_option("#head-layer", "0")
    seen.page.select_option("#head-number", "29")
    assert ", head 29: needs " in seen.words()
    assert seen.page.locator("#map td[aria-selected=true]").count() == 1
    seen.page.select_option("#head-layer", "1")  # it has no head 29
    assert seen.words().startswith("Layer 1 (decoder.0), head 1: needs ")
    assert seen.said[1:] == []


def test_arrow_keys_move_on_the_map(seen: Seen) -> None:
    seen.page.select_option("#head-layer", "0")
    seen.page.select_option("#head-number", "0")
    seen.page.locator("#map td[tabindex='0']").focus()
    assert seen.page.locator("#map td[tabindex='0']").count() == 1
    for key, said in (
        ("ArrowRight", ", head 1: "),
        ("ArrowRight", ", head 2: "),
        ("ArrowDown", "Layer 1 (decoder.0), head 1: "),
        ("ArrowDown", "Layer 1 (decoder.0), head 1: "),
        ("ArrowLeft", "Layer 1 (decoder.0), head 0: "),
        ("ArrowLeft", "Layer 1 (decoder.0), head 0: "),
        ("ArrowUp", "), head 0: "),
    ):
        seen.page.keyboard.press(key)
        assert said in seen.words()
        assert seen.ask("document.activeElement.getAttribute('aria-selected')") == "true"


def test_what_the_pointer_reads_is_what_the_profile_has(seen: Seen) -> None:
    seen.page.select_option("#head-layer", "1")
    seen.page.select_option("#head-number", "1")
    chart = seen.page.locator("#head-chart svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    read = {}
    for place in range(8, 100, 4):
        seen.page.mouse.move(box["x"] + box["width"] * place / 100, box["y"] + box["height"] / 2)
        said = seen.page.locator("#head-value").inner_text()
        found = re.fullmatch(
            r"k = (\d+): all inputs together (\S+); over the inputs (\S+) \[(\S+) to (\S+)\]\.",
            said,
        )
        assert found, said
        read[int(found[1])] = float(found[2]), float(found[3])
    assert {*read} == {*range(1, 17)}
    pooled, middle = seen.profile.pooled(1, 1), seen.profile.sigma(1, 1)[2]
    for k, (all_of, median) in read.items():
        assert all_of == pytest.approx(pooled[k - 1], rel=6e-3)  # three digits
        assert median == pytest.approx(middle[k - 1], rel=6e-3)


def test_light_and_dark(seen: Seen) -> None:
    shade = "getComputedStyle(document.querySelector('#map td')).backgroundColor"
    line = "getComputedStyle(document.querySelector('#head .pooled')).stroke"
    cell = "getComputedStyle(document.querySelector('.panel .cells path')).fill"
    light = [seen.ask(one) for one in (shade, line, cell)]
    seen.page.emulate_media(color_scheme="dark")
    dark = [seen.ask(one) for one in (shade, line, cell)]
    assert all(one != other for one, other in zip(light, dark, strict=True))
    seen.page.click("#theme")
    assert [seen.ask(one) for one in (shade, line, cell)] == light
    seen.ask("localStorage.clear()")
    seen.page.emulate_media(color_scheme="light")


def test_it_fits_on_a_phone_and_no_table_is_cut(seen: Seen) -> None:
    seen.page.set_viewport_size({"width": 390, "height": 844})
    seen.page.wait_for_function(
        "document.querySelector('#head-chart svg').viewBox.baseVal.width < 380"
    )
    for number in range(seen.page.locator("details").count()):
        seen.page.locator("details > summary").nth(number).click()
    assert seen.ask("document.documentElement.scrollWidth") <= 390
    # what does not fit can be scrolled to
    cut = """[...document.querySelectorAll("table")].filter(table => {
        const room = table.closest(".scroll");
        return !room || (room.scrollWidth < table.getBoundingClientRect().width - 1);
    }).length"""
    assert seen.ask(cut) == 0
    wide = """[...document.querySelectorAll(".panel, #head-chart svg, #map, select")].every(
        one => one.getBoundingClientRect().right <= 390)"""
    assert seen.ask(wide)
    # 30 cells have no room for numbers, and can still be chosen
    assert seen.ask("getComputedStyle(document.querySelector('#map td span')).fontSize") == "0px"
    seen.page.locator("#map tbody tr:not(.part)").nth(0).locator("td").nth(17).click()
    assert ", head 17: needs " in seen.words()
    assert seen.said[1:] == []


def test_without_scripts_map_and_figures_are_there(browser: Browser, folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "index.html").as_uri())
    assert page.locator("#map td span").first.inner_text().isdigit()
    assert page.locator(".panel").first.is_visible()
    assert not page.locator("#head-layer").is_visible()
    assert page.locator("noscript p").is_visible()
    context.close()
