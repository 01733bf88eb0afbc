"""P13 over SQL: rows are only added, the act waits for its row, and a database that is down stops the acts."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import IntegrityError

from authority.postgres import Postgres
from pipeline.audit_logs import KEY, Table, record
from pipeline.office import WRITE, Office
from preaction.audit.chain_check import Check, Finding
from preaction.errors import ConfigurationError, StoreUnavailable
from preaction.pipeline import SqlAudit, sql_audit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def audit(path: Path) -> Iterator[SqlAudit]:
    made = SqlAudit(f"sqlite:///{path}")
    yield made
    made.close()


def test_p13_rows_in_a_table(audit: SqlAudit, path: Path) -> None:
    office = Office(audit=audit)
    office.write()
    office.read("{")
    assert [(record["code"], record["outcome"]) for record in audit.records()] == [
        ("executed", "done"),
        ("invalid_json", "not_run"),
    ]
    with sqlite3.connect(path) as rows:
        found = rows.execute("SELECT phase, tenant, tool, code FROM pipeline_audit ORDER BY number").fetchall()
    rows.close()
    assert found == [
        ("before", "t_1", "approve_invoice", None),
        ("after", "t_1", "approve_invoice", "executed"),
        ("after", "t_1", "get_invoice", "invalid_json"),
    ]


def test_p13_an_engine_of_ones_own_and_a_table_that_is_there(audit: SqlAudit, path: Path) -> None:
    Office(audit=audit).write()
    engine = create_engine(f"sqlite:///{path}")
    again = SqlAudit(engine)
    assert len(again.records()) == 1
    again.close()


def test_p13_a_database_that_is_down_stops_the_acts(audit: SqlAudit, path: Path) -> None:
    office = Office(audit=audit)
    office.write()
    with sqlite3.connect(path) as rows:
        rows.execute("DROP TABLE pipeline_audit")
    rows.close()
    assert office.write({**WRITE, "invoice_id": "inv_482"}).code == "audit_failed"
    assert len(office.acts) == 1


@pytest.mark.parametrize("url", ["sqlite:////nowhere/at/all/audit.db", "nonsense", "mysql+none://u:secret@h/d"])
def test_p13_a_place_where_no_table_can_be_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="audit") as refused:
        SqlAudit(url)
    assert "secret" not in str(refused.value)


def test_p13_without_sqlalchemy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(ConfigurationError, match="pipeline-sql"):
        SqlAudit("sqlite://")


# ---------------------------------------------------------------- the chain of rows


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{path}?timeout=60"  # five seconds, unless one says otherwise, are few for a turn
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database().replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., SqlAudit]]:
    """Opens an audit over the test's database; all are closed when the test ends."""
    audits: list[SqlAudit] = []

    def at(**options: Any) -> SqlAudit:
        audits.append(SqlAudit(url, **options))
        return audits[-1]

    yield at
    for audit in audits:
        audit.close()


def findings(audit: SqlAudit, key: str | None = None, *heads: str) -> list[Finding]:
    return list(audit.findings(Check(key, heads)))


@pytest.mark.parametrize("key", [None, KEY])
def test_p13_each_row_follows_the_one_before(
    opened: Callable[..., SqlAudit], key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_audit, "_PAGE", 2)
    audit = opened(key=key)
    assert (audit.head().number, findings(audit, key)) == (0, [])
    Office(audit=audit).write()
    for number in range(3):
        audit(record(number) | {"text": "\u00e9 \ud800 \u2028", "large": 2**63})
    assert audit.head().number == 5
    assert findings(audit, key, audit.head().digest) == []
    assert len(audit.records()) == 4
    again = opened(key=key)
    again(record(4))
    audit(record(5))
    assert findings(opened(create=False), key, audit.head().digest) == []


