"""`RedisStore` in an event loop: what is cancelled, late or broken leaves nothing behind that another one meets."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from preaction.errors import SessionFull, StoreUnavailable
from preaction.stores import AsyncStore, Slot, Swapped
from preaction.stores.redis import RedisStore
from redis_server import PASSWORD, RedisServer
from stores.between import between

HOUR = timedelta(hours=1)


@asynccontextmanager
async def opened(server: RedisServer, **options: Any) -> AsyncIterator[RedisStore]:
    """A store that the loop asks; what asks from a thread would have to connect first."""
    store = RedisStore(server.url, **{"prefix": uuid.uuid4().hex, "timeout_s": 30, **options})
    store.close()
    try:
        yield store
    finally:
        await store.aclose()
        store.close()


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not met():  # noqa: ASYNC110 - what it waits for is another process's
            await asyncio.sleep(0.001)


# ---------------------------------------------------------------- cancelled


async def test_a_swap_that_is_cancelled_may_be_done_and_is_never_done_twice(redis_server: RedisServer) -> None:
    async with between(redis_server) as (line, store):
        await store.aswap("warm", None, "", HOUR)
        line.hold()
        task = asyncio.create_task(store.aswap("n", None, "mine", HOUR))
        await line.held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        line.let_go()
        assert await store.alook("n") == "mine", "it was done before it was cancelled"
        assert await store.aswap("n", None, "mine", HOUR) == Swapped(False, "mine")


async def test_a_connection_whose_answer_was_not_read_is_dropped(redis_server: RedisServer) -> None:
    async with between(redis_server) as (line, store):
        await store.aswap("a", None, "of a", HOUR)
        await store.aswap("b", None, "of b", HOUR)
        await until(lambda: line.open == 1)
        before = line.opened
        line.hold()
        task = asyncio.create_task(store.alook("a"))
        await line.held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: line.open == 0)
        line.let_go()
        assert await store.alook("b") == "of b", "not the answer of the one before"
        assert line.opened == before + 1


async def test_wherever_it_is_cancelled_the_next_one_hears_its_own_answer(redis_server: RedisServer) -> None:
    """From before the connection is there, over greeting it, to after the answer: a step of the loop each."""
    async with opened(redis_server) as store:
        await store.aswap("a", None, "of a", HOUR)
        await store.aswap("b", None, "of b", HOUR)
        for cold in (True, False):
            heard: list[str | None] = []
            for steps in (*range(500), *[1_000_000] * 5):  # a slow server's answer comes after more of them
                if cold:
                    await store.aclose()
                task = asyncio.create_task(store.alook("a"))
                for _ in range(steps):
                    if task.done():
                        break
                    await asyncio.sleep(0)
                if task.done():
                    heard.append(await task)
                    if len(heard) == 5:
                        break
                    continue
                task.cancel()
                with pytest.raises(asyncio.CancelledError):  # none is lost on the way
                    await task
                assert await store.alook("b") == "of b"
            assert heard == ["of a"] * 5


async def test_many_that_are_cancelled_take_no_connection_with_them(redis_server: RedisServer) -> None:
    async with between(redis_server) as (line, store):
        await store.alook("warm")
        for _ in range(2):
            line.hold()
            tasks = [asyncio.create_task(store.alook("n")) for _ in range(60)]
            await line.held.wait()
            for task in tasks:
                task.cancel()
            assert all(
                isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*tasks, return_exceptions=True)
            )
            line.let_go()
        await until(lambda: line.open == 0)
        assert await asyncio.gather(*(store.alook("n") for _ in range(200))) == [None] * 200
        assert line.open <= 50, "more at once than connections wait for one"


# ---------------------------------------------------------------- away, late, unfit


async def test_away_raises_and_back_it_works(own_redis: RedisServer) -> None:
    async with opened(own_redis) as store:
        assert await store.aclaim("use", HOUR, take=True) == "free"
        for away, back in ((own_redis.stop, own_redis.start), (own_redis.kill, own_redis.start)):
            away()
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="Redis can't be asked: ConnectionError"):
                    await store.aclaim("use", HOUR, take=True)
            back()
            assert await store.aclaim("use", HOUR, take=True) == "taken"


async def test_no_answer_raises_within_the_time_out_is_not_sent_again_and_holds_nobody_up(
    own_redis: RedisServer,
) -> None:
    async with opened(own_redis, timeout_s=1.0) as store:
        with own_redis.client() as client:
            await store.alook("n")
            before = client.info("stats")["total_connections_received"]
            own_redis.freeze()
            start, turns = time.monotonic(), 0
            task = asyncio.create_task(store.aclaim("use", HOUR, take=True))
            while not task.done():
                turns += 1
                await asyncio.sleep(0.005)
            with pytest.raises(StoreUnavailable, match="TimeoutError"):
                await task
            assert 1.0 <= time.monotonic() - start < 10
            assert turns > 5, "the loop went on meanwhile"
            own_redis.thaw()
            assert client.info("stats")["total_connections_received"] == before
            assert await store.aclaim("use", HOUR, take=False) in ("free", "taken")


async def test_each_connection_looks_at_the_server(own_redis: RedisServer) -> None:
    async with opened(own_redis) as store:
        with own_redis.client() as client:
            for name, bad, good, why in (
                ("maxmemory-policy", "allkeys-lru", "noeviction", "would evict keys"),
                ("appendonly", "no", "yes", "no append-only file"),
            ):
                await store.alook("n")
                client.config_set(name, bad)
                await store.aclose()
                with pytest.raises(StoreUnavailable, match=why):
                    await store.alook("n")
                client.config_set(name, good)
                assert await store.alook("n") is None
            client.config_set("requirepass", "it-was-changed")
            await store.aclose()
            with pytest.raises(StoreUnavailable, match="AuthenticationError") as failed:
                await store.alook("n")
            assert failed.value.__suppress_context__
            assert PASSWORD not in f"{failed.value} {store!r} {vars(store)}"


async def test_a_user_who_may_not_ask_info_is_refused(redis_server: RedisServer) -> None:
    user = uuid.uuid4().hex
    with redis_server.client() as client:
        client.acl_setuser(user, enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all"])
        store = RedisStore(f"redis://{user}:pw@127.0.0.1:{redis_server.port}", prefix=user, timeout_s=30)
        client.acl_setuser(user, enabled=True, commands=["-info"])
        with pytest.raises(StoreUnavailable, match="must be allowed to ask INFO"):
            await store.alook("n")
        await store.aclose()
        store.close()
        client.acl_deluser(user)


async def test_a_server_that_was_emptied_answers_nothing(own_redis: RedisServer) -> None:
    async with opened(own_redis, prefix="p") as store:
        await store.aswap("n", None, "a", HOUR)
        with own_redis.client() as client:
            client.flushall()
        for ask in (
            store.aput("s", [Slot("g", "a", "value")]),
            store.aread("s", "g"),
            store.aread_many("s", "g", ["a"]),
            store.ais_full("s"),
            store.aclaim("use", HOUR, take=False),
            store.alook("n"),
            store.aswap("n", None, "a", HOUR),
        ):
            with pytest.raises(StoreUnavailable, match="emptied"):
                await ask


# ---------------------------------------------------------------- loops


def test_each_loop_has_connections_of_its_own_and_one_that_is_over_is_forgotten(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url, prefix=uuid.uuid4().hex, timeout_s=30)

    async def count() -> str | None:
        held = await store.alook("n")
        await store.aswap("n", held, str(int(held or 0) + 1), HOUR)
        await store.aclose()
        await store.aclose()
        return await store.alook("n")

    async def counted() -> str | None:
        try:
            return await count()
        finally:
            await store.aclose()

    assert [asyncio.run(counted()) for _ in range(3)] == ["1", "2", "3"]
    assert store.look("n") == "3", "a thread's view is the same"
    assert store._loops == {}
    over = asyncio.new_event_loop()
    over.run_until_complete(store.alook("n"))
    pool, _ = store._loops[over]
    over.run_until_complete(pool.disconnect())
    over.close()
    assert asyncio.run(counted()) == "4"
    assert store._loops == {}
    store.close()


async def test_it_is_an_async_store_and_bounds_are_the_same(redis_server: RedisServer) -> None:
    async with opened(redis_server, max_texts=1) as store:
        assert isinstance(store, AsyncStore)
        await store.aswap("n", None, "a", HOUR)
        with pytest.raises(SessionFull):
            await store.aswap("m", None, "a", HOUR)
