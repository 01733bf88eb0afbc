"""One client, one server, and the gate between them, message by message.

What the client sends is passed on as it was parsed, once, here: a text that two parsers could read differently is read
by one. Only `tools/call` is judged; results of the decision and output-check tools are recorded before the client sees
them. A request that can't be answered any more is answered with an error.
"""

import itertools
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from preaction.adapters._bridge import Bridge, Go, Stop
from preaction.adapters.mcp_proxy.offered import LIST_S, MAX_PAGES, Offered
from preaction.adapters.mcp_proxy.rounds import Params, Rounds

log = logging.getLogger("preaction")

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_GONE: Final = -32000
MAX_OPEN: Final = 1_000
"""Requests that may wait for their answer at one time, in each direction."""
PROTOCOL_KEY: Final = "io.modelcontextprotocol/protocolVersion"
NO_SESSION: Final = frozenset(("initialize", "server/discover", "ping"))
"""Requests that a client makes before it knows whether there is a session."""
LONG: Final = frozenset(("subscriptions/listen",))
"""Requests that stay open for as long as the client likes."""

ToClient = Callable[[JSONRPCMessage, RequestId | None], Awaitable[None]]
ToServer = Callable[[JSONRPCMessage], Awaitable[None]]


@dataclass(slots=True)
class Waiting:
    """A request of the client that the server has not answered yet."""

    method: str
    token: object
    ends: float
    go: Go | None = None
    params: Params = field(default_factory=dict)
    judging: anyio.CancelScope | None = None
    cancelled: bool = False


