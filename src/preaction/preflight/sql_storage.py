"""Records in tables of an SQL database, through SQLAlchemy (extra `pipeline-sql`), for several machines."""

from typing import TYPE_CHECKING, Any

from preaction.errors import ConfigurationError
from preaction.preflight.storage import Record, is_executed, key_of, read, written

if TYPE_CHECKING:
    from sqlalchemy import Engine


class SqlStorage:
    """Records in the tables `preflight_records` and `preflight_claims`, which are made if they aren't there.

    `database` is a URL such as `postgresql://…` or `sqlite:///…`, or an SQLAlchemy engine of your own. Rows are only
    ever added: its role needs no right to change or delete any. A database that is down, full or locked raises, and
    then nothing acts. Raises `ConfigurationError` where no such tables can be, without the URL, which may hold a
    password.
    """

    def __init__(self, database: "str | Engine") -> None:
        try:
            import sqlalchemy as sql
        except ImportError:
            raise ConfigurationError("storage: SqlStorage needs SQLAlchemy: install the extra pipeline-sql") from None
        self._sql = sql
        tables = sql.MetaData()
        self._records = sql.Table(
            "preflight_records",
            tables,
            sql.Column("number", sql.BigInteger().with_variant(sql.Integer, "sqlite"), primary_key=True),
            sql.Column("action_key", sql.Text, nullable=False),
            sql.Column("executed", sql.Boolean, nullable=False),
            sql.Column("record", sql.Text, nullable=False),
            sql.Index("preflight_records_of_key", "action_key", "executed", "number"),
        )
        self._claims = sql.Table("preflight_claims", tables, sql.Column("name", sql.String(200), primary_key=True))
        try:
            self._engine = self._opened(database) if isinstance(database, str) else database
            self._make(tables)
        except (sql.exc.SQLAlchemyError, ImportError) as error:  # ImportError: the driver that the URL asks for
            raise ConfigurationError(f"storage: no tables can be there: {type(error).__name__}") from None

    def persist(self, action_key: str, record: Record) -> None:
        """Add a record; see `Storage.persist`."""
        row = {"action_key": key_of(action_key), "executed": is_executed(record), "record": written(record)}
        with self._engine.begin() as connection:
            connection.execute(self._records.insert(), row)

    def load(self, action_key: str) -> dict[str, Any] | None:
        """What was executed last; see `Storage.load`."""
        table = self._records.c
        mine = (table.action_key == key_of(action_key), table.executed)
        query = self._sql.select(table.record).where(*mine).order_by(table.number.desc()).limit(1)
        with self._engine.connect() as connection:
            return read(connection.execute(query).scalar())

    def claim(self, name: str) -> bool:
        """Whether this is the first to claim `name`; see `Claiming.claim`."""
        try:
            with self._engine.begin() as connection:
                connection.execute(self._claims.insert(), {"name": name})
        except self._sql.exc.IntegrityError:
            return False
        return True

    def records(self, action_key: str | None = None) -> list[dict[str, Any]]:
        """The records under a key, or all of them, in the order in which they were persisted."""
        query = self._sql.select(self._records.c.record).order_by(self._records.c.number)
        if action_key is not None:
            query = query.where(self._records.c.action_key == key_of(action_key))
        with self._engine.connect() as connection:
            return [record for text in connection.execute(query).scalars() if (record := read(text)) is not None]

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def _opened(self, database: str) -> "Engine":
        url = self._sql.make_url(database)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")  # the driver of the extra `postgres`
        return self._sql.create_engine(url, hide_parameters=True)

    def _make(self, tables: Any) -> None:
        try:
            tables.create_all(self._engine)
        except self._sql.exc.SQLAlchemyError:  # another process has made them meanwhile, or they can't be
            tables.create_all(self._engine)
