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
    FunctionTool,
    ItemHelpers,
    ModelResponse,
    RunConfig,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrail,
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
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from adapters.around import cost, import_without, run_example, run_page
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


# A guardrail is easily written so that the tool runs


@pytest.mark.parametrize(
    "output",
    [
        ToolGuardrailFunctionOutput.reject_content(None),
        ToolGuardrailFunctionOutput(output_info="DENY"),
        ToolGuardrailFunctionOutput(output_info=None, behavior={"type": "deny"}),
    ],
)
async def test_a_guardrail_that_fails_open_is_not_what_guards(output: Any) -> None:
    for installed in (False, True):
        desk = Desk()
        tool = function_tool(desk.helpdesk_reply)
        tool.tool_input_guardrails = [ToolInputGuardrail(lambda _: output, name="home-made")]
        agent = desk_agent(desk, Scripted([[reply()]]), tools=[tool, *tools_of(desk)[1:]])
        if installed:
            install(agent, desk.gate)
        await play(agent)
        assert len(desk.replies()) == (0 if installed else 1)


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
    assert "public" in await refunds.call(amount=500)
    assert refunds.ran == []
    assert await refunds.call(amount=500, public=False) == "refunded"


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
        result = await play(agent)
        assert result.final_output == "done"
        assert len(desk.replies()) == (1 if installed else 2)
    assert model.answers()[0] == desk.denial(ticket_id=OTHER, body=BODY)


async def test_a05_what_an_agent_as_a_tool_decides_does_not_count_for_a_call_beside_it() -> None:
    desk = Desk().prepared()
    second, _ = behind(desk, [[decide("HC-1300")], []])
    beside = function_tool(desk.helpdesk_reply)

    async def wait(_: Any) -> ToolGuardrailFunctionOutput:
        await asyncio.sleep(0.5)  # until the agent beside it has decided
        assert desk.ran
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
    with pytest.raises(ConfigurationError, match="web_search"):
        install(desk_agent(desk, tools=[*tools_of(desk), WebSearchTool()]), desk.gate)
    install(desk_agent(desk, tools=[*tools_of(desk), WebSearchTool()]), desk.gate, accept=[WebSearchTool().name])
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


def test_a_denial_that_would_be_the_final_output_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    install(desk_agent(desk, tool_use_behavior="stop_on_first_tool"), desk.gate)
    assert "final output" in caplog.text


def test_the_function_behind_a_guarded_tool_can_t_be_called_past_the_gate() -> None:
    desk = Desk()
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

    async def hang(*_: Any) -> Any:
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

    async def hang(*_: Any) -> Any:
        await asyncio.sleep(60)

    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Reply."""
        return desk.helpdesk_reply(ticket_id, body)

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
    desk = Desk()
    await on_server(desk, decide(), reply(), fails=True)
    assert desk.replies() == []
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code == "case_not_decided"


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
    bare = function_tool(desk.helpdesk_reply)
    guarded = install(desk_agent(desk), desk.gate).tools[0]
    assert isinstance(guarded, FunctionTool)
    raw = as_json({"ticket_id": TICKET, "body": BODY})
    context: Any = ToolContext(
        context=None, tool_name=REPLY, tool_call_id="c", tool_arguments=raw, run_config=RunConfig(group_id=SESSION)
    )
    found = await cost(desk, lambda: guarded.on_invoke_tool(context, raw), lambda: bare.on_invoke_tool(context, raw))
    print(f"openai_agents: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
    assert found < 3
