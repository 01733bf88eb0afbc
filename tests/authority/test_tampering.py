"""Every column of every row of every table: who alters it is noticed, by the audit and by whatever uses the row.

The tables are those of the schema: a new column is altered here by itself, and a new table fails until it is said what
uses its rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
import sqlalchemy as sa

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from authority.packs import HELPDESK
from authority.tampering import altered, findings, put
from authority.test_verdicts import REPORT
from preaction.authority import LocalAuthority
from preaction.authority.console.sessions import Sessions
from preaction.authority.ledger import verdicts
from preaction.authority.ledger.retention import retain
from preaction.authority.refusal import Refused
from preaction.authority.storage.tables import CHAIN, EXECUTIONS, KEYS, METADATA, SCHEMA
from preaction.errors import AuthorityError

Row = dict[str, Any]
Rows = list[Row]

NEWER = HELPDESK.replace("2026-11-03.1", "2026-11-04.1")


@dataclass(frozen=True)
class Full:
    """An authority with two rows and more in every table that may have them, and what finds each."""

    authority: LocalAuthority
    executions: dict[str, list[str]]
    """Each id, and the problems that verifying finds."""
    first: list[str]
    checks: list[str]
    keys: list[str]
    sessions: Sessions
    signed_in: list[str]

    def rows(self, table: sa.Table) -> Rows:
        keys = table.primary_key.columns or table.columns
        with self.authority._storage.reading() as connection:
            return [dict(row) for row in connection.execute(sa.select(table).order_by(*keys)).mappings()]

    def all_rows(self) -> dict[sa.Table, Rows]:
        return {table: self.rows(table) for table in METADATA.sorted_tables}


@pytest.fixture
def full(opened: Callable[..., LocalAuthority], clock: Clock) -> Full:
    authority = opened()
    storage, keyring = authority._storage, authority._keyring
    for case in ("HC-1", "HC-2", "HC-1", "HC-2"):
        authority.decide("triage-ticket", entity_id=case, evidence=evidence())
    clock.forward(days=1)
    retain(storage, clock(), clock())
    first = [asked(authority, 3), asked(authority, 4)]
    authority.publish(NEWER)
    first.append(asked(authority, 5))
    authority.revoke(first[1])
    content: Any = {"output": "billing-team-reply", "content": REPLY}
    checks = [authority.check_output(first[0], **content)["checkId"] for _ in range(2)]
    for each in first:
        authority.report_verdict({**REPORT, "executionId": each, "checkId": checks[0]})
    keys = [keyring.create("operator", "helpdesk", jobs, clock()) for jobs in (None, ["triage-ticket"])]
    sessions = Sessions(storage, keyring, clock)
    signed_in = [sessions.open(key) or "" for key in keys]
    with storage.reading() as connection:
        ids = list(connection.execute(sa.select(EXECUTIONS.c.id)).scalars())
    executions = {each: authority.verify(each)["problems"] for each in ids}
    return Full(authority, executions, first, checks, keys, sessions, signed_in)


def asked(authority: LocalAuthority, number: int) -> str:
    """The execution of a decision that is asked for with an idempotency key: every time the same."""
    options: Any = {"evidence": evidence(), "idempotency_key": f"key-{number}"}
    return str(authority.decide("triage-ticket", entity_id=f"HC-{number}", **options)["executionId"])


# ---------------------------------------------------------------- who uses a row, and whether it is believed


def believed(question: Callable[[], bool], but: int) -> bool:
    """Whether the answer is what was written; refused may it be with `but`."""
    try:
        return question()
    except (AuthorityError, Refused) as error:
        status = error.status
    assert status == but
    return False


def replays(full: Full) -> list[bool]:
    """Verified as before. Of a row that isn't, `valid` is false, or its id isn't there."""

    def as_before(execution_id: str) -> bool:
        answer = full.authority.verify(execution_id)
        assert answer["valid"] is (answer["problems"] == [])
        return bool(answer["problems"] == full.executions[execution_id])

    return [believed(lambda at=each: as_before(at), 404) for each in full.executions]  # type: ignore[misc]


def standing_checks(full: Full) -> list[bool]:
    verify = full.authority.verify_output_check
    return [believed(lambda at=each: bool(verify(at)["valid"]), 404) for each in full.checks]  # type: ignore[misc]


def new_decision(full: Full) -> list[bool]:
    return [believed(lambda: asked(full.authority, 9) != "", 503)]


def transaction(full: Full) -> list[bool]:
    def write() -> bool:
        with full.authority._storage.writing():
            return True

    return [believed(write, 503)]


def first_answers(full: Full) -> list[bool]:
    """Given again. One under another id isn't there, and the request is a new one; only the audit can tell."""
    return [
        believed(lambda at=number: asked(full.authority, at) == full.first[at - 3], 409)  # type: ignore[misc]
        for number in (3, 4, 5)
    ]


