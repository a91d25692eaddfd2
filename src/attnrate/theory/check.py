"""The result of checking one statement of the paper: the statement, what was run, the verdict."""

from dataclasses import dataclass
from textwrap import fill
from typing import Annotated, Literal

from attnrate.errors import require_whole
from attnrate.settings import by
from attnrate.shown import Shown

Verdict = Literal["holds", "holds when corrected", "does not hold"]
#: A seed of random numbers, as a parameter of `checked` functions
Seed = Annotated[int, by(require_whole, 0, 2**63 - 1)]
#: Differences of this size, relative to the values, are rounding
ROUNDING = 1e-11


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """A statement of the paper, what was run to test it, and the verdict.

    A run can refute a statement, or a correction of it. It cannot prove one: "holds" means that
    the statement was true in everything that `tested` lists.

    Attributes:
        name: Where the statement stands in the paper, such as "Prop. 6.1".
        statement: What the paper says.
        tested: What was run, with sizes and seeds.
        verdict: "holds", "holds when corrected" or "does not hold".
        value: The number that decides.
        detail: What was found, with the meaning of `value`.
        correction: How the statement must be read to hold; empty where it holds as printed.

    Examples:
        >>> check = ar.check_equivariance()
        >>> check.name, check.verdict, check.holds
        ('Equivariance (App. A.1)', 'holds', True)

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
