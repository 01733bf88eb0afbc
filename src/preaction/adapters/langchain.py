"""LangChain and LangGraph: the gate stands inside the tool object, where arguments are validated and final.

`install` covers a compiled graph (`create_agent`, a graph of your own) or a `ToolNode`, whatever middleware it has.
`PreactionMiddleware` is for a `create_agent` that you don't get hold of compiled, `guard` for a tool called by hand.
"""

import copy
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from cachetools import LRUCache
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from preaction.adapters._bridge import FAILED, Bridge, Go, SessionOf, Stop
from preaction.adapters._reach import reached
from preaction.errors import ConfigurationError
from preaction.gate import ActionGate

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.runnables import Runnable
    from langchain_core.runnables.config import ensure_config
    from langchain_core.tools import BaseTool, InjectedToolArg, ToolException
    from langgraph.prebuilt import ToolNode
    from langgraph.pregel import Pregel
    from langgraph.pregel.protocol import PregelProtocol
except ImportError as error:
    raise ImportError("preaction.adapters.langchain needs LangChain: pip install 'preaction[langchain]'") from error

log = logging.getLogger("preaction")

T = TypeVar("T")
Config = Mapping[str, Any]
"""A `RunnableConfig`: what a `session=` resolver is given."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What a tool can't see of the call that it is run for: who asked, with which arguments, in which turn."""

    id: str
    name: str
    sent: frozenset[str]
    batch: object


_call: ContextVar[_Call | None] = ContextVar("preaction_langchain_call", default=None)

# Read ---------------------------------------------------------------------------------------------------------------


def _thread_of(config: Config) -> str | None:
    thread = (config.get("configurable") or {}).get("thread_id")
    return str(thread) if isinstance(thread, str | int | UUID) else None


def _batch_of(request: Any) -> object:
    """The message that asked for this call: all calls of one turn have it in common. Never None, which counts at once.

    Without a message to be found all calls of the thread are one batch, so that no decision counts too early.
    """
    state = request.state
    messages = state if isinstance(state, list) else _get(state, "messages") or ()
    for place, message in reversed(list(enumerate(messages))):
        if isinstance(message, AIMessage) and request.tool_call["id"] in (ids := [c["id"] for c in message.tool_calls]):
            return (place, message.id, *ids)
    return "unknown"


def _get(state: object, name: str) -> Any:
    return state.get(name) if isinstance(state, Mapping) else getattr(state, name, None)


def _plain(value: Any) -> Any:
    """As JSON has it. Models are read field by field: a dump would leave out what their author excluded from dumps."""
    if isinstance(value, BaseModel):
        return {name: _plain(inner) for name, inner in value}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if type(value) in (str, int, float, bool, type(None)) else to_jsonable_python(value)


def _returned(tool: Any, result: object) -> object:
    """What a tool's body gave, without LangChain's wrappings."""
    if tool.response_format == "content_and_artifact" and isinstance(result, tuple) and len(result) == 2:
        content, artifact = result
        structured = artifact.get("structured_content") if isinstance(artifact, Mapping) else None
        result = content if structured is None else structured
    if isinstance(result, ToolMessage):
        return {"isError": True} if result.status == "error" else result.content
    return result


# Gate and react -----------------------------------------------------------------------------------------------------


