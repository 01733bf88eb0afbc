"""The two kinds of database, SQLite and PostgreSQL: how each is named, opened, and locked for a writer.

Both give a writer the same: one transaction at a time in the whole database, whichever server it is in, that reads what
all earlier ones wrote, and is on the disk when it has ended. SQLite has its one write lock (`BEGIN IMMEDIATE`). In
PostgreSQL a writer takes an advisory lock that the end of its transaction gives back: it works before there are any
tables, costs no write, and needs no clean-up after a server that was killed. Transactions are `READ COMMITTED`, so what
is read after the lock was had is the newest; a snapshot taken before it would not be.
"""

import selectors
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from preaction.authority.storage.turns import Turns
from preaction.errors import ConfigurationError

WAIT_S: Final = 10
"""How long a writer waits for its turn, and for a connection."""

_LOCK: Final = 0x707265616374  # "preact"; shared by all servers of one database, and by nothing else in it
_WRITERS: Final = 2
_POSTGRES_LIMITS: Final[Mapping[str, str]] = {"connect_timeout": "5", "tcp_user_timeout": "10000"}
_POSTGRES_SETTINGS: Final[dict[str, str]] = {
    "application_name": "preaction",
    "statement_timeout": "30s",
    # A server that is stopped in the middle of a transaction must not keep the lock from all others.
    "idle_in_transaction_session_timeout": "15s",
}
_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)


@dataclass(frozen=True, slots=True)
class Database:
    """One database, open. `reader` and `writer` may be one engine."""

    reader: sa.Engine
    writer: sa.Engine
    begin: str
    """What begins a writing transaction, and waits for its turn."""
    snapshot: str
    """What begins a transaction that reads one state of the database."""
    tidy: Sequence[str]
    """What makes the disk forget rows that were deleted from `{tables}`."""
    key: Path | None
    """The file of the signing key; None for a database that ends with the process."""
    lock: AbstractContextManager[Any]
    """Held around every use."""
    turns: Turns
    """Of this process's writers."""
    distant: bool
    """Whether an answer may take longer than a read of the disk, so that an event loop should not wait for it."""


def open_database(url: str | None, key: Path | None) -> Database:
    """The database of a URL: None is in memory; `sqlite:///decisions.db` a file, by default with its key beside it;
    `postgresql://…` a server, whose `key` must be given. Raises `ConfigurationError`; connects when it is first used.
    """
    if url is None or url == "sqlite://":
        return _memory()
    if url.startswith("sqlite:///"):
        return _file(url.removeprefix("sqlite:///"), key)
    if url.startswith(("postgresql://", "postgresql+psycopg://", "postgres://")):
        return _server(url, key)
    raise ConfigurationError("the database is named by a URL such as sqlite:///decisions.db or postgresql://host/name")


def is_there(url: str | None) -> bool:
    """False for a file of SQLite's that doesn't exist, and would be made by opening it."""
    return url is None or not url.startswith("sqlite:///") or Path(url.removeprefix("sqlite:///")).is_file()


def _memory() -> Database:
    engine = _sqlite("sqlite://", "PRAGMA secure_delete=ON", poolclass=StaticPool)
    # Its one connection can't be shared by two threads at once.
    return Database(engine, engine, "BEGIN IMMEDIATE", "BEGIN", (), None, threading.RLock(), Turns(1), distant=False)


def _file(path: str, key: Path | None) -> Database:
    file = Path(path)
    if not path or path == ":memory:" or path.startswith("file:"):
        raise ConfigurationError("the database is named by the path of its file, such as sqlite:///decisions.db")
    if not file.parent.is_dir():
        raise ConfigurationError("the folder of the database isn't there")
    pragmas = "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA secure_delete=ON"
    reader = _sqlite(f"sqlite:///{file}", *pragmas, pool_size=8, max_overflow=56, pool_timeout=WAIT_S)
    # SQLite's own wait for the lock is to try again and again, so only one of this process's writers does.
    writer = _sqlite(f"sqlite:///{file}", *pragmas, pool_size=1, max_overflow=0, pool_timeout=WAIT_S)
    key = key or file.with_name(file.name + "-key")
    tidy = ("PRAGMA wal_checkpoint(TRUNCATE)",)
    return Database(reader, writer, "BEGIN IMMEDIATE", "BEGIN", tidy, key, nullcontext(), Turns(1), distant=False)


def _sqlite(url: str, *pragmas: str, **pool: Any) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"check_same_thread": False, "timeout": WAIT_S}, **pool)

    def prepare(raw: Any, _record: object) -> None:
        raw.isolation_level = None  # the driver must not begin transactions by itself
        _settle(raw, pragmas)

    sa.event.listen(engine, "connect", prepare)
    return engine


def _settle(raw: sqlite3.Connection, pragmas: Sequence[str]) -> None:
    """Make the settings. While another server writes to a file that is new, SQLite refuses WAL without its wait."""
    ends = monotonic() + WAIT_S
    while True:
        try:
            return _run(raw.cursor(), *pragmas)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > ends:
                raise
        sleep(0.01)


def _server(text: str, key: Path | None) -> Database:
    try:
        url = sa.make_url(text).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigurationError("the database's URL can't be read; postgresql://user@host:5432/name is one") from None
    if key is None:
        raise ConfigurationError(
            "a PostgreSQL database has no folder for its signing key: name the file with --signing-key"
        )
    url = url.update_query_dict({name: value for name, value in _POSTGRES_LIMITS.items() if name not in url.query})
    try:
        reader = _postgres(url, pool_size=8, max_overflow=8)
        # One writes and one waits in the database's own queue; more would only hold connections.
        writer = _postgres(url, pool_size=_WRITERS, max_overflow=0)
    except ImportError:
        raise ConfigurationError("PostgreSQL needs its driver: pip install 'preaction[postgres]'") from None
    begin = f"BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SELECT pg_advisory_xact_lock({_LOCK})"
    tidy = "SET statement_timeout = 0", "VACUUM {tables}", "SET statement_timeout = '30s'"
    snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    return Database(reader, writer, begin, snapshot, tidy, key, nullcontext(), Turns(_WRITERS), distant=True)


def _postgres(url: sa.URL, *, pool_size: int, max_overflow: int) -> sa.Engine:
    engine = sa.create_engine(
        url, poolclass=QueuePool, pool_size=pool_size, max_overflow=max_overflow, pool_timeout=WAIT_S
    )

    def prepare(raw: Any, _record: object) -> None:
        raw.autocommit = True  # the driver must not begin transactions by itself
        named = {**_POSTGRES_SETTINGS, "lock_timeout": f"{WAIT_S}s"}
        settings = (f"SELECT set_config('{name}', '{value}', false)" for name, value in named.items())
        _run(raw.cursor(), "; ".join((*settings, _DURABLE)))

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "checkout", _still_there)
    return engine


def _still_there(raw: Any, _record: object, _proxy: object) -> None:
    """Leave a connection that the server has closed: it has something to read, though nothing was asked."""
    with selectors.DefaultSelector() as selector:
        selector.register(raw.fileno(), selectors.EVENT_READ)
        if selector.select(0):
            raise sa.exc.DisconnectionError("closed by the server")


def _run(cursor: Any, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement)
    cursor.close()
