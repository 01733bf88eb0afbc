"""The MCP server behind the proxy: a process of our own, or a URL."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

import anyio
from anyio.abc import Process
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter

from preaction.adapters.mcp_proxy.relay import PROTOCOL_KEY

log = logging.getLogger("preaction")

MAX_LINE: Final = 16 * 1024 * 1024
"""A message of the server that is longer is a flood: the server is ended."""

END_S: Final = 2.0
"""How long a process may take to end by itself when its input is closed, and then when it is told to."""


class Connection(Protocol):
    """A connection to a server, for one client."""

    def messages(self) -> AsyncIterator[JSONRPCMessage]:
        """What the server sends, until it is gone."""
        ...

    async def send(self, message: JSONRPCMessage) -> None:
        """Pass a message on; one that can't be delivered is noticed by `messages` ending."""
        ...


class Upstream(Protocol):
    """Where the server is."""

    @property
    def spawns(self) -> bool:
        """Whether each connection starts a process."""
        ...

    def connect(self) -> Any:
        """An async context manager that gives a `Connection` and leaves nothing behind."""
        ...


# A process ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """A server that is started for each client, and spoken to through its stdin and stdout.

    `environ` is its whole environment. Its stderr is ours.
    """

    words: Sequence[str]
    environ: Mapping[str, str]
    spawns: ClassVar[bool] = True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Start it, and end it with everything that it started."""
        process = await anyio.open_process(
            list(self.words),
            env=dict(self.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            start_new_session=sys.platform != "win32",  # a group of its own, to be ended as one
        )
        with _keeper(process.pid):
            try:
                yield _Pipes(process)
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)


_KEEP: Final = 'read -r _; kill -s TERM -- "-$0"; sleep 2; kill -s KILL -- "-$0"'


@contextmanager
def _keeper(group: int) -> Iterator[None]:
    """Ends the group when this process is killed, which it can't do itself then: the end of a pipe tells."""
    if sys.platform == "win32":
        yield
        return
    with subprocess.Popen(  # noqa: S603 - a fixed text and a number
        ["/bin/sh", "-c", _KEEP, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as keeper:
        try:
            yield
        finally:
            keeper.kill()


@dataclass
class _Pipes:
    process: Process
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def send(self, message: JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
        async with self._lock:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await _pipe(self.process.stdin).send(line.encode())

    async def messages(self) -> AsyncIterator[JSONRPCMessage]:
        parts: list[bytes] = []
        length = 0
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            while True:
                chunk = await _pipe(self.process.stdout).receive(65_536)
                *lines, rest = chunk.split(b"\n")
                for line in lines:
                    whole = b"".join((*parts, line))
                    parts, length = [], 0
                    if (message := _parsed(whole)) is not None:
                        yield message
                parts.append(rest)
                length += len(rest)
                if length > MAX_LINE:
                    log.error(
                        "the MCP server sent more than %d bytes without an end, and is ended",
                        MAX_LINE,
                        extra={"code": "mcp_server_ended"},
                    )
                    return


def _pipe(pipe: Any) -> Any:
    """A pipe of a process that was started with pipes."""
    return pipe


def _parsed(line: bytes) -> JSONRPCMessage | None:
    if not line.strip():
        return None
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        log.warning("the MCP server sent a line that is no JSON-RPC message", extra={"code": "mcp_odd_message"})
        return None


async def _end(process: Process) -> None:
    """End a process and its group: input closed, then told to, then without being asked."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await _pipe(process.stdin).aclose()
    with anyio.move_on_after(END_S):
        await _drained(process)
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        if not _signalled(process, number):
            break
        with anyio.move_on_after(END_S):
            await _drained(process)
    with anyio.move_on_after(END_S):
        await process.aclose()


async def _drained(process: Process) -> None:
    """Read what is still coming until the process is gone: a full pipe would keep it from ending."""
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
        while True:
            await _pipe(process.stdout).receive(65_536)
    await process.wait()


def _signalled(process: Process, number: signal.Signals) -> bool:
    """Whether something of the group was still there to be told."""
    if sys.platform == "win32":
        with suppress(ProcessLookupError):
            process.send_signal(number)
        return process.returncode is None
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# A URL ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Url:
    """A server over streamable HTTP. `headers` go with every request, such as `Authorization`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    spawns: ClassVar[bool] = False

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Speak to it in the protocol version that the client's messages show."""
        async with (
            create_mcp_http_client(headers=dict(self.headers)) as http,
            streamable_http_client(self.url, http_client=http, max_sse_event_size=MAX_LINE) as (arriving, leaving),
        ):
            yield _Streams(arriving, leaving)


@dataclass
class _Streams:
    arriving: Any
    leaving: Any
    _version: str | None = None
    _schemas: dict[str, Mapping[tuple[str, ...], str]] = field(default_factory=dict)

    async def send(self, message: JSONRPCMessage) -> None:
        headers = self._headers(message)
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self.leaving.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))

    def _headers(self, message: JSONRPCMessage) -> dict[str, str]:
        """What a client of this version sends along. Made from the body, so the two can't name different tools."""
        params = getattr(message, "params", None) or {}
        meta = params.get("_meta")
        version = meta.get(PROTOCOL_KEY) if isinstance(meta, dict) else None
        if not isinstance(message, JSONRPCRequest) or not isinstance(version, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method}
        name = params.get(NAME_BEARING_METHODS.get(message.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if message.method == "tools/call" and name in self._schemas:
                headers |= mcp_param_headers(self._schemas[name], params.get("arguments") or {})
        return headers

    async def messages(self) -> AsyncIterator[JSONRPCMessage]:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for received in self.arriving:
                if isinstance(received, Exception):
                    log.warning("the MCP server sent what is no JSON-RPC message", extra={"code": "mcp_odd_message"})
                    continue
                if isinstance(received.message, JSONRPCResponse):
                    self._learn(received.message.result)
                yield received.message

    def _learn(self, result: Mapping[str, Any]) -> None:
        """The version that was agreed on by a handshake, and which arguments of a tool go into headers as well."""
        if isinstance(version := result.get("protocolVersion"), str) and "serverInfo" in result:
            self._version = version
        for tool in result.get("tools") or ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                self._schemas[tool["name"]] = x_mcp_header_map(tool.get("inputSchema"))
