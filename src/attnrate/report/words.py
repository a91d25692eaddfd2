"""Verdicts as words, the same on the page and in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.figures.words import with_interval


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
