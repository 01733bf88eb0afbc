"""Every operation that the authority answers, as one table: routes and the OpenAPI document are both made from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel

from preaction.authority.keys import Caller
from preaction.authority.operators import Operators
from preaction.authority.service import Empty, Service
from preaction.wire import models

KIB: Final = 1024
_FOREVER: Final = {"Cache-Control": "private, max-age=31536000, immutable"}

Result: TypeAlias = BaseModel | list[models.JobSummary] | list[models.ReleaseSummary]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as far as an operation cares: `body` is parsed JSON, or the text of a pack."""

    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    idempotency_key: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation says when it succeeds."""

    result: Result
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Run: TypeAlias = Callable[[Service, Operators, Call], Answer]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `blocks`: it waits for the disk, so it runs in a thread and not in the event loop."""

    name: str
    method: Literal["GET", "POST"]
    path: str
    role: Literal["agent", "operator"]
    summary: str
    answers: Any
    run: Run
    body: type[BaseModel] | Literal["yaml"] | None = None
    max_bytes: int = 0
    blocks: bool = False
    repeatable: bool = False
    statuses: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    query: tuple[str, ...] = ()


def _publish(_service: Service, operators: Operators, call: Call) -> Answer:
    summary, new = operators.publish(call.caller, call.body)
    return Answer(summary, 201 if new else 200)


OPERATIONS: Final = (
    Operation(
        name="list_jobs",
        method="GET",
        path="/v0/jobs",
        role="agent",
        summary="The jobs that this key may use, at their current release.",
        answers=list[models.JobSummary],
        run=lambda service, _operators, call: Answer(service.list_jobs(call.caller)),
    ),
    Operation(
        name="describe_job",
        method="GET",
        path="/v0/jobs/{job}",
        role="agent",
        summary="A job's description at its current release.",
        answers=models.JobDescription,
        run=lambda service, _operators, call: Answer(service.describe_job(call.caller, call.path["job"])),
        refusals=(404,),
    ),
    Operation(
        name="describe_job_at_release",
        method="GET",
        path="/v0/jobs/{job}/releases/{release}",
        role="agent",
        summary="A job's description at one release; it never changes.",
        answers=models.JobDescription,
        run=lambda service, _operators, call: Answer(
            service.describe_job(call.caller, call.path["job"], call.path["release"]), headers=_FOREVER
        ),
        refusals=(404,),
    ),
    Operation(
        name="decide_job",
        method="POST",
        path="/v0/jobs/{job}/decisions",
        role="agent",
        summary="Decide on a case.",
        answers=models.Decision,
        run=lambda service, _operators, call: Answer(
            service.decide(call.caller, call.path["job"], call.body, call.idempotency_key)
        ),
        body=models.DecisionRequest,
        max_bytes=256 * KIB,
        blocks=True,
        repeatable=True,
        refusals=(404, 409, 413, 422),
    ),
    Operation(
        name="verify_execution",
        method="POST",
        path="/v0/executions/{id}/verify",
        role="agent",
        summary="Check an execution's record, decide again, and compare.",
        answers=models.Verification,
        run=lambda service, _operators, call: Answer(service.verify(call.caller, call.path["id"], call.body)),
        body=models.VerifyRequest,
        max_bytes=16 * KIB,
        refusals=(404, 413, 422),
    ),
    Operation(
        name="check_output",
        method="POST",
        path="/v0/executions/{id}/output-checks",
        role="agent",
        summary="Check one exact text by the rules of the execution's release.",
        answers=models.OutputCheck,
        run=lambda service, _operators, call: Answer(
            service.check_output(call.caller, call.path["id"], call.body, call.idempotency_key)
        ),
        body=models.OutputCheckRequest,
        max_bytes=256 * KIB,
        blocks=True,
        repeatable=True,
        refusals=(404, 409, 413, 422),
    ),
    Operation(
        name="verify_output_check",
        method="POST",
        path="/v0/output-checks/{id}/verify",
        role="agent",
        summary="Whether an output check stands.",
        answers=models.OutputCheckVerification,
        run=lambda service, _operators, call: Answer(
            service.verify_output_check(call.caller, call.path["id"], call.body)
        ),
        body=Empty,
        max_bytes=16 * KIB,
        refusals=(404, 413, 422),
    ),
    Operation(
        name="report_verdict",
        method="POST",
        path="/v0/verdicts",
        role="agent",
        summary="Keep what a gate says that it said about one call; never the call's arguments.",
        answers=models.ReportedVerdict,
        run=lambda service, _operators, call: Answer(
            service.report_verdict(call.caller, call.body, call.idempotency_key)
        ),
        body=models.VerdictReport,
        max_bytes=16 * KIB,
        blocks=True,
        repeatable=True,
        refusals=(404, 409, 413, 422),
    ),
    Operation(
        name="publish_pack",
        method="POST",
        path="/v0/packs",
        role="operator",
        summary="Publish a pack's YAML as a release: 201 when it is new, 200 when it is there with the same content.",
        answers=models.ReleaseSummary,
        run=_publish,
        body="yaml",
        max_bytes=512 * KIB,
        blocks=True,
        statuses=(200, 201),
        refusals=(404, 409, 413, 422),
    ),
    Operation(
        name="list_releases",
        method="GET",
        path="/v0/packs/{pack}/releases",
        role="operator",
        summary="A pack's releases, newest first.",
        answers=list[models.ReleaseSummary],
        run=lambda _service, operators, call: Answer(operators.releases(call.caller, call.path["pack"])),
        refusals=(404,),
    ),
    Operation(
        name="compare_releases",
        method="GET",
        path="/v0/packs/{pack}/releases/{release}/changes",
        role="operator",
        summary="What a release says otherwise than the one named by `since`, or the one before it, in words.",
        answers=models.ReleaseChanges,
        run=lambda _service, operators, call: Answer(
            operators.changes(call.caller, call.path["pack"], call.path["release"], call.query)
        ),
        blocks=True,
        refusals=(404, 422),
        query=("since",),
    ),
    Operation(
        name="revoke_execution",
        method="POST",
        path="/v0/executions/{id}/revoke",
        role="operator",
        summary="Revoke an execution for good.",
        answers=models.ExecutionSummary,
        run=lambda _service, operators, call: Answer(operators.revoke(call.caller, call.path["id"], call.body)),
        body=Empty,
        max_bytes=16 * KIB,
        blocks=True,
        refusals=(404, 409, 413, 422),
    ),
    Operation(
        name="list_executions",
        method="GET",
        path="/v0/executions",
        role="operator",
        summary="Executions that this key may see, newest first.",
        answers=models.ExecutionPage,
        run=lambda _service, operators, call: Answer(operators.executions(call.caller, call.query)),
        blocks=True,
        refusals=(422,),
        query=("case", "job", "status", "outcome", "since", "cursor"),
    ),
)
