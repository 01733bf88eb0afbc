"""The OpenAI Agents SDK: the contract, and a row for each trap of it: open without the adapter, closed with it."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("agents", reason="runs in its own environment: make test-runtimes")

from agents import (
    Agent,
    AgentHooks,
    AgentsException,
    ApplyPatchTool,
    CodeInterpreterTool,
    ComputerTool,
    CustomTool,
    FileSearchTool,
    FunctionTool,
    HostedMCPTool,
    ImageGenerationTool,
    ItemHelpers,
    LocalShellTool,
    ModelBehaviorError,
    ModelResponse,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ShellTool,
    SQLiteSession,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
    ToolOutputGuardrail,
    ToolSearchTool,
    Usage,
    WebSearchTool,
    function_tool,
    handoff,
    set_tracing_disabled,
)
from agents.mcp import MCPServer
from agents.models.interface import Model
from agents.tool_context import ToolContext
from mcp.types import CallToolResult, Tool
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseCustomToolCall,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from adapters.around import cost, import_without, run_example, run_page, until
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
from preaction import ConfigurationError, create_action_gate
from preaction.adapters._bridge import FAILED
from preaction.adapters._json_schema import MISFIT
from preaction.adapters.openai_agents import ainstall, install
from preaction.testing import FakeAuthority

set_tracing_disabled(True)

_ids = itertools.count(1)


class Scripted(Model):
    """A model that makes the calls of its script, one list per turn, then says "done"; `told` is what it was given."""

    def __init__(self, turns: Sequence[Sequence[ToolCall]]) -> None:
        self.turns = [list(turn) for turn in turns]
        self.told: dict[str, str] = {}
        self.asked: list[str] = []
        self.ids = _ids

    def _next(self, items: Any) -> ModelResponse:
        for item in ItemHelpers.input_to_new_input_list(items):
            if isinstance(item, dict) and item.get("type") == "function_call_output":
                self.told[item["call_id"]] = _text(item["output"])
        output: list[Any] = []
        for call in self.turns.pop(0) if self.turns else []:
            self.asked.append(f"call_{next(self.ids)}")
            output.append(
                ResponseFunctionToolCall(
                    type="function_call", call_id=self.asked[-1], name=call.name, arguments=as_json(call.arguments)
                )
            )
        if not output:
            said = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = [
                ResponseOutputMessage(id="msg_1", type="message", role="assistant", status="completed", content=[said])
            ]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        return self._next(input)

    async def stream_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        response = Response(
            id="resp_1",
            created_at=0,
            model="scripted",
            object="response",
            output=self._next(input).output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)

    def answers(self) -> list[str]:
        return [self.told.get(call_id, "") for call_id in self.asked]


def _text(output: Any) -> str:
    """A tool's output as the model reads it: MCP results come as a list of text blocks."""
    return output if isinstance(output, str) else "".join(block["text"] for block in output)


def tools_of(desk: Desk) -> list[FunctionTool]:
    return [function_tool(body) for body in desk.bodies]


def desk_agent(desk: Desk, model: Model | None = None, **changes: Any) -> Agent[Any]:
    return Agent(**{"name": "desk", "model": model, "tools": tools_of(desk), **changes})


async def play(agent: Agent[Any], *, session: str | None = SESSION, **options: Any) -> Any:
    return await Runner.run(agent, "Hello", run_config=RunConfig(group_id=session), **options)


