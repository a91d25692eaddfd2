"""The one call: what it answers, what it refuses, and that it can be stopped and go on."""

import sys
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import attnrate as ar
from attnrate.choose import planning
from attnrate.choose.planning import LEAST, MOST, Course, planned_seconds, planned_steps
from attnrate.choose.samples import Samples
from attnrate.errors import WorkerError
from attnrate.fitting.engines import Outcome
from attnrate.fitting.job import Job, JobFunction
from attnrate.fitting.ship import unpack

sweeps = import_module("attnrate.fitting.sweep")

Array = npt.NDArray[np.float64]


def made(rows: int = 3000, curve: float = 0.0) -> pd.DataFrame:
    """y(t) = x(t) + x(t-1) / 2 + curve x(t) x(t-2) + noise."""
    drawn = np.random.default_rng(0)
    x = drawn.normal(size=rows + 2)
    y = x[2:] + 0.5 * x[1:-1] + curve * x[2:] * x[:-2] + 0.1 * drawn.normal(size=rows)
    return pd.DataFrame({"x": x[2:], "y": y})


def quick(data: Any, y: Any = None, **named: Any) -> ar.Choice:
    return ar.choose(data, y, **{"progress": False, "stage": "ladder", **named})


def test_a_filter_is_found_and_predicts_as_its_coefficients_do() -> None:
    frame = made()
    found = quick(frame, horizon=0, window=8)
    assert (found.verdict, found.winner, found.m_h, found.race) == ("linear", "filter", None, None)
    now, before = frame["x"].to_numpy()[-1], frame["x"].to_numpy()[-2]
    # noise of 0.1 on 3,000 rows leaves coefficients within about 0.1 / √3000 each
    assert found.predict(frame).item() == pytest.approx(now + 0.5 * before, abs=0.03)


def test_a_frame_a_csv_and_a_parquet_give_one_answer(tmp_path: Path) -> None:
    frame = made()
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    answers = [
        quick(data, horizon=0, window=8)
        for data in (frame, tmp_path / "a.csv", str(tmp_path / "a.parquet"))
    ]
    values = [one.to_frame().to_numpy()[:, 2:].astype(float) for one in answers]
    for other in values[1:]:
        np.testing.assert_array_equal(other, values[0])
    assert [one.about.source for one in answers] == ["a data frame", "a.csv", "a.parquet"]


def test_arrays_and_an_npz_of_them_give_one_answer(tmp_path: Path) -> None:
    drawn = np.random.default_rng(1)
    x = drawn.normal(size=(300, 6, 2))
    y = x[:, :, :1] * x[:, ::-1, 1:] + 0.1 * drawn.normal(size=(300, 6, 1))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    one, other = quick(x, y), quick(tmp_path / "a.npz")
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame())
    assert one.predict(x[:3]).shape == (3, 6, 1)


def test_without_a_promise_no_race_is_run_and_this_is_said() -> None:
    found = quick(made(), horizon=0, window=8, stage="heads")
    assert found.race is None
    assert "No race was run" in found.because[-1]


class Here:
    """An engine that runs jobs in this process, and is interrupted after some of them."""

    workers = 1

    def __init__(self, most: int) -> None:
        self.left, self.ran = most, 0

    def run(
        self, jobs: Iterator[Job], most: int, function: JobFunction, shipped: bytes = b""
    ) -> Generator[Outcome, None, None]:
        unpack(shipped)
        for job in jobs:
            if not self.left:
                raise KeyboardInterrupt
            self.left, self.ran = self.left - 1, self.ran + 1
            yield Outcome(job, function(job.settings), None, 0.1, "here")


