"""What stands between a store and its server, in the test's own event loop: it holds answers back, or cuts the line."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

from preaction.stores.redis import RedisStore
from redis_server import RedisServer


class Between:
    """`opened` and `open` count connections; `cut_at` hears the number of each question, and may have it cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.asked = 0
        self._serving = 0
        self.cut_at: Callable[[int], Literal["before", "after"] | None] = lambda number: None
        self._flows = asyncio.Event()
        self._flows.set()
        self.held = asyncio.Event()
        self.opened = self.open = 0

    def hold(self) -> None:
        """Let no answer through from now on; `held` says that one was there."""
        self._flows.clear()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving += 1
        try:
            await self._serve(reader, writer)
        finally:
            self._serving -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        answering = asyncio.create_task(self._answer(far_reader, writer))
        while data := await reader.read(65_536):
            cut = self._cut(data)
            if cut == "after":
                answering.cancel()
                await asyncio.wait([answering])
            if cut != "before":
                far_writer.write(data)
            if cut == "after":
                await far_reader.read(65_536)
            if cut is not None:
                break
        self.open -= 1
        answering.cancel()
        await asyncio.wait([answering])
        for one in (far_writer, writer):
            one.close()
            await asyncio.gather(one.wait_closed(), return_exceptions=True)

    async def ended(self) -> None:
        """Returns when all connections are closed."""
        while self._serving:  # noqa: ASYNC110 - several end at once
            await asyncio.sleep(0.001)

    def _cut(self, data: bytes) -> Literal["before", "after"] | None:
        if b"EVALSHA" not in data:
            return None
        self.asked += 1
        return self.cut_at(self.asked)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not self._flows.is_set():
                self.held.set()
            await self._flows.wait()
            writer.write(data)

    def let_go(self) -> None:
        """Let all answers through again."""
        self._flows.set()
        self.held.clear()


@asynccontextmanager
async def between(server: RedisServer) -> AsyncIterator[tuple[Between, RedisStore]]:
    one = Between(server.port)
    listening = await asyncio.start_server(one.connect, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    url = server.url.replace(str(server.port), str(port))
    store = await asyncio.to_thread(RedisStore, url, prefix=uuid.uuid4().hex, timeout_s=30)
    await asyncio.to_thread(store.close)
    try:
        yield one, store
    finally:
        one.let_go()
        await store.aclose()
        await one.ended()
        listening.close()
