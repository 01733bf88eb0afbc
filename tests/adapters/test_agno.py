"""Agno: the contract in the real runtime, and a row for every trap that its facts name."""

import asyncio
import functools
import json
import logging
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import pytest

pytest.importorskip("agno", reason="runs in its own environment: make test-runtimes")

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.team import Team
from agno.tools import Toolkit, tool
from agno.tools.function import Function, FunctionCall
from pydantic import BaseModel, Field, StringConstraints

from adapters.around import canned_server, cost, import_without, run_example, run_page
from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
    LOOK,
    OTHER,
    REPLY,
    RULE,
    SESSION,
    TICKET,
    Contract,
    Desk,
    Harness,
    ToolCall,
    Transcript,
    as_json,
    reply,
)
from preaction import ConfigurationError
from preaction._core.facts import Verify
from preaction.adapters import _agno_call
from preaction.adapters._bridge import FAILED
from preaction.adapters.agno import install

pytestmark = pytest.mark.filterwarnings("ignore")  # the runtime's own

Turns = Sequence[Sequence[ToolCall]]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The runtime logs every tool that raises."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Script(Model):
    """A model that makes the calls of its script, one turn after the other, then says `done`."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(id="script", name="script", provider="script")
        self.turns = list(turns)
        self.told: list[Any] = []
        self.asked = 0
        self.offered: Any = None

    def answer(self, messages: Any, tools: Any = None) -> ModelResponse:
        self.offered = tools
        results = []
        for message in reversed(messages):
            if message.role != "tool":
                break
            results.append(message)
        self.told += reversed(results)
        self.asked += 1
        if self.asked > len(self.turns):
            return ModelResponse(role="assistant", content="done")
        calls = [
            {"id": f"t{self.asked}-{number}", "type": "function",
             "function": {"name": call.name, "arguments": as_json(call.arguments)}}
            for number, call in enumerate(self.turns[self.asked - 1])
        ]  # fmt: skip
        return ModelResponse(role="assistant", tool_calls=calls)

    def invoke(self, messages: Any, *_: Any, **more: Any) -> ModelResponse:
        return self.answer(messages, more.get("tools"))

    async def ainvoke(self, messages: Any, *_: Any, **more: Any) -> ModelResponse:
        return self.answer(messages, more.get("tools"))

    def invoke_stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        yield self.answer(messages)

    async def ainvoke_stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        yield self.answer(messages)

    def _parse_provider_response(self, response: Any, **_: Any) -> Any:
        return response

    def _parse_provider_response_delta(self, response: Any) -> Any:
        return response


def agent_of(tools: Any, turns: Turns, **more: Any) -> Agent:
    return Agent(model=Script(turns), tools=tools, telemetry=False, **more)


def team_of(members: Any, turns: Turns, **more: Any) -> Team:
    return Team(members=members, model=Script(turns), telemetry=False, **more)


def told(owner: Any) -> list[str]:
    return [str(message.content) for message in owner.model.told]


def of_the_chat(context: RunContext) -> str | None:
    """The session that a program hands to each run."""
    return (context.metadata or {}).get("chat")


MODES = ("sync", "async", "stream", "astream")


def run(owner: Any, mode: str = "sync", chat: str | None = SESSION, **more: Any) -> str:
    more = {"metadata": {"chat": chat}, **more}

    async def play() -> str:
        if mode == "async":
            return str((await owner.arun("hi", **more)).content)
        events = [event async for event in owner.arun("hi", stream=True, **more)]
        return "".join(str(getattr(event, "content", None) or "") for event in events)

    if mode == "sync":
        return str(owner.run("hi", **more).content)
    if mode == "stream":
        return "".join(str(getattr(event, "content", None) or "") for event in owner.run("hi", stream=True, **more))
    return asyncio.run(play())


def of_async(body: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool as a coroutine function."""

    @functools.wraps(body)
    async def tool_of(**arguments: Any) -> Any:
        await asyncio.sleep(0)
        return body(**arguments)

    return tool_of


