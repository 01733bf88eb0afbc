"""What travels between gate and authority, as pydantic models. The OpenAPI document is generated from these.

Names are camelCase on the wire, `entity_id` excepted; snake_case is read too. Readers ignore what they don't know and
refuse what lacks a field without a default, or has one of the wrong type: nothing is converted, `"false"` is no bool.
Felspar's own paths and shapes are not public, save those that its documents name: this contract is ours.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from preaction.wire.times import Time

Identity = Literal["provided", "issued", "derived"]
Match = Literal["exact", "case-insensitive"]
Status = Literal["decided", "undecided"]
EntityId = Annotated[str | None, Field(alias="entity_id")]


class Wire(BaseModel):
    """Shared settings: strict, frozen, unknown fields ignored, built when first used."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        defer_build=True,
    )


class Request(Wire):
    """A request's body: an unknown field is an error, because the sender meant something by it."""

    model_config = ConfigDict(extra="forbid")


class Escalation(Wire):
    """A hand-off that the policy names. Route the case by `id`; `why` is quoted from the release."""

    id: str
    trigger: str
    why: str


class Case(Wire):
    """The one thing decided on, and how its id came about."""

    id: str
    identity: Identity


class DecidedOutcome(Wire):
    """What was decided."""

    id: str
    title: str = ""


class EvidenceItem(Request):
    """One fact that a caller hands over, with where it has it from and since when (default: now)."""

    value: Any
    source: str
    observed_at: Time | None = None


class DecisionRequest(Request):
    """Body of `decide_job`; which parts it needs is the job's input kind."""

    entity_id: EntityId = None
    evidence: dict[str, EvidenceItem] | None = None
    fields: dict[str, Any] | None = None
    content: dict[str, str] | None = None


class Decision(Wire):
    """What `decide_job` answers. Its receipt is the execution id, to be verified whenever something acts on it."""

    execution_id: str
    job: str
    pack: str = ""
    release: str
    case: Case
    entity_id: EntityId = None
    status: Status
    outcome: DecidedOutcome | None
    next_step: str | None = None
    escalation: Escalation | None = None
    missing: list[str] = []
    problems: list[str] = []
    decided_at: Time
    evidence_fresh_until: Time | None = None
    receipt: str | None = None


class Include(Request):
    """What else `verify_execution` shall answer in the same response."""

    description: bool = False
    output_checks: Annotated[list[str], Field(max_length=4)] = []


class VerifyRequest(Request):
    """Body of `verify_execution`."""

    include: Include | None = None


class Replay(Wire):
    """The decision as the authority gets it again from the stored request, evidence and pinned release.

    `decided_at` is when the stored decision was made: what an altered decision can't stretch its age beyond.
    """

    job: str
    release: str
    case: Case
    entity_id: EntityId = None
    status: Status
    outcome: str | None
    escalation: Escalation | None = None
    decided_at: Time | None = None
    evidence_fresh_until: Time | None = None


class Verification(Wire):
    """What `verify_execution` answers. Only `valid` true with no `problems` and a replay confirms anything."""

    valid: bool
    problems: list[str]
    execution_id: str
    verified_at: Time | None = None
    replay: Replay | None = None
    description: Any = None
    output_checks: Any = None


class Subject(Wire):
    """What a job decides on. Absent from a description: a company, by its web domain."""

    kind: str = ""
    identity: Identity = "provided"
    match: Match = "exact"


class Outcome(Wire):
    """One outcome of a job, with the outputs that it lets a tool write; `escalation` is an id."""

    id: str
    title: str = ""
    next_step: str | None = None
    outputs: list[str] = []
    escalation: str | None = None


class Output(Wire):
    """A kind of text, with its rules in words."""

    id: str
    title: str = ""
    fields: list[str] = []
    rules: list[str] = []


class Unresolved(Wire):
    """What to do when nothing is decided; `escalation` is an id."""

    next_step: str | None = None
    escalation: str | None = None


