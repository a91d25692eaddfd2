"""What conclusions from real data share: data that could not be had, and what was decided."""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments.claims import Claim
from attnrate.experiments.experiment import MISSING


def missing(results: Sequence[Any]) -> str | None:
    """Why data could not be had, when that is all that the results say."""
    reasons = _reasons(results)
    return reasons[0] if reasons and len(reasons) == len(results) else None


def gaps(results: Sequence[Any]) -> str:
    """A sentence about those tasks among others whose data could not be had, or nothing."""
    reasons = _reasons(results)
    if not reasons:
        return ""
    return f" {len(reasons)} of {len(results)} models are missing: {reasons[0]}"


def _reasons(results: Sequence[Any]) -> list[str]:
    return [str(one.values[MISSING]) for one in results if MISSING in one.values]


def decided(claims: Sequence[Claim]) -> str:
    """The verdicts that a run came to, in one paragraph; the others are in the table above it."""
    told = [f"{c.statement} {c.verdict.capitalize()}: {c.evidence}" for c in claims]
    kept = [text for text, c in zip(told, claims, strict=True) if c.verdict != "open"]
    return " ".join(kept) or "This run is too small to decide any of the claims."


def untestable(claims: Sequence[Claim], why: str) -> tuple[Claim, ...]:
    """The claims of a run that had no data, for the reason given."""
    return tuple(
        Claim(
            claim.name,
            claim.place,
            claim.statement,
            claim.experiment,
            "not testable here",
            "no data.",
            correction=why,
        )
        for claim in claims
    )
