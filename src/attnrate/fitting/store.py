"""The store of a sweep: SQLite, one row a finished trial, keyed by the hash of its settings."""

import json
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

from attnrate.errors import InputError, StoreError
from attnrate.fitting.job import Job, canonical
from attnrate.fitting.owner import alive, myself
from attnrate.fitting.records import Failed, Finished, Status

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1
_APPLICATION = 0x61747472  # "attr": tells our file from another program's database
_HEADER = b"SQLite format 3\0"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS trial (
  key TEXT PRIMARY KEY, settings TEXT NOT NULL, result TEXT NOT NULL,
  seconds REAL NOT NULL, worker TEXT NOT NULL, finished TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failure (
  key TEXT PRIMARY KEY, settings TEXT NOT NULL, error TEXT NOT NULL,
  attempts INTEGER NOT NULL, worker TEXT NOT NULL, failed TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claim (key TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
"""
_KEPT = "Every trial that was finished is kept; run the same sweep again to go on."
_FIRST = "Run the sweep first."
_REMEDIES = {
    "SQLITE_FULL": ("the disk is full", f"Free some space. {_KEPT}"),
    "SQLITE_READONLY": (
        "the store cannot be written",
        "Make the file and its folder writable, or name another file. Nothing was changed.",
    ),
    "SQLITE_BUSY": ("the store is locked by another process", f"Wait for it or end it. {_KEPT}"),
    "SQLITE_NOTADB": ("this file is no store", "Name another file. It was left as it is."),
    "SQLITE_CORRUPT": ("the store is damaged", "Keep a copy; `sqlite3 FILE .recover` may help."),
    "SQLITE_CANTOPEN": (
        "the store cannot be opened",
        "Check that its folder exists and can be written.",
    ),
    "SQLITE_IOERR": ("the disk failed or is full", f"Check it and free some space. {_KEPT}"),
}


Row = TypeVar("Row", Finished, Failed)


class NoStoreError(StoreError):
    """No sweep has made the store yet."""


class Store:
    """Finished trials in one SQLite file. Several processes of one machine may use it at once.

    A row is written in one transaction and forced to the disk, so a process that is killed leaves
    the row whole or not at all. Adding a trial that is there already changes nothing. A store that
    is opened with `writable=False` can lie on a medium that cannot be written.
    """

    def __init__(self, path: object, writable: bool = True, timeout: float = 30.0) -> None:
        if not isinstance(path, (str, Path)) or not str(path):
            raise InputError("store must be the name of a file", path, "As sweep.sqlite.")
        self.path = Path(path).absolute()
        self._owner = myself()
        self._timeout = timeout
        if not self.path.parent.is_dir():
            raise StoreError(
                "the store's folder does not exist", self.path.parent, "Create it first."
            )
        if self.path.is_dir():
            raise StoreError("the store must be a file, this is a folder", self.path)
        if not writable and not self.path.exists():
            raise NoStoreError("there is no store", self.path, _FIRST)
        self._check_header()
        self._check_beside()
        with self._translated():
            self._db = self._connected(writable)
        try:
            with self._translated():
                self._check_kind(writable)
                if writable:
                    self._make_ready()
        except BaseException:
            self._db.close()
            raise

    def add(self, job: Job, result: Mapping[str, Any], seconds: float, worker: str) -> bool:
        """Keep a finished trial; False when it was there already."""
        row = (job.key, canonical(job.settings), canonical(result), seconds, worker, _now())
        with self._transaction(durable=True):
            added = self._db.execute("INSERT OR IGNORE INTO trial VALUES (?, ?, ?, ?, ?, ?)", row)
            self._db.execute("DELETE FROM failure WHERE key = ?", (job.key,))
            self._db.execute("DELETE FROM claim WHERE key = ?", (job.key,))
        return added.rowcount == 1

    def add_failure(self, job: Job, error: str, worker: str) -> None:
        """Keep why a trial failed, unless another process has finished it; it is tried again."""
        row = (job.key, canonical(job.settings), error, worker, _now(), job.key)
        with self._transaction(durable=True):
            self._db.execute(
                "INSERT INTO failure SELECT ?, ?, ?, 1, ?, ? "
                "WHERE NOT EXISTS (SELECT 1 FROM trial WHERE key = ?) "
                "ON CONFLICT (key) DO UPDATE SET error = excluded.error, "
                "attempts = attempts + 1, worker = excluded.worker, failed = excluded.failed",
                row,
            )
            self._db.execute("DELETE FROM claim WHERE key = ?", (job.key,))

    def claim(self, job: Job) -> bool:
        """Reserve a trial for this process; False when it is finished or another has it.

        A claim ends with its process, however that ended, so that nothing waits for the dead.
        """
        with self._transaction():
            if self._db.execute("SELECT 1 FROM trial WHERE key = ?", (job.key,)).fetchone():
                return False
            row = self._db.execute("SELECT owner FROM claim WHERE key = ?", (job.key,)).fetchone()
            if row and row[0] != self._owner and alive(row[0]):
                return False
            self._db.execute("INSERT OR REPLACE INTO claim VALUES (?, ?)", (job.key, self._owner))
        return True

    def release(self) -> None:
        """Give up the claims of this process, if that can be written; its end voids them too."""
        with suppress(StoreError), self._transaction():
            self._db.execute("DELETE FROM claim WHERE owner = ?", (self._owner,))

    def finished(self, jobs: Iterable[Job] | None = None) -> list[Finished]:
        """Those of `jobs` that are finished, in their order; if None all, by their settings."""
        return _in_order(self._rows("trial", Finished), jobs)

    def failed(self, jobs: Iterable[Job] | None = None) -> list[Failed]:
        """Those of `jobs` that failed when last tried, in their order; all if None."""
        return _in_order(self._rows("failure", Failed), jobs)

    def forget(self, keys: Iterable[str]) -> None:
        """Take finished trials out, so that the next sweep runs them again."""
        with self._transaction(durable=True):
            self._db.executemany("DELETE FROM trial WHERE key = ?", [(key,) for key in keys])

    def finished_keys(self) -> set[str]:
        """The keys of all finished trials."""
        with self._translated():
            return {row[0] for row in self._db.execute("SELECT key FROM trial")}

    def status(self, jobs: Iterable[Job]) -> Status:
        """How many of `jobs` are finished, failed, and being run by a living process."""
        keys = {job.key for job in jobs}
        finished = self.finished_keys() & keys
        with self._translated():
            failed = {row[0] for row in self._db.execute("SELECT key FROM failure")}
            claims = self._db.execute("SELECT key, owner FROM claim").fetchall()
        living = {owner: alive(owner) for owner in {owner for _, owner in claims}}
        running = {key for key, owner in claims if living[owner]} & keys - finished
        return Status(len(keys), len(finished), len(failed & keys - running), len(running))

    def to_frame(self) -> "pd.DataFrame":
        """Every finished trial, one row each."""
        from attnrate.fitting.table import frame

        return frame(row.row for row in self.finished())

    def export(self, path: object) -> Path:
        """Write every finished trial to a .csv or .parquet file."""
        from attnrate.fitting.table import check_export, export_frame

        check_export(path)
        return export_frame(self.to_frame(), path)

    def close(self) -> None:
        """Close the file; what was added stays."""
        self._db.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self, writable: bool) -> sqlite3.Connection:
        if writable:
            return sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None)
        try:
            return self._opened_for_reading("mode=ro")
        except sqlite3.OperationalError:
            # A WAL database that was closed has nothing in its side files. Where they cannot be
            # made (no space, no right), SQLite reads it only when told that nobody can write.
            wal = Path(f"{self.path}-wal")
            if wal.exists() and wal.stat().st_size:
                raise
            return self._opened_for_reading("immutable=1")

    def _opened_for_reading(self, mode: str) -> sqlite3.Connection:
        place = f"{self.path.as_uri()}?{mode}"
        db = sqlite3.connect(place, uri=True, timeout=self._timeout, isolation_level=None)
        try:
            db.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _check_header(self) -> None:
        """SQLite takes a short file of any content for an empty database, and would replace it."""
        try:
            with self.path.open("rb") as file:
                start = file.read(len(_HEADER))
        except FileNotFoundError:
            return
        except OSError as problem:
            raise StoreError(
                f"the store cannot be read ({problem.strerror})", self.path, "Make it readable."
            ) from problem
        if start not in (b"", _HEADER):
            what, remedy = _REMEDIES["SQLITE_NOTADB"]
            raise StoreError(what, self.path, remedy)

    def _check_kind(self, writable: bool) -> None:
        version = self._number("PRAGMA user_version")
        tables = self._number("SELECT count(*) FROM sqlite_master")
        if tables and self._number("PRAGMA application_id") != _APPLICATION:
            raise StoreError(
                "this file is a database of another program",
                self.path,
                "Name another file. It was left as it is.",
            )
        if not tables and not writable:  # a sweep that was killed before it made them
            raise NoStoreError("there is nothing in the store", self.path, _FIRST)
        self._check_schema()
        if version > VERSION:
            raise InputError(
                f"the store {self.path} was written by a newer attnrate; this one knows store "
                f"version {VERSION}",
                version,
                "Upgrade attnrate, or name another file. The store was left as it is.",
            )

    def _check_schema(self) -> None:
        """Refuse what runs by itself: views, triggers and virtual tables that are none of ours."""
        self._db.execute("PRAGMA trusted_schema = OFF")
        made = self._db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        strange = [
            f"{kind} {name}"
            for kind, name, sql in made
            if kind not in ("table", "index") or "VIRTUAL" in str(sql).upper().split()[:3]
        ]
        if strange:
            raise StoreError(
                f"the store holds what no attnrate has put there ({', '.join(strange)[:100]})",
                self.path,
                "Name another file. It was left as it is.",
            )

    def _check_beside(self) -> None:
        """SQLite writes into files beside the store, which must not be a user's by a link."""
        for end in ("-wal", "-shm", "-journal"):
            beside = Path(f"{self.path}{end}")
            try:
                found = beside.lstat()
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise StoreError(
                    "SQLite needs a file here, and there is a link or something else",
                    beside,
                    "Move it away. It was left as it is.",
                )

    def _make_ready(self) -> None:
        self._use_wal()
        with self._transaction(durable=True):
            for statement in _SCHEMA.split(";"):
                self._db.execute(statement)
            if self._number("PRAGMA user_version") < VERSION:
                # A PRAGMA takes no parameters; both are numbers of this module.
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _use_wal(self) -> None:
        """Two processes that create the store together: one has to wait, and SQLite does not."""
        give_up = time.monotonic() + self._timeout
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as problem:
                busy = problem.sqlite_errorname.startswith("SQLITE_BUSY")
                if not busy or time.monotonic() > give_up:
                    raise
                time.sleep(0.02)

    def _rows(self, table: str, record: type[Row]) -> list[Row]:
        """All rows of a table, by their settings; a StoreError for what is not attnrate's."""
        columns = {field.name: get_origin(field.type) or field.type for field in fields(record)}
        # The names of tables and columns take no parameters; all are words of this package.
        query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY settings"  # noqa: S608
        with self._translated():
            rows = self._db.execute(query).fetchall()
        try:
            return [record(*map(_column, row, columns.values())) for row in rows]
        except (ValueError, RecursionError) as problem:
            raise StoreError(
                f"a row of the store is damaged ({problem})",
                self.path,
                "Keep a copy; delete the row with sqlite3, and run the same sweep again.",
            ) from None

    def _number(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    @contextmanager
    def _transaction(self, durable: bool = False) -> Iterator[None]:
        """All or nothing; `durable` waits for the disk, which a claim is not worth."""
        with self._translated():
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as problem:
            name = getattr(problem, "sqlite_errorname", "")
            for start, (what, remedy) in _REMEDIES.items():
                if name.startswith(start):
                    raise StoreError(what, self.path, remedy) from problem
            raise StoreError(f"the store failed ({problem})", self.path) from problem


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _column(value: Any, kind: Any) -> Any:
    """The value of a column, of JSON where a dict is wanted; ValueError for another type."""
    found = json.loads(value) if kind is dict and isinstance(value, str) else value
    if not isinstance(found, kind):
        raise ValueError(f"a value of another type, {str(value)[:64]!r}")
    return found


def _in_order(found: list[Row], jobs: Iterable[Job] | None) -> list[Row]:
    """All that was found, or what was found of these jobs, in their order."""
    if jobs is None:
        return found
    by_key = {row.key: row for row in found}
    return [by_key[job.key] for job in jobs if job.key in by_key]