class JobDescription(Wire):
    """One job at one release; immutable. `evidence_fresh_for` is an ISO 8601 duration, null where evidence stays."""

    job: str
    pack: str = ""
    release: str
    title: str = ""
    subject: Subject | None = None
    facts: dict[str, Any] = {}
    evidence_fresh_for: str | None = None
    outcomes: list[Outcome]
    outputs: list[Output] = []
    when_unresolved: Unresolved | None = None
    escalations: list[Escalation] = []


class JobSummary(Wire):
    """One entry of `list_jobs`: a job that the key may use, at its current release."""

    job: str
    pack: str
    release: str
    title: str


class OutputCheckRequest(Request):
    """Body of `check_output`: field name → text, exactly the fields that the output declares."""

    output: str
    content: dict[str, str]


class Finding(Wire):
    """What a rule of an output found; `span` is `[start, end)` in code points, null where nothing matched."""

    rule: str
    field: str | None = None
    span: list[int] | None = None
    message: str = ""


class OutputCheck(Wire):
    """What `check_output` answers: whether one exact text, named by its digest, follows the release's rules."""

    check_id: str
    execution_id: str
    output: str
    release: str
    passed: bool
    findings: list[Finding] = []
    content_digest: str
    checked_at: Time


class OutputCheckVerification(Wire):
    """What `verify_output_check` answers: the stored check again, without its text."""

    valid: bool
    passed: bool
    check_id: str
    execution_id: str
    output: str
    release: str
    content_digest: str
    verified_at: Time | None = None


class FieldError(Wire):
    """One place in a request that is wrong, as a JSON pointer."""

    pointer: str
    detail: str


class Problem(Wire):
    """RFC 9457 `application/problem+json`."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str | None = None
    errors: list[FieldError] = []


class PackProblem(Wire):
    """One error of a pack, at a line and column (both from 1) of its YAML."""

    line: int
    column: int
    detail: str


class PackRefusal(Wire):
    """RFC 9457 `application/problem+json` for a pack that can't be released."""

    type: str = "about:blank"
    title: str
    status: int
    errors: list[PackProblem]


class ReleaseSummary(Wire):
    """One published release of a pack."""

    pack: str
    release: str
    digest: str
    published_at: Time


class ReleaseChange(Wire):
    """One difference between two releases, in words. `effect`: whether more may be done by it; `either`: read it."""

    job: str
    effect: Literal["more", "less", "either", "none"]
    words: str


class ReleaseChanges(Wire):
    """What `release` says otherwise than `since`. `may_grow` is false only when it is sure that no more may be done."""

    pack: str
    since: str
    release: str
    may_grow: bool
    changes: list[ReleaseChange]


class ExecutionSummary(Wire):
    """One row of the operators' search for executions."""

    execution_id: str
    job: str
    release: str
    case: Case
    status: Status
    outcome: str | None
    decided_at: Time
    revoked: bool


class ExecutionPage(Wire):
    """A page of executions; `next` is the cursor of the page after it.

    `altered`, where it is there, has the ids of rows that were left out because somebody altered them.
    """

    items: list[ExecutionSummary]
    next: str | None
    altered: list[str] = []


NO_NUL = r"^[^\x00]*$"  # PostgreSQL's texts have none
Digest = Annotated[str, Field(pattern=r"^sha-256:[0-9a-f]{64}$")]
ShortText = Annotated[str, Field(min_length=1, max_length=200, pattern=NO_NUL)]
IssuedId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_:~.-]{0,199}$")]


class VerdictReport(Request):
    """Body of `report_verdict`: what a gate said about one call. Never the call's arguments: their digest."""

    job: ShortText
    tool: ShortText
    code: ShortText
    allow: bool
    enforced: bool
    case: Annotated[str | None, Field(max_length=2000, pattern=NO_NUL)] = None
    execution_id: IssuedId | None = None
    check_id: IssuedId | None = None
    reason: Annotated[str, Field(max_length=2000, pattern=NO_NUL)]
    call_digest: Digest
    at: Time


class ReportedVerdict(Wire):
    """What `report_verdict` answers: that the report is stored."""

    verdict_id: str
    received_at: Time
