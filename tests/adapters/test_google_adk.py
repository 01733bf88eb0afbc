"""Google ADK: the contract in the real runtime, and a row for every trap that its facts name."""

import asyncio
import json
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():  # what its dependencies warn of while they are imported
    warnings.simplefilter("ignore")
    pytest.importorskip("google.adk.runners", reason="runs in its own environment: make test-runtimes")

from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, StreamingMode, ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.code_executors import BaseCodeExecutor
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, LongRunningFunctionTool, google_search
from google.adk.tools._node_tool import NodeTool  # has no public name yet
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types
from pydantic import BaseModel

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
    RULE,
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
from preaction.adapters.google_adk import GatePlugin, ainstall, install

pytestmark = pytest.mark.filterwarnings("ignore")  # the runtime's own

Turns = Sequence[Sequence[ToolCall]]


def arguments_of(call: ToolCall) -> Any:
    """As a provider's client parses a model's text; what is no object reaches the tool as it is."""
    if not isinstance(call.arguments, str):
        return dict(call.arguments)
    try:
        return json.loads(call.arguments)
    except ValueError:
        return call.arguments


class Script(BaseLlm):
    """A model that makes the calls of its script, one turn after the other, then says `done`."""

    turns: list[Any]
    told: list[Any]
    at: int = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        for part in llm_request.contents[-1].parts or []:
            if part.function_response:
                self.told.append(part.function_response.response)
        yield self.answer()

    def answer(self) -> LlmResponse:
        if self.at == len(self.turns):
            parts = [types.Part.from_text(text="done")]
        else:
            calls = [types.FunctionCall(name=one.name) for one in self.turns[self.at]]
            for call, one in zip(calls, self.turns[self.at], strict=True):
                object.__setattr__(call, "args", arguments_of(one))
            parts = [types.Part(function_call=call) for call in calls]
            self.at += 1
        return LlmResponse(content=types.Content(role="model", parts=parts))

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncIterator[BaseLlmConnection]:
        yield Connection(self)


class Connection(BaseLlmConnection):
    """A live connection to a script: it goes on as soon as it has the responses to all calls of its turn."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.heard: asyncio.Queue[None] = asyncio.Queue()
        self.open = 0

    async def send_history(self, history: list[types.Content]) -> None: ...

    async def send_content(self, content: types.Content) -> None:
        responses = [part.function_response for part in content.parts or [] if part.function_response]
        self.script.told += [response.response for response in responses]
        self.open -= len(responses)
        if self.open <= 0:
            self.heard.put_nowait(None)

    async def send_realtime(self, blob: Any) -> None: ...

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        await self.heard.get()
        answer = self.script.answer()
        self.open = len([part for part in answer.content.parts if part.function_call])
        yield answer
        yield LlmResponse(turn_complete=True)

    async def close(self) -> None: ...


def scripted(turns: Turns) -> Script:
    return Script(model="script", turns=[list(turn) for turn in turns], told=[])


def agent_of(tools: Sequence[Any], turns: Turns, **more: Any) -> LlmAgent:
    return LlmAgent(name=more.pop("name", "desk"), model=scripted(turns), tools=list(tools), **more)


def text_of(response: Any) -> str:
    """What the model reads, out of ADK's wrapping of a denial or of a plain result."""
    if isinstance(response, dict) and len(response) == 1:
        response = next(iter(response.values()))
    return response if isinstance(response, str) else json.dumps(response)


async def play(
    agent: BaseAgent,
    plugins: Sequence[BasePlugin] = (),
    *,
    session: str | None = SESSION,
    stream: bool = False,
    fails: bool = False,
) -> bool:
    """Run it; whether it came to its final answer. A tool that raises ends ADK's run: the user then says `go on`."""
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
    made = await runner.session_service.create_session(app_name="app", user_id="u", session_id=session)
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    for _ in range(2):
        try:
            run = runner.run_async(user_id="u", session_id=made.id, new_message=GO_ON, run_config=config)
            return is_done([event async for event in run])
        except RuntimeError:
            if not fails:
                raise
    return False


def play_sync(agent: BaseAgent, plugins: Sequence[BasePlugin], *, session: str | None, fails: bool) -> bool:
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
    made = asyncio.run(runner.session_service.create_session(app_name="app", user_id="u", session_id=session))
    for _ in range(2):
        try:
            return is_done(list(runner.run(user_id="u", session_id=made.id, new_message=GO_ON)))
        except RuntimeError:
            if not fails:
                raise
    return False


