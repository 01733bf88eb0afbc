"""Verdicts that gates report: each is kept as it was told, and shown to operators; nothing is decided by one.

What is kept is the gate's own word about itself. It holds no arguments: a reporter leaves them out before it sends.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.keys import Caller
from preaction.authority.refusal import not_found
from preaction.authority.signing.records import new_id
from preaction.authority.storage.storage import Storage
from preaction.authority.storage.tables import VERDICTS
from preaction.wire.models import ReportedVerdict, VerdictReport
from preaction.wire.times import write_time

PAGE: Final = 50


def write_down(
    storage: Storage, connection: sa.Connection, report: VerdictReport, caller: Caller, now: datetime
) -> ReportedVerdict:
    """Store a report; within `writing`. 404 for a job that `caller` doesn't see."""
    if not caller.sees(caller.pack, report.job):
        raise not_found()
    verdict_id = new_id("ver", now)
    row = {
        "id": verdict_id,
        "pack": caller.pack,
        "job": report.job,
        "tool": report.tool,
        "code": report.code,
        "allow": int(report.allow),
        "enforced": int(report.enforced),
        "case_id": report.case,
        "execution_id": report.execution_id,
        "check_id": report.check_id,
        "reason": report.reason,
        "call_digest": report.call_digest,
        "at": write_time(report.at),
        "received_at": write_time(now),
        "key_id": caller.key_id,
    }
    storage.insert(connection, VERDICTS, row)
    return ReportedVerdict(verdict_id=verdict_id, received_at=now)


def page(
    storage: Storage, connection: sa.Connection, caller: Caller, wanted: Mapping[str, str], before: str | None
) -> tuple[list[Mapping[str, Any]], str | None]:
    """Rows that `caller` may see, newest first, and the `before` of the next page.

    `wanted` is column → value. A row that was altered comes as its `id` alone.
    """
    found = [VERDICTS.c.pack == caller.pack]
    if caller.jobs is not None:
        found.append(VERDICTS.c.job.in_(sorted(caller.jobs)))
    found += [VERDICTS.c[name] == value for name, value in wanted.items()]
    if before is not None:
        found.append(VERDICTS.c.id < before)
    statement = sa.select(VERDICTS).where(*found).order_by(VERDICTS.c.id.desc()).limit(PAGE + 1)
    rows: list[dict[str, Any]] = [dict(row) for row in connection.execute(statement).mappings()]
    shown: list[Mapping[str, Any]] = [
        row if storage.intact(VERDICTS, row) else {"id": row["id"]} for row in rows[:PAGE]
    ]
    return shown, rows[PAGE - 1]["id"] if len(rows) > PAGE else None
