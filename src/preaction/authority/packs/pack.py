"""What a team writes: the pack's shape. References between its parts and conditions are checked in `release`."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from preaction.wire.models import Identity, Match

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
"""An id: of a pack, a job, an outcome, an output, a rule, an escalation. Safe as one segment of a path."""

Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
"""A name that a condition can say: of a fact, or a field of the input or of an output."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]

_DURATION = re.compile(r"P(?:(\d{1,5})D)?(?:T(?=\d)(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,8})S)?)?", re.ASCII)
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)


def _duration(value: Any) -> timedelta:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    parts = [int(part or 0) for part in match.groups()] if match else []
    if not any(parts):
        raise ValueError("an ISO 8601 duration longer than zero is needed, such as PT1H or P2DT30M")
    days, hours, minutes, seconds = parts
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError("a host name in lower-case ASCII is needed, such as example.com; write xn-- labels as such")
    return value


Duration = Annotated[
    timedelta, BeforeValidator(_duration), WithJsonSchema({"type": "string", "examples": ["PT1H", "P2DT30M"]})
]
"""ISO 8601, in whole seconds, minutes, hours and days; longer than zero."""


class PackModel(BaseModel):
    """Shared settings: nothing is converted, an unknown key is an error because its author meant something by it."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Schema(PackModel):
    """A closed part of JSON Schema 2020-12. What isn't listed is refused: JSON Schema would ignore a misspelt word."""

    type: Literal["string", "number", "integer", "boolean", "array", "object"]
    title: Words | None = None
    description: Words | None = None
    enum: Annotated[list[Any], Field(min_length=1)] | None = None
    const: Any = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusiveMinimum: int | float | None = None  # noqa: N815 - JSON Schema's own words
    exclusiveMaximum: int | float | None = None  # noqa: N815
    multipleOf: Annotated[int | float, Field(gt=0)] | None = None  # noqa: N815
    minLength: Count | None = None  # noqa: N815
    maxLength: Count | None = None  # noqa: N815
    pattern: Words | None = None
    format: (
        Literal["date", "date-time", "time", "duration", "email", "uri", "uuid", "hostname", "ipv4", "ipv6"] | None
    ) = None
    items: "Schema | None" = None
    minItems: Count | None = None  # noqa: N815
    maxItems: Count | None = None  # noqa: N815
    uniqueItems: bool | None = None  # noqa: N815
    properties: dict[str, "Schema"] | None = None
    required: list[str] | None = None
    additionalProperties: bool | None = None  # noqa: N815

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema alone, without what this package adds to it."""
        return self.model_dump(exclude_unset=True, include=set(Schema.model_fields))


class Fact(Schema):
    """One thing that a decision rests on: its type, and from whom it may come.

    `from: caller`: whoever asks for the decision says it; `sources` are the only values that its evidence's `source`
    may have, and without them any name will do. `from: lookup`: the authority reads it, by the lookup of that name,
    which the operator configures outside the pack.
    """

    origin: Literal["caller", "lookup"] = Field(alias="from")
    sources: Annotated[list[Words], Field(min_length=1)] | None = None
    lookup: Name | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.origin == "lookup") != (self.lookup is not None):
            raise ValueError("`lookup` names what a fact `from: lookup` is read by, and stands only there")
        if self.origin == "lookup" and self.sources is not None:
            raise ValueError("`sources` are for a fact `from: caller`; what is looked up has the lookup as its source")
        return self


class SubjectRule(PackModel):
    """The one thing decided on. `key` names what a derived id comes from, in this order."""

    kind: Words
    identity: Identity = "provided"
    match: Match = "exact"
    key: Annotated[list[Identifier], Field(min_length=1, max_length=10)] | None = None

    @model_validator(mode="after")
    def _key_when_derived(self) -> Self:
        if (self.identity == "derived") != (self.key is not None):
            raise ValueError("`key` is needed for the identity `derived`, and only there")
        return self


class EvidenceRule(PackModel):
    """How long a decision's evidence counts, from the time at which the oldest of it was observed.

    `changes`: whether a case that was decided may be decided again on other facts of the caller's.
    """

    fresh_for: Duration | None = None
    changes: Literal["refuse", "allow"] = "refuse"


class OutcomeRule(PackModel):
    """One outcome, taken when the CEL condition `when` is true and none before it was."""

    id: Name
    title: Words | None = None
    when: Words
    next_step: Words | None = None
    outputs: list[Name] = []
    escalation: Name | None = None


class UnresolvedRule(PackModel):
    """What to do when nothing is decided."""

    next_step: Words
    escalation: Name | None = None


class EscalationRule(PackModel):
    """A hand-off to people."""

    trigger: Words
    why: Words


KINDS = ("must_match", "must_not_match", "must_contain", "max_chars", "min_chars", "allowed_links", "condition")


class OutputRule(PackModel):
    """One rule on one field of an output, of exactly one kind. `message` replaces our own words for it."""

    id: Name
    field: Identifier
    message: Words | None = None
    must_match: Words | None = None
    must_not_match: Words | None = None
    must_contain: Words | None = None
    max_chars: Count | None = None
    min_chars: Count | None = None
    allowed_links: list[Annotated[str, AfterValidator(_host)]] | None = None
    condition: Words | None = None

    @property
    def kind(self) -> str:
        """Which of `KINDS` this rule is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in KINDS) != 1:
            raise ValueError(f"exactly one of {', '.join(KINDS)} is needed")
        return self


class OutputKind(PackModel):
    """A kind of text: exactly these fields, and the rules that they must follow."""

    title: Words | None = None
    fields: Annotated[list[Identifier], Field(min_length=1, max_length=20)]
    rules: Annotated[list[OutputRule], Field(max_length=100)] = []


class Job(PackModel):
    """One kind of decision.

    `input` says which part of a request carries the case: `entity` (evidence alone), `fields` (values by the schemas
    under `fields`) or `content` (texts named under `content`). Conditions see `facts`, `fields` and `content`.
    """

    title: Words
    subject: SubjectRule
    input: Literal["entity", "fields", "content"] = "entity"
    fields: Annotated[dict[Identifier, Schema], Field(max_length=100)] = {}
    content: Annotated[list[Identifier], Field(max_length=20)] = []
    facts: Annotated[dict[Identifier, Fact], Field(max_length=100)] = {}
    evidence: EvidenceRule = EvidenceRule()
    outcomes: Annotated[list[OutcomeRule], Field(min_length=1, max_length=100)]
    when_unresolved: UnresolvedRule
    outputs: Annotated[dict[Name, OutputKind], Field(max_length=100)] = {}
    escalations: Annotated[dict[Name, EscalationRule], Field(max_length=100)] = {}

    @model_validator(mode="after")
    def _input_declared(self) -> Self:
        declared = {"entity": True, "fields": bool(self.fields), "content": bool(self.content)}
        if not declared[self.input]:
            raise ValueError(f"a job whose input is `{self.input}` declares its names under `{self.input}`")
        if (self.fields and self.input != "fields") or (self.content and self.input != "content"):
            raise ValueError("`fields` and `content` stand only in a job whose `input` is that")
        return self


class Pack(PackModel):
    """A pack at one version: its jobs by name."""

    pack: Name
    version: Version
    jobs: Annotated[dict[Name, Job], Field(min_length=1, max_length=100)]
