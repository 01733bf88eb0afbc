"""Strands Agents: the gate inside every tool object, and a hook for tools that come later.

    install(agent, gate)
    agent("…")

`AgentTool.stream` is the last place before the act: all hooks, interventions and middleware, which may rewrite
arguments, swap the tool or lift a denial, have had their say. A denial is a tool result with the status `error`.
"""

import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from preaction.adapters._bridge import Bridge, Go, Stop
from preaction.adapters._turns import inside, outer_session, turn
from preaction.gate import ActionGate

try:
    from strands.hooks import BeforeToolCallEvent
    from strands.hooks.registry import HookOrder
    from strands.types._events import ToolResultEvent  # what a tool yields last; it has no public name
    from strands.types.tools import AgentTool
except ImportError as error:
    raise ImportError("this adapter needs Strands Agents: pip install 'preaction[strands]'") from error

__all__ = ["install"]

GUARD = "_preaction_guard"
State = Mapping[str, Any]
SessionOf = Callable[[State], str | None]


def install(
    agent: Any,
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> None:
    """Guard the tools of `agent` and of the agents that are its tools, in place, and add a hook to each agent.

    `agent` is an `Agent`, a `Graph` or `Swarm` of them, or a list. The hook guards tools that an agent loads later.
    The session is what `session(invocation_state)` says, else that of the call whose tool runs this agent, else
    `agent.session_id`, or its session manager's. Raises `ConfigurationError` for names that the gate knows and no tool
    has, and for agents that run elsewhere (such as an `A2AAgent`) unless `accept` lists their name.
    """
    gating = _Gating(Bridge(gate, session=session, session_of=_session_of))
    for one in agent if isinstance(agent, list | tuple) else [agent]:
        gating.agent(one)
    gating.bridge.require(gating.found, uncovered=gating.uncovered, accept=accept)


class _Gating:
    """Guards what it meets."""

    def __init__(self, bridge: Bridge[State]) -> None:
        self.bridge = bridge
        self.found: set[str] = set()
        self.uncovered: set[str] = set()
        self._seen: list[Any] = []

    def agent(self, agent: Any) -> None:
        """Guard the tools of an agent, or of the agents of a graph or swarm, once."""
        if any(agent is one for one in self._seen):
            return
        self._seen.append(agent)
        if isinstance(nodes := getattr(agent, "nodes", None), dict):
            for node in nodes.values():
                self.agent(node.executor)
        elif (registry := getattr(agent, "tool_registry", None)) is None:
            self.uncovered.add(getattr(agent, "name", None) or type(agent).__name__)
        else:
            # Last, so that it sees a tool that another hook puts in; `def`, since not every callable is awaited.
            agent.hooks.add_callback(BeforeToolCallEvent, self._before, order=HookOrder.SDK_LAST)
            for tool in [*registry.registry.values(), *registry.dynamic_tools.values()]:
                self.tool(tool)

    def _before(self, event: BeforeToolCallEvent) -> None:
        if event.selected_tool is not None:
            self.tool(event.selected_tool)

    def tool(self, tool: Any) -> None:
        """Put the gate into a tool object, once, and into the agent that it runs."""
        self.found.update(_names(tool))
        if getattr(tool, GUARD, None) == (id(tool), id(self.bridge.gate)):
            return
        setattr(tool, GUARD, (id(tool), id(self.bridge.gate)))
        inner = getattr(tool, "agent", None) or getattr(tool, "_agent", None)
        if hasattr(inner, "tool_registry"):
            self.agent(inner)
        tool.stream = _guarded(tool, tool.stream, self.bridge)


def _guarded(
    tool: AgentTool, run: Callable[..., Any], bridge: Bridge[State]
) -> Callable[..., AsyncGenerator[Any, None]]:
    async def stream(tool_use: dict[str, Any], invocation_state: State, **more: Any) -> AsyncGenerator[Any, None]:
        given = tool_use.get("input")
        fields = {**_defaults(tool), **given} if isinstance(given, dict) else given
        names, batch = [tool_use.get("name", tool.tool_name), *_names(tool)], _batch(tool_use, invocation_state)
        answer = await bridge.aask(tool.tool_name, fields, invocation_state, names=names, batch=batch)
        if isinstance(answer, Stop):
            content = [{"text": answer.text}]
            yield ToolResultEvent({"toolUseId": tool_use.get("toolUseId"), "status": "error", "content": content})
            return
        if answer.arguments is not None:
            tool_use = {**tool_use, "input": {name: answer.arguments[name] for name in given or ()}}
            if "_tool_context" in more:  # it shows the tool its own call
                more["_tool_context"] = copy.copy(more["_tool_context"])
                more["_tool_context"].tool_use = tool_use
        last = None
        async with aclosing(_inside(answer, run(tool_use, invocation_state, **more))) as events:
            async for last in events:
                if isinstance(last, ToolResultEvent):
                    break
                yield last
        result = (
            last.tool_result if isinstance(last, ToolResultEvent) else last
        )  # else plain values: the last one is it
        if not (isinstance(result, dict) and result.get("status") == "error"):
            bridge.ran(answer, result)
        if isinstance(last, ToolResultEvent):
            yield last

    return stream


async def _inside(go: Go, events: Any) -> AsyncGenerator[Any, None]:
    """The events of a body; between two of them the runtime is outside of it."""
    try:
        while True:
            with inside(go):
                try:
                    event = await anext(events)
                except StopAsyncIteration:
                    return
            yield event
    finally:
        await events.aclose()


def _names(tool: AgentTool) -> list[str]:
    """Its name, and the one that its MCP server knows it by."""
    remote = getattr(getattr(tool, "mcp_tool", None), "name", None)
    return [tool.tool_name, remote] if isinstance(remote, str) else [tool.tool_name]


def _session_of(invocation_state: State) -> str | None:
    agent = invocation_state.get("agent")
    kept = getattr(agent, "session_id", None) or getattr(getattr(agent, "_session_manager", None), "session_id", None)
    return outer_session() or kept


def _batch(tool_use: dict[str, Any], invocation_state: State) -> object:
    """The model's message that made this call; None for a call by the user's own code, `agent.tool.name(…)`."""
    for message in reversed(getattr(invocation_state.get("agent"), "messages", ())):
        calls = tuple(block["toolUse"]["toolUseId"] for block in message["content"] if "toolUse" in block)
        if tool_use.get("toolUseId") in calls:
            return turn(calls)
    return None


def _defaults(tool: AgentTool) -> dict[str, Any]:
    """What a tool would run with though the model didn't say it: the gate is to see that too."""
    schema = tool.tool_spec["inputSchema"]
    fields = schema.get("json", schema).get("properties", {}).items()
    return {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
