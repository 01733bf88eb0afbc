"""Executions: a decision written down, found again, and replayed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from preaction.authority.keys import Caller
from preaction.authority.ledger.head import advance, head
from preaction.authority.packs.decide import Ruling, case_key, check_key_length, decide, derived_id
from preaction.authority.packs.release import ReadyJob, Release
from preaction.authority.refusal import not_found, wrong
from preaction.authority.signing.records import new_id
from preaction.authority.storage.storage import EXECUTIONS, RELEASES, Storage
from preaction.wire.models import Case, DecidedOutcome, Decision, Identity, Replay
from preaction.wire.times import read_time, write_time

_LATER: Final = EXECUTIONS.alias("later")
_SUPERSEDED: Final = sa.exists(
    sa.select(_LATER.c.id).where(
        _LATER.c.pack == EXECUTIONS.c.pack,
        _LATER.c.job == EXECUTIONS.c.job,
        _LATER.c.case_key == EXECUTIONS.c.case_key,
        _LATER.c.number > EXECUTIONS.c.number,
    )
).correlate(EXECUTIONS)
_BY_ID: Final = sa.select(EXECUTIONS, _SUPERSEDED.label("superseded")).where(EXECUTIONS.c.id == sa.bindparam("id"))
_ITS_RELEASE: Final = sa.exists(
    sa.select(RELEASES.c.digest).where(
        RELEASES.c.pack == sa.bindparam("pack"),
        RELEASES.c.release == EXECUTIONS.c.release,
        RELEASES.c.digest == EXECUTIONS.c.release_digest,
    )
).correlate(EXECUTIONS)
_OF_CASE: Final = (
    sa.select(EXECUTIONS.c.id)
    .where(
        EXECUTIONS.c.pack == sa.bindparam("pack"),
        EXECUTIONS.c.job == sa.bindparam("job"),
        EXECUTIONS.c.case_key == sa.bindparam("case_key"),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Execution:
    """A stored decision. `record` is None, and nothing else may be believed, when anything of its row was altered."""

    record: Mapping[str, Any] | None
    revoked: bool
    superseded: bool
    row: Mapping[str, Any]


def find(storage: Storage, connection: sa.Connection, caller: Caller, execution_id: str) -> Execution:
    """The execution of that id, if `caller` may see it; else the 404, which takes as long as for no execution."""
    row = storage.one(connection, _seen_by_id(caller.jobs), id=execution_id, pack=caller.pack)
    if row is None:
        raise not_found()
    record = storage.records.open(row)
    # Whose it is, is what was signed: an altered column shows it to nobody else.
    owner = row if record is None else record
    if not caller.sees(owner["pack"], owner["job"]):
        raise not_found()
    if not storage.intact(EXECUTIONS, row):
        record = None
    return Execution(record, row["revoked_at"] is not None, bool(row["superseded"]), row)


@cache
def _seen_by_id(jobs: frozenset[str] | None) -> sa.Select[Any]:
    """An execution of this pack and these jobs: what isn't, the database doesn't give, so that nothing is done with it.

    Its release says of which pack it is as well, so that altering `pack` doesn't hide it from its owner.
    """
    return _BY_ID.where((EXECUTIONS.c.pack == sa.bindparam("pack")) | _ITS_RELEASE, among(jobs, EXECUTIONS.c.job))


def among(jobs: frozenset[str] | None, *columns: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """Whether one of these columns names one of these jobs; None are all."""
    if jobs is None:
        return sa.true()
    return sa.or_(sa.false(), *(column == job for column in columns for job in sorted(jobs)))


def the_case(
    storage: Storage,
    connection: sa.Connection,
    release: Release,
    job: ReadyJob,
    request: Mapping[str, Any],
    now: datetime,
) -> Case:
    """The case that a request is about; 422 for one that an issuing job never issued."""
    identity: Identity = job.rule.subject.identity
    if identity == "derived":
        return Case(id=check_key_length(derived_id(job, request)), identity=identity)
    named: str | None = request["entity_id"]
    if identity == "issued":
        if named is None:
            return Case(id=new_id("case", now), identity=identity)
        at = {"pack": release.pack, "job": job.name, "case_key": case_key(job, named)}
        if connection.execute(_OF_CASE, at).first() is None:
            wrong(("entity_id",), "this job issues its ids, and never issued this one")
    return Case(id=str(named), identity=identity)


def write_down(
    storage: Storage,
    connection: sa.Connection,
    release: Release,
    job: ReadyJob,
    case: Case,
    request: Mapping[str, Any],
    before: Mapping[str, Any] | None,
    caller: Caller,
    now: datetime,
) -> Decision:
    """Decide, compared with what was decided `before`, and store the decision with its receipt; within `writing`."""
    ruling = decide(job, request, now, before)
    last = head(storage, connection)
    record = {
        "executionId": new_id("exe", now),
        "number": last["number"] + 1,
        "previous": last["digest"],
        "pack": release.pack,
        "job": job.name,
        "release": release.version,
        "releaseDigest": release.digest,
        "case": {"id": case.id, "identity": case.identity},
        "request": request,
        "comparedWith": before,
        "ruling": ruling.as_json(),
        "decidedAt": write_time(now),
        "keyId": caller.key_id,
    }
    signed = storage.records.new(record)
    columns = {**columns_of(record), **signed, "case_key": case_key(job, case.id), "revoked_at": None}
    storage.insert(connection, EXECUTIONS, columns)
    advance(storage, connection, last, record["number"], signed["digest"])
    return _decision(record, job, case, ruling, signed["receipt"])


def replay(job: ReadyJob, record: Mapping[str, Any]) -> tuple[Replay, bool]:
    """Decide again from the record; with False when something else comes out than what was recorded."""
    request, case = record["request"], record["case"]
    ruling = decide(job, request, read_time(record["decidedAt"]), record.get("comparedWith"))
    case_id = derived_id(job, request) if job.rule.subject.identity == "derived" else request["entity_id"] or case["id"]
    same = (
        ruling.as_json() == record["ruling"] and case_id == case["id"] and job.rule.subject.identity == case["identity"]
    )
    said = {
        "job": job.name,
        "release": record["release"],
        "case": Case(id=case_id, identity=job.rule.subject.identity),
        "status": ruling.status,
        "outcome": ruling.outcome,
        "escalation": job.escalation(ruling.escalation),
        "decided_at": record["decidedAt"],
        "evidence_fresh_until": ruling.evidence_fresh_until,
    }
    if request["entity_id"] is not None:
        said["entity_id"] = request["entity_id"]
    return Replay(**said), same


def column_time(moment: datetime) -> str:
    """A time of fixed width, so that texts sort as times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def columns_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that say what its record says; `previous` isn't among them for a record of schema 1."""
    found = {
        "id": record["executionId"],
        "number": record["number"],
        "pack": record["pack"],
        "job": record["job"],
        "release": record["release"],
        "release_digest": record["releaseDigest"],
        "case_id": record["case"]["id"],
        "identity": record["case"]["identity"],
        "status": record["ruling"]["status"],
        "outcome": record["ruling"]["outcome"],
        "decided_at": column_time(read_time(record["decidedAt"])),
    }
    return {**found, "previous": record["previous"]} if "previous" in record else found


def _decision(record: Mapping[str, Any], job: ReadyJob, case: Case, ruling: Ruling, receipt: str) -> Decision:
    said = {
        "execution_id": record["executionId"],
        "job": job.name,
        "pack": record["pack"],
        "release": record["release"],
        "case": case,
        "status": ruling.status,
        "outcome": None if ruling.outcome is None else DecidedOutcome(id=ruling.outcome, title=ruling.title or ""),
        "next_step": ruling.next_step,
        "escalation": job.escalation(ruling.escalation),
        "missing": list(ruling.missing),
        "problems": list(ruling.problems),
        "decided_at": record["decidedAt"],
        "evidence_fresh_until": ruling.evidence_fresh_until,
        "receipt": receipt,
    }
    if record["request"]["entity_id"] is not None:
        said["entity_id"] = record["request"]["entity_id"]
    return Decision(**said)
