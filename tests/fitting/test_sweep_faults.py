"""Sweeps that are killed, interrupted, share a store, fill the disk: nothing lost or doubled."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import sweep_standin
from sweep_standin import DEATHS, entries, grid, times, tiny, value

from attnrate.errors import StoreError
from attnrate.fitting.spec import load_spec
from attnrate.fitting.store import Store
from attnrate.fitting.sweep import SweepResult, sweep, sweep_status

TRIALS, SLEEP, WORKERS = 12, 0.05, 2
KILLS_A_STORE = 2
VARYING = ["trial_seconds", "worker", "finished"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


def start(store: Path, trials: int = TRIALS, sleep: float = SLEEP) -> subprocess.Popen[str]:
    """A sweep in a process of its own.

    Tests that run in the background of a shell have Ctrl-C ignored, and would hand that on; a
    handler of our own is not handed on, and the process begins as on a terminal.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, sweep_standin.__file__, store, str(trials), str(sleep)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def resume(store: Path) -> SweepResult:
    return sweep(grid(TRIALS, SLEEP), store=store, workers=WORKERS, function=tiny)


def table(result: SweepResult) -> pd.DataFrame:
    return result.to_frame().drop(columns=VARYING)


def kept(store: Path) -> dict[str, float]:
    """What the store holds, if the sweep lived long enough to make one."""
    if not store.exists():
        return {}
    with Store(store) as opened:
        assert opened._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row.key: row.result["value"] for row in opened.finished()}


