"""What settling says: each open claim with what would decide it, each look, and how it ended."""

from dataclasses import dataclass

import pytest

from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import FitOutcome, Work
from attnrate.experiments.looks import looks
from attnrate.experiments.settled import Again
from attnrate.experiments.survey import Open
from attnrate.fitting.job import Sized
from attnrate.report.settling import ending_lines, looked_line, open_lines

CLAIM = Claim("made-a", "there", "So it is.", "made", "open", "a ratio", 0.06, 0.03, 0.13)


@dataclass(frozen=True)
class Ended:
    claim: Claim
    ending: str
    seeds: int
    needed: float | None
    seconds: float


class Waits(Work, work="propositions.settling_waits"):
    """Work that is only planned."""

    def run(self) -> FitOutcome:
        raise AssertionError


def test_an_open_claim_is_said_with_its_seeds_and_its_next_look() -> None:
    look = looks(5)[0]
    jobs = tuple(Sized(Waits(seed=seed), 60.0) for seed in (5, 6, 7))
    again = Again(look.seeds, look.level, ("cell",))
    near = Open(CLAIM, "made", 5, 5, 12.0, "can be settled", look, again, jobs, 180.0)
    far = Open(CLAIM, "made", 5, 5, 4321.0, "futile")
    never = Open(CLAIM, "made", 5, 5, None, "undecidable")
    done = Open(CLAIM, "made", 5, 8, None, "decided")
    assert open_lines([near, far, never, done], 2) == [
        "3 claims are open",
        "made-a: 5 seeds, about 12 would decide it; next look at 8: 3 jobs, about 1.5 min",
        "made-a: 5 seeds, about 4,321 would decide it; given up for now",
        "made-a: 5 seeds; no number of seeds would decide it",
    ]
    assert open_lines([], 2) == ["0 claims are open"]


def test_a_look_is_said_with_its_verdict_and_interval() -> None:
    still = Open(CLAIM, "made", 5, 8, 18.0, "can be settled")
    assert looked_line(still) == (
        "made-a with 8 seeds: open (0.06 [0.03, 0.13]), about 18 would decide it"
    )


@pytest.mark.parametrize(
    ("ending", "needed", "said"),
    [
        ("decided", None, "open, with 12 seeds"),  # the verdict of the claim, which is made up here
        ("futile", 99.0, "open with 12 seeds, about 99 would decide it; given up for now"),
        ("out of time", 18.0, "out of time; its next look takes 2 min on one core"),
        ("can be settled", 18.0, "not looked at; its next look takes 2 min on one core"),
        ("failed", None, "a job of its look failed; try it again"),
        ("all looks made", 60.0, "about 60 would decide it; all looks are made"),
        ("not finished", None, "run attnrate reproduce first"),
        ("undecidable", None, "no number of seeds would decide it"),
    ],
)
def test_each_ending_says_what_came_of_it(ending: str, needed: float | None, said: str) -> None:
    (line,) = ending_lines([Ended(CLAIM, ending, 12, needed, 120.0)])
    assert line.startswith("made-a: ")
    assert line.endswith(said)


def test_nothing_open_is_said() -> None:
    assert ending_lines([]) == ["no claim is open"]
