"""The store: a trial is kept once and whole; what cannot be opened is named and left as it is."""

import itertools
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError, StoreError
from attnrate.fitting.owner import alive, myself
from attnrate.fitting.store import VERSION, Store
from attnrate.fitting.trial import Trial

needs_pyarrow = pytest.mark.skipif(
    find_spec("pyarrow") is None,
    reason="pyarrow is not installed",
)


def trial(seed: int = 0, **target: Any) -> Trial:
    return Trial({"kind": "spectral", **target}, {"kind": "gru", "hidden": 8}, {}, seed)


def fill(store: Store) -> None:
    for seed in itertools.count():
        store.add(trial(seed), {"text": "x" * 2000}, 0.1, "w")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sweep.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as opened:
        yield opened


def test_a_trial_comes_back_as_it_was_put_in(path: Path) -> None:
    result = {"error": 1 / 3, "steps": 7, "stopped": "plateau", "curve": [0.1, 2e-300]}
    with Store(path) as store:
        assert store.add(trial(3, alpha=0.55), result, 1.5, "here")
    with Store(path) as store:
        (row,) = store.finished()
    assert row.result == result
    assert row.settings == trial(3, alpha=0.55).settings
    assert (row.key, row.seconds, row.worker) == (trial(3, alpha=0.55).key, 1.5, "here")


def test_the_first_result_of_a_trial_stays(store: Store) -> None:
    assert store.add(trial(), {"error": 1}, 1.0, "first")
    assert not store.add(trial(), {"error": 2}, 2.0, "second")
    (row,) = store.finished()
    assert (row.result, row.worker) == ({"error": 1}, "first")


def test_a_failure_is_counted_and_gone_after_success(store: Store) -> None:
    store.add_failure(trial(), "no luck", "a")
    store.add_failure(trial(), "again no luck", "b")
    (row,) = store.failed()
    assert (row.error, row.attempts, row.worker) == ("again no luck", 2, "b")
    store.add(trial(), {}, 0.1, "c")
    assert store.failed() == []
    assert len(store.finished()) == 1


def test_a_store_shows_its_file_and_the_number_of_its_trials(store: Store) -> None:
    store.add(trial(0), {}, 0.0, "")
    assert repr(store) == f"Store({str(store.path)!r}): 1 trials finished"
    store.add_failure(trial(1), "no luck", "a")
    assert repr(store).endswith(": 1 trials finished, 1 failed")
    store.close()
    assert repr(store) == f"Store({str(store.path)!r})"


def test_rows_come_in_the_order_of_the_trials_that_are_asked_for(store: Store) -> None:
    for seed in (0, 1, 2, 3):
        store.add(trial(seed), {}, 0.0, "")
    asked = [trial(2), trial(9), trial(0)]
    assert [row.settings["seed"] for row in store.finished(asked)] == [2, 0]


def test_the_status_counts_each_trial_once(store: Store) -> None:
    trials = [trial(seed) for seed in range(6)]
    store.add(trials[0], {}, 0.0, "")
    store.add(trial(77), {}, 0.0, "")
    store.add_failure(trials[1], "no", "")
    store.add_failure(trials[2], "no", "")
    assert store.claim(trials[2])
    assert store.claim(trials[3])
    status = store.status(trials)
    assert (status.total, status.finished, status.failed, status.running) == (6, 1, 1, 2)
    assert status.waiting == 2
    assert str(status) == "1 of 6 trials finished, 1 failed (to be retried), 2 running, 2 waiting"


def test_a_claim_keeps_other_processes_out_while_its_owner_lives(path: Path, store: Store) -> None:
    program = (
        "import sys\nfrom attnrate.fitting.store import Store\n"
        "from attnrate.fitting.trial import Trial\n"
        "claimed = Store(sys.argv[1]).claim(Trial({}, {}, {}, 5))\n"
        "print(claimed, flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert not store.claim(Trial({}, {}, {}, 5))
        assert store.claim(Trial({}, {}, {}, 6))
        assert store.status([Trial({}, {}, {}, 5)]).running == 1
        other.kill()
    assert store.claim(Trial({}, {}, {}, 5))
    assert store.status([Trial({}, {}, {}, 5)]).running == 1


def test_a_claim_of_a_finished_trial_is_refused_and_a_released_one_is_free(store: Store) -> None:
    store.add(trial(0), {}, 0.0, "")
    assert not store.claim(trial(0))
    assert store.claim(trial(1))
    store.release()
    assert store.status([trial(0), trial(1)]).running == 0


def test_a_process_number_that_is_used_again_is_another_process() -> None:
    host, number, born = myself().split("/")
    assert alive(f"{host}/{number}/{born}")
    assert not alive(f"{host}/{number}/{born}1")
    assert not alive(f"elsewhere/{number}/{born}")
    assert not alive("nonsense")


def test_a_table_has_a_column_for_every_setting_and_result(store: Store) -> None:
    store.add(trial(0, kernel=[1, 2], mix={"causal": True}), {"error": 0.5}, 2.0, "w")
    (row,) = store.to_frame().to_dict("records")
    assert row["target.kernel"] == "[1, 2]"
    assert row["target.mix.causal"] is True
    assert (row["model.hidden"], row["seed"], row["error"]) == (8, 0, 0.5)
    assert (row["trial_seconds"], row["worker"]) == (2.0, "w")


@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=needs_pyarrow)])
def test_an_export_reads_back_as_the_table(kind: str, store: Store, tmp_path: Path) -> None:
    for seed in range(3):
        result = {"error": 1 / (seed + 3), "stopped": "plateau", "diverged": seed == 1}
        store.add(trial(seed, alpha=0.1 * seed), result, 0.1, "w")
    path = store.export(tmp_path / f"table.{kind}")
    again = pd.read_csv(path) if kind == "csv" else pd.read_parquet(path)
    pd.testing.assert_frame_equal(again, store.to_frame(), check_dtype=False, check_exact=True)
    assert sorted(p.name for p in tmp_path.iterdir() if "table" in p.name) == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600


