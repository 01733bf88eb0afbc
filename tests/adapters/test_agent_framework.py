"""Microsoft Agent Framework: the contract in the real runtime, and a row for every trap that its facts name."""

import asyncio
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():  # what its dependencies warn of while they are imported
    warnings.simplefilter("ignore")
    pytest.importorskip("agent_framework", reason="runs in its own environment: make test-runtimes")

import agent_framework
from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    function_middleware,
    tool,
)

from adapters.around import (
    FAILURES,
    HANGS,
    answering,
    broken,
    canned_server,
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
    OTHER,
    REPLY,
    SESSION,
    TICKET,
    Contract,
    Desk,
    Harness,
    ToolCall,
    Transcript,
    reply,
)
from preaction import ConfigurationError, denial_text
from preaction.adapters._bridge import FAILED
from preaction.adapters.agent_framework import install

pytestmark = pytest.mark.filterwarnings("ignore")  # the runtime's own

Turns = Sequence[Sequence[ToolCall]]


class Model(BaseChatClient):
    """A model that makes the calls of its script, one turn after the other, then says `done`."""

    def __init__(self, *, turns: Turns, **more: Any) -> None:
        super().__init__(**more)
        self.turns = list(turns)
        self.told: list[Any] = []
        self.asked = 0

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        self.told += [content.result for content in messages[-1].contents if content.type == "function_result"]
        self.asked += 1
        contents = [Content.from_text("done")]
        if self.asked <= len(self.turns):
            contents = [
                Content.from_function_call(
                    call_id=f"call-{self.asked}-{number}",
                    name=call.name,
                    arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
                )
                for number, call in enumerate(self.turns[self.asked - 1])
            ]

        async def updates() -> Any:
            yield ChatResponseUpdate(role="assistant", contents=contents)

        async def response() -> ChatResponse:
            return ChatResponse(messages=[Message(role="assistant", contents=contents)])

        return self._build_response_stream(updates()) if stream else response()


class Script(FunctionInvocationLayer, ChatMiddlewareLayer, Model):
    pass


def agent_of(tools: Sequence[Any], turns: Turns, **more: Any) -> Agent:
    return Agent(client=Script(turns=turns), name=more.pop("name", "desk"), tools=list(tools), **more)


def told(agent: Agent) -> list[str]:
    return [str(one) for one in agent.client.told]


async def play(agent: Agent, *, session: str | None = SESSION, stream: bool = False, **more: Any) -> bool:
    """Run it; whether it came to its final answer."""
    kept = None if session is None else agent.create_session(session_id=session)
    if not stream:
        return (await agent.run("hi", session=kept, **more)).text == "done"
    said = [update.text async for update in agent.run("hi", session=kept, stream=True, **more)]
    return said[-1] == "done"


class AgentFrameworkHarness(Harness):
    modes = ("async", "stream")

    def run(self, desk: Desk, turns: Turns, *, mode: str, session: str | None = SESSION) -> Transcript:
        agent = agent_of(desk.bodies, turns)
        install(agent, desk.gate)
        ended = asyncio.run(play(agent, session=session, stream=mode == "stream"))
        return Transcript(told(agent), ended)


class TestContract(Contract):
    harness = AgentFrameworkHarness()


# Traps: each is open in the bare runtime, or for a gate in middleware, and closed here -------------------------------


def hook_gate(desk: Desk) -> Any:
    """A gate as one would write it: it asks before the tool, and records what comes out of `call_next`."""

    @function_middleware
    async def gate(context: FunctionInvocationContext, call_next: Any) -> None:
        name, session = context.function.name, context.session.session_id
        verdict = await desk.gate.acheck(session, name, context.arguments)
        if verdict.blocks:
            context.result = denial_text(verdict)
            return
        await call_next()
        if desk.gate.records(name):
            said = context.result if isinstance(context.result, str) else context.result[0].text
            desk.gate.record_result(session, name, None, said)

    return gate


