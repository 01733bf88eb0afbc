"""Microsoft Agent Framework: the gate inside every function tool, and middleware that brings it session and turn.

    install(agent, gate)
    await agent.run("…", session=agent.create_session())

`FunctionTool.invoke` is the last place before the act: all function middleware, which may rewrite arguments or answer
in the tool's stead, has had its say. A denial is the tool's result, so that the loop counts no error.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any

from preaction.adapters._bridge import Bridge, Stop
from preaction.adapters._reach import reached
from preaction.adapters._turns import inside, outer_session, turn
from preaction.gate import ActionGate

try:
    from agent_framework import (
        Agent,
        ChatContext,
        ChatMiddleware,
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
    )
except ImportError as error:
    raise ImportError("this adapter needs Agent Framework: pip install 'preaction[agent-framework]'") from error

__all__ = ["install"]

GUARD = "_preaction_guard"
SessionOf = Callable[[FunctionInvocationContext], str | None]

_turn: ContextVar[object] = ContextVar("preaction_agent_framework_turn", default=None)
_gated: ContextVar[bool] = ContextVar("preaction_agent_framework_gated", default=False)


def install(
    agent: Agent | Sequence[Agent],
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> None:
    """Guard the tools of `agent` and of the agents that are its tools, in place, and append to their middleware.

    The middleware guards tools that come later, such as those of `agent.run(tools=…)` or of an MCP server. The session
    is what `session(context)` says, else that of the call whose tool runs this agent, else `session.session_id` of the
    run: without one, gated calls are denied. Raises `ConfigurationError` for names that the gate knows and no tool has
    (an MCP server's are known once it is connected), and for what runs elsewhere (hosted tools, tools without an
    implementation, agents that aren't an `Agent`) unless `accept` lists its name.
    """
    gating = _Gating(Bridge(gate, session=session, session_of=_session_of))
    for one in agent if isinstance(agent, Sequence) else [agent]:
        gating.agent(one)
    gating.bridge.require(gating.found, uncovered=gating.uncovered, accept=accept)


class _Turns(ChatMiddleware):  # type: ignore[misc]
    """Every question to the model begins a turn; the calls of one answer may run side by side."""

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        _turn.set(object())
        await call_next()


class _Gating(FunctionMiddleware):  # type: ignore[misc]
    """Guards what it meets. It has to be there, too, for a tool to be told its context and so the session."""

    def __init__(self, bridge: Bridge[FunctionInvocationContext | None]) -> None:
        self.bridge = bridge
        self.found: set[str] = set()
        self.uncovered: set[str] = set()

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        self.tool(context.function)
        await call_next()

    def agent(self, agent: Any) -> None:
        """Guard the tools of an agent, once."""
        if not isinstance(agent, Agent):
            self.uncovered.add(getattr(agent, "name", None) or type(agent).__name__)  # its tools run somewhere else
            return
        if self in (agent.middleware or ()):
            return
        agent.middleware = [*(agent.middleware or ()), _Turns(), self]
        for tool in [
            *(agent.default_options.get("tools") or ()),
            *(f for mcp in agent.mcp_tools for f in mcp.functions),
        ]:
            self.tool(tool)

    def tool(self, tool: Any) -> None:
        """Put the gate into a tool object, once, and into the agents that it runs."""
        if not isinstance(tool, FunctionTool) or tool.func is None:
            hosted = tool if isinstance(tool, dict) else vars(tool)
            self.uncovered.add(str(hosted.get("name") or hosted.get("type") or type(tool).__name__))
        elif getattr(tool, GUARD, None) != (id(tool), id(self.bridge.gate)):
            setattr(tool, GUARD, (id(tool), id(self.bridge.gate)))
            for inner in reached(tool.func, _leads):
                if isinstance(inner, Agent):
                    self.agent(inner)
                elif _is_server(inner):
                    _send_once(inner)
            tool.invoke = _guarded(tool, tool.invoke, self.bridge)
            self.found.update(_names(tool))
        else:
            self.found.update(_names(tool))


def _guarded(
    tool: FunctionTool, invoke: Callable[..., Any], bridge: Bridge[FunctionInvocationContext | None]
) -> Callable[..., Any]:
    async def guarded(*, arguments: Any = None, context: Any = None, **more: Any) -> list[Content] | Any:
        options = {name: more.pop(name) for name in ("tool_call_id", "skip_parsing") if name in more}
        given = more if arguments is None and more else arguments or getattr(context, "arguments", None) or {}
        given = given.model_dump(exclude_unset=True) if hasattr(given, "model_dump") else given
        fields = {**_defaults(tool), **given} if isinstance(given, dict) else given
        answer = await bridge.aask(tool.name, fields, context, names=_names(tool), batch=_batch())
        if isinstance(answer, Stop):
            return answer.text if options.get("skip_parsing") else [Content.from_text(answer.text)]
        if answer.arguments is not None:
            given = {name: answer.arguments[name] for name in given}
            if context is not None:  # a prepared copy, which middleware may have changed since, would run instead
                context.metadata.pop(PREPARED, None)
        once = _gated.set(answer.arguments is not None)
        try:
            with inside(answer):
                result = await invoke(arguments=given, context=context, **options)
        finally:
            _gated.reset(once)
        bridge.ran(answer, result)
        return result

    return guarded


PREPARED = "_prepared_function_arguments"


def _names(tool: FunctionTool) -> list[str]:
    """Its name, and the one that its MCP server knows it by."""
    remote = (tool.additional_properties or {}).get("_mcp_remote_name")
    return [tool.name, remote] if isinstance(remote, str) else [tool.name]


def _batch() -> object:
    """None where no model asked: a call by the user's own code, which sees each result before it goes on."""
    return None if _turn.get() is None else turn(_turn.get())


def _session_of(context: FunctionInvocationContext | None) -> str | None:
    session = getattr(context, "session", None)
    return outer_session() or getattr(session, "session_id", None)


def _leads(thing: object) -> tuple[()] | None:
    """The search through what a function holds ends at agents, which guard their own tools, and at MCP servers."""
    return () if isinstance(thing, Agent) or _is_server(thing) else None


def _is_server(thing: object) -> bool:
    return hasattr(thing, "call_tool") and hasattr(thing, "connect")


def _send_once(server: Any) -> None:
    """Let the framework connect again when the connection broke in a gated call, and not send that call once more."""
    connect = server.connect
    if hasattr(connect, GUARD):
        return

    async def connect_only(*, reset: bool = False) -> None:
        await connect(reset=reset)
        if reset and _gated.get():
            raise ConnectionError("the connection broke during the call, which may have acted: it is not sent again")

    setattr(connect_only, GUARD, connect)
    server.connect = connect_only


def _defaults(tool: FunctionTool) -> dict[str, Any]:
    """What a function would run with though the model didn't say it: the gate is to see that too."""
    if tool.input_model is None:
        return {}
    fields = tool.input_model.model_fields.items()
    return {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}
