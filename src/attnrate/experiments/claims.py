"""Claims: sentences of the paper that a run can confirm or refute, with evidence and verdict."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Verdict = Literal["holds", "holds when corrected", "does not hold", "not testable here", "open"]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, its place, and what a run says of it.

    `value` is the number that decides, named by `evidence`, with its interval [low, high] where
    it has one. `verdict` "open" means that this run is too small to tell. `correction` says how
    the statement must be read to hold, or why it is not testable.
    """

    name: str
    place: str
    statement: str
    experiment: str
    verdict: Verdict
    evidence: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    correction: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ValueError(f"claim {self.name}: {self.verdict!r} is no verdict")

    def to_plain(self) -> dict[str, Any]:
        """The claim as JSON values; numbers that are not finite become None."""
        return {
            key: None if isinstance(v, float) and not math.isfinite(v) else v
            for key, v in asdict(self).items()
        }


def claim_from_plain(plain: dict[str, Any]) -> Claim:
    """The inverse of `Claim.to_plain`."""
    return Claim(**plain)
