"""F8, F9, F11: what is looked up is held to its schema and put before the policy, and neither can put a value in."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.preflight import State
from preflight.bank import ACCOUNT, KEY, TRANSFER, Bank, failing, field_of, note_of

PRIOR: dict[str, Any] = {
    "action_key": KEY,
    "execution_decision": "executed",
    "fields": [
        {"name": "to_account", "value": "1", "status": "known", "source": "user_answer", "origin_source": "user_answer"}
    ],
}


def test_f5_in_a_run_every_required_field_is_looked_up_in_its_order() -> None:
    state = Bank().ready()
    found = [(one["name"], one["source"]) for one in state.fields or ()]
    assert found == [("from_account", "pre_set_data"), ("amount", "instruction"), ("to_account", "user_answer")]
    assert (state.execution_decision, state.gate, state.unknown_count) == ("execute", None, 0)


def test_f5_a_look_up_that_fails_makes_its_field_unknown_and_no_other() -> None:
    def extract(field_name: str, instruction: Any) -> Any:
        return failing() if field_name == "amount" else None

    state = Bank(extract_from_instruction=extract).ready()
    assert note_of(state, "amount") == "instruction.amount: the look-up failed"
    assert (state.unknown_count, field_of(state, "to_account")["value"]) == (1, ACCOUNT)


def test_f6_a_plain_string_leaves_every_field_to_the_other_sources() -> None:
    state = Bank().ready(instruction="send 500,000 won to my landlord")
    assert [one["name"] for one in (state.gate or {})["unknown_fields"]] == ["amount"]


# ---------------------------------------------------------------- F8: the policy


def test_f8_the_default_policy_carries_nothing_forward() -> None:
    bank = Bank(apply_field_policy=None)
    state = bank.run(prior_state=PRIOR)
    assert field_of(state, "to_account")["status"] == "unknown"
    assert note_of(state, "to_account") == "prior_state: it is from an earlier run, and no policy takes it over"


def test_f8_a_policy_may_take_it_over_and_its_origin_stays() -> None:
    field = field_of(Bank().run(prior_state=PRIOR), "to_account")
    assert (field["value"], field["source"], field["origin_source"]) == ("1", "prior_state", "user_answer")


def test_f8_only_the_record_that_is_passed_is_one() -> None:
    bank = Bank()
    bank.storage.persist(KEY, PRIOR)
    assert bank.preflight.prior_state_sync(KEY) == PRIOR
    assert bank.run().execution_decision == "ask_user"
    assert bank.run(prior_state=bank.preflight.prior_state_sync(KEY)).execution_decision == "execute"


@pytest.mark.parametrize("key", ["u_02:bank.transfer", None, ""])
def test_f8_the_record_of_another_action_is_no_baseline(key: Any) -> None:
    state = Bank().run(prior_state={**PRIOR, "action_key": key})
    assert note_of(state, "to_account") == "prior_state: it is the record of another action"


def test_f8_a_prior_record_that_is_no_json_is_unknown_with_its_place() -> None:
    state = Bank().run(prior_state={**PRIOR, "at": object()})
    assert note_of(state, "to_account") == 'prior_state: a value of type object is not JSON (in "at")'


def policy(**changes: Any) -> Callable[..., Any]:
    return lambda record, context: {**record, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"value": "666"},
        {"source": "user_answer", "origin_source": "user_answer"},
        {"name": "amount"},
        {"resolved_at": "1999-01-01T00:00:00.000Z"},
    ],
)
def test_f8_a_policy_changes_no_value_source_origin_name_or_time(changes: dict[str, Any]) -> None:
    plain, changed = Bank().ready(), Bank(apply_field_policy=policy(**changes)).ready()
    assert changed.to_json() == plain.to_json()


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "known", "value": "666", "source": "user_answer", "origin_source": "user_answer"},
        {"status": "known"},
        {"value": "666"},
    ],
)
def test_f8_a_policy_makes_nothing_known(changes: dict[str, Any]) -> None:
    state = Bank(apply_field_policy=policy(**changes)).run()
    unknown = {"name": "to_account", "status": "unknown", "source": None, "origin_source": None}
    assert field_of(state, "to_account") == {**unknown, "resolved_at": "2026-08-11T09:12:03.114Z"}
    assert state.execution_decision == "ask_user"


@pytest.mark.parametrize("status", ["unknown", None, "KNOWN", True, "pending_at_trigger"])
def test_f8_a_policy_may_take_a_value_out(status: Any) -> None:
    state = Bank(apply_field_policy=policy(status=status)).ready()
    assert state.unknown_count == 3
    assert all("value" not in one for one in state.fields or ())
    assert note_of(state, "amount") == "instruction.amount: the field policy takes no value from there"
    noted = Bank(apply_field_policy=policy(status=status, note="ask\nme")).ready()
    assert note_of(noted, "amount") == "ask me"


@pytest.mark.parametrize("answer", [None, True, "known", ["known"], 7, {"status": "known", "at": object()}])
def test_f8_a_policy_without_an_answer_leaves_nothing_known(answer: Any) -> None:
    state = Bank(apply_field_policy=lambda record, context: answer).ready()
    assert (state.unknown_count, note_of(state, "amount")) == (3, "amount: the field policy gave no answer")


def test_f8_a_policy_that_raises_leaves_nothing_known() -> None:
    state = Bank(apply_field_policy=failing).ready()
    assert (state.unknown_count, "SECRET" in str(state.to_json())) == (3, False)


def test_f8_a_policy_that_alters_what_it_is_shown_alters_nothing() -> None:
    def altering(record: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        kept = {**record}
        record.update(status="known", value="666", source="user_answer")
        context["user_answers"]["to_account"] = "666"
        context["pre_set_data"]["to_account"] = {"value": "666", "trust": "user"}
        context["pre_set_data"]["from_account"]["value"] = "666"
        context["instruction"].clear()
        context["prior_state"]["fields"][0]["value"] = "666"
        context["phase"] = "at_instruction"
        return kept

    prior = {**PRIOR, "fields": [{**PRIOR["fields"][0], "value": "1"}]}
    answers: dict[str, Any] = {}
    state = Bank(apply_field_policy=altering).run(prior_state=prior, user_answers=answers)
    assert [one.get("value") for one in state.fields or ()] == ["1102534471", 500000, "1"]
    assert (answers, prior["fields"][0]["value"]) == ({}, "1")


def nested(levels: int) -> Any:
    value: Any = "1"
    for _ in range(levels):
        value = [value]
    return value


def test_f5_what_is_handed_in_may_be_deep_and_have_names_that_look_alike() -> None:
    """A value of 24 levels goes through everything that is around it; a deeper one is unknown."""
    for more in ({}, {"prior_state": {**PRIOR, "deep": nested(31)}}, {"prior_state": [1]}, {"prior_state": 7}):
        answers = {"to_account": nested(24), "TO_ACCOUNT": "666"}
        measured = {"Deep": nested(24), "deep": nested(24), "deeper": nested(26)}
        state = Bank().run(user_answers=answers, measured_data=measured, **more)
        assert (state.execution_decision, field_of(state, "to_account")["value"]) == ("execute", nested(24))
        assert State.from_json(state.to_json()).to_json() == state.to_json()
    state = Bank().run(user_answers={"to_account": nested(25)})
    assert (note_of(state, "to_account") or "").startswith("user_answer.to_account: it is nested more than 24 deep")


def test_f5_a_deep_value_is_carried_over_a_wait_and_into_the_next_run() -> None:
    items = [{"id": "chk", "deep": nested(23)}]
    bank = Bank(classify_when_case=lambda instruction: "scheduled")
    deferred = bank.run(user_answers={"to_account": nested(24)}, user_checklist=items).to_json()
    settled = {"from_account": {"value": nested(24), "trust": "user"}}
    state = bank.preflight.resume_sync(deferred, tool=TRANSFER, pre_set_data=settled)
    assert (state.execution_decision, field_of(state, "from_account")["value"]) == ("execute", nested(24))
    prior = state.to_json() | {"execution_decision": "executed"}
    settled = {"from_account": {"value": "1", "trust": "user"}}
    assert field_of(bank.run(prior_state=prior, pre_set_data=settled), "to_account")["source"] == "prior_state"
    assert bank.run(user_checklist=[{"id": "chk", "deep": nested(24)}]).execution_decision == "hold"


def test_f9_a_schema_may_have_words_that_look_alike() -> None:
    schema = {"$ref": "#/$defs/x", "Type": 1, "$DEFS": 2}
    tool = {
        "name": "t",
        "inputSchema": {"required": ["x"], "properties": {"x": schema}, "$defs": {"x": {"type": "string"}}},
    }
    assert Bank().run(tool=tool, user_answers={"x": 1}).execution_decision == "execute"


# ---------------------------------------------------------------- F9: the schema


@pytest.mark.parametrize("answer", ["must be a number", False, True, 0, "", [], {}, object()])
def test_f9_any_answer_but_none_is_a_violation(answer: Any) -> None:
    state = Bank(validate_field_schema=lambda value, schema, context: answer).ready()
    said = answer if isinstance(answer, str) and answer else "no reason was given"
    for source, name in (("pre_set_data", "from_account"), ("instruction", "amount"), ("user_answer", "to_account")):
        assert note_of(state, name) == f"{source}.{name}: the value does not fit its schema: {said}"
        assert "value" not in field_of(state, name)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_f9_so_is_a_check_that_raises_and_its_text_stays_inside(way: str) -> None:
    state = Bank(way, validate_field_schema=failing).ready()
    assert note_of(state, "amount") == "instruction.amount: the value does not fit its schema: it could not be checked"
    assert "SECRET" not in str(state.to_json())


def test_f9_it_is_told_the_value_and_its_schema_and_can_alter_neither() -> None:
    seen: list[tuple[Any, Any]] = []

    def check(value: Any, schema: dict[str, Any], context: Any) -> None:
        seen.append((value, dict(schema)))
        schema.clear()
        if isinstance(value, dict):
            value["iban"] = "EVIL"

    state = Bank(validate_field_schema=check).ready(user_answers={"to_account": {"iban": "DE1"}})
    assert seen[1:] == [(500000, {"type": "integer"}), ({"iban": "EVIL"}, {"type": "string"})]
    assert field_of(state, "to_account")["value"] == {"iban": "DE1"}
    assert TRANSFER["inputSchema"]["properties"]["amount"] == {"type": "integer"}  # type: ignore[index]


def test_f9_what_is_unknown_is_not_checked_and_what_broke_is_not_shown_to_the_policy() -> None:
    checked: list[Any] = []
    shown: list[str] = []

    def check(value: Any, schema: Any, context: Any) -> str | None:
        checked.append(value)
        return "no" if value == 500000 else None

    def watch(record: Any, context: Any) -> Any:
        shown.append(record["name"])
        return record

    Bank(validate_field_schema=check, apply_field_policy=watch).run()
    assert (checked, shown) == (["1102534471", 500000], ["from_account", "to_account"])


# ---------------------------------------------------------------- F11: the gate


@given(known=st.sets(st.sampled_from(["from_account", "amount", "to_account"])), verified=st.booleans())
def test_f11_the_gate_opens_only_when_both_counts_are_zero(known: set[str], verified: bool) -> None:
    status = "verified" if verified else "unverified"
    bank = Bank(verify_user_checklist_item=lambda item, context: {**item, "status": status})
    state = bank.run(instruction=[], pre_set_data={}, user_answers=dict.fromkeys(known, "1"))
    counts = (3 - len(known), 1 - verified)
    assert (state.unknown_count, state.unverified_checklist_count) == counts
    assert state.execution_decision == ("execute" if counts == (0, 0) else "ask_user")
    assert state.reason == f"{state.execution_decision}: unknown_fields={counts[0]}, unverified_checklist={counts[1]}"
    if counts == (0, 0):
        assert state.gate is None
    else:
        assert state.gate is not None
        assert {one["name"] for one in state.gate["unknown_fields"]} == {"from_account", "amount", "to_account"} - known
        assert state.gate["unverified_checklist"] == [] if verified else [{"id": "chk_limit", "note": None}]


def test_f11_a_tool_that_requires_nothing_executes_on_its_checklist_alone() -> None:
    tool = {"name": "bank.close", "inputSchema": {"type": "object"}}
    state = Bank().run(tool=tool)
    assert (state.fields, state.unknown_count, state.execution_decision) == ([], 0, "execute")


def test_a_nested_field_is_looked_up_by_its_pointer() -> None:
    party = {"type": "object", "properties": {"iban": {"type": "string"}}, "required": ["iban"]}
    tool = {"name": "bank.transfer", "inputSchema": {"properties": {"to": party}, "required": ["to"]}}
    state = Bank().run(tool=tool, user_answers={"/to/iban": "DE1", "to": {"iban": "DE2"}})
    assert [(one["name"], one.get("value")) for one in state.fields or ()] == [("/to/iban", "DE1")]
