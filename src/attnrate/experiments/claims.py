"""Claims: statements that a run can confirm or refute, with their evidence and verdict."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from attnrate.figures.words import NOTHING, with_interval
from attnrate.shown import Shown
from attnrate.statistics import Interval

Verdict = Literal[
    "holds",
    "holds when corrected",
    "no difference",
    "does not hold",
    "not testable here",
    "open",
]
"""What a run says of a claim.

"holds" and "does not hold" are decided by an interval on one side of a limit. "holds when
corrected" is said of a statement that holds in another reading, which its claim gives. "no
difference" is said of a statement that two things differ, where the interval of their difference
is within the limits of what counts as equal, and neither is clearly ahead. "open" means that the
run is too small to tell, "not testable here" that no run on this machine could.
"""


@dataclass(frozen=True, repr=False)
class Claim(Shown):
    """A statement of the paper, or an answer to a question of ours, and what a run says of it.

    Attributes:
        name: EXPERIMENT-NAME, by which the claim is known.
        place: Where the paper states it, or "our question".
        statement: The statement, in a sentence.
        experiment: The name of the experiment that tests it.
        verdict: What the run says of it; "open" means that the run is too small to tell.
        evidence: What the verdict rests on: a sentence with its numbers, or the name of `value`.
        value: The number that decides; None where there is none.
        low: The lower end of the interval of `value`; None where it has none.
        high: The upper end of that interval.
        correction: How the statement must be read to hold, or why it is not testable here; "" for
            the other verdicts.

    Examples:
        >>> ar.Claim("fig1-half", "Sec. 5.1", "Twice the head size halves the error.", "fig1",
        ...          "holds", "error at 2 m_h over error at m_h", 0.41, 0.38, 0.45)
        fig1-half: holds (0.41 [0.38, 0.45]). Twice the head size halves the error.

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

    def __str__(self) -> str:
        number = with_interval(self.value, self.low, self.high)
        shown = "" if number == NOTHING else f" ({number})"
        return f"{self.name}: {self.verdict}{shown}. {self.statement}"

    def untestable(self, why: str) -> "Claim":
        """The claim with the verdict "not testable here", because its data could not be had.

        Args:
            why: Why they could not be had.

        """
        said = replace(self, verdict="not testable here", evidence="no data.", correction=why)
        return replace(said, value=None, low=None, high=None)

    def to_plain(self) -> dict[str, Any]:
        """The claim as JSON values; a number that is not finite becomes None."""
        return {
            key: None if isinstance(v, float) and not math.isfinite(v) else v
            for key, v in asdict(self).items()
        }


def judge(holds: bool, fails: bool, enough: bool = True) -> Verdict:
    """The verdict on a statement that a run confirms or refutes; "open" if it does neither.

    `enough` says whether there are enough results to decide; without them it is "open".
    """
    if not enough:
        return "open"
    return "holds" if holds else "does not hold" if fails else "open"


def at_most(found: Interval, limit: float) -> Verdict:
    """The verdict on "the value is at most `limit`"; "open" if its interval has both sides."""
    return judge(found.high <= limit, found.low > limit)


def at_least(found: Interval, limit: float) -> Verdict:
    """The verdict on "the value is at least `limit`"; "open" if its interval has both sides."""
    return judge(found.low >= limit, found.high < limit)


def below(found: Interval, limit: float) -> Verdict:
    """The verdict on "the value is below `limit`"; "open" if its interval reaches `limit`."""
    return judge(found.high < limit, found.low > limit)


def equivalent(found: Interval, least: float, most: float) -> bool:
    """Whether the interval is within the limits of equivalence; without an interval it is not.

    Its whole interval must be, as in two one-sided tests: that a difference has not been found does
    not make two things equal.
    """
    return least <= found.low and found.high <= most


def or_no_difference(verdict: Verdict, found: Interval, factor: float) -> Verdict:
    """The verdict on "these two differ"; "no difference" if it is open and they are equivalent.

    `found` is the ratio of the two, and ratios within this `factor` of 1 count as equal.
    """
    equal = verdict == "open" and equivalent(found, 1 / factor, factor)
    return "no difference" if equal else verdict


def judge_each(
    found: Collection[Interval],
    holds: Callable[[Interval], bool],
    fails: Callable[[Interval], bool],
    least: int = 1,
) -> Verdict:
    """The verdict on a statement about each of several values.

    It holds if all values confirm it, and does not if one refutes it. With fewer than `least`
    values it is "open".
    """
    return judge(all(map(holds, found)), any(map(fails, found)), enough=len(found) >= least)


def if_corrected(verdict: Verdict, how: str) -> str:
    """`how` a statement must be read to hold, for the verdict "holds when corrected"; else ""."""
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
    """Make the claim EXPERIMENT-NAME; `found` is the number that decides, perhaps an interval."""
    if not isinstance(found, Interval):
        found = Interval(math.nan if found is None else found, math.nan, math.nan, 1)
    full = f"{experiment}-{name}"
    return Claim(full, place, statement, experiment, verdict, evidence, *found.limits, correction)


def decided(claims: Sequence[Claim]) -> str:
    """One paragraph with every claim that is not open, its verdict and its evidence."""
    kept = [each for each in claims if each.verdict != "open"]
    sentences = [f"{each.statement} {each.verdict.capitalize()}: {each.evidence}" for each in kept]
    return " ".join(sentences) or "This run is too small to decide any of the claims."
