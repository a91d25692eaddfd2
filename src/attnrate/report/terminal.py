"""The verdicts in a terminal: claim, verdict, deciding number; and what failed."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnrate.experiments.record import Record
from attnrate.figures.words import clean, with_interval
from attnrate.report.words import VERDICTS, about_open


def verdict_table(records: Sequence[Record]) -> Table:
    """A row for each claim; text from outside is neither markup nor a command to the terminal.

    The sentences of evidence are for the page: here stands the number that decides.
    """
    table = Table(title="Verdicts")
    for name in ("claim", "verdict", "deciding number"):
        table.add_column(name, no_wrap=True)
    for record in records:
        for claim in record.claims:
            look = VERDICTS[claim.verdict]
            table.add_row(
                Text(clean(claim.name)),
                Text(f"{look.sign} {claim.verdict}", style=look.terminal),
                Text(with_interval(claim.value, claim.low, claim.high)),
            )
    return table


def print_verdicts(records: Sequence[Record], console: Console | None = None) -> None:
    """Print the verdicts, and for each experiment that failed why."""
    console = console or Console()
    if any(record.claims for record in records):
        console.print(verdict_table(records))
    if said := about_open(records):
        console.print(Text(said))
    for record in records:
        if record.failed is not None:
            console.print(
                Text(f"✗ {clean(record.name)} failed: ", style="bold red"),
                Text(clean(record.failed)),
                sep="",
            )
