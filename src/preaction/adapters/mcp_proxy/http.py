"""The client in front over streamable HTTP, in both eras of the protocol.

With a handshake (until 2025-11-25) each client has a session, which is the gate's session as well, and a server of its
own. Without (since 2026-07-28) every request stands alone: it has no session unless `session_of` finds one.
"""

import json
import logging
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

import anyio
import uvicorn
from mcp import Client
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response

from preaction.adapters._bridge import Bridge
from preaction.adapters.mcp_proxy.fronts import SILENCE_S, relay_streams
from preaction.adapters.mcp_proxy.offered import LIST_S, Offered
from preaction.adapters.mcp_proxy.relay import INVALID_REQUEST
from preaction.adapters.mcp_proxy.rounds import Params, Rounds
from preaction.adapters.mcp_proxy.shared import Shared
from preaction.adapters.mcp_proxy.upstream import Upstream
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

log = logging.getLogger("preaction")

PATH: Final = "/mcp"
MAX_BODY: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 100
IDLE_S: Final = 30 * 60.0
PING_S: Final = 15.0
SSE_HEADERS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]


class HttpFront:
    """An ASGI application at `/mcp`, to be run inside `running()`."""

    def __init__(
        self,
        gate: ActionGate,
        upstream: Upstream,
        *,
        hosts: list[str],
        session_of: Callable[[Params], str | None] | None = None,
        silence_s: float = SILENCE_S,
        accept: Iterable[str] = (),
    ) -> None:
        self._accept = frozenset(accept)
        self._offered = Offered(gate, self._accept)
        self._gate = gate
        self._upstream = upstream
        self._alone = Shared(upstream) if upstream.spawns else upstream
        self._session_of = session_of
        self._silence_s = silence_s
        self._sessions: dict[str, StreamableHTTPServerTransport] = {}
        # A page in a browser on this machine may not speak to us: its Host or Origin is another.
        self._security = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )
        self._app = RequestBodyLimitMiddleware(self._request, MAX_BODY)
        self._rounds = Rounds()
        self._tasks: Any = None

    async def run(self, serve: Callable[[], Any]) -> None:
        """Serve until `serve()` returns, then end every session and its server.

        Raises `ConfigurationError` when the server lacks a tool that the rules name and that isn't accepted.
        """
        await self._look()
        if self._gate.enforces and self._offered.refusal is not None:
            raise ConfigurationError(self._offered.refusal)
        async with AsyncExitStack() as stack:
            if isinstance(self._alone, Shared):
                await stack.enter_async_context(self._alone.running())
            async with anyio.create_task_group() as self._tasks:
                await serve()
                self._tasks.cancel_scope.cancel()

    async def _look(self) -> None:
        """Ask the server once what it offers. One that can't say now is asked again when a client comes."""
        try:
            with anyio.fail_after(LIST_S):
                async with Client(_streams(self._upstream)) as client:
                    cursor: str | None = None
                    while True:
                        listed = await client.list_tools(cursor=cursor)
                        page = listed.model_dump(by_alias=True, exclude_none=True)
                        if (cursor := self._offered.page(cursor, page)) is None:
                            return
        except (FileNotFoundError, PermissionError):
            raise  # no such command: it won't be there later either
        except Exception as error:  # noqa: BLE001
            log.warning(
                "the MCP server's tools could not be listed yet: %s",
                type(error).__name__,
                extra={"code": "mcp_unreachable"},
            )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        if scope["path"].rstrip("/") != PATH:
            await Response(status_code=404)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _request(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._standing_alone(request, scope, receive, send)
            return
        session_id = request.headers.get(MCP_SESSION_ID_HEADER)
        if session_id is None:
            await self._new_session(scope, receive, send)
        elif (transport := self._sessions.get(session_id)) is None:
            await _refusal("Session not found", 404)(scope, receive, send)
        else:
            # Nothing is kept to be sent again, so a client that would resume a stream gets a new one.
            headers = [each for each in scope["headers"] if each[0].lower() != b"last-event-id"]
            await transport.handle_request({**scope, "headers": headers}, receive, send)

    # With a handshake -------------------------------------------------------------------------------------------------

    async def _new_session(self, scope: Any, receive: Any, send: Any) -> None:
        """Only an initialize request opens a session; after any other one it is gone again."""
        if len(self._sessions) >= MAX_SESSIONS:
            await _refusal("Too many sessions", 503)(scope, receive, send)
            return
        session_id = uuid.uuid4().hex
        transport = StreamableHTTPServerTransport(session_id, security_settings=self._security, idle_timeout=IDLE_S)
        self._sessions[session_id] = transport
        status = 500

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._tasks.start(self._session, session_id, transport)
            await transport.handle_request(scope, receive, watched)
        finally:
            if status >= 400:
                with anyio.CancelScope(shield=True):
                    await self._forget(session_id, transport)

    async def _session(self, session_id: str, transport: StreamableHTTPServerTransport, *, task_status: Any) -> None:
        bridge: Bridge[Params] = Bridge(self._gate, session=self._session_of, session_of=lambda _params: session_id)
        async with transport.connect() as (arriving, leaving):
            task_status.started()
            try:
                with transport.idle_scope or anyio.CancelScope():
                    offered = Offered(self._gate, self._accept)
                    await relay_streams(bridge, self._upstream, arriving, leaving, self._silence_s, offered=offered)
            except (OSError, ExceptionGroup) as error:
                log.error(
                    "a session with the MCP server failed: %s",
                    type(error).__name__,
                    extra={"code": "mcp_session_failed"},
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await self._forget(session_id, transport)

    async def _forget(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        self._sessions.pop(session_id, None)
        if not transport.is_terminated:
            await transport.terminate()

    # Without ----------------------------------------------------------------------------------------------------------

    async def _standing_alone(self, request: Request, scope: Any, receive: Any, send: Any) -> None:
        refused = await TransportSecurityMiddleware(self._security).validate_request(request, is_post=True)
        if refused is not None:
            await refused(scope, receive, send)
            return
        if request.method != "POST":
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        message = await _read(request)
        if isinstance(message, Response):
            await message(scope, receive, send)
            return
        bridge: Bridge[Params] = Bridge(self._gate, session=self._session_of, session_of=lambda _params: None)
        # The client stays until it has its answer: then the stream of what it sends is closed.
        into, arriving = anyio.create_memory_object_stream[SessionMessage](1)
        leaving, out = anyio.create_memory_object_stream[SessionMessage](0)
        into.send_nowait(SessionMessage(message))
        async with into, arriving, out, anyio.create_task_group() as tasks:

            async def relay() -> None:
                async with leaving:
                    await relay_streams(
                        bridge, self._alone, arriving, leaving, self._silence_s, self._rounds, self._offered
                    )

            async def left() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(relay)
            tasks.start_soon(left)
            await _answer(message, out, scope, receive, send)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _streams(upstream: Upstream) -> AsyncIterator[Any]:
    """A server as the SDK's client takes one."""
    into, arriving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    leaving, out = anyio.create_memory_object_stream[SessionMessage](0)
    async with into, arriving, leaving, out, upstream.connect() as server, anyio.create_task_group() as tasks:

        async def up() -> None:
            async for sent in out:
                await server.send(sent.message)

        async def down() -> None:
            async with into:
                async for message in server.messages():
                    await into.send(SessionMessage(message))

        tasks.start_soon(up)
        tasks.start_soon(down)
        yield arriving, leaving
        tasks.cancel_scope.cancel()


async def _read(request: Request) -> JSONRPCRequest | Response:
    """The one request in a body, if it is in order, else what to answer."""
    try:
        body = json.loads(await request.body())
        if isinstance(body, dict) and "id" not in body:
            return Response(status_code=202)  # this version has no notification of a client over HTTP
        message = JSONRPCRequest.model_validate(body)
    except (ValueError, RecursionError):
        return _refusal("Body must be a single JSON-RPC request or notification object", 400)
    if (twice := find_duplicated_routing_header(request.headers.items())) is not None:
        return _refusal(f"{twice} header appears more than once", 400)
    verdict = classify_inbound_request(body, headers=dict(request.headers))
    if isinstance(verdict, InboundLadderRejection):
        error = ErrorData(code=verdict.code, message=verdict.message, data=verdict.data)
        return _json(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
    return message


async def _answer(message: JSONRPCRequest, out: Any, scope: Any, receive: Any, send: Any) -> None:
    """One JSON answer, or a stream once anything else comes before it."""
    started = False
    while True:
        received: JSONRPCMessage | None = None
        with anyio.move_on_after(PING_S), suppress(anyio.EndOfStream):
            received = (await out.receive()).message
        final = isinstance(received, JSONRPCResponse | JSONRPCError)
        if final and not started:
            await _json(received)(scope, receive, send)
            return
        if not started:
            await send({"type": "http.response.start", "status": 200, "headers": SSE_HEADERS})
            started = True
        data = b": ping\r\n\r\n" if received is None else f"event: message\r\ndata: {_text(received)}\r\n\r\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": not final})
        if final:
            return


def _text(message: JSONRPCMessage) -> str:
    return str(message.model_dump_json(by_alias=True, exclude_unset=True))


def _json(message: Any) -> Response:
    status = ERROR_CODE_HTTP_STATUS.get(message.error.code, 200) if isinstance(message, JSONRPCError) else 200
    return Response(_text(message), status_code=status, media_type="application/json")


def _refusal(why: str, status: int) -> Response:
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INVALID_REQUEST, message=why))
    return Response(_text(error), status_code=status, media_type="application/json")


async def serve_http(
    gate: ActionGate,
    upstream: Upstream,
    listener: socket.socket,
    on_ready: Callable[[str], None],
    *,
    session_of: Callable[[Params], str | None] | None = None,
    silence_s: float = SILENCE_S,
    accept: Iterable[str] = (),
) -> None:
    """Serve at `/mcp` on a socket that listens, until told to stop. `on_ready` is called with the URL.

    `accept` are names of the rules that the server need not have; raises `ConfigurationError` when it lacks another
    one.
    """
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    hosts = [shown, f"localhost:{port}"]
    front = HttpFront(gate, upstream, hosts=hosts, session_of=session_of, silence_s=silence_s, accept=accept)
    config = uvicorn.Config(
        front, lifespan="off", log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=2
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            on_ready(f"http://{shown}{PATH}")

    async def serve() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)  # uvicorn raises it again when it has stopped
        await Server(config).serve(sockets=[listener])

    await front.run(serve)