@pytest.mark.parametrize(
    ("what", "ended", "told_of_it"),
    [
        ("raises", "ended", ["Error: Function failed."]),  # not why, and it counts as an error: see below
        ("hangs", HANGS, []),
        ("none", "ended", [""]),
        ("text", "ended", [""]),  # what middleware returns is ignored
        ("false", "ended", [""]),
    ],
)
async def test_what_middleware_does_wrong_says_nothing_or_hangs_and_a_gate_that_does_it_denies(
    what: str, ended: str, told_of_it: list[str]
) -> None:
    bare = Desk()
    agent = agent_of(bare.bodies, [[reply()]])
    wrong = function_middleware(answering(FAILURES[what]))
    assert await how_it_ends(play(agent, middleware=[wrong]), hangs=FAILURES[what] is HANGS) == ended
    assert told(agent) == told_of_it
    assert bare.replies() == []

    desk = broken(Desk().prepared(), FAILURES[what])
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    assert await play(agent)
    assert told(agent) == [FAILED]
    assert desk.replies() == []


@pytest.mark.parametrize("signal", ["MiddlewareTermination", "MiddlewareFailure"])
async def test_the_framework_s_own_signals_end_the_run(signal: str) -> None:
    kind = getattr(agent_framework, signal, None)
    if kind is None:
        pytest.skip("this version has no such signal")
    bare = Desk()
    stops = function_middleware(answering(kind("denied")))
    assert await how_it_ends(play(agent_of(bare.bodies, [[reply()]]), middleware=[stops])) != "ended"
    assert bare.replies() == []


async def test_a_denial_that_raises_ends_function_calling_and_one_that_is_a_result_does_not() -> None:
    if not hasattr(agent_framework, "MiddlewareFailure"):
        pytest.skip("this version counts no errors")
    bare = Desk()
    agent = agent_of(bare.bodies, [[reply(OTHER)]] * 6)
    raises = function_middleware(answering(FAILURES["raises"]))
    assert await how_it_ends(play(agent, middleware=[raises])) == "stopped"
    assert agent.client.asked == 4

    desk = Desk()
    agent = agent_of(desk.bodies, [[reply(OTHER)]] * 6)
    install(agent, desk.gate)
    assert await play(agent)
    assert agent.client.asked == 7


async def test_after_a_tool_that_raised_middleware_does_not_go_on() -> None:
    seen: list[Any] = []

    @function_middleware
    async def after(context: FunctionInvocationContext, call_next: Any) -> None:
        await call_next()
        seen.append(context.result)

    bare = Desk(decide_fails=True)
    assert await play(agent_of(bare.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})]]), middleware=[after])
    assert [name for name, _ in bare.ran] == [DECIDE]
    assert seen == []


async def test_a_decision_of_the_same_turn_counts_for_a_gate_in_middleware() -> None:
    for gated in (False, True):
        desk = undecided()
        agent = agent_of(desk.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET}), reply()]])
        agent.client.function_invocation_configuration["allow_concurrent_invocation"] = False
        if gated:
            install(agent, desk.gate)
        await play(agent, middleware=[] if gated else [hook_gate(desk)])
        assert len(desk.replies()) == (0 if gated else 1), told(agent)


@function_middleware
async def to_another_ticket(context: FunctionInvocationContext, call_next: Any) -> None:
    if context.function.name == REPLY:
        context.arguments["ticket_id"] = OTHER
    await call_next()


@function_middleware
async def back_and_forth(context: FunctionInvocationContext, call_next: Any) -> None:
    """Changes the prepared arguments where they are, and shows the right ones."""
    if context.function.name == REPLY:
        shown = dict(context.arguments)
        context.arguments["ticket_id"] = OTHER
        context.arguments = shown
    await call_next()


async def test_middleware_that_rewrites_arguments_comes_before_the_gate() -> None:
    saw: list[Any] = []

    @function_middleware
    async def asked(context: FunctionInvocationContext, call_next: Any) -> None:
        saw.append(dict(context.arguments))
        await call_next()

    bare = Desk().prepared()
    await play(agent_of(bare.bodies, [[reply()]], middleware=[asked, to_another_ticket]))
    assert saw == [{"ticket_id": TICKET, "body": BODY}]
    assert bare.replies() == [{"ticket_id": OTHER, "body": BODY}]  # checked one, ran another

    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    await play(agent, middleware=[to_another_ticket])  # a run's middleware is inside the agent's
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


async def test_what_runs_is_what_was_checked_whatever_middleware_left_prepared() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    await play(agent, middleware=[back_and_forth])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


