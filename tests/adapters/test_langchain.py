"""LangChain and LangGraph: the contract in a `create_agent`, in a plain graph and by middleware, and their traps."""

import asyncio
import functools
import itertools
import json
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain.agents", reason="runs in its own environment: make test-runtimes")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolMessage
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent, tools_condition
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from adapters.around import cost, import_without, run_example, run_page
from adapters.contract import (
    BODY,
    CHECK,
    DECIDE,
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
from preaction import ConfigurationError, create_action_gate
from preaction._core.facts import Verify
from preaction.adapters._bridge import FAILED
from preaction.adapters.langchain import PreactionMiddleware, guard, install

DONE = "All done."


class Stub(BaseChatModel):
    """Plays its script, and parses the arguments as the OpenAI integration does."""

    script: list[Any] = Field(default_factory=list)
    said: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "stub"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        self.said.append(messages)
        turn = self.script[len(self.said) - 1] if len(self.said) <= len(self.script) else ()
        message = AIMessage("" if turn else DONE)
        for place, call in enumerate(turn):
            raw = {
                "id": f"call-{len(self.said)}-{place}",
                "type": "function",
                "function": {"name": call.name, "arguments": as_json(call.arguments)},
            }
            try:
                parsed = parse_tool_call(raw, return_id=True)
                message = AIMessage("", tool_calls=[*message.tool_calls, parsed])
            except Exception as error:
                invalid = make_invalid_tool_call(raw, str(error))
                message.invalid_tool_calls.append(invalid)
        return ChatResult(generations=[ChatGeneration(message=message)])


def stub(turns: Sequence[Sequence[ToolCall]]) -> Stub:
    return Stub(script=list(turns), said=[])


def telling(body: Callable[..., Any]) -> Callable[..., Any]:
    """LangChain ends the run when a tool raises anything else."""

    @functools.wraps(body)
    def told(**arguments: Any) -> Any:
        try:
            return body(**arguments)
        except RuntimeError as error:
            raise ToolException(str(error)) from error

    return told


def tools_of(desk: Desk, *, coroutines: bool = False) -> list[StructuredTool]:
    def tool(body: Callable[..., Any]) -> StructuredTool:
        told = telling(body)

        @functools.wraps(body)
        async def awaited(**arguments: Any) -> Any:
            return told(**arguments)

        given: Any = {"coroutine": awaited} if coroutines else {"func": told}
        return StructuredTool.from_function(**given, handle_tool_error=True)

    return [tool(body) for body in desk.bodies]


def messages_of(graph: Any, mode: str, session: str | None = SESSION) -> list[Any]:
    config: Any = {} if session is None else {"configurable": {"thread_id": session}}
    given: Any = {"messages": [("user", "Please answer the ticket.")]}

    async def streamed() -> Any:
        last = None
        async for state in graph.astream(given, config, stream_mode="values"):
            last = state
        return last

    state: Any
    if mode == "sync":
        state = graph.invoke(given, config)
    elif mode == "stream":
        *_, state = graph.stream(given, config, stream_mode="values")
    else:
        state = asyncio.run(graph.ainvoke(given, config) if mode == "async" else streamed())
    return list(state["messages"])


def play(graph: Any, mode: str, session: str | None = SESSION) -> Transcript:
    messages = messages_of(graph, mode, session)
    told = [message.content for message in messages if isinstance(message, ToolMessage)]
    return Transcript(told, ended=messages[-1].content == DONE)


def plain_graph(model: Stub, node: ToolNode) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


class LangchainHarness(Harness):
    modes = ("sync", "async", "stream", "astream")

    def __init__(self, build: Callable[[Stub, list[StructuredTool], Desk], Any]) -> None:
        self.build = build

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        tools = tools_of(desk, coroutines=mode == "astream")  # `async` runs tools that aren't
        return play(self.build(stub(turns), tools, desk), mode, session)


class TestInstalled(Contract):
    harness = LangchainHarness(lambda model, tools, desk: install(create_agent(model, tools), desk.gate))


class TestMiddleware(Contract):
    harness = LangchainHarness(
        lambda model, tools, desk: create_agent(model, tools, middleware=[PreactionMiddleware(desk.gate)])
    )


class TestPlainGraph(Contract):
    harness = LangchainHarness(lambda model, tools, desk: plain_graph(model, install(ToolNode(tools), desk.gate)))


class TestReactAgent(Contract):
    """The agent of LangGraph, which has no middleware."""

    harness = LangchainHarness(lambda model, tools, desk: install(react(model, tools), desk.gate))


def react(model: Stub, tools: list[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return create_react_agent(model, tools)


# Traps --------------------------------------------------------------------------------------------------------------
#
# Each shows the trap open in the bare runtime first, where there is something to show, then closed.

WRONG = [reply(OTHER)]
MODES = pytest.mark.parametrize("mode", ["sync", "async"])


class Rewrites(AgentMiddleware):
    """Changes a call on its way to the tool."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__()
        self.change = change

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(self.change(request))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await handler(self.change(request))


class Checks(AgentMiddleware):
    """A gate as one would write it: it looks at the arguments in the hook, and lets the right ticket pass."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        call = request.tool_call
        if call["name"] == REPLY and call["args"]["ticket_id"] != TICKET:
            return ToolMessage(content="no", tool_call_id=call["id"], status="error")
        return handler(request)


class Own(AgentMiddleware):
    """A hook of one's own that answers a call without running it."""

    def __init__(self, gives: Callable[[Any], Any]) -> None:
        super().__init__()
        self.gives = gives

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.gives(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return self.gives(request)


def raising(*_: Any, **__: Any) -> Any:
    raise RuntimeError("secret")


def denies(request: Any, execute: Any = None) -> Any:
    return ToolMessage(content="no", tool_call_id=request.tool_call["id"], status="error")


@MODES
@pytest.mark.parametrize(
    ("gives", "bare"),
    [
        (raising, "aborts"),
        (lambda _: None, "aborts"),
        (lambda _: False, "aborts"),
        (lambda _: "no", "no answer"),  # the user seems to have said it
        (lambda _: [], "no answer, in older versions aborts"),
        (lambda _: Command(update={}), "no answer"),
        (lambda request: {"role": "tool", "content": "no", "tool_call_id": request.tool_call["id"]}, "success"),
        (lambda _: ToolMessage(content="no", tool_call_id="another", status="error"), "another call's"),
    ],
)
def test_a02_a_hook_that_goes_wrong_ends_the_run_or_leaves_the_call_without_an_answer(
    mode: str, gives: Any, bare: str
) -> None:
    def outcome(agent: Any) -> str:
        try:
            answers = [one for one in messages_of(agent, mode) if isinstance(one, ToolMessage)]
        except (RuntimeError, NotImplementedError):
            return "aborts"
        if not answers:
            return "no answer"
        assert len(answers) == 1
        return answers[0].status if answers[0].tool_call_id == "call-1-0" else "another call's"

    desk = Desk()
    assert outcome(create_agent(stub([[reply()]]), tools_of(desk), middleware=[Own(gives)])) in bare
    desk = desk.prepared()

    async def agives(*_: Any, **__: Any) -> Any:
        return gives(None)

    vars(desk.gate).update(check=lambda *_, **__: gives(None), acheck=agives)
    agent = install(create_agent(stub([[reply()]]), tools_of(desk)), desk.gate)
    assert outcome(agent) == "error"
    assert play(install(create_agent(stub([[reply()]]), tools_of(desk)), desk.gate), mode).told == [FAILED]
    assert desk.replies() == []


def test_a02_a_hook_for_one_kind_of_run_ends_the_other_and_the_adapter_s_are_for_both() -> None:
    class Sync(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            return handler(request)

    class Async(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    for middleware, mode in ((Sync(), "async"), (Async(), "sync")):
        desk = Desk()
        with pytest.raises(NotImplementedError):
            play(create_agent(stub([[reply()]]), tools_of(desk), middleware=[middleware]), mode)
        assert desk.replies() == []  # the adapter's: the contract runs all modes


async def test_a_sync_wrapper_blocks_the_event_loop_and_the_adapter_does_not() -> None:
    given: Any = {"messages": [("user", "hi")]}
    config: Any = {"configurable": {"thread_id": SESSION}}

    loop, goes_on = asyncio.get_running_loop(), list[bool]()

    def wait_for_the_loop(seconds: float) -> None:
        try:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(seconds)
        except TimeoutError:
            goes_on.append(False)
        else:
            goes_on.append(True)

    def slow(request: Any, execute: Any) -> Any:
        wait_for_the_loop(0.5)
        return execute(request)

    await plain_graph(stub([[reply()]]), ToolNode(tools_of(Desk()), wrap_tool_call=slow)).ainvoke(given, config)
    desk = Desk()

    def verify(execution_id: str) -> Any:
        wait_for_the_loop(30)
        return desk.authority.good_answer(Verify(execution_id))

    desk.options.update(verify=verify, deadline_s=60)
    desk.__post_init__()
    await plain_graph(stub([[reply()]]), install(ToolNode(tools_of(desk.prepared())), desk.gate)).ainvoke(given, config)
    assert goes_on == [False, True]
    assert len(desk.replies()) == 1


def test_a02_what_a_hook_raises_can_reach_the_model_by_the_runtime_s_own_handling_of_errors() -> None:
    def told(desk: Desk, **options: Any) -> list[str]:
        graph = plain_graph(stub([[reply()]]), install(ToolNode(tools_of(desk), **options), desk.gate))
        return play(graph, "sync").told

    bare, retry = Desk(), ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    node = ToolNode(tools_of(bare), wrap_tool_call=raising, handle_tool_errors=True)
    assert "secret" in play(plain_graph(stub([[reply()]]), node), "sync").told[0]
    agent = create_agent(stub([[reply()]]), tools_of(bare), middleware=[retry, Own(raising)])
    assert "secret" in play(agent, "sync").told[0]  # asked three times

    desk = Desk().prepared()
    vars(desk.gate).update(check=raising)
    assert told(desk, handle_tool_errors=True) == [FAILED]
    agent = create_agent(stub([[reply()]]), tools_of(desk), middleware=[retry, PreactionMiddleware(desk.gate)])
    assert play(agent, "sync").told == [FAILED]
    assert bare.replies() == desk.replies() == []


@MODES
def test_a05_the_calls_of_one_turn_run_at_once(mode: str) -> None:
    """So a decision may be there before the act beside it asks; the contract's row of A5 closes that."""
    both = threading.Barrier(2, timeout=60)
    tools = [StructuredTool.from_function(lambda n: str(both.wait()), name=n, description="-") for n in ("a", "b")]
    calls = [ToolCall("a", {"n": "1"}), ToolCall("b", {"n": "1"})]
    assert len(play(create_agent(stub([calls]), tools), mode).told) == 2


class AsyncChecks(Checks):
    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        return await self.wrap_tool_call(request, handler)


def to_other(request: Any) -> Any:
    return request.override(tool_call={**request.tool_call, "args": {**request.tool_call["args"], "ticket_id": OTHER}})


def to_other_in_place(request: Any) -> Any:
    request.tool_call["args"]["ticket_id"] = OTHER
    return request


@pytest.mark.parametrize("change", [to_other, to_other_in_place])
def test_arguments_that_a_later_middleware_rewrites_are_those_that_are_checked(change: Any) -> None:
    bare = Desk()
    play(create_agent(stub([[reply()]]), tools_of(bare), middleware=[Checks(), Rewrites(change)]), "sync")
    assert [sent["ticket_id"] for sent in bare.replies()] == [OTHER]

    desk = Desk().prepared()
    play(
        create_agent(stub([[reply()]]), tools_of(desk), middleware=[PreactionMiddleware(desk.gate), Rewrites(change)]),
        "sync",
    )
    agent = create_agent(stub([[reply()]]), tools_of(desk), middleware=[Rewrites(change)])
    seen = play(install(agent, desk.gate), "sync")
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


@MODES
def test_a07_a_tool_that_a_middleware_swaps_in_is_judged_by_what_runs_and_by_what_was_asked(mode: str) -> None:
    def sends(ticket_id: str, body: str) -> str:
        """Send."""
        return desk.helpdesk_reply(ticket_id, body)

    desk = Desk().prepared()
    harmless = StructuredTool.from_function(desk.look_up)
    other = StructuredTool.from_function(sends)
    gated = StructuredTool.from_function(desk.helpdesk_reply)

    def swap(tool: Any) -> Any:
        return Rewrites(lambda request: request.override(tool=tool))

    def seen(turn: list[ToolCall], tool: Any) -> list[str]:
        agent = create_agent(stub([turn]), tools_of(desk), middleware=[swap(tool)])
        # newer versions show a middleware's tools from outside, and then they are refused
        return play(install(agent, desk.gate, accept=[REPLY]), mode).told

    look = [ToolCall("look_up", {"ticket_id": OTHER, "body": BODY})]

    def rename(request: Any) -> Any:
        return request.override(tool_call={**request.tool_call, "name": "look_up"})

    for middleware, turn in (([Checks(), swap(gated)], look), ([Rewrites(rename), Checks()], WRONG)):
        play(create_agent(stub([turn]), tools_of(desk), middleware=middleware), "sync")
        assert len(desk.replies()) == 1  # bare: `look_up` was what was looked at, the reply is what ran
        desk.ran.clear()
    denial = desk.denial(ticket_id=OTHER, body=BODY)
    assert seen(look, gated) == [denial]  # judged by what runs
    renamed = create_agent(stub([WRONG]), tools_of(desk), middleware=[Rewrites(rename)])
    assert play(install(renamed, desk.gate), mode).told == [denial]
    assert seen(WRONG, other) == [denial]  # by what was asked for
    assert seen([reply()], harmless) != [denial]
    assert desk.replies() == []


def test_an_async_only_wrapper_of_a_tool_node_is_left_out_of_sync_runs() -> None:
    async def adenies(request: Any, execute: Any) -> Any:
        return denies(request)

    bare = Desk()
    play(plain_graph(stub([WRONG]), ToolNode(tools_of(bare), awrap_tool_call=adenies)), "sync")
    assert len(bare.replies()) == 1

    desk = Desk().prepared()
    seen = play(
        plain_graph(stub([WRONG]), install(ToolNode(tools_of(desk), awrap_tool_call=adenies), desk.gate)), "sync"
    )
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


@MODES
def test_a_node_s_own_wrappers_still_run_around_the_gate(mode: str) -> None:
    desk, around = Desk().prepared(), []

    def wrap(request: Any, execute: Any) -> Any:
        around.append(request.tool_call["name"])
        return execute(request)

    graph = plain_graph(stub([[reply()], WRONG]), install(ToolNode(tools_of(desk), wrap_tool_call=wrap), desk.gate))
    seen = play(graph, mode)
    assert around == [REPLY, REPLY]
    assert len(desk.replies()) == 1
    assert seen.told[1] == desk.denial(ticket_id=OTHER, body=BODY)


@MODES
def test_a_decision_that_a_middleware_made_up_is_not_recorded(mode: str) -> None:
    desk = Desk()
    made_up = desk.authority.decide(TICKET)

    class Fakes(Rewrites):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            if request.tool_call["name"] != DECIDE:
                return handler(request)
            return ToolMessage(content=json.dumps(made_up), tool_call_id=request.tool_call["id"], name=DECIDE)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return (
                self.wrap_tool_call(request, handler) if request.tool_call["name"] == DECIDE else await handler(request)
            )

    agent = create_agent(
        stub([[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]]), tools_of(desk), middleware=[Fakes(lambda r: r)]
    )
    seen = play(install(agent, desk.gate), mode)
    assert "no decision" in seen.told[1]


@MODES
def test_the_gate_sees_what_the_body_runs_with_after_validation_and_defaults(mode: str) -> None:
    desk, ran = Desk(options={"tools": {"pay": {**RULE, "fields": ["ticket_id", "body", "amount"]}}}).prepared(), []
    asked: list[Any] = []
    desk.gate._on_verdict = lambda tool, verdict: asked.append(verdict.arguments)

    def pay(ticket_id: str, body: str, amount: int = 7, public: bool = False) -> str:
        """Pay."""
        ran.append((amount, public))
        return "paid"

    right = {"ticket_id": TICKET, "body": BODY}

    def graph(sent: Any, own: Any = None) -> Any:
        node = ToolNode([StructuredTool.from_function(pay), *tools_of(desk)], wrap_tool_call=own)
        call = ToolCall("pay", {**right, "amount": sent, "currency": "JPY"})
        return plain_graph(stub([[call]]), node if own else install(node, desk.gate))

    def looks(request: Any, execute: Any) -> Any:
        looked.append(request.tool_call["args"])
        return execute(request)

    looked: list[Any] = []
    for sent, runs in (("500", 500), (True, 1), (5.0, 5)):
        play(graph(sent, looks), mode)
        assert ran.pop() == (runs, False)
        assert looked.pop() == {**right, "amount": sent, "currency": "JPY"}  # bare: not what runs
    seen = play(graph("500"), mode)
    assert ran == []  # `public` would run with its default, and no rule lists it
    assert "public" in seen.told[0]
    assert asked[0] == {**right, "amount": 500, "public": False}


@MODES
def test_a_field_that_the_model_sends_twice_is_checked_as_it_runs(mode: str) -> None:
    """LangChain keeps the last, so no gate can see that there were two."""
    twice = f'{{"ticket_id": "{TICKET}", "body": "{BODY}", "ticket_id": "{OTHER}"}}'
    bare, desk = Desk(), Desk().prepared()
    play(create_agent(stub([[ToolCall(REPLY, twice)]]), tools_of(bare)), mode)
    assert [sent["ticket_id"] for sent in bare.replies()] == [OTHER]
    seen = play(install(create_agent(stub([[ToolCall(REPLY, twice)]]), tools_of(desk)), desk.gate), mode)
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]
    assert desk.replies() == []


def test_arguments_that_broke_off_in_a_stream_are_checked_as_the_runtime_completes_them() -> None:
    class Streams(Stub):
        def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> Any:
            self.said.append(messages)
            raw = f'{{"ticket_id": "{TICKET}", "body": "{BODY[:10]}'
            chunk: Any = {"name": REPLY, "args": raw, "id": "call-1-0", "index": 0, "type": "tool_call_chunk"}
            first = len(self.said) == 1
            yield ChatGenerationChunk(message=AIMessageChunk("" if first else DONE, tool_call_chunks=[chunk][:first]))

    def agent(desk: Desk) -> Any:
        model = Streams(script=[], said=[])

        def ask(state: Any) -> Any:
            *_, whole = itertools.accumulate(model.stream(state["messages"]))
            return {"messages": [whole]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", ask)
        graph.add_node("tools", ToolNode(tools_of(desk)))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
        return graph.compile()

    bare, desk = Desk(), Desk().prepared()
    play(agent(bare), "sync")
    assert bare.replies() == [{"ticket_id": TICKET, "body": BODY[:10]}]
    assert play(install(agent(desk), desk.gate), "sync").told == [desk.denial(ticket_id=TICKET, body=BODY[:10])]
    assert desk.replies() == []


@MODES
@pytest.mark.parametrize("how", ["raises", "command", "error message"])
def test_a04_a_result_that_is_none_is_not_recorded(mode: str, how: str) -> None:
    """A hook sees each of them as a message, or as an exception; only a decision that was returned counts."""
    desk = Desk()

    def get_job_decision(entity_id: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Ask for a decision on a ticket."""
        found = json.dumps(desk.get_job_decision(entity_id))
        if how == "raises":
            raise ValueError(found)
        message = ToolMessage(content=found, tool_call_id=tool_call_id, status="error")
        return Command(update={"messages": [message]}) if how == "command" else message

    tools = tools_of(desk)
    tools[1] = StructuredTool.from_function(get_job_decision)
    graph = install(create_agent(stub([[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]]), tools), desk.gate)
    if how == "raises":
        with pytest.raises(ValueError, match="execution"):
            play(graph, mode)
    else:
        assert play(graph, mode).told[1].startswith("Denied, nothing was done")
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code == "case_not_decided"
    assert desk.replies() == []


class Line(BaseModel):
    text: str
    hidden: str = Field("", exclude=True)


@MODES
def test_a_model_as_argument_is_checked_with_the_fields_that_its_dump_leaves_out(mode: str) -> None:
    rule = {**RULE, "fields": ["ticket_id", "body", "lines[].text"]}
    desk, ran = Desk(options={"tools": {"pay": rule}}).prepared(), []

    def pay(ticket_id: str, body: str, lines: list[Line]) -> str:
        """Pay."""
        ran.append(lines)
        return "paid"

    def run(line: dict[str, str]) -> Transcript:
        call = ToolCall("pay", {"ticket_id": TICKET, "body": BODY, "lines": [line]})
        node = ToolNode([StructuredTool.from_function(pay), *tools_of(desk)])
        return play(plain_graph(stub([[call]]), install(node, desk.gate)), mode)

    assert "hidden" in run({"text": "a", "hidden": "b"}).told[0]
    assert ran == []
    rule["fields"].append("lines[].hidden")
    desk = Desk(options={"tools": {"pay": rule}}).prepared()
    run({"text": "a", "hidden": "b"})
    assert ran == [[Line(text="a", hidden="b")]]


@MODES
def test_arguments_that_change_during_the_check_do_not_reach_the_body(mode: str) -> None:
    held: dict[str, Any] = {}
    ran: list[Any] = []
    desk = Desk()

    def verify(execution_id: str) -> Any:
        held["args"]["to"].append("billing@elsewhere.example")
        return desk.authority.good_answer(Verify(execution_id))

    rule = {**RULE, "fields": ["ticket_id", "body", "to"], "recipients_at": ["acme.example"]}
    desk.options.update(tools={"pay": rule}, verify=verify)
    desk.__post_init__()
    desk.prepared()

    def pay(**arguments: Any) -> str:
        ran.append(arguments)
        return "paid"

    def keep(request: Any) -> Any:
        held["args"] = request.tool_call["args"]
        return request

    schema = {"type": "object", "title": "pay", "description": "Pay.", "properties": {}}
    tool = StructuredTool(name="pay", description="Pay.", args_schema=schema, func=pay)
    sent = {"ticket_id": TICKET, "body": BODY, "to": ["lee@acme.example"]}
    agent = create_agent(stub([[ToolCall("pay", sent)]]), [tool, *tools_of(desk)], middleware=[Rewrites(keep)])
    play(install(agent, desk.gate), mode)
    assert ran == [sent]


@MODES
def test_what_langgraph_injects_is_no_field_and_a_model_can_not_send_it_unseen(mode: str) -> None:
    desk, ran = Desk().prepared(), []

    def helpdesk_reply(
        ticket_id: str,
        body: str,
        state: Annotated[dict[str, Any], InjectedState],
        runtime: ToolRuntime,
        config: RunnableConfig,
        tenant: Annotated[str, InjectedToolArg] = "acme",
    ) -> str:
        """Send a reply."""
        ran.append((ticket_id, len(state["messages"]), runtime.tool_call_id is not None, bool(config), tenant))
        return "sent"

    def run(call: ToolCall) -> Transcript:
        node = ToolNode([StructuredTool.from_function(helpdesk_reply), *tools_of(desk)[1:]])
        return play(plain_graph(stub([[call]]), install(node, desk.gate)), mode)

    assert run(reply()).told == ["sent"]
    assert ran == [(TICKET, 2, True, True, "acme")]
    run(reply(tenant="other"))  # newer versions drop it, older ones pass it on: then it is a field
    assert all(one[-1] == "acme" for one in ran)


@MODES
def test_a08_an_agent_that_a_tool_holds_is_covered(mode: str) -> None:
    def build(desk: Desk) -> Any:
        child = create_agent(stub([WRONG]), tools_of(desk))

        def delegate(task: str) -> str:
            """Give a task to a colleague."""
            return str(child.invoke({"messages": [("user", task)]})["messages"][-2].content)

        return create_agent(
            stub([[ToolCall("delegate", {"task": "reply"})]]), [StructuredTool.from_function(delegate), *tools_of(desk)]
        )

    bare, desk = Desk().prepared(), Desk().prepared()
    play(build(bare), mode)
    assert len(bare.replies()) == 1
    seen = play(install(build(desk), desk.gate), mode)
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]  # its session is the parent's thread


@MODES
def test_a05_what_an_agent_that_is_a_tool_decides_does_not_count_for_a_call_beside_it(mode: str) -> None:
    desk, decided = Desk().prepared(), threading.Event()

    def wait(request: Any) -> Any:
        assert request.tool_call["name"] != REPLY or decided.wait(60)
        return request

    def look_up(ticket_id: str) -> str:
        """Read a ticket."""
        decided.set()  # one turn after the decision
        return "-"

    calls = [[ToolCall(DECIDE, {"entity_id": "HC-1300"})], [ToolCall("look_up", {"ticket_id": "HC-1300"})]]
    child = create_agent(stub(calls), [*tools_of(desk)[:3], StructuredTool.from_function(look_up)])

    def delegate(task: str) -> str:
        """Give a task to a colleague."""
        return str(child.invoke({"messages": [("user", task)]})["messages"][-1].content)

    turns = [[ToolCall("delegate", {"task": "decide"}), reply("HC-1300")], [reply("HC-1300")]]
    tools = [StructuredTool.from_function(delegate), *tools_of(desk)]
    seen = play(install(create_agent(stub(turns), tools, middleware=[Rewrites(wait)]), desk.gate), mode)
    assert seen.told[0] == DONE
    assert "no decision" in seen.told[1]
    assert "no output check" in seen.told[2]


@MODES
def test_a08_an_agent_as_a_node_is_covered(mode: str) -> None:
    def build(desk: Desk) -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("desk", create_agent(stub([WRONG]), tools_of(desk)))
        graph.add_edge(START, "desk")
        return graph.compile()

    bare, desk = Desk(), Desk().prepared()
    play(build(bare), mode)
    assert len(bare.replies()) == 1
    seen = play(install(build(desk), desk.gate), mode)
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a08_a_tool_that_a_node_calls_by_hand_is_refused_until_it_is_guarded() -> None:
    desk = Desk().prepared()

    def build(tool: Any) -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("act", lambda state: {"messages": [("ai", tool.invoke({"ticket_id": OTHER, "body": BODY}))]})
        graph.add_node("tools", ToolNode(tools_of(desk)[1:]))
        graph.add_edge(START, "act")
        return graph.compile()

    tool = tools_of(desk)[0]
    build(tool).invoke({"messages": []})
    assert len(desk.replies()) == 1
    desk.ran.clear()
    with pytest.raises(ConfigurationError, match=f"no tool here is called {REPLY}"):
        install(build(tool), desk.gate)
    guarded = guard(tool, desk.gate)
    graph = install(build(guarded), desk.gate)
    state = graph.invoke({"messages": []}, {"configurable": {"thread_id": SESSION}})
    assert state["messages"][-1].content == desk.denial(ticket_id=OTHER, body=BODY)  # by `handle_tool_error=True`
    with desk.gate.session(SESSION), pytest.raises(ToolException, match="Denied, nothing was done"):
        guard(StructuredTool.from_function(desk.helpdesk_reply), desk.gate).invoke({"ticket_id": OTHER, "body": BODY})
    assert desk.replies() == []
    with desk.gate.session(SESSION):
        assert guarded.invoke({"ticket_id": TICKET, "body": BODY}) == f"sent on {TICKET}"


@MODES
def test_a08_a_tool_that_another_tool_calls_is_refused_until_it_is_guarded(mode: str) -> None:
    def build(desk: Desk, inner: Any) -> Any:
        def act(ticket_id: str) -> str:
            """Reply with a text of its own."""
            return str(inner.invoke({"ticket_id": ticket_id, "body": BODY}))

        calls = [[ToolCall("act", {"ticket_id": OTHER})], [ToolCall("act", {"ticket_id": TICKET})]]
        hooks = [] if inner.__dict__.get("_preaction") else [AsyncChecks()]
        return create_agent(stub(calls), [StructuredTool.from_function(act), *tools_of(desk)[1:]], middleware=hooks)

    bare, desk = Desk(), Desk().prepared()
    play(build(bare, tools_of(bare)[0]), mode)
    assert len(bare.replies()) == 2  # no hook is called for the tool inside
    with pytest.raises(ConfigurationError, match=REPLY):
        install(build(desk, tools_of(desk)[0]), desk.gate)
    seen = play(install(build(desk, guard(tools_of(desk)[0], desk.gate)), desk.gate), mode)
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY), f"sent on {TICKET}"]
    assert len(desk.replies()) == 1


@MODES
def test_a08_tools_that_a_middleware_brings_are_covered(mode: str) -> None:
    class Brings(AgentMiddleware):
        def __init__(self, desk: Desk) -> None:
            super().__init__()
            self.tools = tools_of(desk)[:1]

    bare, desk = Desk(), Desk().prepared()
    play(create_agent(stub([WRONG]), tools_of(bare)[1:], middleware=[Brings(bare)]), mode)
    assert len(bare.replies()) == 1
    agent = create_agent(stub([WRONG]), tools_of(desk)[1:], middleware=[Brings(desk)])
    assert play(install(agent, desk.gate), mode).told == [desk.denial(ticket_id=OTHER, body=BODY)]
    assert desk.replies() == []


def test_a08_a_rule_for_an_answer_s_structure_is_refused_since_no_hook_sees_that_call() -> None:
    class Answer(BaseModel):
        """The answer."""

        text: str

    def agent(desk: Desk, *hooks: AgentMiddleware) -> Any:
        calls = [[ToolCall("Answer", {"text": "a"})]]
        return create_agent(stub(calls), tools_of(desk), response_format=ToolStrategy(Answer), middleware=hooks)

    desk, asked = Desk(options={"tools": {"Answer": {**RULE, "fields": ["text"]}}}), list[str]()
    play(agent(desk, Own(lambda request: asked.append(request.tool_call["name"]))), "sync")
    assert asked == []
    with pytest.raises(ConfigurationError, match="no tool here is called Answer"):
        install(agent(desk), desk.gate)


def test_a08_gated_names_without_a_tool_and_tools_that_run_elsewhere_are_refused() -> None:
    desk = Desk()
    tools = tools_of(desk)
    with pytest.raises(ConfigurationError, match=f"no tool here is called {REPLY}"):
        install(create_agent(stub([]), tools[1:]), desk.gate)
    search = {"type": "web_search"}
    with pytest.raises(ConfigurationError, match="web_search"):
        install(create_agent(stub([]), [*tools, search]), desk.gate)
    install(create_agent(stub([]), [*tools, search]), desk.gate, accept=["web_search"])
    for mode in ("sync", "async"):
        agent = create_agent(stub([]), [*tools, search], middleware=[PreactionMiddleware(desk.gate)])
        with pytest.raises(ConfigurationError, match="web_search"):
            play(agent, mode)
        accepting = PreactionMiddleware(desk.gate, accept=["web_search"])
        assert play(create_agent(stub([]), [*tools, search], middleware=[accepting]), mode).ended


def test_a08_a_gated_tool_with_return_direct_is_refused_because_a_denial_would_be_the_answer() -> None:
    bare, desk = Desk().prepared(), Desk().prepared()

    def tools(desk: Desk) -> list[Any]:
        return [StructuredTool.from_function(desk.helpdesk_reply, return_direct=True), *tools_of(desk)[1:]]

    agent = create_agent(stub([WRONG]), tools(bare), middleware=[PreactionMiddleware(bare.gate)])
    assert not play(agent, "sync").ended
    with pytest.raises(ConfigurationError, match=REPLY):
        install(create_agent(stub([WRONG]), tools(desk)), desk.gate)


def test_a_tool_class_that_runs_its_body_by_itself_is_refused() -> None:
    class Odd(StructuredTool):
        def run(self, *args: Any, **options: Any) -> Any:
            return ToolMessage(self.func(**args[0]), tool_call_id=options["tool_call_id"])

    desk = Desk().prepared()
    odd = Odd.from_function(desk.helpdesk_reply)
    with pytest.raises(ConfigurationError, match=r"own run\(\)"):
        install(ToolNode([odd, *tools_of(desk)[1:]]), desk.gate)
    agent = create_agent(stub([[reply()]]), [odd, *tools_of(desk)[1:]], middleware=[PreactionMiddleware(desk.gate)])
    assert play(agent, "sync").told == [FAILED]
    assert desk.replies() == []

    desk = Desk(options={"mode": "observe"}).prepared()
    odd = Odd.from_function(desk.helpdesk_reply)
    agent = create_agent(stub([[reply()]]), [odd, *tools_of(desk)[1:]], middleware=[PreactionMiddleware(desk.gate)])
    play(agent, "sync")
    assert len(desk.replies()) == 1


@MODES
def test_an_unknown_tool_runs_nothing(mode: str) -> None:
    desk = Desk().prepared()
    agent = install(create_agent(stub([[ToolCall("helpdesk_replies", {})]]), tools_of(desk)), desk.gate)
    assert "helpdesk_replies" in play(agent, mode).told[0]
    assert desk.ran == []


@MODES
@pytest.mark.parametrize("outside", [True, False])
def test_a_retry_asks_the_gate_again_for_every_run_of_the_body(mode: str, outside: bool) -> None:
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0, jitter=False)
    desk, tried = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared(), []

    def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Send a reply."""
        tried.append(ticket_id)
        raise ConnectionError("broken off")

    tools = [StructuredTool.from_function(helpdesk_reply), *tools_of(desk)[1:]]
    gate = PreactionMiddleware(desk.gate)
    bare = [retry, Checks()] if outside else [Checks(), retry]
    if mode == "sync":
        play(create_agent(stub([[reply()]]), tools, middleware=bare), mode)
        assert tried == [TICKET] * 3
        tried.clear()
    agent = create_agent(stub([[reply()]]), tools, middleware=[retry, gate] if outside else [gate, retry])
    seen = play(agent, mode)
    assert tried == [TICKET]  # the first attempt may have acted
    assert "look" in seen.told[0]


def test_an_interrupt_in_the_body_is_asked_again_when_it_resumes() -> None:
    def build(desk: Desk, tried: list[Any]) -> Any:
        def helpdesk_reply(ticket_id: str, body: str) -> str:
            """Send a reply."""
            tried.append(interrupt("send?"))
            return "sent"

        tools = [StructuredTool.from_function(helpdesk_reply), *tools_of(desk)[1:]]
        model, saver = stub([[reply()]]), InMemorySaver()
        return install(create_agent(model, tools, checkpointer=saver, middleware=[Counts()]), desk.gate)

    class Counts(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            looked.append(request.tool_call["id"])
            return handler(request)

    config = {"configurable": {"thread_id": SESSION}}
    looked: list[str] = []
    for once, ran in ((None, ["yes"]), ("decision", [])):
        desk, tried = Desk(options={"tools": {REPLY: {**RULE, "once": once} if once else RULE}}).prepared(), list[Any]()
        graph = build(desk, tried)
        graph.invoke({"messages": [("user", "hi")]}, config)
        state = graph.invoke(Command(resume="yes"), config)
        assert tried == ran
        assert looked == ["call-1-0"] * 2  # every hook is called again, for the same call
        looked.clear()
        assert state["messages"][-1].content == DONE


async def test_a02_a_cancellation_leaves_as_it_came() -> None:
    asked = asyncio.Event()

    async def verify(execution_id: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": verify, "deadline_s": 20}).prepared()
    graph = install(create_agent(stub([[reply()]]), tools_of(desk, coroutines=True)), desk.gate)
    given: Any = {"messages": [("user", "hi")]}
    task = asyncio.create_task(graph.ainvoke(given, {"configurable": {"thread_id": SESSION}}))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


@MODES
def test_g42_in_observe_mode_the_call_runs_as_it_came(mode: str) -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    play(install(create_agent(stub([WRONG]), tools_of(desk)), desk.gate), mode)
    assert [sent["ticket_id"] for sent in desk.replies()] == [OTHER]


@MODES
def test_a06_a_resolver_of_the_user_s_goes_before_the_thread(mode: str) -> None:
    desk = Desk().prepared()
    graph = create_agent(stub([[reply()]]), tools_of(desk))
    play(install(graph, desk.gate, session=lambda config: config["configurable"]["chat"]), mode, None)
    assert desk.replies() == []  # the resolver failed: denied
    agent = create_agent(
        stub([[reply()]]), tools_of(desk), middleware=[PreactionMiddleware(desk.gate, session=lambda _: SESSION)]
    )
    play(agent, mode, "another")
    assert len(desk.replies()) == 1


def test_g06_a_name_that_only_looks_like_a_gated_one_is_denied() -> None:
    desk = Desk().prepared()
    looks = StructuredTool.from_function(desk.helpdesk_reply, name="Helpdesk_Reply")
    agent = create_agent(
        stub([[ToolCall("Helpdesk_Reply", {"ticket_id": TICKET, "body": BODY})]]), [looks, *tools_of(desk)]
    )
    assert "Denied, nothing was done" in play(install(agent, desk.gate), "sync").told[0]
    assert desk.replies() == []


def test_both_install_and_middleware_check_a_call_once() -> None:
    desk, asked = Desk().prepared(), []
    desk.gate._on_verdict = lambda tool, verdict: asked.append(tool)
    agent = create_agent(stub([[reply()]]), tools_of(desk), middleware=[PreactionMiddleware(desk.gate)])
    play(install(install(agent, desk.gate), desk.gate), "sync")
    assert asked == [REPLY]
    assert len(desk.replies()) == 1


SERVER = """
import json, sys
from mcp.server.fastmcp import FastMCP
server = FastMCP("desk")
@server.tool()
def get_job_decision(entity_id: str) -> dict:
    if entity_id == "HC-0":
        raise ValueError("down")
    return json.loads(sys.argv[1])
@server.tool(structured_output=False)
def check_output(body: str) -> str:
    return sys.argv[2]
@server.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    return "sent on " + ticket_id
server.run()
"""


async def test_mcp_tools_are_gated_and_their_results_recorded(tmp_path: Path) -> None:
    desk = Desk()
    decision = desk.authority.decide(TICKET)
    check = desk.authority.check_output(decision, {"body": BODY})
    script = tmp_path / "server.py"
    script.write_text(SERVER, "utf-8")
    arguments = [str(script), json.dumps(decision), json.dumps(check)]
    client = MultiServerMCPClient({"desk": {"transport": "stdio", "command": sys.executable, "args": arguments}})
    turns = [
        [ToolCall(DECIDE, {"entity_id": "HC-0"})],
        [reply()],
        [ToolCall(DECIDE, {"entity_id": TICKET})],
        [ToolCall(CHECK, {"body": BODY})],
        [reply(attachment_url="https://files.example/x")],  # nobody validates: what is checked is what is sent
        [reply(runtime="x")],
        [reply()],
    ]
    given: Any = {"messages": [("user", "hi")]}

    async def intercept(request: Any, handler: Any) -> Any:
        return await handler(request.override(args={**request.args, "ticket_id": OTHER}))

    async with client.session("desk") as session:
        loaded = await load_mcp_tools(session, tool_interceptors=[intercept])
        agent = create_agent(stub([[reply()]]), loaded, middleware=[AsyncChecks()])
        bare = await agent.ainvoke(given, {"configurable": {"thread_id": SESSION}})
        assert bare["messages"][2].content[0]["text"] == f"sent on {OTHER}"  # inside of every hook
        prefixed = await load_mcp_tools(session, server_name="desk srv", tool_name_prefix=True)
        graph = install(create_agent(stub(turns), await load_mcp_tools(session)), desk.gate)
        state = await graph.ainvoke(given, {"configurable": {"thread_id": SESSION}})
        behind = await load_mcp_tools(session, tool_interceptors=[intercept])
    told = [message.content for message in state["messages"] if isinstance(message, ToolMessage)]
    assert "no decision" in told[1]
    assert "attachment_url" in told[4]
    assert "runtime" in told[5]
    assert told[6][0]["text"] == f"sent on {TICKET}"
    with pytest.raises(ConfigurationError, match=REPLY):
        install(create_agent(stub([]), behind), desk.gate)
    with pytest.raises(ConfigurationError, match=f"no tool .*{REPLY}; the tools are: .*desk srv_{REPLY}"):
        install(create_agent(stub([]), prefixed), desk.gate)  # a rule names a tool as the runtime does
    rule = {f"desk srv_{REPLY}": RULE}
    other = create_action_gate(job=desk.authority.job, tools=rule, verify=desk.authority, describe=desk.authority)
    install(create_agent(stub([]), prefixed), other)


def test_a10_without_the_runtime_the_import_says_what_to_install() -> None:
    assert "pip install 'preaction[langchain]'" in import_without("langchain", "langchain")


def test_the_example_runs() -> None:
    said = run_example("langchain").splitlines()
    assert "sent on HC-1201: Hello, line 3 is the service fee." in said
    told = [line for line in said if line.startswith("told: ")]
    assert told[0].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert told[-1] == "told: sent"


def test_the_page_s_code_runs() -> None:
    assert run_page("langchain.md")["gate"].is_gated("reply")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare = tools_of(desk, coroutines=True)[0]
    guarded = guard(bare, desk.gate)
    sent, config = {"ticket_id": TICKET, "body": BODY}, {"configurable": {"thread_id": SESSION}}

    def call(tool: Any) -> Any:
        return lambda: tool.ainvoke(sent, config)

    found = await cost(desk, call(guarded), call(bare))
    print(f"langchain: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
