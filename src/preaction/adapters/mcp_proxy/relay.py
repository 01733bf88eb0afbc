"""One client, one server, and the gate between them, message by message.

What the client sends is passed on as it was parsed, once, here: a text that two parsers could read differently is read
by one. Only `tools/call` is judged; results of the decision and output-check tools are recorded before the client sees
them. A request that can't be answered any more is answered with an error.
"""

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
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

log = logging.getLogger("preaction")

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
SERVER_GONE: Final = -32000
MAX_OPEN: Final = 1_000
"""Requests that may wait for their answer at one time, in each direction."""
MAX_ROUNDS: Final = 1_000
"""Calls whose server asked for more input, and that are remembered until they are continued."""
PROTOCOL_KEY: Final = "io.modelcontextprotocol/protocolVersion"
LONG: Final = frozenset(("subscriptions/listen",))
"""Requests that stay open for as long as the client likes."""

Params = Mapping[str, Any]
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


class Rounds:
    """Calls that were let through and whose server asked for more input, by what the client sends to continue them."""

    def __init__(self) -> None:
        self._open: dict[tuple[str | None, str], str] = {}

    def opened(self, session_id: str | None, state: str, params: Params) -> None:
        """The server answered this call with a question."""
        self._open[session_id, state] = _call_key(params)
        while len(self._open) > MAX_ROUNDS:
            del self._open[next(iter(self._open))]

    def continues(self, session_id: str | None, params: Params) -> bool:
        """Whether this is the next round of such a call, with the same arguments; each is continued once."""
        state = params.get("requestState")
        return isinstance(state, str) and self._open.pop((session_id, state), None) == _call_key(params)


class Relay:
    """Passes messages on between one client and one server.

    `to_client(message, about)` and `to_server(message)` send; `about` is the request of the client that a message of
    the server most likely belongs to. `silence_s` is how long a request may wait without an answer or progress.
    `rounds` are shared where the next round of a call comes through another relay.
    """

    def __init__(
        self,
        bridge: Bridge[Params],
        to_client: ToClient,
        to_server: ToServer,
        tasks: TaskGroup,
        silence_s: float,
        rounds: Rounds,
    ) -> None:
        self._bridge = bridge
        self._to_client = to_client
        self._to_server = to_server
        self._tasks = tasks
        self._silence_s = silence_s
        self._waiting: dict[RequestId, Waiting] = {}
        self._asked: set[RequestId] = set()
        self._rounds = rounds
        self._warned = False
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
            case JSONRPCResponse() | JSONRPCError():
                if message.id in self._asked:  # an answer that nobody asked for could be taken for another's
                    self._asked.discard(message.id)
                    await self._to_server(_finite_answer(message))

    async def _request(self, message: JSONRPCRequest) -> None:
        if (why := self._refusal(message)) is not None:
            await self._refuse(message.id, INVALID_REQUEST, why)
            return
        params = message.params or {}
        waiting = Waiting(message.method, _token(params), anyio.current_time() + self._silence_s, params=params)
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
        if message.id in self._waiting:  # its answer could be recorded as that of the other
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
                if message.method == "notifications/cancelled":
                    cancelled = (message.params or {}).get("requestId")
                    if isinstance(cancelled, int | str):
                        self._asked.discard(cancelled)
                if is_finite(message.params):
                    await self._to_client(message, self._about(message.params))

    async def _answered(self, message: JSONRPCResponse | JSONRPCError) -> None:
        waiting = self._waiting.pop(message.id, None) if message.id is not None else None
        if waiting is None or message.id is None:
            log.warning("the MCP server answered a request that nobody made")
            return
        message = _finite_answer(message)
        if isinstance(message, JSONRPCResponse):
            self._note(waiting, message.result)
        if not waiting.cancelled:
            await self._to_client(message, message.id)

    def _note(self, waiting: Waiting, result: dict[str, Any]) -> None:
        if waiting.method == "tools/list":
            self._listed(waiting, result)
        if waiting.go is None:
            return
        if result.get("resultType", "complete") == "complete":
            if "task" not in result:  # a task was started: there is no result yet
                self._bridge.ran(waiting.go, result)
        elif isinstance(state := result.get("requestState"), str):
            self._rounds.opened(waiting.go.session_id, state, waiting.params)

    def _listed(self, waiting: Waiting, result: Mapping[str, Any]) -> None:
        """Say once when the whole list lacks a tool that the rules name: its name may be spelled differently."""
        if self._warned or result.get("nextCursor") or waiting.params.get("cursor"):
            return
        self._warned = True
        tools = result.get("tools")
        names = {tool.get("name") for tool in tools if isinstance(tool, dict)} if isinstance(tools, list) else set()
        if missing := sorted(self._bridge.gate.known_tools - names):
            log.warning("the MCP server has no tool called %s", ", ".join(missing))

    def _about(self, params: Params | None) -> RequestId | None:
        """The request that a message of the server belongs to: by its progress token, else the latest one."""
        token = (params or {}).get("progressToken")
        for request_id, waiting in self._waiting.items():
            if token is not None and waiting.token == token and type(waiting.token) is type(token):
                waiting.ends = max(waiting.ends, anyio.current_time() + self._silence_s)
                return request_id
        return next((one for one in reversed(self._waiting) if not self._waiting[one].cancelled), None)

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


def _token(params: Params) -> object:
    meta = params.get("_meta")
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _call_key(params: Params) -> str:
    return json.dumps([params.get("name"), params.get("arguments") or {}], sort_keys=True)


def _error(request_id: RequestId | None, code: int, why: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=f"preaction: {why}"))


def _denied(request_id: RequestId, text: str, params: Params) -> JSONRPCResponse:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    meta = params.get("_meta")
    if isinstance(meta, dict) and PROTOCOL_KEY in meta:  # since 2026-07-28 a result says that it is one
        result["resultType"] = "complete"
    return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
