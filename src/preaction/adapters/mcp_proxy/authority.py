"""The authority's own MCP tools, answered by a client of it: beside a server's, or alone over stdio."""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from preaction.adapters.mcp_proxy.relay import PROTOCOL_KEY
from preaction.adapters.mcp_proxy.upstream import Connection, Upstream
from preaction.errors import AuthorityError, MisuseError
from preaction.mcp_tools import TOOLS, AuthorityTool, ToolRefused, call_tool, list_tools, refused
from preaction.rest.felspar import Felspar

log = logging.getLogger("preaction")

OPENING: Final = frozenset(("initialize", "server/discover"))
"""Requests whose answer says what a server can do."""


@dataclass(frozen=True, slots=True)
class AuthorityTools:
    """The tools over REST, with the key of `felspar`."""

    felspar: Felspar

    async def jobs(self, _request: object) -> Sequence[Mapping[str, Any]]:
        """The jobs that the key may use."""
        return await self.felspar.alist_jobs()

    async def answer(self, _request: object, tool: AuthorityTool, arguments: dict[str, Any]) -> Mapping[str, Any]:
        """What the authority answers; raises `ToolRefused` with its words when it refuses, or gives no answer."""
        try:
            if tool.name == "describe_job":
                return await self.felspar.adescribe_job(arguments["job"])
            if tool.name == "check_output":
                return await self.felspar.acheck_output(arguments.pop("execution_id"), **arguments)
            return await self.felspar.adecide(arguments.pop("job"), **arguments)
        except AuthorityError as error:
            raise _as_tool_refusal(error) from None
        except MisuseError as error:
            raise refused(str(error)) from None


def _as_tool_refusal(error: AuthorityError) -> ToolRefused:
    """The authority's own title and places where it gave some; else our words for what went wrong."""
    problem = error.problem or {}
    title, errors = problem.get("title"), problem.get("errors")
    found = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    places = ((str(each.get("pointer", "")), str(each.get("detail", ""))) for each in found)
    return refused(title if isinstance(title, str) and title else str(error), places)


# Beside a server's tools ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WithAuthority:
    """A server that offers the authority's tools as well, so that a host needs one entry.

    A tool of the server that has the name of one of these is not offered and can't be called.
    """

    server: Upstream
    tools: AuthorityTools

    @property
    def spawns(self) -> bool:
        """As the server's own."""
        return self.server.spawns

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """A connection to both."""
        into, out = anyio.create_memory_object_stream[JSONRPCMessage](0)
        async with into, out, self.server.connect() as server, anyio.create_task_group() as tasks:
            both = _Both(server, self.tools, tasks, into, out)
            tasks.start_soon(both.pump)
            yield both
            tasks.cancel_scope.cancel()


@dataclass(slots=True)
class _Both:
    _server: Connection
    _tools: AuthorityTools
    _tasks: Any
    _into: Any
    _out: Any
    _listing: set[RequestId] = field(default_factory=set)
    _opening: set[RequestId] = field(default_factory=set)
    _calls: dict[RequestId, anyio.CancelScope] = field(default_factory=dict)

    async def messages(self) -> AsyncIterator[JSONRPCMessage]:
        async for message in self._out:
            yield message

    async def pump(self) -> None:
        """Take what the server says until it is gone; then nothing more comes from here either."""
        async for message in self._server.messages():
            await self._put(await self._with_ours(message))
        self._into.close()

    async def send(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            if message.method == "tools/call" and (tool := _ours(message.params)) is not None:
                self._tasks.start_soon(self._call, message, tool)
                return
            if message.method == "tools/list":
                self._listing.add(message.id)
            elif message.method in OPENING:
                self._opening.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            scope = self._calls.get((message.params or {}).get("requestId", ""))
            if scope is not None:
                scope.cancel()
                return
        await self._server.send(message)

    async def _call(self, message: JSONRPCRequest, tool: AuthorityTool) -> None:
        params = message.params or {}
        answer: JSONRPCMessage
        with anyio.CancelScope() as self._calls[message.id]:
            if "task" in params:
                error = ErrorData(code=INVALID_PARAMS, message="preaction: this tool runs no tasks")
                answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
            else:
                result = await call_tool(self._tools.answer, None, tool, params.get("arguments") or {})
                answer = JSONRPCResponse(jsonrpc="2.0", id=message.id, result=_stamped(result, params))
            await self._put(answer)
        self._calls.pop(message.id, None)

    async def _put(self, message: JSONRPCMessage) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._into.send(message)

    async def _with_ours(self, message: JSONRPCMessage) -> JSONRPCMessage:
        """The server's answer, with our tools in it where it lists tools or says what there is."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return message
        if message.id in self._opening:
            self._opening.discard(message.id)
            return _with_tools_capability(message)
        if message.id not in self._listing:
            return message
        self._listing.discard(message.id)
        if isinstance(message, JSONRPCError):
            if message.error.code != METHOD_NOT_FOUND:
                return message
            message = JSONRPCResponse(jsonrpc="2.0", id=message.id, result={"tools": []})  # it has none of its own
        theirs = message.result.get("tools")
        kept = [each for each in theirs if not _shadowed(each)] if isinstance(theirs, list) else []
        ours = [] if message.result.get("nextCursor") else await list_tools(self._tools.jobs, None)
        result = {**message.result, "tools": [*kept, *ours]}
        return JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)


def _ours(params: Mapping[str, Any] | None) -> AuthorityTool | None:
    name = (params or {}).get("name")
    return TOOLS.get(name) if isinstance(name, str) else None


def _shadowed(tool: object) -> bool:
    name = tool.get("name") if isinstance(tool, dict) else None
    if name not in TOOLS:
        return False
    log.warning(
        "the MCP server has a tool %r of its own, which is not offered: the authority's has that name",
        name,
        extra={"code": "mcp_tool_shadowed"},
    )
    return True


def _with_tools_capability(message: JSONRPCResponse | JSONRPCError) -> JSONRPCResponse | JSONRPCError:
    if isinstance(message, JSONRPCError):
        return message
    said = message.result.get("capabilities")
    capabilities = {"tools": {}, **(said if isinstance(said, dict) else {})}
    return JSONRPCResponse(jsonrpc="2.0", id=message.id, result={**message.result, "capabilities": capabilities})


def _stamped(result: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    if isinstance(meta, dict) and PROTOCOL_KEY in meta:  # since 2026-07-28 a result says that it is one
        return {**result, "resultType": "complete"}
    return result


# Alone ----------------------------------------------------------------------------------------------------------------


async def serve_tools(tools: AuthorityTools, version: str = "0") -> None:
    """Serve the authority's tools over this process's stdin and stdout, until stdin ends."""
    from mcp.server.stdio import stdio_server

    from preaction.mcp_tools import build_server

    server = build_server(tools.answer, tools.jobs, version)
    async with stdio_server() as (arriving, leaving):
        await server.run(arriving, leaving, server.create_initialization_options())
