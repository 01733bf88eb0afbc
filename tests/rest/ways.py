"""The three ways to wait for an authority, so that one table of tests can go through all of them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias

import httpx
import pytest

from preaction._core.facts import Ask
from preaction.rest import Felspar
from rest.answers import KEY

Way: TypeAlias = Literal["thread", "loop", "transport of the loop"]
every_way = pytest.mark.parametrize("way", ["thread", "loop", "transport of the loop"])


@asynccontextmanager
async def client(way: Way, origin: str, **options: Any) -> AsyncIterator[Felspar]:
    """A client that is waited for in this way, closed afterwards."""
    transport = httpx.AsyncHTTPTransport() if way == "transport of the loop" else None
    try:
        async with Felspar(origin, KEY, async_transport=transport, **{"deadline_s": 30, **options}) as felspar:
            yield felspar
    finally:
        if transport is not None:
            await transport.aclose()


async def fetch(way: Way, felspar: Felspar, asks: Sequence[Ask], deadline_s: float = 30.0) -> Mapping[Ask, object]:
    """`fetch` or `afetch`."""
    if way == "thread":
        return await asyncio.to_thread(felspar.fetch, asks, deadline_s)
    return await felspar.afetch(asks, deadline_s)


async def call(way: Way, felspar: Felspar, method: str, *args: Any, **options: Any) -> Any:
    """A method or its twin."""
    if way == "thread":
        return await asyncio.to_thread(getattr(felspar, method), *args, **options)
    return await getattr(felspar, f"a{method}")(*args, **options)
