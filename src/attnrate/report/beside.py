"""A run beside the full run that comes with the package: each claim's two verdicts, compared.

`full-run.json` is a copy of docs/reproduction/claims.json, so that an installed package has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import TypeAdapter

from attnrate.experiments.claims import Claim

Agreement = Literal[
    "agrees", "differs", "cannot tell here", "open in the full run", "open in both", "not compared"
]
"""How a verdict of this run stands to that of the full run.

Two verdicts agree or differ where both runs decide. "not compared" is a claim that one of them does
not have, or that no run on such a machine can test.
"""
_UNTESTABLE = "not testable here"


@dataclass(frozen=True)
class Beside:
    """A claim as this run has it, and as the full run has it; None where that does not."""

    here: Claim
    full: Claim | None

    @property
    def agreement(self) -> Agreement:
        """Whether the two verdicts agree."""
        if self.full is None or _UNTESTABLE in (self.here.verdict, self.full.verdict):
            return "not compared"
        match self.here.verdict == "open", self.full.verdict == "open":
            case True, True:
                return "open in both"
            case True, False:
                return "cannot tell here"
            case False, True:
                return "open in the full run"
        return "agrees" if self.here.verdict == self.full.verdict else "differs"


@dataclass(frozen=True)
class Compared:
    """All claims of a run beside those of the full run."""

    claims: tuple[Beside, ...]

    def having(self, *agreements: Agreement) -> tuple[Beside, ...]:
        """The claims whose verdicts stand to each other in one of these ways."""
        return tuple(one for one in self.claims if one.agreement in agreements)

    def __str__(self) -> str:
        """One or two sentences: how many claims both decide, and which differ."""
        same, differ = self.having("agrees"), self.having("differs")
        both = len(same) + len(differ)
        if not both:
            return "There is no claim that both this run and the full run decide."
        claims = "claim" if both == 1 else "claims"
        said = f"Of the {both} {claims} that both decide, {len(same)} agree"
        said += f"{'s' if len(same) == 1 else ''} with the full run"
        return said + (f"; not {', '.join(one.here.name for one in differ)}." if differ else ".")


@cache
def full_run() -> tuple[Claim, ...]:
    """The claims of the full run (preset paper), with their verdicts and evidence."""
    text = (files("attnrate.report") / "full-run.json").read_bytes()
    return TypeAdapter(tuple[Claim, ...]).validate_json(text)


def compared(claims: Sequence[Claim], full: Sequence[Claim] | None = None) -> Compared:
    """The claims of a run beside those of the full run with the same names.

    Args:
        claims: The claims of the run.
        full: The claims to compare with; by default those of the full run of the package.

    """
    known = {claim.name: claim for claim in (full_run() if full is None else full)}
    return Compared(tuple(Beside(claim, known.get(claim.name)) for claim in claims))
