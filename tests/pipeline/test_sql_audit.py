"""P13 over SQL: rows are only added, the act waits for its row, and a database that is down stops the acts."""

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from pipeline.office import WRITE, Office
from preaction.errors import ConfigurationError
from preaction.pipeline import SqlAudit


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
