"""The client in front of the proxy: over this process's stdin and stdout, or over HTTP."""

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCMessage, RequestId

from preaction.adapters._bridge import Bridge
from preaction.adapters.mcp_proxy.relay import Params, Relay, Rounds
from preaction.adapters.mcp_proxy.upstream import Upstream
from preaction.gate import ActionGate

log = logging.getLogger("preaction")

SESSION_KEY: Final = "preaction/session"
SILENCE_S: Final = 600.0
GONE: Final = "the MCP server behind the gate is gone"


def session_from_meta(params: Params) -> str | None:
    """The session that a client names in `_meta`: for hosts that are one's own, since anybody could name any."""
    meta = params.get("_meta")
    named = meta.get(SESSION_KEY) if isinstance(meta, dict) else None
    return named if isinstance(named, str) and named else None


async def serve_stdio(
    gate: ActionGate,
    upstream: Upstream,
    *,
    session: str | None = None,
    session_of: Callable[[Params], str | None] | None = None,
    silence_s: float = SILENCE_S,
) -> bool:
    """Serve one client over stdin and stdout until it leaves, or until the server is gone (then `False`).

    One process is one client, and so one session: `session`, or a random id. `session_of(params)` reads another one
    off a call's params.
    """
    own = uuid.uuid4().hex if session is None else session
    bridge: Bridge[Params] = Bridge(gate, session=session_of, session_of=lambda _params: own)
    async with stdio_server() as (arriving, leaving):
        return await relay_streams(bridge, upstream, arriving, leaving, silence_s)


async def relay_streams(
    bridge: Bridge[Params],
    upstream: Upstream,
    arriving: Any,
    leaving: Any,
    silence_s: float = SILENCE_S,
    rounds: Rounds | None = None,
) -> bool:
    """Between one client's streams of `SessionMessage` and a server of its own. Whether it was the client that left."""
    left = False

    async def to_client(message: JSONRPCMessage, about: RequestId | None) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await leaving.send(SessionMessage(message, ServerMessageMetadata(related_request_id=about)))

    async with upstream.connect() as server, anyio.create_task_group() as tasks:
        relay = Relay(bridge, to_client, server.send, tasks, silence_s, rounds or Rounds())

        async def down() -> None:
            async for message in server.messages():
                await relay.from_server(message)
            await relay.ended(GONE)
            tasks.cancel_scope.cancel()

        tasks.start_soon(down)
        tasks.start_soon(relay.watch)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for received in arriving:
                if isinstance(received, Exception):
                    log.warning("the client sent a line that is no JSON-RPC message")
                else:
                    await relay.from_client(received.message)
        left = True
        tasks.cancel_scope.cancel()
    return left
