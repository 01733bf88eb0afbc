"""F1: what a preflight is made of is checked when it is made."""

import asyncio
from typing import Any

import pytest

from preaction.errors import ConfigurationError
from preaction.preflight import MemoryStorage, create_preflight
from preaction.preflight.hooks import DEFAULTS, accept_any_schema
from preflight.bank import Bank, hooks

REQUIRED = (
    "classify_when_case",
    "extract_user_action_name",
    "confirm_tool_name_matches_intent",
    "extract_from_instruction",
    "measure_from_environment",
    "build_action_key",
)
OPTIONAL = ("apply_field_policy", "validate_field_schema", "verify_user_checklist_item")


@pytest.mark.parametrize("name", REQUIRED)
def test_f1_each_of_the_six_is_required(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^hooks\.{name}: it is missing$"):
        create_preflight(hooks=hooks(**{name: None}), storage=MemoryStorage())


@pytest.mark.parametrize("name", OPTIONAL)
def test_f1_the_other_three_have_defaults_that_verify_nothing_and_strict_takes_none(name: str) -> None:
    preflight = create_preflight(hooks=hooks(**{name: None}), storage=MemoryStorage())
    assert preflight.unsafe_defaults == (name,)
    for without in (hooks(**{name: None}), hooks(**{name: DEFAULTS[name]})):
        with pytest.raises(ConfigurationError, match=rf"^hooks\.{name}: "):
            create_preflight(hooks=without, storage=MemoryStorage(), strict=True)
    assert create_preflight(hooks=hooks(), storage=MemoryStorage(), strict=True).unsafe_defaults == ()


@pytest.mark.parametrize("name", [*REQUIRED, *OPTIONAL])
@pytest.mark.parametrize("value", [None, "a name", {"approved": True}, 7])
def test_f1_what_is_no_function_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^hooks\.{name}: a function is needed, not "):
        create_preflight(hooks={**hooks(), name: value}, storage=MemoryStorage())


@pytest.mark.parametrize("name", ["classifyWhenCase", "Classify_when_case", "", 7])
def test_f1_an_unknown_hook_is_named(name: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^hooks\.{name}: there is no such hook; there are classify_when"):
        create_preflight(hooks={**hooks(), name: print}, storage=MemoryStorage())


@pytest.mark.parametrize("given", [None, [], [("classify_when_case", print)], "hooks"])
def test_f1_hooks_are_a_mapping(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^hooks: a mapping from names to functions is needed"):
        create_preflight(hooks=given, storage=MemoryStorage())


@pytest.mark.parametrize("storage", [None, object(), MemoryStorage, {"persist": print, "load": print}])
def test_f1_a_storage_is_needed(storage: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^storage: an object with persist and load is needed"):
        create_preflight(hooks=hooks(), storage=storage)
    with pytest.raises(ConfigurationError, match=r"^storage: "):
        create_preflight(hooks=hooks())


@pytest.mark.parametrize("secret", ["secret", b"", 7])
def test_f1_a_secret_is_bytes(secret: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^secret: "):
        create_preflight(hooks=hooks(), storage=MemoryStorage(), secret=secret)


def test_f1_a_clock_has_a_zone() -> None:
    with pytest.raises(ConfigurationError, match=r"^clock: "):
        create_preflight(hooks=hooks(), storage=MemoryStorage(), clock=lambda: Bank().clock().replace(tzinfo=None))


@pytest.mark.parametrize("way", ["sync", "async", "mixed"])
def test_f1_hooks_may_be_sync_or_async_and_runs_too(way: str) -> None:
    state = Bank(way).ready()
    assert (state.execution_decision, state.to_json()) == ("execute", Bank("sync").ready().to_json())


async def test_f1_coroutine_functions_run_from_a_thread_beside_a_loop() -> None:
    bank = Bank("async")
    given: dict[str, Any] = {"user_id": "u_01", "instruction": [], "tool": None}
    assert bank.preflight.run_and_record_sync(**given).execution_decision == "ask_user"
    assert (await bank.preflight.run_and_record(**given)).execution_decision == "ask_user"


def test_f1_each_hook_gets_what_the_design_says_and_nothing_else() -> None:
    seen: dict[str, set[str]] = {}

    def watching(name: str, hook: Any) -> Any:
        def watched(**given: Any) -> Any:
            seen[name] = set(given)
            return hook(**given)

        return watched

    bank = Bank(**{name: watching(name, hook) for name, hook in hooks().items()})
    bank.run()
    assert seen == {
        "classify_when_case": {"instruction"},
        "extract_user_action_name": {"instruction"},
        "confirm_tool_name_matches_intent": {"user_action_name", "tool"},
        "extract_from_instruction": {"field_name", "instruction"},
        "measure_from_environment": {"field_name", "context"},
        "build_action_key": {"user_id", "fixed"},
        "apply_field_policy": {"record", "context"},
        "validate_field_schema": {"value", "schema", "context"},
        "verify_user_checklist_item": {"item", "context"},
    }


def test_f1_the_context_says_what_the_run_is_about() -> None:
    seen: list[dict[str, Any]] = []

    def policy(record: Any, context: Any) -> Any:
        seen.append(context)
        return record

    bank = Bank(apply_field_policy=policy)
    bank.ready(measured_data={"balance": {"valid": True, "value": 9}}, checklist_answers={"chk_limit": "yes"})
    assert seen[0] == {
        "phase": "at_trigger",
        "instruction": seen[0]["instruction"],
        "user_answers": {"to_account": "9988776655"},
        "pre_set_data": {"from_account": {"value": "1102534471", "trust": "user"}},
        "measured_data": {"balance": {"valid": True, "value": 9}},
        "prior_state": None,
        "checklist_answers": {"chk_limit": "yes"},
    }
    assert [segment.trust for segment in seen[0]["instruction"]] == ["user", "untrusted"]


def test_f1_the_defaults_verify_nothing() -> None:
    bank = Bank(**dict.fromkeys(OPTIONAL))
    assert bank.preflight.unsafe_defaults == OPTIONAL
    state = bank.ready(tool={"name": "t", "inputSchema": {"required": ["amount"]}})
    assert (state.execution_decision, state.unknown_count, state.unverified_checklist_count) == ("ask_user", 0, 1)
    assert bank.ready(user_checklist=[]).execution_decision == "execute"
    assert accept_any_schema(7, {"type": "string"}, {}) is None


def test_a_cancelled_run_leaves_as_it_came_and_records_nothing() -> None:
    async def endless(instruction: Any) -> str:
        await asyncio.Event().wait()
        return "immediate"

    async def cancelled() -> None:
        bank = Bank("mixed", classify_when_case=endless)
        task = asyncio.create_task(bank.preflight.run_and_record(user_id="u", instruction=[], tool=None))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bank.storage.records() == []

    asyncio.run(cancelled())
