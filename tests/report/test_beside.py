"""A run beside the full run: the run of the package is the committed one, and what agrees."""

from dataclasses import replace
from pathlib import Path

import pytest

from attnrate.experiments.claims import Claim, Verdict
from attnrate.report.beside import compared, full_run
from attnrate.report.sentences import SENTENCES

ROOT = Path(__file__).resolve().parents[2]


def test_the_full_run_of_the_package_is_the_committed_one() -> None:
    ours = ROOT / "src" / "attnrate" / "report" / "full-run.json"
    committed = ROOT / "docs" / "reproduction" / "claims.json"
    assert ours.read_bytes() == committed.read_bytes(), f"copy {committed.name} to {ours}"
    assert len(full_run()) == 78


def claim(name: str, verdict: Verdict) -> Claim:
    return Claim(name, "there", "So it is.", "made", verdict, "")


@pytest.mark.parametrize(
    ("here", "full", "agreement"),
    [
        ("holds", "holds", "agrees"),
        ("holds", "holds when corrected", "differs"),
        ("open", "holds", "cannot tell here"),
        ("no difference", "open", "open in the full run"),
        ("no difference", "no difference", "agrees"),
        ("no difference", "does not hold", "differs"),
        ("does not hold", "open", "open in the full run"),
        ("open", "open", "open in both"),
        ("not testable here", "not testable here", "not compared"),
        ("not testable here", "holds", "not compared"),
        ("holds", None, "not compared"),
    ],
)
def test_two_verdicts_agree_or_differ_where_both_decide(
    here: Verdict, full: Verdict | None, agreement: str
) -> None:
    others = [] if full is None else [claim("a", full)]
    (one,) = compared([claim("a", here)], others).claims
    assert one.agreement == agreement


def test_the_comparison_counts_what_both_decide_and_names_what_differs() -> None:
    ours = [claim("a", "holds"), claim("b", "holds"), claim("c", "open"), claim("d", "holds")]
    full = [claim("a", "holds"), claim("b", "does not hold"), claim("c", "holds")]
    said = "Of the 2 claims that both decide, 1 agrees with the full run; not b."
    assert str(compared(ours, full)) == said
    assert (
        str(compared(ours, [])) == "There is no claim that both this run and the full run decide."
    )
    assert str(compared(ours[:1], full)).endswith("1 agrees with the full run.")


def test_every_sentence_rests_on_the_verdicts_of_the_full_run() -> None:
    verdicts = {one.name: one.verdict for one in full_run()}
    assert len(SENTENCES) == 5
    for sentence in SENTENCES:
        assert sentence.rests_on
        for name, verdict in sentence.rests_on.items():
            assert verdicts[name] == verdict, name


def test_a_sentence_says_what_this_run_has_of_its_claims() -> None:
    first = SENTENCES[0]
    own = [one for one in full_run() if one.name in first.rests_on]
    assert first.here(compared(own).claims) == "3 agree"
    changed = [replace(own[0], verdict="open"), replace(own[1], verdict="does not hold")]
    assert first.here(compared(changed).claims) == "1 differ, 1 open, 1 not run"