class _Guarded:
    """The body of one tool behind the gate."""

    def __init__(self, tool: Any, bridge: Bridge[Config]) -> None:
        for name in ("invoke", "ainvoke", "run", "arun"):
            if not getattr(type(tool), name).__module__.startswith("langchain_core."):
                raise ConfigurationError(f"{tool.name}: its class has its own {name}(), which need not run the body")
        self.tool, self.bridge = tool, bridge
        taken = inspect.signature(tool._run).parameters
        self.framework = {n for n, p in taken.items() if n == "run_manager" or "RunnableConfig" in str(p.annotation)}
        self.framework |= set(getattr(tool, "_injected_args_keys", ()))
        fields = self.fields = getattr(tool.args_schema, "model_fields", {})
        self.injected = {name for name, info in fields.items() if any(map(_injects, info.metadata))}

    def twin(self) -> Any:
        """A copy of the tool with guarded bodies. They call those of the original, so that each call meets one gate."""
        twin, run, arun = self.tool.model_copy(), self.tool._run, self.tool._arun

        @functools.wraps(run)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            call, fields, kept = self.read(args, kwargs)
            answer = self.bridge.ask(*self.question(call, fields), **_about(call))
            if isinstance(answer, Stop):
                return self.denied(answer, call)
            args, kwargs = self.checked(answer, args, kwargs, kept)
            result = run(*args, **kwargs)
            self.bridge.ran(answer, _returned(self.tool, result))
            return result

        @functools.wraps(arun)
        async def aguarded(*args: Any, **kwargs: Any) -> Any:
            call, fields, kept = self.read(args, kwargs)
            answer = await self.bridge.aask(*self.question(call, fields), **_about(call))
            if isinstance(answer, Stop):
                return self.denied(answer, call)
            args, kwargs = self.checked(answer, args, kwargs, kept)
            result = await arun(*args, **kwargs)
            self.bridge.ran(answer, _returned(self.tool, result))
            return result

        twin.__dict__.update(_run=guarded, _arun=aguarded, _preaction=self.bridge.gate)
        return twin

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Call | None, Any, dict[str, Any]]:
        """The call, its fields as JSON, and a snapshot of their values that nobody else holds: that is what will run.

        What LangGraph injects is no field, unless the model sent one of that name. None as fields: not one JSON object.
        """
        call = _call.get()
        _call.set(None)  # the body may call tools of its own, and those are other calls
        if not self.bridge.gate.is_gated(self.tool.name) and not (call and self.bridge.gate.is_gated(call.name)):
            return call, {}, {}
        sent = frozenset[str]() if call is None else call.sent
        hidden = self.framework | (self.injected - sent if call else frozenset())
        smuggled = self.framework & sent
        try:
            given = dict(zip(self.tool.args, args, strict=True)) if args else {}
            given |= kwargs
            for name, info in self.fields.items():  # older versions leave a default to the body
                if name not in given and not info.is_required():
                    given[name] = info.get_default(call_default_factory=True)
            kept = copy.deepcopy({name: value for name, value in given.items() if name not in hidden})
            return call, {**_plain(kept), **dict.fromkeys(smuggled)}, kept
        except Exception:  # noqa: BLE001
            return call, None, {}

    def question(self, call: _Call | None, fields: object) -> tuple[str, object, Config]:
        return self.tool.name, fields, ensure_config()

    def checked(
        self, go: Go, args: tuple[Any, ...], kwargs: dict[str, Any], kept: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if go.arguments is None:
            return args, kwargs
        names = list(self.tool.args)[: len(args)] if args else []  # a JSON schema is made for it
        return tuple(kept.pop(name) for name in names), {**kwargs, **kept}

    def denied(self, stop: Stop, call: _Call | None) -> Any:
        if call is None:  # called by hand: an exception, which `handle_tool_error` turns into a text if it is set
            raise ToolException(stop.text)
        told = _told(call.id, call.name, stop.text)
        return (told, None) if self.tool.response_format == "content_and_artifact" else told


def _injects(mark: object) -> bool:
    return isinstance(mark, InjectedToolArg) or (isinstance(mark, type) and issubclass(mark, InjectedToolArg))


def _about(call: _Call | None) -> dict[str, Any]:
    return {} if call is None else {"names": (call.name,), "batch": call.batch}


def _told(call_id: str, name: str, text: str) -> Any:
    return ToolMessage(content=text, tool_call_id=call_id, name=name, status="error")


class _Gate:
    """The gate around the execution of tool calls: swaps each tool for its guarded twin."""

    def __init__(self, gate: ActionGate, session: SessionOf[Config] | None) -> None:
        self.bridge: Bridge[Config] = Bridge(gate, session=session, session_of=_thread_of)
        self._twins: LRUCache[int, tuple[Any, Any]] = LRUCache(1024)  # with the tool, so that its id isn't used again
        self._lock = threading.Lock()

    def tool(self, tool: Any) -> Any:
        if tool is None or tool.__dict__.get("_preaction") is self.bridge.gate:
            return tool
        with self._lock:
            known = self._twins.get(id(tool))
            if known is None:
                known = self._twins[id(tool)] = (tool, _Guarded(tool, self.bridge).twin())
        return known[1]

    @contextmanager
    def around(self, request: Any) -> Iterator[Any]:
        """The request with the guarded tool, or the message that denies it, while the tool can know of the call."""
        asked = request.tool_call
        try:
            sent = frozenset(asked["args"]) if isinstance(asked["args"], Mapping) else frozenset()
            call = _Call(asked["id"], asked["name"], sent, _batch_of(request))
            guarded = request.override(tool=self.tool(request.tool))
        except Exception as error:  # noqa: BLE001
            log.error("the adapter failed and denied the call: %s", type(error).__name__)  # noqa: TRY400
            yield _told(asked["id"], asked["name"], FAILED)
            return
        token = _call.set(call)
        try:
            yield guarded
        finally:
            _call.reset(token)

    def call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        with self.around(request) as guarded:
            return guarded if isinstance(guarded, ToolMessage) else handler(guarded)

    async def acall(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        with self.around(request) as guarded:
            return guarded if isinstance(guarded, ToolMessage) else await handler(guarded)

    def enter(self, node: Any) -> None:
        """Become the innermost wrapper of a `ToolNode`, whose other wrappers may rewrite or swap what they like."""
        try:
            outer, aouter = node._wrap_tool_call, node._awrap_tool_call
        except AttributeError:
            raise ConfigurationError("this version of LangGraph is not supported: its ToolNode has changed") from None
        for tool in node.tools_by_name.values():
            self.tool(tool)  # raises for what can't be guarded

        def wrap(request: Any, execute: Any) -> Any:
            return outer(request, lambda inner: self.call(inner, execute)) if outer else self.call(request, execute)

        async def awrap(request: Any, execute: Any) -> Any:
            if aouter:
                return await aouter(request, lambda inner: self.acall(inner, execute))
            return await self.acall(request, execute)

        node._wrap_tool_call = wrap
        if aouter or not outer:  # else the node runs its sync wrapper in async runs too, and so ours
            node._awrap_tool_call = awrap


# Install ------------------------------------------------------------------------------------------------------------


def install(target: T, gate: ActionGate, *, session: SessionOf[Config] | None = None, accept: Iterable[str] = ()) -> T:
    """Put the gate before every tool of `target`, a compiled graph or a `ToolNode`, and return it.

    It is changed in place, with every graph in it: nodes, and agents that a node or a tool holds. The session is what
    `session(config)` gives, else the `thread_id`, else that of `with gate.session(…)`. Raises `ConfigurationError`
    naming tools that the gate knows and `target` doesn't have, and, unless `accept` lists them: provider-side tools;
    remote graphs; gated tools that a node calls by hand (see `guard`), that stand behind interceptors of an MCP client,
    or that have `return_direct`, so that a denial would be the run's answer.
    """
    found, inner = _Found(target, gate), _Gate(gate, session)
    inner.bridge.require(found.names, uncovered=found.uncovered, accept=accept)
    for node in found.nodes:
        inner.enter(node)
    return target


def guard(tool: T, gate: ActionGate, *, session: SessionOf[Config] | None = None) -> T:
    """A copy of a tool that a node of yours calls by hand. Denied, it raises `ToolException` with the denial's text."""
    if not isinstance(tool, BaseTool):
        raise ConfigurationError("guard: a BaseTool is needed")
    twin: T = _Gate(gate, session).tool(tool)
    return twin


class PreactionMiddleware(AgentMiddleware):  # type: ignore[misc]
    """The gate for `create_agent(middleware=[…, PreactionMiddleware(gate)])`: the last, so that nothing is inside it.

    Session, and what `accept` is for, as `install` says; here a provider-side tool is refused when the model is called.
    """

    def __init__(
        self, gate: ActionGate, *, session: SessionOf[Config] | None = None, accept: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self._inner, self._accept = _Gate(gate, session), frozenset(accept)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Refuse provider-side tools."""
        self._refuse(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As `wrap_model_call`."""
        self._refuse(request)
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run the guarded tool in place of the tool."""
        return self._inner.call(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As `wrap_tool_call`."""
        return await self._inner.acall(request, handler)

    def _refuse(self, request: Any) -> None:
        gate = self._inner.bridge.gate
        self._inner.bridge.require(gate.known_tools, uncovered=_hosted(request.tools), accept=self._accept)


def _hosted(tools: Iterable[object]) -> set[str]:
    """Tools in the form of a provider's own: they run there, and no code here sees the call."""
    given = [tool for tool in tools if isinstance(tool, Mapping)]
    return {
        str(tool.get("name") or tool["type"]) for tool in given if tool.get("type") not in (None, "function", "custom")
    }


class _Found:
    """What can be reached from a graph. `nodes` are its `ToolNode`s, `names` the tools that they run."""

    def __init__(self, target: object, gate: ActionGate) -> None:
        things = list(reached(target, _leads))
        self.nodes: list[Any] = [thing for thing in things if isinstance(thing, ToolNode)]
        run = [tool for node in self.nodes for tool in node.tools_by_name.values()]
        covered = {id(tool) for tool in run}
        by_hand: list[Any] = [one for one in things if isinstance(one, BaseTool) and id(one) not in covered]
        guarded = {tool.name for tool in by_hand if tool.__dict__.get("_preaction") is gate}
        self.names = {tool.name for tool in run} | guarded
        self.uncovered = {tool.name for tool in by_hand if gate.knows(tool.name)} - guarded
        self.uncovered |= {tool.name for tool in run if tool.return_direct and gate.is_gated(tool.name)}
        self.uncovered |= {tool.name for tool in run if gate.is_gated(tool.name) and _intercepted(tool)}
        for thing in things:
            if isinstance(thing, list | tuple):
                self.uncovered |= _hosted(thing)
            elif isinstance(thing, PregelProtocol) and not isinstance(thing, Pregel):
                self.uncovered.add(str(getattr(thing, "name", None) or "a remote graph"))


def _intercepted(tool: Any) -> bool:
    """Whether interceptors of an MCP client stand between the tool and its server: they may rewrite the call."""
    coroutine = getattr(tool, "coroutine", None)
    return coroutine is not None and bool(inspect.getclosurevars(coroutine).nonlocals.get("tool_interceptors"))


def _leads(thing: object) -> Iterable[object] | None:
    """Where LangChain's objects lead to: what they hold in their attributes."""
    if isinstance(thing, Pregel):
        return [node.bound for node in thing.nodes.values()]
    if isinstance(thing, ToolNode):
        return list(thing.tools_by_name.values())
    return list(getattr(thing, "__dict__", {}).values()) if isinstance(thing, Runnable) else None
