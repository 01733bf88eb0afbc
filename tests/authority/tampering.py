"""An authority whose database somebody with write access alters, and what the audit says then."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from authority.asking import REPLY, evidence
from authority.conftest import Clock
from preaction.authority import LocalAuthority
from preaction.authority.ledger.chain import Audit, Finding, Witness
from preaction.authority.ledger.retention import retain
from preaction.authority.storage.tables import CHAIN, EXECUTIONS, REMOVED

TABLES = EXECUTIONS, REMOVED, CHAIN


def filled(authority: LocalAuthority, clock: Clock) -> LocalAuthority:
    """Nine executions, of which retention removed 1, 3 and 4; the fifth and the removed third are revoked."""
    for number in range(1, 6):
        decision = decide(authority, "HC-1" if number in (1, 3, 4, 5) else "HC-2")
        if number in (3, 5):
            authority.revoke(decision["executionId"])
    clock.forward(days=1)
    retain(authority._storage, clock(), clock())
    for number in range(6, 10):
        decision = decide(authority, f"HC-{number}")
    authority.check_output(decision["executionId"], output="billing-team-reply", content=REPLY)
    return authority


def decide(authority: LocalAuthority, entity_id: str) -> dict[str, Any]:
    return authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence())


def findings(authority: LocalAuthority, witnesses: Iterable[Witness] = ()) -> list[Finding]:
    return list(Audit(authority._storage, witnesses).findings())


def found(authority: LocalAuthority) -> list[tuple[str, str, int | None, Any]]:
    """Kind, table, number; and the id of a row, or the last number of those that were dropped."""
    return [(each.kind, each.table, each.number, each.last or each.id) for each in findings(authority)]


def run(authority: LocalAuthority, *statements: Any) -> None:
    with authority._storage._changing() as connection:
        for statement in statements:
            connection.execute(statement)


def rows(authority: LocalAuthority, table: sa.Table) -> list[dict[str, Any]]:
    order = table.c.number if "number" in table.c else table.c.id
    with authority._storage.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(table).order_by(order)).mappings()]


def row(authority: LocalAuthority, number: int, table: sa.Table = EXECUTIONS) -> dict[str, Any]:
    return next(each for each in rows(authority, table) if each["number"] == number)


def put(authority: LocalAuthority, table: sa.Table, content: Iterable[dict[str, Any]]) -> None:
    """Make these all the rows of a table."""
    run(authority, table.delete(), *(table.insert().values(each) for each in content))


def altered(value: object) -> list[object]:
    """Other values of a column, none of which any row has."""
    if isinstance(value, int):
        return [value + 1000, -value - 1]
    if isinstance(value, str):
        others = ["", value + "x", value + "é", value[:-1] + ("a" if value[-1:] != "a" else "b")]
        return [other for other in others if other != value]
    return ["2026-11-30T09:00:00Z"]
