"""Where the numbers of a monitor go: CSV, TensorBoard, Weights & Biases, anything with a method."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from monitored import Blocks, tokens, train

import attnrate as ar
from attnrate.extras import is_installed
from attnrate.spectra.monitor.record import COLUMNS


def recorded(**settings: Any) -> ar.Monitor:
    _, monitor = train(Blocks, steps=4, every=2, **settings)
    assert monitor is not None
    return monitor


def test_a_file_has_the_rows_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    monitor = recorded(log=path)
    read, frame = pd.read_csv(path), monitor.to_frame()
    assert read.columns.tolist() == [*COLUMNS]
    assert frame.step.unique().tolist() == [1, 2, 4]
    pd.testing.assert_frame_equal(read, frame)


def test_a_file_is_continued_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    first = recorded(log=str(path)).to_frame()
    whole = path.read_text()
    with open(path, "a") as file:
        file.write("6,0,blocks.0,0,8,3")
    second = recorded(log=path, start=4).to_frame()
    assert path.read_text().startswith(whole)
    pd.testing.assert_frame_equal(pd.read_csv(path), pd.concat([first, second], ignore_index=True))


def test_an_empty_file_gets_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    path.touch()
    recorded(log=path)
    assert pd.read_csv(path).columns.tolist() == [*COLUMNS]


def test_what_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    """A child records two steps and is killed in the third."""
    path = tmp_path / "ranks.csv"
    child = os.fork()
    if child == 0:
        model = Blocks()
        monitor = ar.Monitor(model, every=1, log=path)
        for number in range(3):
            model(tokens(number))
            if number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            monitor.step()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert pd.read_csv(path).step.tolist() == [1] * 4 + [2] * 4


def test_a_file_that_is_gone_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "ranks.csv"
    model = Blocks()
    with ar.Monitor(model, every=1, log=path) as monitor:
        for number in range(2):
            model(tokens(number))
            monitor.step()
            if number == 0:
                path.unlink()
    assert pd.read_csv(path).step.unique().tolist() == [2]


def test_the_numbers_of_a_layer_sum_up_its_heads() -> None:
    taken: dict[int, dict[str, float]] = {}
    monitor = recorded(log=lambda step, numbers: taken.update({step: numbers}), each_head=True)
    frame = monitor.to_frame()
    assert [*taken] == [1, 2, 4]
    for (step, name), heads in frame.groupby(["step", "name"]):
        numbers = taken[step]
        place = f"attnrate/{name}"
        assert numbers[f"{place}/rank99_median"] == heads.rank99.median()
        assert numbers[f"{place}/rank99_min"] == heads.rank99.min()
        assert numbers[f"{place}/rank99_max"] == heads.rank99.max()
        assert numbers[f"{place}/tail_median"] == heads["tail"].median()
        assert numbers[f"{place}/stable_rank_median"] == heads.stable_rank.median()
        assert numbers[f"{place}/head1/sigma_1"] == heads.sigma_1.iloc[1]
        assert numbers["attnrate/rank99_median"] == frame[frame.step == step].rank99.median()
    few: dict[str, float] = {}
    recorded(log=lambda step, numbers: few.update(numbers))
    assert not [name for name in few if "head" in name]
    assert {*few} < {*taken[4]}


class Metrics:
    """A logger of Lightning, or an experiment of Comet."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        assert "attnrate/rank99_median" in metrics
        self.steps.append(step)


class Plain:
    """What has a method `log` and counts nothing itself, as Accelerator."""

    def __init__(self) -> None:
        self.steps: list[int | None] = []

    def log(self, values: dict[str, float], step: int | None = None) -> None:
        assert "attnrate/rank99_median" in values
        self.steps.append(step)


class Run:
    """A run of Weights & Biases, as far as a monitor uses it.

    The real one was tried by hand: numbers that are not committed go along with the next ones, or
    are written when the run ends.
    """

    def __init__(self) -> None:
        self.axes: dict[str, str | None] = {}
        self.rows: list[tuple[float, bool | None]] = []

    def define_metric(
        self, name: str, step_metric: str | None = None, hidden: bool = False
    ) -> None:
        self.axes[name] = step_metric

    def log(
        self, data: dict[str, float], step: int | None = None, commit: bool | None = None
    ) -> None:
        assert step is None  # that would move the user's own curves
        self.rows.append((data["attnrate/step"], commit))


def test_every_kind_of_logger_gets_every_step() -> None:
    metrics, plain, run = Metrics(), Plain(), Run()
    recorded(log=[metrics, plain, run])
    assert metrics.steps == plain.steps == [1, 2, 4]
    assert run.axes == {"attnrate/step": None, "attnrate/*": "attnrate/step"}
    assert run.rows == [(1, False), (2, False), (4, False)]


class Writer:
    """A SummaryWriter of TensorBoard, as far as a monitor uses it."""

    def __init__(self) -> None:
        self.scalars: dict[str, list[int]] = {}
        self.histograms: dict[str, list[int]] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars.setdefault(tag, []).append(global_step)

    def add_histogram(self, tag: str, values: np.ndarray, global_step: int) -> None:
        assert len(values) == 2
        self.histograms.setdefault(tag, []).append(global_step)


def test_a_writer_gets_scalars_and_histograms() -> None:
    writer = Writer()
    recorded(log=writer)
    assert len(writer.scalars) == 1 + 2 * 6
    assert {*map(tuple, writer.scalars.values())} == {(1, 2, 4)}
    assert writer.histograms == {f"attnrate/blocks.{n}/rank99": [1, 2, 4] for n in (0, 1)}


@pytest.mark.skipif(not is_installed("tensorboard"), reason="tensorboard is not installed")
def test_the_writer_of_tensorboard_writes_what_it_reads_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        monitor = recorded(log=writer)
    found = EventAccumulator(str(tmp_path), {"histograms": 0})
    found.Reload()
    events = found.Scalars("attnrate/blocks.0/rank99_median")
    heads = monitor.to_frame().query("layer == 0").groupby("step").rank99.median()
    assert {event.step: event.value for event in events} == heads.to_dict()
    histograms = found.Histograms("attnrate/blocks.1/rank99")
    assert [one.histogram_value.num for one in histograms] == [2.0, 2.0, 2.0]
