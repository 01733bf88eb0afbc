"""One call of a tool of Agno's: what its body would run with, whose it is, and in which turn of which model."""

import inspect
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final
from weakref import WeakValueDictionary

from agno.agent import Agent
from agno.tools.function import FunctionCall, ToolResult

from preaction.adapters._bridge import Bridge, Go, Stop
from preaction.adapters._json_schema import MISFIT, fits, with_defaults
from preaction.adapters._plain import plain
from preaction.adapters._turns import Turn, inside, outer_session, turn

log = logging.getLogger("preaction")

INJECTED: Final = {"agent", "team", "run_context", "fc", "images", "videos", "audios", "files"}
ASKS: Final = "get_function_calls_to_run"
PLAIN: Final = (str, int, float, list, tuple, dict, type(None))
MCP_FAILED: Final = ("Error from MCP tool", "Error: ", "MCP tool ")

_teams: WeakValueDictionary[tuple[str | None, str], Any] = WeakValueDictionary()
"""The `RunContext` of a team's present run: by the team's id and the session that its members share with it."""


class Call:
    """One call of a guarded function."""

    def __init__(
        self,
        body: Any,
        signature: inspect.Signature,
        names: list[str],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        bridge: Bridge[Any],
        opaque: bool,
    ) -> None:
        self.body, self.bridge, self.args, self.kwargs = body, bridge, args, kwargs
        fc = kwargs.get("fc") if "fc" in signature.parameters else kwargs.pop("fc", None)
        self.fc: Any = fc if isinstance(fc, FunctionCall) else None  # else the model made one up
        function = self.fc and self.fc.function
        self.context = function and function._run_context
        self.names = [*names, function.name] if function else names
        self.batch: Turn | None = Turn(())  # what could not be read is in one batch with everything
        self.fields: dict[str, Any] = {}
        self.plain: Any = None  # no arguments: the gate denies, and sees to observe mode
        self.bound: inspect.BoundArguments | None = None
        self.misfit = False
        try:
            self.batch = None if self.context is None else _batch(function, self.context)
            self.read(signature, kwargs if self.fc is None else self.fc.arguments or {})
            if opaque and function and any(bridge.gate.is_gated(name) for name in self.names):
                self.fill(function.parameters)
        except Exception as error:  # noqa: BLE001
            log.error("a call could not be read: %s", type(error).__name__, extra={"code": "adapter_failed"})
            self.plain = self.bound = None

    def read(self, signature: inspect.Signature, sent: Mapping[str, Any]) -> None:
        """The fields that the body would run with, and how they are bound to its parameters."""
        hidden = INJECTED | set(getattr(self.fc and self.fc.function, "_framework_params", None) or ())
        try:
            bound = signature.bind(*self.args, **self.kwargs)
        except TypeError:  # the body would refuse it as well, but the gate's reason comes first
            self.plain = {name: _plain(value) for name, value in self.kwargs.items() if name in sent}
            return
        bound.apply_defaults()
        self.rest = _last(signature, inspect.Parameter.VAR_KEYWORD)
        self.many = _last(signature, inspect.Parameter.VAR_POSITIONAL)
        for name, value in bound.arguments.items():
            if name == self.rest:
                self.fields |= value
            elif name == self.many:
                self.fields |= {name: value} if value else {}
            elif name in sent or (name not in hidden and name[:6] != "_agno_" and isinstance(value, PLAIN)):
                self.fields[name] = value  # else it is an object of the runtime's or the developer's
        self.plain = {name: _plain(value) for name, value in self.fields.items()}
        self.bound = bound

    def fill(self, schema: Mapping[str, Any]) -> None:
        """Add what the schema says of a body that isn't to be seen, and that may convert what it is given."""
        self.plain = with_defaults(schema, self.plain)
        self.misfit = not fits(schema, self.plain)

    @property
    def question(self) -> tuple[str, Any, Any]:
        return self.names[0], None if self.misfit else self.plain, self.context

    def run(self, go: Go) -> Any:
        """Call the body with the checked copies."""
        with inside(go):
            if self.bound is None or go.arguments is None:
                return self.body(*self.args, **self.kwargs)
            for name, checked in go.arguments.items():
                is_object = name in self.fields and self.plain[name] is not self.fields[name]
                value = self.fields[name] if is_object else checked  # pydantic made it of this call's arguments
                if name in self.bound.arguments and name != self.rest:
                    self.bound.arguments[name] = value
                else:
                    self.bound.arguments[self.rest][name] = value
            if self.args:
                return self.body(*self.bound.args, **self.bound.kwargs)
            named = {n: value for n, value in self.bound.arguments.items() if n not in (self.rest, self.many)}
            return self.body(**named, **self.bound.arguments.get(self.rest, {}))

    def denied(self, stop: Stop) -> str:
        if self.fc is not None and self.fc.function.stop_after_tool_call:  # a denial doesn't end the run
            self.fc.function = self.fc.function.model_copy()
            self.fc.function.stop_after_tool_call = False
        return MISFIT if self.misfit else stop.text

    def ran(self, go: Go, result: Any) -> Any:
        """Record what the body returned; what it yields, once it has ended."""
        if inspect.isgenerator(result):
            return self.stream(go, result)
        if inspect.isasyncgen(result):
            return self.astream(go, result)
        self.record(go, result)
        return result

    def record(self, go: Go, result: Any) -> None:
        if isinstance(result, ToolResult):
            if result.content.startswith(MCP_FAILED):  # the runtime has no other mark for it
                return
            result = (result.metadata or {}).get("structured_content", result.content)
        if not inspect.isawaitable(result):
            self.bridge.ran(go, result)

    def stream(self, go: Go, items: Iterator[Any]) -> Iterator[Any]:
        given = []
        end = object()
        while True:
            with inside(go):  # between two items the runtime is outside of the body
                item = next(items, end)
            if item is end:
                break
            given.append(item)
            yield item
        self.record(go, given[0] if len(given) == 1 else "".join(map(str, given)))

    async def astream(self, go: Go, items: Any) -> AsyncIterator[Any]:
        given = []
        end = object()
        async with aclosing(items):
            while True:
                with inside(go):
                    item = await anext(items, end)
                if item is end:
                    break
                given.append(item)
                yield item
        self.record(go, given[0] if len(given) == 1 else "".join(map(str, given)))


