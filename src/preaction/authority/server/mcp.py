"""The authority's tools over MCP, streamable HTTP, in both eras of the protocol.

Every request stands alone: with a handshake there is no session to keep, so workers share nothing and nothing outlives
its answer. Who asks was settled, and the body was read strictly, before anything here sees it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.types import Message, Receive, Send

from preaction.authority.keys import Caller
from preaction.authority.refusal import Refused
from preaction.authority.server.watch import seen
from preaction.authority.service import Service
from preaction.mcp_tools import AuthorityTool, ToolRefused, build_server, refused
from preaction.wire.models import PackRefusal

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

MAX_BYTES: Final = 512 * 1024
"""A request at most: what `check_output` may have over REST, and the protocol's own words around it, escaped."""

_CALLER: Final = "preaction.caller"


def installed() -> bool:
    """Whether the MCP SDK is there."""
    return find_spec("mcp_types") is not None


class McpTools:
    """The tools of one service. The SDK is imported by the first request: most authorities never get one."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @cached_property
    def _server(self) -> "Server[Any]":
        return build_server(self._answer, self._jobs, version="0")

    async def respond(self, caller: Caller, request: Request, body: bytes, send: Send) -> None:
        """Answer one POST whose sender is known and whose body was read."""
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=len(body) + 1
        )
        async with manager.run():
            await manager.handle_request({**request.scope, _CALLER: caller}, _again(body, request.receive), send)

    async def _jobs(self, request: Any) -> Sequence[Mapping[str, Any]]:
        return [each.model_dump(mode="json") for each in self._service.list_jobs(request.scope[_CALLER])]

    async def _answer(self, request: Any, tool: AuthorityTool, arguments: dict[str, Any]) -> Mapping[str, Any]:
        caller = request.scope[_CALLER]
        try:
            if tool.name == "describe_job":
                model: Any = self._service.describe_job(caller, arguments["job"])
            elif tool.name == "check_output":
                ask = partial(self._service.check_output, caller, arguments.pop("execution_id"), arguments)
                model = await to_thread.run_sync(ask)
            else:
                model = await to_thread.run_sync(partial(self._service.decide, caller, arguments.pop("job"), arguments))
        except Refused as refusal:
            raise _as_tool_refusal(refusal) from None
        seen(request.scope).answered(model)
        plain: Mapping[str, Any] = model.model_dump(mode="json", exclude_unset=True)
        return plain


def _as_tool_refusal(refusal: Refused) -> ToolRefused:
    problem = refusal.problem
    places = () if isinstance(problem, PackRefusal) else problem.errors
    return refused(problem.title, ((each.pointer, each.detail) for each in places))


def _again(body: bytes, receive: Receive) -> Receive:
    """The body as if it still came, and then whatever comes: the client that leaves."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
