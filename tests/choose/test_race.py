"""The race: who wins, who is as good, who diverged; killed and begun again."""

import math
from pathlib import Path

import numpy as np
import pytest
from made_samples import panel, row, series
from ray_nodes import importable, needs_ray

from attnrate.choose import jobs as jobs_file
from attnrate.choose.jobs import Place, digest_of, run_job, to_bytes
from attnrate.choose.planning import LEAST, MOST, Course, planned_steps
from attnrate.choose.race import race, race_jobs, race_of
from attnrate.choose.samples import Samples
from attnrate.errors import WorkerError
from attnrate.fitting.records import Failed
from attnrate.fitting.result import SweepResult
from attnrate.fitting.ship import pack_bytes, unpack
from attnrate.fitting.store import Store

ROOT = Path(__file__).resolve().parents[2]


def fits(name: str, error: float, spread: float = 0.001) -> list:
    drawn = np.random.default_rng([*name.encode()])
    return [
        row(name, fold, seed, (error + spread * drawn.normal(size=8)).tolist())
        for fold in (0, 1)
        for seed in (0, 1)
    ]


def test_those_within_a_hundredth_or_within_the_interval_are_tied_and_the_cheapest_named() -> None:
    rows = [*fits("gru", 1.005), *fits("tcn", 1.0), *fits("patches", 1.2)]
    found = race_of(series(), rows, Course(10, 2, 2))
    assert [each.name for each in found.racers] == ["tcn", "gru", "patches"]
    assert found.best is not None
    assert found.best.name == "tcn"
    assert found.tied == ("tcn", "gru")
    costs = {each.name: each.nominal for each in found.racers if each.tied}
    assert found.cheapest is not None
    assert found.cheapest.name == min(costs, key=lambda name: costs[name])
    wide = race_of(series(), [*fits("gru", 1.05, 2.0), *fits("tcn", 1.0, 2.0)], Course(10, 2, 2))
    assert {*wide.tied} == {"gru", "tcn"}


def test_the_cheapest_is_close_to_the_best_even_where_nothing_can_be_told() -> None:
    wild = [
        row("patches", fold, seed, [1.0, 1.0 + seed, 1.0]) for fold in (0, 1) for seed in (0, 2)
    ]
    best = [row("gru", fold, seed, [1.0, 1.01, 1.0]) for fold in (0, 1) for seed in (0, 2)]
    found = race_of(series(), [*wild, *best], Course(10, 2, 2))
    assert found.tied == ("gru", "patches")
    assert found.racer("patches").nominal < found.racer("gru").nominal
    assert found.cheapest is not None
    assert found.cheapest.name == "gru"


def test_shares_are_of_the_held_out_variance() -> None:
    samples = series()
    found = race_of(samples, fits("gru", 1.0), Course(10, 2, 2))
    (racer,) = found.racers
    assert racer.share.value == pytest.approx(racer.mse.value / found.variance)
    assert found.variance == pytest.approx(samples.y[150:].var(), rel=0.1)


def test_a_contender_whose_fits_all_diverged_is_shown_last_as_such() -> None:
    rows = [row("gru", 0, seed, None) for seed in (0, 1)] + fits("tcn", 1.0)
    found = race_of(series(), rows, Course(10, 2, 2))
    last = found.racers[-1]
    assert (last.name, last.diverged, last.tied) == ("gru", 2, False)
    assert math.isnan(last.mse.value)
    assert "GRU: diverged" in str(found)
    assert len(found.to_frame()) == 2
    assert race_of(series(), rows[:2], Course(10, 2, 2)).best is None


def test_a_race_that_was_killed_goes_on_with_what_is_stored(tmp_path: Path) -> None:
    samples, names = series(), ["linear", "tcn"]
    path = tmp_path / "choose.sqlite"
    course = Course(4, 2, 2, 500, batch=8)
    jobs = race_jobs(samples, course, names)
    unpack(pack_bytes(digest_of(samples), to_bytes(samples)))
    with Store(path) as store:
        for job in jobs[:4]:
            store.add(job, run_job(job.settings), 77.0, "before")
    found = race(samples, course, Place(store=path, workers=1, progress=False), names)
    assert {each.name: each.fits for each in found.racers} == {"linear": 2, "tcn": 4}
    with Store(path, writable=False) as store:
        rows = store.finished(jobs)
    assert [row.worker == "before" for row in rows] == 4 * [True] + 2 * [False]
    # a worker's numbers are those of this process
    fresh = jobs[-1].run(samples).judged
    assert fresh is not None
    assert rows[-1].result["judged"]["errors"] == list(fresh.errors)


def test_a_race_in_which_nothing_ends_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> SweepResult:
        failed = Failed("key", {}, "Traceback …\nValueError: too few samples", 1, "here", "now")
        return SweepResult((), (failed,), 0, 0.0, tmp_path)

    monkeypatch.setattr(jobs_file, "run_sized", fails)
    with pytest.raises(WorkerError, match="too few samples"):
        race(series(), Course(4, 1, 2, 500), Place(store=tmp_path / "choose.sqlite"), ["linear"])


@pytest.mark.parametrize("samples", [series(), panel()], ids=["series", "panel"])
def test_the_plan_grows_with_the_minutes_within_its_limits(samples: Samples) -> None:
    plans = [planned_steps(samples, minutes) for minutes in (1e-4, 0.5, 1.0, 1e4)]
    assert plans == sorted(plans)
    assert (plans[0], plans[-1]) == (LEAST, MOST)
    assert plans[1] < plans[2]
    assert planned_steps(samples, 1.0, seeds=6) < plans[2]
    assert planned_steps(samples, 1.0, heads=False) > plans[2]


@needs_ray
@pytest.mark.slow
def test_on_ray_the_errors_are_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, names = series(), ["linear", "tcn"]
    course = Course(4, 1, 2, 500, batch=8)
    importable(str(ROOT / "src"), monkeypatch)
    found = race(samples, course, Place("ray", tmp_path / "a.sqlite", 1), names)
    here = race(samples, course, Place("local", tmp_path / "b.sqlite", 1), names)
    assert [each.mse for each in found.racers] == [each.mse for each in here.racers]
