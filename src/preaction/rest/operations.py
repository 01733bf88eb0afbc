"""The operations of `wire.md` that an agent's key may ask for, as questions; `Felspar` puts them.

Each checks what it is given before anything is sent, and reads the answer three times over: strict JSON, the wire's
shape, and whether it is about the thing asked for. What it hands back is the JSON itself.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from preaction._core.facts import Verify, VerifyOutputCheck
from preaction.errors import MisuseError
from preaction.rest.exchange import (
    Failure,
    Model,
    Question,
    Request,
    body_of,
    misshapen,
    on_issued,
    on_job,
    request_for,
    shaped,
)
from preaction.wire.digest import content_digest
from preaction.wire.models import (
    Decision,
    JobDescription,
    JobSummary,
    OutputCheck,
    OutputCheckVerification,
    ReportedVerdict,
    Verification,
)

Object: TypeAlias = dict[str, Any]
"""A JSON object, as the wire has it."""

_Reader: TypeAlias = Callable[[Any], Object | Failure]

_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_OF_ANOTHER: Final = Failure("wrong_shape", "the answer was about something else than was asked for")


def decide(
    job: str,
    entity_id: str | None,
    evidence: Mapping[str, Any] | None,
    fields: Mapping[str, Any] | None,
    content: Mapping[str, str] | None,
    idempotency_key: str | None,
) -> Question[Object]:
    """A decision of this job."""
    parts = {"entity_id": entity_id, "evidence": evidence, "fields": fields, "content": content}
    more = {"body": body_of("decide_job", parts), **_idempotent("decide_job", idempotency_key)}
    request = on_job("decide_job", "POST", job, "/decisions", **more)
    return _question("decide_job", request, _reader(Decision, lambda decision: decision.job == job))


def check_output(
    execution_id: str, output: str, content: Mapping[str, str], idempotency_key: str | None
) -> Question[Object]:
    """A check of this text as this output of this execution."""
    if not _are_texts(content):
        raise MisuseError("check_output: content needs a mapping of field names to texts")
    body = body_of("check_output", {"output": output, "content": dict(content)})
    more = _idempotent("check_output", idempotency_key)
    request = on_issued("check_output", "/v0/executions/{}/output-checks", execution_id, body, **more)
    digest = content_digest(content)
    read = _reader(
        OutputCheck,
        lambda check: (check.execution_id, check.output, check.content_digest) == (execution_id, output, digest),
    )
    return _question("check_output", request, read)


def list_jobs() -> Question[list[Object]]:
    """The jobs that the key may use."""
    return Question(Request("list_jobs", "GET", "/v0/jobs"), _read_jobs)


def describe_job(job: str, release: str | None) -> Question[Object]:
    """What this job allows, at this release or at its current one."""
    names = () if release is None else (release,)
    request = on_job("describe_job", "GET", job, "/releases/{}" if names else "", *names)
    read = _reader(JobDescription, lambda found: found.job == job and release in {None, found.release})
    return _question("describe_job", request, read)


def verify(execution_id: str) -> Question[Object]:
    """Whether the receipt of this execution stands."""
    request = request_for(Verify(execution_id))
    read = _reader(Verification, lambda found: found.execution_id == execution_id)
    return _question("verify_execution", request, read)


def verify_output_check(check_id: str) -> Question[Object]:
    """Whether this output check stands."""
    request = request_for(VerifyOutputCheck(check_id))
    read = _reader(OutputCheckVerification, lambda found: found.check_id == check_id)
    return _question("verify_output_check", request, read)


def report_verdict(report: Mapping[str, Any], idempotency_key: str | None) -> Question[Object]:
    """That the authority keeps this report of a verdict."""
    if not isinstance(report, Mapping):
        raise MisuseError("report_verdict: a mapping in wire shape is needed")
    more = _idempotent("report_verdict", idempotency_key)
    request = Request("report_verdict", "POST", "/v0/verdicts", body_of("report_verdict", report), **more)
    return Question(request, _reader(ReportedVerdict, lambda _kept: True))


def _question(operation: str, request: Request | Failure, read: _Reader) -> Question[Object]:
    if isinstance(request, Failure):
        raise request.error(operation)
    return Question(request, read)


def _reader(model: type[Model], is_about_it: Callable[[Model], bool]) -> _Reader:
    def read(value: Any) -> Object | Failure:
        answer = shaped(model, value)
        if isinstance(answer, Failure):
            return answer
        return value if is_about_it(answer) else _OF_ANOTHER

    return read


def _read_jobs(value: Any) -> list[Object] | Failure:
    if not isinstance(value, list):
        return misshapen()
    for place, entry in enumerate(value):
        summary = shaped(JobSummary, entry, f"[{place}]")
        if isinstance(summary, Failure):
            return summary
    return value


def _are_texts(content: object) -> bool:
    return isinstance(content, Mapping) and all(isinstance(part, str) for pair in content.items() for part in pair)


def _idempotent(operation: str, key: Any) -> dict[str, Any]:
    """What an idempotency key changes in a request: it is sent along, and then the request may be sent once more."""
    if key is not None and not (isinstance(key, str) and _IDEMPOTENCY_KEY.fullmatch(key)):
        raise MisuseError(f"{operation}: idempotency_key needs 1 to 255 visible ASCII characters, without white space")
    return {"idempotency_key": key, "again": key is not None}
