"""smolagents: the gate inside every tool and every agent that is called like one. The runtime has no hook for it.

    install(agent, gate)
    with gate.session("chat-7"):
        agent.run("…")

`Tool.forward` is the last place before the act: state variables are filled in and every value has its name. A model
that calls tools reads a denial as the tool's result. Code that a model wrote is stopped by it, with `ActionDenied`: its
next lines would go on as if the act had happened, and the model might never read what the call returned.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, replace
from typing import Any, Final

from preaction._core.verdict import ActionDenied
from preaction.adapters._bridge import Bridge, Stop
from preaction.adapters._reach import reached
from preaction.adapters._turns import inside, outer_session, turn
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate
from preaction.options import is_async

try:
    from smolagents import AgentToolExecutionError, CodeAgent, FinalAnswerTool, MultiStepAgent, Tool, ToolCallingAgent
    from smolagents.local_python_executor import BASE_BUILTIN_MODULES, LocalPythonExecutor
    from smolagents.tools import BaseTool
except ImportError as error:
    raise ImportError("this adapter needs smolagents: pip install 'preaction[smolagents]'") from error

__all__ = ["install"]

GUARD: Final = "_preaction_guard"
OWNER: Final = "_preaction_agent"
TURN: Final = "_preaction_turn"
EXECUTOR: Final = "python_executor"
ANSWER: Final = "final_answer"
REREAD: Final = {"LangChainToolWrapper", "SpaceToolWrapper"}
"""smolagents' wrappers whose tool makes something else of its arguments: other types, a file where a text names one."""

SessionOf = Callable[[Any], str | None]


@dataclass(frozen=True, slots=True)
class _Caller:
    """The agent whose model makes the present call, in which turn, by which name, and whether as a tool call."""

    agent: Any
    turn: object
    called: str | None = None
    tells: bool = False


_caller: ContextVar[_Caller | None] = ContextVar("preaction_smolagents_caller", default=None)


class _Told(BaseException):
    """A denial on its way to the model. No `Exception`: the runtime would make an error of the tool out of it."""


def install(
    agent: Any,
    gate: ActionGate,
    *,
    session: SessionOf | None = None,
    accept: Sequence[str] = (),
) -> None:
    """Guard the tools of `agent` and the agents that it manages, in place, with all that they hold.

    `agent` is a `ToolCallingAgent`, a `CodeAgent`, a tool that your own code calls, or a list of them. Tools that come
    later are guarded when they are called. smolagents has no id of a conversation: the session is what
    `session(agent)` says, else that of the call whose tool runs this agent, else that of `with gate.session(…)` around
    the run. Raises `ConfigurationError` for names that the gate knows and no tool has, and, unless `accept` lists them:
    agents and executors of other classes (those run tools elsewhere), `import <module>` beyond smolagents' own list in
    code that a model writes, tools whose class has a `__call__` of its own or a `forward` that is async or a generator,
    and `final_answer` with a rule (a run that comes to its `max_steps` answers without it).
    """
    _Gating(gate, session, accept).cover(agent)


