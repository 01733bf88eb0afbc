"""LangChain and LangGraph: the gate stands inside the tool object, where arguments are validated and final.

`install` covers a compiled graph (`create_agent`, a graph of your own) or a `ToolNode`, whatever middleware it has.
`PreactionMiddleware` is for a `create_agent` that you don't get hold of compiled, `guard` for a tool called by hand.
"""

import copy
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, TypeVar
from uuid import UUID

from cachetools import LRUCache

from preaction.adapters._bridge import Bridge, Go, SessionOf, Stop
from preaction.adapters._plain import plain
from preaction.adapters._reach import reached
from preaction.adapters._turns import Turn, inside, turn
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

__all__ = ["PreactionMiddleware", "guard", "install"]

T = TypeVar("T")
Config = Mapping[str, Any]
"""A `RunnableConfig`: what a `session=` resolver is given."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What a tool can't see of the call that it is run for: who asked, with which arguments, in which turn."""

    id: str
    name: str
    sent: frozenset[str]
    batch: Turn | None


BY_HAND: Final = _Call("", "", frozenset(), None)
_call: ContextVar[_Call] = ContextVar("preaction_langchain_call", default=BY_HAND)

# Read ---------------------------------------------------------------------------------------------------------------


def _thread_of(config: Config) -> str | None:
    thread = (config.get("configurable") or {}).get("thread_id")
    return str(thread) if isinstance(thread, str | int | UUID) else None


def _turn_of(request: Any) -> Turn:
    """The message that asked for this call: all calls of one turn have it in common.

    Without a message to be found all calls of the thread are one turn, so that no decision counts too early.
    """
    state = request.state
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", state)
    for place, message in reversed(list(enumerate(messages if isinstance(messages, list) else ()))):
        if isinstance(message, AIMessage) and request.tool_call["id"] in (ids := [c["id"] for c in message.tool_calls]):
            return turn((place, message.id, *ids))
    return turn("unknown")


def _returned(tool: Any, result: object) -> object:
    """What a tool's body gave, without LangChain's wrappings."""
    if tool.response_format == "content_and_artifact" and isinstance(result, tuple) and len(result) == 2:
        content, artifact = result
        structured = artifact.get("structured_content") if isinstance(artifact, Mapping) else None
        result = content if structured is None else structured
    if isinstance(result, ToolMessage):
        return {"isError": True} if result.status == "error" else result.content
    return result


# Gate -----------------------------------------------------------------------------------------------------------------


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

        @wraps(run)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            call, fields, ready = self.read(args, kwargs)
            about: Any = {"names": (call.name,), "batch": call.batch}
            answer = self.bridge.ask(self.tool.name, fields, ensure_config(), **about)
            if isinstance(answer, Stop):
                return self.denied(answer, call)
            args, kwargs = (args, kwargs) if answer.arguments is None else ready
            with inside(answer):
                return self.recorded(answer, run(*args, **kwargs))

        @wraps(arun)
        async def aguarded(*args: Any, **kwargs: Any) -> Any:
            call, fields, ready = self.read(args, kwargs)
            about: Any = {"names": (call.name,), "batch": call.batch}
            answer = await self.bridge.aask(self.tool.name, fields, ensure_config(), **about)
            if isinstance(answer, Stop):
                return self.denied(answer, call)
            args, kwargs = (args, kwargs) if answer.arguments is None else ready
            with inside(answer):
                return self.recorded(answer, await arun(*args, **kwargs))

        twin.__dict__.update(_run=guarded, _arun=aguarded, _preaction=self.bridge.gate)
        return twin

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Call, Any, Any]:
        """The call, its fields as JSON, and a snapshot of them that nobody else holds, to run once they are checked.

        What LangGraph injects is no field, unless the model sent one of that name. None as fields: not one JSON object.
        """
        call = _call.get()
        _call.set(BY_HAND)  # the body may call tools of its own, and those are other calls
        if not any(map(self.bridge.gate.is_gated, (self.tool.name, call.name))):
            return call, {}, None
        hidden = self.framework | (frozenset() if call is BY_HAND else self.injected - call.sent)
        try:
            given = dict(zip(self.tool.args, args, strict=True)) if args else {}
            given |= kwargs
            for name, info in self.fields.items():  # older versions leave a default to the body
                if name not in given and not info.is_required():
                    given[name] = info.get_default(call_default_factory=True)
            kept = copy.deepcopy({name: value for name, value in given.items() if name not in hidden})
            fields = {**plain(kept), **dict.fromkeys(self.framework & call.sent)}
            names = list(self.tool.args)[: len(args)] if args else []  # a JSON schema is made for it
            return call, fields, (tuple(kept.pop(name) for name in names), {**kwargs, **kept})
        except Exception:  # noqa: BLE001
            return call, None, None

    def recorded(self, go: Go, result: Any) -> Any:
        self.bridge.ran(go, _returned(self.tool, result))
        return result

    def denied(self, stop: Stop, call: _Call) -> Any:
        if call is BY_HAND:  # an exception, which `handle_tool_error` turns into a text if it is set
            raise ToolException(stop.text)
        told = _told(call.id, call.name, stop.text)
        return (told, None) if self.tool.response_format == "content_and_artifact" else told


