"""Sessions in an SQLite file, for several processes of one machine: workers, or hooks that are a process each.

The file holds what `MemoryStore` holds, and outlives the processes: of sessions that is identifiers, decisions and
digests of texts, never a text. It is made readable to its owner alone. It belongs on a disk of this machine: on a
network file system SQLite's locks may not hold.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from preaction.errors import ConfigurationError, SessionFull
from preaction.stores import Slot, Swapped

__all__ = ["SQLiteStore"]

APPLICATION_ID: Final = 0x70726173  # "pras", in the file's header
AGED_AT_ONCE: Final = 20
"""Idle sessions that one `put` removes at most, so that no call waits for all of them."""

_STEPS: Final = (
    (
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, is_full INTEGER NOT NULL DEFAULT 0, touched REAL NOT NULL)",
        "CREATE INDEX sessions_touched ON sessions (touched)",
        # In the order of their numbers, slots are in the order of their first put
        "CREATE TABLE slots (number INTEGER PRIMARY KEY, session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,"
        " grp TEXT NOT NULL, name TEXT NOT NULL, rank TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (session, grp, name))",
        "CREATE TABLE counts (session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, kind TEXT NOT NULL,"
        " slots INTEGER NOT NULL, PRIMARY KEY (session, kind))",
        "CREATE TABLE claims (name TEXT PRIMARY KEY, until REAL NOT NULL)",
        "CREATE INDEX claims_until ON claims (until)",
    ),
    (
        "CREATE TABLE texts (name TEXT PRIMARY KEY, value TEXT NOT NULL, until REAL NOT NULL)",
        "CREATE INDEX texts_until ON texts (until)",
    ),
    (
        # Kept by the file itself, whoever writes to it: to count the rows at each write takes longer with each of them
        "CREATE TABLE totals (kind TEXT PRIMARY KEY, held INTEGER NOT NULL)",
        "INSERT INTO totals SELECT 'claims', count(*) FROM claims",
        "CREATE TRIGGER claims_more AFTER INSERT ON claims"
        " BEGIN UPDATE totals SET held = held + 1 WHERE kind = 'claims'; END",
        "CREATE TRIGGER claims_less AFTER DELETE ON claims"
        " BEGIN UPDATE totals SET held = held - 1 WHERE kind = 'claims'; END",
        "INSERT INTO totals SELECT 'texts', count(*) FROM texts",
        "CREATE TRIGGER texts_more AFTER INSERT ON texts"
        " BEGIN UPDATE totals SET held = held + 1 WHERE kind = 'texts'; END",
        "CREATE TRIGGER texts_less AFTER DELETE ON texts"
        " BEGIN UPDATE totals SET held = held - 1 WHERE kind = 'texts'; END",
    ),
)
"""What makes each version of the file's tables out of the one before."""

SCHEMA_VERSION: Final = len(_STEPS)


