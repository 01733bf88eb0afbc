"""Output checks: a text checked once, written down with its digest, and confirmed later without the text."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.keys import Caller
from preaction.authority.ledger.executions import Execution, among
from preaction.authority.packs.outputs import NOT_ALLOWED, check_content
from preaction.authority.packs.release import ReadyJob
from preaction.authority.refusal import Refused, invalid, not_found
from preaction.authority.signing.records import new_id
from preaction.authority.storage.storage import CHECKS, EXECUTIONS, Row, Storage
from preaction.wire.digest import content_digest
from preaction.wire.models import Finding, OutputCheck, OutputCheckRequest, OutputCheckVerification

_BY_ID: Final = (
    sa.select(CHECKS, EXECUTIONS.c.revoked_at)
    .join(EXECUTIONS, EXECUTIONS.c.id == CHECKS.c.execution_id, isouter=True)
    .where(CHECKS.c.id == sa.bindparam("id"))
)


def standing(execution: Execution) -> Mapping[str, Any]:
    """The record of an execution that texts may be checked for; 409 for one that was revoked or altered."""
    if execution.record is None:
        raise Refused(409, "The record of this execution was altered.")
    if execution.revoked:
        raise Refused(409, "This execution was revoked.")
    return execution.record


def check(job: ReadyJob, record: Mapping[str, Any], request: OutputCheckRequest, now: datetime) -> OutputCheck:
    """Check one text by the rules of its release. Pure but for the new id."""
    output = job.outputs.get(request.output)
    if output is None:
        raise not_found()
    errors: list[tuple[tuple[str, str], str]] = [
        (("content", name), "this output has no such field") for name in request.content if name not in output.fields
    ]
    errors += [(("content", name), "this field is needed") for name in output.fields if name not in request.content]
    if errors:
        raise invalid(errors)
    findings = check_content(output, request.content)
    if not _allowed(job, record["ruling"]["outcome"], request.output):
        message = "the outcome of this execution doesn't list this output"
        findings.insert(0, Finding(rule=NOT_ALLOWED, field=None, span=None, message=message))
    return OutputCheck(
        check_id=new_id("chk", now),
        execution_id=record["executionId"],
        output=request.output,
        release=record["release"],
        passed=not findings,
        findings=findings,
        content_digest=content_digest(request.content),
        checked_at=now,
    )


def write_down(
    storage: Storage,
    connection: sa.Connection,
    made: OutputCheck,
    execution: Mapping[str, Any],
    content: Mapping[str, str],
    caller: Caller,
) -> None:
    """Store an output check and its text; within `writing`."""
    record = {
        **made.model_dump(mode="json", by_alias=True),
        "pack": execution["pack"],
        "job": execution["job"],
        "content": dict(content),
        "keyId": caller.key_id,
    }
    row = {"id": made.check_id, "execution_id": made.execution_id, "pack": execution["pack"], "job": execution["job"]}
    storage.insert(connection, CHECKS, {**row, **storage.records.new(record)})


@cache
def _seen_by_id(jobs: frozenset[str] | None) -> sa.Select[Any]:
    """A check of this pack and these jobs, by itself or by its execution; what isn't, the database doesn't give."""
    of_pack = sa.or_(*(table.c.pack == sa.bindparam("pack") for table in (CHECKS, EXECUTIONS)))
    return _BY_ID.where(of_pack, among(jobs, CHECKS.c.job, EXECUTIONS.c.job))


def find(
    storage: Storage, connection: sa.Connection, caller: Caller, check_id: str
) -> tuple[Row, Mapping[str, Any] | None] | None:
    """A check's row, with its execution's `revoked_at`, and its record: None for the record when the row was altered.

    None if `caller` sees no such check, which takes as long as when there is none.
    """
    row = storage.one(connection, _seen_by_id(caller.jobs), id=check_id, pack=caller.pack)
    if row is None:
        return None
    record = storage.records.open(row)
    owner = row if record is None else record
    if not caller.sees(owner["pack"], owner["job"]):
        return None
    return row, record if storage.intact(CHECKS, row) else None


def confirm(
    storage: Storage, connection: sa.Connection, caller: Caller, check_id: str, now: datetime
) -> OutputCheckVerification | None:
    """Whether a check stands: its record unaltered and its execution not revoked. None if `caller` sees none."""
    found = find(storage, connection, caller, check_id)
    if found is None:
        return None
    row, record = found
    valid = record is not None and row["revoked_at"] is None
    if record is None:
        record = {"executionId": "", "output": "", "release": "", "contentDigest": "", "passed": False}
    return OutputCheckVerification(
        valid=valid,
        passed=record["passed"],
        check_id=check_id,
        execution_id=record["executionId"],
        output=record["output"],
        release=record["release"],
        content_digest=record["contentDigest"],
        verified_at=now,
    )


def _allowed(job: ReadyJob, outcome: str | None, output: str) -> bool:
    return any(each.rule.id == outcome and output in each.rule.outputs for each in job.outcomes)
