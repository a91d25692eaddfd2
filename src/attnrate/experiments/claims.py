"""Claims: sentences of the paper that a run can confirm or refute, with evidence and verdict."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from attnrate.statistics import Interval

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

    def untestable(self, why: str) -> "Claim":
        """The claim as it stands where its data could not be had, and why."""
        said = replace(self, verdict="not testable here", evidence="no data.", correction=why)
        return replace(said, value=None, low=None, high=None)

    def to_plain(self) -> dict[str, Any]:
        """The claim as JSON values; numbers that are not finite become None."""
        return {
            key: None if isinstance(v, float) and not math.isfinite(v) else v
            for key, v in asdict(self).items()
        }


def judge(holds: bool, fails: bool, enough: bool = True) -> Verdict:
    """The verdict of a statement that a run may confirm or refute; open if it does neither.

    `enough` says whether there are enough results to decide anything.
    """
    if not enough:
        return "open"
    return "holds" if holds else "does not hold" if fails else "open"


def at_most(found: Interval, limit: float) -> Verdict:
    """Whether a value is at most `limit`: its interval must lie on one side; without any, open."""
    return judge(found.high <= limit, found.low > limit)


def at_least(found: Interval, limit: float) -> Verdict:
    """Whether a value is at least `limit`: its interval must lie on one side; without any, open."""
    return judge(found.low >= limit, found.high < limit)


def below(found: Interval, limit: float) -> Verdict:
    """Whether a value is below `limit`, and not just there; without an interval, open."""
    return judge(found.high < limit, found.low > limit)


def judge_each(
    found: Collection[Interval],
    holds: Callable[[Interval], bool],
    fails: Callable[[Interval], bool],
    least: int = 1,
) -> Verdict:
    """The verdict of a statement about each of several values: all confirm it, or one refutes it.

    For fewer than `least` values it is open.
    """
    return judge(all(map(holds, found)), any(map(fails, found)), enough=len(found) >= least)


def if_corrected(verdict: Verdict, how: str) -> str:
    """`how` a statement must be read to hold, where its verdict says so; otherwise nothing."""
    return how if verdict == "holds when corrected" else ""


def claim_of(
    experiment: str,
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    found: Interval | float | None = None,
    correction: str = "",
) -> Claim:
    """The claim EXPERIMENT-NAME; `found` is the number that decides, with its interval if known."""
    if not isinstance(found, Interval):
        found = Interval(math.nan if found is None else found, math.nan, math.nan, 1)
    full = f"{experiment}-{name}"
    return Claim(full, place, statement, experiment, verdict, evidence, *found.limits, correction)


def decided(claims: Sequence[Claim]) -> str:
    """The verdicts that a run came to, in one paragraph; open claims stand in their table only."""
    kept = [each for each in claims if each.verdict != "open"]
    told = [f"{each.statement} {each.verdict.capitalize()}: {each.evidence}" for each in kept]
    return " ".join(told) or "This run is too small to decide any of the claims."