async def test_arguments_that_change_while_the_gate_checks_do_not_reach_the_body() -> None:
    for gated in (False, True):
        held: list[Any] = []

        @function_middleware
        async def hold(context: FunctionInvocationContext, call_next: Any, held: Any = held) -> None:
            held.append(context.arguments)
            await call_next()

        desk = changing(held)
        agent = agent_of(desk.bodies, [[reply()]])
        if gated:
            install(agent, desk.gate)
        await play(agent, middleware=[hold] if gated else [hold, hook_gate(desk)])
        assert desk.replies() == [{"ticket_id": TICKET if gated else OTHER, "body": BODY}]


async def test_a_name_that_comes_twice_is_checked_as_it_runs() -> None:
    text = f'{{"ticket_id": "{OTHER}", "ticket_id": "{TICKET}", "body": "{BODY}"}}'
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[ToolCall(REPLY, text)]])
    install(agent, desk.gate)
    await play(agent)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


async def test_a_decision_that_middleware_makes_up_is_not_recorded() -> None:
    desk = undecided()
    made_up = json.dumps(desk.authority.decide(TICKET))

    @function_middleware
    async def pretend(context: FunctionInvocationContext, call_next: Any) -> None:
        if context.function.name == DECIDE:
            context.result = made_up
        else:
            await call_next()

    agent = agent_of(desk.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    await play(agent, middleware=[hook_gate(desk), pretend])
    assert len(desk.replies()) == 1  # a gate outside of it took it for the tool's

    desk = Desk()
    made_up = json.dumps(desk.authority.decide(TICKET))
    agent = agent_of(desk.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    install(agent, desk.gate)
    await play(agent, middleware=[pretend])
    assert told(agent)[0] == made_up  # the model was shown it
    assert desk.ran == []
    assert "no decision" in told(agent)[1]


async def test_middleware_that_goes_on_twice_is_asked_about_twice() -> None:
    @function_middleware
    async def twice(context: FunctionInvocationContext, call_next: Any) -> None:
        await call_next()
        await call_next()

    bare = Desk().prepared()
    await play(agent_of(bare.bodies, [[reply()]], middleware=[twice]))
    assert len(bare.replies()) == 2

    seen: list[Any] = []
    desk = Desk(options={"on_verdict": lambda _, verdict: seen.append(verdict.allow)}).prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    await play(agent, middleware=[twice])
    assert len(desk.replies()) == len(seen) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_of_one_turn_that_run_one_after_the_other_are_one_batch_too(stream: bool) -> None:
    desk = Desk()
    decide, check = ToolCall(DECIDE, {"entity_id": TICKET}), ToolCall(CHECK, {"body": BODY})
    agent = agent_of(desk.bodies, [[decide, check, reply()], [reply()]])
    agent.client.function_invocation_configuration["allow_concurrent_invocation"] = False
    install(agent, desk.gate)
    await play(agent, stream=stream)
    assert "no decision" in told(agent)[2]
    assert len(desk.replies()) == 1


async def test_a_direct_invocation_is_gated_too() -> None:
    bare = Desk()
    await tool(bare.helpdesk_reply).invoke(arguments={"ticket_id": OTHER, "body": BODY})
    assert len(bare.replies()) == 1

    desk = Desk().prepared()
    reply_tool = tool(desk.helpdesk_reply)
    install(agent_of([reply_tool, *desk.bodies[1:]], []), desk.gate)
    ways: list[dict[str, Any]] = [
        {"arguments": {"ticket_id": TICKET, "body": BODY}},
        {"ticket_id": TICKET, "body": BODY},
        {"arguments": reply_tool.input_model(ticket_id=TICKET, body=BODY)},
    ]
    for way in ways:
        assert "session" in (await reply_tool.invoke(**way))[0].text
        with desk.gate.session(SESSION):
            assert (await reply_tool.invoke(**way))[0].text == f"sent on {TICKET}"
    assert len(desk.replies()) == len(ways)


async def test_defaults_that_the_model_does_not_send_are_checked_too() -> None:
    sent = []

    def helpdesk_reply(ticket_id: str, body: str, public: bool = True) -> str:
        sent.append(public)
        return "sent"

    desk = Desk().prepared()
    agent = agent_of([helpdesk_reply, *desk.bodies[1:]], [[reply()]])
    install(agent, desk.gate)
    await play(agent)
    assert sent == []
    assert "public" in told(agent)[0]


async def test_the_context_that_the_runtime_injects_is_no_argument() -> None:
    seen = []

    def helpdesk_reply(ticket_id: str, body: str, context: FunctionInvocationContext) -> str:
        seen.append(context.session.session_id)
        return "sent"

    desk = Desk().prepared()
    agent = agent_of([helpdesk_reply, *desk.bodies[1:]], [[reply()]])
    install(agent, desk.gate)
    await play(agent)
    assert seen == [SESSION]


async def test_a_guarded_tool_can_still_be_written_down() -> None:
    desk = Desk()
    guarded = tool(desk.helpdesk_reply)
    before = json.dumps(guarded.to_dict())
    install(agent_of([guarded, *desk.bodies[1:]], []), desk.gate)
    assert json.dumps(guarded.to_dict()) == before


# Agents below agents -------------------------------------------------------------------------------------------------


async def test_an_agent_as_a_tool_is_gated_and_belongs_to_the_session_that_calls_it() -> None:
    @function_middleware
    async def deny(context: FunctionInvocationContext, call_next: Any) -> None:
        if context.function.name == REPLY:
            context.result = "denied"
        else:
            await call_next()

    bare = Desk()
    child = agent_of(bare.bodies, [[reply()]], name="child", description="d")
    await play(agent_of([child.as_tool()], [[ToolCall("child", {"task": "go"})]], middleware=[deny]))
    assert len(bare.replies()) == 1  # middleware of the outer agent saw nothing of it

    desk = Desk().prepared()
    child = agent_of(desk.bodies, [[reply(OTHER)], [reply()]], name="child", description="d")
    agent = agent_of([child.as_tool()], [[ToolCall("child", {"task": "go"})]])
    install(agent, desk.gate)
    await play(agent)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert told(child)[0] == desk.denial(ticket_id=OTHER, body=BODY)


async def test_what_an_agent_as_a_tool_decides_counts_for_its_own_next_turn() -> None:
    desk = Desk()
    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [reply()]]
    child = agent_of(desk.bodies, turns, name="child", description="d")
    agent = agent_of([child.as_tool()], [[ToolCall("child", {"task": "go"})]])
    install(agent, desk.gate)
    await play(agent)
    assert len(desk.replies()) == 1


async def test_an_agent_that_a_function_calls_is_gated_too() -> None:
    desk = Desk().prepared()
    child = agent_of(desk.bodies, [[reply(OTHER)]], name="child")

    async def delegate(task: str) -> str:
        return str(await child.run(task))

    agent = agent_of([delegate], [[ToolCall("delegate", {"task": "go"})]])
    install(agent, desk.gate)
    await play(agent)
    assert desk.replies() == []
    assert told(child) == [desk.denial(ticket_id=OTHER, body=BODY)]


# Tools that come later, and what install refuses ---------------------------------------------------------------------


async def test_tools_of_a_run_and_tools_that_join_later_are_guarded() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies[1:], [[reply(OTHER)]])
    install(agent, desk.gate, accept=[REPLY])
    await play(agent, tools=[desk.helpdesk_reply])
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_gated_name_that_no_tool_has_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent_of(desk.bodies[1:], []), desk.gate)


