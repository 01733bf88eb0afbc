"""LlamaIndex: the gate stands inside the tool object; the runtime has no hook that could deny.

`install` covers an agent or an `AgentWorkflow` with all that it holds, `guard` a tool that your own code calls.
"""

import copy
import functools
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import uuid4

from preaction._core.verdict import ActionDenied, Verdict
from preaction.adapters._bridge import Bridge, Go, SessionOf, Stop
from preaction.adapters._reach import reached
from preaction.adapters._turns import inside, outer_session, turn
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent, CodeActAgent
    from llama_index.core.tools import BaseTool, FunctionTool, ToolOutput, adapt_to_async_tool
    from llama_index.core.workflow import Context
except ImportError as error:
    raise ImportError(
        "preaction.adapters.llama_index needs LlamaIndex: pip install 'preaction[llama-index]'"
    ) from error

__all__ = ["guard", "install"]

T = TypeVar("T")

SESSION_KEY: Final = "preaction_session"
"""Where a run's session is looked for: `await ctx.store.set("preaction_session", "chat-7")`."""
TURN_KEY: Final = "preaction_turn"
JSON: Final = (str, int, float, list, tuple, dict, type(None))
CONTEXT: Final = "preaction_context"
"""The parameter by which a guarded tool is given the run's `Context`, if it has none of its own."""


@dataclass(frozen=True, slots=True)
class _Run:
    """The run that a call belongs to: its `Context`, None for a call by hand, and what its store says."""

    context: Any = None
    session: str | None = None
    turn: object = None


# Read ---------------------------------------------------------------------------------------------------------------


async def _run_of(context: Any) -> _Run:
    if context is None:
        return _Run()
    stored = await context.store.get(SESSION_KEY, default=None)
    which = await context.store.get(TURN_KEY, default=None)
    if which is None:  # guarded, but not installed: the turn's number is known only within one run
        which = ("turn", await context.store.get("num_iterations", default=0))
    return _Run(context, stored, turn(which))


