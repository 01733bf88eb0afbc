"""From a deferred record to the run at its trigger (F12): intent is kept, reality is fetched again.

What was measured, what was set before, the policy and the checklist's answers are not in a deferred record, so they
can't be carried; the two gates and every look-up run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from preaction.errors import MisuseError
from preaction.preflight.record import State, record_json
from preaction.preflight.run import Request
from preaction.wire.digest import digest, spelled_out


@dataclass(frozen=True, slots=True)
class Now:
    """What is true at the trigger, and is given anew."""

    tool: Any
    pre_set_data: Mapping[str, Any] | None = None
    measured_data: Mapping[str, Any] | None = None
    prior_state: State | Mapping[str, Any] | None = None
    checklist_answers: Mapping[str, Any] | None = None
    user_answers: Mapping[str, Any] | None = None


def at_trigger(
    deferred: State | Mapping[str, Any], now: Now, occurrence: str | None = None
) -> tuple[Request, str | None]:
    """The run of a deferred record, and what its act is claimed by; see `Preflight.resume`."""
    record = State.from_json(record_json(deferred)).to_json()
    if record["execution_decision"] != "deferred":
        raise MisuseError(
            f"deferred_record: its execution_decision is {record['execution_decision']!r}, not 'deferred'"
        )
    answers = {} if now.user_answers is None else now.user_answers
    if not isinstance(answers, Mapping):
        raise MisuseError("user_answers: a mapping of names to values is needed")
    carried = record["deferred_input"]
    request = Request(
        **{**carried, "user_answers": {**carried["user_answers"], **answers}},
        tool=now.tool,
        pre_set_data=now.pre_set_data,
        measured_data=now.measured_data,
        prior_state=now.prior_state,
        checklist_answers=now.checklist_answers,
        at_trigger=True,
        deferred_tool=record["fixed"]["c3_provider_action_name"],
    )
    return request, _act(record, occurrence)


def _act(record: Mapping[str, Any], occurrence: object) -> str | None:
    """The name of the act, however often its trigger fires; None where each run is an act of its own."""
    if occurrence is not None and not (isinstance(occurrence, str) and occurrence):
        raise MisuseError("occurrence: a text is needed that names the time, such as '2026-12'")
    recurs = record["fixed"]["c1_when_case"] == "recurring"
    if recurs and occurrence is None:
        return None
    return "deferred-" + digest(list(spelled_out([record, occurrence if recurs else None])))