def wait_until(condition: object, seconds: float = 60.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.005)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, float]:
    """The table of a sweep that nobody disturbs, and the seconds that its process takes."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("STANDIN_LOG", str(folder / "log"))
        begin = time.monotonic()
        with start(folder / "sweep.sqlite") as process:
            out, err = process.communicate(timeout=60)
        seconds = time.monotonic() - begin
        assert (process.returncode, err) == (0, "")
        assert f"{TRIALS} of {TRIALS} trials finished, {TRIALS} of them now" in out
        result = resume(folder / "sweep.sqlite")
    assert result.ran == 0
    return table(result), seconds


@pytest.mark.slow
@pytest.mark.parametrize("series", range(10))
def test_kill_9_at_any_moment_loses_only_trials_in_flight(
    series: int, store: Path, log: Path, whole: tuple[pd.DataFrame, float]
) -> None:
    expected = {trial.key: value(trial) for trial in load_spec(grid(TRIALS, SLEEP)).trials}
    uninterrupted, seconds = whole
    moments = random.Random(series)
    before: dict[str, float] = {}
    for _ in range(KILLS_A_STORE):
        begun = len(entries(log))
        process = start(store)
        time.sleep(moments.uniform(0, seconds))
        process.kill()
        process.communicate()
        pids = {pid for _, _, pid in entries(log)}
        wait_until(lambda pids=pids: all(map(gone, pids)))  # orphans end by themselves
        now = kept(store)
        assert before.items() <= now.items() <= expected.items()
        assert {*now} <= {*times(log, "end")}, "a result of a trial that never ended"
        again = {key for what, key, _ in entries(log)[begun:] if what == "begin"}
        assert not again & {*before}, "a finished trial was begun again"
        before = now
    result = resume(store)
    ends = times(log, "end")
    assert result.ran == TRIALS - len(before)
    assert kept(store) == expected
    assert {*ends} == {*expected}
    # A trial may have ended without being stored only if it was in flight when the kill came.
    assert sum(ends.values()) <= TRIALS + WORKERS * KILLS_A_STORE
    pd.testing.assert_frame_equal(table(result), uninterrupted)


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_trial_whose_worker_is_killed_is_begun_anew(
    deaths: int, store: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEATHS, str(deaths))
    function = sweep_standin.dies_for_seed_1
    result = sweep(grid(8, 0.01), store=store, workers=2, function=function)
    assert (len(result.finished), result.failed) == (8, ())
    assert times(log, "dies").total() == deaths
    assert times(log, "end") == {row.key: 1 for row in result.finished}


def test_a_trial_that_kills_every_worker_is_a_failure_and_the_others_go_on(
    store: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEATHS, "1000")
    function = sweep_standin.dies_for_seed_1
    result = sweep(grid(8, 0.01), store=store, workers=2, function=function)
    assert [row.settings["seed"] for row in result.failed] == [1, 1]
    assert all("died 3 times" in r.error and "SIGKILL" in r.error for r in result.failed)
    assert len(result.finished) == 6
    assert {*times(log, "dies").values()} == {3}


def test_a_worker_that_is_killed_from_outside_is_replaced(store: Path, log: Path) -> None:
    with start(store, sleep=0.3) as process:
        wait_until(lambda: len(entries(log)) > 3)
        victim = entries(log)[-1][2]
        os.kill(victim, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert len(kept(store)) == TRIALS
    assert len({pid for _, _, pid in entries(log)}) == WORKERS + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_a_dead_worker_leaves_behind_holds_nothing_up(store: Path, log: Path) -> None:
    function = sweep_standin.leaves_a_child_for_seed_1
    result = sweep(grid(4, 0.0), store=store, workers=1, function=function)
    (child,) = (pid for what, _, pid in entries(log) if what == "leaves")
    assert not gone(child), "the sweep waited for it"
    os.kill(child, signal.SIGKILL)
    assert len(result.finished) == 4


def test_ctrl_c_keeps_what_is_finished_ends_the_workers_and_says_how_to_go_on(
    store: Path, log: Path, whole: tuple[pd.DataFrame, float]
) -> None:
    with start(store) as process:
        wait_until(lambda: times(log, "end").total() >= 4)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"of {TRIALS} trials finished, all kept in {store}" in err
    assert "run the same again" in err
    assert all(gone(pid) for _, _, pid in entries(log))
    assert sweep_status(grid(TRIALS, SLEEP), store, function=tiny).running == 0
    before = kept(store)
    assert 3 <= len(before) < TRIALS
    result = resume(store)
    assert result.ran == TRIALS - len(before)
    pd.testing.assert_frame_equal(table(result), whole[0])


def test_two_sweeps_on_one_store_share_the_work(
    store: Path, log: Path, whole: tuple[pd.DataFrame, float]
) -> None:
    both = [start(store), start(store)]
    said = [process.communicate(timeout=60) for process in both]
    assert [err for _, err in said] == ["", ""]
    assert all(out.startswith(f"{TRIALS} of {TRIALS} trials finished") for out, _ in said)
    result = resume(store)
    assert times(log, "end") == {row.key: 1 for row in result.finished}
    pd.testing.assert_frame_equal(table(result), whole[0])


def test_a_sweep_takes_over_from_another_that_is_killed(store: Path, log: Path) -> None:
    # long trials: the first sweep must not end before the second has started
    first = start(store, sleep=1.0)
    wait_until(lambda: len(entries(log)) >= WORKERS)
    second = start(store, sleep=1.0)
    wait_until(lambda: len({pid for _, _, pid in entries(log)}) > WORKERS)
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=60)
    assert err == ""
    assert out.startswith(f"{TRIALS} of {TRIALS} trials finished")
    assert len(kept(store)) == TRIALS


def mounted(folder: Path, *options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 300 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mounted(folder, "size=300k"):
        pytest.skip("mounting a small disk needs root; test_store fills one by SQLite's own limit")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_a_clear_error_and_the_sweep_goes_on_when_there_is_space(
    small_disk: Path, log: Path, whole: tuple[pd.DataFrame, float]
) -> None:
    store, ballast = small_disk / "sweep.sqlite", small_disk / "ballast"
    first = sweep(grid(4, SLEEP), store=store, workers=WORKERS, function=tiny)
    with pytest.raises(OSError, match="No space"):
        fill(ballast)
    with pytest.raises(StoreError, match="full") as caught:
        resume(store)
    assert "ree some space" in str(caught.value)
    assert "run the same again" in str(caught.value)
    with Store(store, writable=False) as opened:
        assert {row.key for row in first.finished} <= opened.finished_keys()
    ballast.unlink()
    result = resume(store)
    assert {row.key for row in first.finished} <= {row.key for row in result.finished}
    pd.testing.assert_frame_equal(table(result), whole[0])


def test_a_store_that_cannot_be_written_is_refused_but_can_be_read(
    tmp_path: Path, log: Path
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    root = os.geteuid() == 0  # who may write everywhere, except on a medium mounted read-only
    if root and not mounted(folder, "size=1m"):
        pytest.skip("as root, a read-only store needs a read-only mount, which is not permitted")
    store = folder / "sweep.sqlite"
    sweep(grid(4, 0.0), store=store, workers=1, function=tiny)
    before = store.read_bytes()
    try:
        if root:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        else:
            store.chmod(0o400)
            folder.chmod(0o500)
        with pytest.raises(StoreError, match=r"cannot be (written|opened)") as caught:
            sweep(grid(8, 0.0), store=store, workers=1, function=tiny)
        assert "writ" in str(caught.value)
        assert str(sweep_status(grid(8, 0.0), store, function=tiny)).startswith("4 of 8")
        with Store(store, writable=False) as opened:
            assert len(opened.to_frame()) == 4
        assert times(log, "begin").total() == 4
        assert store.read_bytes() == before
    finally:
        if root:
            subprocess.run(["umount", str(folder)], check=True)
        else:
            folder.chmod(0o700)
