"""The site as readers open it: in Chromium, from the disk and served, on a desk and a phone."""

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from textwrap import dedent

import griffe
import nbformat
import pytest
from chromium import CHROMIUM
from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import notebooks  # noqa: E402
import reference  # noqa: E402

in_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium to open the site in: apt-get install chromium"
)
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def served(site: Path) -> Iterator[str]:
    """The address of the site on a server of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=["from the disk", "served"])
def address(request: pytest.FixtureRequest, site: Path) -> str:
    """Where the site begins, as a reader opens it."""
    if request.param == "served":
        return str(request.getfixturevalue("served"))
    return site.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that says nothing on the console and loads nothing from elsewhere."""
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "data:")) else said.append(request.url)
        ),
    )
    yield page
    context.close()
    assert said == []


@in_chromium
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_search_finds_the_gauge_and_leads_to_its_entry(
    page: Page, address: str, size: dict[str, int]
) -> None:
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.goto(f"{address}/guide/2-the-transformer-of-the-proof.html")
    if size is PHONE:
        page.click("label.md-header__button[for=__search]")
    page.click(".md-search__input")
    page.keyboard.type("gauge", delay=20)
    entry = page.locator(".md-search-result__link[href*='reference/words.html']").first
    entry.wait_for(state="visible")
    # the page is wider for a moment, while the search slides in
    page.wait_for_function(f"document.documentElement.scrollWidth <= {size['width']}")
    entry.click()
    page.wait_for_url("**/reference/words.html*")
    assert page.locator("[id='attnrate.Gauge']").is_visible()


@in_chromium
def test_a_guide_opens_as_a_notebook(page: Page, address: str, site: Path) -> None:
    page.goto(f"{address}/guide/1-head-size.html")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download as a notebook").click()
    assert waiting.value.suggested_filename == "1-head-size.ipynb"
    assert waiting.value.path().read_bytes() == (site / "guide" / "1-head-size.ipynb").read_bytes()


@in_chromium
def test_no_page_is_wider_than_a_phone(browser: Browser, site: Path) -> None:
    context = browser.new_context(viewport=PHONE)
    page = context.new_page()
    wide = []
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri(), wait_until="domcontentloaded")
        if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(file.relative_to(site).as_posix())
    context.close()
    assert wide == []


def test_the_site_has_every_guide_as_a_notebook(site: Path) -> None:
    for guide in notebooks.GUIDES:
        notebook = nbformat.read(site / "guide" / f"{guide.stem}.ipynb", as_version=4)
        nbformat.validate(notebook)
        made = notebooks.notebook_of(guide.read_text(encoding="utf-8"), guide.parent)
        assert [cell.source for cell in notebook.cells] == [cell.source for cell in made.cells]
        assert notebook.metadata["kernelspec"]["name"] == "python3"


def test_every_public_name_has_an_entry_that_search_finds(site: Path) -> None:
    import attnrate as ar

    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {one["location"] for one in index["docs"]}
    found = {place.split("#attnrate.")[1] for place in places if "#attnrate." in place}
    assert {*ar.__all__} - found == set()


def test_the_reference_shows_no_validators_and_loads_nothing_from_elsewhere(site: Path) -> None:
    for file in sorted(site.rglob("*.html")):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|iframe)[^>]*src=\"?(https?:)?//", text), file
        assert not re.search(r"<link[^>]*stylesheet[^>]*href=\"?(https?:)?//", text), file
        if file.parent.name == "reference":
            shown = re.sub(r"<[^>]+>", "", text)
            assert "PlainValidator" not in shown, file
            assert "Annotated[" not in shown, file


def test_every_type_of_ours_in_a_signature_is_a_link(site: Path) -> None:
    import attnrate as ar

    unlinked = {
        f"{file.name}: {path}"
        for file in sorted((site / "reference").glob("*.html"))
        for path, name in re.findall(
            r'<span title="(attnrate\.[\w.]+)">([A-Z][a-z]\w*)<', file.read_text(encoding="utf-8")
        )
        if name not in ("Tensor", "Array", *ar.__all__)
    }
    assert unlinked == set()


