"""What would decide an open claim: how many seeds, of which cells, in what time; nothing is run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Results
from attnrate.experiments.looks import MOST, Look, futile_from, level_as_with, looks, seeds_needed
from attnrate.experiments.replicas import Cell, cell_key, cells_of, least_set, repeated
from attnrate.experiments.run import Planned, results_of
from attnrate.experiments.settled import Again, Seen, Settling, claim_at, further_jobs, seen
from attnrate.fitting.job import Job, Sized
from attnrate.fitting.records import Finished
from attnrate.statistics import LEVEL

Standing = Literal[
    "can be settled", "decided", "futile", "undecidable", "all looks made", "not finished"
]
"""How a claim stands that was open.

"futile" claims need more seeds than are worth it, "undecidable" ones are open however many seeds
there are, because their rules do not look at intervals alone. "not finished" are claims of
experiments with jobs of the preset that are not finished; these come first.
"""
#: A claim is asked what it rests on with results that are there so many times
_TIMES = 2
_MORE = 1.3  # by so much more seeds are assumed until that decides


@dataclass(frozen=True)
class Open:
    """A claim that the first look left open, and what would decide it.

    Attributes:
        claim: The claim as it is now.
        experiment: The name of its experiment.
        first: The number of seeds of the first look.
        seeds: The number of seeds that its cells have now.
        needed: About how many would decide it, if estimate and spread stay what they are; None
            where that is not known (a single seed) or no number would.
        standing: Whether it can be settled, and why not.
        look: The next look; None if there is none.
        again: The cells of that look; None if there is none.
        jobs: The jobs of that look that are not finished.
        seconds: The time that these take on one core.

    """

    claim: Claim
    experiment: str
    first: int
    seeds: int
    needed: float | None
    standing: Standing
    look: Look | None = None
    again: Again | None = None
    jobs: tuple[Sized[Job], ...] = ()
    seconds: float = 0.0

    @property
    def width(self) -> float:
        """How wide its interval is against its limit: needed seeds over those it has."""
        return float("inf") if self.needed is None else self.needed / self.seeds


@dataclass(frozen=True)
class Survey:
    """An experiment with the results of a folder, which is asked what would decide its claims.

    Attributes:
        plan: The experiment with the jobs of the preset.
        finished: The finished jobs of the plan and of looks, by their keys.
        settled: What was looked at again.

    """

    plan: Planned
    finished: Mapping[str, Finished]
    settled: tuple[Settling, ...] = ()

    @cached_property
    def cells(self) -> dict[str, Cell]:
        """The cells that can have more seeds."""
        return cells_of(self.plan.jobs)

    @cached_property
    def complete(self) -> bool:
        """Whether all jobs of the preset are finished."""
        return all(one.job.key in self.finished for one in self.plan.jobs)

    @cached_property
    def first(self) -> int:
        """The number of seeds of the first look: the smallest among its cells."""
        return min((cell.seeds for cell in self.cells.values()), default=0)

    def open(self) -> list[Open]:
        """Every claim that the first look left open, as far as it has come since."""
        said = self.plan.experiment.conclude(results_of(self._jobs, self.finished))
        return [self._open(one) for one in said.claims if one.verdict == "open"]

    def _open(self, first: Claim) -> Open:
        """What would decide a claim that is open at the first look."""
        began = {one.claim: one for one in self.settled}.get(first.name)
        name = self.plan.experiment.name
        if not self.complete:
            return Open(first, name, self.first, self.first, None, "not finished")
        begun = began or Settling(first.name, name, self.first, ())
        now = seen(
            begun, first, self._jobs, self.cells, self._results, self.plan.experiment.conclude
        )
        have = now.look.seeds if now.look else begun.first
        if now.claim.verdict != "open":
            return Open(now.claim, name, begun.first, have, None, "decided")
        left = [one for one in begun.looks if one.seeds > have]
        coming = [one for one in looks(begun.first) if one.seeds > have]
        if not have or not coming:
            standing: Standing = "all looks made" if have else "undecidable"
            needed = self._needed(now, have, LEVEL) if have else None
            return Open(now.claim, name, begun.first, have, needed, standing)
        look = coming[0]
        if left:  # it was begun, and goes on as it was begun
            return self._to_do(now.claim, begun.first, have, None, look, left[0])
        needed = self._needed(now, have, look.level) if have > 1 else None
        if have > 1 and (needed is None or needed > futile_from(have)):
            lost: Standing = "undecidable" if needed is None else "futile"
            return Open(now.claim, name, begun.first, have, needed, lost)
        cells = self._rests_on(now, have, needed, look.level)
        if not cells:
            return Open(now.claim, name, begun.first, have, needed, "undecidable")
        before = now.look.cells if now.look else ()
        again = Again(look.seeds, look.level, tuple(sorted({*cells, *before})))
        return self._to_do(now.claim, begun.first, have, needed, look, again)

    def _to_do(
        self, claim: Claim, first: int, have: int, needed: float | None, look: Look, again: Again
    ) -> Open:
        """An open claim with the jobs of its next look, and the time that they take."""
        jobs = tuple(
            Sized(one.job, self._seconds(key))
            for key in again.cells
            for one in self.cells[key].until(again.seeds)
            if one.job.key not in self.finished
        )
        seconds = sum(one.size for one in jobs)
        name = self.plan.experiment.name
        return Open(claim, name, first, have, needed, "can be settled", look, again, jobs, seconds)

    def _seconds(self, key: str) -> float:
        """The seconds of a job of a cell: as long as those took that are finished."""
        taken = [self.finished[one.job.key].seconds for one in self.cells[key].jobs]
        return max(sum(taken) / len(taken), 1e-3)

    @cached_property
    def _jobs(self) -> list[Job]:
        return [one.job for one in self.plan.jobs]

    @cached_property
    def _cell_by_job(self) -> dict[str, str]:
        """The cell of every job, by the key of the job."""
        begun = further_jobs(self.settled, self.cells)
        own = {one.job.key: key for key, cell in self.cells.items() for one in cell.jobs}
        return own | {one.job.key: cell_key(one.job) for one in begun}

    def _results(self, jobs: Sequence[Job]) -> Results | None:
        if any(job.key not in self.finished for job in jobs):
            return None
        return results_of(jobs, self.finished)

    def _at(self, name: str, results: Results, level: float) -> Claim:
        return claim_at(name, results, level, self.plan.experiment.conclude)

    def _needed(self, now: Seen, have: int, level: float) -> float | None:
        """About how many seeds would decide a claim, if estimate and spread stay what they are."""
        if have < 2:
            return None
        name = now.claim.name
        return seeds_needed(
            have, lambda at: self._at(name, now.results, at).verdict != "open", level
        )

    def _rests_on(
        self, now: Seen, have: int, needed: float | None, level: float
    ) -> tuple[str, ...]:
        """The cells that a decision needs: without more seeds of any of them there is none.

        All results are taken several times, at the level at which that decides the claim. Then
        cells are left out one after the other, as long as the claim stays the same, its number and
        its interval included: a mean over many cells must not become one over those that suit.
        """
        name = now.claim.name

        def asked(cells: Collection[str], at: float) -> Claim:
            times = dict.fromkeys(cells, _TIMES)
            return self._at(name, repeated(now.results, self._cell_by_job, times), at)

        every = [*self.cells]
        # one seed has no spread of its own, so that its numbers are taken as they are
        seeds = float(MOST) if needed is None else needed
        at = min(level, level_as_with(_TIMES * have, seeds, level))
        whole = asked(every, at)
        while whole.verdict == "open" and seeds < MOST:
            seeds *= _MORE
            at = level_as_with(_TIMES * have, seeds, level)
            whole = asked(every, at)
        if whole.verdict == "open":
            return ()

        def same(cells: Collection[str]) -> bool:
            found = asked(cells, at)
            return _number(found) == _number(whole)

        return least_set(every, same)


def _number(claim: Claim) -> tuple[str, ...]:
    """The verdict of a claim, and its number and interval to nine digits."""
    ends = claim.value, claim.low, claim.high
    return claim.verdict, *("" if one is None else f"{one:.9g}" for one in ends)