class _Guarded:
    """One tool behind the gate."""

    def __init__(self, tool: Any, bridge: Bridge[_Run]) -> None:
        if not type(tool).__call__.__module__.startswith("llama_index.core.tools."):
            raise ConfigurationError(f"{tool.metadata.name}: its class has its own __call__, which can't be guarded")
        self.tool, self.bridge, self.name = tool, bridge, tool.metadata.get_name()
        self.function: Any = tool if isinstance(tool, FunctionTool) else None
        self.context = getattr(tool, "ctx_param_name", None)
        self.signature = inspect.signature(tool.real_fn) if self.function else inspect.Signature()

    def twin(self) -> Any:
        """A copy of the tool, or a `FunctionTool` in its place, that asks the gate and then calls the original."""
        if self.function is None:  # only a `FunctionTool` is given the run's context
            twin = FunctionTool(fn=self.fn(), async_fn=self.async_fn(), metadata=self.tool.metadata)
        else:
            twin = copy.copy(self.tool)
            twin._fn, twin._async_fn = self.fn(), self.async_fn()
            twin._real_fn = twin._async_fn if inspect.iscoroutinefunction(self.function.real_fn) else twin._fn
        twin.call, twin.acall, twin.preaction_gate = self.call, self.acall, self.bridge.gate
        twin.requires_context, twin.ctx_param_name = True, self.context or CONTEXT
        return twin

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """As the tool's own, behind the gate. Without a `Context`: the session is that of `with gate.session(…)`."""
        _, fields = self.read(args, kwargs)
        answer = self.bridge.ask(self.name, fields, _Run())
        if isinstance(answer, Stop):
            return self.denied(answer, kwargs)
        args, kwargs = self.checked(answer, args, kwargs)
        with inside(answer):
            output = self.tool.call(*args, **kwargs)
        return self.ran(answer, output)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        """As the tool's own, behind the gate."""
        context, fields = self.read(args, kwargs)
        answer = await self.bridge.total(self.name, self.ask(context, fields))
        if isinstance(answer, Stop):
            return self.denied(answer, kwargs)
        args, kwargs = self.checked(answer, args, kwargs)
        with inside(answer):
            output = await self.tool.acall(*args, **kwargs)
        return self.ran(answer, output)

    async def ask(self, context: Any, fields: dict[str, Any] | None) -> Go | Stop:
        """The bridge's answer, for the run that the call belongs to."""
        run = await _run_of(context)
        return await self.bridge.aask(self.name, fields, run, batch=run.turn)

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
        """The run's context, and the fields that the body would run with; None: they can't be told."""
        context = kwargs.get(self.context or CONTEXT)
        context = context if isinstance(context, Context) else None
        if context is not None and self.context is None:
            del kwargs[CONTEXT]
        if self.function is None:
            names = self.names(args)
            return context, None if len(names) < len(args) else {**dict(zip(names, args, strict=True)), **kwargs}
        given = {**getattr(self.function, "_field_defaults", {}), **self.function.partial_params, **kwargs}
        try:
            bound = self.signature.bind(*args, **given)
        except TypeError:  # the body would refuse it as well, but the gate's reason comes first
            return context, None if args else given
        bound.apply_defaults()
        fields: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                fields |= {name: value} if value else {}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                fields |= value
            elif not (value is context and context) and (name in kwargs or isinstance(value, JSON)):
                fields[name] = value  # else it is an object of the developer's own, which no model can set
        return context, fields

    def names(self, args: tuple[Any, ...]) -> list[str]:
        """What the positional arguments of a tool without a signature are called: its schema says it."""
        return list(self.tool.metadata.get_parameters_dict()["properties"])[: len(args)] if args else []

    def checked(self, go: Go, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to run with: the checked copies."""
        if go.arguments is None:
            return args, kwargs
        if self.function is not None:
            return (), {**kwargs, **go.arguments}
        return tuple(go.arguments.pop(name) for name in self.names(args)), {**kwargs, **go.arguments}

    def denied(self, stop: Stop, kwargs: dict[str, Any]) -> Any:
        """An error, so that a tool with `return_direct` doesn't end the run with it."""
        sent = {name: value for name, value in kwargs.items() if not isinstance(value, Context)}
        return ToolOutput(
            content=stop.text, tool_name=self.name, raw_input=sent, raw_output=stop.verdict or stop.text, is_error=True
        )

    def ran(self, go: Go, output: Any) -> Any:
        if not output.is_error:
            self.bridge.ran(go, output.raw_output)
        return output

    # The functions of a tool, which other parts of LlamaIndex take off it and call

    def fn(self) -> Any:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            return _raw(self.call(*args, **kwargs))

        return guarded if self.function is None else functools.wraps(self.function.fn)(guarded)

    def async_fn(self) -> Any:
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            return _raw(await self.acall(*args, **kwargs))

        return guarded if self.function is None else functools.wraps(self.function.async_fn)(guarded)


def _raw(output: Any) -> Any:
    if output.is_error and isinstance(output.raw_output, Verdict):
        raise ActionDenied(output.raw_output)
    if output.is_error:
        raise RuntimeError(output.content)
    return output.raw_output


class _Gate:
    def __init__(self, gate: ActionGate, session: SessionOf[Any] | None) -> None:
        def of_context(run: _Run) -> str | None:
            return None if session is None or run.context is None else session(run.context)

        self.bridge: Bridge[_Run] = Bridge(
            gate, session=of_context, session_of=lambda run: run.session or outer_session()
        )

    def tool(self, tool: Any) -> Any:
        """The tool's guarded copy; a tool that is one already, as it is."""
        if getattr(tool, "preaction_gate", None) is self.bridge.gate:
            return tool
        return _Guarded(adapt_to_async_tool(tool), self.bridge).twin()

    def enter(self, agent: Any) -> None:
        """Guard what `agent` has, and mark its turns: the calls of one turn of the model are one batch (A5)."""
        agent.tools = [self.tool(tool) for tool in agent.tools or ()]
        if (retriever := agent.tool_retriever) is not None:
            agent.tool_retriever = self.retriever(retriever)
        step = agent.take_step

        @functools.wraps(step)
        async def take_step(ctx: Any, *args: Any, **kwargs: Any) -> Any:
            await ctx.store.set(TURN_KEY, uuid4().hex)
            return await step(ctx, *args, **kwargs)

        agent.__dict__["take_step"] = take_step

    def retriever(self, retriever: Any) -> Any:
        """A copy of a tool retriever whose tools come guarded."""
        guarded = copy.copy(retriever)

        def retrieve(asked: Any) -> Any:
            return [self.tool(tool) for tool in retriever.retrieve(asked)]

        async def aretrieve(asked: Any) -> Any:
            return [self.tool(tool) for tool in await retriever.aretrieve(asked)]

        guarded.retrieve, guarded.aretrieve = retrieve, aretrieve
        return guarded


# Install ------------------------------------------------------------------------------------------------------------


def install(target: T, gate: ActionGate, *, session: SessionOf[Any] | None = None, accept: Iterable[str] = ()) -> T:
    """Put the gate before every tool of `target`, an agent or an `AgentWorkflow`, and return it.

    It is changed in place, with every agent in it: those of a workflow, and those that a tool holds. The session is
    what `session(ctx)` gives, else `preaction_session` in the store of the run's `Context`, else that of
    `with gate.session(…)` around the run. Raises `ConfigurationError` naming tools that the gate knows and `target`
    doesn't have (those of a tool retriever can't be listed), and, unless `accept` lists them: agents that write code,
    and gated tools that other code holds and calls by hand (see `guard`).
    """
    things = list(reached(target, _leads))
    agents: list[Any] = [thing for thing in things if isinstance(thing, BaseWorkflowAgent)]
    tools = [tool for agent in agents for tool in agent.tools or ()]
    covered = {id(tool) for tool in tools}
    by_hand: list[Any] = [thing for thing in things if isinstance(thing, BaseTool) and id(thing) not in covered]
    names = {tool.metadata.get_name() for tool in tools}
    guarded = {tool.metadata.get_name() for tool in by_hand if getattr(tool, "preaction_gate", None) is gate}
    loose = {name for tool in by_hand if gate.knows(name := tool.metadata.get_name())} - guarded
    coding = {agent.name for agent in agents if isinstance(agent, CodeActAgent)}
    inner = _Gate(gate, session)
    inner.bridge.require(names | guarded, uncovered=loose | coding, accept=accept)
    for agent in agents:
        inner.enter(agent)
    return target


def guard(tool: T, gate: ActionGate, *, session: SessionOf[Any] | None = None) -> T:
    """A guarded copy of a tool that your own code calls. Denied, it gives a `ToolOutput` with `is_error`."""
    if not isinstance(tool, BaseTool):
        raise ConfigurationError("guard: a BaseTool is needed")
    twin: T = _Gate(gate, session).tool(tool)
    return twin


def _leads(thing: object) -> Iterable[object] | None:
    if isinstance(thing, AgentWorkflow):
        return list(thing.agents.values())
    if isinstance(thing, BaseWorkflowAgent):
        return list(thing.tools or ())
    if isinstance(thing, FunctionTool):
        return [thing.real_fn]
    return list(getattr(thing, "__dict__", {}).values()) if isinstance(thing, BaseTool) else None