@pytest.mark.parametrize(
    ("name", "more"),
    [("web_search", {"type": "web_search"}), ("on_screen", FunctionTool(name="on_screen", func=None))],
)
def test_a_tool_that_runs_elsewhere_is_refused_unless_accepted(name: str, more: Any) -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=name):
        install(agent_of([*desk.bodies, more], []), desk.gate)
    install(agent_of([*desk.bodies, more], []), desk.gate, accept=[name])


def test_an_agent_whose_tools_run_elsewhere_is_refused_unless_accepted() -> None:
    class Elsewhere:
        name = "elsewhere"

    desk = Desk()
    with pytest.raises(ConfigurationError, match="elsewhere"):
        install([agent_of(desk.bodies, []), Elsewhere()], desk.gate)
    install([agent_of(desk.bodies, []), Elsewhere()], desk.gate, accept=["elsewhere"])


# Sessions ------------------------------------------------------------------------------------------------------------


async def test_a_resolver_of_the_user_s_goes_first() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate, session=lambda context: context.kwargs["chat"])
    await play(agent, session="of-the-runtime", function_invocation_kwargs={"chat": SESSION})
    assert len(desk.replies()) == 1


async def test_a_resolver_that_fails_denies() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate, session=lambda context: context.kwargs["chat"])
    assert await play(agent)
    assert desk.replies() == []


