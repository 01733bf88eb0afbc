"""Retention: what was decided long ago loses its content, and keeps its place in the chain.

An old execution goes with its record, receipt and case, and with the texts that were checked for it; a row of `removed`
keeps its id, number and digests, so that the chain stays whole and whoever holds a receipt can still show that it was
in it. Kept is what later answers need: a case's newest execution, which makes earlier ones superseded, and its newest
decided one, which a next decision is compared with. Kept too is every row that was altered: it is evidence. Whole cases
go only when asked for, and only when all of a case is old.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.ledger.executions import column_time
from preaction.authority.storage.storage import Row, Storage
from preaction.authority.storage.tables import ANSWERS, CHECKS, EXECUTIONS, REMOVED, VERDICTS
from preaction.wire.times import write_time

_BATCH: Final = 200
"""Executions in one transaction: others get their turn to write in between."""

_OTHER: Final = EXECUTIONS.alias("other")


@dataclass(slots=True)
class Removed:
    """How many of each went, or would; `altered` executions are old as well and are kept."""

    executions: int = 0
    output_checks: int = 0
    answers: int = 0
    verdicts: int = 0
    altered: int = 0

    def __iadd__(self, other: "Removed") -> "Removed":
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self


def retain(
    storage: Storage, before: datetime, now: datetime, *, whole_cases: bool = False, dry_run: bool = False
) -> Removed:
    """Remove what is older than `before`; 503 when the database fails, and then what was removed stays removed.

    A dry run changes nothing, and counts what would go.
    """
    opened, take = (storage.reading, _count) if dry_run else (storage.writing, _delete)
    removed = Removed()
    last = 0
    while True:
        with opened() as connection:
            rows = _old(connection, before, last, whole_cases=whole_cases)
            whole = [row for row in rows if storage.intact(EXECUTIONS, row)]
            if not dry_run:
                _keep_places(storage, connection, whole, now)
            ids = [row["id"] for row in whole]
            checks = take(connection, CHECKS, CHECKS.c.execution_id.in_(ids))
            executions = take(connection, EXECUTIONS, EXECUTIONS.c.id.in_(ids))
        removed += Removed(executions, checks, altered=len(rows) - len(whole))
        if len(rows) < _BATCH:
            break
        last = rows[-1]["number"]
    with opened() as connection:
        removed.answers = take(connection, ANSWERS, ANSWERS.c.created_at < write_time(before))
        removed.verdicts = take(connection, VERDICTS, VERDICTS.c.received_at < write_time(before))
    if not dry_run:
        storage.tidy(EXECUTIONS, CHECKS, ANSWERS, VERDICTS)
    return removed


def _old(connection: sa.Connection, before: datetime, last: int, *, whole_cases: bool) -> list[Row]:
    limit = column_time(before)
    of_case = sa.select(_OTHER.c.id).where(
        _OTHER.c.pack == EXECUTIONS.c.pack,
        _OTHER.c.job == EXECUTIONS.c.job,
        _OTHER.c.case_key == EXECUTIONS.c.case_key,
    )
    later = of_case.where(_OTHER.c.number > EXECUTIONS.c.number)
    decided_later = later.where(_OTHER.c.status == "decided")
    may_go = sa.exists(decided_later) | ((EXECUTIONS.c.status != "decided") & sa.exists(later))
    if whole_cases:
        may_go |= ~sa.exists(of_case.where(_OTHER.c.decided_at >= limit))
    statement = (
        sa.select(EXECUTIONS)
        .where(EXECUTIONS.c.number > last, EXECUTIONS.c.decided_at < limit, may_go)
        .order_by(EXECUTIONS.c.number)
        .limit(_BATCH)
    )
    return [dict(row) for row in connection.execute(statement).mappings()]


def _keep_places(storage: Storage, connection: sa.Connection, rows: list[Row], now: datetime) -> None:
    for row in rows:
        kept: dict[str, Any] = {name: row[name] for name in ("id", "number", "previous", "digest", "revoked_at")}
        storage.insert(connection, REMOVED, {**kept, "removed_at": write_time(now)})


def _delete(connection: sa.Connection, table: sa.Table, which: sa.ColumnElement[bool]) -> int:
    return connection.execute(sa.delete(table).where(which)).rowcount


def _count(connection: sa.Connection, table: sa.Table, which: sa.ColumnElement[bool]) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table).where(which)).scalar_one()
