"""What a request reads doesn't grow with what is stored: every statement finds its rows by an index."""

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlalchemy as sa

import preaction.authority
from authority.conftest import Place
from preaction.authority import operators
from preaction.authority.deciding import checks
from preaction.authority.keys import Caller
from preaction.authority.ledger import executions
from preaction.authority.storage.storage import Storage
from preaction.authority.storage.tables import METADATA

FEW, MANY = 300, 3000
LISTS = {"keys._NEWEST_FIRST", "ledger.shelf._NEWEST_FIRST", "ledger.shelf._OF_PACK"}
"""They answer with all that a pack has, for operators."""

GROW = [table for table in METADATA.sorted_tables if table.name not in ("schema", "chain")]


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def storage(place: Place) -> Iterator[Storage]:
    opened = Storage(str(place.url), place.key)
    yield opened
    opened.close()


def statements() -> dict[str, sa.Select[Any]]:
    """Every statement that a module of the authority has ready."""
    found: dict[str, sa.Select[Any]] = {}
    for each in pkgutil.walk_packages(preaction.authority.__path__, "preaction.authority."):
        for name, value in vars(importlib.import_module(each.name)).items():
            many = value if isinstance(value, dict) else {"": value}
            for key, one in many.items():
                if isinstance(one, sa.Select):
                    found[f"{each.name.removeprefix('preaction.authority.')}.{name}{key and '.'}{key}"] = one
    return found


STATEMENTS = statements()
for module in (executions, checks):
    for scope, jobs in {"all jobs": None, "some jobs": frozenset({"job", "other"})}.items():
        STATEMENTS[f"{module.__name__}._seen_by_id, {scope}"] = module._seen_by_id(jobs)


def value(column: sa.Column[Any], number: int) -> object:
    """All rows are of one job, two make a case, and everything else tells them apart."""
    if column.name in ("pack", "job"):
        return column.name
    if column.name == "revoked_at":
        return None
    if isinstance(column.type, sa.Integer):
        return number + 1
    return f"{column.name}-{number // 2 if column.name.startswith('case') else number}"


def fill(storage: Storage, count: int) -> None:
    with storage.writing() as connection:
        for table in GROW:
            connection.execute(table.delete())
            rows = ({column.name: value(column, number) for column in table.columns} for number in range(count))
            connection.execute(table.insert(), list(rows))
    storage.tidy(*GROW)


def values(statement: sa.Select[Any]) -> Mapping[str, object]:
    params = statement.compile().params
    return {name: given if given is not None else named(name) for name, given in params.items()}


def named(name: str) -> object:
    return name if name in ("pack", "job") else f"{name}-10"


def work(connection: sa.Connection, statement: sa.Select[Any]) -> int:
    """How much one run of a statement does: SQLite's steps, or the rows that PostgreSQL looks at."""
    if connection.dialect.name == "sqlite":
        steps = [0]

        def step() -> None:
            steps[0] += 1

        raw: Any = connection.connection.dbapi_connection
        raw.set_progress_handler(step, 1)
        connection.execute(statement, values(statement)).first()
        raw.set_progress_handler(None, 1)
        return steps[0]
    compiled = statement.compile(dialect=connection.dialect)
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {compiled}"
    plan: Any = connection.exec_driver_sql(explain, dict(values(statement))).scalar_one()
    return rows_read(json.loads(plan)[0]["Plan"] if isinstance(plan, str) else plan[0]["Plan"])


def rows_read(node: Mapping[str, Any]) -> int:
    here = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(here) + sum(rows_read(each) for each in node.get("Plans", ()))


def test_there_are_statements_to_look_at() -> None:
    assert {
        "ledger.executions._BY_ID",
        "deciding.checks._BY_ID",
        "keys._BY_ID",
        "ledger.shelf._CURRENT",
        "storage.storage._LAST.executions",
    } <= set(STATEMENTS)


def test_no_statement_reads_more_when_more_is_stored(storage: Storage) -> None:
    done: dict[int, dict[str, int]] = {}
    for count in (FEW, MANY):
        fill(storage, count)
        with storage.reading() as connection:
            done[count] = {name: work(connection, statement) for name, statement in STATEMENTS.items()}
    grown = {name: (few, done[MANY][name]) for name, few in done[FEW].items() if done[MANY][name] > 1.5 * few + 20}
    assert set(grown) <= LISTS, grown


def test_a_case_is_searched_for_by_an_index(storage: Storage) -> None:
    statement, done = operators.search(Caller("key", "operator", "pack"), {"case": "case_id-10"}), {}
    for count in (FEW, MANY):
        fill(storage, count)
        with storage.reading() as connection:
            done[count] = work(connection, statement)
            assert "executions_case_id" in plan(connection, statement)
    assert done[MANY] <= 1.5 * done[FEW] + 20


def plan(connection: sa.Connection, statement: sa.Select[Any]) -> str:
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    text = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    return "\n".join(str(row) for row in connection.exec_driver_sql(f"{explain} {text}"))


def test_a_missing_index_would_show(storage: Storage) -> None:
    with storage.writing() as connection:
        connection.exec_driver_sql("DROP INDEX executions_case")
    fill(storage, MANY)
    with storage.reading() as connection:
        assert work(connection, STATEMENTS["deciding.again._OF_CASE"]) > FEW