def whole_reports(full: Full) -> list[bool]:
    storage = full.authority._storage
    with storage.reading() as connection:
        found, _ = verdicts.page(storage, connection, full.authority._operator, {}, None)
    return [len(row) > 1 for row in found] + [False] * (len(full.first) - len(found))


USES: Final[dict[str, Callable[[Full], list[bool]]]] = {
    "schema": transaction,
    "chain": new_decision,
    "releases": replays,
    "executions": replays,
    "output_checks": standing_checks,
    "keys": lambda full: [full.authority._keyring.caller(each) is not None for each in full.keys],
    "sessions": lambda full: [full.sessions.visitor(each) is not None for each in full.signed_in],
    "answers": first_answers,
    "verdicts": whole_reports,
    "removed": lambda full: [not findings(full.authority)],  # the audit alone reads it
}
EACH: Final = [
    pytest.param("memory", METADATA.sorted_tables, id="memory"),
    *(
        pytest.param(kind, [table], id=f"{kind}-{table.name}", marks=pytest.mark.long)
        for kind in ("sqlite", "postgresql")
        for table in METADATA.sorted_tables
    ),
]
"""In a file all rows are altered, each column in several ways; elsewhere one row of each table, in memory one way."""


def test_every_table_has_a_use() -> None:
    assert set(USES) == {table.name for table in METADATA.sorted_tables}


def noticed(full: Full, before: dict[sa.Table, Rows], table: sa.Table, content: Rows, where: str) -> None:
    """With this for its rows, the audit names those that changed, and not all are believed by who uses them."""
    put(full.authority, table, content)
    if table is not SCHEMA:  # with another one it can't be opened
        key = next(iter(table.primary_key.columns)).name
        found = {str(each.id).partition(", ")[0] for each in findings(full.authority) if each.table == table.name}
        changed = {"head" if table is CHAIN else row[key] for row in content if row not in before[table]}
        assert changed <= found, where
    assert not all(USES[table.name](full)), where
    put(full.authority, table, before[table])
    if len(full.rows(EXECUTIONS)) != len(before[EXECUTIONS]):
        put_back(full, before)


def put_back(full: Full, before: dict[sa.Table, Rows]) -> None:
    for table, content in before.items():
        put(full.authority, table, content)


@pytest.mark.parametrize(("kind", "tables"), EACH)
def test_an_altered_column_and_two_rows_in_each_others_place_are_noticed(
    full: Full, tables: list[sa.Table], kind: str
) -> None:
    before = full.all_rows()
    assert findings(full.authority) == []
    assert all(all(USES[table.name](full)) for table in tables)
    put_back(full, before)
    for table in tables:
        rows = before[table] if kind == "sqlite" else before[table][:1]
        for number, row in enumerate(rows):
            for column in table.columns:
                for value in altered(row[column.name])[: 1 if kind == "memory" else None]:
                    content = [*before[table][:number], {**row, column.name: value}, *before[table][number + 1 :]]
                    noticed(full, before, table, content, f"{table.name}.{column.name} of row {number}: {value!r}")
        if table not in (SCHEMA, CHAIN):  # which have one row
            noticed(full, before, table, swapped(table, *before[table]), table.name)
    assert findings(full.authority) == []


def swapped(table: sa.Table, one: Row, other: Row, *rest: Row) -> Rows:
    """All of two rows, but for their keys, in each other's place."""
    keys = [column.name for column in table.primary_key.columns]
    return [{**other, **{key: one[key] for key in keys}}, {**one, **{key: other[key] for key in keys}}, *rest]


@pytest.mark.parametrize("kind", ["memory"])
def test_a_keys_row_from_before_it_was_revoked_shows_nowhere(full: Full, clock: Clock) -> None:
    """What ADR 0007 says that whoever writes into the database can do: only executions' revocations are counted."""
    before, keyring = full.rows(KEYS), full.authority._keyring
    assert keyring.revoke(keyring.caller(full.keys[0]).key_id, clock())  # type: ignore[union-attr]
    assert keyring.caller(full.keys[0]) is None
    put(full.authority, KEYS, before)
    assert keyring.caller(full.keys[0]) is not None
    assert findings(full.authority) == []
