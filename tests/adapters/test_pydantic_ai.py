"""Pydantic AI: the contract, and a row for each trap of this runtime: open without the adapter, closed with it."""

import asyncio
import datetime
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import pytest

pytest.importorskip("pydantic_ai", reason="runs in its own environment: make test-runtimes")

from fastmcp import FastMCP
from pydantic import BaseModel, BeforeValidator, Field
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, Tool, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Hooks, NativeTool
from pydantic_ai.exceptions import SkipToolExecution, UnexpectedModelBehavior
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.tools import ToolApproved, ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset, WrapperToolset
from pydantic_ai.usage import RunUsage

from adapters.around import (
    FAILURES,
    HANGS,
    answering,
    broken,
    changing,
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
from preaction import ConfigurationError, create_action_gate, denial_text
from preaction.adapters._bridge import FAILED
from preaction.adapters.pydantic_ai import Gated


class Scripted:
    """A model that makes the calls of its script, one list per turn, then says "done"; `told` is what it was given."""

    def __init__(self, turns: Sequence[Sequence[ToolCall]]) -> None:
        self.turns = [list(turn) for turn in turns]
        self.told: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.asked: list[str] = []
        self.model = FunctionModel(self.answer, stream_function=self.stream)

    def _next(self, messages: list[ModelMessage]) -> list[ToolCallPart]:
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, ToolReturnPart):
                self.told[part.tool_call_id] = part.model_response_str()
                self.outcomes[part.tool_call_id] = part.outcome
            elif isinstance(part, RetryPromptPart):
                self.told[part.tool_call_id] = part.model_response()
        parts = []
        for call in self.turns.pop(0) if self.turns else []:
            self.asked.append(f"call_{len(self.asked)}")
            parts.append(ToolCallPart(call.name, as_json(call.arguments), tool_call_id=self.asked[-1]))
        return parts

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=self._next(messages) or [TextPart("done")])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for index, part in enumerate(parts := self._next(messages)):
            delta = DeltaToolCall(
                name=part.tool_name, json_args=part.args_as_json_str(), tool_call_id=part.tool_call_id
            )
            yield {index: delta}
        if not parts:
            yield "done"

    def answers(self) -> list[str]:
        return [self.told.get(call_id, "") for call_id in self.asked]


