"""What a reproduction says on a terminal: at most ten lines at the end, none over 80 columns."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.report.beside import full_run
from attnrate.report.terminal import closing_lines, concluded_lines, say_concluded

PAGE = Path("reproduction-quick") / "index.html"
QUICK = Path(__file__).resolve().parents[1] / "experiments" / "quick-0.1.0" / "claims.json"


def record_of(claims: tuple[Claim, ...], **changes: object) -> Record:
    made = Record(
        "made", "Made up", "Fig. 1", "quick", 3, 3, 90.0, {}, Conclusion((), claims=claims)
    )
    return replace(made, **changes)


@pytest.fixture(scope="module")
def quick() -> tuple[Claim, ...]:
    return tuple(Claim(**one) for one in json.loads(QUICK.read_text(encoding="utf-8")))


def test_a_quick_run_ends_with_its_verdicts_beside_those_of_the_full_run(
    quick: tuple[Claim, ...],
) -> None:
    assert closing_lines([record_of(quick)], PAGE) == [
        "1 experiment, 78 claims               full run  this run",
        "  ✓ holds                                   34        25",
        "  ≈ holds when corrected                    17        14",
        "  ✗ does not hold                           15         7",
        "  ? open                                    10        30",
        "  – not testable here                        2         2",
        "both runs decide 46: 43 agree, 3 differ (fig4-links, fig4-argmax, fig4-identity)",
        "open: too few results to tell; attnrate reproduce --preset paper decides more",
        "the page: reproduction-quick/index.html",
    ]


def test_it_ends_with_at_most_ten_lines_of_at_most_80_columns(quick: tuple[Claim, ...]) -> None:
    opposite = tuple(
        replace(one, verdict="holds" if one.verdict == "does not hold" else "does not hold")
        for one in full_run()
    )
    # all verdicts there are
    equal = (replace(full_run()[0], verdict="no difference"), *quick[1:])
    for claims in (quick, opposite, equal, quick[:1], ()):
        for changes in ({}, {"finished": 1}, {"failed": "no memory"}, {"tasks": 9, "failed": "x"}):
            lines = closing_lines([record_of(claims, **changes)], PAGE)
            assert len(lines) <= 10
            assert [line for line in lines if len(line) > 80] == [
                line for line in lines if line.startswith("not finished") and len(line) > 80
            ]
            assert ("failed: made" in lines) is ("failed" in changes)


def test_more_claims_that_differ_than_fit_are_counted(quick: tuple[Claim, ...]) -> None:
    wrong = [replace(one, verdict="holds when corrected") for one in full_run()[:5]]
    lines = closing_lines([record_of(tuple(wrong))], PAGE)
    assert "both runs decide 4: 0 agree, 4 differ; the page says which" in lines


def test_the_verdicts_of_an_experiment_name_those_of_the_full_run_where_they_are_others() -> None:
    first, second = full_run()[:2]
    long = replace(second, verdict="open", statement="So it is for all of them. " * 5)
    lines = concluded_lines(record_of((first, long)))
    assert lines[0] == "made: Made up (2 claims, 1.5 min)"
    assert lines[1] == "  ✓ holds: The error falls as m_h grows."
    assert lines[2].startswith("  ? open (full run: holds): So it is")
    assert lines[3].startswith("    ")
    assert max(map(len, lines)) <= 80


def test_what_is_said_on_the_way_is_no_command_to_the_terminal(
    records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    for record in records:
        say_concluded(record)
    said = capsys.readouterr()
    assert not said.out
    assert "\x1b" not in said.err
    assert "failed; the reason comes at the end" in said.err
