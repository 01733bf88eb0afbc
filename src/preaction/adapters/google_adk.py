"""Google's Agent Development Kit: the gate inside every tool object, and a plugin for tools that come later.

    plugin = install(root_agent, gate)
    runner = InMemoryRunner(app=App(name="desk", root_agent=root_agent, plugins=[plugin]))

`BaseTool.run_async` is the last place before the act: all plugins and callbacks, which may rewrite arguments or answer
in the tool's stead, have had their say. A denial is the function response `{"error": text}`.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from preaction.adapters._bridge import Bridge, Stop
from preaction.adapters._turns import inside, outer_session, turn
from preaction.gate import ActionGate

try:
    from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.adk.workflow import FunctionNode
except ImportError as error:
    raise ImportError("this adapter needs the Google ADK: pip install 'preaction[google-adk]'") from error

__all__ = ["GatePlugin", "ainstall", "install"]

GUARD = "_preaction_guard"
SessionOf = Callable[[ToolContext], str | None]


def install(
    agent: BaseAgent | Sequence[BaseAgent],
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> "GatePlugin":
    """Guard the tools of `agent`, its sub-agents and the agents that are its tools, in place; returns the plugin.

    Hand the plugin to `App(plugins=[…])`: it guards tools that join an agent later. The session is what
    `session(tool_context)` says, else that of the call whose tool runs this agent, else ADK's session id. Raises
    `ConfigurationError` for names that the gate knows and no tool has (a toolset's are only known to `ainstall`), and
    for what runs elsewhere or is no tool (models' built-in tools, code executors, remote and custom agents, workflow
    nodes) unless `accept` lists its name.
    """
    walk = _Walk(GatePlugin(gate, session=session), agent)
    walk.plugin.bridge.require(walk.found, uncovered=walk.uncovered, accept=accept)
    return walk.plugin


async def ainstall(
    agent: BaseAgent | Sequence[BaseAgent],
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> "GatePlugin":
    """As `install`, and asks the toolsets (MCP servers among them) for their tools first."""
    walk = _Walk(GatePlugin(gate, session=session), agent)
    for toolset in walk.toolsets:
        for tool in await toolset.get_tools_with_prefix():
            walk.found.update(_names(tool, toolset.tool_name_prefix))
    walk.plugin.bridge.require(walk.found, uncovered=walk.uncovered, accept=accept)
    return walk.plugin


class GatePlugin(BasePlugin):  # type: ignore[misc]
    """Guards a tool that `install` has not seen, such as one of a toolset added since, before its first call."""

    def __init__(self, gate: ActionGate, *, session: SessionOf | None = None) -> None:
        super().__init__(name="preaction")
        self.bridge: Bridge[ToolContext] = Bridge(gate, session=session, session_of=_session_of)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Says nothing itself: the guarded tool does."""
        self.guard(tool)

    def guard(self, tool: BaseTool, prefix: str | None = None) -> None:
        """Put the gate into the tool object, once; a copy, as toolsets make to rename a tool, is another object."""
        if getattr(tool, GUARD, None) != (id(tool), id(self.bridge.gate)):
            setattr(tool, GUARD, (id(tool), id(self.bridge.gate)))
            tool.run_async = _guarded(tool, tool.run_async, self.bridge, _names(tool, prefix))


class _Walk:
    """Guards everything below some agents, and keeps what it found."""

    def __init__(self, plugin: GatePlugin, agent: BaseAgent | Sequence[BaseAgent]) -> None:
        self.plugin = plugin
        self.found: set[str] = set()
        self.uncovered: set[str] = set()
        self.toolsets: list[Any] = []
        self._seen: list[Any] = []
        for one in agent if isinstance(agent, list | tuple) else [agent]:
            self._agent(one)

    def _agent(self, agent: Any) -> None:
        if any(agent is one for one in self._seen):
            return
        self._seen.append(agent)
        if not isinstance(agent, LlmAgent | LoopAgent | ParallelAgent | SequentialAgent):
            self.uncovered.add(agent.name)  # its own code, or another machine, may act
        if getattr(agent, "code_executor", None) is not None:
            self.uncovered.add(f"{agent.name}.code_executor")
        for index, tool in enumerate(getattr(agent, "tools", ())):
            agent.tools[index] = self._tool(tool)
        for sub_agent in getattr(agent, "sub_agents", ()):
            self._agent(sub_agent)

    def _tool(self, tool: Any) -> Any:
        if callable(tool) and not isinstance(tool, BaseTool | BaseToolset | BaseAgent):
            tool = FunctionTool(func=tool)
        if isinstance(tool, BaseToolset):
            self.toolsets.append(_guard_toolset(tool, self.plugin))
        elif isinstance(tool, BaseTool):
            if type(tool).run_async is BaseTool.run_async:
                self.uncovered.add(tool.name)  # the model's provider runs it
            if isinstance(inner := getattr(tool, "agent", None), BaseAgent):
                self._agent(inner)
            if not isinstance(getattr(tool, "node", None), FunctionNode | None):
                self.uncovered.add(tool.name)  # a workflow, whose own tools are nodes
            self.plugin.guard(tool)
            self.found.add(tool.name)
        elif isinstance(tool, BaseAgent):
            self._agent(tool)
        else:
            self.uncovered.add(getattr(tool, "name", type(tool).__name__))
        return tool


def _guard_toolset(toolset: Any, plugin: GatePlugin) -> Any:
    listed = toolset.get_tools_with_prefix

    async def get_tools_with_prefix(readonly_context: Any = None) -> list[BaseTool]:
        tools: list[BaseTool] = await listed(readonly_context)
        for tool in tools:
            plugin.guard(tool, toolset.tool_name_prefix)
        return tools

    toolset.get_tools_with_prefix = get_tools_with_prefix
    return toolset


def _guarded(
    tool: BaseTool, run: Callable[..., Any], bridge: Bridge[ToolContext], names: list[str]
) -> Callable[..., Any]:
    async def run_async(*, args: Any, tool_context: ToolContext) -> Any:
        fields = {**_defaults(tool), **args} if isinstance(args, dict) else args
        answer = await bridge.aask(tool.name, fields, tool_context, names=names, batch=turn(_turn_of(tool_context)))
        if isinstance(answer, Stop):
            return {"error": answer.text}
        with inside(answer):
            result = await run(args=args if answer.arguments is None else answer.arguments, tool_context=tool_context)
        # Neither arguments that don't fit the function nor a stream that live mode has yet to read is a result.
        if not (inspect.isasyncgen(result) or (isinstance(result, dict) and "error" in result)):
            bridge.ran(answer, result)
        return result

    return run_async


def _names(tool: BaseTool, prefix: str | None) -> list[str]:
    return [tool.name, *([tool.name.removeprefix(f"{prefix}_")] if prefix else [])]


def _session_of(tool_context: ToolContext) -> str | None:
    return outer_session() or tool_context.session.id


def _turn_of(tool_context: ToolContext) -> object:
    """The event in which the model made this call; the whole invocation where none is kept, as in a workflow."""
    for event in reversed(tool_context.session.events):
        if event.invocation_id != tool_context.invocation_id:
            break
        if any(call.id == tool_context.function_call_id for call in event.get_function_calls()):
            return event.id
    return tool_context.invocation_id


def _defaults(tool: BaseTool) -> dict[str, Any]:
    """What a function would run with though the model didn't say it: the gate is to see that too."""
    try:
        parameters = inspect.signature(tool.func).parameters.values() if isinstance(tool, FunctionTool) else ()
    except (TypeError, ValueError):  # it has no signature to read
        return {}
    injected = getattr(tool, "_ignore_params", ("tool_context", "input_stream"))
    return {one.name: one.default for one in parameters if one.default is not one.empty and one.name not in injected}
