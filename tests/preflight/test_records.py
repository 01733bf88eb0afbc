"""F13: the record has the seed's names and shape, and a state can't be altered or made from what no run wrote."""

import asyncio
import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preaction.errors import InvalidJSON, MisuseError, StoreUnavailable
from preaction.preflight import MemoryStorage, State, create_preflight
from preaction.preflight.record import time_text
from preflight.bank import KEY, TRANSFER, Bank, hooks

# The two records of the specification, as they stand there. Not told by it: the times, and the pinned message.
UNDETERMINED: dict[str, Any] = {
    "schema_version": "1.4",
    "action_key": "u_01:clean-up",
    "phase": "at_trigger",
    "fixed": {
        "c1_when_case": "immediate",
        "c2_user_action_name": "clean up the old invoices",
        "c3_provider_action_name": "records.delete_all",
    },
    "fields": None,
    "advisory_notes": "",
    "unknown_count": None,
    "gate": {
        "kind": "tool_undetermined",
        "_diag": {
            "candidate_tool": "records.delete_all",
            "user_action": "clean up the old invoices",
            "reason": "scope mismatch: user action is bounded, tool is unbounded",
        },
    },
    "execution_decision": "ask_user",
    "reason": "ask_user: tool undetermined (scope mismatch: user action is bounded, tool is unbounded)",
}
UNKNOWN: dict[str, Any] = {
    "schema_version": "1.4",
    "action_key": "u_01:bank.transfer",
    "phase": "at_trigger",
    "fixed": {
        "c1_when_case": "immediate",
        "c2_user_action_name": "send money to my landlord",
        "c3_provider_action_name": "bank.transfer",
    },
    "fields": [
        {
            "name": "from_account",
            "value": "1102534471",
            "status": "known",
            "source": "pre_set_data",
            "origin_source": "pre_set_data",
        },
        {
            "name": "amount",
            "value": 500000,
            "status": "known",
            "source": "instruction",
            "origin_source": "instruction",
        },
        {"name": "to_account", "status": "unknown", "source": None, "origin_source": None},
    ],
    "advisory_notes": "Transfers are final. Confirm the recipient before calling.",
    "user_checklist": [
        {
            "id": "chk_limit",
            "description": "within daily transfer limit",
            "status": "verified",
            "source": "measured_data",
        }
    ],
    "unknown_count": 1,
    "unverified_checklist_count": 0,
    "gate": {"unknown_fields": [{"name": "to_account", "note": None}], "unverified_checklist": []},
    "execution_decision": "ask_user",
    "reason": "ask_user: unknown_fields=1, unverified_checklist=0",
}


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """The record without its times, each of which has to be UTC with milliseconds and `Z`."""
    found = copy.deepcopy(record)
    for place in (found.pop("timestamp"), *[one.pop("resolved_at") for one in found["fields"] or ()]):
        assert place == "2026-08-11T09:12:03.114Z"
    return found


def test_f13_the_seed_s_record_of_an_undetermined_tool() -> None:
    reason = UNDETERMINED["gate"]["_diag"]["reason"]
    bank = Bank(
        extract_user_action_name=lambda instruction: "clean up the old invoices",
        build_action_key=lambda user_id, fixed: f"{user_id}:clean-up",
        confirm_tool_name_matches_intent=lambda user_action_name, tool: {"approved": False, "reason": reason},
    )
    record = without_times(bank.run(tool={"name": "records.delete_all"}).to_json())
    assert record["gate"].pop("user_message")
    more = {"user_checklist": None, "unverified_checklist_count": None}  # keys that the seed's sample leaves out
    assert record == UNDETERMINED | more


def test_f13_the_seed_s_record_of_an_unknown_field() -> None:
    assert without_times(Bank().run().to_json()) == UNKNOWN


def test_f13_an_unknown_field_has_no_value_and_the_gate_is_null_after_execute() -> None:
    bank = Bank()
    asked, decided = bank.run(), bank.ready()
    assert "value" not in asked.to_json()["fields"][2]
    assert (decided.execution_decision, decided.gate) == ("execute", None)


def test_f13_records_accumulate_under_one_action_key() -> None:
    bank = Bank()
    states = [bank.run(), bank.ready()]
    assert bank.storage.records(KEY) == [state.to_json() for state in states]
    assert [one["execution_decision"] for one in bank.storage.records(KEY)] == ["ask_user", "execute"]
    assert bank.preflight.prior_state_sync(KEY) is None


def test_f13_without_an_action_key_there_is_one_for_all() -> None:
    bank = Bank(classify_when_case=lambda instruction: None)
    state = bank.run()
    assert (state.action_key, bank.storage.records("__preflight_unkeyed__")) == (None, [state.to_json()])


class Broken(MemoryStorage):
    def persist(self, action_key: str, record: Any) -> None:
        raise OSError("SECRET: disk full")

    def load(self, action_key: str) -> Any:
        raise OSError("SECRET: no such table")


