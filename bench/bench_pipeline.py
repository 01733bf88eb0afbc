"""What the tool pipeline costs, as multiples of what nobody can leave out: JSON read, schema validated, tool called.

`python bench/bench_pipeline.py`, and part of `make bench`. No figure is a time. Machines are noisy, and whatever else
they do only adds: a figure is of the fastest hundredth, in that of what was measured beside it, call by call.
"""

import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from bench_stores import redis

from preaction.pipeline import (
    Allowed,
    Limits,
    MemoryAudit,
    NotVisible,
    Outcome,
    ProposedCall,
    Tool,
    ToolPipeline,
    TrustedContext,
    steps,
)
from preaction.pipeline.outcome import Ending
from preaction.pipeline.schema import validator_of
from preaction.pipeline.work import Parts, Stepping, Work
from preaction.stores import Store
from preaction.stores.memory import MemoryStore
from preaction.stores.redis import RedisStore
from preaction.stores.sqlite import SQLiteStore

SCHEMA = {
    "type": "object",
    "properties": {"invoice_id": {"type": "string"}, "status": {"enum": ["approved", "rejected"]}},
    "required": ["invoice_id", "status"],
    "additionalProperties": False,
}
RAW = '{"invoice_id": "inv_481", "status": "approved"}'
LIMITS = Limits(calls_per_run=100_000_000)
VALIDATOR = validator_of(SCHEMA, "schema")
NUMBERS = count()
clock = time.perf_counter


def bare() -> None:
    """What is left of a call without a pipeline."""
    arguments = json.loads(RAW)
    if VALIDATOR.is_valid(arguments):
        act(arguments)


def act(command: object) -> str:
    return "ok"


async def aact(command: object) -> str:
    return "ok"


def find(arguments: object, context: object) -> dict[str, int]:
    return {"invoice": 1}


async def afind(arguments: object, context: object) -> dict[str, int]:
    return {"invoice": 1}


def may(*given: object) -> Allowed:
    return Allowed()


async def amay(*given: object) -> Allowed:
    return Allowed()


FUNCTIONS = {"run": act, "resolve": find, "authorize": may}
COROUTINES = {"run": aact, "resolve": afind, "authorize": amay}


def pipeline_over(store: Store, effect: Any, hooks: dict[str, Any]) -> ToolPipeline:
    """A tool with two hooks, and a record of each call."""
    tool = Tool(name="invoice", input_schema=SCHEMA, effect=effect, **hooks)
    return ToolPipeline([tool], store=store, limits=LIMITS, audit=MemoryAudit(max_records=100_000_000))


def proposed() -> tuple[ProposedCall, TrustedContext]:
    """A call that was never made before, so that a write is a write."""
    number = next(NUMBERS)
    return ProposedCall("call_1", "invoice", RAW), TrustedContext("u_7", "t_1", f"req_{number}", f"run_{number % 100}")


