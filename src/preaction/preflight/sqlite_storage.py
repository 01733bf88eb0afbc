"""Records in an SQLite file, for several processes of one machine. It belongs on a disk of this machine."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from preaction.errors import ConfigurationError
from preaction.options import seconds_of
from preaction.preflight.storage import Record, is_executed, key_of, read, written

_APPLICATION_ID: Final = 0x70726670  # "prfp", in the file's header
_VERSION: Final = 1

# The triggers hold back a slip, not whoever may write to the file: for that see `SignedStorage`
_TABLES: Final = (
    "CREATE TABLE records (number INTEGER PRIMARY KEY, action_key TEXT NOT NULL, executed INTEGER NOT NULL,"
    " record TEXT NOT NULL)",
    "CREATE INDEX records_of_key ON records (action_key, executed, number)",
    "CREATE TABLE claims (name TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TRIGGER records_stay BEFORE DELETE ON records BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    "CREATE TRIGGER records_hold BEFORE UPDATE ON records BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)


class SqliteStorage:
    """Records in the file at `path`, made if it isn't there, and readable to its owner alone.

    A record is on the disk when `persist` returns. A process waits `timeout_s` for the others; then, as for a full disk
    or a damaged file, a method raises `sqlite3.Error`, and nothing acts. Raises `ConfigurationError` for a path where
    no such file can be.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 5.0) -> None:
        self._path = Path(path).absolute()
        self._timeout_s = seconds_of(timeout_s, "timeout_s")
        try:
            self._make()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise ConfigurationError(f"storage: {self._path} can't hold records: {error}") from None

    def persist(self, action_key: str, record: Record) -> None:
        """Add a record; see `Storage.persist`."""
        row = (key_of(action_key), is_executed(record), written(record))
        with self._opened() as db:
            db.execute("INSERT INTO records (action_key, executed, record) VALUES (?, ?, ?)", row)

    def load(self, action_key: str) -> dict[str, Any] | None:
        """What was executed last; see `Storage.load`."""
        query = "SELECT record FROM records WHERE action_key = ? AND executed = 1 ORDER BY number DESC LIMIT 1"
        with self._opened() as db:
            found = db.execute(query, (key_of(action_key),)).fetchone()
        return None if found is None else read(found[0])

    def claim(self, name: str) -> bool:
        """Whether this is the first to claim `name`; see `Claiming.claim`."""
        with self._opened() as db:
            return db.execute("INSERT OR IGNORE INTO claims (name) VALUES (?)", (name,)).rowcount == 1

    def records(self, action_key: str | None = None) -> list[dict[str, Any]]:
        """The records under a key, or all of them, in the order in which they were persisted."""
        key = None if action_key is None else key_of(action_key)
        query = "SELECT record FROM records WHERE ?1 IS NULL OR action_key = ?1 ORDER BY number"
        with self._opened() as db:
            return [record for (text,) in db.execute(query, (key,)) if (record := read(text)) is not None]

    def _make(self) -> None:
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's further files take over the mode
        with self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            made_by = db.execute("PRAGMA application_id").fetchone()[0]
            version = db.execute("PRAGMA user_version").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if tables == 0 and made_by == 0:
                for statement in _TABLES:
                    db.execute(statement)
            elif (made_by, version) != (_APPLICATION_ID, _VERSION):
                raise ValueError("the file is another program's, or of another version")
            db.execute("COMMIT")
            with suppress(sqlite3.OperationalError):
                # Stays with the file. Refused while another process reads: then readers wait for writers, no more.
                db.execute("PRAGMA journal_mode = WAL")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection for one use: it crosses no thread and no fork, and each statement is a transaction."""
        with closing(sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = FULL")
            yield db
