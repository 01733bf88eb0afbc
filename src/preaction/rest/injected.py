"""Exchanges over a transport that somebody hands in: for tests, and for a service in the same process.

A transport is what httpx calls one: `handle_request(request)` or `handle_async_request(request)` that takes an
`httpx.Request` and returns an `httpx.Response` whose `stream` gives the body's bytes. It is not closed by us.
"""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from preaction.rest.exchange import Request
from preaction.rest.headers import Headers
from preaction.rest.origin import Origin
from preaction.rest.send import Reply


def _request(origin: Origin, headers: Headers, request: Request, seconds: float) -> httpx.Request:
    return httpx.Request(
        request.method,
        f"{origin}{request.path}",
        headers=headers.of(request),
        content=request.body,
        extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), seconds)},
    )


class TransportLink:
    """A link over a transport for threads."""

    def __init__(self, origin: Origin, headers: Headers, transport: Any) -> None:
        self._origin = origin
        self._headers = headers
        self._transport = transport

    @contextmanager
    def open(self, request: Request, seconds: float) -> Iterator[Reply[Iterable[bytes]]]:
        """Send the request; enter with the head of the response."""
        response = self._transport.handle_request(_request(self._origin, self._headers, request, seconds))
        try:
            yield Reply(response.status_code, response.headers.raw, response.stream)
        finally:
            response.close()


class AsyncTransportLink:
    """A link over a transport for event loops."""

    def __init__(self, origin: Origin, headers: Headers, transport: Any) -> None:
        self._origin = origin
        self._headers = headers
        self._transport = transport

    @asynccontextmanager
    async def open(self, request: Request, seconds: float) -> AsyncIterator[Reply[AsyncIterable[bytes]]]:
        """Send the request; enter with the head of the response."""
        sent = _request(self._origin, self._headers, request, seconds)
        response = await self._transport.handle_async_request(sent)
        try:
            yield Reply(response.status_code, response.headers.raw, response.stream)
        finally:
            await response.aclose()
