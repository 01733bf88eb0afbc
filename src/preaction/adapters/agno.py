"""Agno: the gate inside every tool's function, and a hook at the start of a run that looks for tools that came later.

    install(agent, gate)
    agent.run("…", session_id="chat-7")

The function is the last place before the act: `tool_hooks` and `pre_hook`, which may rewrite arguments, answer in the
tool's stead, be skipped or fail without an effect, have had their say. A denial is what the tool returns.
"""

import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, Final

from pydantic import validate_call

from preaction.adapters._bridge import FAILED, Bridge, Stop
from preaction.adapters._reach import reached
from preaction.adapters._turns import inside
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from agno.agent import Agent
    from agno.exceptions import InputCheckError
    from agno.run import RunContext
    from agno.team import Team
    from agno.tools import Toolkit
    from agno.tools.function import Function, FunctionCall

    from preaction.adapters._agno_call import ASKS, Call, listening, session_of
except ImportError as error:
    raise ImportError("this adapter needs Agno: pip install 'preaction[agno]'") from error

__all__ = ["install"]

log = logging.getLogger("preaction")

GUARD: Final = "_preaction_gate"
VALIDATED: Final = "_wrapped_for_validation"
"""Agno's mark on a function whose arguments pydantic converts."""
SessionOf = Callable[[RunContext], str | None]


