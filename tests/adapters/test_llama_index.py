"""LlamaIndex: the contract in an agent, in an `AgentWorkflow` and in a ReAct agent, and its traps."""

import asyncio
import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="runs in its own environment: make test-runtimes")

from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent, ReActAgent, ToolCallResult
from llama_index.core.llms import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.utils import parse_partial_json
from llama_index.core.tools import BaseTool, FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.calling import call_tool
from llama_index.core.tools.types import AsyncBaseTool
from llama_index.core.workflow import Context
from pydantic import Field

from adapters.around import (
    FAILURES,
    HANGS,
    answering,
    broken,
    cost,
    how_it_ends,
    import_without,
    run_example,
    run_page,
    undecided,
)
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
from preaction import ActionDenied, ConfigurationError, denial_text
from preaction._core.facts import Verify
from preaction.adapters._bridge import FAILED
from preaction.adapters.llama_index import guard, install

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the runtime's own use of pydantic

DONE = "All done."


class Stub(FunctionCallingLLM):
    """Plays its script, and parses the arguments as the OpenAI integration does."""

    script: list[Any] = Field(default_factory=list)
    said: list[Any] = Field(default_factory=list)
    calls: bool = True

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=self.calls, model_name="stub")

    def answer(self, messages: Any) -> ChatResponse:
        self.said.append(list(messages))
        turn = self.script[len(self.said) - 1] if len(self.said) <= len(self.script) else ()
        if self.calls:
            message = ChatMessage(
                role="assistant", content="" if turn else DONE, additional_kwargs={"turn": list(turn)}
            )
        elif turn:
            call = turn[0]
            text = f"Thought: I act.\nAction: {call.name}\nAction Input: {as_json(call.arguments)}"
            message = ChatMessage(role="assistant", content=text)
        else:
            message = ChatMessage(role="assistant", content=f"Thought: I am through.\nAnswer: {DONE}")
        return ChatResponse(message=message, delta=message.content)

    def get_tool_calls_from_response(self, response: Any, *args: Any, **options: Any) -> list[ToolSelection]:
        found = []
        for place, call in enumerate(response.message.additional_kwargs.get("turn", [])):
            try:
                arguments = parse_partial_json(as_json(call.arguments))
            except ValueError:
                arguments = {}
            tool_id = f"call-{len(self.said)}-{place}"
            found.append(ToolSelection(tool_id=tool_id, tool_name=call.name, tool_kwargs=arguments))
        return found

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **options: Any) -> dict[str, Any]:
        return {"messages": chat_history or []}

    def chat(self, messages: Any, **options: Any) -> ChatResponse:
        return self.answer(messages)

    async def achat(self, messages: Any, **options: Any) -> ChatResponse:
        return self.answer(messages)

    def stream_chat(self, messages: Any, **options: Any) -> Any:
        yield self.answer(messages)

    async def astream_chat(self, messages: Any, **options: Any) -> Any:
        async def chunks() -> Any:
            yield self.answer(messages)

        return chunks()

    def complete(self, *args: Any, **options: Any) -> CompletionResponse:
        raise NotImplementedError

    async def acomplete(self, *args: Any, **options: Any) -> CompletionResponse:
        raise NotImplementedError

    def stream_complete(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def stub(turns: Sequence[Sequence[ToolCall]], *, calls: bool = True) -> Stub:
    return Stub(script=list(turns), said=[], calls=calls)


def tools_of(desk: Desk, *, coroutines: bool = False) -> list[FunctionTool]:
    def tool(body: Callable[..., Any]) -> FunctionTool:
        @functools.wraps(body)
        async def awaited(**arguments: Any) -> Any:
            return body(**arguments)

        return FunctionTool.from_defaults(async_fn=awaited) if coroutines else FunctionTool.from_defaults(body)

    return [tool(body) for body in desk.bodies]


def agent(model: Stub, tools: Sequence[Any], *, streaming: bool = False, name: str = "desk", **options: Any) -> Any:
    kind = FunctionAgent if model.calls else ReActAgent
    return kind(name=name, description=f"The {name}.", tools=list(tools), llm=model, streaming=streaming, **options)


async def aplay(runner: Any, session: str | None = SESSION) -> Transcript:
    context: Context[Any] = Context(runner)
    if session is not None:
        await context.store.set("preaction_session", session)
    handler = runner.run(user_msg="Please answer the ticket.", ctx=context)
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    answer = await handler
    ordered = sorted(results, key=lambda result: result.tool_id) if results[0].tool_id.startswith("call-") else results
    return Transcript([result.tool_output.content for result in ordered], ended=str(answer) == DONE)


def play(runner: Any, session: str | None = SESSION) -> Transcript:
    return asyncio.run(aplay(runner, session))


class LlamaHarness(Harness):
    modes = ("async", "stream")

    def __init__(self, build: Callable[[Any, Desk], Any], *, calls: bool = True) -> None:
        self.build, self.calls = build, calls

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        tools = tools_of(desk, coroutines=mode == "stream")
        runner = agent(stub(turns, calls=self.calls), tools, streaming=mode == "stream")
        return play(install(self.build(runner, desk), desk.gate), session)


class TestAgent(Contract):
    harness = LlamaHarness(lambda runner, desk: runner)


class TestWorkflow(Contract):
    harness = LlamaHarness(lambda runner, desk: AgentWorkflow(agents=[runner], root_agent=runner.name))


class TestReActAgent(Contract):
    """A model without tool calls: it writes them as text, one at a time."""

    harness = LlamaHarness(lambda runner, desk: runner, calls=False)

    test_a05_a_decision_of_the_same_batch_does_not_count = None  # type: ignore[assignment]
    test_two_allowed_and_denied_calls_of_one_turn_each_meet_their_own_verdict = None  # type: ignore[assignment]
    test_a02_malformed_arguments_never_run = None  # type: ignore[assignment]  # its parser asks the model again, and no call is made


# Traps --------------------------------------------------------------------------------------------------------------
#
# Each shows the trap open in the bare runtime first, where there is something to show, then closed.

WRONG = [reply(OTHER)]


class Proxy(AsyncBaseTool):
    """A tool of one's own around another, as one would write a gate."""

    def __init__(self, tool: FunctionTool, does: Callable[..., Any]) -> None:
        self.tool, self.does = tool, does

    @property
    def metadata(self) -> ToolMetadata:
        return self.tool.metadata

    def __call__(self, *args: Any, **options: Any) -> ToolOutput:
        return self.call(*args, **options)

    def call(self, *args: Any, **options: Any) -> ToolOutput:
        raise NotImplementedError

    async def acall(self, *args: Any, **options: Any) -> ToolOutput:
        answer: ToolOutput = await self.does(*args, **options)
        return answer


def proxied(desk: Desk, does: Callable[..., Any], **options: Any) -> list[Any]:
    return [Proxy(FunctionTool.from_defaults(desk.helpdesk_reply, **options), does), *tools_of(desk)[1:]]


async def ending(runner: Any, *, hangs: bool = False) -> tuple[str, list[str]]:
    """How a run ends, and what its model was told."""
    told: list[str] = []

    async def run() -> bool:
        seen = await aplay(runner)
        told.extend(seen.told)
        return seen.ended

    return await how_it_ends(run(), hangs=hangs), told


@pytest.mark.parametrize("what", FAILURES)
async def test_what_a_tool_around_a_tool_does_wrong_ends_the_run_and_a_gate_that_does_it_denies(what: str) -> None:
    bare, hangs = Desk(), FAILURES[what] is HANGS
    ended, told = await ending(agent(stub([WRONG]), proxied(bare, answering(FAILURES[what]))), hangs=hangs)
    if what == "raises":
        assert (ended, told) == ("ended", ["secret"])  # the exception's own text, whatever it holds
    else:
        assert ended not in ("ended", "stopped")
        assert (ended == "hangs") is hangs
    assert bare.replies() == []

    desk = broken(Desk().prepared(), FAILURES[what])
    runner = install(agent(stub([[reply()]]), tools_of(desk, coroutines=True)), desk.gate)
    seen = await aplay(runner)
    assert seen.told == [FAILED]
    assert seen.ended
    assert desk.replies() == []


async def test_a_tool_around_a_function_is_given_no_context() -> None:
    async def helpdesk_reply(ctx: Context, ticket_id: str, body: str) -> str:
        """Send a reply."""
        return "sent"

    tool = FunctionTool.from_defaults(async_fn=helpdesk_reply)
    _, told = await ending(agent(stub([WRONG]), [Proxy(tool, tool.acall)]))
    assert told == ["Context is required for this tool"]  # the adapter's copy is: see below


async def test_a_decision_of_the_same_turn_counts_for_a_gate_around_the_functions() -> None:
    desk = undecided()

    def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Send a reply."""
        verdict = desk.gate.check(SESSION, REPLY, {"ticket_id": ticket_id, "body": body})
        return denial_text(verdict) if verdict.blocks else desk.helpdesk_reply(ticket_id, body)

    def get_job_decision(entity_id: str) -> dict[str, Any]:
        """Decide."""
        decided = desk.get_job_decision(entity_id)
        desk.gate.record_result(SESSION, DECIDE, None, decided)
        return decided

    turn = [ToolCall(DECIDE, {"entity_id": TICKET}), reply()]
    await ending(agent(stub([turn]), [FunctionTool.from_defaults(one) for one in (helpdesk_reply, get_job_decision)]))
    assert len(desk.replies()) == 1  # the adapter's row is one of the contract


async def test_an_agent_that_writes_code_runs_functions_and_no_tools() -> None:
    desk, seen = Desk(), list[Any]()

    class Coder(Stub):
        def answer(self, messages: Any) -> ChatResponse:
            self.said.append(messages)
            text = f"<execute>\n{REPLY}({OTHER!r}, 'x')\n</execute>" if len(self.said) == 1 else DONE
            return ChatResponse(message=ChatMessage(role="assistant", content=text), delta=text)

    def run_code(code: str) -> str:
        exec(code, {REPLY: desk.helpdesk_reply})
        return "ran"

    tools = [Proxy(tool, answering(seen.append)) for tool in tools_of(desk)]
    functions: Any = [tool.tool for tool in tools]
    model = Coder(script=[], said=[])
    coder = CodeActAgent(name="coder", description="c", tools=functions, llm=model, code_execute_fn=run_code)
    await coder.run(user_msg="go")
    assert len(desk.replies()) == 1
    assert seen == []


def test_a_call_tool_that_an_agent_overrides_is_left_out_inside_a_workflow() -> None:
    class Denies(FunctionAgent):
        async def _call_tool(self, ctx: Context[Any], tool: Any, tool_input: dict[str, Any]) -> ToolOutput:
            return ToolOutput(content="no", tool_name=tool.metadata.name, raw_input=tool_input, raw_output="no")

    def build(desk: Desk) -> Any:
        one = Denies(name="desk", description="The desk.", tools=tools_of(desk), llm=stub([WRONG]), streaming=False)
        return AgentWorkflow(agents=[one], root_agent="desk")

    bare, desk = Desk().prepared(), Desk().prepared()
    play(build(bare))
    assert len(bare.replies()) == 1
    seen = play(install(build(desk), desk.gate))
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_guarded_tool_is_still_given_its_context() -> None:
    desk, ran = Desk().prepared(), []

    async def helpdesk_reply(ctx: Context, ticket_id: str, body: str) -> str:
        """Send a reply."""
        ran.append((ticket_id, await ctx.store.get("preaction_session")))
        return "sent"

    tools = [FunctionTool.from_defaults(async_fn=helpdesk_reply), *tools_of(desk)[1:]]
    seen = play(install(agent(stub([[reply()], WRONG]), tools), desk.gate))
    assert ran == [(TICKET, SESSION)]
    assert seen.told[1] == desk.denial(ticket_id=OTHER, body=BODY)


def test_arguments_that_are_no_object_become_an_empty_call() -> None:
    ran: list[str] = []

    def helpdesk_reply(ticket_id: str = TICKET, body: str = BODY) -> str:
        """Send a reply."""
        ran.append(ticket_id)
        return "sent"

    def run(guarded: bool) -> None:
        desk = Desk()
        tools = [FunctionTool.from_defaults(helpdesk_reply), *tools_of(desk)[1:]]
        runner = agent(stub([[ToolCall(REPLY, "[1]")]]), tools)
        play(install(runner, desk.gate) if guarded else runner)

    run(guarded=False)
    assert ran == [TICKET]
    run(guarded=True)
    assert ran == [TICKET]  # what runs is what the defaults say, and that was not decided


def test_a_partial_parameter_that_the_model_overrides_is_checked_as_it_runs() -> None:
    desk, ran = Desk(options={"tools": {REPLY: {**RULE, "fields": ["ticket_id", "body", "queue"]}}}).prepared(), []
    client = object()

    def helpdesk_reply(ticket_id: str, body: str, queue: str, using: Any = client, public: bool = False) -> str:
        """Send a reply."""
        ran.append((queue, using is client, public))
        return "sent"

    def run(rule: dict[str, Any], **more: Any) -> Transcript:
        desk = Desk(options={"tools": {REPLY: {**RULE, **rule}}}).prepared()
        tool = FunctionTool.from_defaults(helpdesk_reply, partial_params={"queue": "billing"})
        return play(install(agent(stub([[reply(**more)]]), [tool, *tools_of(desk)[1:]]), desk.gate))

    fields = ["ticket_id", "body", "queue", "public"]
    assert "public" in run({"fields": fields[:3]}).told[0]  # a default is what the body would run with
    run({"fields": fields})
    assert ran == [("billing", True, False)]  # an object of the developer's own is no field
    assert "queue" in run({"fields": fields, "fixed": {"queue": "billing"}}, queue="everyone").told[0]
    assert "using" in run({"fields": fields}, using="x").told[0]
    assert len(ran) == 1
    assert desk.replies() == []


async def test_a_denial_of_a_tool_with_return_direct_does_not_end_the_run() -> None:
    bare = Desk()
    denied = ToolOutput(content="denied", tool_name=REPLY, raw_input={}, raw_output="denied")
    runner = agent(stub([WRONG]), proxied(bare, answering(denied), return_direct=True))
    assert await ending(runner) == ("stopped", ["denied"])  # the denial became the answer

    desk = Desk().prepared()
    tools = [FunctionTool.from_defaults(desk.helpdesk_reply, return_direct=True), *tools_of(desk)[1:]]
    assert (await aplay(install(agent(stub([WRONG]), tools), desk.gate))).ended
    assert desk.replies() == []


async def test_a_callback_of_the_tool_can_not_deny_and_sees_no_denial() -> None:
    bare = Desk()
    tool = FunctionTool.from_defaults(bare.helpdesk_reply, callback=lambda _: "denied")
    assert await ending(agent(stub([WRONG]), [tool])) == ("ended", ["denied"])
    assert len(bare.replies()) == 1

    desk, seen = Desk().prepared(), list[Any]()
    tool = FunctionTool.from_defaults(desk.helpdesk_reply, callback=seen.append)
    await aplay(install(agent(stub([WRONG, [reply()]]), [tool, *tools_of(desk)[1:]]), desk.gate))
    assert seen == [f"sent on {TICKET}"]


class Plain(BaseTool):
    """A tool of the oldest kind: a sync `__call__` with one input."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name=LOOK, description="Read a ticket.")

    def __call__(self, input: Any) -> ToolOutput:
        return ToolOutput(tool_name=LOOK, content=self.desk.look_up(input), raw_input={}, raw_output=None)


def test_a_tool_that_is_no_function_is_guarded_too() -> None:
    rule = {"outcomes": ["billing-question"], "entity": {"field": "input"}, "fields": ["input"]}
    desk = Desk(options={"tools": {LOOK: rule}}).prepared()
    turns = [[ToolCall(LOOK, {"input": OTHER})], [ToolCall(LOOK, {"input": TICKET})]]
    seen = play(install(agent(stub(turns), [Plain(desk), *tools_of(desk)[:3]]), desk.gate))
    assert "Denied, nothing was done" in seen.told[0]
    assert desk.ran == [(LOOK, {"ticket_id": TICKET})]
    assert seen.told[1] == f"{TICKET}: a question on an invoice"


def test_a_tool_class_with_a_call_of_its_own_is_refused() -> None:
    class Odd(FunctionTool):
        def __call__(self, *args: Any, **options: Any) -> Any:
            return self.real_fn(*args, **options)

    desk = Desk().prepared()
    with pytest.raises(ConfigurationError, match="own __call__"):
        install(agent(stub([]), [Odd.from_defaults(desk.helpdesk_reply), *tools_of(desk)[1:]]), desk.gate)


def test_what_other_code_takes_off_a_guarded_tool_is_guarded() -> None:
    desk = Desk().prepared()
    tool = guard(FunctionTool.from_defaults(desk.helpdesk_reply), desk.gate)
    wrong, right = {"ticket_id": OTHER, "body": BODY}, {"ticket_id": TICKET, "body": BODY}
    with desk.gate.session(SESSION):
        for run in (tool.fn, tool.real_fn, lambda **sent: asyncio.run(tool.async_fn(**sent))):
            with pytest.raises(ActionDenied):
                run(**wrong)
        assert call_tool(tool, wrong).content == desk.denial(**wrong)
        assert tool(**wrong).is_error
        assert tool.call(OTHER, BODY).is_error
        assert desk.replies() == []
        assert tool.fn(**right) == f"sent on {TICKET}"
        assert tool(TICKET, body=BODY).content == f"sent on {TICKET}"
    assert tool(**right).is_error  # no session


async def test_a06_the_session_around_a_run_and_a_resolver_of_the_user_s() -> None:
    desk = Desk().prepared()
    runner = install(agent(stub([[reply()]]), tools_of(desk)), desk.gate)
    with desk.gate.session(SESSION):
        await aplay(runner, None)
    assert len(desk.replies()) == 1
    runner = install(agent(stub([[reply()]]), tools_of(desk)), desk.gate, session=lambda ctx: SESSION)
    await aplay(runner, "another")
    assert len(desk.replies()) == 2


async def test_a05_the_first_turn_of_the_next_run_is_another_batch() -> None:
    desk = Desk()
    desk.decided = desk.authority.decide(TICKET)
    desk.gate.decisions.record(SESSION, result=desk.decided)
    runner = install(agent(stub([[ToolCall(CHECK, {"body": BODY})], [], [reply()]]), tools_of(desk)), desk.gate)
    await aplay(runner)
    await aplay(runner)
    assert len(desk.replies()) == 1


async def test_a05_an_agent_that_is_a_tool_acts_on_what_it_decided_and_one_beside_it_does_not() -> None:
    desk, decided = Desk(), asyncio.Event()
    decides = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})]]
    deciding = agent(stub([*decides, [reply()]]), tools_of(desk), name="deciding")
    waiting_model = stub([[reply()]])
    waiting = agent(waiting_model, tools_of(desk), name="waiting")

    async def decide(task: str) -> str:
        """Have it decided."""
        try:
            return str(await deciding.run(user_msg=task))
        finally:
            decided.set()

    async def act(task: str) -> str:
        """Act, later."""
        await decided.wait()
        return str(await waiting.run(user_msg=task))

    tools = [FunctionTool.from_defaults(async_fn=one) for one in (decide, act)]
    turns = [[ToolCall("decide", {"task": "x"}), ToolCall("act", {"task": "x"})], [ToolCall("act", {"task": "x"})]]
    outer = install(agent(stub(turns), tools, name="outer"), desk.gate)
    waiting_model.script = [[reply()], [], [reply()]]
    await aplay(outer)
    assert [str(each) for each in desk.ran].count(str((REPLY, {"ticket_id": TICKET, "body": BODY}))) == 2
    denials = [m.content for said in waiting_model.said for m in said if m.role == "tool"]
    assert str(denials[0]).startswith("Denied, nothing was done: no decision"), "beside it, in the same turn"


