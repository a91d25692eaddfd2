"""Verdicts as words, alike on the page, in Markdown and in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.figures.words import NOTHING, clean, clean_lines, with_interval
from attnrate.shown import fits

#: Characters that Markdown or HTML would take for markup
_MARKUP = {ord(c): f"&#{ord(c)};" for c in "\\`*_{}[]<>#|&~$"}


@dataclass(frozen=True)
class VerdictLook:
    """How a verdict looks: its sign, its colour on the page, and its colour in a terminal."""

    sign: str
    colour: str
    terminal: str


#: In the order of the summary
VERDICTS = {
    "holds": VerdictLook("✓", "good", "green"),
    "holds when corrected": VerdictLook("≈", "amended", "cyan"),
    "no difference": VerdictLook("=", "even", "blue"),
    "does not hold": VerdictLook("✗", "bad", "red"),
    "open": VerdictLook("?", "unknown", "yellow"),
    "not testable here": VerdictLook("–", "aside", "bright_black"),
}


def about_open(records: Sequence[Record]) -> str:
    """What "open" means and what would decide such claims; "" if no claim is open."""
    among = [record for record in records if any(c.verdict == "open" for c in record.claims)]
    if not among:
        return ""
    said = "Open: this run cannot tell, because its results vary too much or are too few."
    # jobs that are missing decide more than seeds: about_unfinished names them
    if all(record.preset == "quick" and not record.unfinished for record in among):
        said += " More seeds decide many of these: attnrate reproduce --preset paper."
    elif not any(record.unfinished for record in among):
        said += " Those that more seeds decide get them by attnrate reproduce --settle."
    return said


def about_unfinished(records: Sequence[Record]) -> str:
    """Which experiments have jobs that are not finished, and how many; "" if all are finished."""
    left = [record for record in records if record.unfinished]
    if not left:
        return ""
    counts = ", ".join(f"{one.unfinished:,} of {one.tasks:,} jobs of {one.name}" for one in left)
    return f"Not finished: {counts}. The verdicts rest on the other jobs and may still change."


def evidence(claim: Claim) -> str:
    """What decides a claim: a whole sentence as it is, the name of a number with its value."""
    if claim.value is None or claim.evidence.endswith("."):
        return claim.evidence
    value = _number(claim)
    return f"{claim.evidence}: {value}" if claim.evidence else value


def claims_table(records: Sequence[Record]) -> str:
    """Every claim in one table of Markdown, for pages that are written by hand."""
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
    """Print every verdict with the number that decides.

    On a terminal that is too narrow for the table, each claim is a line of its own, so that nothing
    is cut. Text from outside is neither markup nor a command to the terminal. The sentences of
    evidence are on the page.
    """
    console = console or Console()
    claims = [claim for record in records for claim in record.claims]
    table = Table(title="Verdicts")
    for name in ("claim", "verdict", "deciding number"):
        table.add_column(name, no_wrap=True)
    for claim in claims:
        table.add_row(Text(clean(claim.name)), _badge(claim), Text(_number(claim)))
    if claims and fits(table, console):
        console.print(table)
    else:
        for claim in claims:
            named = Text.assemble(_badge(claim), f": {clean(claim.name)}")
            number = _number(claim)
            console.print(named if number == NOTHING else named + Text(f", {number}"))
    if about := about_unfinished(records):
        console.print(Text(clean(about)))


def print_failures(records: Sequence[Record], console: Console | None = None) -> None:
    """Print for each failed experiment why it failed; a traceback keeps its own lines."""
    console = console or Console()
    for record in records:
        if record.failed is not None:
            why = Text(clean_lines(record.failed))  # a traceback keeps its own lines
            failed = Text(f"✗ {clean(record.name)} failed: ", style="bold red")
            console.print(failed, why, sep="", soft_wrap=True)


def _badge(claim: Claim) -> Text:
    """The verdict with its sign, in its colour."""
    look = VERDICTS[claim.verdict]
    return Text(f"{look.sign} {claim.verdict}", style=look.terminal)


def _number(claim: Claim) -> str:
    """The number that decides a claim, with its interval."""
    return with_interval(claim.value, claim.low, claim.high)