def install(
    target: Any,
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> None:
    """Guard the tools of `target` and of all agents below it, in place, and append to their `pre_hooks`.

    `target` is an `Agent`, a `Team`, a `Workflow`, or a list of them; below it are members, reasoning agents, and
    agents that a tool's function holds. The hook guards tools that are added later. The session is what
    `session(run_context)` says, else that of the call whose tool runs this agent, else `run_context.session_id`.
    Raises `ConfigurationError` for names that the gate knows and no tool has (an MCP server's are known once it is
    connected, those of a function that makes tools never), and for what runs elsewhere (tools of the model's provider,
    tools with `external_execution`, remote agents) unless `accept` lists its name.
    """
    gating = _Gating(Bridge(gate, session=session, session_of=session_of))
    gating.walk(target)
    if not gating.any_owner:
        raise ConfigurationError("install: an Agent, a Team, a Workflow or a list of them is needed")
    gating.bridge.require(gating.found, uncovered=gating.uncovered, accept=accept)


class _Gating:
    """Guards what it meets."""

    def __init__(self, bridge: Bridge[Any]) -> None:
        self.bridge = bridge
        self.any_owner = False
        self.found: set[str] = set()
        self.uncovered: set[str] = set()

    def walk(self, target: Any) -> None:
        for thing in list(reached(target, _leads)):
            if isinstance(thing, Agent | Team):
                self.owner(thing)
            elif _is_elsewhere(thing):
                self.uncovered.add(str(getattr(thing, "name", None) or type(thing).__name__))

    def has(self, function: Any) -> bool:
        """Whether this gate made a function, or one that it wraps."""
        return any(gate is self.bridge.gate for gate in getattr(function, GUARD, ()))

    def mark(self, function: Any) -> Any:
        setattr(function, GUARD, (*getattr(function, GUARD, ()), self.bridge.gate))
        return function

    def owner(self, owner: Any) -> None:
        """Guard what an agent or a team has, and see to it that each of its runs looks again."""
        self.any_owner = True
        if hasattr(owner.model, ASKS) and ASKS not in vars(owner.model):
            setattr(owner.model, ASKS, MethodType(listening, owner.model))
        self.each_of(owner, "tools", self.tool)
        if callable(getattr(owner, "members", None)):
            self.each_of(owner, "members", self.member)
        if not any(self.has(hook) for hook in owner.pre_hooks or ()):
            owner.pre_hooks = [*(owner.pre_hooks or ()), self.at_start()]

    def at_start(self) -> Any:
        def look_again(agent: Any = None, team: Any = None) -> None:
            try:
                self.walk(agent if team is None else team)
            except Exception as error:  # noqa: BLE001 - whatever fails, the run ends
                log.error(
                    "the tools of a run could not be guarded: %s",
                    type(error).__name__,
                    extra={"code": "adapter_failed"},
                )
                if self.bridge.gate.enforces:  # of all exceptions this one ends the run
                    raise InputCheckError(FAILED) from None  # the cause could hold a secret

        return self.mark(look_again)

    def each_of(self, owner: Any, field: str, one: Callable[[Any], Any]) -> None:
        had = getattr(owner, field)
        made = self.each(had, one)
        if callable(made) or any(new is not old for new, old in zip(made or (), had or (), strict=True)):
            setattr(owner, field, made)

    def each(self, things: Any, one: Callable[[Any], Any]) -> Any:
        """What `one` makes of each of a list; for a function that makes the list at each run, of what it will make."""
        if things is None or not callable(things):
            return None if things is None else [one(thing) for thing in things]
        if self.has(things):
            return things

        @functools.wraps(things)
        def factory(*args: Any, **kwargs: Any) -> Any:
            return self.each(things(*args, **kwargs), one)

        @functools.wraps(things)
        async def afactory(*args: Any, **kwargs: Any) -> Any:
            return self.each(await things(*args, **kwargs), one)

        return self.mark(afactory if inspect.iscoroutinefunction(things) else factory)

    def member(self, member: Any) -> Any:
        self.walk(member)
        return member

    def tool(self, tool: Any) -> Any:
        """The tool, guarded; a plain function is replaced, everything else is changed in place."""
        if isinstance(tool, Toolkit):
            for name in ("get_functions", "get_async_functions"):  # asked at each run, when a server is connected
                if name not in vars(tool):
                    setattr(tool, name, MethodType(self.asked(name), tool))  # a method, so that a deep copy has its own
                getattr(tool, name)()
        elif isinstance(tool, Function):
            self.function(tool)
        elif callable(tool) and hasattr(tool, "__name__"):
            self.found.add(tool.__name__)
            return tool if self.has(tool) else self.guarded(tool, [tool.__name__])
        else:
            hosted = tool if isinstance(tool, Mapping) else getattr(tool, "__dict__", {})
            self.uncovered.add(str(hosted.get("name") or hosted.get("type") or type(tool).__name__))
        return tool

    def asked(self, name: str) -> Callable[[Any], Any]:
        def functions(toolkit: Any) -> Any:
            found = getattr(type(toolkit), name)(toolkit)
            for function in found.values():
                self.function(function, getattr(toolkit, "tool_name_prefix", None))
            return found

        return functions

    def function(self, function: Any, prefix: str | None = None) -> None:
        """Guard a `Function`, under its name and those of its function and of its MCP server's tool."""
        body = function.entrypoint
        if function.external_execution or body is None:
            self.uncovered.add(function.name)
            return
        names = [function.name, getattr(body, "__name__", function.name)]
        if prefix and function.name.startswith(f"{prefix}_"):
            names.append(function.name.removeprefix(f"{prefix}_"))
        self.found.update(names)
        if self.has(body):
            return
        if any(self.bridge.gate.knows(name) for name in names):
            function.cache_results = False  # it would answer other sessions, and keep denials
        raw = getattr(body, "raw_function", None) if getattr(body, VALIDATED, False) else None
        opaque = raw is None and (function.skip_entrypoint_processing or hasattr(body, VALIDATED))
        guarded = self.guarded(raw or body, names, opaque=opaque)
        if raw is not None:  # the gate is to see what pydantic makes of the arguments
            guarded = self.mark(validate_call(config={"arbitrary_types_allowed": True})(guarded))
            setattr(guarded, VALIDATED, True)
        function.entrypoint = guarded

    def guarded(self, body: Any, names: list[str], *, opaque: bool = False) -> Any:
        """A function like `body` that asks the gate and then calls it; Agno gives it the `FunctionCall` as well."""
        bridge, signature = self.bridge, inspect.signature(body)

        def asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
            return Call(body, signature, names, args, kwargs, bridge=bridge, opaque=opaque)

        @functools.wraps(body)
        def sync(*args: Any, **kwargs: Any) -> Any:
            call = asked(args, kwargs)
            answer = bridge.ask(*call.question, names=call.names, batch=call.batch)
            return call.denied(answer) if isinstance(answer, Stop) else call.ran(answer, call.run(answer))

        @functools.wraps(body)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            call = asked(args, kwargs)
            answer = await bridge.aask(*call.question, names=call.names, batch=call.batch)
            if isinstance(answer, Stop):
                return call.denied(answer)
            with inside(answer):
                result = await call.run(answer)
            return call.ran(answer, result)

        @functools.wraps(body)
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            call = asked(args, kwargs)
            answer = await bridge.aask(*call.question, names=call.names, batch=call.batch)
            if isinstance(answer, Stop):
                yield call.denied(answer)
                return
            async for item in call.astream(answer, call.run(answer)):
                yield item

        guarded: Any = sync
        if inspect.iscoroutinefunction(body):
            guarded = coroutine
        elif inspect.isasyncgenfunction(body):
            guarded = stream
        if "fc" not in signature.parameters:
            fc = inspect.Parameter("fc", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=FunctionCall)
            own = list(signature.parameters.values())
            at = len(own) - (1 if own and own[-1].kind is inspect.Parameter.VAR_KEYWORD else 0)
            guarded.__signature__ = signature.replace(parameters=[*own[:at], fc, *own[at:]])
            guarded.__annotations__ = {**getattr(body, "__annotations__", {}), "fc": FunctionCall}
        return self.mark(guarded)


def _leads(thing: object) -> Iterable[object] | None:
    if isinstance(thing, Agent | Team):
        return [thing.tools, getattr(thing, "members", None), getattr(thing, "reasoning_agent", None)]
    if isinstance(thing, Toolkit):
        return [*thing.functions.values(), *thing.async_functions.values()]
    if isinstance(thing, Function):
        return [thing.entrypoint]
    return list(vars(thing).values()) if _is_workflow(thing) else None


def _is_workflow(thing: object) -> bool:
    """A workflow or one of its steps; their module needs more packages, so it isn't imported here."""
    module = type(thing).__module__
    return module.startswith("agno.workflow.") and not module.endswith(".remote") and hasattr(thing, "__dict__")


def _is_elsewhere(thing: object) -> bool:
    """Something that runs as an agent does, but isn't an Agno agent in this process."""
    return hasattr(type(thing), "arun") and not isinstance(thing, Agent | Team) and not _is_workflow(thing)
