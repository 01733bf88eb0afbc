"""The record of one run, in the JSON of the specification, and `State`, which holds one and can't be altered.

`fields` and the counts are None where no decision was made on them, which is something else than empty: callers go by
`execution_decision`, never by a count (F11).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, Literal, NotRequired, TypeAlias, TypeVar

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict  # before Python 3.12 pydantic reads no other

from preaction.errors import InvalidJSON, MisuseError
from preaction.preflight.values import Unusable, mapping_of

SCHEMA_VERSION: Final = "1.4"

UNKEYED: Final = "__preflight_unkeyed__"
"""The action key that a record without one is kept under."""

Source: TypeAlias = Literal["user_answer", "instruction", "pre_set_data", "measured_data", "prior_state"]
WhenCase: TypeAlias = Literal["immediate", "scheduled", "conditional", "recurring"]
Phase: TypeAlias = Literal["at_instruction", "at_trigger"]
Decision: TypeAlias = Literal["execute", "ask_user", "hold", "deferred", "executed", "failed"]
GateKind: TypeAlias = Literal[
    "tool_undetermined", "intent_undetermined", "action_key_undetermined", "checklist_unusable", "input_unusable"
]

_strictly: Final = with_config(ConfigDict(strict=True, extra="forbid"))


@_strictly
class FixedRecord(TypedDict):
    """The fixed checklist; None where it could not be determined."""

    c1_when_case: WhenCase | None
    c2_user_action_name: str | None
    c3_provider_action_name: str | None


@_strictly
class FieldRecord(TypedDict):
    """One required field. An unknown one has no `value`; `resolved_at` is UTC with milliseconds and `Z`.

    `pending_at_trigger` stands where the field policy excused an unknown until then; `masked` where a storage took the
    value away.
    """

    name: str
    value: NotRequired[Any]
    status: Literal["known", "unknown"]
    source: Source | None
    origin_source: Source | None
    resolved_at: str
    pending_at_trigger: NotRequired[bool]
    masked: NotRequired[bool]


@_strictly
class UnknownField(TypedDict):
    """A field to ask for; `note` says why a value that was there doesn't count. For the user."""

    name: str
    note: str | None


@_strictly
class UnverifiedItem(TypedDict):
    """An item of the user's checklist that nothing confirmed; `note` as in `UnknownField`."""

    id: str
    note: str | None


@_strictly
class Diagnosis(TypedDict):
    """For logs alone, never for the user: who reads a candidate's name approves it."""

    candidate_tool: str | None
    user_action: str | None
    reason: str


@_strictly
class Undetermined(TypedDict):
    """What stands in the way before any field was looked up. `user_message` is all that the user may see of it."""

    kind: GateKind
    user_message: str
    _diag: Diagnosis


@_strictly
class Missing(TypedDict):
    """What the second gate needs before it opens."""

    unknown_fields: list[UnknownField]
    unverified_checklist: list[UnverifiedItem]


def _kind_of_gate(gate: object) -> str:
    return "undetermined" if isinstance(gate, Mapping) and "kind" in gate else "missing"


Gate: TypeAlias = Annotated[
    Annotated[Undetermined, Tag("undetermined")] | Annotated[Missing, Tag("missing")], Discriminator(_kind_of_gate)
]


@_strictly
class DeferredInput(TypedDict):
    """What a deferred run carries to its trigger: intent, and nothing that was measured (F12)."""

    user_id: str
    instruction: Any
    user_checklist: list[dict[str, Any]]
    user_answers: dict[str, Any]


@_strictly
class Record(TypedDict):
    """The record, key for key. `deferred_input` stands only where `execution_decision` is "deferred"."""

    schema_version: Literal["1.4"]
    action_key: str | None
    phase: Phase | None
    fixed: FixedRecord
    fields: list[FieldRecord] | None
    advisory_notes: str
    user_checklist: list[dict[str, Any]] | None
    unknown_count: int | None
    unverified_checklist_count: int | None
    gate: Gate | None
    execution_decision: Decision
    reason: str
    timestamp: str
    deferred_input: NotRequired[DeferredInput]


_READER: Final = TypeAdapter(Record)


T = TypeVar("T")


class _Key(Generic[T]):
    """A key of the record as an attribute: a new copy each time."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, state: "State", owner: type | None = None) -> T:
        found: T = state.to_json()[self._name]
        return found


@dataclass(frozen=True)
class State:
    """What a run came to. Its attributes are the record's keys, each a new copy: nobody can alter what was decided.

    `signature` shows which preflight wrote it (F14); it is no part of the record. Two states are equal when their
    records, in the order of their keys, and their signatures are.
    """

    _text: str
    signature: str | None = None

    action_key = _Key[str | None]()
    phase = _Key[Phase | None]()
    fixed = _Key[FixedRecord]()
    fields = _Key[list[FieldRecord] | None]()
    advisory_notes = _Key[str]()
    user_checklist = _Key[list[dict[str, Any]] | None]()
    unknown_count = _Key[int | None]()
    unverified_checklist_count = _Key[int | None]()
    gate = _Key[dict[str, Any] | None]()
    execution_decision = _Key[Decision]()
    reason = _Key[str]()
    timestamp = _Key[str]()

    def __repr__(self) -> str:
        return f"State(execution_decision={self.execution_decision!r})"  # values and keys stay out of logs

    @classmethod
    def from_json(cls, record: object) -> "State":
        """The state of a record that was JSON, unsigned: it can be read, resumed and be a baseline, but never runs.

        `InvalidJSON` names the place of what no run could have written.
        """
        found = mapping_of(record, "record")
        if isinstance(found, Unusable):
            raise InvalidJSON(found.why)
        try:
            read = _READER.validate_python(found)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise InvalidJSON(f"{_place('record', *first['loc'])}: {first['msg']}") from None
        for index, one in enumerate(read["fields"] or ()):
            if why := _contradiction(one):
                raise InvalidJSON(f"{_place('record', 'fields', index)}: {why}")
        if (read["execution_decision"] == "deferred") is not ("deferred_input" in read):
            raise InvalidJSON("record.deferred_input: it belongs to a deferred record, and to no other")
        return cls.of(read)

    @classmethod
    def of(cls, record: Record) -> "State":
        """The unsigned state of a record that a run has just written."""
        return cls(json.dumps(record, allow_nan=False))

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON; a new copy each time."""
        found: dict[str, Any] = json.loads(self._text)
        return found


def time_text(moment: object) -> str:
    """A moment as records have it, such as `2026-08-11T09:12:03.114Z`. `MisuseError` for one without a zone."""
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise MisuseError("clock: an aware datetime is needed")
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record_json(record: "State | Mapping[str, Any]") -> Mapping[str, Any]:
    """The JSON of a record that may have come as a `State`."""
    return record.to_json() if isinstance(record, State) else record


def _contradiction(one: FieldRecord) -> str | None:
    """Why a field can't be one that a run wrote."""
    if one["status"] == "unknown":
        alike = one["source"] is one["origin_source"] is None and "value" not in one
        return None if alike else "an unknown field has no value and no source"
    if one["source"] is None or one["origin_source"] is None:
        return "a known field has a source and an origin"
    return None if one.get("masked") or one.get("value") is not None else "a known field has a value"


def _place(*path: str | int) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")[:200]