class _Gating:
    """Guards what it meets."""

    def __init__(self, gate: ActionGate, session: SessionOf | None, accept: Sequence[str]) -> None:
        def of_agent(caller: _Caller | None) -> str | None:
            return None if session is None or caller is None else session(caller.agent)

        self.bridge: Bridge[_Caller | None] = Bridge(gate, session=of_agent, session_of=lambda _: outer_session())
        self.accept = accept

    def cover(self, start: object, found: Iterable[str] = ()) -> None:
        """Guard all tools and agents that `start` leads to, or refuse them and change nothing."""
        things = list(reached(start, _leads))
        agents: list[Any] = [thing for thing in things if isinstance(thing, MultiStepAgent)]
        tools: list[Any] = [thing for thing in things if isinstance(thing, BaseTool)]
        names = {tool.name for tool in tools} | {name for agent in agents for name in self.managed(agent)}
        uncovered = {name for tool in tools for name in self.gaps_of_tool(tool)}
        uncovered |= {name for agent in agents for name in self.gaps_of_agent(agent, agents)}
        self.bridge.require({*names, *found}, uncovered=uncovered, accept=self.accept)
        for tool in tools:
            self.tool(tool)
        for agent in agents:
            self.agent(agent)

    def late(self, tools: Iterable[object]) -> None:
        """Guard tools that were added after the installation. What can't be guarded ends the run."""
        if new := [tool for tool in tools if not self.has(getattr(tool, "forward", None))]:
            self.cover(new, self.bridge.gate.known_tools)

    # Seeing

    def managed(self, agent: Any) -> set[str]:
        """The agents that this one calls. What they answer is a model's account, never a result to record."""
        agents = {name for name, one in agent.managed_agents.items() if isinstance(one, MultiStepAgent)}
        return {name for name in agents if not self.bridge.gate.records(name)}

    def gaps_of_agent(self, agent: Any, agents: Sequence[Any]) -> set[str]:
        gaps = {name for name, one in agent.managed_agents.items() if not isinstance(one, MultiStepAgent)}
        if ANSWER in agent.tools and self.bridge.gate.is_gated(ANSWER):
            gaps.add(ANSWER)
        if isinstance(agent, CodeAgent):
            executor = agent.python_executor
            owners = [getattr(executor, OWNER, agent), *(a for a in agents if getattr(a, EXECUTOR, None) is executor)]
            mine = isinstance(executor, LocalPythonExecutor) and all(owner is agent for owner in owners)
            return gaps | (_imports(executor) if mine else {type(executor).__name__})
        return gaps if isinstance(agent, ToolCallingAgent) else {*gaps, agent.name or type(agent).__name__}

    def gaps_of_tool(self, tool: Any) -> set[str]:
        calls_forward = _definer(type(tool), "__call__") is Tool  # a call of its own may do anything
        rereads = type(tool).__name__ in REREAD and self.bridge.gate.is_gated(tool.name)
        return _imports(tool) | (set() if calls_forward and _is_plain(tool.forward) and not rereads else {tool.name})

    # Guarding

    def has(self, function: object) -> bool:
        return any(gate is self.bridge.gate for gate in getattr(function, GUARD, ()))

    def mark(self, function: Any, inner: object) -> Any:
        setattr(function, GUARD, (*getattr(inner, GUARD, ()), self.bridge.gate))
        return function

    def tool(self, tool: Any) -> None:
        """Put the gate into a tool object, once."""
        run = getattr(tool, "forward", None)
        if run is None or self.has(run) or not _is_plain(run):
            return
        if type(tool) is FinalAnswerTool and not self.bridge.gate.is_gated(tool.name):
            return  # it only hands its argument back, and without it a run could not end
        guarded = functools.partial(self.ask, tool, run, tool.name, _signature(tool))
        tool.forward = self.mark(functools.update_wrapper(guarded, run), run)

    def agent(self, agent: Any) -> None:
        """Make the calls of an agent known for its own, and guard the call of the agent itself, once."""
        vars(agent)[OWNER] = agent
        if isinstance(getattr(agent, EXECUTOR, None), LocalPythonExecutor):
            self.executor(agent, agent.python_executor)
        kind = type(agent)
        if self.has(kind.run):
            return
        patched = vars(agent).pop("execute_tool_call", None)  # the way in which others hook in

        def run(me: Any, *args: Any, **kwargs: Any) -> Any:
            if vars(me)[OWNER] is not me:
                raise ConfigurationError("this agent is a copy of an installed one: install it as well")
            self.cover(me, self.bridge.gate.known_tools)  # what was added since
            return kind.run(me, *args, **kwargs)

        given = agent.name or kind.__name__

        def call(me: Any, *args: Any, **kwargs: Any) -> Any:
            run = functools.partial(kind.__call__, me)
            return self.ask(me, run, given, inspect.signature(run), *args, **kwargs)

        def execute_tool_call(me: Any, tool_name: str, arguments: Any) -> Any:
            run = patched or functools.partial(kind.execute_tool_call, me)
            self.late(one for name, one in [*me.tools.items(), *me.managed_agents.items()] if name == tool_name)
            return _telling(me, tool_name, lambda: run(tool_name, arguments))

        calls = {"execute_tool_call": execute_tool_call} if isinstance(agent, ToolCallingAgent) else {}
        _override(agent, run=self.mark(run, kind.run), __call__=call, **calls)

    def executor(self, agent: Any, executor: Any) -> None:
        """Carry the context of a run into the thread in which its code runs, to the tools and functions it calls."""
        kind = type(executor)
        if self.has(kind.__call__):
            return
        step = _Step(agent)
        setattr(executor, OWNER, agent)

        def send_tools(me: Any, tools: Mapping[str, Any]) -> None:
            kind.send_tools(me, {name: step.carried(name, tool) for name, tool in tools.items()})
            functions = {name: one for name, one in me.additional_functions.items() if not isinstance(one, type)}
            me.static_tools |= {name: step.carried(name, one) for name, one in functions.items()}

        def run_code(me: Any, *args: Any, **kwargs: Any) -> Any:
            with step.running():
                return kind.__call__(me, *args, **kwargs)

        _override(executor, send_tools=send_tools, __call__=self.mark(run_code, kind.__call__))

    # Asking

    def ask(
        self, tool: Any, run: Callable[..., Any], given: str, signature: inspect.Signature, /, *args: Any, **kwargs: Any
    ) -> Any:
        """`run`, the body of a tool or the call of an agent, behind the gate; `given` is the name it had at first."""
        caller = _caller.get()
        names = [name for name in (given, caller and caller.called) if name]
        fields = _fields(signature, getattr(tool, "inputs", ()), args, kwargs)
        answer = self.bridge.ask(tool.name or given, fields, caller, names=names, batch=caller and caller.turn)
        if isinstance(answer, Stop):
            if caller is not None and caller.tells:
                raise _Told(answer.text)
            raise RuntimeError(answer.text) if answer.verdict is None else ActionDenied(answer.verdict)
        if answer.arguments is not None:
            args, kwargs = (), answer.arguments
        with inside(answer), _calling(caller and replace(caller, called=None, tells=False)):
            result = run(*args, **kwargs)
        self.bridge.ran(answer, result)
        return result


