"""The gate in the OpenAI Agents SDK: inside every function tool, and inside every MCP server.

    agent = Agent(name="desk", tools=[reply, get_job_decision, check_output])
    install(agent, gate)
    await Runner.run(agent, "…", run_config=RunConfig(group_id="chat-7"))

The session is the run's `group_id`, or what `session=` reads off the `ToolContext`, or `with gate.session(…)`.
"""

import copy
import inspect
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from preaction.adapters._bridge import Bridge, Go, Stop
from preaction.adapters._json_schema import MISFIT, fits, with_defaults
from preaction.adapters._turns import Turn, inside, outer_session, turn
from preaction.errors import ConfigurationError, InvalidJSON
from preaction.gate import ActionGate
from preaction.wire.strict_json import load_object

try:
    from agents import (
        Agent,
        AgentHooks,
        FunctionTool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
    )
    from agents.mcp import MCPServer
    from agents.tool_context import ToolContext
    from mcp.types import CallToolResult
except ImportError as error:
    raise ImportError(
        "preaction.adapters.openai_agents needs the OpenAI Agents SDK: pip install 'preaction[openai-agents]'"
    ) from error

__all__ = ["ainstall", "install"]

log = logging.getLogger("preaction")

AnyAgent = TypeVar("AnyAgent", bound="Agent[Any]")
F = TypeVar("F", bound=Callable[..., Any])
SessionOf = Callable[["ToolContext[Any]"], str | None]

MAX_CALLS: Final = 10_000
"""Calls of which it is kept in which answer of the model they came."""

_calling: ContextVar["ToolContext[Any] | None"] = ContextVar("preaction_openai_calling", default=None)
_answers: OrderedDict[object, object] = OrderedDict()


def install(
    agent: AnyAgent, gate: ActionGate, *, session: SessionOf | None = None, accept: Collection[str] = ()
) -> AnyAgent:
    """Put `gate` into `agent`, the agents it hands over to, those it has as tools, and give `agent` back.

    Function tools are replaced by guarded copies in `agent.tools`, so tools added later need another `install`, which
    leaves alone what is done. `session(context)` reads the session id off the SDK's `ToolContext`. Raises
    `ConfigurationError` for tools that the gate knows and that aren't there, and for tools that it can't cover: hosted
    and built-in ones, handoffs to an agent that can't be seen, a sandbox's; `accept` lists the names of those that
    may stay. With MCP servers, use `ainstall`, which can ask them for their tools.
    """
    graph = _Installer(gate, session).walk(agent)
    graph.bridge.require(graph.found, uncovered=graph.uncovered, accept=accept)
    return agent


async def ainstall(
    agent: AnyAgent, gate: ActionGate, *, session: SessionOf | None = None, accept: Collection[str] = ()
) -> AnyAgent:
    """As `install`, for agents with MCP servers, which must be connected: they are asked which tools they have."""
    graph = _Installer(gate, session).walk(agent)
    for server in graph.servers:
        graph.found |= {tool.name for tool in await server.list_tools()}
    graph.bridge.require(graph.found, uncovered=graph.uncovered, accept=accept)
    return agent