class PydanticAI(Harness):
    modes = ("sync", "async", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        scripted = Scripted(turns)
        agent = Agent(scripted.model, tools=desk.bodies, capabilities=[Gated(desk.gate)])

        async def play() -> Any:
            if mode == "async":
                return (await agent.run("Hello", conversation_id=session)).output
            async with agent.run_stream("Hello", conversation_id=session) as result:
                return await result.get_output()

        while True:
            try:
                if mode == "sync":
                    with asyncio.Runner() as loop:  # run_sync takes the thread's loop, and leaves it open
                        asyncio.set_event_loop(loop.get_loop())
                        output = agent.run_sync("Hello", conversation_id=session).output
                else:
                    output = asyncio.run(play())
            except RuntimeError:  # a tool that raises ends the run here; the script goes on in the next one
                assert desk.decide_fails
            else:
                return Transcript(scripted.answers(), output == "done")


class TestPydanticAI(Contract):
    harness = PydanticAI()


def decide(ticket: str = TICKET) -> ToolCall:
    return ToolCall(DECIDE, {"entity_id": ticket})


def agent_of(desk: Desk, *turns: Sequence[ToolCall], **changes: Any) -> tuple[Agent[None, Any], Scripted]:
    scripted = Scripted(turns)
    options = {"tools": desk.bodies, "capabilities": [Gated(desk.gate)], **changes}
    return Agent(scripted.model, **options), scripted


async def play(agent: Agent[None, Any], **options: Any) -> Any:
    return await agent.run("Hello", **{"conversation_id": SESSION, **options})


async def test_a03_a_denial_is_neither_a_failure_nor_a_retry() -> None:
    desk = Desk().prepared()
    agent, scripted = agent_of(desk, [reply(OTHER)])
    await play(agent)
    assert list(scripted.outcomes.values()) == ["denied"]

    def retries(ticket_id: str, body: str) -> str:
        raise ModelRetry("denied")

    agent, _ = agent_of(desk, [reply(OTHER)], [reply(OTHER)], tools=[Tool(retries, name=REPLY)], capabilities=[])
    with pytest.raises(UnexpectedModelBehavior):  # what a ModelRetry for a denial would do to the run
        await play(agent)


# A gate in a hook does something wrong


@pytest.mark.parametrize(
    ("hook", "what", "ended", "outcome"),
    [
        ("before_tool_execute", "raises", "RuntimeError", None),
        ("before_tool_execute", "hangs", HANGS, None),
        ("before_tool_execute", "none", "AssertionError", None),
        ("before_tool_execute", "empty", "TypeError", None),
        ("before_tool_execute", "text", "TypeError", None),
        ("before_tool_execute", "false", "TypeError", None),
        ("tool_execute", "raises", "RuntimeError", None),
        ("tool_execute", "hangs", HANGS, None),
        ("tool_execute", "none", "ended", "success"),  # the model reads that it went well
        ("tool_execute", "empty text", "ended", "success"),
        ("tool_execute", "false", "ended", "success"),
    ],
)
async def test_bare_a_hook_that_does_wrong_ends_the_run_or_says_that_it_went_well(
    hook: Any, what: str, ended: str, outcome: str | None
) -> None:
    bare = Desk()
    agent, scripted = agent_of(bare, [reply()], capabilities=[Hooks(**{hook: answering(FAILURES[what])})])
    assert await how_it_ends(play(agent), hangs=FAILURES[what] is HANGS) == ended
    assert list(scripted.outcomes.values()) == ([outcome] if outcome else [])
    assert bare.replies() == []


@pytest.mark.parametrize("what", FAILURES)
async def test_a02_whatever_a_gate_does_wrong_the_adapter_denies(what: str) -> None:
    desk = broken(Desk().prepared(), FAILURES[what])
    agent, scripted = agent_of(desk, [reply()])
    assert (await play(agent)).output == "done"
    assert scripted.answers() == [FAILED]
    assert list(scripted.outcomes.values()) == ["denied"]
    assert desk.replies() == []


async def test_bare_a_time_limit_of_a_hook_ends_the_run() -> None:
    hooks = Hooks[None]()

    @hooks.on.before_tool_execute(timeout=0.05)
    async def gate(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        await asyncio.sleep(5)

    bare = Desk()
    agent, _ = agent_of(bare, [reply()], capabilities=[hooks])
    with pytest.raises(TimeoutError):  # the adapter's row is one of the contract
        await play(agent)
    assert bare.replies() == []


# Something rewrites the call after a check


def to_other(args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "ticket_id": OTHER} if "body" in args and "ticket_id" in args else args


class Rewrites(AbstractCapability[Any]):
    """Another capability that changes arguments at the latest hook there is."""

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        return to_other(args)


class RewritingToolset(WrapperToolset[Any]):
    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, to_other(tool_args), ctx, tool)


class RewritesInnermost(AbstractCapability[Any]):
    """Another capability that wants to be the innermost one."""

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        return RewritingToolset(toolset)


class HookGate(AbstractCapability[Any]):
    """A gate at the hook that looks like the one to use: it sees the arguments before others change them."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        verdict = await self.desk.gate.acheck(ctx.conversation_id, tool_def.name, args)
        return denial_text(verdict) if verdict.blocks else await handler(args)

    async def after_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        if self.desk.gate.records(tool_def.name):
            self.desk.gate.record_result(ctx.conversation_id, tool_def.name, None, result)
        return result


class Holds(AbstractCapability[Any]):
    """Another capability, which keeps the arguments and may change them at any time."""

    def __init__(self, held: list[dict[str, Any]]) -> None:
        self.held = held

    async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        self.held.append(args)
        return args

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        self.held.append(args)
        return await handler(args)


async def test_arguments_that_change_while_the_gate_checks_do_not_reach_the_body() -> None:
    for gated in (False, True):
        held: list[dict[str, Any]] = []
        desk = changing(held)
        agent, _ = agent_of(desk, [reply()], capabilities=[Holds(held), Gated(desk.gate) if gated else HookGate(desk)])
        await play(agent)
        assert desk.replies() == [{"ticket_id": TICKET if gated else OTHER, "body": BODY}]


async def test_a_name_that_comes_twice_is_checked_as_it_runs() -> None:
    text = f'{{"ticket_id": "{OTHER}", "ticket_id": "{TICKET}", "body": "{BODY}"}}'
    desk = Desk().prepared()
    await play(agent_of(desk, [ToolCall(REPLY, text)])[0])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


async def test_a05_calls_of_one_turn_that_run_one_after_the_other_are_one_batch_too() -> None:
    for gated in (False, True):
        desk = undecided()
        agent, _ = agent_of(desk, [decide(), reply()], capabilities=[Gated(desk.gate) if gated else HookGate(desk)])
        with agent.parallel_tool_call_execution_mode("sequential"):
            await play(agent)
        assert len(desk.replies()) == (0 if gated else 1)


async def test_a04_a_decision_that_another_capability_makes_up_is_not_recorded() -> None:
    class Pretends(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            return made_up if tool_def.name == DECIDE else await handler(args)

    desk = undecided()
    made_up = desk.authority.decide(TICKET)
    agent, scripted = agent_of(desk, [decide()], [reply()], capabilities=[Gated(desk.gate), Pretends()])
    await play(agent)
    assert desk.ran == []
    assert "no decision" in scripted.answers()[1]


@pytest.mark.parametrize("rewrites", [Rewrites(), RewritesInnermost()])
@pytest.mark.parametrize("gate_first", [True, False])
async def test_a03_what_other_capabilities_rewrite_is_checked_as_it_runs(rewrites: Any, gate_first: bool) -> None:
    for gate in (HookGate, lambda desk: Gated(desk.gate)):
        desk = Desk().prepared()
        capabilities = [gate(desk), rewrites] if gate_first else [rewrites, gate(desk)]
        agent, scripted = agent_of(desk, [reply()], capabilities=capabilities)
        await play(agent)
        slips_through = gate is HookGate and (desk.replies() or not isinstance(rewrites, Rewrites))  # not yet in 2.40
        assert desk.replies() == ([{"ticket_id": OTHER, "body": BODY}] if slips_through else [])
    assert scripted.answers() == [desk.denial(ticket_id=OTHER, body=BODY)]


async def test_a03_what_a_toolset_of_the_user_s_rewrites_is_checked_as_it_runs() -> None:
    desk = Desk().prepared()
    toolset = RewritingToolset(FunctionToolset(desk.bodies))
    agent, scripted = agent_of(desk, [reply()], tools=[], toolsets=[toolset])
    await play(agent)
    assert scripted.answers() == [desk.denial(ticket_id=OTHER, body=BODY)]


async def test_a03_dates_and_models_are_checked_as_json_and_run_as_they_were_validated() -> None:
    class Money(BaseModel):
        amount: int

    ran: list[Any] = []

    def refund(ticket_id: str, due: datetime.date, money: Money) -> str:
        ran.append((ticket_id, due, money))
        return "refunded"

    desk = Desk()
    fields = ["ticket_id", "due", "money.amount"]
    gate = create_action_gate(
        job=desk.authority.job,
        tools={"refund": {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": fields}},
        verify=desk.authority,
        describe=desk.authority,
        clock=desk.authority.clock,
    )
    gate.decisions.record(SESSION, result=desk.authority.decide(TICKET))
    call = ToolCall("refund", {"ticket_id": TICKET, "due": "2026-12-01", "money": {"amount": "5"}})
    agent, scripted = agent_of(desk, [call], tools=[refund], capabilities=[Gated(gate)])
    await play(agent)
    assert scripted.answers() == ["refunded"]
    assert ran == [(TICKET, datetime.date(2026, 12, 1), Money(amount=5))]


async def test_a03_a_field_that_its_author_left_out_of_dumps_is_checked_all_the_same() -> None:
    class Reply(BaseModel):
        text: str
        send_to: str = Field("the customer", exclude=True)

    ran: list[Any] = []

    def answer(ticket_id: str, reply: Reply) -> str:
        ran.append(reply)
        return "sent"

    desk = Desk()
    rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "reply.text"]}
    gate = create_action_gate(
        job=desk.authority.job, tools={"answer": rule}, verify=desk.authority, describe=desk.authority,
        clock=desk.authority.clock,
    )  # fmt: skip
    gate.decisions.record(SESSION, result=desk.authority.decide(TICKET))
    call = ToolCall("answer", {"ticket_id": TICKET, "reply": {"text": "Hello", "send_to": "everybody"}})
    agent, scripted = agent_of(desk, [call], tools=[answer], capabilities=[Gated(gate)])
    await play(agent)
    assert ran == []
    assert "send_to" in scripted.answers()[0]


async def test_a03_arguments_that_can_t_be_written_as_json_are_denied() -> None:
    ran: list[Any] = []

    def helpdesk_reply(ticket_id: str, body: Annotated[Any, BeforeValidator(lambda _: object())]) -> None:
        ran.append(body)

    desk = Desk().prepared()
    agent, scripted = agent_of(desk, [reply()], tools=[helpdesk_reply, *desk.bodies[1:]])
    await play(agent)
    assert ran == []
    assert scripted.answers()[0].startswith("Denied, nothing was done")


# Names and toolsets


async def test_a07_a_prefixed_tool_is_gated_by_either_name() -> None:
    def deny(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise SkipToolExecution("denied")

    hooks = Hooks[None]()
    hooks.on.before_tool_execute(tools=[REPLY])(deny)
    calls = [[ToolCall(f"desk_{REPLY}", reply().arguments)], [ToolCall(f"desk_{DECIDE}", {"entity_id": TICKET})]]
    bare = Desk()
    prefixed = FunctionToolset(bare.bodies).prefixed("desk")
    await play(agent_of(bare, calls[0], tools=[], toolsets=[prefixed], capabilities=[hooks])[0])
    assert len(bare.replies()) == 1  # a hook's filter by name misses it

    desk = Desk()
    prefixed = FunctionToolset(desk.bodies).prefixed("desk")
    agent, scripted = agent_of(desk, *calls, calls[0], tools=[], toolsets=[prefixed])
    await play(agent)
    assert desk.replies() == []
    assert "no decision" in scripted.answers()[0]
    assert "check_output" in scripted.answers()[2]


async def test_toolsets_of_a_run_and_overridden_ones_are_gated() -> None:
    desk = Desk()
    agent, _ = agent_of(desk, [reply()], tools=[])
    await play(agent, toolsets=[FunctionToolset(desk.bodies)])
    agent, _ = agent_of(desk, [reply()], tools=[])
    with agent.override(toolsets=[FunctionToolset(desk.bodies)]):
        await play(agent)
    assert desk.replies() == []


async def test_toolsets_made_for_each_run_are_gated() -> None:
    desk = Desk()
    agent, scripted = agent_of(desk, [reply()], tools=[])

    @agent.toolset
    def dynamic(ctx: RunContext[None]) -> Any:
        return FunctionToolset(desk.bodies)

    await play(agent)
    assert desk.replies() == []
    assert "no decision" in scripted.answers()[0]


async def test_a04_a_result_within_a_tool_return_is_recorded() -> None:
    desk = Desk()

    def get_job_decision(entity_id: str) -> ToolReturn:
        return ToolReturn(return_value=desk.get_job_decision(entity_id), content="for the model")

    tools = [desk.helpdesk_reply, get_job_decision, desk.check_output]
    agent, scripted = agent_of(desk, [decide()], [reply()], tools=tools)
    await play(agent)
    assert "no output check" in scripted.answers()[1]


async def test_hooks_that_are_loaded_later_are_no_gate_and_the_adapter_can_t_be() -> None:
    def deny(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise SkipToolExecution("denied")

    desk = Desk()
    late = Hooks[None](before_tool_execute=deny, defer_loading=True, id="late", description="Late.")
    agent, _ = agent_of(desk, [reply()], capabilities=[late])
    await play(agent)
    assert len(desk.replies()) == 1
    with pytest.raises(TypeError):
        Gated(desk.gate, defer_loading=True)  # type: ignore[call-arg]


# What can't be covered is refused, before the model is asked


async def test_bare_no_hook_sees_an_external_tool_or_an_output_function() -> None:
    seen: list[str] = []

    class Sees(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
            seen.append(tool_def.name)
            return await handler(args)

    bare = Desk()
    external = ExternalToolset([ToolDefinition(name="pay")])
    agent, scripted = agent_of(
        bare, [ToolCall("pay", {})], toolsets=[external], output_type=[str, DeferredToolRequests], capabilities=[Sees()]
    )
    first = await play(agent)
    results = DeferredToolResults(calls={call.tool_call_id: "paid" for call in first.output.calls})
    await agent.run(message_history=first.all_messages(), deferred_tool_results=results)
    assert scripted.answers() == ["paid"]

    def call_send(messages: Any, info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"text": "hi"})])

    def send(text: str) -> str:
        seen.append("sent")
        return text

    await play(Agent(FunctionModel(call_send), output_type=send, capabilities=[Sees()]))
    assert seen == ["sent"]


async def test_a08_gaps_are_refused_and_named() -> None:
    desk = Desk()
    agent, scripted = agent_of(desk, [reply()], tools=desk.bodies[:1])
    with pytest.raises(ConfigurationError, match=f"no tool here is called {CHECK}, {DECIDE}"):
        await play(agent)
    agent, scripted = agent_of(desk, [reply()], capabilities=[Gated(desk.gate), NativeTool(WebSearchTool())])
    with pytest.raises(ConfigurationError, match="web_search"):
        await play(agent)
    external = ExternalToolset([ToolDefinition(name="pay")])
    agent, scripted = agent_of(desk, [reply()], toolsets=[external])
    with pytest.raises(ConfigurationError, match="pay"):
        await play(agent)
    external = ExternalToolset([ToolDefinition(name=REPLY)])
    agent, scripted = agent_of(desk, [reply()], tools=desk.bodies[1:], toolsets=[external])
    with pytest.raises(ConfigurationError, match=REPLY):
        await play(agent)
    assert scripted.asked == []


@pytest.mark.parametrize("wrapped", [lambda function: function, ToolOutput])
async def test_a08_an_output_function_is_refused_unless_it_is_accepted(wrapped: Any) -> None:
    sent: list[str] = []

    def send(text: str) -> str:
        """Send."""
        sent.append(text)
        return text

    def call(messages: Any, info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"text": "hi"})])

    desk = Desk()
    for accept in ([], ["send"]):
        agent = Agent(
            FunctionModel(call),
            tools=desk.bodies,
            output_type=wrapped(send),
            capabilities=[Gated(desk.gate, accept=accept)],
        )
        if accept:
            await play(agent)
            assert sent == ["hi"]
        else:
            with pytest.raises(ConfigurationError, match="output function not covered by the gate"):
                await play(agent)
            assert sent == []


# Session, turns, agents within agents


async def test_a06_the_session_is_the_resolver_s_or_stays_with_the_conversation() -> None:
    desk = Desk().prepared()
    agent, _ = agent_of(desk, [reply()], capabilities=[Gated(desk.gate, session=lambda ctx: ctx.metadata["chat"])])
    await play(agent, conversation_id=None, metadata={"chat": SESSION})
    assert len(desk.replies()) == 1
    agent, scripted = agent_of(desk, [decide()], [], [reply()])
    first = await play(agent, conversation_id=None)
    await play(agent, conversation_id=None, message_history=first.all_messages())
    assert "check_output" in scripted.answers()[1]


async def test_a06_an_agent_that_a_tool_runs_shares_the_session_with_a_gate_of_its_own() -> None:
    for capabilities in (True, False):
        desk = Desk().prepared()
        inner, scripted = agent_of(desk, [reply(OTHER)], [reply()], **({} if capabilities else {"capabilities": []}))

        async def ask(run: Any = inner.run) -> str:
            return str((await run("reply")).output)

        tool = Tool.from_schema(ask, name="ask", description="Asks.", json_schema={"type": "object", "properties": {}})
        outer, _ = agent_of(desk, [ToolCall("ask", {})], tools=[*desk.bodies, tool])
        await play(outer)
        assert len(desk.replies()) == (1 if capabilities else 2)  # without one of its own it isn't gated
        assert not capabilities or scripted.answers()[0] == desk.denial(ticket_id=OTHER, body=BODY)


async def test_a05_a_decision_of_the_turn_that_waited_for_an_approval_does_not_count() -> None:
    desk = Desk().prepared()
    tools = [Tool(desk.helpdesk_reply, requires_approval=True), *desk.bodies[1:]]
    agent, scripted = agent_of(
        desk, [decide("HC-1300"), reply("HC-1300")], [reply()], tools=tools, output_type=[str, DeferredToolRequests]
    )
    result = await play(agent)
    for _ in range(2):
        approvals = {call.tool_call_id: True for call in result.output.approvals}
        history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())  # as after a night in a database
        result = await agent.run(
            message_history=history,
            deferred_tool_results=DeferredToolResults(approvals=approvals),
            conversation_id=SESSION,
        )
    assert "no decision" in scripted.answers()[1]
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


@pytest.mark.parametrize("gated", [False, True])
async def test_what_an_approval_puts_in_place_of_the_arguments_is_checked(gated: bool) -> None:
    desk = Desk().prepared()
    tools = [Tool(desk.helpdesk_reply, requires_approval=True), *desk.bodies[1:]]
    agent, scripted = agent_of(
        desk,
        [reply()],
        tools=tools,
        output_type=[str, DeferredToolRequests],
        **({} if gated else {"capabilities": []}),
    )
    result = await play(agent)
    approved = ToolApproved(override_args={"ticket_id": OTHER, "body": BODY})
    call_id = result.output.approvals[0].tool_call_id
    await agent.run(
        message_history=result.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={call_id: approved}),
        conversation_id=SESSION,
    )
    assert scripted.answers() == [desk.denial(ticket_id=OTHER, body=BODY) if gated else f"sent on {OTHER}"]


async def test_a02_a_cancelled_run_is_cancelled() -> None:
    desk, reached = Desk().prepared(), asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        reached.set()
        await asyncio.sleep(60)

    vars(desk.gate).update(acheck=hang)
    agent, _ = agent_of(desk, [reply()])
    task = asyncio.create_task(play(agent))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


async def test_observe_mode_runs_what_would_be_denied() -> None:
    desk = Desk(options={"mode": "observe"})
    await play(agent_of(desk, [reply()])[0])
    assert len(desk.replies()) == 1


async def test_a07_unlisted_tools_are_denied_where_the_gate_says_so() -> None:
    desk = Desk(options={"unlisted": "deny"})
    agent, scripted = agent_of(desk, [ToolCall(LOOK, {"ticket_id": TICKET})])
    await play(agent)
    assert desk.ran == []
    assert scripted.answers()[0].startswith("Denied, nothing was done")


# MCP


def server_of(desk: Desk) -> FastMCP:
    server = FastMCP("desk srv")
    for body in desk.bodies:
        server.tool(body)
    return server


@pytest.mark.parametrize("prefix", [None, "desk"])
async def test_mcp_calls_are_gated_and_results_recorded(prefix: str | None) -> None:
    for gated in (False, True):
        desk = Desk()
        calls = [reply(), decide(), reply(), ToolCall(CHECK, {"body": BODY}), reply()]
        named = [[ToolCall(f"{prefix}_{call.name}" if prefix else call.name, call.arguments)] for call in calls]
        toolset: Any = MCPToolset(server_of(desk), init_timeout=60)
        changes: dict[str, Any] = {} if gated else {"capabilities": []}
        agent, scripted = agent_of(
            desk, *named, tools=[], toolsets=[toolset.prefixed(prefix) if prefix else toolset], **changes
        )
        await play(agent)
        assert len(desk.replies()) == (1 if gated else 3)
    assert "no decision" in scripted.answers()[0]
    assert "no output check" in scripted.answers()[2]
    assert f"sent on {TICKET}" in scripted.answers()[4]


async def test_mcp_a_result_that_is_an_error_is_not_recorded() -> None:
    desk = Desk(decide_fails=True)
    agent, _ = agent_of(desk, [decide()], [reply()], tools=[], toolsets=[MCPToolset(server_of(desk), init_timeout=60)])
    await play(agent)
    assert desk.replies() == []
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code == "case_not_decided"


async def test_mcp_a_function_that_may_send_another_call_is_refused_unless_it_is_accepted() -> None:
    async def process(ctx: Any, call: Any, name: str, args: dict[str, Any]) -> Any:
        return await call(name, to_other(args))

    for accept in (False, True):
        desk = Desk().prepared()
        toolset: Any = MCPToolset(server_of(desk), init_timeout=60, process_tool_call=process)
        names = [f"process_tool_call of {toolset.label}"] if accept else []
        agent, _ = agent_of(
            desk, [reply()], tools=[], toolsets=[toolset], capabilities=[Gated(desk.gate, accept=names)]
        )
        if accept:
            await play(agent)
            assert desk.replies() == [{"ticket_id": OTHER, "body": BODY}]
        else:
            with pytest.raises(ConfigurationError, match="process_tool_call of"):
                await play(agent)


# The example, the page, the cost


def test_the_example_runs() -> None:
    said = run_example("pydantic_ai").splitlines()
    assert said[0] == "sent on HC-1201: Hello, line 3 is the service fee."
    assert said[1].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert said[2:] == ["told: sent"]


def test_the_page_s_code_runs() -> None:
    assert isinstance(run_page("pydantic-ai.md")["agent"], Agent)


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[pydantic-ai]'" in import_without("pydantic_ai", "pydantic_ai")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare = FunctionToolset(desk.bodies)
    guarded = Gated(desk.gate).get_wrapper_toolset(bare)
    context: Any = RunContext(
        deps=None, model=FunctionModel(lambda *_: ModelResponse(parts=[])), usage=RunUsage(), conversation_id=SESSION
    )
    tools = await guarded.get_tools(context)
    arguments = {"ticket_id": TICKET, "body": BODY}

    def call(toolset: Any) -> Any:
        return lambda: toolset.call_tool(REPLY, arguments, context, tools[REPLY])

    found = await cost(desk, call(guarded), call(bare))
    print(f"pydantic_ai: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