def test_f13_a_record_that_can_t_be_kept_or_read_is_an_error_and_no_state() -> None:
    preflight = create_preflight(hooks=hooks(), storage=Broken())
    for act in (
        lambda: preflight.run_and_record_sync(user_id="u", instruction=[], tool=TRANSFER),
        lambda: preflight.prior_state_sync(KEY),
        lambda: asyncio.run(preflight.run_and_record(user_id="u", instruction=[], tool=TRANSFER)),
        lambda: asyncio.run(preflight.prior_state(KEY)),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            act()
        assert "OSError" in str(caught.value)
        assert "SECRET" not in str(caught.value)


# ---------------------------------------------------------------- states


def test_a_state_gives_copies_and_takes_no_change() -> None:
    state = Bank().ready(user_answers={"to_account": ["DE1"]})
    before = state.to_json()
    state.to_json()["fields"][2]["value"].append("EVIL")
    (state.fields or [])[2]["value"].append("EVIL")
    state.fixed["c3_provider_action_name"] = "records.delete_all"
    (state.user_checklist or []).clear()
    assert state.to_json() == before
    for name in ("execution_decision", "fields", "_text"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(state, name, "execute")


def test_a_state_shows_no_value_in_a_log() -> None:
    state = Bank().ready()
    assert f"{state} {state!r}" == "State(execution_decision='execute') State(execution_decision='execute')"


def test_each_attribute_is_the_record_s_key() -> None:
    state = Bank().run()
    for name, value in state.to_json().items():
        assert name == "schema_version" or getattr(state, name) == value


def records() -> list[dict[str, Any]]:
    later = Bank(classify_when_case=lambda instruction: "scheduled")
    states = [Bank().run(), Bank().ready(), later.ready(), Bank().run(tool=None)]
    return [state.to_json() for state in states]


@pytest.mark.parametrize("index", range(4))
def test_f13_a_record_survives_any_round_trip(index: int) -> None:
    record = records()[index]
    shuffled = json.loads(json.dumps(dict(reversed(record.items())), sort_keys=True))
    state = State.from_json(shuffled)
    assert (state.to_json(), list(state.to_json())) == (record, list(record))
    assert (State.from_json(record), state.signature) == (State.of(record), None)  # type: ignore[arg-type]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key and index in a record, from the top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here for key, one in inner for here in [(*path, key), *places(one, (*path, key))]]


FREE = {"value", "user_checklist", "instruction", "user_answers", "note"}
"""Keys whose content is the caller's own."""


def test_f13_a_record_in_another_shape_is_no_state() -> None:
    """Each key is taken out and changed in turn."""
    for record in records():
        for path in places(record):
            broken = copy.deepcopy(record)
            place = broken
            for key in path[:-1]:
                place = place[key]
            if isinstance(path[-1], str) and not FREE & set(path[:-1]):
                del place[path[-1]]
                with pytest.raises(InvalidJSON, match=r"^record"):
                    State.from_json(broken)
            if not FREE & set(path):
                place[path[-1]] = 7.5
                with pytest.raises(InvalidJSON, match=r"^record"):
                    State.from_json(broken)
        for path in [(), *places(record)]:
            extended = place = copy.deepcopy(record)
            for key in path:
                place = place[key]
            if isinstance(place, dict) and not FREE & set(path):
                place["more"] = 1
                with pytest.raises(InvalidJSON, match=r"more: "):
                    State.from_json(extended)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("fields", 0, "source"), None, "record.fields[0]: a known field has a source and an origin"),
        (("fields", 0, "origin_source"), None, "record.fields[0]: a known field has a source and an origin"),
        (("fields", 0, "value"), None, "record.fields[0]: a known field has a value"),
        (("fields", 0, "status"), "unknown", "record.fields[0]: an unknown field has no value and no source"),
        (("fields", 0, "value"), float("nan"), "record: a number is not finite"),
        (("execution_decision",), "deferred", "record.deferred_input: it belongs to a deferred record"),
    ],
)
def test_f13_a_record_that_contradicts_itself_is_no_state(path: Any, value: Any, place: str) -> None:
    record = spot = Bank().ready().to_json()
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    with pytest.raises(InvalidJSON) as caught:
        State.from_json(record)
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize("given", [None, 7, "{}", [], [1], object(), {"schema_version": "1.5"}])
def test_f13_what_is_no_record_is_no_state(given: Any) -> None:
    with pytest.raises(InvalidJSON, match=r"^record"):
        State.from_json(given)


def test_f13_a_masked_field_has_no_value() -> None:
    record = Bank().ready().to_json()
    record["fields"][0] |= {"value": None, "masked": True}
    assert (State.from_json(record).fields or [])[0]["masked"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(JSON)
def test_f13_any_value_that_is_known_stands_in_the_record_as_it_is(value: Any) -> None:
    tool = {"name": "t", "inputSchema": {"required": ["x"]}}
    bank = Bank()
    state = bank.run(tool=tool, user_answers={"x": value})
    (field,) = state.fields or []
    if field["status"] == "known":
        assert repr(field["value"]) == repr(value)
        assert State.from_json(json.loads(json.dumps(state.to_json()))).to_json() == state.to_json()
        assert bank.storage.records() == [state.to_json()]
    else:  # None, an infinity, or two names that differ in nothing but capitals
        assert state.execution_decision == "ask_user"


@pytest.mark.parametrize("moment", [None, "2026-08-11", Bank().clock().replace(tzinfo=None)])
def test_f13_a_time_without_a_zone_is_none(moment: Any) -> None:
    with pytest.raises(MisuseError, match="clock: an aware datetime is needed"):
        time_text(moment)
