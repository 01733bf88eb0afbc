"""Audit records in a table of an SQL database, through SQLAlchemy (extra `pipeline-sql`). Rows are only ever added."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from preaction.errors import ConfigurationError
from preaction.pipeline.audit import merged

if TYPE_CHECKING:
    from sqlalchemy import Engine

_SHORT = ("id", "phase", "at", "request_id", "tenant", "tool", "code", "outcome")


class SqlAudit:
    """Records in the table `pipeline_audit`, which is made if it isn't there: a row each, committed before the act.

    `database` is a URL such as `sqlite:///audit.db`, or an SQLAlchemy engine of your own. A database that is down, full
    or locked raises, and then nothing acts. Raises `ConfigurationError` where no such table can be, without the URL,
    which may hold a password.
    """

    def __init__(self, database: "str | Engine") -> None:
        try:
            import sqlalchemy as sql
        except ImportError:
            raise ConfigurationError("audit: SqlAudit needs SQLAlchemy: install the extra pipeline-sql") from None
        self._sql = sql
        columns = [sql.Column(name, sql.Text) for name in _SHORT]
        number = sql.Column("number", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True)
        self._table = sql.Table(
            "pipeline_audit", sql.MetaData(), number, *columns, sql.Column("record", sql.Text, nullable=False)
        )
        try:
            self._engine = sql.create_engine(database, hide_parameters=True) if isinstance(database, str) else database
            self._table.create(self._engine, checkfirst=True)
        except (sql.exc.SQLAlchemyError, ImportError) as error:  # ImportError: the driver that the URL asks for
            raise ConfigurationError(f"audit: no table can be there: {type(error).__name__}") from None

    def __call__(self, record: Mapping[str, Any]) -> None:
        """Add a row."""
        row = {name: record[name] for name in _SHORT} | {"record": json.dumps(dict(record), allow_nan=False)}
        with self._engine.begin() as connection:
            connection.execute(self._table.insert(), [row])

    def records(self) -> list[dict[str, Any]]:
        """One dict per proposal, in the order of their first record."""
        query = self._sql.select(self._table.c.record).order_by(self._table.c.number)
        with self._engine.connect() as connection:
            return merged(json.loads(text) for text in connection.execute(query).scalars())

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()