class OpenAIAgents(Harness):
    modes = ("sync", "async", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        model = Scripted(turns)
        agent = install(desk_agent(desk, model), desk.gate)
        config = RunConfig(group_id=session)

        async def streamed() -> Any:
            result = Runner.run_streamed(agent, "Hello", run_config=config)
            async for _ in result.stream_events():
                pass
            return result

        if mode == "sync":
            with asyncio.Runner() as loop:  # run_sync takes the thread's loop, and leaves it open
                asyncio.set_event_loop(loop.get_loop())
                result = Runner.run_sync(agent, "Hello", run_config=config)
        else:
            result = asyncio.run(streamed() if mode == "stream" else Runner.run(agent, "Hello", run_config=config))
        return Transcript(model.answers(), result.final_output == "done")


class TestOpenAIAgents(Contract):
    harness = OpenAIAgents()


def decide(ticket: str = TICKET) -> ToolCall:
    return ToolCall(DECIDE, {"entity_id": ticket})


def check(body: str = BODY) -> ToolCall:
    return ToolCall(CHECK, {"body": body})


# A hook of one's own: what the SDK makes of it, and what becomes of the adapter when the gate behind it does the same


def raising(*_: Any, **__: Any) -> Any:
    raise RuntimeError("secret")


def first_guarded(desk: Desk, guard: Any, **options: Any) -> list[Any]:
    """The desk's tools, the first with an input guardrail of one's own."""
    tools = [function_tool(desk.helpdesk_reply, **options), *tools_of(desk)[1:]]
    tools[0].tool_input_guardrails = [ToolInputGuardrail(guard, name="home-made")]
    return tools


@pytest.mark.parametrize(
    ("guard", "bare"),
    [
        (raising, "aborts"),
        (lambda _: None, "aborts"),
        (lambda _: False, "aborts"),
        (lambda _: ToolGuardrailFunctionOutput.raise_exception(), "aborts"),
        (lambda _: ToolGuardrailFunctionOutput.reject_content(""), "says nothing"),
        (lambda _: ToolGuardrailFunctionOutput.reject_content(None), "runs"),
        (lambda _: ToolGuardrailFunctionOutput(output_info="DENY"), "runs"),
        (lambda _: ToolGuardrailFunctionOutput(output_info=None, behavior={"type": "deny"}), "runs"),
    ],
)
async def test_a02_a_guardrail_that_goes_wrong_ends_the_run_or_lets_the_tool_run(guard: Any, bare: str) -> None:
    desk = Desk()
    agent = desk_agent(desk, model := Scripted([[reply()]]), tools=first_guarded(desk, guard))
    try:
        await play(agent)
        outcome = "runs" if desk.replies() else "says nothing"
        assert model.answers() == ([f"sent on {TICKET}"] if desk.replies() else [""])
    except AgentsException:
        outcome = "aborts"
    assert outcome == bare

    desk = Desk().prepared()

    async def acheck(*_: Any, **__: Any) -> Any:
        return guard(None)

    vars(desk.gate).update(acheck=acheck)
    result = await play(install(desk_agent(desk, model := Scripted([[reply()]])), desk.gate))
    assert (model.answers(), result.final_output, desk.replies()) == ([FAILED], "done", [])
    if bare == "runs":  # with it on the tool, what the gate denies is denied
        desk = Desk()
        agent = desk_agent(desk, model := Scripted([[reply()]]), tools=first_guarded(desk, guard))
        await play(install(agent, desk.gate))
        assert "no decision" in model.answers()[0]


@pytest.mark.parametrize(
    ("gives", "bare"), [(raising, "aborts"), (lambda *_: None, "None"), (lambda *_: False, "False")]
)
async def test_a02_a_wrapper_that_goes_wrong_ends_the_run_or_speaks_in_python(gives: Any, bare: str) -> None:
    async def wrapper(context: ToolContext[Any], raw: str) -> Any:
        return gives()

    desk = Desk()
    agent = desk_agent(desk, model := Scripted([[reply()]]))
    agent.tools[0].on_invoke_tool = wrapper
    if bare == "aborts":
        with pytest.raises(AgentsException):
            await play(agent)
    else:
        await play(agent)
        assert model.answers() == [bare]
    assert desk.replies() == []  # the adapter's wrapper: the row above


@pytest.mark.parametrize("place", ["start returns", "start raises", "end raises", "output raises", "output None"])
async def test_a02_other_hooks_can_not_deny_and_a_late_one_only_ends_the_run(place: str) -> None:
    class Own(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> Any:
            return raising() if place == "start raises" else "deny"

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            if place == "end raises":
                raising()

    desk = Desk()
    agent = desk_agent(desk, Scripted([[reply()]]), hooks=Own())
    if place.startswith("output"):
        late = ToolOutputGuardrail(raising if place.endswith("raises") else lambda _: None)
        agent.tools[0].tool_output_guardrails = [late]
    if place == "start returns":
        await play(agent)
    else:
        with pytest.raises((AgentsException, RuntimeError)):
            await play(agent)
    assert len(desk.replies()) == (0 if place == "start raises" else 1)


async def test_a04_a_result_that_can_not_be_recorded_does_not_end_the_run_and_its_session_is_denied() -> None:
    desk = Desk().prepared()
    vars(desk.gate).update(record_result=raising)
    model = Scripted([[decide()], [reply()]])
    result = await play(install(desk_agent(desk, model), desk.gate))
    assert (result.final_output, model.answers()[1], desk.replies()) == ("done", FAILED, [])


async def test_a02_in_one_turn_a_call_whose_check_fails_leaves_the_others_alone() -> None:
    async def guard(data: Any) -> ToolGuardrailFunctionOutput:
        if OTHER in data.context.tool_arguments:
            await until(desk.replies)
            raising()
        return ToolGuardrailFunctionOutput.allow()

    turn = [reply(), reply(OTHER)]
    desk = Desk()
    with pytest.raises(AgentsException):
        await play(desk_agent(desk, Scripted([turn]), tools=first_guarded(desk, guard)))
    assert len(desk.replies()) == 1  # and the model is never told

    desk = Desk().prepared()
    acheck = desk.gate.acheck

    async def fails(session_id: Any, tool: Any, arguments: Any, **more: Any) -> Any:
        return raising() if arguments["ticket_id"] == OTHER else await acheck(session_id, tool, arguments, **more)

    vars(desk.gate).update(acheck=fails)
    result = await play(install(desk_agent(desk, model := Scripted([turn])), desk.gate))
    assert model.answers() == [f"sent on {TICKET}", FAILED]
    assert result.final_output == "done"


async def test_a05_the_calls_of_one_turn_run_at_once() -> None:
    """So a decision may be there before the act beside it asks; the contract's row of A5 closes that."""
    desk, both = Desk(), asyncio.Barrier(2)

    async def meet(_: Any) -> ToolGuardrailFunctionOutput:
        async with asyncio.timeout(60):
            await both.wait()
        return ToolGuardrailFunctionOutput.allow()

    agent = desk_agent(desk, Scripted([[reply(), reply(OTHER)]]), tools=first_guarded(desk, meet))
    await play(agent)
    assert len(desk.replies()) == 2


# Results


@pytest.mark.parametrize("how", ["fails", "malformed", "late", "rejected"])
async def test_a04_what_an_output_guardrail_sees_is_not_what_the_tool_gave(how: str) -> None:
    async def slow(entity_id: str) -> dict[str, Any]:
        """Ask for a decision."""
        found = desk.get_job_decision(entity_id)
        await asyncio.sleep(0.5 if how == "late" else 0)
        return found

    async def observe(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(data.output)
        return ToolGuardrailFunctionOutput.allow()

    def tool() -> FunctionTool:
        made = function_tool(slow, name_override=DECIDE, **({"timeout": 0.05} if how == "late" else {}))
        rejects = ToolOutputGuardrail(lambda _: ToolGuardrailFunctionOutput.reject_content("hidden"), name="rejects")
        made.tool_output_guardrails = [*([rejects] if how == "rejected" else ()), ToolOutputGuardrail(observe)]
        return made

    def agent() -> Agent[Any]:
        calls = [[ToolCall(DECIDE, "{bad") if how == "malformed" else decide()], [reply()]]
        tools = tools_of(desk)
        return desk_agent(desk, Scripted(calls), tools=[tools[0], tool(), *tools[2:]])

    desk, seen = Desk(decide_fails=how == "fails"), list[Any]()
    await play(agent())
    assert [type(output) for output in seen] == ([] if how == "rejected" else [str])  # text, and no mark of an error

    desk = Desk(decide_fails=how == "fails")
    await play(install(agent(), desk.gate))
    code = desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code
    assert (code == "case_not_decided") is (how != "rejected")
    assert desk.replies() == []


# Approvals, names, and what is no function tool


@pytest.mark.parametrize("before", [False, True])
async def test_the_gate_is_asked_after_the_approval_unless_the_sdk_is_told_to_ask_before_as_well(before: bool) -> None:
    async def always(*_: Any) -> bool:
        return True

    asked: list[str] = []
    desk = Desk(options={"on_verdict": lambda tool, _: asked.append(tool)}).prepared()
    tools = [function_tool(desk.helpdesk_reply, needs_approval=always), *tools_of(desk)[1:]]
    agent = install(desk_agent(desk, model := Scripted([[reply()]]), tools=tools), desk.gate)
    execution = ToolExecutionConfig(pre_approval_tool_input_guardrails=before)
    config = RunConfig(group_id=SESSION, tool_execution=execution)
    result = await Runner.run(agent, "Hello", run_config=config)
    assert asked == [REPLY] * before
    state = result.to_state()
    state.approve(result.interruptions[0])
    await Runner.run(agent, state, run_config=config)
    assert asked == [REPLY] * (1 + before)
    assert (model.answers(), len(desk.replies())) == ([f"sent on {TICKET}"], 1)


async def test_a_call_of_an_unknown_tool_ends_the_run_with_and_without_the_adapter() -> None:
    for installed in (False, True):
        desk = Desk()
        agent = desk_agent(desk, Scripted([[ToolCall("helpdesk_replies", {"ticket_id": TICKET, "body": BODY})]]))
        with pytest.raises(ModelBehaviorError):
            await play(install(agent, desk.gate) if installed else agent)
        assert desk.ran == []


async def test_a08_a_custom_tool_has_no_place_for_a_guardrail_and_runs() -> None:
    desk = Desk()

    async def send(context: Any, text: str) -> str:
        return desk.helpdesk_reply(OTHER, text)

    class Calls(Scripted):
        def _next(self, items: Any) -> ModelResponse:
            response = super()._next(items)
            if not self.asked:
                self.asked.append("c")
                call = ResponseCustomToolCall(type="custom_tool_call", call_id="c", name="send", input="Hello")
                response.output[:] = [call]
            return response

    custom = CustomTool(name="send", description="Sends.", on_invoke_tool=send)
    await play(Agent(name="desk", model=Calls([]), tools=[custom]))
    assert len(desk.replies()) == 1


@pytest.mark.parametrize(
    "tool",
    [
        CustomTool(name="send", description="Sends.", on_invoke_tool=raising),
        ShellTool(executor=raising),
        LocalShellTool(executor=raising),
        ApplyPatchTool(editor=Any),
        ComputerTool(computer=raising),
        WebSearchTool(),
        FileSearchTool(vector_store_ids=["v"]),
        CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": "c"}),
        ImageGenerationTool(tool_config={"type": "image_generation"}),
        HostedMCPTool(tool_config={"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"}),
        ToolSearchTool(),
    ],
    ids=lambda tool: type(tool).__name__,
)
def test_a08_tools_that_are_no_function_tools_are_refused_until_they_are_accepted(tool: Any) -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=f"not covered .*: {tool.name}"):
        install(desk_agent(desk, tools=[*tools_of(desk), tool]), desk.gate)
    install(desk_agent(desk, tools=[*tools_of(desk), tool]), desk.gate, accept=[tool.name])


async def test_a06_a_session_of_the_sdk_can_not_be_seen_and_does_not_count() -> None:
    desk = Desk().prepared()
    agent = install(desk_agent(desk, model := Scripted([[reply()]])), desk.gate)
    await Runner.run(agent, "Hello", session=SQLiteSession(SESSION))
    assert "session" in model.answers()[0]
    assert desk.replies() == []


# What runs is what was checked


async def test_a03_what_a_hook_rewrites_after_the_guardrails_is_checked_as_it_runs() -> None:
    class Rewrites(AgentHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            context.tool_call.arguments = as_json({"ticket_id": OTHER, "body": BODY})

    for installed in (False, True):
        desk = Desk().prepared()
        agent = desk_agent(desk, model := Scripted([[reply()]]), hooks=Rewrites())
        if installed:
            install(agent, desk.gate)
        await play(agent)
        assert desk.replies() == ([] if installed else [{"ticket_id": OTHER, "body": BODY}])
    assert model.answers() == [desk.denial(ticket_id=OTHER, body=BODY)]


class Refunds:
    """A tool with what the SDK coerces and fills in: a number, and a default."""

    def __init__(self, **rule: Any) -> None:
        self.ran: list[tuple[Any, ...]] = []
        self.authority = FakeAuthority()
        self.gate = create_action_gate(
            job=self.authority.job,
            tools={"refund": {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, **rule}},
            verify=self.authority,
            describe=self.authority,
            clock=self.authority.clock,
        )
        self.gate.decisions.record(SESSION, result=self.authority.decide(TICKET))

    def refund(self, ticket_id: str, amount: int, public: bool = True) -> str:
        """Refund."""
        self.ran.append((ticket_id, amount, public))
        return "refunded"

    async def call(self, *, installed: bool = True, approval: Any = False, **arguments: Any) -> str:
        model = Scripted([[ToolCall("refund", {"ticket_id": TICKET, **arguments})]])
        agent = Agent(name="desk", model=model, tools=[function_tool(self.refund, needs_approval=approval)])
        result = await play(install(agent, self.gate) if installed else agent)
        return "approval" if result.interruptions else model.answers()[0]


@pytest.mark.parametrize("amount", ["500", 500.0, True])
async def test_a03_arguments_that_the_sdk_would_change_are_sent_back(amount: Any) -> None:
    refunds = Refunds(fields=["ticket_id", "amount", "public"])
    assert await refunds.call(installed=False, amount=amount, public=False) == "refunded"
    assert refunds.ran == [(TICKET, 1 if amount is True else 500, False)]
    assert await refunds.call(amount=amount, public=False) == MISFIT
    assert len(refunds.ran) == 1
    assert await refunds.call(amount=500, public=False) == "refunded"


async def test_a03_defaults_that_the_sdk_fills_in_are_checked() -> None:
    refunds = Refunds(fields=["ticket_id", "amount"], fixed={"public": False})
    assert await refunds.call(installed=False, amount=500) == "refunded"
    assert refunds.ran.pop() == (TICKET, 500, True)
    assert "public" in await refunds.call(amount=500)
    assert refunds.ran == []
    assert await refunds.call(amount=500, public=False) == "refunded"


async def test_a03_an_argument_that_the_sdk_would_drop_is_denied() -> None:
    refunds = Refunds(fields=["ticket_id", "amount", "public"])
    assert await refunds.call(installed=False, amount=500, public=False, currency="JPY") == "refunded"
    assert "currency" in await refunds.call(amount=500, public=False, currency="JPY")
    assert len(refunds.ran) == 1


async def test_a03_repeated_keys_never_run() -> None:
    desk = Desk().prepared()
    text = f'{{"ticket_id": "{OTHER}", "body": "{BODY}", "ticket_id": "{TICKET}"}}'
    await play(desk_agent(desk, Scripted([[ToolCall(REPLY, text)]])))
    assert len(desk.replies()) == 1
    await play(install(desk_agent(desk, Scripted([[ToolCall(REPLY, text)]])), desk.gate))
    assert len(desk.replies()) == 1


# Approvals


async def test_an_approval_that_depends_on_the_call_is_still_asked_for() -> None:
    """The SDK asks for one when a default must be filled in, but only of its own invoker."""

    async def never(*_: Any) -> bool:
        return False

    refunds = Refunds(fields=["ticket_id", "amount", "public"])
    bare = await refunds.call(installed=False, approval=never, amount=500)
    assert bare == "approval" or refunds.ran.pop()  # older versions don't ask
    wrapped = function_tool(refunds.refund, needs_approval=never)
    inner = wrapped.on_invoke_tool

    async def wrapper(context: ToolContext[Any], raw: str) -> Any:
        return await inner(context, raw)

    wrapped.on_invoke_tool = wrapper  # a wrapper of one's own: nobody is asked any more
    model = Scripted([[ToolCall("refund", {"ticket_id": TICKET, "amount": 500})]])
    await play(Agent(name="desk", model=model, tools=[wrapped]))
    assert refunds.ran.pop() == (TICKET, 500, True)
    assert await refunds.call(approval=never, amount=500) == bare
    assert await refunds.call(approval=never, amount=500, public=False) == "refunded"
    refunds.authority.clock.advance(days=2)
    assert (await refunds.call(approval=never, amount=500, public=False)).startswith("Denied, nothing was done")


def test_an_approval_that_depends_on_the_call_is_refused_where_results_are_recorded() -> None:
    async def never(*_: Any) -> bool:
        return False

    desk = Desk()
    tools = [function_tool(body, needs_approval=never) for body in desk.bodies]
    with pytest.raises(ConfigurationError, match="needs_approval"):
        install(desk_agent(desk, tools=tools), desk.gate)


async def test_a05_a_decision_of_the_turn_that_waited_for_an_approval_does_not_count() -> None:
    desk = Desk().prepared()
    tools = [function_tool(desk.helpdesk_reply, needs_approval=True), *tools_of(desk)[1:]]
    model = Scripted([[decide("HC-1300"), reply("HC-1300")], [reply()]])
    agent = install(desk_agent(desk, model, tools=tools), desk.gate)
    result = await play(agent)
    for _ in range(2):
        state = await RunState.from_string(agent, result.to_state().to_string())  # as after a night in a database
        for item in result.interruptions:
            state.approve(item)
        result = await Runner.run(agent, state, run_config=RunConfig(group_id=SESSION))
    assert "no decision" in model.answers()[1]
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


# Agents behind agents


def behind(desk: Desk, turns: Sequence[Sequence[ToolCall]]) -> tuple[Agent[Any], Scripted]:
    model = Scripted(turns)
    return desk_agent(desk, model, name="second"), model


class Watches(RunHooks[Any]):
    def __init__(self, started: list[str]) -> None:
        self.started = started

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.started.append(tool.name)


async def test_a08_the_agent_that_is_handed_over_to_is_gated() -> None:
    for installed in (False, True):
        for wrapped in (False, True):
            desk = Desk()
            second, model = behind(desk, [[reply()]])
            to_second = handoff(second)
            first = Scripted([[ToolCall(to_second.tool_name, {})]])
            agent = Agent(name="first", model=first, handoffs=[to_second if wrapped else second])
            if installed:
                install(agent, desk.gate)
            await play(agent)
            assert len(desk.replies()) == (0 if installed else 1)
            assert not installed or "no decision" in model.answers()[0]


async def test_a08_an_agent_as_a_tool_is_gated_and_shares_the_session() -> None:
    for installed in (False, True):
        desk = Desk().prepared()
        second, model = behind(desk, [[reply(OTHER)], [reply()]])
        first = Scripted([[ToolCall("ask", {"input": "reply"})]])
        agent = Agent(name="first", model=first, tools=[second.as_tool("ask", "Asks.")])
        if installed:
            install(agent, desk.gate)
        started: list[str] = []
        result = await play(agent, hooks=Watches(started))
        assert started == ["ask"]  # hooks of the run don't reach what runs inside
        assert result.final_output == "done"
        assert len(desk.replies()) == (1 if installed else 2)
    assert model.answers()[0] == desk.denial(ticket_id=OTHER, body=BODY)


async def test_a05_what_an_agent_as_a_tool_decides_does_not_count_for_a_call_beside_it() -> None:
    desk = Desk().prepared()
    second, _ = behind(desk, [[decide("HC-1300")], []])
    beside, other = function_tool(desk.helpdesk_reply), {"ticket_id": "HC-1300", "body": BODY}

    async def wait(_: Any) -> ToolGuardrailFunctionOutput:
        # The agent beside it has decided, and that is on record
        await until(lambda: desk.gate.preview(SESSION, REPLY, other).code != "case_not_decided")
        return ToolGuardrailFunctionOutput.allow()

    beside.tool_input_guardrails = [ToolInputGuardrail(wait)]
    model = Scripted([[ToolCall("ask", {"input": "decide"}), reply("HC-1300")], [reply("HC-1300")]])
    agent = Agent(name="first", model=model, tools=[second.as_tool("ask", "Asks."), beside])
    await play(install(agent, desk.gate))
    assert "no decision" in model.answers()[1]
    assert "no output check" in model.answers()[2]


async def test_a05_turns_of_two_runs_are_told_apart_where_a_model_numbers_its_calls_anew() -> None:
    desk, others = Desk().prepared(), Scripted([[ToolCall(LOOK, {"ticket_id": TICKET})]])
    model = Scripted([[reply("HC-1300"), decide("HC-1300")], [reply("HC-1300")]])
    late = function_tool(desk.helpdesk_reply)

    async def wait(_: Any) -> ToolGuardrailFunctionOutput:
        await play(others_agent, session="chat-8")  # another run, whose call has the id of this one
        return ToolGuardrailFunctionOutput.allow()

    late.tool_input_guardrails = [ToolInputGuardrail(wait)]
    agent = install(desk_agent(desk, model, tools=[late, *tools_of(desk)[1:]]), desk.gate)
    others_agent = install(desk_agent(desk, others), desk.gate)
    for scripted in (model, others):
        scripted.ids = itertools.count(1)
    await play(agent)
    assert "no decision" in model.answers()[0]


async def test_a08_a_clone_is_gated_whether_it_was_made_before_or_after() -> None:
    desk = Desk()
    agent = desk_agent(desk)
    clones = [agent.clone(model=Scripted([[reply()]]))]
    agent.tools = [*first_guarded(desk, lambda _: ToolGuardrailFunctionOutput.reject_content("no"))]
    await play(clones[0])  # a list of one's own doesn't reach an earlier clone
    assert len(desk.replies()) == 1
    desk.ran.clear()
    agent = desk_agent(desk)
    clones = [agent.clone(model=Scripted([[reply()]]))]
    install(agent, desk.gate)
    for clone in [*clones, agent.clone(model=Scripted([[reply()]]))]:
        await play(clone)
    assert desk.replies() == []


async def test_a_second_installation_checks_no_call_twice() -> None:
    seen: list[str] = []
    desk = Desk(options={"on_verdict": lambda tool, _: seen.append(tool)}).prepared()
    agent = desk_agent(desk, Scripted([[reply()]]))
    await play(install(install(agent, desk.gate), desk.gate))
    assert seen == [REPLY]
    assert len(desk.replies()) == 1


# What can't be covered is refused


def test_a08_gaps_are_refused_and_named() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match="no tool here is called check_output, get_job_decision"):
        install(desk_agent(desk, tools=tools_of(desk)[:1]), desk.gate)
    unseen = handoff(Agent(name="gone"))
    unseen._agent_ref = None
    with pytest.raises(ConfigurationError, match="transfer_to_gone"):
        install(desk_agent(desk, handoffs=[unseen]), desk.gate)
    with pytest.raises(ConfigurationError, match=r"an agents\.Agent is needed"):
        install("agent", desk.gate)


def test_a08_a_sandbox_s_tools_are_refused() -> None:
    from agents.sandbox import SandboxAgent

    desk = Desk()
    with pytest.raises(ConfigurationError, match="not covered"):
        install(SandboxAgent(name="box", tools=tools_of(desk)), desk.gate)


async def test_a_denial_that_would_be_the_final_output_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk().prepared()
    agent = desk_agent(desk, Scripted([[reply(OTHER)], [reply()]]), tool_use_behavior="stop_on_first_tool")
    result = await play(install(agent, desk.gate))
    assert result.final_output == desk.denial(ticket_id=OTHER, body=BODY)
    assert "final output" in caplog.text


def test_the_function_behind_a_guarded_tool_can_t_be_called_past_the_gate() -> None:
    desk = Desk()
    bare = tools_of(desk)[0]
    if hasattr(FunctionTool, "__wrapped__"):  # older versions don't show it
        assert bare.__wrapped__(TICKET, BODY) == f"sent on {TICKET}"
    tool = install(desk_agent(desk), desk.gate).tools[0]
    assert not hasattr(tool, "__wrapped__")


# Session


async def test_a06_session_resolver_reads_the_tool_context_and_the_gate_s_own_session_comes_last() -> None:
    desk = Desk().prepared()
    agent = desk_agent(desk, Scripted([[reply()]]))
    install(agent, desk.gate, session=lambda ctx: ctx.context["chat"])
    await Runner.run(agent, "Hello", context={"chat": SESSION})
    other = install(desk_agent(desk, Scripted([[reply()]])), desk.gate)
    with desk.gate.session(SESSION):
        await Runner.run(other, "Hello")
    assert len(desk.replies()) == 2


async def test_a02_a_cancelled_run_is_cancelled() -> None:
    desk, reached = Desk().prepared(), asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        reached.set()
        await asyncio.sleep(60)

    vars(desk.gate).update(acheck=hang)
    task = asyncio.create_task(play(install(desk_agent(desk, Scripted([[reply()]])), desk.gate)))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


async def test_a_tool_s_own_time_limit_ends_a_check_and_nothing_runs() -> None:
    desk = Desk().prepared()

    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(60)

    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Reply."""
        return desk.helpdesk_reply(ticket_id, body)

    async def slow(_: Any) -> ToolGuardrailFunctionOutput:
        await asyncio.sleep(0.2)
        return ToolGuardrailFunctionOutput.allow()

    tools = [function_tool(helpdesk_reply, timeout=0.05), *tools_of(desk)[1:]]
    tools[0].tool_input_guardrails = [ToolInputGuardrail(slow)]
    await play(desk_agent(desk, Scripted([[reply()]]), tools=tools))
    assert len(desk.replies()) == 1  # it is for the body alone: a guardrail that hangs, hangs
    desk.ran.clear()

    vars(desk.gate).update(acheck=hang)
    tools = [function_tool(helpdesk_reply, timeout=0.05), *tools_of(desk)[1:]]
    agent = install(desk_agent(desk, model := Scripted([[reply()]]), tools=tools), desk.gate)
    await play(agent)
    assert "timed out" in model.answers()[0]
    assert desk.replies() == []


async def test_observe_mode_runs_what_would_be_denied() -> None:
    desk = Desk(options={"mode": "observe"})
    await play(install(desk_agent(desk, Scripted([[reply(attachment="x"), reply()]])), desk.gate))
    assert len(desk.replies()) == 2


async def test_a07_unlisted_tools_are_denied_where_the_gate_says_so() -> None:
    desk = Desk(options={"unlisted": "deny"})
    await play(install(desk_agent(desk, model := Scripted([[ToolCall(LOOK, {"ticket_id": TICKET})]])), desk.gate))
    assert desk.ran == []
    assert model.answers()[0].startswith("Denied, nothing was done")


# MCP servers


class DeskServer(MCPServer):
    """An MCP server in this process with the desk's tools: the SDK's own way from a model's call to `call_tool`."""

    def __init__(self, desk: Desk, *, structured: bool = True) -> None:
        super().__init__(use_structured_content=structured)
        self.desk, self.structured, self.fails = desk, structured, False

    @property
    def name(self) -> str:
        return "desk srv"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_prompts(self) -> Any: ...

    async def get_prompt(self, name: str, arguments: Any = None) -> Any: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        schema = {"type": "object", "properties": {}}
        return [Tool.model_validate({"name": body.__name__, "inputSchema": schema}) for body in self.desk.bodies]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        result = getattr(self.desk, tool_name)(**(arguments or {}))
        text = result if isinstance(result, str) else json.dumps(result)
        fields: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": self.fails}
        if self.structured and isinstance(result, dict):
            fields["structuredContent"] = result
        return CallToolResult.model_validate(fields)


async def on_server(desk: Desk, *calls: ToolCall, installed: bool = True, **changes: Any) -> tuple[Scripted, Any]:
    prefix = "mcp_desk_srv__" if "mcp_config" in changes else ""
    model = Scripted([[ToolCall(prefix + call.name, call.arguments)] for call in calls])
    server = DeskServer(desk, structured=changes.pop("structured", True))
    server.fails = changes.pop("fails", False)
    agent = Agent(name="desk", model=model, mcp_servers=[server], **changes)
    if installed:
        await ainstall(agent, desk.gate)
    await play(agent)
    return model, server


async def test_mcp_without_the_adapter_the_tools_of_a_server_run() -> None:
    desk = Desk()
    await on_server(desk, reply(), installed=False)
    assert len(desk.replies()) == 1


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("changes", [{}, {"mcp_config": {"include_server_in_tool_names": True}}])
async def test_mcp_calls_are_gated_and_results_recorded_by_any_name(changes: Any, structured: bool) -> None:
    desk = Desk()
    model, _ = await on_server(
        desk, reply(), decide(), reply(), check(), reply(), reply(extra="x"), structured=structured, **changes
    )
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert "no decision" in model.answers()[0]
    assert "no output check" in model.answers()[2]
    assert f"sent on {TICKET}" in model.answers()[4]
    assert model.answers()[5] == desk.denial(ticket_id=TICKET, body=BODY, extra="x")


async def test_mcp_a_result_that_is_an_error_is_not_recorded() -> None:
    seen: list[Any] = []

    async def observe(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(data.output)
        return ToolGuardrailFunctionOutput.allow()

    bare = Desk()
    for fails in (False, True):
        server = DeskServer(bare, structured=False)
        server.fails, server.tool_output_guardrails = fails, [ToolOutputGuardrail(observe)]
        await play(Agent(name="desk", model=Scripted([[ToolCall(LOOK, {"ticket_id": TICKET})]]), mcp_servers=[server]))
    assert seen[:1] == seen[1:]  # an error looks like a result; older versions show neither

    desk = Desk()
    await on_server(desk, decide(), reply(), fails=True)
    assert desk.replies() == []
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code == "case_not_decided"


async def test_mcp_a_name_that_the_sdk_shortens_and_hashes_is_still_the_tool_s() -> None:
    class Long(DeskServer):
        name = "s" * 70

    class Reads(Scripted):
        """Calls the first tool by the name that it is offered under."""

        async def get_response(self, system_instructions: Any, input: Any, *rest: Any, **more: Any) -> ModelResponse:
            offered.append((more["tools"] if "tools" in more else rest[1])[0].name)
            self.turns = [[ToolCall(offered[0], turn[0].arguments) for turn in self.turns]] if self.turns else []
            return self._next(input)

    for installed in (False, True):
        desk, offered = Desk().prepared(), list[str]()
        agent = Agent(name="desk", model=(model := Reads([[reply(OTHER)]])), mcp_servers=[Long(desk)])
        agent.mcp_config = {"include_server_in_tool_names": True}
        if installed:
            await ainstall(agent, desk.gate)
        await play(agent)
        assert REPLY not in offered[0]
        assert len(desk.replies()) == (0 if installed else 1)
    assert model.answers() == [desk.denial(ticket_id=OTHER, body=BODY)]


async def test_mcp_a_call_past_the_agent_is_gated_by_the_session_around_it() -> None:
    desk = Desk().prepared()
    server = DeskServer(desk)
    await ainstall(Agent(name="desk", mcp_servers=[server]), desk.gate)
    arguments = {"ticket_id": TICKET, "body": BODY}
    assert "session" in (await server.call_tool(REPLY, arguments)).content[0].text
    with desk.gate.session(SESSION):
        assert "sent" in (await server.call_tool(REPLY, arguments)).content[0].text
    assert len(desk.replies()) == 1


async def test_mcp_the_user_s_own_meta_goes_on_being_sent_and_a_second_installation_checks_once() -> None:
    seen: list[Any] = []
    desk = Desk(options={"on_verdict": lambda tool, _: seen.append(tool)}).prepared()
    server = DeskServer(desk)
    inner = server.call_tool

    async def call_tool(tool_name: str, arguments: Any, meta: Any = None) -> Any:
        seen.append(meta)
        return await inner(tool_name, arguments, meta)

    server.call_tool = call_tool  # type: ignore[method-assign]
    server.tool_meta_resolver = lambda context: {"trace": context.tool_name}
    agent = Agent(name="desk", model=Scripted([[reply()]]), mcp_servers=[server])
    for _ in range(2):
        await ainstall(agent, desk.gate)
    await play(agent)
    assert seen == [REPLY, {"trace": REPLY}]


def test_a08_servers_can_only_be_asked_for_their_tools_in_an_event_loop() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match="no tool here is called"):
        install(Agent(name="desk", mcp_servers=[DeskServer(desk)]), desk.gate)


# The example, the page, the cost


def test_the_example_runs() -> None:
    said = run_example("openai_agents").splitlines()
    assert said[0] == "sent on HC-1201: Hello, line 3 is the service fee."
    assert said[1].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert said[2:] == ["told: sent"]


def test_the_page_s_code_runs() -> None:
    assert run_page("openai-agents.md")["chat"].group_id == "chat-7"


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[openai-agents]'" in import_without("agents", "openai_agents")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()

    async def helpdesk_reply(ticket_id: str, body: str) -> str:  # a plain function would be timed with its thread
        """Reply."""
        return desk.helpdesk_reply(ticket_id, body)

    bare = function_tool(helpdesk_reply)
    guarded = install(desk_agent(desk, tools=[bare, *tools_of(desk)[1:]]), desk.gate).tools[0]
    assert isinstance(guarded, FunctionTool)
    raw = as_json({"ticket_id": TICKET, "body": BODY})
    context: Any = ToolContext(
        context=None, tool_name=REPLY, tool_call_id="c", tool_arguments=raw, run_config=RunConfig(group_id=SESSION)
    )
    found = await cost(desk, lambda: guarded.on_invoke_tool(context, raw), lambda: bare.on_invoke_tool(context, raw))
    print(f"openai_agents: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
