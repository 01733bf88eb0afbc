"""What the console reads beside what operators may ask over HTTP: checked texts, and what belongs to one decision.

Everything is asked for one caller, and what that caller may not see isn't there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.deciding.checks import find as find_check
from preaction.authority.keys import Caller
from preaction.authority.ledger import executions, verdicts
from preaction.authority.refusal import not_found
from preaction.authority.storage.storage import Row, Storage
from preaction.authority.storage.tables import CHECKS

PAGE: Final = 50

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the database: its id, its record, or None when the row was altered and nothing of it may be believed."""

    id: str
    record: Record | None
    receipt: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision with what was done on it."""

    stored: Stored
    checks: Sequence[Stored]
    verdicts: Sequence[Record]


def decided(storage: Storage, caller: Caller, execution_id: str) -> Decided:
    """One decision; the 404 when there is none that `caller` may see."""
    with storage.reading() as connection:
        execution = executions.find(storage, connection, caller, execution_id)
        checks, _ = _checks(storage, connection, caller, None, CHECKS.c.execution_id == execution_id)
        reported, _ = verdicts.page(storage, connection, caller, {"execution_id": execution_id}, None)
    return Decided(Stored(execution_id, execution.record, execution.row["receipt"]), checks, reported)


def checked(storage: Storage, caller: Caller, check_id: str) -> Stored:
    """One output check; the 404 when there is none that `caller` may see."""
    with storage.reading() as connection:
        found = find_check(storage, connection, caller, check_id)
    if found is None:
        raise not_found()
    row, record = found
    return Stored(check_id, record, row["receipt"])


def checks_page(
    storage: Storage, caller: Caller, job: str | None, before: str | None
) -> tuple[list[Stored], str | None]:
    """Output checks, newest first, and the `before` of the next page."""
    with storage.reading() as connection:
        return _checks(storage, connection, caller, before, *([] if job is None else [CHECKS.c.job == job]))


def verdicts_page(
    storage: Storage, caller: Caller, wanted: Mapping[str, str], before: str | None
) -> tuple[list[Record], str | None]:
    """Reported verdicts, newest first, and the `before` of the next page; `wanted` is column → value."""
    with storage.reading() as connection:
        return verdicts.page(storage, connection, caller, wanted, before)


def _checks(
    storage: Storage, connection: sa.Connection, caller: Caller, before: str | None, *wanted: sa.ColumnElement[bool]
) -> tuple[list[Stored], str | None]:
    found = [CHECKS.c.pack == caller.pack, *wanted]
    if caller.jobs is not None:
        found.append(CHECKS.c.job.in_(sorted(caller.jobs)))
    if before is not None:
        found.append(CHECKS.c.id < before)
    statement = sa.select(CHECKS).where(*found).order_by(CHECKS.c.id.desc()).limit(PAGE + 1)
    rows = [dict(row) for row in connection.execute(statement).mappings()]
    return [_stored(storage, row) for row in rows[:PAGE]], rows[PAGE - 1]["id"] if len(rows) > PAGE else None


def _stored(storage: Storage, row: Row) -> Stored:
    record = storage.records.open(row) if storage.intact(CHECKS, row) else None
    return Stored(row["id"], record, row["receipt"])