class SQLiteStore:
    """A store in the file at `path`, which is made if it isn't there.

    A session takes `max_per_kind` new slots of each kind, and goes when nobody asked for it for `idle` (give or take a
    fiftieth). Claims and texts are kept for their time; at `max_claims` and `max_texts` no further one is taken. A
    process waits `timeout_s` for the others; then, as for a full disk or a damaged file, the method raises
    `sqlite3.Error`. `clock` gives the seconds since 1970, which all processes must share. A file of an earlier version
    is upgraded. Raises `ConfigurationError` for a path where no such store can be.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_per_kind: int = 20_000,
        max_claims: int = 100_000,
        max_texts: int = 100_000,
        idle: timedelta = timedelta(hours=48),
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path).absolute()
        self._max_per_kind = max_per_kind
        self._max_claims = max_claims
        self._max_texts = max_texts
        self._idle_s = idle.total_seconds()
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = 0
        try:
            self._make()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise ConfigurationError(f"store: {self._path} can't be a store: {error}") from None

    def close(self) -> None:
        """Close the file. A later call opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    # What every store does --------------------------------------------------------------------------------------------

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        """Keep all of `slots` or none; see `Store.put`."""
        with self._writing() as db:
            now = self._clock()
            db.execute(_TOUCH, (session, now))
            _age_out(db, now - self._idle_s)
            more = _new_of_each_kind(db, session, slots)
            held = dict(db.execute("SELECT kind, slots FROM counts WHERE session = ?", (session,)))
            too_many = any(held.get(kind, 0) + count > self._max_per_kind for kind, count in more.items())
            if too_many or _is_full(db, session):
                db.execute("UPDATE sessions SET is_full = 1 WHERE id = ?", (session,))
                return False
            db.executemany(_COUNT, [(session, kind, count) for kind, count in more.items()])
            db.executemany(_PUT, [(session, one.group, one.name, one.rank, one.value) for one in slots])
            return True

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        """The pairs of a group; see `Store.read`."""
        limit = -1 if at_most is None else at_most
        query = "SELECT name, value FROM slots WHERE session = ? AND grp = ? ORDER BY number LIMIT ?"
        with self._reading(session) as db:
            return db.execute(query, (session, group, limit)).fetchall()

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        """Those of `names` that exist; see `Store.read_many`."""
        query = "SELECT name, value FROM slots WHERE session = ? AND grp = ? AND name = ?"
        with self._reading(session) as db:
            found = (db.execute(query, (session, group, name)).fetchone() for name in names)
            return [pair for pair in found if pair is not None]

    def is_full(self, session: str) -> bool:
        """Whether the session had to refuse a record."""
        with self._reading(session) as db:
            return _is_full(db, session)

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        """Whether `name` is free, taking it with `take`; see `Store.claim`."""
        with self._writing() as db:
            now = self._clock()
            if db.execute("SELECT 1 FROM claims WHERE name = ? AND until > ?", (name, now)).fetchone():
                return "taken"
            db.execute("DELETE FROM claims WHERE until <= ?", (now,))
            if _held(db, "claims") >= self._max_claims:
                return "full"
            if take:
                db.execute("INSERT INTO claims (name, until) VALUES (?, ?)", (name, now + keep.total_seconds()))
            return "free"

    def look(self, name: str) -> str | None:
        """What stands under `name`; see `Store.look`."""
        with self._lock, self._opened() as db:
            return _text(db, name, self._clock())

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        """Put `new` in the place of `old`; see `Store.swap`."""
        with self._writing() as db:
            now = self._clock()
            held = _text(db, name, now)
            if held != old:
                return Swapped(False, held)
            db.execute("DELETE FROM texts WHERE until <= ?", (now,))
            if new is None:
                db.execute("DELETE FROM texts WHERE name = ?", (name,))
            elif held is None and _held(db, "texts") >= self._max_texts:
                raise SessionFull("the store is at its bound and takes no more texts")
            else:
                db.execute(_SWAP, (name, new, now + keep.total_seconds()))
            return Swapped(True, new)

    # The file ---------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        """The file with its tables, or an error that says why it can't be."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's further files take over the mode
        with self._writing() as db:
            made_by = db.execute("PRAGMA application_id").fetchone()[0]
            version = db.execute("PRAGMA user_version").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            is_new = tables == 0 and made_by == 0
            if not is_new and made_by != APPLICATION_ID:
                raise ValueError("the file is another program's")
            if not is_new and not 1 <= version <= SCHEMA_VERSION:
                knows = f"this version of preaction knows 1 to {SCHEMA_VERSION}"
                raise ValueError(f"the file has schema {version}, and {knows}")
            for number, step in list(enumerate(_STEPS, 1))[0 if is_new else version :]:
                for statement in step:
                    db.execute(statement)
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {number}")

        with self._lock, self._opened() as db, suppress(sqlite3.OperationalError):
            # Stays with the file. Refused while another process reads: then readers wait for writers, no more.
            db.execute("PRAGMA journal_mode = WAL")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among all processes from its start; taken back whole when anything fails."""
        with self._lock, self._opened() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _reading(self, session: str) -> Iterator[sqlite3.Connection]:
        """One view of the file, without waiting for who writes; the session stays alive."""
        with self._lock, self._opened() as db:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")
            now = self._clock()
            stale = "SELECT 1 FROM sessions WHERE id = ? AND touched < ?"
            if db.execute(stale, (session, now - self._idle_s / 50)).fetchone():
                db.execute("UPDATE sessions SET touched = ? WHERE id = ?", (now, session))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """This process's connection: one that came over a fork must not be used."""
        if self._connection is None or self._process != os.getpid():
            self._process = os.getpid()
            self._connection = sqlite3.connect(
                self._path, timeout=self._timeout_s, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
        yield self._connection


_TOUCH: Final = (
    "INSERT INTO sessions (id, touched) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET touched = excluded.touched"
)
_COUNT: Final = (
    "INSERT INTO counts (session, kind, slots) VALUES (?, ?, ?)"
    " ON CONFLICT (session, kind) DO UPDATE SET slots = slots + excluded.slots"
)
_SWAP: Final = (
    "INSERT INTO texts (name, value, until) VALUES (?, ?, ?)"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, until = excluded.until"
)
_PUT: Final = (
    "INSERT INTO slots (session, grp, name, rank, value) VALUES (?1, ?2, ?3, coalesce(?4, ''), ?5)"
    " ON CONFLICT (session, grp, name) DO UPDATE SET rank = coalesce(?4, rank), value = excluded.value"
    " WHERE coalesce(?4, rank) >= rank"
)


def _text(db: sqlite3.Connection, name: str, now: float) -> str | None:
    found = db.execute("SELECT value FROM texts WHERE name = ? AND until > ?", (name, now)).fetchone()
    return None if found is None else str(found[0])


def _held(db: sqlite3.Connection, kind: Literal["claims", "texts"]) -> int:
    return int(db.execute("SELECT held FROM totals WHERE kind = ?", (kind,)).fetchone()[0])


def _is_full(db: sqlite3.Connection, session: str) -> bool:
    return db.execute("SELECT 1 FROM sessions WHERE id = ? AND is_full", (session,)).fetchone() is not None


def _new_of_each_kind(db: sqlite3.Connection, session: str, slots: Sequence[Slot]) -> dict[str, int]:
    """How many of `slots` are not there yet, for each kind that is counted."""
    more: dict[str, int] = {}
    for slot in {(one.group, one.name): one for one in slots}.values():
        query = "SELECT 1 FROM slots WHERE session = ? AND grp = ? AND name = ?"
        if slot.kind and db.execute(query, (session, slot.group, slot.name)).fetchone() is None:
            more[slot.kind] = more.get(slot.kind, 0) + 1
    return more


def _age_out(db: sqlite3.Connection, before: float) -> None:
    """Remove some of the sessions that nobody asked for since; their slots go with them."""
    query = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE touched < ? ORDER BY touched LIMIT ?)"
    db.execute(query, (before, AGED_AT_ONCE))
