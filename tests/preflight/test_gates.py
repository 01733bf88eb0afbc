"""F2–F4: the first gate. Nothing but an explicit yes passes it, and nothing of the provider's is read before."""

from typing import Any

import pytest

from preaction.errors import MisuseError
from preaction.preflight import State
from preflight.bank import TRANSFER, Bank, failing

CANDIDATE = {**TRANSFER, "name": "records.delete_all"}


class Odd(dict[str, Any]):
    def get(self, *given: Any) -> Any:
        raise RuntimeError("SECRET")

    items = get


def nothing_was_decided(state: State, kind: str, decision: str = "ask_user") -> None:
    """The seed's shape of a run that ended before any field."""
    record = state.to_json()
    assert (record["execution_decision"], record["gate"]["kind"]) == (decision, kind)
    assert [record[key] for key in ("fields", "unknown_count", "unverified_checklist_count", "user_checklist")] == [
        None
    ] * 4
    assert record["advisory_notes"] == ""
    assert set(record["gate"]) == {"kind", "user_message", "_diag"}
    assert set(record["gate"]["_diag"]) == {"candidate_tool", "user_action", "reason"}
    assert record["reason"].startswith(f"{decision}: {kind.replace('_', ' ')} (")
    assert "SECRET" not in str(record)
    assert "records.delete_all" not in record["gate"]["user_message"]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "approved",
        {},
        {"approved": None},
        {"approved": False, "reason": "no"},
        {"approved": 1},
        {"approved": "true"},
        {"approved": [True]},
        {"Approved": True},
        {"reason": "approved"},
        [("approved", True)],
        Odd(approved=True),
        {"approved": True, "at": object()},
    ],
)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_f2_only_an_explicit_true_passes(answer: Any, way: str) -> None:
    bank = Bank(way, confirm_tool_name_matches_intent=lambda user_action_name, tool: answer)
    nothing_was_decided(bank.ready(tool=CANDIDATE), "tool_undetermined")


@pytest.mark.parametrize("error", [ValueError("SECRET"), StopIteration("SECRET"), SystemExit("SECRET")])
@pytest.mark.parametrize("way", ["sync", "async"])
def test_f2_nor_does_a_hook_that_raises(error: BaseException, way: str) -> None:
    def confirm(user_action_name: str, tool: Any) -> Any:
        raise error

    state = Bank(way, confirm_tool_name_matches_intent=confirm).ready(tool=CANDIDATE)
    nothing_was_decided(state, "tool_undetermined")
    assert state.reason == "ask_user: tool undetermined (it could not be confirmed)"


def test_f2_the_candidate_and_the_reason_are_in_the_diagnosis_alone() -> None:
    bank = Bank(confirm_tool_name_matches_intent=lambda user_action_name, tool: {"approved": False, "reason": "a  b"})
    gate = bank.ready(tool=CANDIDATE).gate
    assert gate is not None
    assert gate["_diag"] == {
        "candidate_tool": "records.delete_all",
        "user_action": "send money to my landlord",
        "reason": "a b",
    }
    assert gate["user_message"] == ("It is not clear yet which tool does what you want. Please say it in other words.")


@pytest.mark.parametrize("reason", [None, 7, "", "  ", "\ud800", ["no"]])
def test_f2_a_denial_without_words_is_one_all_the_same(reason: Any) -> None:
    bank = Bank(confirm_tool_name_matches_intent=lambda user_action_name, tool: {"approved": False, "reason": reason})
    nothing_was_decided(bank.ready(tool=CANDIDATE), "tool_undetermined")


@pytest.mark.parametrize(
    ("asks", "decision"), [(0, "ask_user"), (1, "ask_user"), (2, "hold"), (3, "hold"), (99, "hold")]
)
def test_f2_after_two_asks_it_holds_by_the_caller_s_count(asks: int, decision: str) -> None:
    bank = Bank(confirm_tool_name_matches_intent=lambda user_action_name, tool: {"approved": False})
    for _ in range(3):  # the storage isn't consulted
        nothing_was_decided(bank.ready(tool=CANDIDATE, tool_attempt=asks), "tool_undetermined", decision)


@pytest.mark.parametrize(
    "tool", [None, {}, {"name": None}, {"name": ""}, {"name": " "}, {"name": 7}, "bank.transfer", Odd()]
)
def test_f2_no_tool_is_undetermined_too(tool: Any) -> None:
    state = Bank().ready(tool=tool)
    nothing_was_decided(state, "tool_undetermined")
    assert state.fixed["c3_provider_action_name"] is None


@pytest.mark.parametrize(
    "case", [None, "", "now", "Immediate", "immediate ", ["immediate"], 0, True, {"c1": "immediate"}]
)
def test_f3_a_case_that_is_none_of_the_four_asks(case: Any) -> None:
    state = Bank(classify_when_case=lambda instruction: case).ready()
    nothing_was_decided(state, "intent_undetermined")
    assert (state.phase, state.fixed["c1_when_case"], state.action_key) == (None, None, None)