def test_a08_agents_in_a_workflow_and_agents_that_a_tool_holds_are_covered() -> None:
    def build(desk: Desk) -> Any:
        child = agent(stub([WRONG]), tools_of(desk), name="child")

        async def delegate(task: str) -> str:
            """Give a task to a colleague."""
            return str(await child.run(user_msg=task))

        turns = [
            [ToolCall("delegate", {"task": "reply"})],
            [ToolCall("handoff", {"to_agent": "second", "reason": "x"})],
        ]
        first = agent(stub(turns), [FunctionTool.from_defaults(async_fn=delegate)], name="first")
        second = agent(stub([WRONG]), tools_of(desk), name="second")
        return AgentWorkflow(agents=[first, second], root_agent="first")

    bare, desk = Desk().prepared(), Desk().prepared()
    play(build(bare))
    assert len(bare.replies()) == 2
    play(install(build(desk), desk.gate))
    assert desk.replies() == []


def test_a08_tools_of_a_retriever_are_guarded_when_they_come() -> None:
    class Retriever:
        def __init__(self, tools: list[Any]) -> None:
            self.tools = tools

        def retrieve(self, asked: Any) -> list[Any]:
            return self.tools

        async def aretrieve(self, asked: Any) -> list[Any]:
            return self.tools

    desk = Desk().prepared()
    runner = agent(stub([WRONG]), tools_of(desk)[1:])
    runner.tool_retriever = Retriever(tools_of(desk)[:1])
    with pytest.raises(ConfigurationError, match=REPLY):
        install(runner, desk.gate)
    seen = play(install(runner, desk.gate, accept=[REPLY]))
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a08_missing_tools_tools_held_by_other_code_and_agents_that_write_code_are_refused() -> None:
    desk = Desk()
    tools = tools_of(desk)
    with pytest.raises(ConfigurationError, match=f"no tool here is called {REPLY}"):
        install(agent(stub([]), tools[1:]), desk.gate)
    held = tools[0]

    def sends(ticket_id: str) -> str:
        """Send."""
        return str(held(ticket_id=ticket_id, body="b"))

    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent(stub([]), [FunctionTool.from_defaults(sends), *tools[1:]]), desk.gate, accept=["other"])
    held = guard(tools[0], desk.gate)
    install(agent(stub([]), [FunctionTool.from_defaults(sends), *tools[1:]]), desk.gate)
    coder = CodeActAgent(name="coder", description="c", tools=tools, llm=stub([]), code_execute_fn=lambda code: code)
    with pytest.raises(ConfigurationError, match="coder"):
        install(coder, desk.gate)
    with pytest.raises(ConfigurationError, match="BaseTool"):
        guard(desk.helpdesk_reply, desk.gate)