def few(store: Path, engine: Here, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> ar.Choice:
    """A race of ten steps over products, which no filter can make."""
    monkeypatch.setattr(sweeps, "make_engine", lambda name, workers=None: engine)
    monkeypatch.setattr(planning, "LEAST", 10)
    asked: dict[str, Any] = {"horizon": 0, "window": 4, "minutes": 1e-6, "seeds": 1, "folds": 2}
    frame = made(300, curve=2.0)
    return ar.choose(frame, **asked, stage="race", seed=seed, store=store, progress=False)


def plain(found: ar.Choice) -> pd.DataFrame:
    """The race without what a clock says."""
    assert found.race is not None
    return found.race.to_frame().drop(columns=["seconds", "inference"])


def test_a_choice_that_was_interrupted_ends_as_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = few(tmp_path / "whole.sqlite", Here(100), monkeypatch)
    assert any("more minutes may end otherwise" in reason for reason in whole.because)
    with pytest.raises(KeyboardInterrupt):
        few(tmp_path / "cut.sqlite", Here(5), monkeypatch)
    rest = Here(100)
    again = few(tmp_path / "cut.sqlite", rest, monkeypatch)
    # six models on two folds, of which five fits were kept
    assert rest.ran == 7
    pd.testing.assert_frame_equal(plain(again), plain(whole))
    assert (again.verdict, again.winner) == (whole.verdict, whole.winner)
    frame = made(300, curve=2.0)
    np.testing.assert_array_equal(again.predict(frame), whole.predict(frame))
    with pytest.raises(KeyboardInterrupt):  # another seed has fits of its own
        few(tmp_path / "cut.sqlite", Here(0), monkeypatch, seed=1)


def refused(match: str, data: Any, y: Any = None, **named: Any) -> None:
    with pytest.raises(ar.InputError, match=match):
        quick(data, y, **named)


def test_what_is_no_data_is_refused_with_the_call_to_write() -> None:
    values = made()["y"]
    refused(r"this is a Series.*series\.to_frame", values)
    refused(r"needs the outputs y.*pandas\.DataFrame", values.to_numpy())
    refused(r"must be a data frame, a file or an array.*pandas\.DataFrame", {"y": [1.0]})
    refused(r"must be a data frame, a file or an array", 5)
    refused(r"must be a data frame, a file or an array", None)
    refused(r"y is for arrays.*target='y'", made(), values)


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"stage": "races"}, r"stage is not known: got 'races'.*'ladder', 'race', 'heads'"),
        ({"engine": "beam"}, r"engine is not known: got 'beam'"),
        ({"minutes": 0}, r"minutes must be a finite number greater than 0: got 0"),
        ({"folds": 1}, r"folds must be a whole number of at least 2"),
        ({"seeds": 0}, r"seeds must be"),
        ({"horizon": -1}, r"horizon must be"),
        ({"horizon": 5000}, r"horizon is 5000, and the series has only 3,000 rows"),
        ({"target": "yy"}, r"not there: got 'yy'.*Did you mean 'y'"),
        ({"store": 3}, r"store must be the name of a file"),
    ],
)
def test_a_wrong_request_is_refused(named: dict[str, Any], match: str) -> None:
    refused(match, made(), **named)


@pytest.mark.parametrize("factor", [1e200, 1e-200])
def test_numbers_without_squares_are_refused_with_a_factor(factor: float) -> None:
    frame = made()
    frame["y"] *= factor
    refused(r"values of column 'y' are too (large|small).*Divide it by", frame, horizon=0, window=8)


def test_a_store_that_is_none_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine, and long enough to be no empty file")
    with pytest.raises(ar.StoreError, match="no store"):
        quick(tmp_path / "nothing.csv", store=tmp_path / "mine.txt")
    refused("folder that is not there", made(), store=tmp_path / "none" / "a.sqlite")
    assert (tmp_path / "mine.txt").read_text().startswith("mine")


@pytest.mark.parametrize(("rows", "window"), [(60, 24), (220, 24), (270, 24)])
def test_too_few_stretches_are_no_answer_and_no_error(rows: int, window: int) -> None:
    found = quick(made(rows), window=window)
    assert (found.verdict, found.model) == ("cannot-tell", None)
    assert "few" in found.because[0] or "needs 12 independent" in found.because[0]
    with pytest.raises(ar.InputError, match="no model to predict by"):
        found.predict(made(rows))


def series(count: int) -> Samples:
    x: Array = np.zeros((count, 1))
    places = np.arange(count, dtype=np.int64)
    return Samples(x, x, places[: count - 8], 8, 0, False, places, ("x",), ("y",))


def test_planned_seconds_are_those_that_the_steps_were_planned_for() -> None:
    samples = series(1000)
    steps = planned_steps(samples, 2.0)
    assert LEAST < steps < MOST
    # whole steps: less than one step short of it
    short = 120 - planned_seconds(samples, Course(steps))
    assert 0 <= short < planned_seconds(samples, Course(1))


def test_the_plan_is_said_before_the_first_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise WorkerError("the race begins")

    # the module is hidden by the function of its name
    monkeypatch.setattr(sys.modules["attnrate.choose.choose"], "race", stop)
    with pytest.raises(WorkerError, match="begins"):
        ar.choose(made(300, curve=2.0), horizon=0, window=4, progress=True, minutes=0.001)
    said = capsys.readouterr().err
    assert "a race of 6 models with 100 steps a fit, and perhaps the heads after it, takes" in said


def test_kernels_and_fits_of_data_lead_to_choose() -> None:
    values = made()["y"]
    calls: list[Callable[[], object]] = [
        lambda: ar.linear_target(values, 32),  # type: ignore[arg-type]
        lambda: ar.linear_target(values.to_numpy(), 32),
        lambda: ar.fit(made(), ar.LinearRNN(1, 2)),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(ar.InputError, match=r"ar\.choose"):
            call()
