"""Deciding again: what a new decision on a case is compared with, so that nobody shops for the outcome they want.

That is the last decision on the same job and case that was decided, of whatever release. Each record keeps what it was
compared with, so a replay needs no other row; and since an undecided one keeps it as well, only the newest record of a
case is ever read. One that was altered compares with nothing: whatever comes after it has changed.
"""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.ledger.shelf import Shelf
from preaction.authority.packs.decide import case_key
from preaction.authority.packs.release import ReadyJob, Release
from preaction.authority.storage.storage import EXECUTIONS, Storage
from preaction.wire.models import Case

Compared = Mapping[str, Any]
"""`executionId` and `release` of the decision, `values` (what callers said, by fact; null when that isn't known), and
`notAsked`: facts that its release didn't take from callers, so that giving them now changes nothing."""

_OF_CASE: Final = (
    sa.select(EXECUTIONS)
    .where(
        EXECUTIONS.c.pack == sa.bindparam("pack"),
        EXECUTIONS.c.job == sa.bindparam("job"),
        EXECUTIONS.c.case_key == sa.bindparam("case_key"),
    )
    .order_by(EXECUTIONS.c.number.desc())
    .limit(1)
)
_DECIDED: Final = _OF_CASE.where(EXECUTIONS.c.status == "decided")


def compared_with(
    storage: Storage, shelf: Shelf, connection: sa.Connection, release: Release, job: ReadyJob, case: Case
) -> Compared | None:
    """What a decision on this case is compared with, None when nothing was decided; within `writing`."""
    at = {"pack": release.pack, "job": job.name, "case_key": case_key(job, case.id)}
    row = storage.one(connection, _OF_CASE, **at)
    if row is None:
        return None
    record = _record(storage, row)
    if record is not None and record["ruling"]["status"] != "decided" and "comparedWith" not in record:
        # It was written before records kept this.
        row = storage.one(connection, _DECIDED, **at)
        if row is None:
            return None
        record = _record(storage, row)
    if record is None:
        return {"executionId": row["id"], "release": row["release"], "values": None, "notAsked": []}
    if record["ruling"]["status"] != "decided":
        last = record["comparedWith"]
        if last is None:
            return None
        then = _job_then(shelf, connection, record, last["release"])
    else:
        then = _job_then(shelf, connection, record, record["release"])
        last = {"executionId": record["executionId"], "release": record["release"], "values": _said(record, then)}
    return {**last, "notAsked": [] if then is None else sorted(_taken(job) - _taken(then))}


def _record(storage: Storage, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return storage.records.open(row) if storage.intact(EXECUTIONS, row) else None


def _job_then(shelf: Shelf, connection: sa.Connection, record: Mapping[str, Any], release: str) -> ReadyJob | None:
    found = shelf.pinned(connection, record["pack"], release)
    return None if found is None else found.jobs.get(record["job"])


def _said(record: Mapping[str, Any], then: ReadyJob | None) -> dict[str, Any]:
    evidence = record["request"]["evidence"]
    return {name: item["value"] for name, item in evidence.items() if then is None or name in _taken(then)}


def _taken(job: ReadyJob) -> set[str]:
    return {name for name, fact in job.rule.facts.items() if fact.origin == "caller"}