@needs_pyarrow
def test_numbers_among_words_become_words_in_parquet(store: Store, tmp_path: Path) -> None:
    store.add(trial(0, kernel="exponential"), {}, 0.1, "w")
    store.add(trial(1, kernel=3), {}, 0.1, "w")
    store.add(trial(2), {}, 0.1, "w")
    table = pd.read_parquet(store.export(tmp_path / "table.parquet"))
    assert sorted(table["target.kernel"].dropna()) == ["3", "exponential"]


def test_an_export_replaces_the_old_file_only_when_it_is_whole(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(trial(0), {"error": 1}, 0.1, "w")
    path = tmp_path / "table.csv"
    path.write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pd.DataFrame, "to_csv", full)
        with pytest.raises(StoreError, match="No space left"):
            store.export(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.glob("*table*")] == ["table.csv"]
    store.export(path)
    assert pd.read_csv(path)["error"].tolist() == [1]


@given(st.sampled_from(["t.xlsx", "t", "t.CSVX", "no/such/folder/t.csv"]) | st.integers())
def test_an_export_elsewhere_is_refused_with_its_name(name: object) -> None:
    from attnrate.fitting.table import check_export

    with pytest.raises(InputError) as caught:
        check_export(name)
    assert caught.value.value in (name, "no/such/folder")


def test_parquet_without_pyarrow_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'pyarrow"):
        store.export(tmp_path / "table.parquet")


def test_a_store_from_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    with Store(path) as store:
        store.add(trial(), {"error": 1}, 0.1, "w")
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(InputError, match=f"store version {VERSION}") as caught:
        Store(path)
    assert caught.value.value == VERSION + 1
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"x", b"short", b"a text file\n" * 100, b"SQLite format 3\0" + b"x" * 99]
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for writable in (True, False):
        with pytest.raises(StoreError, match="no store"):
            Store(path, writable=writable)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE trial (anything)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before


def test_a_damaged_store_is_an_error_that_says_so(path: Path) -> None:
    with Store(path) as store:
        for seed in range(200):
            store.add(trial(seed), {"error": seed}, 0.1, "w")
    content = bytearray(path.read_bytes())
    content[4096 : len(content) - 4096] = os.urandom(len(content) - 8192)
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="damaged"):
        Store(path).finished()


def test_places_where_no_store_can_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder does not exist"):
        Store(tmp_path / "no" / "sweep.sqlite")
    with pytest.raises(StoreError, match="this is a folder"):
        Store(tmp_path)
    with pytest.raises(StoreError, match="there is no store"):
        Store(tmp_path / "none.sqlite", writable=False)
    assert list(tmp_path.iterdir()) == []


@given(st.none() | st.integers() | st.just("") | st.binary())
def test_what_names_no_file_is_refused(path: object) -> None:
    with pytest.raises(InputError) as caught:
        Store(path)
    assert caught.value.value == path


def test_a_locked_store_is_an_error_after_the_timeout(path: Path, store: Store) -> None:
    store.add(trial(0), {"error": 1}, 0.1, "w")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked by another process"):
        Store(path, timeout=0.05)
    with Store(path, writable=False, timeout=0.05) as reader:
        assert len(reader.finished()) == 1
    holder.execute("ROLLBACK")
    holder.close()
    with Store(path, timeout=0.05) as again:
        assert again.add(trial(1), {"error": 2}, 0.1, "w")


def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_space(path: Path) -> None:
    with Store(path) as store:
        # SQLite answers a write beyond this size as it does a full disk: SQLITE_FULL.
        store._db.execute("PRAGMA max_page_count = 12")
        with pytest.raises(StoreError, match=r"disk is full.*Free some space"):
            fill(store)
        kept = len(store.finished())
        assert kept == store._db.total_changes > 0
        store._db.execute("PRAGMA max_page_count = 1000000")
        assert store.add(trial(kept), {"text": "x" * 2000}, 0.1, "w")
    with Store(path) as store:
        assert len(store.finished()) == kept + 1


def test_two_processes_may_create_and_fill_one_store_at_once(path: Path) -> None:
    program = (
        "import sys\nfrom attnrate.fitting.store import Store\n"
        "from attnrate.fitting.trial import Trial\n"
        "with Store(sys.argv[1]) as store:\n"
        "    for i in range(100):\n"
        "        store.add(Trial({}, {}, {}, i), {'error': i}, 0.1, sys.argv[2])"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, path, name]) for name in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    with Store(path) as store:
        rows = store.finished()
        assert sorted(row.result["error"] for row in rows) == [*range(100)]
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_failure_that_comes_after_another_process_has_finished_is_none(tmp_path: Path) -> None:
    trial = Trial({"kind": "linear"}, {"kind": "gru"}, {}, 0)
    with Store(tmp_path / "s.sqlite") as store:
        store.add(trial, {"error": 0.1}, 1.0, "one")
        store.add_failure(trial, "killed", "other")
        assert store.failed([trial]) == []
        status = store.status([trial])
        assert (status.finished, status.failed) == (1, 0)
