"""Sweeps: every trial once, resumed and changed grids, the same numbers as a bare loop."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pandas as pd
import pytest
import sweep_standin
from sweep_standin import entries, grid, times, tiny, value

from attnrate.errors import InputError, StoreError, WorkerError
from attnrate.fitting.job import Sized
from attnrate.fitting.progress import SweepProgress
from attnrate.fitting.spec import load_spec
from attnrate.fitting.store import Store
from attnrate.fitting.sweep import run_from_cli, sweep, sweep_status
from attnrate.fitting.trial import Trial


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


def test_a_sweep_gives_the_numbers_of_a_bare_loop_in_the_order_of_the_grid(
    store: Path, log: Path
) -> None:
    result = sweep(grid(8, 0.01), store=store, workers=2, function=tiny)
    trials = load_spec(grid(8, 0.01)).trials
    assert [row.result["value"] for row in result.finished] == [value(t) for t in trials]
    assert [row.key for row in result.finished] == [t.key for t in trials]
    assert result.ran == 8
    assert times(log, "end") == {t.key: 1 for t in trials}
    assert len({row.worker for row in result.finished}) <= 2


def test_a_second_sweep_runs_nothing_and_says_the_same(store: Path, log: Path) -> None:
    first = sweep(grid(4, 0.0), store=store, workers=1, function=tiny)
    second = sweep(grid(4, 0.0), store=store, workers=1, function=tiny)
    assert second.ran == 0
    assert second.finished == first.finished
    assert set(times(log, "begin").values()) == {1}


def test_a_changed_grid_keeps_what_is_still_valid(store: Path, log: Path) -> None:
    sweep(grid(8, 0.0), store=store, workers=2, function=tiny)
    smaller = sweep(grid(4, 0.0), store=store, workers=2, function=tiny)
    assert (smaller.ran, len(smaller.finished)) == (0, 4)
    larger = sweep(grid(12, 0.0), store=store, workers=2, function=tiny)
    assert (larger.ran, len(larger.finished)) == (4, 12)
    another = sweep(grid(4, 0.0, other=1), store=store, workers=2, function=tiny)
    assert another.ran == 4
    assert set(times(log, "end").values()) == {1}


def test_a_trial_that_raises_is_recorded_and_the_others_go_on(store: Path, log: Path) -> None:
    name = sweep_standin.raises_for_seed_1
    result = sweep(grid(8, 0.0), store=store, workers=2, function=name)
    assert [row.settings["seed"] for row in result.failed] == [1, 1]
    assert all("ValueError: seed 1 is not liked here" in row.error for row in result.failed)
    assert len(result.finished) == 6
    assert "2 failed and will be retried" in str(result)
    assert "seed 1 is not liked here" in str(result)
    # The next run tries them again, here with a function that can.
    again = sweep(grid(8, 0.0), store=store, workers=2, function=tiny)
    assert (again.ran, len(again.finished), again.failed) == (2, 8, ())


def test_a_result_that_is_no_plain_value_is_a_failed_trial(store: Path, log: Path) -> None:
    result = sweep(grid(4, 0.0), store=store, workers=1, function=sweep_standin.says_no_json)
    assert len(result.failed) == 2
    assert "not JSON compliant" in result.failed[0].error


def test_what_a_trial_prints_does_not_reach_its_answers(store: Path, log: Path) -> None:
    result = sweep(grid(4, 0.0), store=store, workers=2, function=sweep_standin.prints)
    assert len(result.finished) == 4


def test_a_worker_has_one_thread_and_no_input(store: Path, log: Path) -> None:
    result = sweep(grid(2, 0.0), store=store, workers=1, function=sweep_standin.says_threads)
    assert {(row.result["threads"], row.result["stdin"]) for row in result.finished} == {(1, "")}


def test_a_sweep_needs_no_main_guard_in_the_users_script(store: Path, log: Path) -> None:
    script = store.parent / "script.py"
    script.write_text(
        "import attnrate.fitting.sweep, sweep_standin, sys\n"
        "found = attnrate.fitting.sweep.sweep(sweep_standin.grid(4, 0.0), store=sys.argv[1],\n"
        "    workers=2, function=sweep_standin.tiny)\n"
        "print(len(found.finished))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(sweep_standin.__file__).parent)}
    ran = subprocess.run(
        [sys.executable, script, store], env=environment, capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("4\n", "")


def test_workers_that_cannot_start_are_an_error_with_the_reason(store: Path) -> None:
    def run(settings: dict[str, object]) -> dict[str, object]:
        return settings

    run.__module__, run.__qualname__ = "no_such_module", "run"
    with pytest.raises(WorkerError, match="No module named 'no_such_module'"):
        sweep(grid(4), store=store, workers=2, function=run)


def test_a_function_that_workers_cannot_find_is_refused(store: Path) -> None:
    def within(settings: dict[str, object]) -> dict[str, object]:
        return settings

    with pytest.raises(InputError, match=r"cannot find the function .*within.*at its top level"):
        sweep(grid(4), store=store, workers=2, function=within)
    assert not store.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"engine": "lokal"}, "Did you mean 'local'"),
        ({"engine": 3}, "engine is not known"),
        ({"workers": 0}, "workers must be a whole number"),
        ({"workers": "two"}, "workers must be a whole number"),
        ({"grid": {"grid": {"seed": []}}}, "no trials"),
    ],
)
def test_a_wrong_request_is_refused_before_a_store_is_made(
    arguments: dict[str, object], words: str, store: Path
) -> None:
    with pytest.raises(InputError, match=words):
        sweep(**{"grid": grid(4), "store": store, "function": tiny, **arguments})
    assert not store.exists()


def test_a_result_exports_its_own_trials(store: Path, log: Path, tmp_path: Path) -> None:
    sweep(grid(8, 0.0), store=store, workers=2, function=tiny)
    result = sweep(grid(4, 0.0), store=store, workers=2, function=tiny)
    table = pd.read_csv(result.export(tmp_path / "t.csv"))
    assert table["value"].tolist() == [row.result["value"] for row in result.finished]
    assert table["seed"].tolist() == [0, 1, 0, 1]


def test_the_status_of_a_sweep(store: Path, log: Path) -> None:
    sweep(grid(4, 0.0), store=store, workers=2, function=tiny)
    status = sweep_status(grid(12, 0.0), store, function=tiny)
    assert str(status) == "4 of 12 trials finished, 8 waiting"


@pytest.mark.parametrize("made", [False, True])
def test_before_the_first_run_every_trial_waits(made: bool, store: Path) -> None:
    """Also when a sweep was killed after it had made the file and before it filled it."""
    if made:
        store.touch()
    before = {path: path.stat().st_size for path in store.parent.iterdir()}
    status = sweep_status(grid(12, 0.0), store, function=tiny)
    assert str(status) == "0 of 12 trials finished, 12 waiting"
    assert {path: path.stat().st_size for path in store.parent.iterdir()} == before


def test_a_status_in_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder does not exist"):
        sweep_status(grid(2), tmp_path / "none" / "s.sqlite", function=tiny)


def test_the_command_refuses_an_export_before_it_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="kind of file"):
        run_from_cli(tmp_path / "none.toml", export="t.xlsx")
    with pytest.raises(InputError, match="spec must be a file"):
        run_from_cli(3)
    with pytest.raises(InputError, match="must be a file"):
        run_from_cli(Path("."), status=True)


def test_sized_trials_run_the_largest_first_and_come_back_in_their_own_order(
    store: Path, log: Path
) -> None:
    trials = load_spec(grid(6, 0.0)).trials
    sizes = [3, 1, 4, 1.5, 9, 2.5]
    sized = [Sized(trial, size) for trial, size in zip(trials, sizes, strict=True)]
    result = sweep(sized, store=store, workers=1, function=tiny)
    assert [row.key for row in result.finished] == [trial.key for trial in trials]
    begun = [key for what, key, _ in entries(log) if what == "begin"]
    assert begun == [trials[place].key for place in (4, 2, 0, 5, 3, 1)]


def test_trials_run_by_turns_and_each_is_told_once_it_is_stored(store: Path, log: Path) -> None:
    trials = load_spec(grid(4, 0.0)).trials
    places = zip(trials, (1, 9, 2, 3), (0, 1, 0, 1), strict=True)
    sized = [Sized(trial, size, turn) for trial, size, turn in places]
    told = []

    def stored(trial: Trial) -> None:
        with Store(store, writable=False) as kept:
            assert trial.key in kept.finished_keys()
        told.append(trial.key)

    for _ in range(2):  # the second time nothing runs
        sweep(sized, store=store, workers=1, function=tiny, stored=stored)
    assert [key for what, key, _ in entries(log) if what == "begin"] == told
    assert told == [trials[place].key for place in (2, 0, 1, 3)]


@pytest.mark.parametrize(("trial", "size"), [(3, 1), (None, -1), (None, math.inf), (None, "2")])
def test_a_wrong_size_is_refused(trial: object, size: object) -> None:
    with pytest.raises(InputError):
        Sized(load_spec(grid(2)).trials[0] if trial is None else trial, size)


def test_lines_say_how_far_the_sweep_is(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with (
        path.open("w", encoding="utf-8") as stream,
        SweepProgress(10, [1.0] * 8, 3, True, stream) as progress,
    ):
        for _ in range(3):
            progress.finish(1.0, 0.5, failed=False)
        progress.finish(1.0, None, failed=False)
        progress.finish(1.0, 0.5, failed=True)
    first, last = path.read_text(encoding="utf-8").splitlines()
    assert first.startswith("sweep: 2/10 trials · 2 from before · 3 running · 0 s")
    assert last.startswith("sweep: 6/10 trials · 2 from before · 1 failed · 3 running")


def test_the_line_says_that_workers_start_until_the_first_trial_begins() -> None:
    progress = SweepProgress(2, [1.0, 2.0], 2, False)
    progress.start()
    assert progress.line.startswith("0/2 trials · starting 2 workers · 0 s")
    progress.begin()
    assert progress.line.startswith("0/2 trials · 2 running · 0 s")


def test_a_sweep_tells_when_its_workers_start_and_when_trials_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    told: list[str] = []
    monkeypatch.setattr(SweepProgress, "start", lambda self: told.append("start"))
    monkeypatch.setattr(SweepProgress, "begin", lambda self: told.append("begin"))
    sweep(grid(2), store=tmp_path / "s.sqlite", workers=1, function=sweep_standin.tiny)
    assert told == ["start", "begin"]


def show(wanted: bool | None, stream: TextIO | None = None) -> None:
    with SweepProgress(2, [1.0, 2.0], 1, wanted, stream) as progress:
        progress.finish(1.0, 0.1, failed=False)


def test_a_terminal_has_a_live_line(on_a_terminal: Callable[[Callable[[], object]], str]) -> None:
    assert "1/2 trials" in on_a_terminal(lambda: show(None))


def test_a_pipe_has_lines_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    with path.open("w", encoding="utf-8") as pipe:
        show(None, pipe)
        show(False, pipe)
        assert path.read_text(encoding="utf-8") == ""
        show(True, pipe)
    assert "1/2 trials" in path.read_text(encoding="utf-8")
