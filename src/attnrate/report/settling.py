"""What settling says on a terminal: what is open, each claim looked at, and how it ended."""

import sys
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from attnrate.experiments.claims import Claim
from attnrate.experiments.settle import Ending
from attnrate.experiments.settle import duration as taken
from attnrate.experiments.survey import Open
from attnrate.figures.words import NOTHING, clean, duration, with_interval
from attnrate.report.terminal import counted

_LOST = {
    "futile": "given up for now",
    "undecidable": "no number of seeds would decide it",
    "all looks made": "all looks are made",
    "not finished": "its experiment is not finished; run attnrate reproduce first",
    "can be settled": "",
    "decided": "",
}


@runtime_checkable
class Ended(Protocol):
    """A claim with how settling has ended for it, its seeds, those it needs, and its next look."""

    @property
    def claim(self) -> Claim:
        """The claim as it is now."""

    @property
    def ending(self) -> Ending:
        """How settling has ended for it."""

    @property
    def seeds(self) -> int:
        """The number of seeds that its fits have now."""

    @property
    def needed(self) -> float | None:
        """About how many seeds would decide it; None if that is not known."""

    @property
    def seconds(self) -> float:
        """The time of its next look on one core."""


def say_open(claims: Sequence[Open], workers: int) -> None:
    """Write the open claims on stderr, with what would decide each of them."""
    _say(open_lines(claims, workers))


def say_looked(claim: Open) -> None:
    """Write what a look at a claim has found on stderr."""
    _say([looked_line(claim)])


def open_lines(claims: Sequence[Open], workers: int) -> list[str]:
    """Each open claim with its seeds, those that would decide it, and its next look."""
    lines = []
    for one in claims:
        if one.standing == "decided":
            continue
        line = f"{clean(one.claim.name)}: {counted(one.seeds, 'seed')}{_needs(one.needed)}"
        if one.look is not None and one.again is not None:
            time = duration(taken([each.size for each in one.jobs], workers))
            line += (
                f"; next look at {one.look.seeds}: {counted(len(one.jobs), 'job')}, about {time}"
            )
        elif _LOST[one.standing]:
            line += f"; {_LOST[one.standing]}"
        lines.append(line)
    are = "is" if len(lines) == 1 else "are"
    return [f"{counted(len(lines), 'claim')} {are} open", *lines]


def looked_line(claim: Open) -> str:
    """What a look at a claim has found: its verdict, its number, and what more it needs."""
    found = claim.claim
    number = with_interval(found.value, found.low, found.high)
    shown = "" if number == NOTHING else f" ({number})"
    more = _needs(claim.needed) if found.verdict == "open" else ""
    return f"{clean(found.name)} with {counted(claim.seeds, 'seed')}: {found.verdict}{shown}{more}"


def ending_lines(claims: Sequence[Ended]) -> list[str]:
    """How settling has ended for each claim."""
    return [_ending(one) for one in claims] or ["no claim is open"]


def _ending(one: Ended) -> str:
    name = clean(one.claim.name)
    seeds = counted(one.seeds, "seed")
    match one.ending:
        case "decided":
            return f"{name}: {one.claim.verdict}, with {seeds}"
        case "out of time" | "can be settled":
            why = "out of time" if one.ending == "out of time" else "not looked at"
            took = f"; its next look takes {duration(one.seconds)} on one core"
            return f"{name}: open with {seeds}{_needs(one.needed)}; {why}{took}"
        case "failed":
            return f"{name}: open with {seeds}; a job of its look failed; try it again"
        case _:
            return f"{name}: open with {seeds}{_needs(one.needed)}; {_LOST[one.ending]}"


def _needs(needed: float | None) -> str:
    """How many seeds would decide a claim, in words; "" if that is not known."""
    return "" if needed is None else f", about {needed:,.0f} would decide it"


def _say(lines: Sequence[str]) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()
