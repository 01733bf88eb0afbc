"""Audit records in a table of an SQL database, through SQLAlchemy (extra `pipeline-sql`). Rows are only ever added."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from preaction.audit.chain import EMPTY, Entry, Head, Links, Remembered, merged, proposals, record_in
from preaction.audit.chain_check import Check, Finding, Stands
from preaction.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Row

TABLE: Final = "pipeline_audit"
HEAD: Final = "pipeline_audit_head"

_SHORT = ("id", "phase", "at", "request_id", "tenant", "tool", "code", "outcome")
_PAGE: Final = 1000


class SqlAudit:
    """Records in the table `pipeline_audit`, a row each, chained and committed before the act.

    `database` is a URL such as `sqlite:///audit.db`, or an SQLAlchemy engine of your own. The tables are made if they
    aren't there; with `create` False they must be, and opening writes nothing. Processes take their turn at the one row
    of `pipeline_audit_head`, which has the number and the digest of the newest record. With a `key` (32 bytes at least)
    only who has it can write rows that verify.

    A database that is down, full or locked raises, and then nothing acts; one whose head is gone, or that has lost what
    this process has seen, raises `StoreUnavailable`. `ConfigurationError` is for a place where no such table can be; it
    doesn't name the URL, which may hold a password.
    """

    def __init__(self, database: "str | Engine", *, key: bytes | str | None = None, create: bool = True) -> None:
        try:
            import sqlalchemy as sql
        except ImportError:
            raise ConfigurationError("audit: SqlAudit needs SQLAlchemy: install the extra pipeline-sql") from None
        self._sql, self._links, self._seen = sql, Links(key), Remembered()
        number = sql.BigInteger().with_variant(sql.Integer, "sqlite")
        metadata, columns = sql.MetaData(), [sql.Column(name, sql.Text) for name in _SHORT]
        chained = [sql.Column(name, sql.Text, nullable=False) for name in ("previous", "digest", "record")]
        self._table = sql.Table(
            TABLE, metadata, sql.Column("number", number, primary_key=True, autoincrement=False), *columns, *chained
        )
        self._head = sql.Table(
            HEAD,
            metadata,
            sql.Column("one", sql.Integer, primary_key=True, autoincrement=False),
            sql.Column("number", number, nullable=False),
            sql.Column("digest", sql.Text, nullable=False),
        )
        try:
            self._engine = sql.create_engine(database, hide_parameters=True) if isinstance(database, str) else database
            if create:
                metadata.create_all(self._engine)
                self._begin()
                self._open()
            else:
                self._look()
        except (sql.exc.SQLAlchemyError, ImportError) as error:  # ImportError: the driver that the URL asks for
            raise ConfigurationError(f"audit: no table can be there: {type(error).__name__}") from None
        except StoreUnavailable as error:
            raise ConfigurationError(str(error)) from None

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Add a row."""
        with self._engine.begin() as connection:
            head = self._turn(connection)
            (entry,) = self._links.after(head, [record])
            row = {name: record[name] for name in _SHORT}
            chained = {"number": entry.number, "previous": entry.previous, "digest": entry.digest, "record": entry.text}
            connection.execute(self._table.insert(), [row | chained])
            connection.execute(self._head.update().values(digest=entry.digest))
        self._seen.advance(entry.head)

    def head(self) -> Head:
        """The newest row, to be kept elsewhere; number 0 and no digest for a table without one."""
        with self._engine.connect() as connection:
            return self._read_head(connection)

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal, in the order of their first record."""
        with self._engine.connect() as connection:
            entries = (_entry(row) for row in self._rows(connection))
            return merged(proposals(entry for entry in entries if entry is not None))

    def findings(self, check: Check) -> Iterator[Finding]:
        """What `check` finds in the table, also while processes write to it."""
        with self._read() as connection:
            before = self._head_row(connection)
            check.witness(before or EMPTY, f"the row that {HEAD} names isn't in the table")
            yield from check.findings(TABLE, map(_stands, self._rows(connection)))
        with self._read() as connection:  # again: who wrote meanwhile has moved it on, never behind a row
            after = self._head_row(connection)
        if before is None or after is None:
            detail = "missing or altered: rows that were dropped at the end don't show"
            yield Finding("altered", HEAD, None, None, detail)
        elif check.head is not None and check.head.number > after.number:
            detail = f"it ends at number {after.number}, and later rows are there: an old head was put back"
            yield Finding("altered", HEAD, after.number, None, detail)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    # The head -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The head of a table that has no row yet; a head that is gone later isn't made again."""
        rows = self._sql.select(self._table.c.number).limit(1)
        try:
            with self._engine.begin() as connection:
                known = connection.execute(self._sql.select(self._head.c.one)).first()
                if known is None and connection.execute(rows).first() is None:
                    connection.execute(self._head.insert(), [{"one": 1, "number": 0, "digest": ""}])
        except self._sql.exc.IntegrityError:
            return  # another process was first

    def _open(self) -> None:
        """The newest row has to be one of ours, and the one that the head names."""
        with self._engine.connect() as connection:
            head = self._read_head(connection)
            query = self._sql.select(self._table).where(self._table.c.number == head.number)
            newest = connection.execute(query).first()
        if head != EMPTY:
            entry = None if newest is None else _entry(newest)
            self._links.require_whole(entry if entry is not None and entry.head == head else None, TABLE)
        self._seen.hold(head, TABLE)

    def _look(self) -> None:
        """The tables have to be there and of this shape. SQLite would make a file for any name."""
        url = self._engine.url
        if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
            raise StoreUnavailable("audit: there is no such database")
        with self._engine.connect() as connection:
            connection.execute(self._sql.select(self._table).limit(1)).first()
            connection.execute(self._sql.select(self._head).limit(1)).first()

    def _turn(self, connection: "Connection") -> Head:
        """Wait for the others, take the next number, and give what it follows."""
        moved = connection.execute(self._head.update().values(number=self._head.c.number + 1))
        if moved.rowcount != 1:
            raise StoreUnavailable(f"audit: the row of {HEAD} is missing or altered")
        next_one = self._read_head(connection)
        head = Head(next_one.number - 1, next_one.digest)
        self._seen.hold(head, TABLE)
        return head

    def _read_head(self, connection: "Connection") -> Head:
        head = self._head_row(connection)
        if head is None:
            raise StoreUnavailable(f"audit: the row of {HEAD} is missing or altered")
        return head

    def _head_row(self, connection: "Connection") -> Head | None:
        row = connection.execute(self._sql.select(self._head)).first()
        if row is None or not isinstance(row.number, int) or not isinstance(row.digest, str):
            return None  # SQLite takes anything anywhere
        return Head(row.number, row.digest)

    # Rows ---------------------------------------------------------------------------------------------------------

    @contextmanager
    def _read(self) -> "Iterator[Connection]":
        try:
            with self._engine.connect() as connection:
                yield connection
        except self._sql.exc.SQLAlchemyError as error:
            raise StoreUnavailable(f"audit: the table can't be read: {type(error).__name__}") from None

    def _rows(self, connection: "Connection") -> "Iterator[Row[Any]]":
        """All rows in their order, in pages."""
        query = self._sql.select(self._table).order_by(self._table.c.number).limit(_PAGE)
        page = connection.execute(query).all()
        while page:
            yield from page
            page = connection.execute(query.where(self._table.c.number > page[-1].number)).all()


def _stands(row: "Row[Any]") -> Stands:
    """A row, and which of its columns don't say what its record says."""
    entry = _entry(row)
    record = None if entry is None else record_in(entry.text)
    if record is None:
        return Stands(TABLE, None, f"number {row.number} is no entry")
    wrong = [name for name in _SHORT if record.get(name) != row._mapping[name]]
    return Stands(TABLE, entry, f"{', '.join(wrong)}: not what the record says" if wrong else "")


def _entry(row: "Row[Any]") -> Entry | None:
    texts = row.previous, row.digest, row.record
    return Entry(row.number, *texts) if all(isinstance(text, str) for text in texts) else None
