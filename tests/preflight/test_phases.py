"""F12: at instruction time values are settled ahead; at the trigger everything runs again and nothing is excused."""

import json
from typing import Any

import pytest

from preaction.preflight import State
from preflight.bank import CHECKLIST, INSTRUCTION, Bank, failing, field_of, note_of

BALANCE = {"name": "bank.sweep", "inputSchema": {"required": ["to_account", "balance"]}}
LATER = ["scheduled", "conditional", "recurring"]


def waiting(record: dict[str, Any], context: Any) -> dict[str, Any]:
    """The balance may be missing until the transfer is made."""
    return {**record, "pending_at_trigger": True} if record["name"] == "balance" else record


def later(case: str = "scheduled", **changes: Any) -> Bank:
    return Bank(**{"classify_when_case": lambda instruction: case, "apply_field_policy": waiting, **changes})


def at_trigger(bank: Bank, deferred: dict[str, Any], **now: Any) -> State:
    """The run at trigger time, on a record that was JSON meanwhile."""
    return bank.preflight.resume_sync(json.loads(json.dumps(deferred)), tool=BALANCE, **now)


@pytest.mark.parametrize("case", LATER)
def test_f12_what_is_not_immediate_is_settled_now_and_deferred(case: str) -> None:
    state = later(case).ready(tool=BALANCE)
    assert (state.execution_decision, state.phase, state.gate, state.reason) == (
        "deferred",
        "at_instruction",
        None,
        "deferred: unknown_fields=0",
    )
    assert field_of(state, "balance") == {
        "name": "balance",
        "status": "unknown",
        "source": None,
        "origin_source": None,
        "resolved_at": "2026-08-11T09:12:03.114Z",
        "pending_at_trigger": True,
    }


@pytest.mark.parametrize("case", LATER)
def test_f12_every_other_unknown_blocks_the_scheduling(case: str) -> None:
    state = later(case).run(tool=BALANCE)
    assert (state.execution_decision, state.phase) == ("ask_user", "at_instruction")
    assert state.gate == {"unknown_fields": [{"name": "to_account", "note": None}], "unverified_checklist": []}
    assert "deferred_input" not in state.to_json()
    assert later(case, apply_field_policy=None).ready(tool=BALANCE).execution_decision == "ask_user"


@pytest.mark.parametrize("mark", ["yes", 1, None, False, [True]])
def test_f12_only_the_mark_itself_excuses(mark: Any) -> None:
    bank = later(apply_field_policy=lambda record, context: {**record, "pending_at_trigger": mark})
    assert bank.ready(tool=BALANCE).execution_decision == "ask_user"


def test_f12_a_value_that_the_policy_takes_out_may_wait() -> None:
    def policy(record: dict[str, Any], context: Any) -> dict[str, Any]:
        return {**waiting(record, context), "status": "unknown" if record["name"] == "balance" else record["status"]}

    state = later(apply_field_policy=policy).ready(tool=BALANCE, measured_data={"balance": {"valid": True, "value": 9}})
    assert state.execution_decision == "deferred"
    assert "value" not in field_of(state, "balance")


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({"measure_from_environment": failing}, {}),
        ({}, {"measured_data": {"balance": {"valid": True, "value": float("nan")}}}),
        ({"validate_field_schema": lambda value, schema, context: "no" if value == 9 else None}, {}),
        ({"validate_field_schema": lambda value, schema, context: failing() if value == 9 else None}, {}),
        ({"apply_field_policy": failing}, {}),
    ],
)
def test_f12_nothing_excuses_a_look_up_that_raised_or_a_value_that_broke_its_schema(changes: Any, data: Any) -> None:
    given = {"measured_data": {"balance": {"valid": True, "value": 9}}, **data}
    state = later(**changes).ready(tool=BALANCE, **given)
    assert state.execution_decision == "ask_user"
    assert note_of(state, "balance") is not None
    assert "pending_at_trigger" not in field_of(state, "balance")


def test_f12_a_mark_on_a_known_value_is_none() -> None:
    state = later().ready(tool=BALANCE, measured_data={"balance": {"valid": True, "value": 9}})
    assert (field_of(state, "balance")["value"], "pending_at_trigger" in field_of(state, "balance")) == (9, False)


def test_f12_an_immediate_run_excuses_nothing() -> None:
    state = later("immediate").ready(tool=BALANCE)
    assert (state.execution_decision, state.phase, note_of(state, "balance")) == ("ask_user", "at_trigger", None)


def test_f12_intent_is_carried_and_nothing_that_was_measured() -> None:
    state = later().ready(
        tool=BALANCE,
        measured_data={"balance": {"valid": True, "value": 9}},
        checklist_answers={"chk_limit": "yes"},
        user_checklist=[{**CHECKLIST[0], "status": "verified", "source": "user"}],
        prior_state={"execution_decision": "executed"},
    )
    assert state.to_json()["deferred_input"] == {
        "user_id": "u_01",
        "instruction": [
            {"text": INSTRUCTION[0].text, "trust": "user"},
            {"text": INSTRUCTION[1].text, "trust": "untrusted", "origin": "mail:881"},
        ],
        "user_checklist": CHECKLIST,
        "user_answers": {"to_account": "9988776655"},
    }


def test_f12_an_instruction_that_was_no_list_stays_what_it_was() -> None:
    state = later().ready(tool=BALANCE, instruction="sweep")
    assert state.to_json()["deferred_input"]["instruction"] == "sweep"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user_answers": {"memo": object()}}, "user_answers.memo: a value of type object is not JSON"),
        ({"instruction": object()}, 'deferred_input: a value of type object is not JSON (in "instruction")'),
        ({"user_id": "\ud800"}, 'deferred_input: a text holds a lone surrogate (in "user_id")'),
    ],
)
def test_f12_intent_that_can_t_be_carried_holds(changes: Any, why: str) -> None:
    bank = later(build_action_key=lambda user_id, fixed: "k")
    state = bank.ready(tool=BALANCE, **changes)
    assert (state.execution_decision, state.reason) == ("hold", f"hold: input unusable ({why})")
    assert Bank(build_action_key=lambda user_id, fixed: "k").ready(**changes).execution_decision != "hold"


def test_f12_at_the_trigger_it_is_so_whatever_c1_says_and_nothing_is_excused() -> None:
    bank = later()
    deferred = bank.ready(tool=BALANCE).to_json()
    state = at_trigger(bank, deferred)
    assert (state.phase, state.fixed["c1_when_case"]) == ("at_trigger", "scheduled")
    assert (state.execution_decision, note_of(state, "balance")) == ("ask_user", None)
    assert "deferred_input" not in state.to_json()
    measured = at_trigger(bank, deferred, measured_data={"balance": {"valid": True, "value": 12}})
    assert (measured.execution_decision, field_of(measured, "balance")["value"]) == ("execute", 12)
    assert measured.user_checklist == [{**CHECKLIST[0], "status": "verified", "source": "measured_data"}]


def test_f12_untrusted_segments_stay_untrusted_over_the_wait() -> None:
    def extract(field_name: str, instruction: Any) -> Any:
        return {"value": "666", "segment_index": 1, "span": [0, 5]} if field_name == "balance" else None

    bank = later(extract_from_instruction=extract)
    state = at_trigger(bank, bank.ready(tool=BALANCE).to_json())
    assert field_of(state, "balance")["status"] == "unknown"