def _last(signature: inspect.Signature, kind: Any) -> str:
    return next((name for name, parameter in signature.parameters.items() if parameter.kind is kind), "")


def _plain(value: Any) -> Any:
    """A value as JSON has it; the same object where it is that already."""
    if type(value) in (str, int, float, bool, type(None)):
        return value
    try:
        made = plain(value)
    except ValueError:  # nothing that can be checked, as the gate will say
        return value
    return value if made == value and type(made) is type(value) else made


def listening(model: Any, assistant_message: Any, messages: Any, functions: Any = None) -> Any:
    """The model's method that makes an answer's calls: it has the run's own list of messages.

    `run_context.messages` is a copy while hooks run, and after hooks that ran side by side it stays an old one.
    """
    for function in (functions or {}).values():
        if function.user_input_schema:  # what a person is to fill in
            function.user_input_schema = [field for field in function.user_input_schema if field.name != "fc"]
        context, team = function._run_context, function._team
        if context is not None:
            context.preaction_messages = messages
        if context is not None and team is not None and function._agent is None:
            context.preaction_above = team.parent_team_id
            _teams[(team.id, context.session_id)] = context
    return getattr(type(model), ASKS)(model, assistant_message, messages, functions)


def _messages(context: Any) -> Sequence[Any]:
    return getattr(context, "preaction_messages", None) or context.messages or ()


def session_of(context: Any) -> str | None:
    return outer_session() or getattr(context, "session_id", None)


def _turn_of(context: Any) -> object:
    """The model's last message that made calls: while they run, the present turn."""
    asked = (message for message in reversed(_messages(context)) if message.tool_calls)
    return context.run_id, getattr(next(asked, None), "id", None)


def _batch(function: Any, context: Any) -> Turn:
    """The turn that made this call, within those of the teams whose members are at work in it."""
    agent, team = function._agent, function._team
    above = agent.team_id if isinstance(agent, Agent) else getattr(team, "parent_team_id", None)
    runs = [context]
    while (outer := _teams.get((above, context.session_id))) is not None and _is_waiting(outer):
        runs.append(outer)
        above = outer.preaction_above
    runs.reverse()
    path = list(turn(_turn_of(runs[0])).path)
    return Turn((*path, *((run, _turn_of(run)) for run in runs[1:])))


def _is_waiting(context: Any) -> bool:
    """Whether a run waits for the calls of its model's last message; they are answered all at once."""
    return bool(messages := _messages(context)) and bool(messages[-1].tool_calls)
