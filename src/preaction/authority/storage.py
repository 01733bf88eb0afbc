"""Where releases, keys, executions and output checks are kept: SQLAlchemy Core over SQLite.

Every row has a seal over all its columns. Rows are read as plain dicts; `intact` says whether one is as it was written.
Writers take the database's one write lock at once (`BEGIN IMMEDIATE`), so what they read still holds when they write.
"""

import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from hmac import compare_digest
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from preaction.authority.receipts import new_signer, signer_at
from preaction.authority.records import Records
from preaction.authority.refusal import Refused
from preaction.authority.tables import (
    ANSWERS,
    CHECKS,
    EXECUTIONS,
    KEYS,
    METADATA,
    RELEASES,
    REMOVED,
    SCHEMA,
    SCHEMA_VERSION,
    sealed,
)
from preaction.authority.upgrades import upgrade
from preaction.errors import ConfigurationError

_LOG: Final = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]

__all__ = ["ANSWERS", "CHECKS", "EXECUTIONS", "KEYS", "RELEASES", "REMOVED", "Row", "Storage"]

_LAST: Final = {
    table.name: sa.select(table.c.number, table.c.digest).order_by(table.c.number.desc()).limit(1)
    for table in (RELEASES, EXECUTIONS)
}


class Storage:
    """One database. `reading` and `writing` give a connection; the other methods take one."""

    def __init__(self, url: str | None) -> None:
        """Open, and create what is missing. `None` keeps everything in memory; else a URL `sqlite:///…`."""
        self._file = _file(url)
        if self._file is None:
            self.signer = new_signer()
            arguments: dict[str, Any] = {"poolclass": StaticPool}
        else:
            exists = self._file.exists() and self._file.stat().st_size > 0
            self.signer = signer_at(self._file.with_name(self._file.name + "-key"), create=not exists)
            arguments = {"pool_size": 8, "max_overflow": 56}
        self.records = Records(self.signer)
        # One connection can't be shared by two threads at once; files have one connection for each.
        self._lock = threading.RLock() if self._file is None else nullcontext()
        target = "sqlite://" if self._file is None else f"sqlite:///{self._file}"
        self._engine = sa.create_engine(target, connect_args={"check_same_thread": False, "timeout": 10}, **arguments)
        sa.event.listen(self._engine, "connect", self._on_connect)
        sa.event.listen(self._engine, "begin", _on_begin)
        self._texts: dict[sa.Select[Any], tuple[str, Sequence[str], Mapping[str, Any]]] = {}
        self._writer = self._engine.execution_options(writes=True)
        self._open_schema()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for statements that change nothing."""
        with self._lock, _answering(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction with the write lock, kept when the block ends and undone when it raises."""
        with self._lock, _answering(), self._writer.begin() as connection:
            yield connection

    def one(self, connection: sa.Connection, statement: sa.Select[Any], **values: object) -> Row | None:
        """The first row that a statement finds, as a dict.

        The statement is compiled once and run by the driver: SQLAlchemy's own way costs ten times SQLite's time here.
        """
        text, order, fixed = self._compiled(statement)
        given = {**fixed, **values}
        cursor = connection.connection.cursor()
        try:
            cursor.execute(text, [given[name] for name in order])
            row = cursor.fetchone()
        except UnicodeEncodeError:
            return None  # a lone surrogate is in no row
        finally:
            cursor.close()
        return None if row is None else dict(zip(statement.selected_columns.keys(), row, strict=True))

    def insert(self, connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Row:
        """Add a row and give it back as it will be read, with its seal."""
        sealed = {**row, "seal": self._seal(table, row)}
        connection.execute(table.insert(), sealed)
        return sealed

    def replace(self, connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Write the row of that `id` again, newly sealed."""
        values = {**row, "seal": self._seal(table, row)}
        connection.execute(table.update().where(table.c.id == row["id"]).values(values))

    def intact(self, table: sa.Table, row: Mapping[str, Any]) -> bool:
        """Whether every column of a row that was read is as it was written."""
        try:
            return compare_digest(self._seal(table, row), row["seal"])
        except TypeError:
            return False

    def last(self, connection: sa.Connection, table: sa.Table) -> tuple[int, str]:
        """Number and digest of the row written last, or (0, ""); within `writing` nobody adds another meanwhile."""
        row = self.one(connection, _LAST[table.name])
        return (row["number"], row["digest"]) if row else (0, "")

    def _compiled(self, statement: sa.Select[Any]) -> tuple[str, Sequence[str], Mapping[str, Any]]:
        """A statement as text, the order of its parameters, and those that it brings itself."""
        known = self._texts.get(statement)
        if known is None:
            compiled = statement.compile(dialect=self._engine.dialect)
            known = self._texts[statement] = str(compiled), tuple(compiled.positiontup or ()), compiled.params
        return known

    def _seal(self, table: sa.Table, row: Mapping[str, Any]) -> str:
        return self.signer.seal([table.name, *(row[name] for name in _COLUMNS[table.name])])

    def _on_connect(self, raw: Any, _record: object) -> None:
        raw.isolation_level = None  # the driver must not begin transactions by itself
        cursor = raw.cursor()
        if self._file is not None:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    def _open_schema(self) -> None:
        """Make the tables, or bring them to the newest version: one transaction, so that a failure leaves no half."""
        try:
            with self.writing() as connection:
                known = sa.inspect(connection).has_table("schema")
                found = connection.execute(sa.select(SCHEMA)).first() if known else None
                if found is None:
                    METADATA.create_all(connection)
                    connection.execute(SCHEMA.insert(), {"version": SCHEMA_VERSION, "kid": self.signer.kid})
                    return
                if not 1 <= found.version <= SCHEMA_VERSION:
                    raise ConfigurationError(
                        f"the database has schema {found.version}; this version knows 1 to {SCHEMA_VERSION}"
                    )
                if found.kid != self.signer.kid:
                    raise ConfigurationError("the signing key beside this database belongs to another one")
                if found.version < SCHEMA_VERSION:
                    upgrade(connection, self.signer, found.version)
                    _LOG.warning("the database was upgraded from schema %d to %d", found.version, SCHEMA_VERSION)
        except Refused as refused:
            raise ConfigurationError(f"the database can't be opened: {refused.problem.title}") from None


_COLUMNS: Final[dict[str, Sequence[str]]] = {table.name: sealed(table) for table in METADATA.tables.values()}


@contextmanager
def _answering() -> Iterator[None]:
    """Around all use of the database: one that is locked, full or broken is a 503, and its words stay here."""
    try:
        yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        _LOG.error("the database failed: %s", type(getattr(error, "orig", error)).__name__)
        raise Refused(503, "The database did not answer.") from None


def _on_begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("writes"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _file(url: str | None) -> Path | None:
    if url is None or url == "sqlite://":
        return None
    prefix, _, path = url.partition("sqlite:///")
    if prefix or not path or path == ":memory:":
        raise ConfigurationError(
            "the database is named by a URL such as sqlite:///decisions.db; no other kind is ready"
        )
    file = Path(path)
    if not file.parent.is_dir():
        raise ConfigurationError("the folder of the database isn't there")
    return file
