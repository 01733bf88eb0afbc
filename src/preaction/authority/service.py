"""What the authority answers, as wire models; each method takes who asks and a body that was already parsed.

No HTTP here: `api` and `local` are two ways in. Whatever can't be answered is `Refused`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa
from pydantic import ValidationError

from preaction.authority.deciding import checks
from preaction.authority.deciding.answers import Answers, repeatable
from preaction.authority.deciding.decisions import Deciding
from preaction.authority.facts.lookups import Lookups
from preaction.authority.keys import Caller
from preaction.authority.ledger import executions, verdicts
from preaction.authority.ledger.shelf import Shelf
from preaction.authority.packs.release import ReadyJob, Release
from preaction.authority.refusal import Refused, from_validation, not_found
from preaction.authority.storage.storage import Storage
from preaction.wire.models import (
    Decision,
    DecisionRequest,
    Include,
    JobDescription,
    JobSummary,
    OutputCheck,
    OutputCheckRequest,
    OutputCheckVerification,
    ReportedVerdict,
    Request,
    VerdictReport,
    Verification,
    VerifyRequest,
)
from preaction.wire.times import write_time

Clock: TypeAlias = Callable[[], datetime]
R = TypeVar("R", bound=Request)


class Empty(Request):
    """The body `{}`."""


class Service:
    """The operations for agents."""

    def __init__(self, storage: Storage, shelf: Shelf, lookups: Lookups, clock: Clock) -> None:
        self._storage = storage
        self._shelf = shelf
        self._answers = Answers(storage, clock)
        self._deciding = Deciding(storage, shelf, self._answers, self._current, lookups, clock)
        self._clock = clock

    @property
    def clock(self) -> Clock:
        """The time that this authority goes by."""
        return self._clock

    def list_jobs(self, caller: Caller) -> list[JobSummary]:
        """The jobs that this key may use, at the current release."""
        with self._storage.reading() as connection:
            release = self._shelf.current(connection, caller.pack)
        jobs = release.jobs.values() if release else ()
        return [
            JobSummary(job=job.name, pack=caller.pack, release=job.description.release, title=job.rule.title)
            for job in jobs
            if caller.sees(caller.pack, job.name)
        ]

    def describe_job(self, caller: Caller, job: str, release: str | None = None) -> JobDescription:
        """A job's description at its current release, or at the one named."""
        with self._storage.reading() as connection:
            if release is None:
                return self._current(connection, caller, job)[1].description
            return self._pinned(connection, caller, job, release).description

    def decide(self, caller: Caller, job: str, body: Any, key: str | None = None) -> Decision:
        """Decide, and keep the decision. A request with an idempotency key gets its first answer again."""
        request = parse(DecisionRequest, body)
        repeat = repeatable(caller, key, ("decide", job), body)
        return self._deciding.decide(caller, job, request, repeat)

    def verify(self, caller: Caller, execution_id: str, body: Any) -> Verification:
        """Check an execution's record, decide again, and compare; with whatever else the body asks for."""
        include = parse(VerifyRequest, body).include or Include()
        now = self._clock()
        with self._storage.reading() as connection:
            execution = executions.find(self._storage, connection, caller, execution_id)
            said: dict[str, Any] = {"execution_id": execution_id, "verified_at": write_time(now)}
            job = self._job_of(connection, execution)
            if execution.record is None or job is None:
                return Verification(valid=False, problems=["record_altered"], **said)
            said["replay"], same = executions.replay(job, execution.record)
            found = {"replay_differs": not same, "revoked": execution.revoked, "superseded": execution.superseded}
            problems = [problem for problem, there in found.items() if there]
            if include.description:
                said["description"] = job.description
            if include.output_checks:
                said["output_checks"] = self._confirmed(connection, caller, include.output_checks, now)
        return Verification(valid=not problems, problems=problems, **said)

    def check_output(self, caller: Caller, execution_id: str, body: Any, key: str | None = None) -> OutputCheck:
        """Check one exact text for an execution, and keep the check."""
        request = parse(OutputCheckRequest, body)
        repeat = repeatable(caller, key, ("check_output", execution_id), body)
        with self._storage.reading() as connection:
            answer = self._answers.first(connection, repeat, OutputCheck)
            if answer is not None:
                return answer
            execution = executions.find(self._storage, connection, caller, execution_id)
            record = checks.standing(execution)
            job = self._job_of(connection, execution)
        if job is None:
            raise Refused(409, "The release of this execution was altered.")
        made = checks.check(job, record, request, self._clock())  # outside the write lock: texts may be long

        def keep(connection: sa.Connection) -> OutputCheck:
            checks.standing(executions.find(self._storage, connection, caller, execution_id))
            checks.write_down(self._storage, connection, made, record, request.content, caller)
            return made

        return self._answers.once(repeat, OutputCheck, keep)

    def verify_output_check(self, caller: Caller, check_id: str, body: Any) -> OutputCheckVerification:
        """Whether an output check stands."""
        parse(Empty, body)
        with self._storage.reading() as connection:
            found = checks.confirm(self._storage, connection, caller, check_id, self._clock())
        if found is None:
            raise not_found()
        return found

    def report_verdict(self, caller: Caller, body: Any, key: str | None = None) -> ReportedVerdict:
        """Keep what a gate says that it said about one call."""
        report = parse(VerdictReport, body)
        repeat = repeatable(caller, key, ("report_verdict",), body)

        def keep(connection: sa.Connection) -> ReportedVerdict:
            return verdicts.write_down(self._storage, connection, report, caller, self._clock())

        return self._answers.once(repeat, ReportedVerdict, keep)

    def _confirmed(
        self, connection: sa.Connection, caller: Caller, check_ids: list[str], now: datetime
    ) -> dict[str, OutputCheckVerification]:
        asked = {each: checks.confirm(self._storage, connection, caller, each, now) for each in check_ids}
        return {each: found for each, found in asked.items() if found is not None}

    def _current(self, connection: sa.Connection, caller: Caller, job: str) -> tuple[Release, ReadyJob]:
        release = self._shelf.current(connection, caller.pack)
        if release is None or job not in release.jobs or not caller.sees(caller.pack, job):
            raise not_found()
        return release, release.jobs[job]

    def _pinned(self, connection: sa.Connection, caller: Caller, job: str, release: str) -> ReadyJob:
        found = self._shelf.pinned(connection, caller.pack, release)
        if found is None or job not in found.jobs or not caller.sees(caller.pack, job):
            raise not_found()
        return found.jobs[job]

    def _job_of(self, connection: sa.Connection, execution: executions.Execution) -> ReadyJob | None:
        """The job that an execution was decided by; None when its release was altered since."""
        record = execution.record
        if record is None:
            return None
        release = self._shelf.pinned(connection, record["pack"], record["release"])
        if release is None or release.digest != record["releaseDigest"]:
            return None
        return release.jobs.get(record["job"])


def parse(model: type[R], body: Any) -> R:
    """A request's body as its model, or the 422 with the place of each error."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise from_validation(error) from None