def _text(file: Path, entry: str, length: int = 8000) -> str:
    """The text of a page from an entry on."""
    page = file.read_text(encoding="utf-8")
    start = page.index(f'id="{entry}"')
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page[start : start + length])).split())


def test_a_result_that_takes_two_lines_is_one_entry(site: Path) -> None:
    for file in sorted((site / "reference").glob("*.html")):
        page = file.read_text(encoding="utf-8")
        lists = re.findall(r"Returns:</span>.*?<ul>(.*?)</ul>", page, re.DOTALL)
        assert [found for found in lists if found.count('<li class="doc-section-item') > 1] == []


def test_a_function_with_overloads_shows_these_and_no_other_signature(site: Path) -> None:
    entry = _text(site / "reference" / "spectra.html", "attnrate.pod", 30_000)
    assert entry.split("Decompose a coupling")[0].count("pod( rho:") == 2


def test_a_constant_as_default_shows_as_its_value(site: Path) -> None:
    assert "k: Count = 10" in _text(site / "reference" / "targets.html", "attnrate.swap_ends")


def test_the_page_of_types_lists_fields_and_no_public_name(site: Path) -> None:
    import attnrate as ar

    page = (site / "reference" / "types.html").read_text(encoding="utf-8")
    assert {*re.findall(r"<h[23] id=\"[^\"]+\">(\w+)<", page)} & {*ar.__all__} == set()
    cut = _text(site / "reference" / "types.html", "attnrate.spectra.cut.Cut")
    assert "weights: The share of attention that moves" in cut


def test_the_reference_shows_annotated_types_as_checkers_see_them(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(
        dedent('''
            from typing import Annotated, TypeVar

            T = TypeVar("T", bound=int)

            def f(
                a: Annotated[int, by(whole, 2, 9)],
                b: list[Annotated[int, 1] | None],
                c: dict[str, tuple[Annotated[float, 1], ...]] | None = None,
                d: Annotated[T, 1] | list[T] = 3,
            ):
                """Give softmax[a](s), `x[0](1)` and [a page](https://example.org)."""
            ''')
    )
    loaded = griffe.load(
        "example", search_paths=[tmp_path], extensions=griffe.Extensions(reference.Readable())
    )
    function = loaded["f"]
    assert [str(one.annotation) for one in function.parameters] == [
        "int",
        "list[int | None]",
        "dict[str, tuple[float, ...]] | None",
        "int | list[int]",
    ]
    assert function.docstring.value == (
        r"Give softmax[a\](s), `x[0](1)` and [a page](https://example.org)."
    )


def test_examples_in_docstrings_stay_as_they_are() -> None:
    text = "Say f[a](s).\n\n>>> x[0](1)\n2"
    assert reference.escaped(text) == "Say f[a\\](s).\n\n>>> x[0](1)\n2"


def test_what_a_docstring_mentions_is_a_link() -> None:
    text = "Call `fit` with `x`; see docs/profile.md.\n\n>>> `fit`"
    assert reference.escaped(text, frozenset({"fit"})) == (
        "Call [`fit`][attnrate.fit] with `x`; see [docs/profile.md](../profile.md).\n\n>>> `fit`"
    )


def test_search_leads_to_what_can_be_read(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {one["location"]: one for one in index["docs"]}
    assert "fitting.html#your-own-target-and-model" in places
    assert not any(place.startswith("reproduction/claims.html") for place in places)
    assert places["changelog.html"]["boost"] < 1


def test_short_code_within_a_line_is_not_broken() -> None:
    html = "<p><code>--help</code></p><pre><span></span><code>--help</code></pre>"
    assert reference.on_page_content(html, None, None, None) == (
        '<p><code class="short">--help</code></p><pre><span></span><code>--help</code></pre>'
    )
