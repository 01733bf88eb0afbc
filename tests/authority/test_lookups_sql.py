"""Facts from a real database: one row, read only, within a time."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authority.looking import QUERY, desk
from authority.postgres import Postgres
from preaction.authority.expressions.schemas import Validator
from preaction.authority.facts.lookups import LookupFailed, Lookups, Reads
from preaction.authority.facts.lookups_sql import SqlLookup
from preaction.errors import ConfigurationError

FACTS = {"amount": Validator({"type": "number"}), "twice": Validator({"type": "boolean"})}
ONE = ("HC-1", 38.0, 1)


def reason(lookup: SqlLookup, case: Any = "HC-1", seconds: float = 30.0) -> str:
    """Why it fails."""
    with pytest.raises(LookupFailed) as caught:
        lookup.read({"case_id": case}, FACTS, seconds)
    return caught.value.reason


def typed(values: Mapping[str, Any], facts: Mapping[str, Validator]) -> dict[str, Any]:
    """Those that are of their fact's type, as they would be stored."""

    class Ready:
        needs = frozenset({"case_id"})

        def read(self, *_: Any) -> Mapping[str, Any]:
            return values

        def close(self) -> None:
            return

    lookups = Lookups({"x": Ready()}, deadline=timedelta(seconds=30))
    reads: Reads = lookups.read({"x": facts}, {}, lambda: datetime.now(UTC))
    return {name: value for name, (value, _, _) in reads.values.items()}


def test_the_one_row_of_the_case(tmp_path: Path) -> None:
    lookup = SqlLookup(desk(tmp_path / "desk.db", ONE, ("HC-2", 5, 0)), QUERY)
    assert lookup.needs == {"case_id"}
    assert lookup.read({"case_id": "HC-1"}, FACTS, 30) == {"amount": 38.0, "twice": True}
    assert lookup.read({"case_id": "HC-2"}, FACTS, 30) == {"amount": 5.0, "twice": False}


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    columns = {"amount": "charged", "twice": "charged_twice"}
    lookup = SqlLookup(desk(tmp_path / "d", ONE), "SELECT * FROM tickets WHERE id = :case_id", columns=columns)
    assert lookup.read({"case_id": "HC-1"}, FACTS, 30) == {"amount": 38.0, "twice": True}


def test_no_row_two_rows_and_a_column_that_is_not_there_or_twice(tmp_path: Path) -> None:
    url = desk(tmp_path / "d", ONE, ("HC-2", 1, 1), ("HC-2", 1, 1))
    assert reason(SqlLookup(url, QUERY), "HC-3") == "not_found"
    assert reason(SqlLookup(url, QUERY), "HC-2") == "ambiguous"
    lacking = SqlLookup(url, "SELECT charged FROM tickets WHERE id = :case_id")
    assert lacking.read({"case_id": "HC-1"}, FACTS, 30) == {}
    doubled = SqlLookup(url, "SELECT 1 AS amount, 2 AS amount, charged_twice AS twice FROM tickets WHERE id = :case_id")
    assert doubled.read({"case_id": "HC-1"}, FACTS, 30) == {"twice": True}


@given(st.text(max_size=20) | st.sampled_from(["' OR 1=1 --", "HC-1' --", '"', ":case_id", "%", "\x00"]))
def test_an_id_is_a_value_and_nothing_else(tmp_path_factory: pytest.TempPathFactory, case: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "hostile"
    if not folder.exists():
        folder.mkdir()
        desk(folder / "d", ONE, ("HC-2", 1, 1))
    lookup = SqlLookup(f"sqlite:///{folder / 'd'}", QUERY)
    assert reason(lookup, case) == "not_found"


def test_it_only_reads(tmp_path: Path) -> None:
    url = desk(tmp_path / "d", ONE)
    sly = "WITH x AS (SELECT 1) DELETE FROM tickets WHERE id = :case_id RETURNING charged AS amount, 1 AS twice"
    assert reason(SqlLookup(url, sly)) == "unreachable"
    with closing(sqlite3.connect(tmp_path / "d")) as database:
        assert database.execute("select count(*) from tickets").fetchone() == (1,)


@pytest.mark.parametrize("query", ["", "  ", "DELETE FROM tickets", "UPDATE tickets SET charged = 0", "PRAGMA x"])
def test_what_is_no_select_is_refused(query: str) -> None:
    with pytest.raises(ConfigurationError, match="query: one SELECT is needed"):
        SqlLookup("sqlite:///d", query)


def test_a_second_statement_is_an_error(tmp_path: Path) -> None:
    url = desk(tmp_path / "d", ONE)
    assert reason(SqlLookup(url, QUERY + "; DELETE FROM tickets")) == "error"


def test_a_query_without_end_is_stopped_in_time(tmp_path: Path) -> None:
    url = desk(tmp_path / "d", ONE)
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT max(i) AS amount, :case_id AS twice FROM n"
    )
    began = monotonic()
    assert reason(SqlLookup(url, endless), seconds=0.1) == "timeout"
    assert monotonic() - began < 30


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    lookup = SqlLookup(f"sqlite:///{tmp_path / 'none.db'}", QUERY)
    assert reason(lookup) == "unreachable"
    assert not list(tmp_path.iterdir())
    desk(tmp_path / "none.db", ONE)
    assert lookup.read({"case_id": "HC-1"}, FACTS, 30)["amount"] == 38.0


