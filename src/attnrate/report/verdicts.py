"""Verdicts as words, the same on the page, in Markdown and in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.figures.words import clean, with_interval

#: Characters that Markdown or HTML would take for markup
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "\\`*_{}[]<>#|&~$"}


@dataclass(frozen=True)
class VerdictLook:
    """A verdict's sign, and the names of its colours on the page and in a terminal."""

    sign: str
    colour: str
    terminal: str


#: In the order of the summary
VERDICTS = {
    "holds": VerdictLook("✓", "good", "green"),
    "holds when corrected": VerdictLook("≈", "amended", "cyan"),
    "does not hold": VerdictLook("✗", "bad", "red"),
    "open": VerdictLook("?", "unknown", "yellow"),
    "not testable here": VerdictLook("–", "aside", "bright_black"),
}


def about_open(records: Sequence[Record]) -> str:
    """What "open" means and what would decide it; nothing if no claim is open."""
    among = [record for record in records if any(c.verdict == "open" for c in record.claims)]
    if not among:
        return ""
    said = "Open: this run cannot tell, by the spread of its results or because it has too few."
    if all(record.preset == "quick" for record in among):
        said += " More seeds decide many of these: attnrate reproduce --preset paper."
    return said


def evidence(claim: Claim) -> str:
    """What decides a claim, with its value; a whole sentence names its numbers itself."""
    if claim.value is None or claim.evidence.endswith("."):
        return claim.evidence
    value = with_interval(claim.value, claim.low, claim.high)
    return f"{claim.evidence}: {value}" if claim.evidence else value


def claims_table(records: Sequence[Record]) -> str:
    """Every claim in one table of Markdown, for pages written by hand; text is escaped."""
    lines = ["| claim | place | verdict | evidence |", "|---|---|---|---|"]
    for record in records:
        for claim in record.claims:
            verdict = f"{VERDICTS[claim.verdict].sign} {claim.verdict}"
            found = " ".join(filter(None, (evidence(claim), claim.correction)))
            cells = claim.statement, claim.place, verdict, found
            texts = [" ".join(clean(cell).split()).translate(_MARKUP) for cell in cells]
            lines.append("| " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def print_verdicts(records: Sequence[Record], console: Console | None = None) -> None:
    """Print the verdicts with the numbers that decide, and for each failed experiment why.

    Text from outside is neither markup nor a command to the terminal. The sentences of evidence are
    for the page.
    """
    console = console or Console()
    table = Table(title="Verdicts")
    for name in ("claim", "verdict", "deciding number"):
        table.add_column(name, no_wrap=True)
    for claim in (claim for record in records for claim in record.claims):
        look = VERDICTS[claim.verdict]
        table.add_row(
            Text(clean(claim.name)),
            Text(f"{look.sign} {claim.verdict}", style=look.terminal),
            Text(with_interval(claim.value, claim.low, claim.high)),
        )
    if table.rows:
        console.print(table)
    if said := about_open(records):
        console.print(Text(said))
    for record in records:
        if record.failed is not None:
            console.print(
                Text(f"✗ {clean(record.name)} failed: ", style="bold red"),
                Text(clean(record.failed)),
                sep="",
            )
