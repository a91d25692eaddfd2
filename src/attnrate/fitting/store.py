"""The store of a sweep: an SQLite file with one row per finished trial, keyed by its settings."""

import json
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_origin

from attnrate.errors import InputError, StoreError
from attnrate.fitting.job import Job, Settings, canonical
from attnrate.fitting.owner import alive, myself
from attnrate.fitting.records import Failed, Finished, Status
from attnrate.settings import by, checked

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
_KEPT = "Every finished trial is kept; run the same again to go on."
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


def require_store(name: str, store: object) -> Path:
    """The path of a store; an InputError if it is no name of a file."""
    if not isinstance(store, (str, Path)) or not str(store):
        raise InputError("store must be the name of a file", store, "As sweep.sqlite.")
    return Path(store)


StoreFile = Annotated[str | Path, by(require_store)]


class Store:
    """The finished trials of sweeps, in one SQLite file.

    Several processes of one machine may use it at once. A row is written in one transaction and
    forced to the disk, so a process that is killed leaves the row whole or not at all. Adding a
    trial that is there already changes nothing.

    Args:
        path: The file; it is made if it does not exist and the store is writable.
        writable: False opens an existing store for reading only, also on a medium that cannot be
            written.
        timeout: Seconds to wait while another process writes.

    Examples:
        >>> trial = ar.Trial({"kind": "spectral", "alpha": 1.0, "rank": 2}, {"kind": "gru"})
        >>> with ar.Store("results.sqlite") as store:
        ...     store.add(trial, {"error": 0.25}, seconds=1.5, worker="here")
        ...     store.to_frame()[["error", "seed", "model.kind"]]
        True
           error  seed model.kind
        0   0.25     0        gru

    """

    @checked
    def __init__(self, path: StoreFile, writable: bool = True, timeout: float = 30.0) -> None:
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

    def add(self, job: Job, result: Settings, seconds: float, worker: str) -> bool:
        """Keep a finished job.

        Args:
            job: The job.
            result: Its result, in plain JSON values.
            seconds: Seconds that it took.
            worker: The name of the process that ran it.

        Returns:
            False if it was there already, which then stays.

        """
        row = (job.key, canonical(job.settings), canonical(dict(result)), seconds, worker, _now())
        with self._transaction(durable=True):
            added = self._db.execute("INSERT OR IGNORE INTO trial VALUES (?, ?, ?, ?, ?, ?)", row)
            self._db.execute("DELETE FROM failure WHERE key = ?", (job.key,))
            self._db.execute("DELETE FROM claim WHERE key = ?", (job.key,))
        return added.rowcount == 1

    def add_failure(self, job: Job, error: str, worker: str) -> None:
        """Keep why a job failed, unless another process has finished it meanwhile.

        Args:
            job: The job; the next sweep tries it again.
            error: The text of the error.
            worker: The name of the process that ran it.

        """
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
        """Reserve a job for this process.

        A claim ends with its process, however that ends, so that nobody waits for a dead one.

        Args:
            job: The job.

        Returns:
            False if the job is finished or another process has it.

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
        """Give up the claims of this process. They also end with the process."""
        with suppress(StoreError), self._transaction():
            self._db.execute("DELETE FROM claim WHERE owner = ?", (self._owner,))

    def finished(self, jobs: Iterable[Job] | None = None) -> list[Finished]:
        """Return finished jobs with their results.

        Args:
            jobs: The jobs to look for; the rows come in their order. By default all rows, ordered
                by their settings.

        """
        return _in_order(self._rows("trial", Finished), jobs)

    def failed(self, jobs: Iterable[Job] | None = None) -> list[Failed]:
        """Return jobs that failed when they were last tried, with their errors.

        Args:
            jobs: The jobs to look for; the rows come in their order. By default all rows, ordered
                by their settings.

        """
        return _in_order(self._rows("failure", Failed), jobs)

    def forget(self, keys: Iterable[str]) -> None:
        """Remove finished jobs, so that the next sweep runs them again.

        Args:
            keys: Their keys.

        """
        with self._transaction(durable=True):
            self._db.executemany("DELETE FROM trial WHERE key = ?", [(key,) for key in keys])

    def finished_keys(self) -> set[str]:
        """Return the keys of all finished jobs."""
        with self._translated():
            return {row[0] for row in self._db.execute("SELECT key FROM trial")}

    def status(self, jobs: Iterable[Job]) -> Status:
        """Count the jobs that are finished, failed, and being run by a living process.

        Args:
            jobs: The jobs of a sweep.

        """
        keys = {job.key for job in jobs}
        finished = self.finished_keys() & keys
        with self._translated():
            failed = {row[0] for row in self._db.execute("SELECT key FROM failure")}
            claims = self._db.execute("SELECT key, owner FROM claim").fetchall()
        living = {owner: alive(owner) for owner in {owner for _, owner in claims}}
        running = {key for key, owner in claims if living[owner]} & keys - finished
        return Status(len(keys), len(finished), len(failed & keys - running), len(running))

    def to_frame(self) -> "pd.DataFrame":
        """Return all finished trials as a table: the error, what varies and the seed first."""
        from attnrate.fitting.table import trials_frame

        return trials_frame(self.finished())

    def export(self, path: str | Path) -> Path:
        """Write the table of `to_frame` to a file.

        Args:
            path: The name of the file; it ends in .csv or .parquet.

        """
        from attnrate.fitting.table import check_export, export_frame

        check_export(path)
        return export_frame(self.to_frame(), path)

    def close(self) -> None:
        """Close the file; what was added stays."""
        self._db.close()

    def __repr__(self) -> str:
        try:
            finished, failed = len(self.finished_keys()), len(self.failed())
        except StoreError:  # such as one that was closed
            return f"Store({str(self.path)!r})"
        more = f", {failed} failed" if failed else ""
        return f"Store({str(self.path)!r}): {finished} trials finished{more}"

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
            # A closed WAL database has nothing in its side files. Where these cannot be made (no
            # space, no right), SQLite reads it only as one that nobody can write.
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
        """Refuse other files: SQLite takes a short one for an empty database and replaces it."""
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
        """Refuse what could run by itself: views, triggers and virtual tables."""
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
        """Refuse links where SQLite writes its own files: they could lead to files of the user."""
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
        """Switch to WAL; wait for another process that creates the store, as SQLite does not."""
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
        """All rows of a table, ordered by settings; a StoreError for rows that are damaged."""
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
                "Keep a copy; delete the row with sqlite3, and run the same again.",
            ) from None

    def _number(self, query: str) -> int:
        return int(self._db.execute(query).fetchone()[0])

    @contextmanager
    def _transaction(self, durable: bool = False) -> Iterator[None]:
        """Write all or nothing; `durable` waits for the disk, which claims do not need."""
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
    """The value of a column, read from JSON if a dict is wanted; ValueError for other types."""
    found = json.loads(value) if kind is dict and isinstance(value, str) else value
    if not isinstance(found, kind):
        raise ValueError(f"a value of another type, {str(value)[:64]!r}")
    return found


def _in_order(found: list[Row], jobs: Iterable[Job] | None) -> list[Row]:
    """All rows, or the rows of these jobs in the order of the jobs."""
    if jobs is None:
        return found
    by_key = {row.key: row for row in found}
    return [by_key[job.key] for job in jobs if job.key in by_key]