async def play_live(
    agent: BaseAgent,
    plugins: Sequence[BasePlugin] = (),
    *,
    session: str | None = SESSION,
    fails: bool = False,
    **config: Any,
) -> bool:
    """As `play`, in live mode."""
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
    made = await runner.session_service.create_session(app_name="app", user_id="u", session_id=session)
    run_config = RunConfig(response_modalities=["TEXT"], **config)
    for _ in range(2):
        queue = LiveRequestQueue()
        queue.send_content(GO_ON)
        run = runner.run_live(user_id="u", session_id=made.id, live_request_queue=queue, run_config=run_config)
        try:
            async for event in run:
                if is_done([event]):
                    return True
        except RuntimeError:
            if not fails:
                raise
    return False


GO_ON = types.Content(role="user", parts=[types.Part.from_text(text="go on")])


def is_done(events: list[Any]) -> bool:
    return any(event.content and event.content.parts and event.content.parts[0].text == "done" for event in events)


class AdkHarness(Harness):
    modes = ("async", "sync", "stream", "live")

    def run(self, desk: Desk, turns: Turns, *, mode: str, session: str | None = SESSION) -> Transcript:
        agent = agent_of(desk.bodies, turns)
        plugin = install(agent, desk.gate)
        if mode == "live":
            if desk.decide_fails and version("google-adk") < "2.13":
                pytest.skip("a tool that raises in live mode leaves a task behind there that never ends")
            ended = asyncio.run(play_live(agent, [plugin], session=session, fails=desk.decide_fails))
        elif mode == "sync":
            ended = play_sync(agent, [plugin], session=session, fails=desk.decide_fails)
        else:
            run = play(agent, [plugin], session=session, stream=mode == "stream", fails=desk.decide_fails)
            ended = asyncio.run(run)
        return Transcript([text_of(told) for told in agent.model.told], ended)


class TestContract(Contract):
    harness = AdkHarness()


# Traps: each is open in the bare runtime, or for a gate in a callback, and closed here ------------------------------


class Hook(BasePlugin):
    """Callbacks of one's own."""

    def __init__(self, before: Any = None, after: Any = None, error: Any = None, *, name: str = "hook") -> None:
        super().__init__(name=name)
        self.before_tool_callback = before or answering(None)
        self.after_tool_callback = after or answering(None)
        self.on_tool_error_callback = error or answering(None)


