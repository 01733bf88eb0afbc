"""The client in front of the proxy: over this process's stdin and stdout, or over HTTP."""

import asyncio
import concurrent.futures
import logging
import os
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCMessage, RequestId, jsonrpc_message_adapter

from preaction.adapters._bridge import Bridge
from preaction.adapters.mcp_proxy.offered import Offered
from preaction.adapters.mcp_proxy.relay import Relay
from preaction.adapters.mcp_proxy.rounds import Params, Rounds
from preaction.adapters.mcp_proxy.upstream import MAX_LINE, Upstream
from preaction.errors import ConfigurationError
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
    accept: Iterable[str] = (),
) -> bool:
    """Serve one client over stdin and stdout until it leaves, or until the server is gone (then `False`).

    One process is one client, and so one session: `session`, or a random id. `session_of(params)` reads another one
    off a call's params. `accept` are names of the rules that the server need not have; raises `ConfigurationError` when
    it lacks another one, as soon as the client is connected.
    """
    offered = Offered(gate, accept)
    own = uuid.uuid4().hex if session is None else session
    bridge: Bridge[Params] = Bridge(gate, session=session_of, session_of=lambda _params: own)
    async with _own_stdio() as (arriving, leaving):
        left = await relay_streams(bridge, upstream, arriving, leaving, silence_s, offered=offered)
    if not left and gate.enforces and offered.refusal is not None:
        raise ConfigurationError(offered.refusal)
    return left


@asynccontextmanager
async def _own_stdio() -> AsyncIterator[tuple[Any, "_Stdout"]]:
    """This process's stdin and stdout as streams of messages; what is printed meanwhile goes to stderr.

    Not the SDK's: its reader is a thread that is waited for, so a proxy whose server is gone could not end.
    """
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    into, arriving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError, RuntimeError, concurrent.futures.CancelledError, anyio.BrokenResourceError):
            for line in _lines(wire_in):
                asyncio.run_coroutine_threadsafe(into.send(_message(line)), loop).result()
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(into.close)

    threading.Thread(target=read, name="preaction-stdin", daemon=True).start()
    try:
        yield arriving, _Stdout(wire_out)
    finally:
        arriving.close()
        into.close()


def _lines(fd: int) -> Iterator[bytes]:
    """Lines until the end, or until one is longer than any message may be."""
    parts: list[bytes] = []
    length = 0
    while (data := os.read(fd, 65_536)) and length <= MAX_LINE:
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts, length = [], 0
        parts.append(rest)
        length += len(rest)


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


class _Stdout:
    """Where messages to the client go; one is on its way when `send` returns."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = anyio.Lock()

    async def send(self, message: SessionMessage) -> None:
        data = message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        async with self._lock:
            try:
                await anyio.to_thread.run_sync(self._write, data)
            except OSError:
                raise anyio.BrokenResourceError from None

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._fd, left) :]


async def relay_streams(
    bridge: Bridge[Params],
    upstream: Upstream,
    arriving: Any,
    leaving: Any,
    silence_s: float = SILENCE_S,
    rounds: Rounds | None = None,
    offered: Offered | None = None,
) -> bool:
    """Between one client's streams of `SessionMessage` and a server of its own. Whether it was the client that left."""
    rounds, offered = rounds or Rounds(), offered or Offered(bridge.gate)
    left = False

    async def to_client(message: JSONRPCMessage, about: RequestId | None) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await leaving.send(SessionMessage(message, ServerMessageMetadata(related_request_id=about)))

    async with upstream.connect() as server, anyio.create_task_group() as tasks:
        relay = Relay(bridge, to_client, server.send, tasks, silence_s, rounds, offered)

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
                    log.warning("the client sent a line that is no JSON-RPC message", extra={"code": "mcp_odd_message"})
                else:
                    await relay.from_client(received.message)
        left = True
        tasks.cancel_scope.cancel()
    return left