def test_arguments_that_change_during_the_check_do_not_reach_the_body() -> None:
    desk = Desk()
    sent: dict[str, Any] = {"ticket_id": TICKET, "body": BODY, "to": ["lee@acme.example"]}

    def verify(execution_id: str) -> Any:
        sent["to"].append("billing@elsewhere.example")
        return desk.authority.good_answer(Verify(execution_id))

    rule = {**RULE, "fields": ["ticket_id", "body", "to"], "recipients_at": ["acme.example"]}
    desk.options.update(tools={"pay": rule}, verify=verify)
    desk.__post_init__()
    desk.prepared()
    ran: list[Any] = []

    def pay(ticket_id: str, body: str, to: list[str]) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    with desk.gate.session(SESSION):
        assert not guard(FunctionTool.from_defaults(pay), desk.gate)(**sent).is_error
    assert ran == [["lee@acme.example"]]


async def test_a02_a_cancellation_leaves_as_it_came() -> None:
    asked = asyncio.Event()

    async def verify(execution_id: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": verify, "deadline_s": 20}).prepared()
    tool = guard(FunctionTool.from_defaults(desk.helpdesk_reply), desk.gate)
    with desk.gate.session(SESSION):
        task = asyncio.create_task(tool.acall(ticket_id=TICKET, body=BODY))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert desk.replies() == []


def test_g42_in_observe_mode_the_call_runs_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    play(install(agent(stub([WRONG]), tools_of(desk)), desk.gate))
    assert [sent["ticket_id"] for sent in desk.replies()] == [OTHER]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_a_run_whose_store_cannot_be_read_is_denied_unless_the_gate_observes(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: Any) -> Any:
        raise RuntimeError("secret")

    desk = Desk(options={"mode": mode}).prepared()
    monkeypatch.setattr("preaction.adapters.llama_index._run_of", broken)
    seen = play(install(agent(stub([[reply()]]), tools_of(desk)), desk.gate))
    assert (seen.told == [FAILED], len(desk.replies())) == ((True, 0) if mode == "enforce" else (False, 1))


SERVER = """
import json, sys
from mcp.server import MCPServer
server = MCPServer("desk")
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
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    desk = Desk()
    decision = desk.authority.decide(TICKET)
    check = desk.authority.check_output(decision, {"body": BODY})
    script = tmp_path / "server.py"
    script.write_text(SERVER, "utf-8")
    client = BasicMCPClient(sys.executable, args=[str(script), json.dumps(decision), json.dumps(check)])
    turns = [
        [ToolCall(DECIDE, {"entity_id": "HC-0"})],
        [reply()],
        [ToolCall(DECIDE, {"entity_id": TICKET})],
        [ToolCall(CHECK, {"body": BODY})],
        [reply(attachment_url="https://files.example/x")],  # nobody validates: what is checked is what is sent
        [reply()],
    ]
    tools = await McpToolSpec(client=client).to_tool_list_async()
    handler = agent(stub(turns[:1]), tools).run(user_msg="go")
    outputs = [event.tool_output async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    assert "is_error=True" in outputs[0].content
    assert not outputs[0].is_error  # only `raw_output` says that it is one
    seen = await aplay(install(agent(stub(turns), tools), desk.gate))
    assert "no decision" in seen.told[1]
    assert "attachment_url" in seen.told[4]
    assert f"sent on {TICKET}" in seen.told[5]


def test_a10_without_the_runtime_the_import_says_what_to_install() -> None:
    assert "pip install 'preaction[llama-index]'" in import_without("llama_index", "llama_index")


def test_the_example_runs() -> None:
    said = run_example("llama_index").splitlines()
    assert "sent on HC-1201: Hello, line 3 is the service fee." in said
    told = [line for line in said if line.startswith("told: ")]
    assert told[0].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert told[-1] == "told: sent"


def test_the_page_s_code_runs() -> None:
    assert run_page("llama-index.md")["gate"].is_gated("reply")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare = tools_of(desk, coroutines=True)[0]
    guarded = guard(bare, desk.gate)

    def call(tool: Any) -> Any:
        return lambda: tool.acall(ticket_id=TICKET, body=BODY)

    with desk.gate.session(SESSION):
        found = await cost(desk, call(guarded), call(bare))
    print(f"llama_index: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
