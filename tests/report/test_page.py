"""The page as text, the terminal's table, and the files of a report."""

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from attnrate.errors import InputError
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.figures.figure import Curves, Figure, Series
from attnrate.figures.words import clean, with_interval
from attnrate.report.page import render_page, write_report
from attnrate.report.terminal import closing_lines
from attnrate.report.verdicts import print_failures, print_verdicts


class Elements(HTMLParser):
    """Every element with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page(records: list[Record]) -> str:
    return render_page(records, 'Title <i>"x"</i>')


@pytest.fixture(scope="module")
def elements(page: str) -> Elements:
    return Elements(page)


def test_nothing_from_outside_becomes_an_element(elements: Elements) -> None:
    assert {tag for tag, _ in elements.found} & {"i", "b", "iframe", "object"} == set()
    images = [attributes for tag, attributes in elements.found if tag == "img"]
    assert all("onerror" not in image for image in images)
    scripts = [attributes for tag, attributes in elements.found if tag == "script"]
    assert len(scripts) == 4  # the plots as data, the theme, plotly.js, the drawing


def test_nothing_is_loaded_from_elsewhere(elements: Elements) -> None:
    for tag, attributes in elements.found:
        assert tag not in ("link", "base")
        for name in ("src", "href", "srcset", "action"):
            value = attributes.get(name) or ""
            assert ":" not in value
            assert not value.startswith("/")


def test_only_the_scripts_of_the_page_may_run(page: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#39;none&#39;" in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in policy.replace("&#43;", "+")
    assert "unsafe-eval" not in policy
    assert "script-src &#39;unsafe-inline" not in policy


def test_every_link_within_the_page_has_its_goal_and_no_id_is_there_twice(
    elements: Elements,
) -> None:
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len({*ids})
    goals = [a["href"] for t, a in elements.found if t == "a" and (a["href"] or "").startswith("#")]
    assert goals
    assert {str(goal)[1:] for goal in goals} <= {*ids}
    assert "claim-claim-0" in ids
    assert "experiment-one" in ids


def test_headings_come_in_order(elements: Elements) -> None:
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_it_tells_everything_without_a_script(page: str) -> None:
    for words in (
        "holds when corrected",
        "value: 0.5 [0.25, 0.75]",
        "A paragraph.",
        "0.123",
        "This experiment failed.",
        "1 of 3 experiments failed",
        "2026-05-04",
        "3 of 3 jobs, 1.5 min",
        '<td class="number">–</td>',
        '<noscript><img src="figures/curves.png" alt="Curves"></noscript>',
    ):
        assert words in page


def test_it_opens_with_five_sentences_and_each_claim_has_the_verdicts_of_both_runs(
    records: list[Record],
) -> None:
    known, unknown = replace(records[0].claims[0], name="table2-rnn-ordering"), records[0].claims[1]
    said = replace(records[0].conclusion, claims=(known, unknown))
    page = render_page([replace(records[0], conclusion=said)], "Title")
    assert page.count("<dd>") >= 5
    assert page.index("What holds") < page.index("To take away") < page.index('class="claim"')
    first, second = (one.split("</details>")[0] for one in page.split('<details class="claim"')[1:])
    assert 'run agreement ">agrees' in first
    assert "Full run:" in first
    assert 'run agreement ">not compared' in second
    assert "not in it" in second


def test_a_figure_of_two_points_is_a_sentence_with_its_files(
    records: list[Record], tmp_path: Path
) -> None:
    few = Figure("few", "Two points", "", (Curves("", "x", "y", (Series("a", (1, 2), (3, 4)),)),))
    said = Conclusion((), (few,), (), records[0].claims)
    page = write_report([replace(records[0], conclusion=said)], tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "<var>y</var> against <var>x</var>: a: 3 at 1 and 4 at 2." in text
    assert "plotly" not in text
    assert (tmp_path / "figures" / "few.png").is_file()
    assert "figures/few.png" in text


def test_the_foot_tells_the_last_time_and_the_commit(records: list[Record]) -> None:
    made = [
        {"git_commit": "0123456789abcdef", "git_changed": True, "finished": "2026-05-04T10:00"},
        {"git_commit": "0123456789abcdef", "git_changed": False, "finished": "2026-05-05T09:00"},
        {"git_commit": None, "finished": ""},
    ]
    page = render_page(
        [replace(one, provenance=how) for one, how in zip(records, made, strict=True)], "Title"
    )
    assert "<dt>commit</dt><dd>0123456789 with changes</dd>" in page
    assert "<dt>finished</dt><dd>2026-05-05T09:00</dd>" in page


def test_a_report_of_nothing_is_a_page_without_plots() -> None:
    page = render_page([], "Nothing")
    assert "plotly" not in page
    assert "Verdicts" in page


def test_the_files_of_a_report(records: list[Record], tmp_path: Path) -> None:
    page = write_report(records, tmp_path / "new")
    assert page == tmp_path / "new" / "index.html"
    named = re.findall(r'href="(figures/[^"]*)"', page.read_text(encoding="utf-8"))
    assert len(named) == 6
    there = {path.relative_to(page.parent).as_posix() for path in page.parent.rglob("*.[ps]*g")}
    assert there == {*named}
    claims = json.loads((page.parent / "claims.json").read_text(encoding="utf-8"))
    assert [claim["verdict"] for claim in claims][:2] == ["holds", "holds when corrected"]
    assert not [*tmp_path.rglob("*.new")]


def test_two_figures_of_one_name_are_refused(tmp_path: Path) -> None:
    figure = Figure("same", "", "", (Curves("", "", "", ()),))
    record = Record("a", "", "", "quick", 0, 0, 0.0, {})
    said = Conclusion((), (figure, replace(figure, name="Same")), (), ())
    with pytest.raises(InputError, match="same"):
        write_report([replace(record, conclusion=said)], tmp_path)


def test_the_terminal_shows_verdicts_and_failures_and_obeys_no_text(records: list[Record]) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=False)
    print_verdicts(records, console)
    print_failures(records, console)
    shown = out.getvalue()
    assert "✓ holds" in shown
    assert "0.5 [0.25, 0.75]" in shown
    assert "lost failed: WorkerError" in shown
    assert "[red]" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_no_verdict_and_no_number(records: list[Record], width: int) -> None:
    claims = [claim for record in records for claim in record.claims]
    out = io.StringIO()
    print_verdicts(records, Console(file=out, width=width, force_terminal=False))
    shown = "".join(out.getvalue().split())  # wherever a line is broken
    for claim in claims:
        number = with_interval(claim.value, claim.low, claim.high)
        for said in (claim.verdict, clean(claim.name), number if claim.value == 0.5 else ""):
            assert "".join(said.split()) in shown


def test_a_traceback_keeps_its_own_lines_on_a_narrow_terminal(records: list[Record]) -> None:
    trace = "Traceback (most recent call last):\n" + 20 * '  File "a/long/path/to/code.py"\n'
    failed = replace(records[0], failed=trace + "ValueError: \x1b[31mno\tmemory")
    out = io.StringIO()
    print_failures([failed], Console(file=out, width=20, force_terminal=False))
    assert trace in out.getvalue()
    assert "ValueError: [31mno" in out.getvalue()


def test_what_is_open_is_explained_and_quick_results_lead_to_the_other_preset(
    records: list[Record],
) -> None:
    whole = [replace(one, finished=one.tasks, failed=None) for one in records]
    quick = [replace(one, preset="quick") for one in whole]
    assert "Open: this run cannot tell" in render_page(quick, "Title")
    for shown in (render_page(quick, "Title"), "\n".join(closing_lines(quick, Path("page")))):
        assert "attnrate reproduce --preset paper" in shown
    full = [replace(one, preset="paper") for one in whole]
    assert "Open: this run cannot tell" in render_page(full, "Title")
    for shown in (render_page(full, "Title"), "\n".join(closing_lines(full, Path("page")))):
        assert "reproduce --preset paper" not in shown
    assert "Open:" not in render_page([], "Title")


def test_jobs_that_are_not_finished_are_counted_beside_the_verdicts(
    records: list[Record],
) -> None:
    part = replace(records[0], tasks=26, finished=4)
    for of, said in (([part], True), ([records[0]], False)):
        out = io.StringIO()
        print_verdicts(of, Console(file=out, width=200, force_terminal=False))
        for shown in (out.getvalue(), render_page(of, "Title")):
            assert ("Not finished: 22 of 26 jobs of one. The verdicts rest on" in shown) is said
        # more seeds are no advice while jobs are missing
        assert ("More seeds decide" in render_page(of, "Title")) is not said
        assert ("--preset paper" in "\n".join(closing_lines(of, Path("page")))) is not said
