"""The committed reproduction: its files agree with each other and with what the page says."""

import json
import re
from collections import Counter
from pathlib import Path

from attnrate.experiments.run import records_in
from attnrate.report.verdicts import claims_table

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "reproduction"


def test_claims_records_and_table_are_of_one_run() -> None:
    records = records_in(FOLDER)
    claims = [claim.to_plain() for record in records for claim in record.claims]
    assert claims == json.loads((FOLDER / "claims.json").read_text(encoding="utf-8"))
    assert claims_table(records) == (FOLDER / "claims.md").read_text(encoding="utf-8")


def test_the_page_counts_the_verdicts_and_the_work_as_they_are() -> None:
    records = records_in(FOLDER)
    found = Counter(claim.verdict for record in records for claim in record.claims)
    page = " ".join((DOCS / "reproduction.md").read_text(encoding="utf-8").split())
    words = ("claims", "hold", "hold when corrected", "do not hold", r"are \*open")
    said = re.search("Of " + ",? ".join(rf"(\d+) {word}" for word in words), page)
    assert said
    assert [int(number) for number in said.groups()] == [
        sum(found.values()),
        *(found[v] for v in ("holds", "holds when corrected", "does not hold", "open")),
    ]
    done = sum(record.finished for record in records), sum(record.tasks for record in records)
    pieces = re.search(r"\(([\d,]+)(?: of ([\d,]+))? jobs\)", page)
    assert pieces
    assert pieces[1] == f"{done[0]:,}"
    assert pieces[2] == (f"{done[1]:,}" if done[0] < done[1] else None)


def test_every_figure_of_the_records_is_there() -> None:
    names = {f"{figure.name}.png" for r in records_in(FOLDER) for figure in r.conclusion.figures}
    assert names <= {path.name for path in (FOLDER / "figures").iterdir()}