class Relay:
    """Passes messages on between one client and one server.

    `to_client(message, about)` and `to_server(message)` send; `about` is the request of the client that a message of
    the server most likely belongs to. `silence_s` is how long a request may wait without an answer or progress.
    `rounds` and `offered` are shared where one client comes through several relays.
    """

    def __init__(
        self,
        bridge: Bridge[Params],
        to_client: ToClient,
        to_server: ToServer,
        tasks: TaskGroup,
        silence_s: float,
        rounds: Rounds,
        offered: Offered,
    ) -> None:
        self._bridge = bridge
        self._to_client = to_client
        self._to_server = to_server
        self._tasks = tasks
        self._silence_s = silence_s
        self._waiting: dict[RequestId, Waiting] = {}
        self._asked: set[RequestId] = set()
        self._rounds = rounds
        self._offered = offered
        self._own: dict[RequestId, Any] = {}
        self._numbers = itertools.count(1)
        self._meta: Params = {}
        self._rolling = self._again = False
        self._gone: str | None = None

    # From the client --------------------------------------------------------------------------------------------------

    async def from_client(self, message: JSONRPCMessage) -> None:
        """Judge it if it calls a tool, and pass it on."""
        match message:
            case JSONRPCRequest():
                await self._request(message)
            case JSONRPCNotification(method="notifications/cancelled"):
                await self._cancelled(message)
            case JSONRPCNotification():
                if is_finite(message.params):
                    await self._to_server(message)
                if message.method == "notifications/initialized":
                    self._ready({})
            case JSONRPCResponse() | JSONRPCError():
                if message.id in self._asked:  # an answer that nobody asked for could be taken for another's
                    self._asked.discard(message.id)
                    await self._to_server(_finite_answer(message))

    async def _request(self, message: JSONRPCRequest) -> None:
        if (why := self._refusal(message)) is not None:
            await self._refuse(message.id, INVALID_REQUEST, why)
            return
        params = message.params or {}
        if message.method not in NO_SESSION and PROTOCOL_KEY in _meta(params):
            self._ready({"_meta": {name: each for name, each in _meta(params).items() if name != "progressToken"}})
        waiting = Waiting(
            message.method, _meta(params).get("progressToken"), anyio.current_time() + self._silence_s, params=params
        )
        if message.method in LONG:
            waiting.ends = math.inf
        self._waiting[message.id] = waiting
        if message.method == "tools/call":
            waiting.judging = anyio.CancelScope()
            self._tasks.start_soon(self._call, message, waiting)
        else:
            await self._to_server(message)

    def _refusal(self, message: JSONRPCRequest) -> str | None:
        """Why a request is not passed on at all."""
        if self._gone is not None:
            return self._gone
        if message.id in self._waiting or message.id in self._own:  # its answer could be recorded as that of the other
            return "a request with this id is still open"
        if len(self._waiting) >= MAX_OPEN:
            return f"{MAX_OPEN} requests are open already"
        if not is_finite(message.params):
            return "a number that is not finite is not JSON"
        return None

    async def _call(self, message: JSONRPCRequest, waiting: Waiting) -> None:
        """Ask the gate, then let the server act, or say why not. Cancelled while it waits: nothing was done."""
        with waiting.judging or anyio.CancelScope():
            answer = await self._judged(waiting.params)
            waiting.judging = None
            if isinstance(answer, Go):
                waiting.go = answer
                if answer.arguments is not None:
                    params = {**waiting.params, "arguments": answer.arguments}
                    message = JSONRPCRequest(jsonrpc="2.0", id=message.id, method=message.method, params=params)
                if not waiting.cancelled and self._gone is None:
                    await self._to_server(message)
                return
            self._waiting.pop(message.id, None)
            if isinstance(answer, Stop):
                await self._to_client(_denied(message.id, answer.text, waiting.params), message.id)
            else:
                await self._refuse(message.id, INVALID_PARAMS, answer)

    async def _judged(self, params: Params) -> Go | Stop | str:
        tool, arguments = params.get("name"), params.get("arguments")
        if not isinstance(tool, str):
            return "a tools/call names its tool"
        if arguments is not None and not isinstance(arguments, dict):
            return "the arguments of a tools/call are one object"
        if self._bridge.gate.enforces and (doubt := await self._offered.doubt(tool)) is not None:
            log.error(
                "a call of %r was denied, since it may be a tool that the rules name otherwise",
                tool,
                extra={"code": "mcp_tool_renamed"},
            )
            return Stop(doubt)
        answer = await self._bridge.aask(tool, {} if arguments is None else arguments, params)
        verdict = answer.verdict if isinstance(answer, Stop) else None
        if (
            verdict is not None
            and verdict.code == "already_used"
            and self._rounds.continues(verdict.session_id, params)
        ):
            # The use was taken when the call was first let through; since then the server asked for more input.
            # `already_used` is the last check there is, so all the others have passed again.
            return Go(tool, verdict.session_id, None, None)
        return answer

    async def _cancelled(self, message: JSONRPCNotification) -> None:
        wanted = (message.params or {}).get("requestId")
        waiting = self._waiting.get(wanted) if isinstance(wanted, int | str) else None
        if waiting is None or isinstance(wanted, bool):
            return
        waiting.cancelled = True
        waiting.ends = math.inf
        if waiting.judging is not None:
            waiting.judging.cancel()
            self._waiting.pop(wanted or "", None)
        elif is_finite(message.params):
            # It stays known: an answer that comes all the same must not be taken for that of a later request.
            await self._to_server(message)

    async def _refuse(self, request_id: RequestId, code: int, why: str) -> None:
        await self._to_client(_error(request_id, code, why), request_id)

    # From the server --------------------------------------------------------------------------------------------------

    async def from_server(self, message: JSONRPCMessage) -> None:
        """Record it if it is the result of a tool that decides or checks, and pass it on."""
        match message:
            case JSONRPCResponse() | JSONRPCError():
                await self._answered(message)
            case JSONRPCRequest():
                if len(self._asked) >= MAX_OPEN or message.id in self._asked or not is_finite(message.params):
                    await self._to_server(_error(message.id, INVALID_REQUEST, "not passed on to the client"))
                    return
                self._asked.add(message.id)
                await self._to_client(message, self._about(message.params))
            case JSONRPCNotification():
                if message.method == "notifications/tools/list_changed":
                    self._call_roll()
                if message.method == "notifications/cancelled":
                    cancelled = (message.params or {}).get("requestId")
                    if isinstance(cancelled, int | str):
                        self._asked.discard(cancelled)
                if is_finite(message.params):
                    await self._to_client(message, self._about(message.params))

    async def _answered(self, message: JSONRPCResponse | JSONRPCError) -> None:
        if message.id is not None and (own := self._own.pop(message.id, None)) is not None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # too late
                own.send_nowait(message)
            return
        waiting = self._waiting.pop(message.id, None) if message.id is not None else None
        if waiting is None or message.id is None:
            log.warning("the MCP server answered a request that nobody made", extra={"code": "mcp_odd_message"})
            return
        message = _finite_answer(message)
        if isinstance(message, JSONRPCResponse):
            self._note(waiting, message.result)
        if not waiting.cancelled:
            await self._to_client(message, message.id)

    def _note(self, waiting: Waiting, result: dict[str, Any]) -> None:
        if waiting.method == "tools/list" and not self._offered.asking:
            self._offered.page(waiting.params.get("cursor"), result)
        elif waiting.method == "tasks/result" and (go := self._rounds.finished(waiting.params)) is not None:
            self._bridge.ran(go, result)
        if waiting.go is None:
            return
        if result.get("resultType", "complete") == "complete":
            if "task" in result:  # there is no result yet
                self._rounds.started(result["task"], waiting.go)
            else:
                self._bridge.ran(waiting.go, result)
        elif isinstance(state := result.get("requestState"), str):
            self._rounds.opened(waiting.go.session_id, state, waiting.params)

    def _about(self, params: Params | None) -> RequestId | None:
        """The request that a message of the server belongs to: by its progress token, else the latest one."""
        token = (params or {}).get("progressToken")
        for request_id, waiting in self._waiting.items():
            if token is not None and waiting.token == token and type(waiting.token) is type(token):
                waiting.ends = max(waiting.ends, anyio.current_time() + self._silence_s)
                return request_id
        return next((one for one in reversed(self._waiting) if not self._waiting[one].cancelled), None)

    # What the server offers -------------------------------------------------------------------------------------------

    def _ready(self, meta: Params) -> None:
        """The client may make requests now, and so may we."""
        self._meta = meta
        if not self._offered.asked:
            self._call_roll(first=True)

    def _call_roll(self, *, first: bool = False) -> None:
        self._offered.changing()
        if self._rolling:
            self._again = True
        else:
            self._rolling = True
            self._tasks.start_soon(self._roll, first)

    async def _roll(self, first: bool) -> None:
        """List the server's tools, without waiting for the client to; a first list that lacks a name ends it all."""
        try:
            await self._list()
            while self._again:  # the list changed meanwhile
                self._again = False
                self._offered.changing()
                await self._list()
        finally:
            self._rolling = False
            self._offered.settle()
        if self._offered.missing is None:
            log.error(
                "the MCP server does not list its tools; those that the rules don't name are denied",
                extra={"code": "mcp_unlisted"},
            )
        if first and self._bridge.gate.enforces and self._offered.refusal is not None:
            await self.ended(self._offered.refusal)
            self._tasks.cancel_scope.cancel()

    async def _list(self) -> None:
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            given = {} if cursor is None else {"cursor": cursor}
            answer = await self._ask("tools/list", {**self._meta, **given})
            if not isinstance(answer, JSONRPCResponse):
                return
            cursor = self._offered.page(cursor, answer.result)
            if cursor is None:
                return

    async def _ask(self, method: str, params: Params) -> JSONRPCMessage | None:
        """A request of our own; None when the server doesn't answer in time."""
        own = f"preaction-{next(self._numbers)}"
        into, out = anyio.create_memory_object_stream[JSONRPCMessage](1)
        self._own[own] = into
        with into, out, anyio.move_on_after(LIST_S):
            await self._to_server(JSONRPCRequest(jsonrpc="2.0", id=own, method=method, params=dict(params)))
            return await out.receive()
        return None

    # When no answer comes ---------------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Answer requests that waited too long, until cancelled."""
        while True:
            await anyio.sleep(min(5.0, self._silence_s / 4))
            now = anyio.current_time()
            late = [request_id for request_id, waiting in self._waiting.items() if waiting.ends <= now]
            for request_id in late:
                await self._refuse(request_id, SERVER_GONE, f"no answer within {self._silence_s:g} seconds")
                params = {"requestId": request_id, "reason": "no answer in time"}
                cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
                await self._cancelled(cancelled)

    async def ended(self, why: str) -> None:
        """The server is gone: every request that waits is answered with an error, and so is any that comes."""
        self._gone = why
        waiting, self._waiting = self._waiting, {}
        for request_id, one in waiting.items():
            if one.judging is not None:
                one.judging.cancel()
            if not one.cancelled:
                await self._refuse(request_id, SERVER_GONE, why)


def is_finite(value: Any) -> bool:
    """Whether every number in a JSON value is finite: others become null on the way, so what ran was not checked."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    return all(map(is_finite, value)) if isinstance(value, list) else True


def _finite_answer(message: JSONRPCResponse | JSONRPCError) -> JSONRPCResponse | JSONRPCError:
    part = message.result if isinstance(message, JSONRPCResponse) else message.error.data
    if is_finite(part):
        return message
    return _error(message.id, INTERNAL_ERROR, "the answer holds a number that is not finite")


def _meta(params: Params) -> Params:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _error(request_id: RequestId | None, code: int, why: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=f"preaction: {why}"))


def _denied(request_id: RequestId, text: str, params: Params) -> JSONRPCResponse | JSONRPCError:
    if "task" in params:  # who asks for a task reads no other result
        return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=INVALID_REQUEST, message=text))
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if PROTOCOL_KEY in _meta(params):  # since 2026-07-28 a result says that it is one
        result["resultType"] = "complete"
    return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
