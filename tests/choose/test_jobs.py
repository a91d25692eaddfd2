"""Jobs of the race: samples on their way to workers, settings, and what a store keeps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_samples import panel, series

from attnrate.choose.contender import Shape
from attnrate.choose.jobs import RaceJob, digest_of, from_bytes, run_job, to_bytes
from attnrate.choose.planning import Course
from attnrate.choose.race import race_jobs
from attnrate.choose.samples import Samples
from attnrate.fitting.ship import given, pack_bytes, unpack


@pytest.mark.parametrize("samples", [series(horizon=2), panel()], ids=["series", "panel"])
def test_samples_arrive_as_they_were_sent(samples: Samples) -> None:
    arrived = from_bytes(to_bytes(samples))
    assert digest_of(arrived) == digest_of(samples)
    which = np.arange(5)
    assert np.array_equal(arrived.tokens(which), samples.tokens(which))
    assert np.array_equal(arrived.truth(which), samples.truth(which))
    assert (arrived.inputs, arrived.whole) == (samples.inputs, samples.whole)


def test_the_digest_is_of_the_numbers_and_of_what_is_wanted() -> None:
    samples = series()
    moved = samples.y.copy()
    moved[17] += 1e-9
    others = [replace(samples, y=moved), replace(samples, horizon=2), replace(samples, length=7)]
    assert len({digest_of(each) for each in [samples, *others]}) == 4
    assert digest_of(series()) == digest_of(samples)


def test_data_are_sent_by_name_beside_functions() -> None:
    unpack(pack_bytes("first", b"one\ntwo"))
    unpack(pack_bytes("second", b""))
    unpack(b"")
    assert (given("first"), given("second")) == (b"one\ntwo", b"")


def test_a_worker_gives_plain_values_that_are_read_back() -> None:
    samples = series()
    unpack(pack_bytes(digest_of(samples), to_bytes(samples)))
    job = race_jobs(samples, Course(3, 1, 2, 600, batch=8), ["transformer"])[0]
    assert json.loads(json.dumps(job.settings)) == job.settings
    found = run_job(job.settings)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["status"] == "done"
    assert [len(layer) for layer in found["spectra"]] == [16, 16]


def test_samples_that_are_others_than_those_of_the_job_are_refused() -> None:
    unpack(pack_bytes("0" * 64, to_bytes(series())))
    job = replace(race_jobs(series(), Course(3, 1, 2, 600), ["gru"])[0], data="0" * 64)
    with pytest.raises(ValueError, match="others than those"):
        run_job(job.settings)


def test_a_solved_map_has_one_job_a_fold_whatever_the_seeds_and_steps() -> None:
    first, second = (
        race_jobs(panel(), Course(steps, seeds, 3, 600), ["linear", "gru"])
        for steps, seeds in ((10, 2), (20, 3))
    )
    keys = [[job.key for job in jobs if job.contender == "linear"] for jobs in (first, second)]
    assert keys[0] == keys[1]
    assert [len(jobs) for jobs in (first, second)] == [3 + 6, 3 + 9]


def test_everything_that_changes_a_result_changes_the_key() -> None:
    job = RaceJob("a", "gru", None, 600, 10, 8, 0, 3, 0, 0)
    others = [
        replace(job, **{name: value})
        for name, value in (
            ("data", "b"), ("contender", "tcn"), ("m_h", 2), ("parameters", 700), ("steps", 11),
            ("batch", 9), ("fold", 1), ("folds", 4), ("division", 1), ("seed", 1),
        )
    ]  # fmt: skip
    assert len({each.key for each in [job, *others]}) == 11


def test_a_job_with_more_steps_has_a_greater_nominal_cost() -> None:
    job = RaceJob("a", "gru", None, 600, 10, 8, 0, 3, 0, 0)
    shape = Shape.of(series())
    assert replace(job, steps=20).nominal(shape) == pytest.approx(2 * job.nominal(shape))
