"""The gate in Pydantic AI: a capability that puts it around every leaf toolset, where the arguments are final.

    agent = Agent(model, tools=[reply, get_job_decision, check_output], capabilities=[Gated(gate)])
    await agent.run("…", conversation_id="chat-7")

The session is the run's `conversation_id`, or what `session=` reads off the `RunContext`. Without either, Pydantic AI
makes an id up for each run, and what one run decided is unknown to the next.
"""

import copy
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from preaction.adapters._bridge import Bridge, Stop
from preaction.adapters._plain import plain
from preaction.adapters._turns import Turn, inside, outer_session, turn
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturn
    from pydantic_ai.tools import ToolDenied
    from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
    from pydantic_ai.toolsets.abstract import ToolsetTool
except ImportError as error:
    raise ImportError(
        "preaction.adapters.pydantic_ai needs Pydantic AI: pip install 'preaction[pydantic-ai]'"
    ) from error

__all__ = ["Gated"]

SessionOf = Callable[["RunContext[Any]"], str | None]


class Gated(AbstractCapability[Any]):  # type: ignore[misc]  # untyped where the runtime is missing
    """A capability that puts `gate` into an agent: `Agent(…, capabilities=[Gated(gate)])`, or per run.

    It covers tools, toolsets and MCP toolsets, those given to `run(toolsets=…)` and `override` as well.
    `session(ctx)` reads the session id off the `RunContext`. Before the first request to the model it raises
    `ConfigurationError`, out of `run`, for tools that the gate knows and that the agent hasn't got, and for what it
    can't cover: external tools, those that the provider runs, MCP toolsets with a `process_tool_call`. Output
    functions are refused when they are about to run: they act, and are no tools. `accept` lists the names of those
    that may stay. An agent that a tool runs needs a `Gated` of its own; it then shares the session of the call.
    """

    def __init__(self, gate: ActionGate, *, session: SessionOf | None = None, accept: Collection[str] = ()) -> None:
        self.bridge: Bridge[RunContext[Any]] = Bridge(gate, session=session, session_of=_session_of)
        self.accept = frozenset(accept)

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost, so that other capabilities' edits come first."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """The toolset with the gate around each leaf: inside what other capabilities and the user wrapped around it."""
        found: set[str] = set()
        uncovered: set[str] = set()
        leaves = toolset.visit_and_replace(lambda leaf: _Leaf(leaf, self, found, uncovered))
        return _Whole(leaves, self, found, uncovered)

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Refuse tools that the provider runs itself."""
        native = {tool.unique_id for tool in request_context.model_request_parameters.native_tools}
        self.bridge.require(self.bridge.gate.known_tools, uncovered=native, accept=self.accept)
        return request_context

    async def wrap_output_process(
        self, ctx: RunContext[Any], *, output_context: Any, output: Any, handler: Callable[[Any], Any]
    ) -> Any:
        """Refuse output functions: they act, are no tools, and a denial could not be told to the model."""
        if output_context.has_function:
            tool = output_context.tool_def and output_context.tool_def.name
            names = {str(name) for name in (getattr(output_context, "function_name", None), tool) if name}
            if not names & self.accept:
                raise ConfigurationError(f"output function not covered by the gate: {', '.join(sorted(names)) or '?'}")
        return await handler(output)


@dataclass
class _Whole(WrapperToolset[Any]):  # type: ignore[misc]  # untyped where the runtime is missing
    """All toolsets of a run: what is there is compared with what the gate knows, before any model is asked."""

    capability: Gated
    found: set[str]
    uncovered: set[str]

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools: dict[str, ToolsetTool[Any]] = await super().get_tools(ctx)
        external = {name for name, tool in tools.items() if tool.tool_def.kind == "external"}
        found, uncovered = (self.found | tools.keys()) - external, self.uncovered | external
        self.capability.bridge.require(found, uncovered=uncovered, accept=self.capability.accept)
        return tools


@dataclass
class _Leaf(WrapperToolset[Any]):  # type: ignore[misc]  # untyped where the runtime is missing
    """One toolset behind the gate."""

    capability: Gated
    found: set[str]
    uncovered: set[str]

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        tools: dict[str, ToolsetTool[Any]] = await super().get_tools(ctx)
        self.found |= {name for name, tool in tools.items() if tool.tool_def.kind != "external"}
        if (
            getattr(self.wrapped, "process_tool_call", None) is not None
        ):  # runs after the gate, and can send another call
            self.uncovered.add(f"process_tool_call of {self.wrapped.label}")
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        bridge = self.capability.bridge
        names = [one for one in (ctx.tool_name, tool.tool_def.name) if one]
        judged: Any = {}
        if any(bridge.gate.is_gated(one) for one in (name, *names)):
            try:
                tool_args = copy.deepcopy(tool_args)  # ours alone from here on
                judged = plain(tool_args)
            except (TypeError, ValueError, AttributeError, RecursionError, copy.Error):
                judged = None  # which the gate denies
        answer = await bridge.aask(name, judged, ctx, names=names, batch=_turn_of(ctx))
        if isinstance(answer, Stop):
            return ToolDenied(answer.text)
        if answer.arguments is not None and judged == tool_args:
            tool_args = answer.arguments  # else it holds dates or models, which the body gets as they were validated
        with inside(answer):
            result = await super().call_tool(name, tool_args, ctx, tool)
        bridge.ran(answer, result.return_value if isinstance(result, ToolReturn) else result)
        return result


def _session_of(ctx: "RunContext[Any]") -> str | None:
    return outer_session() or ctx.conversation_id


def _turn_of(ctx: "RunContext[Any]") -> Turn:
    """The model's answer that holds this call: it stays the same when a run is taken up again after an approval."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
            if ctx.tool_call_id in calls:
                return turn((message.timestamp, *calls))
    return turn((ctx.run_id, ctx.run_step))
