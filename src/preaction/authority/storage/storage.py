"""Where releases, keys, executions and output checks are kept: SQLAlchemy Core over SQLite or PostgreSQL.

Every row has a seal over all its columns. Rows are read as plain dicts; `intact` says whether one is as it was written.
Writers take their turn at once, before they read (see `databases`), so what they read still holds when they write.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from preaction.authority.refusal import Refused
from preaction.authority.signing.receipts import Signer
from preaction.authority.signing.records import Records
from preaction.authority.signing.signing_keys import WAITING, SigningKeys
from preaction.authority.storage import databases
from preaction.authority.storage.databases import is_there, open_database
from preaction.authority.storage.tables import (
    ANSWERS,
    CHAIN,
    CHECKS,
    EXECUTIONS,
    KEYS,
    METADATA,
    RELEASES,
    REMOVED,
    RESEALED,
    SCHEMA,
    SCHEMA_VERSION,
    sealed,
)
from preaction.authority.storage.turns import NoTurn
from preaction.authority.storage.upgrades import upgrade
from preaction.errors import ConfigurationError

_LOG: Final = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]

__all__ = ["ANSWERS", "CHECKS", "EXECUTIONS", "KEYS", "RELEASES", "REMOVED", "Row", "Storage"]

_SCHEMA: Final = sa.select(SCHEMA)
_LAST: Final = {
    table.name: sa.select(table.c.number, table.c.digest).order_by(table.c.number.desc()).limit(1)
    for table in (RELEASES, EXECUTIONS)
}


class Storage:
    """One database. `reading` and `writing` give a connection; the other methods take one."""

    def __init__(self, url: str | None, signing_key: Path | None = None, *, create: bool = True) -> None:
        """Open, and create what is missing, unless `create` is False.

        `url` is `sqlite:///decisions.db` or `postgresql://host/name`; None keeps everything in memory. `signing_key`
        is the file of the key, made with a new database; by default it stands beside SQLite's file.
        """
        if not create and not is_there(url):
            raise ConfigurationError("there is no such database")
        self._database = open_database(url, signing_key)
        dialect = self._database.reader.dialect
        self._raw_error: type[Exception] = dialect.loaded_dbapi.Error
        self._errors = (sa.exc.DBAPIError, sa.exc.TimeoutError, NoTurn, self._raw_error)
        self._texts: dict[sa.Select[Any], tuple[str, Sequence[str] | None, Mapping[str, Any]]] = {}
        self._is_open = False
        try:
            self.keys = self._signing_keys(create)
            self.records = Records(self.keys, self._notice)
            self._open_schema()
            self._is_open = True
        except Refused as refused:
            self.close()
            raise ConfigurationError(f"the database can't be opened: {refused.problem.title}") from None
        except ConfigurationError:
            self.close()
            raise

    @property
    def distant(self) -> bool:
        """Whether the database is another machine's, so that no event loop should wait for it."""
        return self._database.distant

    @property
    def signer(self) -> Signer:
        """The key that signs and seals now."""
        return self.keys.signer

    def jwks(self) -> dict[str, Any]:
        """The public keys as a JWK set, those that other servers made meanwhile as well."""
        self._notice()
        return self.keys.jwks()

    def close(self) -> None:
        """Close all connections."""
        self._database.reader.dispose()
        self._database.writer.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for statements that change nothing."""
        with self._database.lock, self._answering(), self._database.reader.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """`reading`, where all statements see one state of the database, and any text can be read."""
        with self.reading() as connection:
            raw: Any = connection.connection.dbapi_connection
            connection.exec_driver_sql(self._database.snapshot)
            if connection.dialect.name == "sqlite":  # whoever alters a row may leave what is no text
                raw.text_factory = _any_text
            try:
                yield connection
            finally:
                raw.text_factory = str

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """One transaction, while nobody else writes; kept when the block ends and undone when it raises."""
        with self._changing() as connection:
            found = self.one(connection, _SCHEMA)
            if found is None or found["version"] != SCHEMA_VERSION:
                raise Refused(503, "A newer server upgraded the database; this one no longer writes to it.")
            self._adopt(found["kid"])
            yield connection

    def tidy(self, *tables: sa.Table) -> None:
        """Make the disk forget rows that were deleted from these tables; may take long, and stops nobody."""
        names = ", ".join(table.name for table in tables)
        with self.reading() as connection:
            for statement in self._database.tidy:
                connection.exec_driver_sql(statement.format(tables=names))

    def one(self, connection: sa.Connection, statement: sa.Select[Any], **values: object) -> Row | None:
        """The first row that a statement finds, as a dict.

        The statement is compiled once and run by the driver: SQLAlchemy's own way costs ten times SQLite's time here.
        """
        text, order, fixed = self._compiled(statement)
        given = {**fixed, **values}
        row = self._driven(connection, text, given if order is None else [given[name] for name in order])
        return None if row is None else dict(zip(statement.selected_columns.keys(), row, strict=True))

    def insert(self, connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Row:
        """Add a row and give it back as it will be read, with its seal."""
        sealed = {**row, "seal": self.signer.seal(_values(table, row))}
        connection.execute(_INSERTS[table.name], sealed)
        return sealed

    def replace(
        self, connection: sa.Connection, table: sa.Table, row: Mapping[str, Any], signer: Signer | None = None
    ) -> None:
        """Write the row of that primary key again, newly sealed, by another key than the current one if it's given."""
        values = {name: row[name] for name in _COLUMNS[table.name]}
        key = {_KEY + column.name: row[column.name] for column in table.primary_key}
        seal = (signer or self.signer).seal(_values(table, row))
        connection.execute(_UPDATES[table.name], {**values, **key, "seal": seal})

    def intact(self, table: sa.Table, row: Mapping[str, Any]) -> bool:
        """Whether every column of a row that was read is as it was written."""
        return self._fits(table, row) or (self._notice() and self._fits(table, row))

    def last(self, connection: sa.Connection, table: sa.Table) -> tuple[int, str]:
        """Number and digest of the row written last, or (0, ""); within `writing` nobody adds another meanwhile."""
        row = self.one(connection, _LAST[table.name])
        return (row["number"], row["digest"]) if row else (0, "")

    def _compiled(self, statement: sa.Select[Any]) -> tuple[str, Sequence[str] | None, Mapping[str, Any]]:
        """A statement as the driver's text, its parameters' order (None: by name), and those that it brings itself."""
        known = self._texts.get(statement)
        if known is None:
            compiled: Any = statement.compile(dialect=self._database.reader.dialect)
            order = tuple(compiled.positiontup) if compiled.positional else None
            known = self._texts[statement] = str(compiled), order, compiled.params
        return known

    def _driven(self, connection: sa.Connection, text: str, values: Any) -> Sequence[Any] | None:
        """Run a text by the driver, and give the first row of its answer."""
        cursor = connection.connection.cursor()
        try:
            cursor.execute(text, values)
            row: Sequence[Any] | None = cursor.fetchone()
        except (UnicodeEncodeError, connection.dialect.loaded_dbapi.DataError):
            return None  # a lone surrogate, or what this kind of database takes for no text, is in no row
        except self._raw_error as error:
            self._leave_broken(connection, error)
            raise
        finally:
            cursor.close()
        return row

    def _leave_broken(self, connection: sa.Connection, error: Exception) -> None:
        """Take a connection that broke out of the pool, as SQLAlchemy does for what it runs itself."""
        raw: Any = connection.connection.dbapi_connection
        if connection.dialect.is_disconnect(error, raw, None):  # type: ignore[arg-type]
            connection.invalidate(error)

    def _fits(self, table: sa.Table, row: Mapping[str, Any]) -> bool:
        number = row["number"] if table in (EXECUTIONS, REMOVED) else None
        try:
            return self.keys.fits(row["seal"], _values(table, row), number=number, retired=table not in RESEALED)
        except TypeError:
            return False

    def _notice(self) -> bool:
        """Whether another server changed the signing key meanwhile; 503 when this one can't get the new one."""
        if self._database.key is None:
            return (
                False  # in memory there is no other server, and a second use of the one connection ends a transaction
            )
        with self.reading() as connection:
            found = self.one(connection, _SCHEMA)
        return found is not None and self._adopt(found["kid"])

    def _adopt(self, kid: str) -> bool:
        """Take the key that the database names; with False when it was taken before."""
        if kid == self.signer.kid:
            return False
        try:
            taken = self.keys.adopt(kid)
        except ConfigurationError as error:
            _LOG.error("%s", error)
            taken = False
        if not taken:
            raise Refused(503, WAITING)
        return True

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """`writing`, whatever the version of the tables."""
        turn = self._database.turns.turn(databases.WAIT_S)
        with self._database.lock, self._answering(), turn, self._database.writer.begin() as connection:
            try:
                cursor = connection.connection.cursor()
                cursor.execute(self._database.begin)  # several statements in one message: no parameters, so not `one`
                cursor.close()
            except self._raw_error as error:
                self._leave_broken(connection, error)
                raise
            yield connection

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Around all use of the database: one that is locked, full or broken is a 503, and its words stay here."""
        try:
            yield
        except sa.exc.DataError:
            raise Refused(422, "The request holds a text that the database can't keep.") from None
        except self._errors as error:
            what = type(getattr(error, "orig", error)).__name__
            if not self._is_open:
                raise ConfigurationError(f"the database can't be opened: {what}") from None
            _LOG.error("the database failed: %s", what)
            raise Refused(503, "The database did not answer.") from None

    def _signing_keys(self, create: bool) -> SigningKeys:
        new = self._is_new()
        if new and not create:
            raise ConfigurationError("the database has no tables of an authority")
        return SigningKeys(self._database.key, create=new)

    def _is_new(self) -> bool:
        with self.reading() as connection:
            return not sa.inspect(connection).has_table(SCHEMA.name)

    def _open_schema(self) -> None:
        """Make the tables, or bring them to the newest version: one transaction, so that a failure leaves no half."""
        with self._changing() as connection:
            if not sa.inspect(connection).has_table(SCHEMA.name):
                METADATA.create_all(connection)
                connection.execute(SCHEMA.insert(), {"version": SCHEMA_VERSION, "kid": self.signer.kid})
                self.insert(connection, CHAIN, {"id": "head", "number": 0, "digest": "", "revoked": 0})
                return
            found = connection.execute(_SCHEMA).one()
            if not 1 <= found.version <= SCHEMA_VERSION:
                raise ConfigurationError(
                    f"the database has schema {found.version}; this version knows 1 to {SCHEMA_VERSION}"
                )
            if not self.keys.adopt(found.kid):
                raise ConfigurationError("the signing key beside this database belongs to another one")
            if found.version < SCHEMA_VERSION:
                upgrade(connection, self.signer, found.version)
                _LOG.warning("the database was upgraded from schema %d to %d", found.version, SCHEMA_VERSION)


def _any_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _values(table: sa.Table, row: Mapping[str, Any]) -> list[object]:
    return [table.name, *(row[name] for name in _COLUMNS[table.name])]


_COLUMNS: Final[dict[str, Sequence[str]]] = {table.name: sealed(table) for table in METADATA.tables.values()}

_KEY: Final = "key_"
_INSERTS: Final = {table.name: table.insert() for table in METADATA.tables.values()}
_UPDATES: Final = {
    table.name: table.update().where(*(key == sa.bindparam(_KEY + key.name) for key in table.primary_key))
    for table in METADATA.tables.values()
}
