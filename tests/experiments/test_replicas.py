"""Cells: which jobs can have more seeds, their further jobs, and what a claim rests on."""

from dataclasses import dataclass

import pytest

from attnrate.experiments.contract import Done, Fit, FitOutcome, Results, Work
from attnrate.experiments.kits.fits import Fits
from attnrate.experiments.replicas import cell_key, cells_of, least_set, repeated, with_seed
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.statistics import geometric_mean


@dataclass(frozen=True)
class Label:
    size: int
    seed: int


@dataclass(frozen=True)
class Unseeded:
    size: int


class Trains(Work, work="propositions.replicas_trains"):
    """Work that trains."""

    size: int

    def run(self) -> FitOutcome:
        raise AssertionError


class Computes(Work, work="propositions.replicas_computes", trains=False):
    """Work that trains nothing."""

    size: int

    def run(self) -> FitOutcome:
        raise AssertionError


def fit(size: int, seed: int) -> Fit[Label]:
    return Fit(Label(size, seed), Trial({"kind": "a", "size": size}, {"kind": "b"}, {}, seed))


def test_jobs_that_differ_in_their_seeds_alone_are_a_cell() -> None:
    plan = [Sized(fit(size, seed), 2.0 * size) for seed in range(3) for size in (1, 2)]
    cells = cells_of(plan)
    assert [cell.seeds for cell in cells.values()] == [3, 3]
    for cell in cells.values():
        assert [one.job.seed for one in cell.jobs] == [0, 1, 2]
        further = cell.until(5)
        assert [one.job.seed for one in further] == [3, 4]
        assert [one.size for one in further] == [cell.jobs[0].size] * 2
        assert {cell_key(one.job) for one in further} == {cell.key}
        assert not {one.job.key for one in further} & {one.job.key for one in plan}
        assert cell.until(2) == ()


def test_a_fit_with_another_seed_is_the_one_that_a_plan_would_list() -> None:
    assert with_seed(fit(1, 0), 4).key == fit(1, 4).key
    made = with_seed(fit(1, 0), 4)
    assert isinstance(made, Fit)
    assert made.label == Label(1, 4)
    assert with_seed(Trains(size=2), 3).key == Trains(size=2, seed=3).key


@pytest.mark.parametrize(
    ("jobs", "count"),
    [
        ([Trains(size=1)], 1),
        ([Computes(size=1)], 0),  # computed once: more seeds would say nothing
        ([Computes(size=1, seed=0), Computes(size=1, seed=1)], 1),
        ([Trains(size=1, seed=3)], 0),  # its seed means something else
        ([Fit(Unseeded(1), fit(1, 0).trial)], 0),
        ([Fit(Label(1, 1), fit(1, 0).trial)], 0),
    ],
)
def test_which_jobs_can_have_more_seeds(jobs: list[Work], count: int) -> None:
    assert len(cells_of([Sized(job, 1.0) for job in jobs])) == count


def test_repeated_results_keep_the_estimate_and_narrow_the_interval() -> None:
    jobs = [fit(size, seed) for size in (1, 2) for seed in range(4)]
    errors = iter([1.0, 2.0, 1.5, 1.2, 3.0, 2.5, 4.0, 3.3])
    results = Results([Done(job, FitOutcome(next(errors))) for job in jobs], ["one is missing"])
    keys = {job.key: cell_key(job) for job in jobs}

    def ratio(found: Results) -> list[float]:
        fits = Fits(found.fits(Label))
        return fits.where(size=2).over(fits.where(size=1), "seed")

    once, both = ratio(results), repeated(results, keys, dict.fromkeys(keys.values(), 3))
    assert both.missing == ("one is missing",)
    assert sorted(ratio(both)) == sorted(3 * once)
    before, after = geometric_mean(once), geometric_mean(ratio(both))
    assert after.value == pytest.approx(before.value)
    assert after.high < before.high
    # copies of one side alone have no partners, and change nothing
    one_sided = repeated(results, keys, {keys[jobs[0].key]: 3})
    assert len(one_sided) == len(results) + 8
    assert ratio(one_sided) == once


@pytest.mark.parametrize("needed", [{"c"}, {"a", "g"}, {"b", "c", "d", "h"}, set("abcdefgh")])
def test_of_all_cells_those_are_left_that_are_needed(needed: set[str]) -> None:
    assert {*least_set("abcdefgh", lambda cells: needed <= {*cells})} == needed


def test_few_tries_leave_more_cells_but_enough_of_them() -> None:
    assert {"c"} < {*least_set("abcdefgh", lambda cells: "c" in cells, tries=2)}
