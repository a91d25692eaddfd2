"""Verdicts as words; in Markdown a row for each claim, and no text that becomes markup."""

from typing import get_args

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.record import Record
from attnrate.report.verdicts import VERDICTS, claims_table, evidence


def test_evidence_without_a_value_is_its_words_alone() -> None:
    claim = Claim("a", "b", "c", "d", "not testable here", "no weights")
    assert evidence(claim) == "no weights"


def test_every_verdict_has_a_sign_of_its_own() -> None:
    assert {*VERDICTS} == {*get_args(Verdict)}
    assert len({look.sign for look in VERDICTS.values()}) == len(VERDICTS)


def test_each_claim_is_one_row_of_four_cells_and_nothing_in_it_is_markup(
    records: list[Record],
) -> None:
    claims = [claim for record in records for claim in record.claims]
    header, line, *rows = claims_table(records).rstrip("\n").split("\n")
    assert header.count("|") == line.count("|") == 5
    assert len(rows) == len(claims)
    for row, claim in zip(rows, claims, strict=True):
        assert row.count("|") == 5
        assert claim.verdict in row
        assert not {"<", ">", "`", "*", "[", "$"} & {*row}
