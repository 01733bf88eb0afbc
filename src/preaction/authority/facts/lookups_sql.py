"""Facts from a database: one query with bound parameters, which finds exactly one row.

Reads only: SQLite files are opened so, PostgreSQL is asked for such a transaction, and nothing is ever committed.
"""

import sqlite3
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from preaction.authority.facts.lookups import Facts, Ids, LookupFailed
from preaction.errors import ConfigurationError

_CONNECTIONS: Final = 16
_STEPS: Final = 1000
"""SQLite's virtual machine is asked for the time after this many instructions."""


class SqlLookup:
    """One query over one database.

    `url` is SQLAlchemy's. The query's parameters are `:case_id` and parts of the job's key. `columns` maps a fact to
    the column that it is in; without it they have the same name. `ConfigurationError` for what can't be right.
    """

    def __init__(self, url: str, query: str, *, columns: Mapping[str, str] | None = None) -> None:
        if query.split(None, 1)[:1] == [] or query.split(None, 1)[0].upper() not in ("SELECT", "WITH"):
            raise ConfigurationError("query: one SELECT is needed")
        self._query = sa.text(query)
        self.needs = frozenset(self._query.compile().params)
        self._columns = dict(columns or {})
        self._engine = _engine(read_url(url))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def read(self, ids: Ids, facts: Facts, seconds: float) -> Mapping[str, Any]:
        """The facts of the one row that the query finds."""
        ends = monotonic() + seconds
        try:
            with self._engine.connect() as connection:
                self._bound(connection, ends)
                result = connection.execute(self._query, {name: ids[name] for name in self.needs})
                names, rows = list(result.keys()), result.fetchmany(2)
        except sa.exc.TimeoutError:
            raise LookupFailed("busy") from None
        except sa.exc.DBAPIError as error:
            if monotonic() >= ends:
                raise LookupFailed("timeout") from None
            unreachable = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
            raise LookupFailed("unreachable" if unreachable else "error") from None
        if len(rows) != 1:
            raise LookupFailed("ambiguous" if rows else "not_found")
        row = list(rows[0])
        found = {}
        for fact, validator in facts.items():
            column = self._columns.get(fact, fact)
            if names.count(column) == 1:
                found[fact] = _plain(row[names.index(column)], str(validator.schema["type"]))
        return found

    def _bound(self, connection: sa.Connection, ends: float) -> None:
        """Make the database itself give up at `ends`."""
        left = max(0.001, ends - monotonic())
        if self._engine.dialect.name == "sqlite":
            raw: Any = connection.connection.driver_connection
            raw.set_progress_handler(lambda: monotonic() >= ends, _STEPS)
        elif self._engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {ceil(left * 1000)}")
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")


def read_url(text: str) -> sa.URL:
    """A database's URL, or a `ConfigurationError` that doesn't repeat it."""
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # a port that is no number is the latter
        raise ConfigurationError("a database URL is needed, such as postgresql+psycopg://reader@host/name") from None
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ConfigurationError("the URL names no file: sqlite:///desk.db")
    return url


def _engine(url: sa.URL) -> sa.Engine:
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite(Path(str(url.database)).absolute())
        more = {"connect_timeout": 2} if url.get_driver_name() in ("psycopg", "psycopg2") else {}
        return sa.create_engine(
            url,
            connect_args=more,
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_timeout=1,
            pool_pre_ping=True,
            hide_parameters=True,
        )
    except (sa.exc.ArgumentError, ImportError, TypeError, ValueError) as error:
        # The names of a dialect and of a module are no secrets; whatever else such an error says may be one.
        detail = f"the driver {url.drivername!r} can't be used ({type(error).__name__})"
        raise ConfigurationError(detail) from None


def _sqlite(file: Path) -> sa.Engine:
    """A file that is only read, and not made when it isn't there. Opened for each read, so a new one is seen."""

    def connect() -> sqlite3.Connection:
        # The time-out is for a writer's lock; a read of SQLite's is bounded by steps.
        return sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, timeout=0.5, check_same_thread=False)

    return sa.create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)


def _plain(value: Any, kind: str) -> Any:
    """A column's value as JSON has it. What has no one such form is left as it is, and is then of the wrong type."""
    if kind == "boolean" and type(value) is int and value in (0, 1):
        return bool(value)  # of a database that has no booleans
    if kind in ("number", "integer") and isinstance(value, Decimal) and value.is_finite():
        return _number(value)
    if kind == "string" and isinstance(value, UUID):
        return str(value)
    if kind == "string" and isinstance(value, datetime):
        return value.isoformat() if value.utcoffset() is not None else value
    if kind == "string" and isinstance(value, date):
        return value.isoformat()
    return value


def _number(value: Decimal) -> Any:
    """The same number in binary, when that is written with the same digits; else the decimal."""
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else value
