"""The gate in a FastMCP server or proxy: `install(server, gate)`.

A middleware in the innermost place: what comes after it could change the call, so it denies everything when a later
middleware appears. A tool is judged by every name it has, whatever a mount, a proxy or a transform made of it. A server
sees requests, not the turns of a model: calls of one session that overlap in time are taken for one batch (A5).
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from preaction.adapters._bridge import Bridge, Go, SessionOf, Stop
from preaction.adapters._json_schema import MISFIT, fits, with_defaults
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from fastmcp import FastMCP
    from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
    from fastmcp.server.providers.addressing import parse_hashed_backend_name
    from fastmcp.server.providers.proxy import ProxyProvider
    from fastmcp.tools.base import ToolResult
except ImportError as error:
    raise ImportError("preaction.adapters.fastmcp needs FastMCP: pip install 'preaction[fastmcp]'") from error

__all__ = ["GateMiddleware", "install"]

LATER: Final = "Denied, nothing was done: a middleware was added after the gate; the gate has to be installed last."
ASIDE: Final = "Denied, nothing was done: the call carries input beside its arguments, which nobody checked."
UNSET: Final = "Denied, nothing was done: the gate does not fit this server's tools: {}."
OPEN_ONES: Final = (
    "ResponseCachingMiddleware",
    "ToolInjectionMiddleware",
    "PromptToolMiddleware",
    "ResourceToolMiddleware",
)
"""Middleware before the gate that answers calls by itself."""

Call: TypeAlias = "MiddlewareContext[Any]"


def install(
    server: FastMCP, gate: ActionGate, *, session: SessionOf[Call] | None = None, accept: Collection[str] = ()
) -> None:
    """Put `gate` before every tool of `server`, as its last middleware.

    The session is `mcp-session-id` over HTTP, the process over stdio, the connection in memory. The 2026-07-28 protocol
    and stateless servers have none over HTTP: give `session`, which reads one off the middleware's context, such as a
    key of `context.fastmcp_context.request_context.meta`. Raises `ConfigurationError` for rules that name no tool, and,
    unless `accept` lists them, for gated tools that may run as background tasks (`NAME:task`), for middleware that
    answers calls before the gate sees them, and for middleware of mounted servers, by class name. The tools behind a
    proxy are looked at on the first call; if they don't fit, every call is denied and says so.
    """
    guard = GateMiddleware(server, Bridge(gate, session=session, session_of=_session_of), session, frozenset(accept))
    servers = list(_servers(server))
    if any(isinstance(one, GateMiddleware) and one.bridge.gate is gate for of in servers for one in of.middleware):
        raise ConfigurationError("this gate is installed in this server, or in one that it mounts, already")
    own = [one for of in servers[1:] for one in of.middleware if not type(one).__module__.startswith("fastmcp.")]
    open_ = {type(one).__name__ for one in own}
    open_ |= {kind.__name__ for of in servers for one in of.middleware for kind in type(one).__mro__} & {*OPEN_ONES}
    if open_ := open_ - guard.accept:
        raise ConfigurationError(f"not covered by the gate, to be listed in accept=: {', '.join(sorted(open_))}")
    if not any(isinstance(provider, ProxyProvider) for of in servers for provider in _providers(of)):
        with ThreadPoolExecutor(1) as apart:  # there may be a running loop in this thread
            apart.submit(asyncio.run, guard.look()).result()
    server.add_middleware(guard)


class GateMiddleware(Middleware):  # type: ignore[misc]  # untyped where FastMCP isn't installed
    """See `install`, which makes and adds it."""

    def __init__(
        self, server: FastMCP, bridge: Bridge[Call], session: SessionOf[Call] | None, accept: frozenset[str]
    ) -> None:
        self.bridge = bridge
        self.accept = accept
        self._server = server
        self._session = session
        self._looked = False
        self._batches: dict[object, tuple[object, list[None]]] = {}

    async def look(self) -> None:
        """Raise `ConfigurationError` when rules and tools don't fit."""
        found, tasks = set(), set()
        for tool in await self._server.list_tools(run_middleware=False):
            names = {tool.name} | {name async for name in _names(tool)}
            found |= names
            if tool.task_config.supports_tasks():
                tasks |= {f"{name}:task" for name in names if self.bridge.gate.knows(name)}
        self.bridge.require(found, uncovered=tasks, accept=self.accept)
        self._looked = True

    async def on_call_tool(self, context: Call, call_next: CallNext[Any, Any]) -> Any:
        """Ask; run with what was checked; record."""
        with self._batch(context) as batch:
            answer = await self.bridge.total(context.message.name, self._ask(context, batch))
            if isinstance(answer, Stop):
                return ToolResult(content=answer.text, is_error=True)
            if answer.arguments is not None:
                message = context.message.model_copy(update={"arguments": answer.arguments})
                context = context.copy(message=message)
            result = await call_next(context)
            # Neither a round that asks the client for input nor the receipt of a background task is a result.
            if isinstance(result, ToolResult) and not result.is_error and not hasattr(result, "input_required"):
                self.bridge.ran(answer, result)
            return result

    async def _ask(self, context: Call, batch: object) -> Go | Stop:
        name, arguments = context.message.name, context.message.arguments or {}
        running = context.fastmcp_context.fastmcp if context.fastmcp_context else self._server
        later = running.middleware[running.middleware.index(self) + 1 :]
        if any(not isinstance(one, GateMiddleware) and type(one).__name__ not in self.accept for one in later):
            return self.bridge.refused(name, LATER)
        try:
            if not self._looked:
                await self.look()
        except ConfigurationError as error:
            return self.bridge.refused(name, UNSET.format(error))
        tool = await _tool(self._server, name)
        names = [] if tool is None else [one async for one in _names(tool)]
        misfit = False
        if tool is not None and any(self.bridge.gate.is_gated(one) for one in (name, *names)):
            if getattr(context.message, "input_responses", None) or getattr(context.message, "request_state", None):
                return self.bridge.refused(name, ASIDE)
            arguments = with_defaults(tool.parameters, arguments)
            misfit = not fits(tool.parameters, arguments)
        asked = None if misfit else arguments  # no arguments: the gate denies, and sees to observe mode
        answer = await self.bridge.aask(name, asked, context, names=names, batch=batch)
        return Stop(MISFIT, answer.verdict) if misfit and isinstance(answer, Stop) else answer

    @contextmanager
    def _batch(self, context: Call) -> Iterator[object]:
        """The batch of the calls of this session that are on their way."""
        try:
            key = self._session(context) if self._session else None
            key = key or _session_of(context) or self.bridge.gate.current_session
        except Exception:  # noqa: BLE001 - the bridge meets it again, and denies
            key = None
        batch, on_their_way = self._batches.setdefault(key, (object(), []))
        on_their_way.append(None)
        try:
            yield batch
        finally:
            on_their_way.pop()
            if not on_their_way:
                del self._batches[key]


