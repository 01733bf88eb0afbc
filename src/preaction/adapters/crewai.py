"""CrewAI: the gate stands inside the tool object, since the runtime's hooks let a call through when they fail.

`install` covers a crew, agents, tasks or tools, in place. Nothing hangs on a hook that other code could clear: where
a call stands is read off the executor that makes it.
"""

import asyncio
import functools
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TypeVar

from preaction.adapters._bridge import Bridge, Go, SessionOf, Stop
from preaction.adapters._reach import reached
from preaction.adapters._turns import inside, outer_session, turn
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from crewai import Agent, Crew, Task
    from crewai.agents.agent_builder.base_agent import BaseAgent
    from crewai.agents.agent_builder.base_agent_executor import BaseAgentExecutor
    from crewai.agents.step_executor import StepExecutor
    from crewai.tools.base_tool import BaseTool, Tool
    from crewai.utilities.string_utils import sanitize_tool_name
except ImportError as error:
    raise ImportError("preaction.adapters.crewai needs CrewAI: pip install 'preaction[crewai]'") from error
try:
    from crewai.tools.tool_failure import ToolFailure
except ImportError:  # before 1.15.10
    ToolFailure = None

__all__ = ["Call", "install"]

T = TypeVar("T")

GUARD: Final = "_preaction_guard"


@dataclass(frozen=True, slots=True)
class Call:
    """Where a call comes from, for `session=`; all None for a tool that your own code runs."""

    agent: Any = None
    task: Any = None
    crew: Any = None


class _Denial(str):
    """What the model is told of a denied call."""

    __slots__ = ()


# Read ---------------------------------------------------------------------------------------------------------------


class _Once:
    """A model's message, told from another of the same words."""

    def __init__(self, message: object) -> None:
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once) and self.message is other.message

    __hash__ = None  # type: ignore[assignment]


def _where() -> tuple[Call, object]:
    """The call's agent, and the turn of its model; found on the stack, since the runtime tells a tool neither.

    Hooks would be told the agent, but not the turn, and other code can clear them.
    """
    frames = [(own, frame) for frame in _stack() if (own := _self(frame)) is not None]
    executor = next((own for own, _ in frames if isinstance(own, BaseAgentExecutor | StepExecutor)), None)
    if executor is None:
        return Call(), None
    messages = getattr(executor, "messages", None)
    if messages is None:  # a step of a plan has its own conversation
        kept = (frame.f_locals.get("messages") for own, frame in frames if own is executor)
        messages = next((one for one in kept if one is not None), ())
    which = _turn(messages)
    here = turn(which)
    if len(here.path) > 1 and here.path[-2][1] == which:  # code in the body of a tool of this very turn calls
        here = turn(object())
    return Call(executor.agent, executor.task, executor.crew), here


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _self(frame: FrameType) -> object:
    """Whose method a frame is in."""
    return frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None


def _turn(messages: Iterable[Any]) -> object:
    """The message whose calls are being made; without one the model writes calls as text, and one in a turn."""
    for message in reversed(list(messages)):
        role = message.get("role")
        if role == "assistant" and message.get("tool_calls"):
            return _Once(message)
        if role != "tool":
            break
    return _Once(object())