@pytest.mark.parametrize("name", [None, "", " \n", 7, ["send"], "\ud800"])
def test_f3_an_action_without_a_name_asks(name: Any) -> None:
    nothing_was_decided(Bank(extract_user_action_name=lambda instruction: name).ready(), "intent_undetermined")


@pytest.mark.parametrize("hook", ["classify_when_case", "extract_user_action_name"])
@pytest.mark.parametrize(("asks", "decision"), [(0, "ask_user"), (1, "ask_user"), (2, "hold"), (7, "hold")])
def test_f3_a_hook_that_raises_asks_twice_and_then_holds(hook: str, asks: int, decision: str) -> None:
    state = Bank(**{hook: failing}).ready(intent_attempt=asks)
    nothing_was_decided(state, "intent_undetermined", decision)


def test_f3_one_count_is_not_the_other() -> None:
    no_tool = Bank(confirm_tool_name_matches_intent=failing).ready(intent_attempt=2)
    no_case = Bank(classify_when_case=failing).ready(tool_attempt=2)
    assert (no_tool.execution_decision, no_case.execution_decision) == ("ask_user", "ask_user")


@pytest.mark.parametrize("key", [None, "", " ", 7, "\ud800", "__preflight_unkeyed__", ["k"]])
def test_f13_without_an_action_key_it_holds(key: Any) -> None:
    bank = Bank(build_action_key=lambda user_id, fixed: key)
    nothing_was_decided(bank.ready(), "action_key_undetermined", "hold")
    assert [one["action_key"] for one in bank.storage.records("__preflight_unkeyed__")] == [None]


def test_f13_a_key_hook_that_raises_holds_or_alters_its_copy_in_vain() -> None:
    nothing_was_decided(Bank(build_action_key=failing).ready(), "action_key_undetermined", "hold")

    def altering(user_id: str, fixed: dict[str, Any]) -> str:
        fixed["c3_provider_action_name"] = "records.delete_all"
        return user_id

    assert Bank(build_action_key=altering).ready().fixed["c3_provider_action_name"] == "bank.transfer"


class Watched(dict[str, Any]):
    """A tool that notes which of its keys are read."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.read: list[str] = []

    def get(self, key: str, default: Any = None) -> Any:
        self.read.append(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.read.append(key)
        return super().__getitem__(key)

    def __iter__(self) -> Any:
        self.read.append("all")
        return super().__iter__()

    def items(self) -> Any:
        self.read.append("all")
        return super().items()


@pytest.mark.parametrize(
    "changes",
    [
        {"classify_when_case": failing},
        {"extract_user_action_name": failing},
        {"build_action_key": failing},
        {"confirm_tool_name_matches_intent": failing},
        {"confirm_tool_name_matches_intent": lambda user_action_name, tool: None},
    ],
)
def test_f4_before_gate_1_has_passed_nothing_is_read_but_the_name(changes: dict[str, Any]) -> None:
    tool = Watched(TRANSFER)
    Bank(**changes).ready(tool=tool)
    assert set(tool.read) == {"name"}


def test_f4_then_it_is_read() -> None:
    tool = Watched(TRANSFER)
    state = Bank().ready(tool=tool)
    assert {"name", "inputSchema", "description"} <= set(tool.read)
    assert state.advisory_notes == TRANSFER["description"]


@pytest.mark.parametrize(
    "changes",
    [
        {"inputSchema": None},
        {"inputSchema": {}},
        {"inputSchema": "object"},
        {"inputSchema": {"type": "array"}},
        {"inputSchema": {"required": "amount"}},
    ],
)
def test_f4_without_an_input_schema_the_tool_is_undetermined(changes: dict[str, Any]) -> None:
    nothing_was_decided(Bank().ready(tool={**TRANSFER, **changes}), "tool_undetermined")
    nothing_was_decided(Bank().ready(tool={**TRANSFER, **changes}, tool_attempt=2), "tool_undetermined", "hold")


def test_f4_a_tool_that_is_swapped_while_it_is_confirmed_is_undetermined() -> None:
    tool = dict(CANDIDATE, name="records.list")

    def confirm(user_action_name: str, tool: dict[str, Any]) -> dict[str, Any]:
        tool["name"] = "records.delete_all"
        return {"approved": True}

    state = Bank(confirm_tool_name_matches_intent=confirm).ready(tool=tool)
    assert state.reason == "ask_user: tool undetermined (it changed its name while it was confirmed)"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"user_id": ""}, "user_id"),
        ({"user_id": None}, "user_id"),
        ({"tool_attempt": -1}, "tool_attempt"),
        ({"tool_attempt": True}, "tool_attempt"),
        ({"intent_attempt": "1"}, "intent_attempt"),
        ({"user_answers": ["to_account"]}, "user_answers"),
        ({"pre_set_data": "from_account"}, "pre_set_data"),
        ({"measured_data": {1: 2}}, "measured_data"),
        ({"checklist_answers": 7}, "checklist_answers"),
    ],
)
def test_what_no_caller_can_mean_is_an_error_that_names_it_and_records_nothing(changes: Any, place: str) -> None:
    bank = Bank()
    with pytest.raises(MisuseError, match=f"^{place}: "):
        bank.run(**changes)
    assert bank.storage.records() == []