def of_stream(body: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool as a generator function."""

    @functools.wraps(body)
    def tool_of(**arguments: Any) -> Iterator[Any]:
        result = body(**arguments)
        yield json.dumps(result) if isinstance(result, dict) else result

    tool_of.__annotations__.pop("return", None)
    return tool_of


def of_async_stream(body: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool as an async generator function."""

    @functools.wraps(body)
    async def tool_of(**arguments: Any) -> AsyncIterator[Any]:
        result = json.dumps(made) if isinstance(made := body(**arguments), dict) else made
        yield result[:10]
        await asyncio.sleep(0)
        yield result[10:]

    tool_of.__annotations__.pop("return", None)
    return tool_of


class AgnoHarness(Harness):
    modes: Sequence[str] = MODES

    def __init__(self, tools: Callable[[Desk], Any] = lambda desk: desk.bodies, modes: Sequence[str] = MODES) -> None:
        self.tools = tools
        self.modes = modes

    def run(self, desk: Desk, turns: Turns, *, mode: str, session: str | None = SESSION) -> Transcript:
        agent = agent_of(self.tools(desk), turns)
        install(agent, desk.gate, session=of_the_chat)
        said = run(agent, mode, session)
        return Transcript(told(agent), said.endswith("done"))


class TestContract(Contract):
    harness = AgnoHarness()


class TestContractWithDecoratedTools(Contract):
    harness = AgnoHarness(lambda desk: [tool(body) for body in desk.bodies])


class TestContractWithAToolkit(Contract):
    harness = AgnoHarness(lambda desk: [Toolkit(tools=desk.bodies)])


class TestContractWithCoroutines(Contract):
    harness = AgnoHarness(lambda desk: [of_async(body) for body in desk.bodies], ("async", "astream"))


class TestContractWithGenerators(Contract):
    harness = AgnoHarness(lambda desk: [of_stream(body) for body in desk.bodies], ("sync", "async", "astream"))


class TestContractWithAsyncGenerators(Contract):
    harness = AgnoHarness(lambda desk: [of_async_stream(body) for body in desk.bodies], ("async", "astream"))


def play(desk: Desk, turns: Turns, *, tools: Any = None, mode: str = "sync", chat: str = SESSION, **more: Any) -> Agent:
    """Run the turns with the gate installed."""
    agent = agent_of(desk.bodies if tools is None else tools, turns, **more)
    install(agent, desk.gate, session=of_the_chat)
    assert run(agent, mode, chat).endswith("done")
    return agent


def denies(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
    """A gate as a tool hook, for the bare runtime."""
    if function_name == REPLY and arguments["ticket_id"] != TICKET:
        return "denied"
    return function_call(**arguments)


async def adenies(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
    """The same for async runs."""
    result = denies(function_name, function_call, arguments)
    return result if isinstance(result, str) else await result


SENT = [{"ticket_id": TICKET, "body": BODY}]
SENT_ON_THE_OTHER = [{"ticket_id": OTHER, "body": BODY}]
DECIDES, CHECKS = ToolCall(DECIDE, {"entity_id": TICKET}), ToolCall(CHECK, {"body": BODY})


# Traps: each is open in the bare runtime, or for a gate in a hook, and closed here -----------------------------------


def test_a_coroutine_hook_is_skipped_in_a_sync_run() -> None:
    async def deny(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        return "denied"

    bare = Desk().prepared()
    run(agent_of(bare.bodies, [[reply(OTHER)]], tool_hooks=[deny]))
    assert bare.replies() == SENT_ON_THE_OTHER

    desk = Desk().prepared()
    agent = play(desk, [[reply(OTHER)]], tool_hooks=[deny])
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


@pytest.mark.parametrize("fails", [True, False])
def test_a_pre_hook_that_raises_or_says_no_stops_nothing(fails: bool) -> None:
    def hook(fc: Any) -> bool:
        if fails:
            raise RuntimeError("the gate crashed")
        return False

    bare = Desk().prepared()
    run(agent_of([tool(pre_hook=hook)(bare.helpdesk_reply)], [[reply(OTHER)]]))
    assert bare.replies() == SENT_ON_THE_OTHER

    desk = Desk().prepared()
    agent = play(desk, [[reply(OTHER)]], tools=[tool(pre_hook=hook)(desk.helpdesk_reply), *desk.bodies[1:]])
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_an_agent_s_hooks_replace_those_of_its_tools() -> None:
    def other(function_call: Any, arguments: dict[str, Any]) -> Any:
        return function_call(**arguments)

    bare = Desk().prepared()
    guarded = tool(tool_hooks=[denies])(bare.helpdesk_reply)
    run(agent_of([guarded], [[reply(OTHER)]]))
    assert bare.replies() == []
    run(agent_of([guarded], [[reply(OTHER)]], tool_hooks=[other]))
    assert bare.replies() == SENT_ON_THE_OTHER

    desk = Desk().prepared()
    play(desk, [[reply(OTHER)], [reply()]], tool_hooks=[other])
    assert desk.replies() == SENT


def test_hooks_of_the_tools_still_run() -> None:
    seen: list[str] = []

    def hook(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        seen.append(function_name)
        return function_call(**arguments)

    desk = Desk().prepared()
    play(desk, [[reply()]], tools=[tool(tool_hooks=[hook])(desk.helpdesk_reply), *desk.bodies[1:]])
    assert (seen, desk.replies()) == ([REPLY], SENT)


def test_a_hook_that_passes_a_clean_copy_on_changes_nothing() -> None:
    def clean(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        return function_call(**{**arguments, "ticket_id": TICKET} if function_name == REPLY else arguments)

    bare = Desk().prepared()
    run(agent_of(bare.bodies, [[reply(OTHER)]], tool_hooks=[clean, denies]))
    assert bare.replies() == SENT_ON_THE_OTHER  # the inner hook saw the right ticket

    desk = Desk().prepared()
    agent = play(desk, [[reply(OTHER)]], tool_hooks=[clean])
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


@pytest.mark.parametrize("by", ["tool_hook", "pre_hook"])
def test_a_hook_that_rewrites_arguments_comes_before_the_gate(by: str) -> None:
    held: list[dict[str, Any]] = []

    def hold(function_call: Any, arguments: dict[str, Any]) -> Any:
        held.append(arguments)  # the first hook is given those that the body will run with, the others a copy
        return function_call(**arguments)

    def rewrite(function_call: Any, arguments: dict[str, Any]) -> Any:
        held[-1]["ticket_id"] = OTHER
        return function_call(**arguments)

    def earlier(fc: Any) -> None:
        fc.arguments["ticket_id"] = OTHER

    def with_it(desk: Desk) -> dict[str, Any]:
        if by == "tool_hook":
            return {"tools": desk.bodies, "tool_hooks": [hold, denies, rewrite]}
        return {"tools": [tool(pre_hook=earlier)(desk.helpdesk_reply), *desk.bodies[1:]]}

    bare = Desk().prepared()
    run(agent_of(turns=[[reply()]], **with_it(bare)))
    assert bare.replies() == SENT_ON_THE_OTHER

    desk = Desk().prepared()
    agent = play(desk, [[reply()]], **with_it(desk))
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_decision_that_a_hook_makes_up_is_not_recorded() -> None:
    desk = Desk()
    made_up = json.dumps(desk.authority.decide(TICKET))

    def pretend(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        return made_up if function_name == DECIDE else function_call(**arguments)

    agent = play(desk, [[DECIDES], [reply()]], tool_hooks=[pretend])
    assert told(agent)[0] == made_up  # the model was shown it
    assert "no decision" in told(agent)[1]


def test_what_counts_is_what_the_tool_returned_not_what_a_hook_made_of_it() -> None:
    def rewrite(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        result = function_call(**arguments)
        return result if function_name == REPLY else "looks fine"

    desk = Desk()
    agent = play(desk, [[DECIDES], [CHECKS], [reply()]], tool_hooks=[rewrite])
    assert told(agent)[:2] == ["looks fine"] * 2
    assert desk.replies() == SENT


def test_a_hook_that_calls_twice_is_asked_about_twice() -> None:
    def twice(function_call: Any, arguments: dict[str, Any]) -> Any:
        function_call(**arguments)
        return function_call(**arguments)

    bare = Desk().prepared()
    run(agent_of(bare.bodies, [[reply()]], tool_hooks=[denies, twice]))
    assert bare.replies() == SENT * 2

    desk = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared()
    agent = play(desk, [[reply()]], tool_hooks=[twice])
    assert desk.replies() == SENT
    assert "already" in told(agent)[0]


def test_a_cached_result_is_neither_a_reply_nor_a_decision(tmp_path: Path) -> None:
    def cached(desk: Desk) -> list[Any]:
        return [Toolkit(tools=desk.bodies, cache_results=True, cache_dir=str(tmp_path))]

    bare = Desk().prepared()
    for _ in range(2):
        run(agent_of(cached(bare), [[DECIDES]]))
    assert len(bare.ran) == 1  # a hook was told of a second decision all the same

    desk = Desk()
    agent = play(desk, [[reply()], [DECIDES], [CHECKS], [reply()]], tools=cached(desk))
    assert "no decision" in told(agent)[0]
    assert desk.replies() == SENT  # the denial was not kept
    play(desk, [[DECIDES], [CHECKS], [reply()]], tools=cached(desk), chat="another")
    assert desk.replies() == SENT * 2


@pytest.mark.parametrize(
    "text",
    [
        f"{{'ticket_id': '{OTHER}', 'body': 'a Python literal'}}",
        f'{{"ticket_id": "{TICKET}", "ticket_id": "{OTHER}", "body": "twice"}}',
    ],
)
def test_arguments_that_the_runtime_repairs_are_checked_as_they_run(text: str) -> None:
    bare = Desk().prepared()
    run(agent_of(bare.bodies, [[ToolCall(REPLY, text)]]))
    assert [sent["ticket_id"] for sent in bare.replies()] == [OTHER]

    desk = Desk().prepared()
    agent = play(desk, [[ToolCall(REPLY, text)]])
    assert desk.replies() == []
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=bare.replies()[0]["body"])


def test_words_that_the_runtime_takes_for_values_are_checked_as_they_run() -> None:
    sent: list[Any] = []

    def helpdesk_reply(ticket_id: str, body: str, public: bool | None = False) -> str:
        """Send a reply."""
        sent.append(public)
        return "sent"

    call = reply(public=" True ")
    run(agent_of([helpdesk_reply], [[call]]))
    assert sent == [True]

    desk = Desk(options={"tools": {REPLY: {**RULE, "fixed": {"public": False}}}}).prepared()
    play(desk, [[call], [reply(public="false")]], tools=[helpdesk_reply, *desk.bodies[1:]])
    assert sent == [True, False]


def test_what_pydantic_makes_of_an_argument_is_what_is_checked() -> None:
    class Ticket(BaseModel):
        id: str
        queue: str = "billing"

    sent: list[Any] = []

    def helpdesk_reply(ticket: Ticket, body: Annotated[str, StringConstraints(strip_whitespace=True)]) -> str:
        """Send a reply."""
        sent.append((ticket, body))
        return "sent"

    fields = ["ticket.id", "ticket.queue", "body"]
    rule = {**RULE, "entity": {"field": "ticket.id"}, "fields": fields, "fixed": {"ticket.queue": "billing"}}
    for tools in (lambda: helpdesk_reply, lambda: tool(helpdesk_reply), lambda: Toolkit(tools=[helpdesk_reply])):
        desk = Desk(options={"tools": {REPLY: rule}}).prepared()
        turns = [
            [ToolCall(REPLY, {"ticket": {"id": TICKET, "queue": "legal"}, "body": BODY})],
            [ToolCall(REPLY, {"ticket": {"id": OTHER}, "body": BODY})],
            [ToolCall(REPLY, {"ticket": {"id": TICKET}, "body": f"  {BODY} "})],
        ]
        agent = play(desk, turns, tools=[tools(), *desk.bodies[1:]])
        assert sent == [(Ticket(id=TICKET), BODY)], told(agent)
        sent.clear()


def test_a_field_that_its_author_left_out_of_dumps_is_checked_all_the_same() -> None:
    class Ticket(BaseModel):
        id: str
        send_to: str = Field("the customer", exclude=True)

    sent: list[Any] = []

    def helpdesk_reply(ticket: Ticket, body: str) -> str:
        """Send a reply."""
        sent.append(ticket)
        return "sent"

    rule = {**RULE, "entity": {"field": "ticket.id"}, "fields": ["ticket.id", "body"]}
    desk = Desk(options={"tools": {REPLY: rule}}).prepared()
    call = ToolCall(REPLY, {"ticket": {"id": TICKET, "send_to": "everybody"}, "body": BODY})
    agent = play(desk, [[call]], tools=[helpdesk_reply, *desk.bodies[1:]])
    assert sent == []
    assert "send_to" in told(agent)[0]


def test_a_toolkit_s_decorated_method_gets_what_was_checked() -> None:
    sent: list[Any] = []

    class Desktop(Toolkit):
        def __init__(self) -> None:
            super().__init__(tools=[self.helpdesk_reply])

        @tool
        def helpdesk_reply(self, ticket_id: str, body: str, copies: int = 1) -> str:
            """Send a reply."""
            sent.append(copies)
            return "sent"

    call = reply(copies="2")
    run(agent_of([Desktop()], [[call]]))
    assert sent == [2]  # converted behind the runtime's back

    desk = Desk(options={"tools": {REPLY: {**RULE, "fixed": {"copies": 1}}}}).prepared()
    turns = [[call], [reply(copies="1")], [reply(copies=2)], [reply()]]
    agent = play(desk, turns, tools=[Desktop(), *desk.bodies[1:]])
    assert sent == [2, 1]
    assert "isn't of the type" in told(agent)[1]


def test_defaults_that_the_model_does_not_send_are_checked_too() -> None:
    sent = []

    def helpdesk_reply(ticket_id: str, body: str, public: bool = True) -> str:
        """Send a reply."""
        sent.append(public)
        return "sent"

    desk = Desk().prepared()
    agent = play(desk, [[reply()]], tools=[helpdesk_reply, *desk.bodies[1:]])
    assert sent == []
    assert "public" in told(agent)[0]


def test_what_the_runtime_passes_in_is_no_field_and_the_model_can_not_pass_it() -> None:
    seen: list[Any] = []

    def helpdesk_reply(ticket_id: str, body: str, run_context: RunContext, agent: Agent, mine: Agent, fc: Any) -> str:
        """Send a reply."""
        seen.append((run_context.session_id, agent is mine, fc.call_id))
        return "sent"

    desk = Desk().prepared()
    agent = agent_of([helpdesk_reply, *desk.bodies[1:]], [[reply(run_context={"session_id": "mine"})], [reply()]])
    install(agent, desk.gate)
    run(agent, session_id=SESSION)
    assert seen[-1] == (SESSION, True, "t2-0")
    assert {session for session, _, _ in seen} == {SESSION}


def test_the_model_can_not_make_up_the_call_that_the_runtime_passes_in() -> None:
    desk = Desk().prepared()
    play(desk, [[reply(OTHER, fc={"arguments": {"ticket_id": TICKET, "body": BODY}})]])
    assert desk.replies() == []
    play(desk, [[reply(fc=None)]], chat="another")
    assert desk.replies() == []


@pytest.mark.parametrize("strict", [False, True])
def test_the_model_sees_the_tools_as_they_were(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Answer(BaseModel):
        text: str

    offered = []
    for gate in (None, Desk().gate):
        agent = agent_of([*postponed(monkeypatch), *Desk().bodies], [], output_schema=Answer if strict else None)
        agent.model.supports_native_structured_outputs = strict
        if gate is not None:
            install(agent, gate)
        run(agent)
        offered.append(agent.model.offered)
    assert offered[0] == offered[1]
    assert len(offered[0]) == 8
    assert "fc" not in str(offered)


POSTPONED = """from __future__ import annotations
""" + "".join(
    f"""
def {name}(ticket_id: str, body: Optional[str] = None, *, run_context: RunContext, mine: RunContext, **more) -> str:
    '''Send a reply.

    Args:
        ticket_id: the ticket
    '''
    return mine.session_id
"""
    for name in ("one", "two", "three", "four")
)


def postponed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Tools of all kinds whose annotations are texts, from a module of their own."""
    module = types.ModuleType("postponed")
    vars(module).update(Optional=Optional, RunContext=RunContext)
    monkeypatch.setitem(sys.modules, "postponed", module)
    exec(POSTPONED, vars(module))
    one, two, three, four = (getattr(module, name) for name in ("one", "two", "three", "four"))
    return [three, tool(four), Toolkit(tools=[one, tool(two)])]


@pytest.mark.parametrize("name", ["one", "two", "three", "four"])
def test_a_tool_with_postponed_annotations_runs_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    agent = agent_of([*postponed(monkeypatch), *desk.bodies], [[ToolCall(name, {"ticket_id": TICKET})]])
    install(agent, desk.gate)
    run(agent, session_id=SESSION)
    assert told(agent) == [SESSION]


def test_a_denial_does_not_end_the_run_of_a_tool_that_ends_it() -> None:
    desk = Desk().prepared()
    agent = agent_of(
        [tool(stop_after_tool_call=True)(desk.helpdesk_reply), *desk.bodies[1:]], [[reply(OTHER)], [reply()], [reply()]]
    )
    install(agent, desk.gate, session=of_the_chat)
    run(agent)
    assert desk.replies() == SENT
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]  # and the reply ended it


def test_a_call_that_a_person_confirms_is_checked_when_it_runs() -> None:
    desk = Desk().prepared()
    agent = agent_of(
        [tool(requires_confirmation=True)(desk.helpdesk_reply), *desk.bodies[1:]], [[reply(OTHER)], [reply()]]
    )
    install(agent, desk.gate, session=of_the_chat)
    paused = agent.run("hi", metadata={"chat": SESSION})
    for _ in range(2):
        assert paused.is_paused
        for requirement in paused.active_requirements:
            requirement.confirm()
        paused = agent.continue_run(run_response=paused, metadata={"chat": SESSION})
    assert desk.replies() == SENT
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_a_call_that_a_person_completes_is_checked_as_it_runs() -> None:
    desk = Desk().prepared()
    ask = tool(requires_user_input=True, user_input_fields=["ticket_id"])(desk.helpdesk_reply)
    agent = agent_of([ask, *desk.bodies[1:]], [[ToolCall(REPLY, {"body": BODY})]] * 2)
    install(agent, desk.gate, session=of_the_chat)
    paused = agent.run("hi", metadata={"chat": SESSION})
    for ticket in (OTHER, TICKET):
        (requirement,) = paused.active_requirements
        assert [field.name for field in requirement.user_input_schema] == ["ticket_id", "body"]
        requirement.user_input_schema[0].value = ticket
        paused = agent.continue_run(run_response=paused, metadata={"chat": SESSION})
    assert desk.replies() == SENT
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


@pytest.mark.parametrize("mode", ["async", "astream"])
def test_a_plain_function_that_an_async_hook_brings_onto_the_event_loop_is_asked_about_too(mode: str) -> None:
    async def later(execution_id: str) -> Any:
        await asyncio.sleep(0)
        return desk.authority.good_answer(Verify(execution_id))

    desk = Desk(options={"verify": later}).prepared()
    agent = play(desk, [[reply(OTHER)], [reply()]], mode=mode, tool_hooks=[adenies])
    assert told(agent)[0] == "denied"
    assert desk.replies() == SENT


# Agents below agents -------------------------------------------------------------------------------------------------


def delegates(member: str = "worker") -> ToolCall:
    return ToolCall("delegate_task_to_member", {"member_id": member, "task": "go"})


@pytest.mark.parametrize("mode", MODES)
def test_the_members_of_a_team_are_gated_which_its_hooks_do_not_cover(mode: str) -> None:
    bare = Desk().prepared()
    worker = agent_of(bare.bodies, [[reply(OTHER)]], name="worker")
    run(team_of([worker], [[delegates()]], tool_hooks=[adenies if mode in ("async", "astream") else denies]), mode)
    assert bare.replies() == SENT_ON_THE_OTHER

    desk = Desk().prepared()
    worker = agent_of(desk.bodies, [[reply(OTHER)], [reply()]], name="worker")
    team = team_of([team_of([worker], [[delegates()]], name="inner")], [[delegates("inner")]])
    install(team, desk.gate)
    assert run(team, mode, session_id=SESSION).endswith("done")
    assert desk.replies() == SENT
    assert told(worker)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def members_of(desk: Desk, *, deciding: Turns = (), acting: Turns = ()) -> list[Agent]:
    decider = agent_of(desk.bodies[1:], deciding, name="decider")
    return [decider, agent_of(desk.bodies, acting, name="actor")]


@pytest.mark.parametrize("mode", MODES)
def test_what_a_team_decides_counts_for_its_members_from_its_next_turn_on(mode: str) -> None:
    desk = Desk()
    members = members_of(desk, acting=[[reply()], [], [reply()], [], [reply()]])
    turns = [[DECIDES, delegates("actor")], [CHECKS, delegates("actor")], [delegates("actor")]]
    team = team_of(members, turns, tools=desk.bodies[1:])
    install(team, desk.gate)
    assert run(team, mode, session_id=SESSION).endswith("done")
    seen = told(members[1])
    assert "no decision" in seen[0]
    assert "no output check" in seen[1]
    assert desk.replies() == SENT


@pytest.mark.parametrize("mode", MODES)
def test_what_one_member_decides_counts_for_another_from_the_team_s_next_turn_on(mode: str) -> None:
    desk = Desk()
    members = members_of(desk, deciding=[[DECIDES], [CHECKS]], acting=[[reply()], [], [reply()]])
    team = team_of(members, [[delegates("decider"), delegates("actor")], [delegates("actor")]])
    install(team, desk.gate)
    assert run(team, mode, session_id=SESSION).endswith("done")
    assert "no decision" in told(members[1])[0]
    assert desk.replies() == SENT


def test_what_a_member_decides_counts_for_its_own_next_turn() -> None:
    desk = Desk()
    members = members_of(desk, acting=[[reply()], [DECIDES], [CHECKS], [reply()]])
    team = team_of(members, [[delegates("actor")]])
    install(team, desk.gate)
    run(team, session_id=SESSION)
    assert "no decision" in told(members[1])[0]
    assert desk.replies() == SENT


def test_what_the_last_turn_of_a_team_s_run_decides_counts_for_a_member_in_its_next_run() -> None:
    desk = Desk()
    members = members_of(desk, acting=[[reply()]])
    team = team_of(members, [[DECIDES], [], [CHECKS], [], [delegates("actor")]], tools=desk.bodies[1:])
    install(team, desk.gate)
    for _ in range(3):
        run(team, session_id=SESSION)
    assert desk.replies() == SENT


def test_an_agent_that_a_tool_runs_belongs_to_the_session_of_the_call() -> None:
    desk = Desk()
    turns = [[reply()], [DECIDES], [CHECKS], [reply()]]
    helper = agent_of(desk.bodies, turns)

    def ask_the_helper(task: str) -> str:
        """Have the helper do it."""
        return str(helper.run(task).content)

    agent = agent_of([ask_the_helper], [[ToolCall("ask_the_helper", {"task": "go"})], [ToolCall(LOOK, {})]])
    install(agent, desk.gate)
    run(agent, session_id=SESSION)
    assert "no decision" in told(helper)[0]
    assert desk.replies() == SENT
    assert desk.gate.preview(SESSION, REPLY, SENT[0]).allow


async def test_what_an_agent_that_a_tool_runs_decides_does_not_count_beside_it() -> None:
    decided = asyncio.Event()
    desk = Desk()
    helper = agent_of(desk.bodies, [[DECIDES], [CHECKS]])

    async def ask_the_helper(task: str) -> str:
        """Have the helper do it."""
        await helper.arun(task)
        decided.set()
        return "decided"

    async def wait_for_it(function_name: str, function_call: Any, arguments: dict[str, Any]) -> Any:
        if function_name == REPLY:
            await decided.wait()
        return await function_call(**arguments)

    asks = ToolCall("ask_the_helper", {"task": "go"})
    tools = [ask_the_helper, *map(of_async, desk.bodies)]
    agent = agent_of(tools, [[asks, reply()], [reply()]], tool_hooks=[wait_for_it])
    install(agent, desk.gate)
    await agent.arun("hi", session_id=SESSION)
    assert any("no decision" in text for text in told(agent)[:2])
    assert desk.replies() == SENT


def test_the_agents_of_a_workflow_are_gated() -> None:
    workflow = pytest.importorskip("agno.workflow", reason="this environment lacks what its workflows need")
    desk = Desk().prepared()
    worker = agent_of(desk.bodies, [[reply(OTHER)], [reply()]], name="worker")
    steps = [workflow.Steps(name="all", steps=[workflow.Step(name="one", agent=worker)])]
    flow = workflow.Workflow(name="flow", steps=steps, telemetry=False)
    install(flow, desk.gate)
    flow.run(input="hi", session_id=SESSION)
    assert desk.replies() == SENT
    assert told(worker)[0] == desk.denial(ticket_id=OTHER, body=BODY)


# Tools that come later, copies, and what install refuses -------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Agent, Team])
def test_a_tool_that_joins_after_install_is_guarded_when_a_run_starts(kind: type, mode: str) -> None:
    desk = Desk().prepared()
    owner = agent_of([], []) if kind is Agent else team_of([agent_of([], [])], [])
    owner.model.turns = [[reply(OTHER)], [reply()]]
    install(owner, desk.gate, session=of_the_chat, accept=[REPLY, DECIDE, CHECK])
    owner.add_tool(desk.helpdesk_reply)
    assert run(owner, mode).endswith("done")
    assert desk.replies() == SENT
    assert told(owner)[0] == desk.denial(ticket_id=OTHER, body=BODY)


@pytest.mark.parametrize("mode", MODES)
def test_tools_and_members_that_a_function_makes_at_each_run_are_guarded(mode: str) -> None:
    desk = Desk().prepared()
    asked: list[str] = []
    turns = [[reply(OTHER)], [reply()]]
    workers: list[Agent] = []

    def tools(run_context: RunContext) -> list[Any]:
        asked.append(run_context.session_id)
        return [tool(desk.helpdesk_reply)]

    async def amembers() -> list[Agent]:
        workers.append(agent_of(tools, turns, name="worker"))
        return workers

    def members() -> list[Agent]:
        workers.append(agent_of(tools, turns, name="worker"))
        return workers

    team = team_of(members if mode in ("sync", "stream") else amembers, [[delegates()]])
    install(team, desk.gate, accept=[REPLY, DECIDE, CHECK])
    assert run(team, mode, session_id=SESSION).endswith("done")
    assert desk.replies() == SENT
    assert set(asked) == {SESSION}
    assert told(workers[0])[0] == desk.denial(ticket_id=OTHER, body=BODY)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_deep_copy_of_an_agent_is_guarded_too(wrapped: bool) -> None:
    desk = Desk().prepared()
    agent = agent_of([Toolkit(tools=desk.bodies)] if wrapped else desk.bodies, [[reply(OTHER)], [reply()]])
    install(agent, desk.gate, session=of_the_chat)
    copied = agent.deep_copy()
    run(copied)
    assert desk.replies() == SENT
    assert told(copied)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_install_can_be_repeated_and_two_gates_both_have_to_allow() -> None:
    once = {"tools": {REPLY: {**RULE, "once": "decision"}}}
    desk, other = Desk(options=once).prepared(), Desk()
    for tools in (desk.bodies, [tool(body) for body in desk.bodies]):
        agent = agent_of(tools, [[reply()]])
        for _ in range(3):
            install(agent, desk.gate, session=of_the_chat)
        run(agent)
    assert desk.replies() == SENT

    agent = agent_of(desk.bodies, [[reply()], [reply()]])
    for gate in (other.gate, desk.gate, other.gate):
        install(agent, gate, session=of_the_chat)
    run(agent)
    assert desk.replies() == SENT
    assert len(agent.pre_hooks) == 2


def test_a_run_whose_tools_can_not_be_guarded_ends() -> None:
    class Broken:
        __name__ = REPLY

        def __call__(self) -> None:
            pass

        @property
        def __signature__(self) -> Any:
            raise RuntimeError("no signature")

    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate, session=of_the_chat)
    agent.add_tool(Broken())
    run(agent)
    assert agent.model.asked == 0
    assert desk.ran == []


def test_a_gated_name_that_no_tool_has_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent_of(desk.bodies[1:], []), desk.gate)
    with pytest.raises(ConfigurationError, match="an Agent, a Team"):
        install(desk.bodies, desk.gate)


def test_a_tool_is_known_by_its_function_s_name_as_well() -> None:
    desk = Desk().prepared()
    turns = [[ToolCall("send", reply(OTHER).arguments)], [ToolCall("send", reply().arguments)]]
    agent = play(desk, turns, tools=[tool(name="send")(desk.helpdesk_reply), *desk.bodies[1:]])
    assert desk.replies() == SENT
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_what_runs_elsewhere_is_refused_unless_accepted() -> None:
    class Elsewhere:
        name = "elsewhere"

        async def arun(self) -> None:
            pass

    desk = Desk()
    hosted = {"type": "web_search"}
    outside = tool(external_execution=True)(desk.look_up)
    workers = [agent_of([*desk.bodies[:3], hosted, outside], []), Elsewhere()]
    for name in ("web_search", LOOK, "elsewhere"):
        with pytest.raises(ConfigurationError, match=name):
            install(workers, desk.gate)
    install(workers, desk.gate, accept=["web_search", LOOK, "elsewhere"])


# Sessions ------------------------------------------------------------------------------------------------------------


def test_the_session_of_the_run_is_the_session() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    run(agent, session_id=SESSION)
    assert desk.replies() == SENT


def test_a_resolver_that_fails_denies() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate, session=lambda context: context.metadata["no such thing"])
    assert run(agent) == "done"
    assert told(agent) == [FAILED]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_call_that_can_not_be_read_is_denied(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(_agno_call, "_batch", broken)
    desk = Desk(options={"mode": mode}).prepared()
    agent = play(desk, [[reply()], [ToolCall(LOOK, {"ticket_id": TICKET})]])
    assert len(desk.replies()) == (mode == "observe")
    assert told(agent)[0]
    assert "secret" not in told(agent)[0]
    assert desk.ran[-1][0] == LOOK


async def test_a_cancelled_run_stays_cancelled() -> None:
    asked = asyncio.Event()

    async def hang(_: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": hang, "deadline_s": 30}).prepared()
    agent = agent_of([of_async(body) for body in desk.bodies], [[reply()]])
    install(agent, desk.gate, session=of_the_chat)
    task = asyncio.create_task(agent.arun("hi", metadata={"chat": SESSION}))
    async with asyncio.timeout(30):
        await asked.wait()
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert task.done()
    assert desk.replies() == []
    assert told(agent) == []  # no denial was made of it


def test_observe_lets_the_call_through_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"})
    play(desk, [[reply(OTHER)]])
    assert desk.replies() == SENT_ON_THE_OTHER


def test_a_guarded_function_that_one_s_own_code_calls_is_gated_too() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [])
    install(agent, desk.gate)
    with desk.gate.session(SESSION):
        assert agent.tools[0](OTHER, BODY) == desk.denial(ticket_id=OTHER, body=BODY)
        agent.tools[0](TICKET, body=BODY)
    assert desk.replies() == SENT


# A real MCP server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "desk"])
async def test_tools_of_an_mcp_server_are_gated_and_its_results_recorded(prefix: str | None, tmp_path: Path) -> None:
    from agno.tools.mcp import MCPTools
    from mcp import StdioServerParameters

    desk, ran = Desk(), tmp_path / "ran"
    turns = [[reply()], [ToolCall(DECIDE, {"entity_id": OTHER})], [DECIDES], [CHECKS], [reply()], [reply(cc="x")]]
    front = f"{prefix}_" if prefix else ""
    named = [[ToolCall(front + call.name, call.arguments) for call in turn] for turn in turns]
    server = StdioServerParameters(**canned_server(desk, ran))
    async with MCPTools(
        server_params=server, transport="stdio", tool_name_prefix=prefix, timeout_seconds=60
    ) as connected:
        agent = agent_of([connected], named)
        install(agent, desk.gate)
        await agent.arun("hi", session_id=SESSION)
    assert "no decision" in told(agent)[0]
    assert told(agent)[1].startswith("Error")  # all that the runtime says of a call that failed
    assert "cc" in told(agent)[5]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == SENT


async def test_an_mcp_server_that_connects_later_is_guarded(tmp_path: Path) -> None:
    from agno.tools.mcp import MCPTools
    from mcp import StdioServerParameters

    desk, ran = Desk(), tmp_path / "ran"
    server = StdioServerParameters(**canned_server(desk, ran))
    tools = MCPTools(server_params=server, transport="stdio", timeout_seconds=60)
    agent = agent_of([tools], [[reply()], [DECIDES], [CHECKS], [reply()]])
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent, desk.gate)
    install(agent, desk.gate, accept=[REPLY, DECIDE, CHECK])
    await agent.arun("hi", session_id=SESSION)
    assert "no decision" in told(agent)[0]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == SENT


# The example, the page, the cost -------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    said = run_example("agno")
    assert said.startswith(
        "sent on HC-1201: Hello, line 3 is the service fee.\nfirst told: Denied, nothing was done: no"
    )


def test_the_page_s_code_runs() -> None:
    names = run_page("agno.md")
    with names["gate"].session(SESSION):
        assert names["agent"].tools[0](ticket_id=TICKET, body=BODY).startswith("Denied")


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[agno]'" in import_without("agno.agent", "agno")


async def test_what_the_adapter_adds_to_a_check() -> None:
    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Send a reply."""
        return "sent"

    desk = Desk().prepared()
    agent = agent_of([helpdesk_reply, *desk.bodies[1:]], [])
    install(agent, desk.gate)

    def runs(body: Any) -> Callable[[], Any]:
        function = Function.from_callable(body)
        function._run_context = RunContext(run_id="run", session_id=SESSION, messages=[])

        async def once() -> Any:
            call = FunctionCall(function=function, arguments={"ticket_id": TICKET, "body": BODY}, call_id="t")
            return await call.aexecute()

        assert asyncio.iscoroutinefunction(function.entrypoint)
        return once

    found = await cost(desk, runs(agent.tools[0]), runs(helpdesk_reply))
    print(f"agno: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
