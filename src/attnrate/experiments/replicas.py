"""Cells of a plan: jobs that differ in their seeds alone, and what more seeds of them would say.

Which jobs an experiment repeats over seeds can be seen in its plan, so that no experiment has to
say it. Nor has it to say which jobs a claim rests on: that is found by repeating results.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace

from attnrate.experiments.contract import Done, Fit, Results, Work
from attnrate.fitting.job import Job, Sized, key_of


@dataclass(frozen=True)
class Cell:
    """Jobs that differ in their seeds alone: 0, 1, 2 and so on.

    Attributes:
        key: The key of the job with seed 0, by which the cell is known.
        jobs: The jobs of the plan, in the order of their seeds.

    """

    key: str
    jobs: tuple[Sized[Job], ...]

    @property
    def seeds(self) -> int:
        """The number of seeds in the plan."""
        return len(self.jobs)

    def until(self, seeds: int) -> tuple[Sized[Job], ...]:
        """The jobs beyond the plan with which the cell has so many seeds."""
        first = self.jobs[0]
        further = range(self.seeds, seeds)
        return tuple(Sized(with_seed(first.job, seed), first.size) for seed in further)


def with_seed(job: Job, seed: int) -> Job:
    """Make the fit or work with another seed and all other settings unchanged."""
    if isinstance(job, Work):
        return replace(job, seed=seed)
    assert isinstance(job, Fit)
    return Fit(replace(job.label, seed=seed), replace(job.trial, seed=seed))


def cells_of(jobs: Iterable[Sized[Job]]) -> dict[str, Cell]:
    """The cells of a plan by their keys, in the order of the plan.

    Jobs that train are repeated over seeds, even if the preset has one seed only. Other work is
    computed once, unless the plan itself repeats it.
    """
    found: dict[str, list[Sized[Job]]] = {}
    for one in jobs:
        found.setdefault(cell_key(one.job), []).append(one)
    cells: dict[str, Cell] = {}
    for key, some in found.items():
        ordered = tuple(sorted(some, key=lambda one: one.job.seed))
        seeds = [one.job.seed for one in ordered]
        if seeds == [*range(len(seeds))] and _repeats(ordered):
            cells[key] = Cell(key, ordered)
    return cells


def cell_key(job: Job) -> str:
    """The key of the job's cell: that of the job itself, with the seed 0."""
    return key_of({**job.settings, "seed": 0})


def _repeats(jobs: Sequence[Sized[Job]]) -> bool:
    """Whether the jobs of a cell can be repeated with further seeds."""
    job = jobs[0].job
    if isinstance(job, Fit):
        return is_dataclass(job.label) and getattr(job.label, "seed", None) == job.seed
    return isinstance(job, Work) and (job.trains or len(jobs) > 1)


def repeated(results: Results, cell_by_job: Mapping[str, str], cells: Mapping[str, int]) -> Results:
    """The results, in which those of some cells are there several times, as of further seeds.

    So the estimates stay what they are, and the intervals are about those of so many more seeds.

    Args:
        results: The results.
        cell_by_job: The key of the cell of every job, by the key of the job.
        cells: How many times the results of a cell are there, by its key; 1 where it is not named.

    """
    apart = 1 + max((one.job.seed for one in results.done), default=0)
    more = [
        Done(with_seed(one.job, one.job.seed + copy * apart), one.outcome)
        for one in results.done
        for copy in range(1, cells.get(cell_by_job.get(one.job.key, ""), 1))
    ]
    return Results([*results.done, *more], results.missing)


def least_set(
    cells: Sequence[str], enough: Callable[[Collection[str]], bool], tries: int = 80
) -> tuple[str, ...]:
    """The cells that are left when those that are not needed are taken away.

    Halves are tried first, then quarters, down to single cells. With many cells `tries` may end it
    before; then some are left that are not needed, which costs time and nothing else.

    Args:
        cells: All cells, which together are enough.
        enough: Says whether a set of cells is.
        tries: The largest number of sets that are tried.

    """
    kept = list(cells)
    size = (len(kept) + 1) // 2
    while size:
        for begin in range(0, len(kept), size)[::-1]:
            rest = kept[:begin] + kept[begin + size :]
            if not rest:
                continue
            if not tries:
                return tuple(kept)
            tries -= 1
            if enough(rest):
                kept = rest
        size = (size + 1) // 2 if size > 1 else 0
    return tuple(kept)
