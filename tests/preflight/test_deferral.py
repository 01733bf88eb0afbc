"""F12: between a deferral and its trigger intent is kept, reality is fetched again, and the act is done once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from preaction.errors import InvalidJSON, MisuseError, StoreUnavailable
from preaction.preflight import (
    MaskedStorage,
    MemoryStorage,
    Preflight,
    SignedStorage,
    SqliteStorage,
    State,
    create_preflight,
)
from preflight.bank import ACCOUNT, CHECKLIST, INSTRUCTION, KEY, TRANSFER, hooks
from preflight.test_signing import SECRET, rewrite

PRE_SET = {"from_account": {"value": "1102534471", "trust": "user"}}


def waiting_for_amount(record: dict[str, Any], context: Any) -> dict[str, Any]:
    return record | {"pending_at_trigger": True} if record["name"] == "amount" else record


def scheduling(storage: Any = None, **changes: Any) -> Preflight:
    """A preflight whose amount is what is measured when the transfer is made."""
    given = {
        "classify_when_case": lambda instruction: "scheduled",
        "extract_from_instruction": lambda field_name, instruction: None,
        "apply_field_policy": waiting_for_amount,
        **changes,
    }
    return create_preflight(hooks=hooks(**given), storage=storage or MemoryStorage(), secret=SECRET)


def deferred(preflight: Preflight, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "user_id": "u_01",
        "instruction": INSTRUCTION,
        "tool": TRANSFER,
        "pre_set_data": PRE_SET,
        "user_answers": {"to_account": ACCOUNT},
        "user_checklist": CHECKLIST,
        "checklist_answers": {"chk_limit": "yes"},
        **changes,
    }
    record = preflight.run_and_record_sync(**given).to_json()
    assert record["execution_decision"] == "deferred", record["reason"]
    return json.loads(json.dumps(record))


def resumed(preflight: Preflight, record: Any, amount: int | None = 500000, **changes: Any) -> State:
    measured = {} if amount is None else {"amount": {"valid": True, "value": amount}}
    given = {"tool": TRANSFER, "pre_set_data": PRE_SET, "measured_data": measured, **changes}
    return preflight.resume_sync(record, **given)


def values(state: State) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in state.fields or ()}


class Counter:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, name: str, arguments: dict[str, Any]) -> int:
        self.calls.append(arguments)
        return len(self.calls)


def test_f12_intent_is_kept_and_nothing_that_was_measured_or_set() -> None:
    record = deferred(scheduling(), measured_data={"amount": {"valid": True, "value": 31313}})
    assert list(record["deferred_input"]) == ["user_id", "instruction", "user_checklist", "user_answers"]
    assert record["deferred_input"]["user_answers"] == {"to_account": ACCOUNT}
    kept = json.dumps(record["deferred_input"])
    assert [text for text in ("31313", "1102534471", 'chk_limit": "yes') if text in kept] == []


def test_f12_at_the_trigger_reality_is_fetched_again_and_recorded() -> None:
    preflight = scheduling(storage := MemoryStorage())
    record = deferred(preflight, measured_data={"amount": {"valid": True, "value": 77}})
    new = {"from_account": {"value": "another", "trust": "user"}}
    state = resumed(preflight, record, 42, pre_set_data=new)
    assert (state.execution_decision, state.phase, state.action_key) == ("execute", "at_trigger", KEY)
    assert values(state) == {"from_account": "another", "amount": 42, "to_account": ACCOUNT}
    assert state.fixed["c1_when_case"] == "scheduled"
    assert storage.records() == [record, state.to_json()]


@pytest.mark.parametrize("case", ["scheduled", "conditional", "recurring"])
def test_f12_a_state_resumes_as_its_record_does(case: str) -> None:
    preflight = scheduling(classify_when_case=lambda instruction: case)
    state = State.from_json(deferred(preflight))
    assert resumed(preflight, state).execution_decision == "execute"


async def test_f12_in_a_loop_too() -> None:
    preflight = scheduling()
    measured = {"amount": {"valid": True, "value": 1}}
    state = await preflight.resume(deferred(preflight), tool=TRANSFER, pre_set_data=PRE_SET, measured_data=measured)
    counter = Counter()
    assert (await preflight.execute_if_ready(state, TRANSFER, counter)).status == "executed"
    assert (await preflight.prior_state(KEY) or {})["execution_decision"] == "executed"


def test_f12_at_the_trigger_nothing_is_excused() -> None:
    preflight = scheduling()
    record = deferred(preflight)
    assert resumed(preflight, record, None).execution_decision == "ask_user"
    assert resumed(preflight, record, pre_set_data={}).execution_decision == "ask_user"
    assert resumed(preflight, record, pre_set_data=None, measured_data=None).execution_decision == "ask_user"


def test_f12_what_a_resumed_run_asks_for_can_be_answered() -> None:
    preflight = scheduling()
    record = deferred(preflight)
    assert resumed(preflight, record, None).execution_decision == "ask_user"
    answered = resumed(preflight, record, None, user_answers={"amount": 7})
    assert (answered.execution_decision, values(answered)["amount"]) == ("execute", 7)
    assert values(answered)["to_account"] == ACCOUNT
    corrected = resumed(preflight, record, user_answers={"to_account": "another"})
    assert values(corrected)["to_account"] == "another"
    with pytest.raises(MisuseError, match="user_answers"):
        resumed(preflight, record, user_answers=[("amount", 7)])


@pytest.mark.parametrize(
    "changes",
    [
        {"confirm_tool_name_matches_intent": lambda user_action_name, tool: None},
        {"classify_when_case": lambda instruction: "some day"},
        {"verify_user_checklist_item": lambda item, context: item},
        {"validate_field_schema": lambda value, schema, context: "no"},
    ],
)
def test_f12_at_the_trigger_both_gates_stand_again(changes: Any) -> None:
    record = deferred(scheduling())
    assert resumed(scheduling(**changes), record).execution_decision == "ask_user"


def test_f12_a_run_that_was_deferred_for_one_tool_is_not_resumed_with_another() -> None:
    preflight = scheduling()
    record = deferred(preflight)
    for tool in ({**TRANSFER, "name": "bank.transfer_all"}, {**TRANSFER, "name": None}, None):
        state = resumed(preflight, record, tool=tool)
        assert (state.execution_decision, (state.gate or {})["kind"]) == ("ask_user", "tool_undetermined")
        assert state.fields is None


def test_f12_an_answer_cannot_be_slipped_in_as_anything_else() -> None:
    """What is in a deferred record is what a caller may say anyhow; nothing of it is a measurement or an approval."""
    preflight = scheduling()
    record = deferred(preflight)
    slipped: dict[str, Any] = {
        "measured_data": {},
        "pre_set_data": {},
        "prior_state": None,
        "at_trigger": True,
        "tool": {},
    }
    for name, value in slipped.items():
        with pytest.raises(InvalidJSON, match=f"record.deferred_input.{name}: Extra"):
            resumed(preflight, {**record, "deferred_input": {**record["deferred_input"], name: value}})


@pytest.mark.parametrize("name", ["user_id", "instruction", "user_checklist", "user_answers"])
def test_f12_a_record_without_a_part_of_its_intent_is_refused(name: str) -> None:
    record = deferred(scheduling())
    del record["deferred_input"][name]
    with pytest.raises(InvalidJSON, match=f"record.deferred_input.{name}: Field required"):
        resumed(scheduling(), record)


def test_f12_only_a_deferred_record_is_resumed() -> None:
    preflight = scheduling()
    record = deferred(preflight)
    execute = resumed(preflight, record)
    with pytest.raises(MisuseError, match="deferred_record: its execution_decision is 'execute', not 'deferred'"):
        resumed(preflight, execute)
    with pytest.raises(InvalidJSON, match="belongs to a deferred record"):
        resumed(preflight, {**record, "execution_decision": "execute"})
    for wrong in (None, 7, "deferred", [record], {}, {**record, "more": 1}):
        with pytest.raises(InvalidJSON):
            resumed(preflight, wrong)
    with pytest.raises(MisuseError, match="occurrence"):
        resumed(preflight, record, occurrence="")


# ---------------------------------------------------------------- once


def test_f14_a_trigger_that_fires_twice_acts_once() -> None:
    preflight, counter = scheduling(), Counter()
    record = deferred(preflight)
    first, second = resumed(preflight, record), resumed(preflight, json.loads(json.dumps(record)), 700)
    done = [
        preflight.execute_if_ready_sync(one, TRANSFER, counter) for one in (first, second, resumed(preflight, record))
    ]
    assert [one.status for one in done] == ["executed", "held", "held"]
    assert [call["amount"] for call in counter.calls] == [500000]


def test_f14_what_is_missing_at_the_trigger_uses_nothing_up() -> None:
    preflight, counter = scheduling(), Counter()
    record = deferred(preflight)
    assert preflight.execute_if_ready_sync(resumed(preflight, record, None), TRANSFER, counter).status == "held"
    assert preflight.execute_if_ready_sync(resumed(preflight, record), TRANSFER, counter).status == "executed"


def test_f14_what_recurs_is_done_once_each_time() -> None:
    preflight, counter = scheduling(classify_when_case=lambda instruction: "recurring"), Counter()
    record = deferred(preflight)

    def go(occurrence: str | None) -> str:
        state = resumed(preflight, record, occurrence=occurrence)
        return preflight.execute_if_ready_sync(state, TRANSFER, counter).status

    times = ["2026-12", "2026-12", "2027-01", None, None]
    assert [go(one) for one in times] == ["executed", "held", "executed", "executed", "executed"]


def test_f14_an_occurrence_makes_no_second_act_of_what_is_done_once() -> None:
    preflight, counter = scheduling(), Counter()
    record = deferred(preflight)
    done = [
        preflight.execute_if_ready_sync(resumed(preflight, record, occurrence=one), TRANSFER, counter).status
        for one in ("2026-12", "2027-01")
    ]
    assert done == ["executed", "held"]


# ---------------------------------------------------------------- what a storage made of it


def test_f13_a_masked_deferred_record_asks_again() -> None:
    preflight = scheduling(MaskedStorage(inner := MemoryStorage(), ["to_account"]))
    deferred(preflight)
    (kept,) = inner.records()
    assert ACCOUNT not in json.dumps(kept)
    state = resumed(preflight, kept)
    assert state.execution_decision == "ask_user"
    assert (state.gate or {})["unknown_fields"] == [{"name": "to_account", "note": None}]


def test_f14_a_deferred_row_that_was_rewritten_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    storage = SignedStorage(SqliteStorage(path), SECRET)
    preflight = scheduling(storage)
    record = deferred(preflight)
    assert storage.records(KEY) == storage.records() == [record]
    rewrite(
        path, lambda row: {**row, "deferred_input": {**row["deferred_input"], "user_answers": {"to_account": "666"}}}
    )
    for key in (KEY, None):
        with pytest.raises(StoreUnavailable, match="isn't as it was written"):
            storage.records(key)
    assert storage.records("another") == []


RESUME = """
import json, sys
from preaction.preflight import SqliteStorage
from preflight.bank import TRANSFER
from preflight.test_deferral import Counter, resumed, scheduling
storage = SqliteStorage(sys.argv[1])
(record,) = storage.records()
preflight, counter = scheduling(storage), Counter()
state = resumed(preflight, record, 42)
done = [preflight.execute_if_ready_sync(one, TRANSFER, counter).status for one in (state, resumed(preflight, record))]
print(json.dumps([done, counter.calls]))
"""


def test_f12_a_deferred_run_outlives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    preflight = scheduling(SqliteStorage(path))
    record = deferred(preflight, measured_data={"amount": {"valid": True, "value": 77}})
    command = [sys.executable, "-c", RESUME, str(path)]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    arguments = {"from_account": "1102534471", "amount": 42, "to_account": ACCOUNT}
    assert json.loads(run.stdout) == [["executed", "held"], [arguments]]
    kept = [one["execution_decision"] for one in SqliteStorage(path).records(KEY)]
    assert kept == ["deferred", "execute", "execute", "executed"]
    counter = Counter()
    assert preflight.execute_if_ready_sync(resumed(preflight, record), TRANSFER, counter).status == "held"
    assert counter.calls == []
