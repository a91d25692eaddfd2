"""What a check of one statement of the paper says: the statement, what was run, the verdict."""

from dataclasses import dataclass
from textwrap import fill
from typing import Literal

Verdict = Literal["holds", "holds when corrected", "does not hold"]


@dataclass(frozen=True)
class Check:
    """One statement of the paper against a run.

    `statement` is what the paper says, `tested` what exactly was run and how far, `value` the
    number that decides, named in `detail`. `correction` says how the statement must be read to
    hold, where it holds when corrected. A run can refute a statement, or a correction of it; it
    cannot prove one, so "holds" means: in everything that `tested` lists.
    """

    name: str
    statement: str
    tested: str
    verdict: Verdict
    value: float
    detail: str
    correction: str = ""

    @property
    def holds(self) -> bool:
        """Whether the statement, as printed or as corrected, was true throughout."""
        return self.verdict != "does not hold"

    def __str__(self) -> str:
        parts = [("says", self.statement), ("tested", self.tested), ("found", self.detail)]
        parts += [("corrected", self.correction)] if self.correction else []
        lines = [
            fill(f"{word}: {text}", 100, initial_indent="  ", subsequent_indent="    ")
            for word, text in parts
        ]
        return "\n".join([f"{self.name}: {self.verdict} ({self.value:.3g})", *lines])
