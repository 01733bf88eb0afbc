"""One server process for many clients of the stateless protocol (since 2026-07-28), whose requests stand alone.

Each client counts its requests by itself, so here they get ids of our own, and answers go back under theirs. What
belongs to no request goes to nobody, unless there is only one client: nobody hears of what another one does.
"""

import itertools
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import anyio
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from preaction.adapters.mcp_proxy.upstream import Connection, Upstream

log = logging.getLogger("preaction")

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
BACKLOG: Final = 256
"""Messages that wait for a client that reads slowly; more end its connection."""


class Shared:
    """Wraps the one connection; `run` reads it, `connect` opens a client's part of it."""

    spawns: ClassVar[bool] = False

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._ids = itertools.count(1)
        self._owners: dict[str, tuple[_Part, RequestId, object]] = {}
        self._parts: set[_Part] = set()
        self._server: Connection | None = None
        self._opening = anyio.Lock()
        self._tasks: Any = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Around everything; the server starts when the first client comes, and again when it was gone."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            yield
            tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """A client's part. Requests that it leaves behind are cancelled."""
        async with self._opening:
            if self._server is None:
                self._server = await self._tasks.start(self._serve)
        with self._part(self._server) as part:
            try:
                yield part
            finally:
                with anyio.CancelScope(shield=True):
                    await part.abandon()

    @contextmanager
    def _part(self, server: Connection) -> Iterator["_Part"]:
        part = _Part(self, server, *anyio.create_memory_object_stream[JSONRPCMessage](BACKLOG))
        self._parts.add(part)
        try:
            yield part
        finally:
            self._parts.discard(part)
            part.close()

    async def _serve(self, *, task_status: Any) -> None:
        async with self._upstream.connect() as server:
            task_status.started(server)
            try:
                async for message in server.messages():
                    await self._route(server, message)
            finally:
                self._server = None
                for part in self._parts:
                    part.close()

    async def _route(self, server: Connection, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            log.warning(
                "the MCP server asked something, which this protocol version does not have",
                extra={"code": "mcp_odd_message"},
            )
            return
        if isinstance(message, JSONRPCNotification):
            own = _named(message.params)
            owner = self._owners.get(own) if own is not None else None
            if owner is not None:
                owner[0].put(_renamed(message, owner[1], owner[2]))
            elif own is None and len(self._parts) == 1:
                next(iter(self._parts)).put(message)
            return
        owner = self._owners.pop(str(message.id), None)
        if owner is not None:
            owner[0].put(_answer(message, owner[1]))

    def adopt(self, part: "_Part", message: JSONRPCRequest) -> JSONRPCRequest:
        """The request under an id of our own, which is its progress token as well."""
        own = f"p{next(self._ids)}"
        params = dict(message.params or {})
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if isinstance(meta, dict) and token is not None:
            params["_meta"] = {**meta, "progressToken": own}
        self._owners[own] = (part, message.id, token)
        return JSONRPCRequest(jsonrpc="2.0", id=own, method=message.method, params=params)

    def own_ids(self, part: "_Part", request_id: object = None) -> list[str]:
        """Our ids of a client's open requests: of one of them, or of all."""
        return [
            own
            for own, (owner, theirs, _) in self._owners.items()
            if owner is part and (request_id is None or (theirs == request_id and type(theirs) is type(request_id)))
        ]


@dataclass(eq=False)
class _Part:
    _shared: Shared
    _server: Connection
    _in: Any
    _out: Any
    _closed: bool = field(default=False)

    def put(self, message: JSONRPCMessage) -> None:
        try:
            self._in.send_nowait(message)
        except anyio.WouldBlock:
            log.warning("a client reads too slowly, and its connection is ended", extra={"code": "mcp_client_slow"})
            self.close()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass

    def close(self) -> None:
        self._in.close()

    async def send(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            await self._server.send(self._shared.adopt(self, message))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            for own in self._shared.own_ids(self, (message.params or {}).get("requestId")):
                await self._cancel(own)

    async def abandon(self) -> None:
        """Cancel what is still open."""
        for own in self._shared.own_ids(self):
            await self._cancel(own)

    async def _cancel(self, own: str) -> None:
        params = {"requestId": own, "reason": "the client left"}
        await self._server.send(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))

    async def messages(self) -> AsyncIterator[JSONRPCMessage]:
        with suppress(anyio.ClosedResourceError, anyio.EndOfStream):
            async for message in self._out:
                yield message


def _named(params: Mapping[str, Any] | None) -> str | None:
    """Our id of the request that a notification is about, if it says one."""
    given = params or {}
    meta = given.get("_meta")
    named = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
    named = given.get("progressToken", given.get("requestId")) if named is None else named
    return named if isinstance(named, str) else None


def _renamed(message: JSONRPCNotification, theirs: RequestId, token: object) -> JSONRPCNotification:
    params = dict(message.params or {})
    if "progressToken" in params:
        params["progressToken"] = token
    if "requestId" in params:
        params["requestId"] = theirs
    return JSONRPCNotification(jsonrpc="2.0", method=message.method, params=_subscription(params, theirs))


def _answer(message: JSONRPCResponse | JSONRPCError, theirs: RequestId) -> JSONRPCMessage:
    if isinstance(message, JSONRPCError):
        return JSONRPCError(jsonrpc="2.0", id=theirs, error=message.error)
    return JSONRPCResponse(jsonrpc="2.0", id=theirs, result=_subscription(message.result, theirs))


def _subscription(part: dict[str, Any], theirs: RequestId) -> dict[str, Any]:
    """A subscription is named by the id of the request that made it."""
    meta = part.get("_meta")
    if isinstance(meta, dict) and SUBSCRIPTION_KEY in meta:
        return {**part, "_meta": {**meta, SUBSCRIPTION_KEY: theirs}}
    return part