async def test_a_cancelled_run_stays_cancelled() -> None:
    asked = asyncio.Event()

    async def hang(_: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": hang}).prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    install(agent, desk.gate)
    task = asyncio.create_task(play(agent))
    async with asyncio.timeout(30):
        await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


async def test_observe_lets_the_call_through_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"})
    agent = agent_of(desk.bodies, [[reply(OTHER)]])
    install(agent, desk.gate)
    await play(agent)
    assert desk.replies() == [{"ticket_id": OTHER, "body": BODY}]


# A real MCP server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "desk"])
async def test_tools_of_an_mcp_server_are_gated_and_its_results_recorded(prefix: str | None, tmp_path: Path) -> None:
    from agent_framework import MCPStdioTool

    desk, ran = Desk(), tmp_path / "ran"
    fails = ToolCall(DECIDE, {"entity_id": OTHER})
    turns = [
        [reply()],
        [fails],
        [ToolCall(DECIDE, {"entity_id": TICKET})],
        [ToolCall(CHECK, {"body": BODY})],
        [reply()],
    ]
    front = f"{prefix}_" if prefix else ""
    async with MCPStdioTool("desk", tool_name_prefix=prefix, load_prompts=False, **canned_server(desk, ran)) as server:
        agent = agent_of([server], [[ToolCall(front + call.name, call.arguments) for call in turn] for turn in turns])
        install(agent, desk.gate)
        assert await play(agent)
    assert "no decision" in told(agent)[0]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == [{"ticket_id": TICKET, "body": BODY}]


async def test_a_gate_in_middleware_by_name_misses_a_prefixed_tool(tmp_path: Path) -> None:
    from agent_framework import MCPStdioTool

    desk, ran = Desk(), tmp_path / "ran"
    async with MCPStdioTool("desk", tool_name_prefix="desk", load_prompts=False, **canned_server(desk, ran)) as server:
        agent = agent_of([server], [[ToolCall(f"desk_{REPLY}", reply(OTHER).arguments)]])
        assert await play(agent, middleware=[hook_gate(desk)])
    assert len(ran.read_text("utf-8").splitlines()) == 1


@pytest.mark.parametrize("gated", [False, True])
async def test_a_call_whose_connection_broke_is_sent_once_more_unless_it_is_gated(
    gated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent_framework import MCPStdioTool
    from anyio import ClosedResourceError
    from mcp import ClientSession

    desk, ran, send, sent = Desk().prepared(), tmp_path / "ran", ClientSession.call_tool, []

    async def breaks(self: Any, name: str, *arguments: Any, **more: Any) -> Any:
        answer = await send(self, name, *arguments, **more)
        sent.append(name)
        if sent == [REPLY]:  # it was done, and the answer is lost
            raise ClosedResourceError
        return answer

    monkeypatch.setattr(ClientSession, "call_tool", breaks)
    async with MCPStdioTool("desk", load_prompts=False, **canned_server(desk, ran)) as server:
        agent = agent_of([server], [[reply()], [ToolCall(CHECK, {"body": BODY})]])
        if gated:
            install(agent, desk.gate)
        assert await play(agent)
    assert sent == [REPLY, CHECK] if gated else [REPLY, REPLY, CHECK]  # the next call goes over the new connection
    assert len(ran.read_text("utf-8").splitlines()) == (1 if gated else 2)
    assert told(agent)[0].startswith("Error") is gated


# The example, the page, the cost -------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    said = run_example("agent_framework")
    assert said.startswith(
        "sent on HC-1201: Hello, line 3 is the service fee.\nfirst told: Denied, nothing was done: no"
    )


async def test_the_page_s_code_runs() -> None:
    names = run_page("agent-framework.md")
    agent = names["guarded"](agent_of([names["reply"]], [[ToolCall("reply", {"ticket_id": TICKET, "body": BODY})]]))
    assert await play(agent)
    assert told(agent)[0].startswith("Denied, nothing was done: no decision")


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[agent-framework]'" in import_without("agent_framework", "agent_framework")


async def test_what_the_adapter_adds_to_a_check() -> None:
    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        return "sent"

    desk = Desk().prepared()
    bare, guarded = tool(helpdesk_reply), tool(helpdesk_reply)
    install(agent_of([guarded, *desk.bodies[1:]], []), desk.gate, session=lambda _: SESSION)

    def run(one: FunctionTool) -> Any:
        return lambda: one.invoke(arguments={"ticket_id": TICKET, "body": BODY})

    found = await cost(desk, run(guarded), run(bare))
    print(f"agent_framework: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
