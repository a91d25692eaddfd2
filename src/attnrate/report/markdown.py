"""The verdicts as Markdown, for pages that are written by hand around them."""

from collections.abc import Sequence

from attnrate.experiments.record import Record
from attnrate.figures.words import clean
from attnrate.report.words import VERDICTS, evidence

#: Characters that Markdown or HTML would take for markup
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "\\`*_{}[]<>#|&~$"}


def claims_table(records: Sequence[Record]) -> str:
    """Every claim in one table; text is escaped."""
    lines = ["| claim | place | verdict | evidence |", "|---|---|---|---|"]
    for record in records:
        for claim in record.claims:
            sign = VERDICTS[claim.verdict].sign
            found = [evidence(claim), claim.correction]
            cells = (
                claim.statement,
                claim.place,
                f"{sign} {claim.verdict}",
                " ".join(text for text in found if text),
            )
            lines.append("| " + " | ".join(_escaped(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return " ".join(clean(text).split()).translate(_MARKUP)
