"""What preflight costs: `python bench/bench_preflight.py`.

A look-up of one field, by the source that holds it, as a multiple of a bare look-up in a dictionary. Then a run over
some fields as a multiple of the same, and what one more field adds. No figure is a time; machines are noisy.
"""

import asyncio
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


def seconds(one: Callable[[], object], times: int = 10, rounds: int = 400) -> float:
    """For one call, in the best of some rounds: what else the machine does only ever adds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            one()
        found.append((time.perf_counter() - start) / times)
    return min(found)


async def in_a_loop(times: int = 10, rounds: int = 400, **given: Any) -> float:
    """The same for a look-up that is awaited."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            await lookup_field("amount", **given)
        found.append((time.perf_counter() - start) / times)
    return min(found)


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
    base = seconds(bare, times=1000)
    coroutine = {"instruction": INSTRUCTION, "extract_from_instruction": aextract}
    few, many = seconds(run_over(4), times=1), seconds(run_over(44), times=1)
    figures = {
        f"lookup_field_sync, held by {name}": seconds(partial(lookup_field_sync, "amount", **given))
        for name, given in LOOKUPS.items()
    }
    figures |= {
        "lookup_field, held by 0 user_answer": asyncio.run(in_a_loop(**LOOKUPS["0 user_answer"])),
        "lookup_field, a coroutine function extracts": asyncio.run(in_a_loop(**coroutine)),
        "lookup_field, a plain function in a thread": asyncio.run(in_a_loop(**LOOKUPS["1 instruction"])),
        "run_and_record_sync, 4 fields, all hooks": few,
        "each further field": (many - few) / 40,
    }
    print(f"{'a bare look-up in a dictionary':48} 1")
    for name, found in figures.items():
        print(f"{name:48} {found / base:.0f}")


if __name__ == "__main__":
    main()
