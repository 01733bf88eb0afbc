"""F10: the user's conditions have a stable id, say nothing of themselves, and are looked at right before the call."""

from typing import Any

import pytest

from preflight.bank import CHECKLIST, Bank, failing, hooks, verified

LIMIT = CHECKLIST[0]


class Unreadable(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("SECRET")


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ([{"description": "no id"}], "user_checklist[0].id: a stable id is needed"),
        ([LIMIT, {"id": None}], "user_checklist[1].id: a stable id is needed"),
        ([{"id": ""}], "user_checklist[0].id: a stable id is needed"),
        ([{"id": " "}], "user_checklist[0].id: a stable id is needed"),
        ([{"id": 7}], "user_checklist[0].id: a stable id is needed"),
        ([{"id": ["chk"]}], "user_checklist[0].id: a stable id is needed"),
        ([LIMIT, dict(LIMIT)], "user_checklist[1].id: it stands there twice"),
        (["chk_limit"], "user_checklist[0]: a mapping is needed, not str"),
        ([Unreadable(id="chk")], "user_checklist[0]: it could not be read"),
        (
            [{"id": "chk", "check": print}],
            'user_checklist[0]: a value of type builtin_function_or_method is not JSON (in "check")',
        ),
        ("chk_limit", "user_checklist: a list is needed, not str"),
        ({"id": "chk_limit"}, "user_checklist: a list is needed, not dict"),
    ],
)
def test_f10_without_stable_ids_it_holds_before_anything_is_asked(items: Any, why: str) -> None:
    bank = Bank(**dict.fromkeys(hooks(), failing))
    state = bank.ready(user_checklist=items)
    assert (state.execution_decision, state.reason) == ("hold", f"hold: checklist unusable ({why})")
    assert (state.fields, state.user_checklist, state.unknown_count, state.unverified_checklist_count) == (None,) * 4
    assert (state.gate or {})["kind"] == "checklist_unusable"
    assert len(bank.storage.records("__preflight_unkeyed__")) == 1


def test_f10_what_an_item_says_of_itself_is_stripped_before_the_hook_sees_it() -> None:
    seen: list[Any] = []

    def look(item: dict[str, Any], context: Any) -> Any:
        seen.append(dict(item))
        item["id"] = "another"
        return item

    marked = {**LIMIT, "status": "verified", "source": "measured_data"}
    state = Bank(verify_user_checklist_item=look).ready(user_checklist=[marked])
    assert seen == [LIMIT]
    assert state.user_checklist == [{**LIMIT, "status": "unverified", "source": None}]
    assert marked["status"] == "verified"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "verified",
        {},
        {"status": None},
        {"status": True},
        {"status": "Verified"},
        {"status": "unverified"},
        {"status": "verified", "id": "another"},
        {"status": "verified", "at": object()},
    ],
)
def test_f10_what_the_hook_did_not_confirm_is_unverified(answer: Any) -> None:
    state = Bank(verify_user_checklist_item=lambda item, context: answer).ready()
    assert (state.execution_decision, state.unverified_checklist_count) == ("ask_user", 1)
    assert state.user_checklist == [{**LIMIT, "status": "unverified", "source": None}]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_f10_nor_is_what_it_could_not_check(way: str) -> None:
    state = Bank(way, verify_user_checklist_item=failing).ready()
    assert (state.gate or {})["unverified_checklist"] == [{"id": "chk_limit", "note": "it could not be checked"}]
    assert "SECRET" not in str(state.to_json())


def test_f10_the_hook_s_note_is_for_the_user() -> None:
    note = "over \u202e the\n\x1b limit"
    state = Bank(verify_user_checklist_item=lambda item, context: {**item, "note": note}).ready()
    assert (state.gate or {})["unverified_checklist"] == [{"id": "chk_limit", "note": "over the limit"}]


@pytest.mark.parametrize(("source", "kept"), [("measured_data", "measured_data"), (7, None), (None, None)])
def test_f10_an_item_is_recorded_as_it_was_given_with_what_the_hook_said(source: Any, kept: str | None) -> None:
    def look(item: dict[str, Any], context: Any) -> Any:
        return {"id": item["id"], "description": "another", "more": 1, "status": "verified", "source": source}

    state = Bank(verify_user_checklist_item=look).ready(user_checklist=[{**LIMIT, "limit": [5]}])
    assert state.user_checklist == [{**LIMIT, "limit": [5], "status": "verified", "source": kept}]
    assert state.execution_decision == "execute"


def test_f10_an_answer_that_names_no_item_is_the_asked_one_s() -> None:
    assert Bank(verify_user_checklist_item=lambda item, context: {"status": "verified"}).ready().gate is None


def test_f10_every_item_is_asked_by_itself() -> None:
    items = [{"id": "a"}, {"id": "b"}, {"id": "c"}]

    def look(item: dict[str, Any], context: Any) -> Any:
        return failing() if item["id"] == "b" else verified(item, context)

    state = Bank(verify_user_checklist_item=look).ready(user_checklist=items)
    assert [one["status"] for one in state.user_checklist or ()] == ["verified", "unverified", "verified"]
    assert state.unverified_checklist_count == 1


@pytest.mark.parametrize("items", [None, [], ()])
def test_f10_no_items_are_none_unverified(items: Any) -> None:
    state = Bank().ready(user_checklist=items)
    assert (state.user_checklist, state.unverified_checklist_count, state.execution_decision) == ([], 0, "execute")


def test_f10_answers_about_items_reach_the_hook() -> None:
    def look(item: dict[str, Any], context: dict[str, Any]) -> Any:
        return {**item, "status": "verified" if context["checklist_answers"].get(item["id"]) == "yes" else "no"}

    bank = Bank(verify_user_checklist_item=look)
    assert bank.ready().execution_decision == "ask_user"
    assert bank.ready(checklist_answers={"chk_limit": "yes"}).execution_decision == "execute"


def test_f10_nothing_is_verified_at_instruction_time() -> None:
    bank = Bank(classify_when_case=lambda instruction: "scheduled", verify_user_checklist_item=failing)
    state = bank.ready()
    assert state.execution_decision == "deferred"
    assert state.user_checklist == [{**LIMIT, "status": "unverified", "source": None}]
    assert state.unverified_checklist_count is None
