"""Stores that somebody has changed: triggers, views, odd rows, links beside them."""

import os
import sqlite3
from pathlib import Path

import pytest

from attnrate.errors import StoreError
from attnrate.fitting.store import Store
from attnrate.fitting.trial import Trial

TRIAL = Trial({"kind": "a"}, {"kind": "b"})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.sqlite"
    with Store(path) as kept:
        kept.add(TRIAL, {"error": 0.5}, 1.0, "test")
    return path


def change(path: Path, sql: str) -> None:
    opened = sqlite3.connect(path)
    opened.executescript(sql)
    opened.close()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON claim BEGIN DELETE FROM trial; END",
        "CREATE VIEW v AS SELECT * FROM trial",
        "DROP TABLE claim; CREATE VIEW claim AS SELECT key, worker AS owner FROM trial",
    ],
)
def test_what_runs_by_itself_is_refused_and_left_alone(store: Path, sql: str) -> None:
    change(store, sql)
    with pytest.raises(StoreError, match="no attnrate has put there"):
        Store(store)
    assert sqlite3.connect(store).execute("SELECT count(*) FROM trial").fetchone() == (1,)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE trial SET result = 'no json'",
        "UPDATE trial SET result = '[1]'",
        "UPDATE trial SET settings = replace(hex(zeroblob(50000)), '0', '[')",
        "UPDATE trial SET seconds = 'a while'",
        "UPDATE trial SET worker = x'00'",
    ],
)
def test_a_damaged_row_is_said(store: Path, sql: str) -> None:
    change(store, sql)
    with Store(store) as kept, pytest.raises(StoreError, match="damaged"):
        kept.finished()


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_sqlite_never_writes_into_a_users_file_by_a_link(
    store: Path, end: str, link: object
) -> None:
    own = store.with_name("thesis.txt")
    own.write_bytes(b"years of work")
    link(own, f"{store}{end}")  # type: ignore[operator]
    with pytest.raises(StoreError, match="link"):
        Store(store)
    assert own.read_bytes() == b"years of work"