# Read -----------------------------------------------------------------------------------------------------------------


def _fields(
    signature: inspect.Signature, inputs: Iterable[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """What the body would run with, defaults included; None: it would refuse the call, or it can't be told."""
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    if args and inspect.Parameter.VAR_POSITIONAL in kinds.values():  # of MCP and the like: their schema has the names
        one = args[0] if len(args) == 1 and not kwargs else None
        named = one if isinstance(one, dict) else dict(zip(inputs, args, strict=False))
        if len(named) < len(args) or named.keys() & kwargs.keys():
            return None
        args, kwargs = (), {**named, **kwargs}
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    fields: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if kinds[name] is inspect.Parameter.VAR_KEYWORD:
            fields |= value
        elif kinds[name] is not inspect.Parameter.VAR_POSITIONAL:
            fields[name] = value
    return fields


def _signature(tool: Any) -> inspect.Signature:
    """That of `forward`. Of a function made a tool by `@tool` it shows a `self` that isn't there."""
    signature = inspect.signature(tool.forward)
    shown = list(signature.parameters.values())
    if shown and shown[0].name == "self" and "self" not in tool.inputs and not inspect.ismethod(tool.forward):
        return signature.replace(parameters=shown[1:])
    return signature


def _turn_of(agent: Any) -> object:
    """The turn that follows the latest step in the agent's memory; None where no run is on."""
    steps = agent.memory.steps
    return turn(vars(steps[-1]).setdefault(TURN, object())) if steps else None


def _definer(kind: type, name: str) -> type:
    """The class that a method comes from."""
    return next(one for one in kind.__mro__ if name in vars(one))


def _is_plain(function: Any) -> bool:
    """Whether a call of the function acts, and not only what it gives back."""
    inner = inspect.unwrap(function)
    return not (is_async(inner) or inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner))


def _imports(runs_code: Any) -> set[str]:
    """What code in this executor or interpreter may import beyond the runtime's own list: it could act with that."""
    more = set(getattr(runs_code, "authorized_imports", ())) - set(BASE_BUILTIN_MODULES)
    return {f"import {module}" for module in more}


def _leads(thing: object) -> Iterable[object] | None:
    if isinstance(thing, MultiStepAgent):
        functions = getattr(getattr(thing, EXECUTOR, None), "additional_functions", {})
        return [*thing.tools.values(), *thing.managed_agents.values(), *functions.values()]
    if isinstance(thing, BaseTool):
        return [getattr(thing, "forward", None), *vars(thing).values()]
    return None


# React ----------------------------------------------------------------------------------------------------------------


def _telling(agent: Any, tool_name: str, run: Callable[[], Any]) -> Any:
    """A call that the model makes as a tool call: a denial is what the tool says."""
    with _calling(_Caller(agent, _turn_of(agent), tool_name, tells=True)):
        try:
            return run()
        except _Told as told:
            text = str(told)
    if tool_name == ANSWER:  # whatever it returns would be the answer of the run
        raise AgentToolExecutionError(text, agent.logger)
    return text


class _Step:
    """The code of one agent's step: what it calls is called in the context of the run, in whatever thread that is."""

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.contexts: dict[object, Context] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        key = object()
        with _calling(_Caller(self.agent, _turn_of(self.agent))):
            self.contexts[key] = copy_context()
        try:
            yield
        finally:
            del self.contexts[key]

    def carried(self, name: str, function: Any) -> Callable[..., Any]:
        """Code may keep it for a later step: the context is that of the step which runs then."""

        def call(*args: Any, **kwargs: Any) -> Any:
            contexts = list(self.contexts.values())
            if len(contexts) > 1:
                raise RuntimeError("this agent runs twice at once, and no call can be told from the other's")
            return contexts[0].copy().run(called, args, kwargs) if contexts else function(*args, **kwargs)

        def called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            caller = _caller.get()
            _caller.set(caller and replace(caller, called=name))
            return function(*args, **kwargs)

        return call


@contextmanager
def _calling(caller: _Caller | None) -> Iterator[None]:
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def _override(thing: Any, **methods: Any) -> None:
    """Give this one object other special methods: Python looks them up on the class."""
    kind = type(thing)
    thing.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})
