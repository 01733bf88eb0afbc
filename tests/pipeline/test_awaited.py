"""P8 and P9 in an event loop over a real Redis that is awaited: cancelled or cut off anywhere, an act happens once."""

import asyncio
import json
from typing import Any

import pytest

from pipeline.office import LARGE, READ, WRITE, Office
from preaction.errors import MisuseError, StoreUnavailable
from preaction.pipeline import Command, ConfirmationError
from preaction.stores.redis import RedisStore
from redis_server import RedisServer
from stores.between import between

CODES = {"executed", "replayed", "in_progress", "outcome_unknown"}


class OnlyAwaited(RedisStore):
    """From a thread it can't be asked: what a pipeline does then is what it does by awaiting."""

    def _ask(self, question: Any) -> Any:
        if question.script != "MARK":
            raise AssertionError("asked from a thread")
        return super()._ask(question)


async def test_p08_all_that_a_pipeline_asks_of_the_store_is_awaited(redis_server: RedisServer) -> None:
    store = OnlyAwaited(redis_server.url, prefix="only-awaited", timeout_s=30)
    office = Office(store=store)
    asked = await office.apropose("approve_invoice", LARGE)
    assert asked.confirmation is not None
    await office.pipeline.confirmations.aapprove(asked.confirmation.id, by="u_9")
    with pytest.raises(ConfirmationError, match="given or used already"):
        await office.pipeline.confirmations.aapprove(asked.confirmation.id, by="u_9")
    codes = [(await office.apropose("approve_invoice", LARGE, call_id=str(number))).code for number in range(2)]
    assert codes == ["executed", "replayed"]
    assert (await office.apropose("get_invoice", READ)).code == "executed"
    assert (await office.apropose("get_invoice", "{")).code == "invalid_json"
    with pytest.raises(MisuseError, match="no act of unknown outcome"):
        await office.pipeline.acts.asettle("k", tenant="t_1", tool="approve_invoice", done=True)
    await store.aclose()
    store.close()


async def test_p09_what_is_held_is_settled_from_a_loop(redis_server: RedisServer) -> None:
    def run(command: Command) -> Any:
        raise ConnectionError

    store = RedisStore(redis_server.url, prefix="settled-from-a-loop", timeout_s=30)
    office = Office(store=store, tools={"approve_invoice": {"run": run}})
    held = await office.apropose("approve_invoice", WRITE)
    assert held.code == "outcome_unknown"
    assert held.idempotency_key is not None
    who = {"tenant": "t_1", "tool": "approve_invoice"}
    await office.pipeline.acts.asettle(held.idempotency_key, done=True, result={"id": "inv_481"}, **who)
    again = await office.apropose("approve_invoice", WRITE)
    assert (again.code, again.result) == ("replayed", {"id": "inv_481"})
    await store.aclose()
    store.close()


class Counted:
    """An office whose write has no hook that blocks, and that says how often each request acted."""

    def __init__(self, store: RedisStore) -> None:
        self.acts: dict[str, int] = {}
        hooks = dict.fromkeys(["resolve", "authorize", "object_ids", "operation_id", "summary"])
        self.office = Office(
            store=store, audit=None, tools={"approve_invoice": {**hooks, "confirm": False, "run": self.run}}
        )

    async def run(self, command: Command) -> Any:
        request = command.context.request_id
        self.acts[request] = self.acts.get(request, 0) + 1
        await asyncio.sleep(0)
        return {"id": command.arguments["invoice_id"], "status": command.arguments["status"]}

    async def write(self, request: str) -> str:
        return str((await self.office.apropose("approve_invoice", WRITE, request_id=request, run_id=request)).code)


async def test_p09_wherever_it_is_cancelled_an_act_happens_once_at_most(redis_server: RedisServer) -> None:
    """Between any two steps of the loop that a call takes, or may take, a cancellation comes."""
    store = RedisStore(redis_server.url, prefix="wherever-cancelled", timeout_s=30)
    counted = Counted(store)
    assert await counted.write("warm") == "executed"
    was_cancelled: set[bool] = set()
    for steps in (*range(0, 240, 3), 1_000_000):
        request = f"req_{steps}"
        task = asyncio.create_task(counted.write(request))
        for _ in range(steps):
            if task.done():
                break
            await asyncio.sleep(0)
        was_cancelled.add(task.cancel())
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError) or ended == "executed"
        again = [await counted.write(request) for _ in range(2)]
        assert set(again) <= CODES
        assert counted.acts.get(request, 0) <= 1
        if counted.acts.get(request):
            assert "executed" not in again or ended != "executed"
        if "replayed" in again:
            assert counted.acts[request] == 1
    assert was_cancelled == {True, False}, "from the first step of a call to beyond its last"
    await store.aclose()
    store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_p09_wherever_the_line_is_cut_an_act_happens_once_at_most(moment: Any, redis_server: RedisServer) -> None:
    """Cut at the nth question, before the server hears it or before its answer comes; a call asks six."""
    heard: list[str] = []
    async with between(redis_server) as (line, store):
        counted = Counted(store)
        assert await counted.write("warm") == "executed"
        for nth in range(1, 8):
            first = line.asked + nth
            line.cut_at = lambda number, first=first: moment if number == first else None  # type: ignore[misc]
            request = f"req_{nth}"
            codes = [await counted.write(request) for _ in range(3)]
            assert set(codes) <= {*CODES, "internal"}, codes
            assert counted.acts.get(request, 0) <= 1
            assert "internal" in codes or nth > 5, codes
            heard += codes
    assert {"internal", "executed", "in_progress"} <= set(heard)


async def test_p08_a_redis_that_is_killed_in_the_middle_of_an_awaited_act_lets_none_happen_twice(
    own_redis: RedisServer,
) -> None:
    entered, over = asyncio.Event(), asyncio.Event()

    async def run(command: Command) -> Any:
        entered.set()
        await over.wait()
        return office.approve(command)

    store = RedisStore(own_redis.url, timeout_s=30)
    office: Office = Office(store=store, tools={"approve_invoice": {"run": run}})
    first = asyncio.create_task(office.apropose("approve_invoice", WRITE))
    await entered.wait()
    own_redis.kill()
    assert (await office.apropose("approve_invoice", WRITE)).code == "internal", "without a store nothing acts"
    with pytest.raises(StoreUnavailable):
        await store.alook("n")
    over.set()
    assert (await first).code == "executed", "it is done, though nobody could keep that"
    own_redis.start()
    assert (await office.apropose("approve_invoice", WRITE)).code == "in_progress"
    office.clock.advance(seconds=60)
    assert (await office.apropose("approve_invoice", WRITE)).code == "outcome_unknown"
    assert len(office.acts) == 1
    assert "SECRET" not in json.dumps(office.audit.records())
    await store.aclose()
    store.close()