def test_p13_writers_at_once_take_their_turns(opened: Callable[..., SqlAudit]) -> None:
    start = threading.Barrier(4)

    def write(audit: SqlAudit, name: int) -> None:
        start.wait()
        for number in range(5):
            audit(record(10 * name + number))

    shared = opened()
    writers = [shared, shared, opened(), opened()]
    threads = [threading.Thread(target=write, args=(audit, name)) for name, audit in enumerate(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shared.records()) == 20
    assert (shared.head().number, findings(shared)) == (20, [])


def test_p13_what_is_written_while_it_is_verified_is_no_finding(
    opened: Callable[..., SqlAudit], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_audit, "_PAGE", 2)
    audit, other = opened(), opened()
    for number in range(3):
        audit(record(number))
    rows = audit._rows

    def rows_and_more(connection: Any) -> Iterator[Any]:
        for row in rows(connection):
            yield row
            if row.number < 6:
                connection.rollback()  # SQLite lets nobody write while somebody reads
                other(record(10 + row.number))

    monkeypatch.setattr(audit, "_rows", rows_and_more)
    check = Check()
    assert list(audit.findings(check)) == []
    assert check.entries > 3


def test_p13_a_table_that_lost_what_was_written_stops_the_acts(path: Path) -> None:
    office = Office(audit=SqlAudit(f"sqlite:///{path}"))
    office.write()
    table = Table.__new__(Table)
    table.path = path
    table.run("DELETE FROM pipeline_audit", "UPDATE pipeline_audit_head SET number = 0, digest = ''")
    assert office.write({**WRITE, "invoice_id": "inv_482"}).code == "audit_failed"
    assert len(office.acts) == 1


@pytest.mark.parametrize("change", ["DELETE FROM pipeline_audit_head", "UPDATE pipeline_audit_head SET digest = x'00'"])
def test_p13_a_head_that_is_gone_stops_the_acts_and_is_not_made_again(path: Path, change: str) -> None:
    table = Table(path, 1)
    audit = SqlAudit(table.url)
    table.run(change)
    with pytest.raises(StoreUnavailable, match="pipeline_audit_head"):
        audit(record(2))
    with pytest.raises(StoreUnavailable, match="pipeline_audit_head"):
        audit.head()
    with pytest.raises(ConfigurationError, match="pipeline_audit_head"):
        SqlAudit(table.url)
    assert len(audit.records()) == 1
    audit.close()


@pytest.mark.parametrize("column", ["digest", "record"])
def test_p13_a_table_with_another_end_takes_nothing(path: Path, column: str) -> None:
    table = Table(path, 2)
    table.run(f"UPDATE pipeline_audit SET {column} = x'00' WHERE number = 2")
    with pytest.raises(ConfigurationError, match="last entry of pipeline_audit"):
        SqlAudit(table.url)
    table.run("DELETE FROM pipeline_audit WHERE number = 2")
    with pytest.raises(ConfigurationError, match="last entry of pipeline_audit"):
        SqlAudit(table.url)


def test_p13_a_row_that_is_no_record_is_left_out_of_the_records(path: Path) -> None:
    table = Table(path, 3)
    audit = SqlAudit(table.url)
    table.run("UPDATE pipeline_audit SET digest = x'00' WHERE number = 1")
    table.run("UPDATE pipeline_audit SET record = 'x' WHERE number = 2")
    assert [each["id"] for each in audit.records()] == ["p3"]
    audit.close()


def test_p13_of_two_that_begin_a_log_at_once_one_makes_its_head(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    first = SqlAudit(f"sqlite:///{path}")
    made: list[str] = []

    @event.listens_for(Engine, "before_cursor_execute")
    def taken(connection: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if statement.startswith("INSERT INTO pipeline_audit_head") and not made:
            made.append(statement)
            raise IntegrityError(statement, None, Exception())

    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM pipeline_audit_head")
        with pytest.raises(ConfigurationError, match="pipeline_audit_head"):
            SqlAudit(engine)
    finally:
        event.remove(Engine, "before_cursor_execute", taken)
    SqlAudit(engine)(record(1))
    assert (len(made), first.head().number) == (1, 1)
    first.close()
    engine.dispose()


def test_p13_only_a_log_that_is_there_is_read(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such database"):
        SqlAudit(f"sqlite:///{path}", create=False)
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(ConfigurationError, match="OperationalError"):
        SqlAudit(f"sqlite:///{path}", create=False)


def test_p13_a_table_that_goes_while_it_is_read_is_told_by_its_kind(path: Path) -> None:
    table = Table(path, 1)
    audit = SqlAudit(table.url)
    table.run("DROP TABLE pipeline_audit")
    with pytest.raises(StoreUnavailable, match="can't be read: OperationalError"):
        findings(audit)
    audit.close()
