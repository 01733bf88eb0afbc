"""The authority over HTTP: bytes → operation → bytes. Who asks is settled first, then the body is read, strictly.

Nothing that a caller sends gives a 5xx. What goes wrong in here gives a plain 500 and one log record without a trace:
`_Door` has the one broad `except`.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from preaction.authority.console import console_routes
from preaction.authority.console.pages import Desk
from preaction.authority.expressions.evaluator import in_loop
from preaction.authority.keys import Caller, Keyring, Role
from preaction.authority.operators import Operators
from preaction.authority.refusal import Refused, invalid, not_found
from preaction.authority.server.limits import Limits
from preaction.authority.server.mcp import MAX_BYTES, McpTools, installed
from preaction.authority.server.openapi import document
from preaction.authority.server.operations import OPERATIONS, Answer, Call, Operation, Result
from preaction.authority.server.watch import seen
from preaction.authority.service import Service
from preaction.authority.storage.storage import Storage
from preaction.errors import InvalidJSON
from preaction.mcp_tools import INSTALL
from preaction.wire import strict_json

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_FRESH: Final = {"Cache-Control": "no-cache"}
_TITLES: Final = {404: not_found().problem.title, 405: "This path isn't asked that way."}


def build_app(
    storage: Storage,
    service: Service,
    operators: Operators,
    keyring: Keyring,
    limits: Limits,
    ready: Callable[[], None],
) -> ASGIApp:
    """The ASGI application: all operations, what needs no key, and the console.

    `ready` raises `Refused` while nothing can be decided.
    """
    gate = _Gate(keyring, limits, distant=storage.distant)
    routes = [_route(operation, service, operators, gate) for operation in OPERATIONS]
    routes += [
        Route("/mcp", _Mcp(service, gate)),
        _document("/openapi.json", document()),
        _jwks(storage),
        _document("/healthz", {"status": "ok"}),
        _readiness(ready),
    ]
    routes += console_routes(Desk(storage, service, operators, keyring), service.clock, limits.take)
    return _Door(Starlette(routes=routes, exception_handlers={HTTPException: _not_routed, Exception: _failed}))


def _route(operation: Operation, service: Service, operators: Operators, gate: "_Gate") -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            caller = await gate.caller(request, operation.role)
            call = Call(
                caller,
                request.path_params,
                _query(request) if operation.query else {},
                await _body(request, operation),
                request.headers.get("idempotency-key") if operation.repeatable else None,
            )
            answer = await _run(gate.distant or operation.blocks, lambda: operation.run(service, operators, call))
        except Refused as refused:
            return _refusal(refused)
        seen(request.scope).answered(answer.result)
        return _answer(answer)

    return Route(operation.path, endpoint, methods=[operation.method], name=operation.name)


async def _run(waits: bool, work: Callable[[], T]) -> T:
    """Work in a thread when it waits; an indexed read of a file takes less time than handing it over would."""
    return await (run_in_threadpool(work) if waits else in_loop(work))


class _Mcp:
    """The tools at `/mcp`: the same keys, asked for first, and the same strict JSON; the rest is `mcp`'s."""

    def __init__(self, service: Service, gate: "_Gate") -> None:
        self._gate = gate
        self._tools = McpTools(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            caller = await self._gate.caller(request, "agent")
            body = await _mcp_body(request)
        except Refused as refused:
            await _refusal(refused)(scope, receive, send)
            return
        await self._tools.respond(caller, request, body, send)


async def _mcp_body(request: Request) -> bytes:
    if not installed():
        raise Refused(404, f"This authority has no MCP; whoever runs it can add it: {INSTALL}")
    if request.method != "POST":
        raise HTTPException(405, headers={"Allow": "POST"})
    body = await _read(request, MAX_BYTES)
    _strict(body, MAX_BYTES)
    return body


class _Gate:
    """Who asks, before anything is read: 401, 403, and 429 for whoever asks too often."""

    def __init__(self, keyring: Keyring, limits: Limits, *, distant: bool) -> None:
        self.distant = distant
        self._keyring = keyring
        self._limits = limits

    async def caller(self, request: Request, role: Role) -> Caller:
        """The holder of the request's key, which is of this role."""
        header = request.headers.get("authorization")
        caller = await _run(self.distant, lambda: _caller(self._keyring, header))
        seen(request.scope).key_id = caller.key_id
        self._limits.take(caller.key_id)
        if caller.role != role:
            raise Refused(403, f"This path is for {role} keys.")
        return caller


def _caller(keyring: Keyring, header: str | None) -> Caller:
    scheme, _, key = (header or "").partition(" ")
    caller = keyring.caller(key.strip()) if scheme.lower() == "bearer" else None
    if caller is None:
        raise Refused(401, "A valid key is needed, as a bearer token.")
    return caller


async def _body(request: Request, operation: Operation) -> Any:
    if operation.body is None:
        return None
    data = await _read(request, operation.max_bytes)
    if operation.body == "yaml":
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise invalid([((), "the text is not valid UTF-8")]) from None
    return _strict(data, operation.max_bytes)


async def _read(request: Request, max_bytes: int) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > max_bytes:
            raise Refused(413, f"The body is too large; at most {max_bytes} bytes are read.")
    return bytes(data)


def _strict(data: bytes, max_bytes: int) -> Any:
    try:
        return strict_json.load_object(data, max_bytes=max_bytes)
    except InvalidJSON as error:
        raise invalid([((), str(error))]) from None


def _query(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    if len(dict(pairs)) != len(pairs):
        raise invalid([], "A parameter is given twice.")
    return dict(pairs)


def _answer(answer: Answer) -> Response:
    headers = {"Cache-Control": "no-store", **answer.headers}
    return Response(_json(answer.result), answer.status, headers, "application/json")


def _json(result: Result) -> bytes:
    if isinstance(result, BaseModel):
        return result.model_dump_json(exclude_unset=True).encode()
    return b"[" + b",".join(_json(each) for each in result) + b"]"


def _refusal(refused: Refused) -> Response:
    headers = {"Cache-Control": "no-store"}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if refused.retry_after_s is not None:
        headers["Retry-After"] = str(refused.retry_after_s)
    return Response(_json(refused.problem), refused.status, headers, "application/problem+json")


def _not_routed(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = _refusal(Refused(status, _TITLES.get(status, "The request can't be used.")))
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


def _readiness(ready: Callable[[], None]) -> Route:
    async def endpoint(_request: Request) -> Response:
        try:
            await run_in_threadpool(ready)
        except Refused as refused:
            return _refusal(refused)
        return Response(b'{"status": "ready"}', headers={"Cache-Control": "no-store"}, media_type="application/json")

    return Route("/readyz", endpoint, methods=["GET"])


def _document(path: str, content: Mapping[str, Any]) -> Route:
    text = json.dumps(content, ensure_ascii=False).encode()

    async def endpoint(_request: Request) -> Response:
        return Response(text, headers=_FRESH, media_type="application/json")

    return Route(path, endpoint, methods=["GET"])


def _jwks(storage: Storage) -> Route:
    async def endpoint(_request: Request) -> Response:
        try:
            keys = await _run(storage.distant, storage.jwks)
        except Refused as refused:
            return _refusal(refused)
        return Response(json.dumps(keys), headers=_FRESH, media_type="application/json")

    return Route("/.well-known/jwks.json", endpoint, methods=["GET"])


def _failed(_request: Request, _error: Exception) -> Response:
    return _refusal(Refused(500, "This authority failed to answer."))


class _Door:
    """Around the whole application: an error of ours was answered inside (`_failed`), and its trace goes nowhere."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(_with_whole_ids(scope), receive, send)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a server would write the trace, and values with it, into its log
            _LOG.error("an answer failed: %s", type(error).__name__)


def _with_whole_ids(scope: Scope) -> Scope:
    """The path cut where it was before it was decoded: a slash in an id is no new segment, and no id here has one."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    segments = (unquote(each).replace("/", "\x1f") for each in raw.decode("ascii", "replace").split("/"))
    return {**scope, "path": "/".join(segments)}
