"""What preflight costs: `python bench/bench_preflight.py`.

A look-up of one field, by the source that holds it, as a multiple of a bare look-up in a dictionary. Then a run over
some fields as a multiple of the same, and what one more field adds. No figure is a time: each is the median of many
pairs, one of the thing measured and one of what it is compared with, taken in turn.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from preaction.preflight import MemoryStorage, Segment, create_preflight, lookup_field, lookup_field_sync

INSTRUCTION = [Segment("send 500 to my landlord", trust="user")]
FOUND = {"value": 500, "segment_index": 0, "span": [5, 8]}
ANSWERS = {"amount": 500}
SETTLED = {"amount": {"value": 500, "trust": "user"}}
MEASURED = {"amount": {"value": 500, "valid": True}}
EXECUTED = {
    "execution_decision": "executed",
    "fields": [
        {"name": "amount", "value": 500, "status": "known", "source": "instruction", "origin_source": "instruction"}
    ],
}


def extract(field_name: str, instruction: Any) -> Any:
    return FOUND


def nothing(field_name: str, instruction: Any) -> Any:
    return None


def measure(field_name: str, context: Any) -> Any:
    return MEASURED["amount"]


async def aextract(field_name: str, instruction: Any) -> Any:
    return FOUND


LOOKUPS: dict[str, dict[str, Any]] = {
    "0 user_answer": {"user_answers": ANSWERS},
    "1 instruction": {"instruction": INSTRUCTION, "extract_from_instruction": extract},
    "2 pre_set_data": {"pre_set_data": SETTLED},
    "3 measured_data": {"measure_from_environment": measure},
    "4 prior_state": {"prior_state": EXECUTED},
    "none": {
        "instruction": INSTRUCTION,
        "extract_from_instruction": nothing,
        "measure_from_environment": lambda field_name, context: None,
        "prior_state": EXECUTED | {"fields": []},
    },
}


def bare() -> object:
    return ANSWERS.get("amount")


def seconds(one: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        one()
    return (time.perf_counter() - start) / times


def ratio(one: Callable[[], object], times: int = 50, pairs: int = 60) -> float:
    """How long `one` takes as a multiple of the bare look-up."""
    return statistics.median(seconds(one, times) / seconds(bare, 2000) for _ in range(pairs))


def in_a_loop(times: int = 50, pairs: int = 60, **given: Any) -> float:
    """The same, awaited in one event loop."""

    async def one() -> float:
        start = time.perf_counter()
        for _ in range(times):
            await lookup_field("amount", **given)
        return (time.perf_counter() - start) / times

    async def all_pairs() -> float:
        return statistics.median([await one() / seconds(bare, 2000) for _ in range(pairs)])

    return asyncio.run(all_pairs())


def run_over(count: int) -> Callable[[], object]:
    """A run of a tool with so many required fields, a quarter from each of the first four sources."""
    names = [f"field_{index}" for index in range(count)]
    source = {name: index % 4 for index, name in enumerate(names)}
    preflight = create_preflight(
        hooks={
            "classify_when_case": lambda instruction: "immediate",
            "extract_user_action_name": lambda instruction: "send",
            "confirm_tool_name_matches_intent": lambda user_action_name, tool: {"approved": True},
            "extract_from_instruction": lambda field_name, instruction: FOUND if source[field_name] == 1 else None,
            "measure_from_environment": lambda field_name, context: context["measured_data"].get(field_name),
            "build_action_key": lambda user_id, fixed: user_id,
            "apply_field_policy": lambda record, context: record,
            "validate_field_schema": lambda value, schema, context: None,
        },
        storage=MemoryStorage(10**9),
    )
    given: dict[str, Any] = {
        "user_answers": {name: 500 for name in names if source[name] == 0},
        "pre_set_data": {name: SETTLED["amount"] for name in names if source[name] == 2},
        "measured_data": {name: MEASURED["amount"] for name in names if source[name] == 3},
        "tool": {"name": "send", "inputSchema": {"type": "object", "required": names}},
    }

    def one() -> object:
        state = preflight.run_and_record_sync(user_id="u", instruction=INSTRUCTION, **given)
        assert state.execution_decision == "execute"
        return state

    return one


def main() -> None:
    print(f"{'a bare look-up in a dictionary':48} 1")
    for name, given in LOOKUPS.items():
        looked = ratio(partial(lookup_field_sync, "amount", **given))
        print(f"{'lookup_field_sync, held by ' + name:48} {looked:.0f}")
    print(f"{'lookup_field, held by 0 user_answer':48} {in_a_loop(**LOOKUPS['0 user_answer']):.0f}")
    coroutine = {"instruction": INSTRUCTION, "extract_from_instruction": aextract}
    print(f"{'lookup_field, a coroutine function extracts':48} {in_a_loop(**coroutine):.0f}")
    print(f"{'lookup_field, a plain function in a thread':48} {in_a_loop(**LOOKUPS['1 instruction']):.0f}")
    few, many = ratio(run_over(4), times=5), ratio(run_over(44), times=1)
    print(f"{'run_and_record_sync, 4 fields, all nine hooks':48} {few:.0f}")
    print(f"{'each further field':48} {(many - few) / 40:.0f}")


if __name__ == "__main__":
    main()
