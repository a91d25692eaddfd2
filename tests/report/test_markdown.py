"""The verdicts in Markdown: a row for each claim, and no text that becomes markup."""

from attnrate.experiments.record import Record
from attnrate.report.markdown import claims_table


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