class _Guarded:
    """One function of a tool behind the gate."""

    def __init__(self, tool: Any, function: Callable[..., Any], bridge: Bridge[Call]) -> None:
        self.tool, self.function, self.bridge = tool, function, bridge
        self.name, self.names = tool.name, _names(tool)
        self.signature = inspect.signature(function)

    def twin(self) -> Callable[..., Any]:
        """The guarded function; sync or async, as the original is."""
        if inspect.iscoroutinefunction(self.function):

            @functools.wraps(self.function)
            async def guarded(*args: Any, **kwargs: Any) -> Any:
                bound, fields = self.read(args, kwargs)
                call, batch = _where()
                answer = await self.bridge.aask(self.name, fields, call, names=self.names, batch=batch)
                if isinstance(answer, Stop):
                    return self.denied(answer)
                args, kwargs = self.checked(answer, bound, args, kwargs)
                return await self.awaited(answer, self.function(*args, **kwargs))

        else:

            @functools.wraps(self.function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                bound, fields = self.read(args, kwargs)
                call, batch = _where()
                answer = self.bridge.ask(self.name, fields, call, names=self.names, batch=batch)
                if isinstance(answer, Stop):
                    return self.denied(answer)
                args, kwargs = self.checked(answer, bound, args, kwargs)
                with inside(answer):
                    result = self.function(*args, **kwargs)
                return self.awaited(answer, result) if asyncio.iscoroutine(result) else self.ran(answer, result)

        return guarded

    def read(self, args: Any, kwargs: Any) -> tuple[inspect.BoundArguments | None, dict[str, Any] | None]:
        """What the body would run with, defaults too; no fields where that can't be told, which is denied."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:  # the body would refuse it as well, but the gate's reason comes first
            return None, None if args else kwargs
        bound.apply_defaults()
        fields: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                fields |= value
            elif kind is not inspect.Parameter.VAR_POSITIONAL:
                fields[name] = value
            elif value:
                return bound, None
        return bound, fields

    def checked(self, go: Go, bound: inspect.BoundArguments | None, args: Any, kwargs: Any) -> Any:
        """What to run with: the checked copies."""
        if go.arguments is None:
            return args, kwargs
        if bound is None or not args:  # by name, as the runtime calls: a decorated function may take nothing else
            return (), go.arguments
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {more: go.arguments[more] for more in value}
            elif name in go.arguments:
                bound.arguments[name] = go.arguments[name]
        return bound.args, bound.kwargs

    def denied(self, stop: Stop) -> Any:
        """A plain text; where the runtime would end the run with it as the answer, a failure, which it doesn't."""
        return ToolFailure(message=stop.text) if self.tool.result_as_answer and ToolFailure else _Denial(stop.text)

    async def awaited(self, go: Go, body: Awaitable[Any]) -> Any:
        with inside(go):
            result = await body
        return self.ran(go, result)

    def ran(self, go: Go, result: Any) -> Any:
        if ToolFailure is None or not isinstance(result, ToolFailure):
            self.bridge.ran(go, result)
        return result


def _names(tool: Any) -> list[str]:
    """Its name, the one that the model is shown, and the one that its MCP server knows it by."""
    remote = getattr(tool, "original_tool_name", None)
    return [tool.name, sanitize_tool_name(tool.name), *([remote] if isinstance(remote, str) else [])]


# Install ------------------------------------------------------------------------------------------------------------


def install(target: T, gate: ActionGate, *, session: SessionOf[Call] | None = None, accept: Iterable[str] = ()) -> T:
    """Put the gate into every tool of `target`, in place, and return it.

    `target` is a crew, an agent, a task, a tool, or a list of them; tools, agents and crews that a tool holds are
    covered with it. An agent's MCP servers are asked for their tools now, which take the place of `mcps`. The session
    is what `session(call)` gives, else that of `with gate.session(…)` around the run: CrewAI has no id of a
    conversation. Raises `ConfigurationError` naming tools that the gate knows and `target` doesn't have, and, unless
    `accept` lists them: what runs elsewhere (`apps`, `a2a`, agents of other runtimes), tools with a `run` of their own,
    and, before CrewAI 1.15.10, tools with `result_as_answer` that the gate knows.
    """
    for one in target if isinstance(target, list | tuple) else [target]:
        if _leads(one) is None:
            raise ConfigurationError("install: a crew, an agent, a task, a tool, or a list of them is needed")
    bridge: Bridge[Call] = Bridge(gate, session=session, session_of=lambda call: outer_session())
    uncovered: set[str] = set()
    tools = []
    for thing in reached(target, _leads):
        if isinstance(thing, BaseAgent):
            uncovered |= _open(thing)
        if isinstance(thing, BaseTool):
            tools.append(thing)
            if not _has_one_way_in(thing) or (thing.result_as_answer and not ToolFailure and _known(thing, gate)):
                uncovered.add(thing.name)
    bridge.require({name for tool in tools for name in _names(tool)}, uncovered=uncovered, accept=accept)
    for tool in tools:
        _guard(tool, bridge)
    return target


def _known(tool: Any, gate: ActionGate) -> bool:
    return any(gate.knows(name) for name in _names(tool))


def _guard(tool: Any, bridge: Bridge[Call]) -> None:
    """Put the gate into the body of a tool, once."""
    if getattr(tool, GUARD, None) == (id(tool), id(bridge.gate)):
        return
    # Past pydantic, which knows no such fields. A copy of the tool keeps all of it: it acts behind this very gate.
    tool.__dict__[GUARD] = (id(tool), id(bridge.gate))
    for place in ("func",) if isinstance(tool, Tool) else ("_run", "_arun"):
        tool.__dict__[place] = _Guarded(tool, getattr(tool, place), bridge).twin()
    cached, known = tool.cache_function, _known(tool, bridge.gate)

    @functools.wraps(cached)
    def cache_function(args: Any = None, result: Any = None) -> bool:
        """A call answered from the cache is neither judged nor recorded; a denial holds for its moment."""
        return not known and not isinstance(result, _Denial) and cached(args, result)

    tool.__dict__["cache_function"] = cache_function


def _has_one_way_in(tool: BaseTool) -> bool:
    """Whether every way to run this tool comes through what is guarded."""
    own, base = type(tool), Tool if isinstance(tool, Tool) else BaseTool
    ways = ("run", "arun", "_run", "_arun") if base is Tool else ("run", "arun")
    return all(getattr(own, way) is getattr(base, way) for way in ways)


def _open(agent: Any) -> set[str]:
    """What of an agent no tool object stands for."""
    if not isinstance(agent, Agent):
        return {agent.role}
    return {f"{agent.role}.{way}" for way in ("apps", "a2a") if getattr(agent, way, None)}


def _leads(thing: object) -> Iterable[object] | None:
    if isinstance(thing, Crew):
        return [*thing.agents, *thing.tasks, thing.manager_agent]
    if isinstance(thing, Task):
        return [thing.agent, *(thing.tools or ())]
    if isinstance(thing, BaseAgent):
        if isinstance(thing, Agent) and thing.mcps:
            thing.tools, thing.mcps = [*(thing.tools or ()), *thing.get_mcp_tools(thing.mcps)], None
        return list(thing.tools or ())
    if isinstance(thing, BaseTool):
        return [*thing.__dict__.values(), *(thing.__pydantic_private__ or {}).values()]
    return None