class _Installer:
    """One installation: where the walk has been, and what it found."""

    def __init__(self, gate: ActionGate, session: SessionOf | None) -> None:
        self.bridge: Bridge[ToolContext[Any] | None] = Bridge(
            gate, session=session and (lambda ctx: None if ctx is None else session(ctx)), session_of=_session_of
        )
        self.gate = gate
        self.found: set[str] = set()
        self.uncovered: set[str] = set()
        self.servers: list[MCPServer] = []
        self._seen: set[int] = set()

    def walk(self, agent: object) -> "_Installer":
        if not isinstance(agent, Agent):
            raise ConfigurationError(f"agent: an agents.Agent is needed, not {type(agent).__name__}")
        if id(agent) in self._seen:
            return self
        self._seen.add(id(agent))
        agent.tools[:] = [self._tool(tool) for tool in agent.tools]  # in place: clones share the list
        for server in agent.mcp_servers:
            self._server(server)
        for handoff in agent.handoffs:
            reference = getattr(handoff, "_agent_ref", None)  # none where the user wrote the Handoff
            target = handoff if isinstance(handoff, Agent) else reference and reference()
            if isinstance(target, Agent):
                self.walk(target)
            else:
                self.uncovered.add(getattr(handoff, "tool_name", str(handoff)))
        self.uncovered |= {type(one).__name__ for one in getattr(agent, "capabilities", None) or ()}  # a sandbox's
        if agent.tool_use_behavior != "run_llm_again":
            log.warning(
                "agent %r: tool_use_behavior can make a denial its final output",
                agent.name,
                extra={"code": "denial_can_be_output"},
            )
        _watch_answers(agent)
        return self

    # Read, ask, react: a function tool

    def _tool(self, tool: Any) -> Any:
        if not isinstance(tool, FunctionTool):
            self.uncovered.add(tool.name)
            return tool
        if getattr(tool, "_is_agent_tool", False):
            self.walk(getattr(tool, "_agent_instance", None))
        self.found.add(tool.name)
        if self._guarded(tool):
            return tool
        guarded = copy.copy(tool)  # which binds the SDK's own invoker to the copy
        inner = guarded.on_invoke_tool
        # The SDK decides on approvals and on typed outputs by that invoker, so such a tool must keep it.
        typed = getattr(tool, "output_json_schema", None) is not None and not self.gate.records(tool.name)
        if callable(tool.needs_approval) or typed:
            if self.gate.records(tool.name):
                raise ConfigurationError(f"{tool.name}: needs_approval can't be a function where results are recorded")

            async def guardrail(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
                answer = await self._ask(guarded, data.context, data.context.tool_arguments)
                if isinstance(answer, Stop):
                    return ToolGuardrailFunctionOutput.reject_content(answer.text)
                return ToolGuardrailFunctionOutput.allow()

            guards = [*(tool.tool_input_guardrails or ()), ToolInputGuardrail(_mark(guardrail, self.gate))]
            guarded.tool_input_guardrails = guards
            return guarded

        async def on_invoke_tool(ctx: ToolContext[Any], raw: str) -> Any:  # the SDK reads this annotation
            answer = await self._ask(guarded, ctx, raw)
            if isinstance(answer, Stop):
                return answer.text
            with inside(answer):
                result = await inner(ctx, raw if answer.arguments is None else json.dumps(answer.arguments))
            self.bridge.ran(answer, result)
            return result

        guarded.on_invoke_tool = _mark(on_invoke_tool, self.gate)
        return guarded

    def _guarded(self, tool: FunctionTool) -> bool:
        guards = [one.guardrail_function for one in tool.tool_input_guardrails or ()]
        return any(getattr(one, "preaction_gate", None) is self.gate for one in (tool.on_invoke_tool, *guards))

    async def _ask(self, tool: FunctionTool, ctx: "ToolContext[Any]", raw: str) -> Go | Stop:
        names = (tool.name, getattr(ctx, "qualified_tool_name", tool.name))
        if not any(self.gate.is_gated(name) for name in (ctx.tool_name, *names)):
            return await self.bridge.aask(ctx.tool_name, {}, ctx, names=names, batch=_turn_of(ctx))
        arguments: dict[str, Any] | None = None
        try:
            arguments = with_defaults(tool.params_json_schema, load_object(raw or "{}"))
            misfit = not fits(tool.params_json_schema, arguments)
        except (InvalidJSON, RecursionError):
            misfit = False
        asked = None if misfit else arguments  # no arguments: the gate denies, and sees to observe mode
        answer = await self.bridge.aask(ctx.tool_name, asked, ctx, names=names, batch=_turn_of(ctx))
        return Stop(MISFIT, answer.verdict) if misfit and isinstance(answer, Stop) else answer

    # The same for an MCP server: its method is the last place before the act, and has the arguments that are sent

    def _server(self, server: MCPServer) -> None:
        self.servers.append(server)
        if getattr(server.call_tool, "preaction_gate", None) is self.gate:
            return
        inner, inner_meta = server.call_tool, getattr(server, "tool_meta_resolver", None)

        async def tool_meta_resolver(context: Any) -> Any:
            """Called by the SDK right before `call_tool`, which itself isn't told the context."""
            _calling.set(context.run_context)
            meta = None if inner_meta is None else inner_meta(context)
            return await meta if inspect.isawaitable(meta) else meta

        async def call_tool(tool_name: str, arguments: dict[str, Any] | None, *rest: Any, **more: Any) -> Any:
            ctx = _calling.get()
            names, batch = ((), None) if ctx is None else ((ctx.tool_name,), _turn_of(ctx))
            answer = await self.bridge.aask(tool_name, arguments or {}, ctx, names=names, batch=batch)
            if isinstance(answer, Stop):
                block = {"type": "text", "text": answer.text}
                return CallToolResult.model_validate({"content": [block], "isError": True})
            sent = arguments if answer.arguments is None else answer.arguments
            result = await inner(tool_name, sent, *rest, **more)
            self.bridge.ran(answer, result)
            return result

        # On the object, since agents and their clones share it
        vars(server).update(call_tool=_mark(call_tool, self.gate), tool_meta_resolver=tool_meta_resolver)


def _session_of(ctx: "ToolContext[Any] | None") -> str | None:
    config = getattr(ctx, "run_config", None)
    return (config and config.group_id) or outer_session()


def _turn_of(ctx: "ToolContext[Any]") -> Turn:
    """The answer of the model in which this call came; where that wasn't seen, how many answers there were."""
    known = _answers.get((id(ctx.usage), ctx.tool_call_id)) or _answers.get(ctx.tool_call_id)
    return turn(known or (id(ctx.usage), ctx.usage.requests))


def _watch_answers(agent: Agent[Any]) -> None:
    """Note which calls came in one answer of the model: no context of the SDK's tells (A5)."""
    hooks = agent.hooks = agent.hooks or AgentHooks()
    inner = hooks.on_llm_end
    if getattr(inner, "preaction_gate", False):
        return

    async def on_llm_end(context: Any, agent: Any, response: Any) -> None:
        answer = object()
        for item in response.output:
            if (call_id := getattr(item, "call_id", None)) is not None:
                # By run, as some models number their calls anew; by the id alone, for a run that is taken up again
                for key in ((id(context.usage), call_id), call_id):
                    _answers[key] = answer
                    _answers.move_to_end(key)
        while len(_answers) > MAX_CALLS:
            _answers.popitem(last=False)
        await inner(context, agent, response)

    vars(hooks)["on_llm_end"] = _mark(on_llm_end, True)


def _mark(function: F, gate: object) -> F:
    """What guards is known by its gate, so that a second `install` leaves it alone."""
    vars(function)["preaction_gate"] = gate
    return function
