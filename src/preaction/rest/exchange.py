"""One question to the authority, and what its answer means. Pure: nothing is sent here.

`request_for` and `answer_from` are shared by both senders, by the batch plan and by tests of authorities. An answer is
the JSON of status 200 in the wire's shape; anything else is a `Failure`, which says in our words of which kind it is
and never quotes a body, a header or a key. Whether an answer is about the thing asked for is the gate's to check, for
every source alike (G19, G25, G27); the methods of `Felspar` check it too.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from preaction._core.facts import Ask, Describe, Unavailable, Verify, VerifyOutputCheck, is_issued_id
from preaction.errors import AuthorityError, InvalidJSON, MisuseError
from preaction.wire import strict_json
from preaction.wire.models import JobDescription, OutputCheckVerification, Verification, Wire

Model = TypeVar("Model", bound=Wire)
Answer = TypeVar("Answer")

_NAME_LIMIT: Final = 200
_WRITER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, but for origin and key.

    `path` is percent-encoded ASCII and travels byte for byte. `again`: it may be sent once more when the connection
    broke before the first byte of an answer.
    """

    operation: str
    method: str
    path: str
    body: bytes | None = None
    idempotency_key: str | None = None
    again: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer: a kind of `AuthorityError`, and a short clause in our own words.

    `unheard`: the connection broke before the first byte of an answer.
    """

    kind: str
    why: str
    status: int | None = None
    problem: dict[str, object] | None = None
    unheard: bool = False

    def error(self, operation: str) -> AuthorityError:
        """The exception that a method of the client raises for it."""
        return AuthorityError(f"{operation}: {self.why}", kind=self.kind, status=self.status, problem=self.problem)


INVALID_ID: Final = Failure("invalid_id", "the id is not one that an authority issues")
INVALID_NAME: Final = Failure("invalid_id", "the name of the job or of the release cannot be part of a path")
TIMED_OUT: Final = Failure("timeout", "the authority did not answer in time")
CLOSED: Final = Failure("closed", "the client is closed")
TOO_LARGE: Final = Failure("too_large", "the answer was larger than 1 MiB")
ENCODED: Final = Failure("not_json", "the answer was compressed, which was not asked for")
MISLABELLED: Final = Failure("not_json", "the answer's Content-Type was not JSON")
NOT_JSON: Final = Failure("not_json", "the answer was not strict JSON")


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """A request, and the reader of its answer: a JSON value → what the asker wants of it, or a `Failure`."""

    request: Request
    read: Callable[[Any], Answer | Failure]

    def settle(self, status: int, body: bytes) -> Answer | Failure:
        """What a response means."""
        value = json_of(status, body)
        return value if isinstance(value, Failure) else self.read(value)


MODELS: Final[Mapping[type[Ask], type[Wire]]] = {
    Verify: Verification,
    Describe: JobDescription,
    VerifyOutputCheck: OutputCheckVerification,
}


def request_for(ask: Ask) -> Request | Failure:
    """The request that puts this ask; a `Failure` where its id or names are none that may be sent."""
    if isinstance(ask, Verify):
        return on_issued("verify_execution", "/v0/executions/{}/verify", ask.execution_id, b"{}")
    if isinstance(ask, VerifyOutputCheck):
        return on_issued("verify_output_check", "/v0/output-checks/{}/verify", ask.check_id, b"{}")
    return on_job("describe_job", "GET", ask.job, "/releases/{}", ask.release)


def answer_from(ask: Ask, status: int, body: bytes) -> Wire | Unavailable:
    """What a response means for this ask: a model of the wire, or why there is none."""
    value = json_of(status, body)
    answer = value if isinstance(value, Failure) else shaped(MODELS[type(ask)], value)
    return Unavailable(answer.why) if isinstance(answer, Failure) else answer


def question_for(ask: Ask) -> Question[Wire] | Failure:
    """`request_for` with the reader that belongs to it."""
    request = request_for(ask)
    return (
        request if isinstance(request, Failure) else Question(request, lambda value: shaped(MODELS[type(ask)], value))
    )


def on_issued(operation: str, path: str, issued: object, body: bytes, **more: Any) -> Request | Failure:
    """A POST on an execution or an output check, whose id (G19) is put in `path`."""
    if not isinstance(issued, str) or not is_issued_id(issued):
        return INVALID_ID
    return Request(operation, "POST", path.format(quote(issued, safe="")), body, **more)


def on_job(operation: str, method: str, job: object, path: str, *names: object, **more: Any) -> Request | Failure:
    """A request on a job: its name, and the further `names` in `path`, are one path segment each."""
    try:
        segments = [_segment(name) for name in (job, *names)]
    except ValueError:
        return INVALID_NAME
    return Request(operation, method, f"/v0/jobs/{segments[0]}" + path.format(*segments[1:]), **more)


def _segment(name: object) -> str:
    """A name as one path segment; `ValueError` for the empty one and those that mean another place."""
    if not isinstance(name, str) or not 0 < len(name) <= _NAME_LIMIT or name in {".", ".."}:
        raise ValueError
    return quote(name, safe="")  # UnicodeEncodeError, a ValueError, for a lone surrogate


def body_of(operation: str, parts: Mapping[str, object]) -> bytes:
    """A request's body: those `parts` that are not `None`, as JSON; `MisuseError` for what has no JSON form."""
    try:
        given = {name: part for name, part in parts.items() if part is not None}
        return _WRITER.encode(given).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise MisuseError(f"{operation}: the request has no JSON form ({type(error).__name__})") from None


def json_of(status: int, body: bytes) -> Any:
    """The JSON value of a response with status 200, or a `Failure`."""
    if status == 200:
        try:
            return strict_json.loads(body)
        except InvalidJSON:
            return NOT_JSON
    if 300 <= status < 400:
        return Failure("redirect", "the authority tried to redirect the request", status)
    return Failure("status", f"the authority answered with status {status}", status, _problem(body))


def shaped(model: type[Model], value: object, *at: str) -> Model | Failure:
    """The value as a model of the wire; a `Failure` names the first field, below `at`, that lacks or is mistyped."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
        return misshapen(*at, *first)


def misshapen(*place: str | int) -> Failure:
    """The answer isn't of the wire's shape at this place."""
    field = ".".join(str(step) for step in place) or "the whole answer"
    return Failure("wrong_shape", f"the answer lacked or mistyped a field it needs ({field})")


def _problem(body: bytes) -> dict[str, object] | None:
    """What an RFC 9457 body tells the developer: those of `title`, `detail` and `errors` that it has."""
    try:
        said = strict_json.load_object(body)
    except InvalidJSON:
        return None
    kinds = {"title": str, "detail": str, "errors": list}
    return {name: said[name] for name, kind in kinds.items() if isinstance(said.get(name), kind)} or None