def _injects(mark: object) -> bool:
    return isinstance(mark, InjectedToolArg) or (isinstance(mark, type) and issubclass(mark, InjectedToolArg))


def _told(call_id: str, name: str, text: str) -> Any:
    return ToolMessage(content=text, tool_call_id=call_id, name=name, status="error")


class PreactionMiddleware(AgentMiddleware):  # type: ignore[misc]
    """The gate for `create_agent(middleware=[…, PreactionMiddleware(gate)])`: the last, so that nothing is inside it.

    It swaps each tool for its guarded twin. Session, and what `accept` is for, as `install` says; here a provider-side
    tool is refused when the model is called.
    """

    def __init__(
        self, gate: ActionGate, *, session: SessionOf[Config] | None = None, accept: Iterable[str] = ()
    ) -> None:
        super().__init__()
        self._bridge: Bridge[Config] = Bridge(gate, session=session, session_of=_thread_of)
        self._accept = frozenset(accept)
        self._twins: LRUCache[int, tuple[Any, Any]] = LRUCache(1024)  # with the tool, so that its id isn't used again
        self._lock = threading.Lock()

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Refuse provider-side tools."""
        self._refuse(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As `wrap_model_call`."""
        self._refuse(request)
        return await handler(request)

    def _refuse(self, request: Any) -> None:
        self._bridge.require(self._bridge.gate.known_tools, uncovered=_hosted(request.tools), accept=self._accept)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run the guarded tool in place of the tool."""
        with self._around(request) as guarded:
            return guarded if isinstance(guarded, ToolMessage) else handler(guarded)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """As `wrap_tool_call`."""
        with self._around(request) as guarded:
            return guarded if isinstance(guarded, ToolMessage) else await handler(guarded)

    def _guard(self, tool: Any) -> Any:
        """The guarded twin of a tool."""
        if tool is None or tool.__dict__.get("_preaction") is self._bridge.gate:
            return tool
        with self._lock:
            known = self._twins.get(id(tool))
            if known is None:
                known = self._twins[id(tool)] = (tool, _Guarded(tool, self._bridge).twin())
        return known[1]

    @contextmanager
    def _around(self, request: Any) -> Iterator[Any]:
        """The request with the guarded tool, or the message that denies it, while the tool can know of the call."""
        asked = request.tool_call
        try:
            sent = frozenset(asked["args"]) if isinstance(asked["args"], Mapping) else frozenset()
            call = _Call(asked["id"], asked["name"], sent, _turn_of(request))
            guarded = request.override(tool=self._guard(request.tool))
        except Exception as error:  # noqa: BLE001
            answer = self._bridge.failed(asked["name"], error)
            yield _told(asked["id"], asked["name"], answer.text) if isinstance(answer, Stop) else request
            return
        token = _call.set(call)
        try:
            yield guarded
        finally:
            _call.reset(token)

    def _enter(self, node: Any) -> None:
        """Become the innermost wrapper of a `ToolNode`, whose other wrappers may rewrite or swap what they like."""
        try:
            outer, aouter = node._wrap_tool_call, node._awrap_tool_call
        except AttributeError:
            raise ConfigurationError("this version of LangGraph is not supported: its ToolNode has changed") from None
        for tool in node.tools_by_name.values():
            self._guard(tool)  # raises for what can't be guarded

        def wrap(request: Any, execute: Any) -> Any:
            within = partial(self.wrap_tool_call, handler=execute)
            return outer(request, within) if outer else within(request)

        async def awrap(request: Any, execute: Any) -> Any:
            within = partial(self.awrap_tool_call, handler=execute)
            return await (aouter(request, within) if aouter else within(request))

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
    found, inner = _Found(target, gate), PreactionMiddleware(gate, session=session)
    inner._bridge.require(found.names, uncovered=found.uncovered, accept=accept)
    for node in found.nodes:
        inner._enter(node)
    return target


def guard(tool: T, gate: ActionGate, *, session: SessionOf[Config] | None = None) -> T:
    """A copy of a tool that a node of yours calls by hand. Denied, it raises `ToolException` with the denial's text."""
    if not isinstance(tool, BaseTool):
        raise ConfigurationError("guard: a BaseTool is needed")
    twin: T = PreactionMiddleware(gate, session=session)._guard(tool)
    return twin


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