class Beside:
    """Multiples of `bare`, which is timed after each call that is timed."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self.bare: list[float] = []

    def call(self, start: float, outcome: Outcome) -> None:
        """A call that began at `start` is over."""
        self.took.append(clock() - start)
        assert outcome.disposition == "execute", outcome.code
        start = clock()
        for _ in range(10):
            bare()
        self.bare.append((clock() - start) / 10)

    def multiple(self, took: list[float] | None = None) -> float:
        return fast(self.took if took is None else took) / fast(self.bare)


def fast(took: list[float]) -> float:
    """What the fastest hundredth stays below."""
    return sorted(took)[len(took) // 100]


def in_a_thread(pipeline: ToolPipeline, times: int) -> Beside:
    beside = Beside()
    for _ in range(times):
        given = proposed()
        start = clock()
        beside.call(start, pipeline.handle_sync(*given))
    return beside


def in_a_loop(pipeline: ToolPipeline, times: int) -> Beside:
    async def calls() -> Beside:
        beside = Beside()
        for _ in range(times):
            given = proposed()
            start = clock()
            beside.call(start, await pipeline.handle(*given))
        for store in STORES:
            if isinstance(store, RedisStore):
                await store.aclose()
        return beside

    return asyncio.run(calls())


STORES: list[Store] = []
WAYS: dict[str, tuple[Callable[[ToolPipeline, int], Beside], dict[str, Any]]] = {
    "handle_sync": (in_a_thread, FUNCTIONS),
    "handle": (in_a_loop, FUNCTIONS),
    "handle, all async": (in_a_loop, COROUTINES),
}


@contextmanager
def stores() -> Iterator[dict[str, Store]]:
    """One of each kind."""
    with tempfile.TemporaryDirectory() as folder, redis("everysec") as there:
        file = SQLiteStore(Path(folder, "store.db"))
        STORES[:] = [MemoryStore(max_texts=100_000_000), file, there]
        yield dict(zip(("memory", "SQLite", "Valkey"), STORES, strict=True))
        file.close()


def by_store(times: int) -> None:
    """A read and a write, each way, over each store."""
    print("\nThe pipeline: a call with two hooks and a record, in bare calls (JSON, schema, tool)")
    print(f"  {'':24}" + "".join(f"{way:>20}" for way in WAYS))
    with stores() as kept:
        for name, store in kept.items():
            for effect in ("read", "write"):
                found = [call(pipeline_over(store, effect, hooks), times).multiple() for call, hooks in WAYS.values()]
                print(f"  {f'{effect}, {name}':24}" + "".join(f"{one:20.0f}" for one in found), flush=True)


def by_step(times: int) -> None:
    """A write over memory, step by step; a step's share of waiting for threads is in it."""
    print("\nThe pipeline, step by step: a write over memory, in bare calls")
    columns: dict[str, list[float]] = {}
    for call, hooks in WAYS.values():
        with timed() as took:
            beside = call(pipeline_over(MemoryStore(), "write", hooks), times)
        whole = beside.multiple()
        rows = {name: beside.multiple(found) for name, found in took.items()}
        for name, one in {**rows, "11 record, and what is around": whole - sum(rows.values()), "": whole}.items():
            columns.setdefault(name, []).append(one)
    print(f"  {'':52}" + "".join(f"{way:>20}" for way in WAYS))
    for name, found in columns.items():
        print(f"  {name or 'the whole':52}" + "".join(f"{one:20.0f}" for one in found), flush=True)


@contextmanager
def timed() -> Iterator[dict[str, list[float]]]:
    """How long each step took, each time."""
    took: dict[str, list[float]] = {f"{step.number:2} {step.name}": [] for step in steps.STEPS}

    def watched(step: steps.Step) -> steps.Step:
        def take(work: Work, parts: Parts) -> Stepping:
            start = clock()
            ended = step.take(work, parts)
            if ended is not None and not isinstance(ended, Ending):
                ended = yield from ended
            took[f"{step.number:2} {step.name}"].append(clock() - start)
            return ended

        return steps.Step(step.number, step.name, take)

    whole, steps.STEPS = steps.STEPS, tuple(map(watched, steps.STEPS))  # type: ignore[misc]
    try:
        yield took
    finally:
        steps.STEPS = whole  # type: ignore[misc]


def no_oracle(times: int) -> None:
    """P5: whether time tells an object that isn't there from one of another tenant, found by one query for both."""
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE invoices (id TEXT PRIMARY KEY, tenant TEXT)")
    database.executemany("INSERT INTO invoices VALUES (?, 't_2')", [(f"inv_{number}",) for number in range(10_000)])

    def look(arguments: dict[str, Any], context: TrustedContext) -> Any:
        query = "SELECT id FROM invoices WHERE id = ? AND tenant = ?"
        row = database.execute(query, (arguments["invoice_id"], context.tenant)).fetchone()
        return NotVisible() if row is None else {"invoice": row[0]}

    pipeline = pipeline_over(MemoryStore(), "write", {**FUNCTIONS, "resolve": look})
    took: dict[str, list[float]] = {"inv_481": [], "inv_none": []}
    for number in range(times):
        for invoice, found in sorted(took.items(), reverse=number % 2 == 0):
            _, context = proposed()
            call = ProposedCall("call_1", "invoice", {"invoice_id": invoice, "status": "approved"})
            start = clock()
            outcome = pipeline.handle_sync(call, context)
            found.append(clock() - start)
            assert outcome.code == "not_visible"
    foreign, missing = (statistics.median(found) for found in took.values())
    print("\nThe pipeline: a denial for another tenant's object, in one for an object that isn't there")
    print(f"  {foreign / missing:.2f}", flush=True)


def pipeline(times: int) -> None:
    """All of it."""
    by_store(times)
    by_step(times)
    no_oracle(times)


if __name__ == "__main__":
    pipeline(300)
