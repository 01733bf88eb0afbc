"""A run on its way through the gates: what it is about, what is known so far, and how it ends."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from preaction.errors import MisuseError
from preaction.preflight.hooks import Hooks
from preaction.preflight.record import (
    SCHEMA_VERSION,
    Decision,
    DeferredInput,
    FieldRecord,
    FixedRecord,
    GateKind,
    Missing,
    Phase,
    Record,
    State,
    Undetermined,
    UnknownField,
    UnverifiedItem,
    record_json,
    time_text,
)
from preaction.preflight.source import Data, Segments, read_segments
from preaction.preflight.tool import Required, name_of_tool
from preaction.preflight.values import Unusable, copied, entries_of, frozen, words

MOST_ASKS: Final = 2
"""How often the user is asked which tool, or what, before the run holds (F2, F3)."""

MESSAGES: Final[Mapping[GateKind, str]] = {
    "tool_undetermined": "It is not clear yet which tool does what you want. Please say it in other words.",
    "intent_undetermined": "It is not clear yet what should be done, or when. Please say it in other words.",
    "action_key_undetermined": "This can't be done now. Whoever runs this assistant has to look at it.",
    "checklist_unusable": "Your checklist can't be used as it is. Whoever runs this assistant has to look at it.",
    "input_unusable": "This can't be put off as it is. Whoever runs this assistant has to look at it.",
}
"""All that a user is told before the fields. No candidate's name is in it: people approve what they are shown (F2)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one run is about; see `Preflight.run_and_record`.

    `at_trigger`: it is a deferred run whose time has come; `deferred_tool` is the name that it was deferred for.
    """

    user_id: str
    instruction: Any
    tool: Any
    pre_set_data: Mapping[str, Any] | None = None
    measured_data: Mapping[str, Any] | None = None
    prior_state: State | Mapping[str, Any] | None = None
    user_checklist: Sequence[Mapping[str, Any]] | None = None
    user_answers: Mapping[str, Any] | None = None
    checklist_answers: Mapping[str, Any] | None = None
    tool_attempt: int = 0
    intent_attempt: int = 0
    at_trigger: bool = False
    deferred_tool: str | None = None


class Ending(NamedTuple):
    """How a run ends: the decision, what is missing, and why."""

    decision: Decision
    gate: Undetermined | Missing | None
    reason: str


@dataclass(slots=True)
class Run:
    """One request, and what the steps have found out about it so far. What came in is our own copy."""

    request: Request
    hooks: Hooks
    clock: Callable[[], datetime]
    segments: Segments | None
    data: Data
    shown: dict[str, Any]
    fixed: FixedRecord
    phase: Phase | None = None
    action_key: str | None = None
    items: list[dict[str, Any]] = field(default_factory=list)
    carried: DeferredInput | None = None
    required: tuple[Required, ...] = ()
    advisory_notes: str = ""
    fields: list[FieldRecord] | None = None
    unknown: list[UnknownField] | None = None
    user_checklist: list[dict[str, Any]] | None = None
    unverified: list[UnverifiedItem] | None = None
    contexts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def instruction(self) -> Any:
        """The instruction for a hook: a list of segments of its own, or what was no such list."""
        return self.request.instruction if self.segments is None else list(self.segments)

    def context_of(self, hook: str) -> dict[str, Any]:
        """What a hook is told of the run. Each has a copy of its own: none can speak by way of another."""
        if hook not in self.contexts:
            self.contexts[hook] = copied(self.shown)
        return {"phase": self.phase, "instruction": self.instruction, **self.contexts[hook]}

    def undetermined(self, kind: GateKind, why: str, attempt: int = MOST_ASKS) -> Ending:
        """The end before any field is looked up: the user is asked, or the run holds after `attempt` asks."""
        decision: Decision = "ask_user" if attempt < MOST_ASKS else "hold"
        why = words(why, "no reason was given")
        gate: Undetermined = {
            "kind": kind,
            "user_message": MESSAGES[kind],
            "_diag": {
                "candidate_tool": self.fixed["c3_provider_action_name"],
                "user_action": self.fixed["c2_user_action_name"],
                "reason": why,
            },
        }
        return Ending(decision, gate, f"{decision}: {kind.replace('_', ' ')} ({why})")

    def record(self, ending: Ending) -> Record:
        """The record of a run that ends so."""
        record: Record = {
            "schema_version": SCHEMA_VERSION,
            "action_key": self.action_key,
            "phase": self.phase,
            "fixed": self.fixed,
            "fields": self.fields,
            "advisory_notes": self.advisory_notes,
            "user_checklist": self.user_checklist,
            "unknown_count": None if self.unknown is None else len(self.unknown),
            "unverified_checklist_count": None if self.unverified is None else len(self.unverified),
            "gate": ending.gate,
            "execution_decision": ending.decision,
            "reason": ending.reason,
            "timestamp": time_text(self.clock()),
        }
        if ending.decision == "deferred" and self.carried is not None:
            record["deferred_input"] = self.carried
        return record


def begin(request: Request, hooks: Hooks, clock: Callable[[], datetime]) -> Run:
    """A run with its input copied: whatever anybody changes from here on changes nothing of it.

    `MisuseError` names what no caller can mean.
    """
    user_id: object = request.user_id
    prior_state = request.prior_state
    if not isinstance(user_id, str) or not user_id:
        raise MisuseError("user_id: a text is needed")
    for name in ("tool_attempt", "intent_attempt"):
        count: object = getattr(request, name)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise MisuseError(f"{name}: the number of asks so far is needed, from 0 on")
    data = Data(
        entries_of(request.user_answers, "user_answers"),
        entries_of(request.pre_set_data, "pre_set_data"),
        entries_of(request.measured_data, "measured_data"),
        None if prior_state is None else frozen(lambda: record_json(prior_state), "prior_state"),
    )
    shown = {
        "user_answers": _usable(data.user_answers),
        "pre_set_data": _usable(data.pre_set_data),
        "measured_data": _usable(data.measured_data),
        "prior_state": None if isinstance(data.prior_state, Unusable) else data.prior_state,
        "checklist_answers": _usable(entries_of(request.checklist_answers, "checklist_answers")),
    }
    fixed: FixedRecord = {
        "c1_when_case": None,
        "c2_user_action_name": None,
        "c3_provider_action_name": name_of_tool(request.tool),
    }
    return Run(request, hooks, clock, read_segments(request.instruction), data, shown, fixed)


def _usable(entries: Any) -> dict[str, Any]:
    """The entries for hooks, without what is no JSON."""
    return {name: value for name, value in entries.items() if not isinstance(value, Unusable)}