_PROCESS: Final = f"stdio-{uuid.uuid4().hex}"


def _session_of(context: Call) -> str | None:
    """An id that stays the same over the calls of one client, and that no other client has; else None."""
    here = context.fastmcp_context
    if here is None or here.request_context is None:
        return None
    if (request := getattr(here.request_context, "request", None)) is not None:
        found = request.headers.get("mcp-session-id")
        return None if found is None else str(found)
    if here.transport == "stdio":
        return _PROCESS  # one process serves one client
    modern = getattr(here, "_is_modern_protocol", None)  # then `session_id` is another one for every request
    return None if modern is not None and modern() else str(here.session_id)


async def _tool(server: FastMCP, name: str) -> Any:
    """The tool that `server` would run for `name`: one that it lists, or one that an app lets its own page call."""
    tool = await server.get_tool(name)
    if tool is None and (hashed := parse_hashed_backend_name(name)) is not None:
        tool = await server.get_tool_by_hash(*hashed)
    return tool


async def _names(tool: Any) -> AsyncIterator[str]:
    """Every name that this tool has or had, below mounts, proxies, transforms and copies."""
    while tool is not None:
        yield tool.name
        yield getattr(getattr(tool, "fn", None), "__name__", tool.name)
        yield getattr(tool, "_backend_name", None) or tool.name
        if (inner := getattr(tool, "_original_name", None)) is not None:
            tool = await _tool(tool._server, inner)  # of a mounted server
        else:
            tool = getattr(tool, "parent_tool", None)


def _servers(server: FastMCP) -> Iterator[FastMCP]:
    """This server and those that it mounts."""
    yield server
    for provider in _providers(server):
        if isinstance(mounted := getattr(provider, "server", None), FastMCP):
            yield from _servers(mounted)


def _providers(server: FastMCP) -> Iterator[Any]:
    for provider in server.providers:
        while (inner := getattr(provider, "_inner", None)) is not None:
            provider = inner  # what a namespace was put around
        yield provider