def test_a_database_that_is_locked_or_none_is_an_error(tmp_path: Path) -> None:
    url = desk(tmp_path / "d", ONE)
    with closing(sqlite3.connect(tmp_path / "d", isolation_level=None)) as database:
        database.execute("begin exclusive")
        assert reason(SqlLookup(url, QUERY)) == "unreachable"
    (tmp_path / "e").write_text("no database at all, but a text that is long enough to be looked at as one" * 20)
    assert reason(SqlLookup(f"sqlite:///{tmp_path / 'e'}", QUERY)) == "error"
    assert reason(SqlLookup(url, QUERY.replace("tickets", "nothing"))) == "unreachable"


@pytest.mark.parametrize(
    ("stored", "schema", "value"),
    [
        (38.5, "number", 38.5),
        (38, "number", 38),
        (38, "integer", 38),
        (38.0, "integer", 38),
        (38.5, "integer", None),
        ("38", "number", None),
        (b"38", "number", None),
        (None, "number", None),
        (2**60, "integer", None),
        (float("inf"), "number", None),
        (1, "boolean", True),
        (0, "boolean", False),
        (2, "boolean", None),
        (1.0, "boolean", None),
        ("true", "boolean", None),
        ("x", "string", "x"),
        (5, "string", None),
        (b"x", "string", None),
    ],
)
def test_values_of_sqlite(tmp_path: Path, stored: Any, schema: str, value: Any) -> None:
    url = desk(tmp_path / "d", ("HC-1", stored, 0), columns="id, charged, charged_twice")
    facts = {"amount": Validator({"type": schema})}
    found = typed(SqlLookup(url, QUERY).read({"case_id": "HC-1"}, facts, 30), facts)
    assert found.get("amount") == value
    assert type(found.get("amount")) is type(value)


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("nonsense", "a database URL is needed"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("nosuch://s3cret@host/x", "the driver 'nosuch' can't be used"),
        ("oracle+nosuch://u:s3cret@host/x", "can't be used"),
    ],
)
def test_a_url_that_cannot_be_is_told_without_it(url: str, detail: str) -> None:
    with pytest.raises(ConfigurationError, match=detail) as caught:
        SqlLookup(url, QUERY)
    assert "s3cret" not in str(caught.value)


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="module")
def tickets(postgres: Postgres) -> str:
    """The URL of a database with tickets."""
    url = postgres.new_database()
    with psycopg.connect(url) as connection:
        connection.execute(
            "create table tickets (id text primary key, charged numeric(30, 20), charged_twice boolean, "
            "at timestamptz, day date, naive timestamp, ref uuid, parts jsonb, raw bytea)"
        )
        connection.execute(
            "insert into tickets values ('HC-1', 38.10, true, '2026-11-30T10:00:00+01:00', '2026-11-30', "
            """'2026-11-30T10:00:00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": [1]}', 'x'), """
            "('HC-2', 38, false, null, null, null, null, null, null), "
            "('HC-3', 1.00000000000000000001, false, null, null, null, null, null, null)"
        )
    return url


def test_values_of_postgresql(tickets: str) -> None:
    facts = {name: Validator({"type": "string"}) for name in ("at", "day", "naive", "ref", "raw")}
    facts |= {"charged": Validator({"type": "number"}), "charged_twice": Validator({"type": "boolean"})}
    facts |= {"parts": Validator({"type": "object"})}
    lookup = SqlLookup(tickets, "SELECT * FROM tickets WHERE id = :case_id")
    found = typed(lookup.read({"case_id": "HC-1"}, facts, 30), facts)
    at = found.pop("at")
    assert at in ("2026-11-30T09:00:00+00:00", "2026-11-30T10:00:00+01:00")
    assert found == {
        "charged": 38.1,
        "charged_twice": True,
        "day": "2026-11-30",
        "ref": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "parts": {"a": [1]},
    }
    assert typed(lookup.read({"case_id": "HC-2"}, facts, 30), facts) == {"charged": 38, "charged_twice": False}
    assert "charged" not in typed(lookup.read({"case_id": "HC-3"}, facts, 30), facts)  # it would be rounded
    assert reason(lookup, "' OR true --") == "not_found"
    lookup.close()


def test_postgresql_only_reads_and_stops_in_time(tickets: str) -> None:
    sly = (
        "WITH x AS (DELETE FROM tickets WHERE id = :case_id RETURNING 1 AS amount) SELECT amount, true AS twice FROM x"
    )
    writer = SqlLookup(tickets, sly)
    assert reason(writer) == "error"
    slow = SqlLookup(tickets, "SELECT 1 AS amount, true AS twice FROM tickets, pg_sleep(30) WHERE id = :case_id")
    began = monotonic()
    assert reason(slow, seconds=0.2) == "timeout"
    assert monotonic() - began < 25
    assert reason(SqlLookup(tickets.replace("preaction@", "nobody@"), QUERY)) == "unreachable"
    still = SqlLookup(tickets, "SELECT 1 AS amount FROM tickets WHERE id = :case_id")
    assert still.read({"case_id": "HC-1"}, FACTS, 30) == {"amount": 1}
    for lookup in (writer, slow, still):
        lookup.close()
