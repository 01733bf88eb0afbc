"""A store of which nothing but the awaited methods is used, from an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar

from preaction.stores import Slot, Swapped
from preaction.stores.redis import RedisStore

T = TypeVar("T")


class Awaited:
    """`close` it; it closes the store, too."""

    def __init__(self, store: RedisStore) -> None:
        self._store = store
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        store.close()  # what a thread asks from here on has to open a connection first, and a test can see that

    def _wait(self, asked: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(60)

    def close(self) -> None:
        self._wait(self._store.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
        self._store.close()

    def put(self, session: str, slots: Sequence[Slot]) -> bool:
        return self._wait(self._store.aput(session, slots))

    def read(self, session: str, group: str, at_most: int | None = None) -> list[tuple[str, str]]:
        return self._wait(self._store.aread(session, group, at_most))

    def read_many(self, session: str, group: str, names: Sequence[str]) -> list[tuple[str, str]]:
        return self._wait(self._store.aread_many(session, group, names))

    def is_full(self, session: str) -> bool:
        return self._wait(self._store.ais_full(session))

    def claim(self, name: str, keep: timedelta, *, take: bool) -> Literal["free", "taken", "full"]:
        return self._wait(self._store.aclaim(name, keep, take=take))

    def look(self, name: str) -> str | None:
        return self._wait(self._store.alook(name))

    def swap(self, name: str, old: str | None, new: str | None, keep: timedelta) -> Swapped:
        return self._wait(self._store.aswap(name, old, new, keep))