class HookGate(BasePlugin):
    """A gate as one would write it: it asks in the callback before a tool, and records in the one after it."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(name="hook_gate")
        self.desk = desk
        self.saw: list[dict[str, Any]] = []

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        self.saw.append(dict(tool_args))
        verdict = await self.desk.gate.acheck(tool_context.session.id, tool.name, tool_args)
        return {"error": denial_text(verdict)} if verdict.blocks else None

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        if self.desk.gate.records(tool.name):
            self.desk.gate.record_result(tool_context.session.id, tool.name, None, result)


@pytest.mark.parametrize(
    ("what", "ended", "ran", "told"),
    [
        ("none", "ended", 1, {"result": f"sent on {OTHER}"}),  # a forgotten `return` allows
        ("empty", "ended", 0, {}),
        ("empty text", "ended", 0, {"result": ""}),
        ("false", "ended", 0, {"result": False}),
        ("raises", "RuntimeError", 0, None),
        ("hangs", HANGS, 0, None),
    ],
)
async def test_what_a_callback_does_wrong_allows_says_nothing_or_ends_the_run_and_a_gate_that_does_it_denies(
    what: str, ended: str, ran: int, told: Any
) -> None:
    bare = Desk()
    agent = agent_of(bare.bodies, [[reply(OTHER)]])
    run = play(agent, [Hook(answering(FAILURES[what]))])
    assert await how_it_ends(run, hangs=FAILURES[what] is HANGS) == ended
    assert len(bare.replies()) == ran
    assert agent.model.told == ([] if told is None else [told])

    desk = broken(Desk().prepared(), FAILURES[what])
    agent = agent_of(desk.bodies, [[reply()]])
    assert await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == []
    assert agent.model.told == [{"error": FAILED}]


async def test_a_callback_that_is_no_coroutine_ends_the_run() -> None:
    bare = Desk()
    assert await how_it_ends(play(agent_of(bare.bodies, [[reply()]]), [Hook(lambda **_: None)])) == "RuntimeError"
    assert bare.replies() == []


@pytest.mark.parametrize(
    ("call", "before", "fired"),
    [
        (reply(), {"error": "denied"}, ["after"]),  # of a call that another callback denied
        (ToolCall(DECIDE, {"entity_id": TICKET}), {"status": "decided"}, ["after"]),  # of a result that it made up
        (ToolCall(DECIDE, {"entity_id": TICKET}), None, ["error"]),  # not of a tool that raised
        (ToolCall("unknown", {}), None, ["error"]),
    ],
)
async def test_the_callback_after_a_tool_does_not_mean_that_it_ran(call: ToolCall, before: Any, fired: Any) -> None:
    seen: list[str] = []

    def see(what: str) -> Any:
        async def callback(**_: Any) -> None:
            seen.append(what)

        return callback

    bare = Desk(decide_fails=True)
    hooks = [Hook(answering(before)), Hook(after=see("after"), error=see("error"), name="see")]
    await how_it_ends(play(agent_of(bare.bodies, [[call]]), hooks))
    assert seen == fired
    assert bare.replies() == []


async def test_a_decision_of_the_same_turn_counts_for_a_gate_in_callbacks() -> None:
    for gated in (False, True):
        desk = undecided()
        agent = agent_of(desk.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET}), reply()]])
        await play(agent, [install(agent, desk.gate) if gated else HookGate(desk)])
        assert len(desk.replies()) == (0 if gated else 1)


def to_another_ticket(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
    if tool.name == REPLY:
        args["ticket_id"] = OTHER


async def test_an_agent_s_callback_that_rewrites_arguments_comes_after_plugins_and_before_the_gate() -> None:
    bare = Desk().prepared()
    asked = HookGate(bare)
    await play(agent_of(bare.bodies, [[reply()]], before_tool_callback=to_another_ticket), [asked])
    assert asked.saw == [{"ticket_id": TICKET, "body": BODY}]
    assert bare.replies() == [{"ticket_id": OTHER, "body": BODY}]  # checked one, ran another

    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]], before_tool_callback=to_another_ticket)
    await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == []
    assert agent.model.told == [{"error": desk.denial(ticket_id=OTHER, body=BODY)}]


async def test_arguments_that_change_while_the_gate_checks_do_not_reach_the_body() -> None:
    for gated in (False, True):
        held: list[dict[str, Any]] = []

        async def hold(*, tool: Any, tool_args: Any, tool_context: Any, held: Any = held) -> None:
            held.append(tool_args)

        desk = changing(held)
        agent = agent_of(desk.bodies, [[reply()]])
        await play(agent, [Hook(hold), install(agent, desk.gate) if gated else HookGate(desk)])
        assert desk.replies() == [{"ticket_id": TICKET if gated else OTHER, "body": BODY}]


class Pretend(BasePlugin):
    """Answers in the stead of the decision tool."""

    def __init__(self, decision: dict[str, Any]) -> None:
        super().__init__(name="pretend")
        self.decision = decision

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> dict[str, Any] | None:
        return self.decision if tool.name == DECIDE else None


async def test_a_decision_that_another_plugin_makes_up_is_not_recorded() -> None:
    bare = undecided()
    agent = agent_of(bare.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    await play(agent, [Pretend(bare.authority.decide(TICKET)), HookGate(bare)])
    assert len(bare.replies()) == 1  # the callback after a tool that never ran recorded it

    desk = Desk()
    made_up = desk.authority.decide(TICKET)
    agent = agent_of(desk.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    plugin = install(agent, desk.gate)
    await play(agent, [Pretend(made_up), plugin])
    assert agent.model.told[0] == made_up  # the model was shown it
    assert desk.ran == []
    assert "no decision" in text_of(agent.model.told[1])


class Rewrite(BasePlugin):
    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> dict[str, Any]:
        return {"summary": "looks fine"}


async def test_what_counts_is_what_the_tool_returned_not_what_another_plugin_made_of_it() -> None:
    bare = undecided()
    agent = agent_of(bare.bodies, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    await play(agent, [Rewrite(name="rewrite"), HookGate(bare)])
    assert bare.replies() == []  # the decision never reached its callback

    desk = Desk()
    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [reply()]]
    agent = agent_of(desk.bodies, turns)
    plugin = install(agent, desk.gate)
    await play(agent, [Rewrite(name="rewrite"), plugin])
    assert len(desk.replies()) == 1


async def test_an_unknown_tool_is_answered_by_the_runtime() -> None:
    desk = Desk()
    agent = agent_of(desk.bodies, [[ToolCall("helpdesk_Reply", {"ticket_id": TICKET})]])
    assert await play(agent, [install(agent, desk.gate)])
    assert desk.ran == []


async def test_a_decision_that_comes_as_text_is_recorded() -> None:
    desk = undecided()

    def get_job_decision(entity_id: str) -> str:
        return json.dumps(desk.authority.decide(entity_id))

    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]]
    agent = agent_of([desk.helpdesk_reply, get_job_decision, desk.check_output], turns)
    await play(agent, [install(agent, desk.gate)])
    assert len(desk.replies()) == 1


async def test_a_tool_that_runs_long_is_gated_and_what_comes_of_it_later_passes_every_callback_by() -> None:
    desk = Desk().prepared()
    tools = [LongRunningFunctionTool(body) for body in desk.bodies]
    agent = agent_of(tools, [[reply(OTHER)]])
    await play(agent, [install(agent, desk.gate)])
    assert agent.model.told == [{"error": desk.denial(ticket_id=OTHER, body=BODY)}]

    bare = undecided()

    def get_job_decision(entity_id: str) -> None: ...

    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]]
    agent = agent_of([bare.helpdesk_reply, LongRunningFunctionTool(get_job_decision), bare.check_output], turns)
    plugin = install(agent, bare.gate)
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[plugin]))
    made = await runner.session_service.create_session(app_name="app", user_id="u", session_id=SESSION)
    run = runner.run_async(user_id="u", session_id=made.id, new_message=GO_ON)
    calls = [call for event in [event async for event in run] for call in event.get_function_calls()]
    later = types.FunctionResponse(id=calls[0].id, name=DECIDE, response=bare.authority.decide(TICKET))
    message = types.Content(role="user", parts=[types.Part(function_response=later)])
    async for _ in runner.run_async(user_id="u", session_id=made.id, new_message=message):
        pass
    assert bare.replies() == []  # as the page says: the program that brings the decision records it


async def test_defaults_that_the_model_does_not_send_are_checked_too() -> None:
    sent = []

    def helpdesk_reply(ticket_id: str, body: str, public: bool = True) -> str:
        sent.append(public)
        return "sent"

    desk = Desk().prepared()
    agent = agent_of([helpdesk_reply, *desk.bodies[1:]], [[reply()]])
    await play(agent, [install(agent, desk.gate)])
    assert sent == []
    assert "public" in text_of(agent.model.told[0])


@pytest.mark.parametrize("name", ["tool_context", "anything"])
async def test_the_context_that_the_runtime_injects_is_no_argument(name: str) -> None:
    seen: list[Any] = []
    desk = Desk().prepared()
    source = (
        f"def helpdesk_reply(ticket_id: str, body: str, {name}: ToolContext = None) -> str:\n    seen.append({name})"
    )
    scope: dict[str, Any] = {"ToolContext": ToolContext, "seen": seen}
    exec(source, scope)
    agent = agent_of([scope[REPLY], *desk.bodies[1:]], [[reply()]])
    await play(agent, [install(agent, desk.gate)])
    assert [context.session.id for context in seen] == [SESSION]


async def test_a_call_that_waits_for_a_person_uses_no_decision_up() -> None:
    desk = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared()
    tool = FunctionTool(desk.helpdesk_reply, require_confirmation=True)
    agent = agent_of([tool, *desk.bodies[1:]], [[reply()]])
    await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == []
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).allow


# Agents below agents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("include_plugins", [True, False])
async def test_an_agent_as_a_tool_is_gated_and_belongs_to_the_session_that_calls_it(include_plugins: bool) -> None:
    bare = Desk()
    child = agent_of(bare.bodies, [[reply()]], name="child")
    agent = agent_of([AgentTool(child, include_plugins=include_plugins)], [[ToolCall("child", {"request": "go"})]])
    sessions: list[str] = []

    async def deny(*, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        sessions.append(tool_context.session.id)
        return {"error": "no"} if tool.name == REPLY else None

    await play(agent, [Hook(deny)])
    assert len(bare.replies()) == (0 if include_plugins else 1)  # without, a plugin of the runner saw nothing of it
    assert sessions[0] == SESSION
    assert SESSION not in sessions[1:]  # with, it sees another session, which nobody decided in

    desk = Desk().prepared()
    child = agent_of(desk.bodies, [[reply(OTHER)], [reply()]], name="child")
    agent = agent_of(
        [AgentTool(child, include_plugins=include_plugins)], [[ToolCall("child", {"request": "go"})]], name="parent"
    )
    await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert child.model.told[0] == {"error": desk.denial(ticket_id=OTHER, body=BODY)}


async def test_what_an_agent_as_a_tool_decides_counts_for_its_next_turn_and_not_beside_it() -> None:
    desk = Desk()
    decide = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})]]
    child = agent_of(desk.bodies, [*decide, [reply()]], name="child")
    agent = agent_of([AgentTool(child), *desk.bodies], [[ToolCall("child", {"request": "go"})]], name="parent")
    await play(agent, [install(agent, desk.gate)])
    assert len(desk.replies()) == 1

    desk = Desk()
    child = agent_of(desk.bodies, decide[:1], name="child")

    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        return desk.helpdesk_reply(ticket_id, body)

    class Late(BasePlugin):
        """Holds the reply back until the child has decided."""

        decided = asyncio.Event()

        async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
            if tool.name == REPLY:
                await self.decided.wait()

        async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
            if tool.name == DECIDE:
                self.decided.set()

    turns = [[ToolCall("child", {"request": "go"}), reply()], [reply()]]
    agent = agent_of([AgentTool(child), helpdesk_reply], turns, name="parent")
    await play(agent, [install(agent, desk.gate), Late(name="late")])
    told = [text_of(one) for one in agent.model.told]
    assert "no decision" in told[1]
    assert "no output check" in told[2]


async def test_sub_agents_are_gated() -> None:
    desk = Desk().prepared()
    first, second = (
        agent_of(desk.bodies, [[reply(OTHER)]], name="first"),
        agent_of(desk.bodies, [[reply()]], name="second"),
    )
    agent = SequentialAgent(name="both", sub_agents=[first, second])
    await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert first.model.told == [{"error": desk.denial(ticket_id=OTHER, body=BODY)}]


def flow(desk: Desk) -> Workflow:
    def start(node_input: str = "") -> dict[str, Any]:
        return {"ticket_id": OTHER, "body": BODY}

    return Workflow(name="flow", edges=[(START, start, FunctionTool(desk.helpdesk_reply))])


async def test_a_workflow_is_refused_and_the_callbacks_of_an_agent_see_nothing_of_its_tools() -> None:
    desk = Desk()
    runner = InMemoryRunner(app=App(name="app", root_agent=flow(desk)))
    made = await runner.session_service.create_session(app_name="app", user_id="u", session_id=SESSION)
    async for _ in runner.run_async(user_id="u", session_id=made.id, new_message=GO_ON):
        pass
    assert len(desk.replies()) == 1

    agent = agent_of(desk.bodies, [])
    with pytest.raises(ConfigurationError, match="flow"):
        install([agent, flow(desk)], desk.gate)
    install([agent, flow(desk)], desk.gate, accept=["flow"])
    with pytest.raises(ConfigurationError, match="flow"):
        install(flow(desk), desk.gate, accept=[REPLY, DECIDE, CHECK])


def test_a_workflow_that_is_a_tool_is_refused_too() -> None:
    class Asked(BaseModel):
        request: str

    desk = Desk()
    whole = flow(desk).model_copy(update={"input_schema": Asked})
    with pytest.raises(ConfigurationError, match="flow"):
        install(agent_of([*desk.bodies, whole], []), desk.gate)
    with pytest.raises(ConfigurationError, match="flow"):
        install(agent_of([*desk.bodies, NodeTool(whole)], []), desk.gate)


# Live mode -----------------------------------------------------------------------------------------------------------


async def stream_of(result: Any) -> AsyncGenerator[Any, None]:
    yield result


async def test_live_a_tool_that_streams_is_gated_though_its_callback_only_sees_that_it_began() -> None:
    seen: list[Any] = []

    async def after(*, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        seen.append(result["status"])

    for gated in (False, True):
        desk = Desk().prepared()
        ran: list[str] = []

        async def helpdesk_reply(ticket_id: str, body: str, ran: Any = ran) -> AsyncGenerator[str, None]:
            ran.append(ticket_id)
            yield "sent"

        agent = agent_of([FunctionTool(helpdesk_reply), *desk.bodies[1:]], [[reply(OTHER)]])
        agent.tools[0]._ignore_params.append("ran")
        await play_live(agent, [install(agent, desk.gate), Hook(after=after)] if gated else [Hook(after=after)])
        assert "pending" in seen[-1]
        assert ran == ([] if gated else [OTHER])
        assert not gated or {"error": desk.denial(ticket_id=OTHER, body=BODY)} in agent.model.told


async def test_live_a_decision_that_is_streamed_is_not_recorded() -> None:
    desk = undecided()

    async def get_job_decision(entity_id: str) -> AsyncGenerator[Any, None]:
        yield desk.authority.decide(entity_id)

    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]]
    agent = agent_of([desk.helpdesk_reply, get_job_decision, desk.check_output], turns)
    await play_live(agent, [install(agent, desk.gate)])
    assert desk.replies() == []
    assert desk.gate.preview(SESSION, REPLY, {"ticket_id": TICKET, "body": BODY}).code == "case_not_decided"


async def test_live_tools_in_threads_are_gated() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply(OTHER)], [reply()]])
    pool = ToolThreadPoolConfig(max_workers=2)
    assert await play_live(agent, [install(agent, desk.gate)], tool_thread_pool_config=pool)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert agent.model.told[0] == {"error": desk.denial(ticket_id=OTHER, body=BODY)}


# Toolsets, and tools that come later ---------------------------------------------------------------------------------


class Toolset(BaseToolset):
    def __init__(self, *bodies: Callable[..., Any], **more: Any) -> None:
        super().__init__(**more)
        self.bodies = bodies

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(body) for body in self.bodies]


async def test_a_toolset_s_tools_are_gated_by_their_name_and_by_their_prefixed_name() -> None:
    bare = Desk().prepared()
    agent = agent_of(
        [Toolset(*bare.bodies, tool_name_prefix="desk")], [[ToolCall(f"desk_{REPLY}", reply(OTHER).arguments)]]
    )
    await play(agent, [HookGate(bare)])
    assert len(bare.replies()) == 1  # a gate by name doesn't know it by this one

    desk = Desk().prepared()
    agent = agent_of(
        [Toolset(*desk.bodies, tool_name_prefix="desk")], [[ToolCall(f"desk_{REPLY}", reply(OTHER).arguments)]]
    )
    await play(agent, [await ainstall(agent, desk.gate)])
    assert desk.replies() == []
    assert agent.model.told == [{"error": desk.denial(ticket_id=OTHER, body=BODY)}]


async def test_names_of_a_toolset_are_only_known_once_it_was_asked() -> None:
    desk = Desk()
    agent = agent_of([Toolset(*desk.bodies)], [])
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent, desk.gate)
    install(agent, desk.gate, accept=[REPLY, DECIDE, CHECK])
    with pytest.raises(ConfigurationError, match=REPLY):
        await ainstall(agent_of([Toolset(desk.look_up)], []), desk.gate)


async def test_a_tool_that_joins_after_install_is_guarded_by_the_plugin() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply(OTHER)], [reply()]])
    plugin = install(agent, desk.gate)
    agent.tools[0] = desk.helpdesk_reply
    await play(agent, [plugin])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert agent.model.told[0] == {"error": desk.denial(ticket_id=OTHER, body=BODY)}


# What install refuses ------------------------------------------------------------------------------------------------


def test_a_gated_name_that_no_tool_has_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent_of(desk.bodies[1:], []), desk.gate)


class Custom(BaseAgent):
    pass


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        ("google_search", lambda bodies: agent_of([google_search, *bodies], [])),
        ("desk.code_executor", lambda bodies: agent_of(bodies, [], code_executor=Executor())),
        ("own", lambda bodies: agent_of(bodies, [], sub_agents=[Custom(name="own")])),
    ],
)
def test_what_can_not_be_covered_is_refused_unless_accepted(name: str, agent: Any) -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=name):
        install(agent(desk.bodies), desk.gate)
    install(agent(desk.bodies), desk.gate, accept=[name])


class Executor(BaseCodeExecutor):
    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        raise NotImplementedError


# Sessions ------------------------------------------------------------------------------------------------------------


async def test_a_resolver_of_the_user_s_goes_first() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    plugin = install(agent, desk.gate, session=lambda context: SESSION if context.user_id == "u" else None)
    await play(agent, [plugin], session="of-the-runtime")
    assert len(desk.replies()) == 1


async def test_a_resolver_that_fails_denies() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    plugin = install(agent, desk.gate, session=lambda context: context.no_such_thing)
    assert await play(agent, [plugin])
    assert desk.replies() == []


async def test_a_cancelled_run_stays_cancelled() -> None:
    asked = asyncio.Event()

    async def hang(_: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": hang}).prepared()
    agent = agent_of(desk.bodies, [[reply()]])
    task = asyncio.create_task(play(agent, [install(agent, desk.gate)]))
    async with asyncio.timeout(30):
        await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


async def test_observe_lets_the_call_through_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"})
    agent = agent_of(desk.bodies, [[reply(OTHER)]])
    await play(agent, [install(agent, desk.gate)])
    assert desk.replies() == [{"ticket_id": OTHER, "body": BODY}]


def test_the_plugin_alone_guards_what_it_meets() -> None:
    desk = Desk().prepared()
    agent = agent_of(desk.bodies, [[reply(OTHER)]])
    asyncio.run(play(agent, [GatePlugin(desk.gate)]))
    assert desk.replies() == []


# A real MCP server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "desk"])
async def test_tools_of_an_mcp_server_are_gated_and_its_results_recorded(prefix: str | None, tmp_path: Path) -> None:
    from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
    from mcp import StdioServerParameters

    desk, ran = Desk(), tmp_path / "ran"
    server = StdioServerParameters(**canned_server(desk, ran))
    toolset = McpToolset(
        connection_params=StdioConnectionParams(server_params=server, timeout=60), tool_name_prefix=prefix
    )
    fails = ToolCall(DECIDE, {"entity_id": OTHER})
    turns = [
        [reply()],
        [fails],
        [ToolCall(DECIDE, {"entity_id": TICKET})],
        [ToolCall(CHECK, {"body": BODY})],
        [reply()],
    ]
    front = f"{prefix}_" if prefix else ""
    agent = agent_of([toolset], [[ToolCall(front + call.name, call.arguments) for call in turn] for turn in turns])
    try:
        assert await play(agent, [await ainstall(agent, desk.gate)])
    finally:
        await toolset.close()
    assert "no decision" in agent.model.told[0]["error"]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == [{"ticket_id": TICKET, "body": BODY}]


# The example, the page, the cost -------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    said = run_example("google_adk")
    assert "reply: Denied, nothing was done: no decision was made in this session" in said
    assert "sent on HC-1201: Hello, line 3 is the service fee.\n" in said
    assert said.endswith("reply: done\n")


def test_the_page_s_code_runs() -> None:
    assert isinstance(run_page("google-adk.md")["plugin"], GatePlugin)


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[google-adk]'" in import_without("google.adk.agents", "google_adk")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare, guarded = FunctionTool(desk.helpdesk_reply), FunctionTool(desk.helpdesk_reply)
    install(agent_of([guarded, *desk.bodies[1:]], []), desk.gate)
    call = types.FunctionCall(id="c", name=REPLY, args={})
    event = SimpleNamespace(id="e", invocation_id="i", get_function_calls=lambda: [call])
    session = SimpleNamespace(id=SESSION, events=[event])
    context: Any = SimpleNamespace(session=session, invocation_id="i", function_call_id="c", tool_confirmation=None)

    def run(tool: FunctionTool) -> Callable[[], Any]:
        return lambda: tool.run_async(args={"ticket_id": TICKET, "body": BODY}, tool_context=context)

    found = await cost(desk, run(guarded), run(bare))
    print(f"google_adk: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
