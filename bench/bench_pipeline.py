"""What the tool pipeline costs: `python bench/bench_pipeline.py`.

A valid read with an empty tool, as a multiple of what nobody can leave out: JSON read, schema validated, tool called.
Then the share of each step. No figure is a time; machines are noisy.
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator

from preaction.pipeline import Allowed, Limits, MemoryAudit, ProposedCall, Tool, ToolPipeline, TrustedContext, steps
from preaction.pipeline.schema import validator_of
from preaction.pipeline.work import Parts, Stepping, Work

SCHEMA = {
    "type": "object",
    "properties": {"invoice_id": {"type": "string"}, "part": {"enum": ["head", "lines"]}},
    "required": ["invoice_id"],
    "additionalProperties": False,
}
RAW = '{"invoice_id": "inv_481", "part": "head"}'
CONTEXT = TrustedContext("u_7", "t_1", "req_1", "run_1")
CALL = ProposedCall("call_1", "get_invoice", RAW)
LIMITS = Limits(calls_per_run=100_000_000)


def tool(command: object) -> str:
    return "ok"


READ = {"name": "get_invoice", "run": tool, "input_schema": SCHEMA, "effect": "read"}
HOOKS = {"resolve": lambda *given: {"invoice": 1}, "authorize": lambda *given: Allowed()}
validator = validator_of(SCHEMA, "schema")


def bare() -> None:
    arguments = json.loads(RAW)
    if validator.is_valid(arguments):
        tool(arguments)


def seconds(one: Callable[[], object], times: int = 100, rounds: int = 40) -> float:
    """For one call, in the best of some rounds: what else the machine does only ever adds."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            one()
        found.append((time.perf_counter() - start) / times)
    return min(found)


def handled(pipeline: ToolPipeline) -> Callable[[], object]:
    return lambda: pipeline.handle_sync(CALL, CONTEXT)


async def in_a_loop(pipeline: ToolPipeline, times: int = 50, rounds: int = 40) -> float:
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            await pipeline.handle(CALL, CONTEXT)
        found.append((time.perf_counter() - start) / times)
    return min(found)


def shares(one: Callable[[], object], times: int = 3000) -> dict[str, float]:
    """How much of the whole each step takes, waiting for threads included; the rest is what is around the steps."""
    took = dict.fromkeys([f"{step.number:2} {step.name}" for step in steps.STEPS], 0.0)

    def timed(step: steps.Step) -> steps.Step:
        def take(work: Work, parts: Parts) -> Stepping:
            start = time.perf_counter()
            ended = step.take(work, parts)
            if isinstance(ended, Generator):
                ended = yield from ended
            took[f"{step.number:2} {step.name}"] += time.perf_counter() - start
            return ended

        return steps.Step(step.number, step.name, take)

    whole, steps.STEPS = steps.STEPS, tuple(map(timed, steps.STEPS))  # type: ignore[misc]
    start = time.perf_counter()
    for _ in range(times):
        one()
    total = time.perf_counter() - start
    steps.STEPS = whole  # type: ignore[misc]
    return {name: seconds / total for name, seconds in {**took, "around them": total - sum(took.values())}.items()}


def main() -> None:
    plain = ToolPipeline([Tool(**READ)], limits=LIMITS)
    hooked = ToolPipeline([Tool(**READ, **HOOKS)], limits=LIMITS, audit=MemoryAudit(max_records=100_000_000))
    base = seconds(bare)
    print(f"{'bare: JSON, schema, tool':44} 1")
    print(f"{'handle_sync':44} {seconds(handled(plain)) / base:.0f}")
    print(f"{'handle_sync, with two hooks and a record':44} {seconds(handled(hooked)) / base:.0f}")
    print(f"{'handle':44} {asyncio.run(in_a_loop(plain)) / base:.0f}")
    print(f"{'handle, with two hooks and a record':44} {asyncio.run(in_a_loop(hooked)) / base:.0f}")
    print("\nshare of handle_sync:")
    for name, share in shares(handled(plain)).items():
        print(f"{name:48} {share:4.0%}")


if __name__ == "__main__":
    main()
