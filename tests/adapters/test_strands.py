"""Strands Agents: the contract in the real runtime, and a row for every trap that its facts name."""

import asyncio
import inspect
import json
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():  # what its dependencies warn of while they are imported
    warnings.simplefilter("ignore")
    pytest.importorskip("strands", reason="runs in its own environment: make test-runtimes")
    import strands.multiagent

from strands import Agent, ToolContext, tool
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookProvider, HookRegistry
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from adapters.around import (
    FAILURES,
    HANGS,
    broken,
    canned_server,
    changing,
    cost,
    import_without,
    run_example,
    run_page,
    undecided,
    until,
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
from preaction import ConfigurationError, denial_text
from preaction.adapters._bridge import FAILED
from preaction.adapters.strands import install

pytestmark = pytest.mark.filterwarnings("ignore")  # the runtime's own

HAS_BACKGROUND = "background_tasks" in inspect.signature(Agent.__init__).parameters
Turns = Sequence[Sequence[ToolCall]]


class Script(Model):
    """A model that makes the calls of its script, one turn after the other, then says `done`."""

    def __init__(self, turns: Turns) -> None:
        self.turns = list(turns)
        self.told: list[Any] = []
        self.asked = 0

    def update_config(self, **_: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
        self.told += [block["toolResult"] for block in messages[-1]["content"] if "toolResult" in block]
        self.asked += 1
        yield {"messageStart": {"role": "assistant"}}
        if self.asked <= len(self.turns):
            for number, call in enumerate(self.turns[self.asked - 1]):
                yield {
                    "contentBlockStart": {
                        "start": {"toolUse": {"name": call.name, "toolUseId": f"t{self.asked}-{number}"}}
                    }
                }
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": as_json(call.arguments)}}}}
                yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}


def tools_of(desk: Desk) -> list[Any]:
    return [tool(body) for body in desk.bodies]


def agent_of(tools: Sequence[Any], turns: Turns, **more: Any) -> Agent:
    return Agent(model=Script(turns), tools=list(tools), callback_handler=None, **more)


def told(agent: Agent) -> list[str]:
    return [" ".join(block.get("text", "") for block in result["content"]) for result in agent.model.told]


def of_the_chat(state: Any) -> str | None:
    """The session that a program hands to each run."""
    return state.get("chat")


class StrandsHarness(Harness):
    modes = ("async", "sync", "stream")

    def run(self, desk: Desk, turns: Turns, *, mode: str, session: str | None = SESSION) -> Transcript:
        agent = agent_of(tools_of(desk), turns)
        install(agent, desk.gate, session=of_the_chat)
        state = {"chat": session}

        async def play() -> str:
            if mode == "async":
                return str(await agent.invoke_async("hi", invocation_state=state))
            said = ""
            async for event in agent.stream_async("hi", invocation_state=state):
                said = str(event.get("result", said))
            return said

        said = str(agent("hi", invocation_state=state)) if mode == "sync" else asyncio.run(play())
        return Transcript(told(agent), said.strip() == "done")


class TestContract(Contract):
    harness = StrandsHarness()


def play(
    desk: Desk, turns: Turns, *, tools: Sequence[Any] | None = None, chat: str | None = SESSION, **more: Any
) -> Agent:
    """Run the turns with the gate installed."""
    agent = agent_of(tools_of(desk) if tools is None else tools, turns, **more)
    install(agent, desk.gate, session=of_the_chat)
    assert str(agent("hi", invocation_state={"chat": chat})).strip() == "done"
    return agent


# Traps: each is open in the bare runtime, or for a gate in a hook, and closed here -----------------------------------


class Hook(HookProvider):
    def __init__(self, before: Callable[[Any], Any], *, after: bool = False, order: float | None = None) -> None:
        self.does = before
        self.event: Any = AfterToolCallEvent if after else BeforeToolCallEvent
        self.order = {} if order is None else {"order": order}

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(self.event, self.does, **self.order)


class HookGate(HookProvider):
    """A gate as one would write it: it asks before a tool by the name that was called, and records after it."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self.before)
        registry.add_callback(AfterToolCallEvent, self.after)

    def before(self, event: Any) -> None:
        verdict = self.desk.gate.check(SESSION, event.tool_use["name"], event.tool_use["input"])
        if verdict.blocks:
            event.cancel_tool = denial_text(verdict)

    def after(self, event: Any) -> None:
        if self.desk.gate.records(event.tool_use["name"]):
            self.desk.gate.record_result(SESSION, event.tool_use["name"], None, event.result["content"][0]["text"])


def run_bare(desk: Desk, turns: Turns, **more: Any) -> tuple[str, Agent]:
    """What comes of it without the adapter: the answer, or the name of what was raised."""
    agent = agent_of(tools_of(desk), turns, **more)
    try:
        return str(agent("hi")).strip(), agent
    except Exception as error:
        return type(error).__name__, agent


def cancels(value: Any) -> Callable[[Any], None]:
    def hook(event: Any) -> None:
        event.cancel_tool = value

    return hook


async def denies(event: Any) -> None:
    event.cancel_tool = "denied"


class Awaitable:
    async def __call__(self, event: Any) -> None:
        await denies(event)


def raises(event: Any) -> None:
    raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("hook", "ended", "ran", "said"),
    [
        (raises, "EventLoopException", 0, None),
        (lambda _: "denied", "done", 1, None),  # what a hook returns is ignored
        (cancels(""), "done", 1, None),  # a denial without a text is none
        (cancels(None), "done", 1, None),
        (cancels(True), "done", 0, "tool cancelled by user"),
        (cancels({"error": "denied"}), "done", 0, "tool cancelled by user"),
        (Awaitable(), "done", 1, None),  # never awaited
        (lambda event: denies(event), "done", 1, None),  # nor is this
        (denies, "done", 0, "denied"),
    ],
)
def test_bare_what_a_hook_does_wrong_lets_the_tool_run_or_ends_the_run(
    hook: Any, ended: str, ran: int, said: str | None
) -> None:
    bare = Desk()
    answer, agent = run_bare(bare, [[reply(OTHER)]], hooks=[Hook(hook)])
    assert (answer, len(bare.replies())) == (ended, ran)
    assert said is None or told(agent) == [said]


@pytest.mark.parametrize("what", [what for what in FAILURES if FAILURES[what] is not HANGS])
def test_whatever_a_gate_does_wrong_the_adapter_denies(what: str) -> None:
    desk = broken(Desk().prepared(), FAILURES[what])
    agent = play(desk, [[reply()]])
    assert desk.replies() == []
    assert told(agent) == [FAILED]


def test_a_hook_after_the_tool_that_raises_ends_the_run_and_a_result_that_can_t_be_recorded_does_not() -> None:
    answer, _ = run_bare(bare := Desk(), [[reply()]], hooks=[Hook(raises, after=True)])
    assert (answer, len(bare.replies())) == ("EventLoopException", 1)

    desk = undecided()

    def lost(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret")

    vars(desk.gate).update(record_result=lost)
    agent = play(desk, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]])
    assert told(agent)[1] == FAILED


def test_the_hook_after_a_tool_does_not_mean_that_it_ran() -> None:
    seen: list[str] = []
    hooks = [Hook(cancels("denied")), Hook(lambda event: seen.append(event.tool_use["name"]), after=True)]
    run_bare(bare := Desk(), [[reply()], [ToolCall("unknown", {})]], hooks=hooks)
    assert seen == [REPLY, "unknown"]
    assert bare.ran == []


def test_an_intervention_s_denial_is_lifted_by_a_later_hook_and_the_adapter_s_is_not() -> None:
    interventions = pytest.importorskip("strands.interventions", reason="this version has none")

    class Denies(interventions.InterventionHandler):  # type: ignore[name-defined]
        name = "denies"

        def before_tool_call(self, event: Any, **_: Any) -> Any:
            return interventions.Deny(reason="no")

    for order, ran in ((0, 0), (91, 1)):
        run_bare(bare := Desk(), [[reply(OTHER)]], hooks=[Hook(cancels(False), order=order)], interventions=[Denies()])
        assert len(bare.replies()) == ran
    desk = Desk()
    play(desk, [[reply(OTHER)]], hooks=[Hook(cancels(False), order=91)])
    assert desk.replies() == []


def test_arguments_that_change_while_the_gate_checks_do_not_reach_the_body() -> None:
    for gated in (False, True):
        held: list[dict[str, Any]] = []

        def hold_on(event: Any, held: Any = held) -> None:
            held.append(event.tool_use["input"])

        hold, desk = Hook(hold_on), changing(held)
        if gated:
            play(desk, [[reply()]], hooks=[hold])
        else:
            run_bare(desk, [[reply()]], hooks=[hold, HookGate(desk)])
        assert desk.replies() == [{"ticket_id": TICKET if gated else OTHER, "body": BODY}]


def test_a_name_that_comes_twice_is_checked_as_it_runs() -> None:
    text = f'{{"ticket_id": "{OTHER}", "ticket_id": "{TICKET}", "body": "{BODY}"}}'
    play(desk := Desk().prepared(), [[ToolCall(REPLY, text)]])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def to_another_ticket(event: Any) -> None:
    if event.tool_use["name"] == REPLY:
        event.tool_use["input"]["ticket_id"] = OTHER


def test_a_hook_that_rewrites_arguments_comes_before_the_gate() -> None:
    bare = Desk().prepared()
    agent_of(tools_of(bare), [[reply()]], hooks=[Hook(to_another_ticket)])("hi")
    assert bare.replies() == [{"ticket_id": OTHER, "body": BODY}]

    desk = Desk().prepared()
    agent = play(desk, [[reply()]], hooks=[Hook(to_another_ticket, order=1_000)])
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_hook_can_not_lift_a_denial() -> None:
    def deny(event: Any) -> None:
        event.cancel_tool = "denied"

    def lift(event: Any) -> None:
        event.cancel_tool = False

    bare = Desk().prepared()
    agent_of(tools_of(bare), [[reply(OTHER)]], hooks=[Hook(deny), Hook(lift)])("hi")
    assert len(bare.replies()) == 1

    desk = Desk().prepared()
    agent = play(desk, [[reply(OTHER)]], hooks=[Hook(lift, order=1_000)])
    assert desk.replies() == []
    assert agent.model.told[0]["status"] == "error"


def to_reply(agent: Agent) -> Callable[[Any], None]:
    def swap(event: Any) -> None:
        event.selected_tool = agent.tool_registry.registry[REPLY]
        event.tool_use = {**event.tool_use, "input": {"ticket_id": OTHER, "body": BODY}}

    return swap


@pytest.mark.parametrize("known", [True, False])
def test_a_hook_that_puts_another_tool_in_is_seen(known: bool) -> None:
    desk = Desk().prepared()
    tools = tools_of(desk)
    body = tools[0] if known else tool(desk.helpdesk_reply)
    bare = agent_of(tools_of(other := Desk()), [[ToolCall(LOOK, {"ticket_id": TICKET})]])
    bare.hooks.add_hook(HookGate(other))  # which goes by the name that was called
    bare.hooks.add_callback(BeforeToolCallEvent, to_reply(bare))
    bare("hi")
    assert len(other.replies()) == 1

    def swap(event: Any) -> None:
        event.selected_tool = body
        event.tool_use = {**event.tool_use, "input": {"ticket_id": TICKET, "body": BODY}}

    calls = [ToolCall(LOOK, {"ticket_id": OTHER}), ToolCall(DECIDE, {"entity_id": TICKET})]
    agent = play(desk, [[calls[0]], [calls[1]]], tools=tools, hooks=[Hook(swap)])
    assert len(desk.replies()) == 1  # by the rule of the tool that ran, whatever the model called
    assert told(agent)[1] == FAILED  # two tools of the gate in one call are one too many
    play(desk, [[calls[0]]], tools=tools, hooks=[Hook(swap)], chat="another")
    assert len(desk.replies()) == 1


@pytest.mark.skipif(not hasattr(Agent, "add_middleware"), reason="this version has no middleware")
@pytest.mark.parametrize("what", ["arguments", "tool"])
def test_middleware_runs_after_every_hook_and_before_the_gate(what: str) -> None:
    from strands.middleware import ExecuteToolStage

    def meddling(tools: list[Any]) -> Any:
        async def meddle(context: Any, go_on: Any) -> Any:
            use = {**context.tool_use, "input": {"ticket_id": OTHER, "body": BODY}}
            changed = replace(context, tool_use=use, tool=tools[0] if what == "tool" else context.tool)
            async for event in go_on(changed):
                yield event

        return meddle

    called = reply() if what == "arguments" else ToolCall("look_up", {"ticket_id": TICKET})
    seen: list[Any] = []
    bare = Desk().prepared()
    tools = tools_of(bare)
    agent = agent_of(tools, [[called]], hooks=[Hook(lambda event: seen.append(dict(event.tool_use["input"])))])
    agent.add_middleware(ExecuteToolStage, meddling(tools))
    agent("hi")
    assert seen == [called.arguments]
    assert bare.replies() == [{"ticket_id": OTHER, "body": BODY}]  # checked one, ran another

    desk = Desk().prepared()
    tools = tools_of(desk)
    agent = agent_of(tools, [[called]])
    install(agent, desk.gate, session=of_the_chat)
    agent.add_middleware(ExecuteToolStage, meddling(tools))
    agent("hi", invocation_state={"chat": SESSION})
    assert desk.replies() == []
    assert told(agent) == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_retry_is_asked_about_again() -> None:
    tried: list[Any] = []

    def again(event: Any) -> None:
        event.retry = not tried
        tried.append(event)

    desk = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared()
    play(desk, [[reply()]], hooks=[Hook(again, after=True)])
    assert len(desk.replies()) == 1
    assert "already" in tried[1].result["content"][0]["text"]


@pytest.mark.skipif(not HAS_BACKGROUND, reason="this version runs no tools in the background")
def test_a_retry_in_the_background_where_no_hook_is_asked_is_asked_about_again() -> None:
    tried: list[Any] = []
    asked: list[Any] = []

    def again(event: Any) -> None:
        event.retry = not tried
        tried.append(event)

    bare = Desk().prepared()
    hooks = [Hook(asked.append), Hook(again, after=True)]
    agent_of(tools_of(bare), [[reply()]], hooks=hooks, background_tasks={"always": [REPLY]})("hi")
    assert (len(asked), len(bare.replies())) == (1, 2)

    tried.clear()
    desk = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared()
    play(desk, [[reply()]], hooks=hooks, background_tasks={"always": [REPLY]})
    assert len(desk.replies()) == 1


def test_arguments_that_do_not_parse_come_as_none_at_all() -> None:
    ran: list[str] = []

    @tool
    def helpdesk_reply() -> str:
        """Send the prepared reply."""
        ran.append(REPLY)
        return "sent"

    call = ToolCall(REPLY, '{"ticket_id": "HC-')
    agent_of([helpdesk_reply], [[call]])("hi")
    assert ran == [REPLY]  # a tool without parameters ran on a broken call

    desk = Desk().prepared()
    play(desk, [[call]], tools=[helpdesk_reply, *tools_of(desk)[1:]])
    assert ran == [REPLY]


def test_a_decision_that_a_hook_makes_up_is_not_recorded() -> None:
    desk = undecided()
    made_up = json.dumps(desk.authority.decide(TICKET))

    def pretend(event: Any) -> None:
        if event.tool_use["name"] == DECIDE:
            event.cancel_tool = made_up

    run_bare(desk, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]], hooks=[Hook(pretend), HookGate(desk)])
    assert len(desk.replies()) == 1  # a hook after a tool that never ran recorded it

    desk = Desk()
    made_up = json.dumps(desk.authority.decide(TICKET))
    agent = play(desk, [[ToolCall(DECIDE, {"entity_id": TICKET})], [reply()]], hooks=[Hook(pretend)])
    assert told(agent)[0] == made_up  # the model was shown it
    assert "no decision" in told(agent)[1]


def test_what_counts_is_what_the_tool_returned_not_what_a_hook_made_of_it() -> None:
    def rewrite(event: Any) -> None:
        event.result = {**event.result, "content": [{"text": "looks fine"}]}

    desk = Desk()
    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [reply()]]
    play(desk, turns, hooks=[Hook(rewrite, after=True)])
    assert len(desk.replies()) == 1


def test_defaults_that_the_model_does_not_send_are_checked_too() -> None:
    sent = []

    @tool
    def helpdesk_reply(ticket_id: str, body: str, public: bool = True) -> str:
        """Send a reply."""
        sent.append(public)
        return "sent"

    desk = Desk().prepared()
    agent = play(desk, [[reply()]], tools=[helpdesk_reply, *tools_of(desk)[1:]])
    assert sent == []
    assert "public" in told(agent)[0]


def test_a_tool_that_looks_at_its_own_call_sees_what_was_checked() -> None:
    seen: list[Any] = []

    @tool(context=True)
    def helpdesk_reply(ticket_id: str, body: str, tool_context: ToolContext) -> str:
        """Send a reply."""
        seen.append(tool_context.tool_use["input"])
        return "sent"

    desk = Desk().prepared()
    play(desk, [[reply()]], tools=[helpdesk_reply, *tools_of(desk)[1:]])
    assert seen == [{"ticket_id": TICKET, "body": BODY}]


def test_a_direct_call_is_gated_too() -> None:
    desk = Desk().prepared()
    agent = agent_of(tools_of(desk), [])
    install(agent, desk.gate, session=lambda _: SESSION)
    denied = agent.tool.helpdesk_reply(ticket_id=OTHER, body=BODY)
    assert denied["content"] == [{"text": desk.denial(ticket_id=OTHER, body=BODY)}]
    assert agent.tool.helpdesk_reply(ticket_id=TICKET, body=BODY)["status"] == "success"
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def test_calls_of_one_turn_that_run_one_after_the_other_are_one_batch_too() -> None:
    from strands.tools.executors import SequentialToolExecutor

    decide, check = ToolCall(DECIDE, {"entity_id": TICKET}), ToolCall(CHECK, {"body": BODY})
    one_by_one: Any = {"tool_executor": SequentialToolExecutor()}
    run_bare(bare := undecided(), [[decide, reply()]], hooks=[HookGate(bare)], **one_by_one)
    assert len(bare.replies()) == 1  # the model had not seen what was decided

    desk = Desk()
    agent = play(desk, [[decide, check, reply()], [reply()]], **one_by_one)
    assert "no decision" in told(agent)[2]
    assert len(desk.replies()) == 1


# Agents below agents -------------------------------------------------------------------------------------------------


def test_an_agent_as_a_tool_is_gated_and_belongs_to_the_session_that_calls_it() -> None:
    def deny(event: Any) -> None:
        if event.tool_use["name"] == REPLY:
            event.cancel_tool = "denied"

    go = [[ToolCall("child", {"input": "go"})]]
    bare = Desk()
    child = agent_of(tools_of(bare), [[reply()]], name="child")
    agent_of([child.as_tool()], go, hooks=[Hook(deny)])("hi")
    assert len(bare.replies()) == 1  # a hook of the outer agent saw nothing of it

    desk = Desk().prepared()
    child = agent_of(tools_of(desk), [[reply(OTHER)], [reply()]], name="child")
    play(desk, go, tools=[child.as_tool()])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert told(child)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_what_an_agent_as_a_tool_decides_counts_for_its_own_next_turn() -> None:
    desk = Desk()
    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [reply()]]
    child = agent_of(tools_of(desk), turns, name="child")
    play(desk, [[ToolCall("child", {"input": "go"})]], tools=[child.as_tool()])
    assert len(desk.replies()) == 1


def graph_of(worker: Agent) -> Any:
    builder = strands.multiagent.GraphBuilder()
    builder.add_node(worker, "worker")
    return builder.build()


def test_the_agents_of_a_graph_are_gated() -> None:
    bare = Desk()
    graph_of(agent_of(tools_of(bare), [[reply()]], name="worker"))("hi")
    assert len(bare.replies()) == 1  # a graph has no gate of its own

    desk = Desk().prepared()
    worker = agent_of(tools_of(desk), [[reply(OTHER)], [reply()]], name="worker")
    graph = graph_of(worker)
    install(graph, desk.gate, session=of_the_chat)
    graph("hi", invocation_state={"chat": SESSION})
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert told(worker)[0] == desk.denial(ticket_id=OTHER, body=BODY)


# Tools that come later, and what install refuses ---------------------------------------------------------------------


def test_a_tool_that_joins_after_install_is_guarded_by_the_hook() -> None:
    desk = Desk().prepared()
    agent = agent_of(tools_of(desk)[1:], [[reply(OTHER)], [reply()]])
    install(agent, desk.gate, session=of_the_chat, accept=[REPLY])
    agent.tool_registry.process_tools([tool(desk.helpdesk_reply)])
    agent("hi", invocation_state={"chat": SESSION})
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_a_gated_name_that_no_tool_has_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=REPLY):
        install(agent_of(tools_of(desk)[1:], []), desk.gate)


def test_an_agent_that_runs_elsewhere_is_refused_unless_accepted() -> None:
    class Elsewhere:
        name = "elsewhere"

    desk = Desk()
    with pytest.raises(ConfigurationError, match="elsewhere"):
        install([agent_of(tools_of(desk), []), Elsewhere()], desk.gate)
    install([agent_of(tools_of(desk), []), Elsewhere()], desk.gate, accept=["elsewhere"])


# Sessions ------------------------------------------------------------------------------------------------------------


def test_the_session_manager_s_id_is_the_session(tmp_path: Path) -> None:
    desk = Desk().prepared()
    manager = FileSessionManager(session_id=SESSION, storage_dir=str(tmp_path))
    agent = agent_of(tools_of(desk), [[reply()]], session_manager=manager)
    install(agent, desk.gate)
    agent("hi")
    assert len(desk.replies()) == 1


def test_a_resolver_that_fails_denies() -> None:
    desk = Desk().prepared()
    agent = agent_of(tools_of(desk), [[reply()]])
    install(agent, desk.gate, session=lambda state: state["no such thing"])
    assert str(agent("hi")).strip() == "done"
    assert desk.replies() == []


async def test_a_cancelled_run_stays_cancelled() -> None:
    asked = threading.Event()

    async def hang(_: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": hang}).prepared()
    agent = agent_of(tools_of(desk), [[reply()]])
    install(agent, desk.gate, session=of_the_chat)
    task = asyncio.create_task(agent.invoke_async("hi", invocation_state={"chat": SESSION}))
    await until(asked.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.replies() == []


def test_observe_lets_the_call_through_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"})
    play(desk, [[reply(OTHER)]])
    assert desk.replies() == [{"ticket_id": OTHER, "body": BODY}]


# A real MCP server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [None, "desk"])
def test_tools_of_an_mcp_server_are_gated_and_its_results_recorded(prefix: str | None, tmp_path: Path) -> None:
    from mcp import StdioServerParameters, stdio_client
    from strands.tools.mcp import MCPClient

    desk, ran = Desk(), tmp_path / "ran"
    server = StdioServerParameters(**canned_server(desk, ran))
    fails = ToolCall(DECIDE, {"entity_id": OTHER})
    turns = [
        [reply()],
        [fails],
        [ToolCall(DECIDE, {"entity_id": TICKET})],
        [ToolCall(CHECK, {"body": BODY})],
        [reply()],
    ]
    front = f"{prefix}_" if prefix else ""
    client = MCPClient(lambda: stdio_client(server), prefix=prefix, startup_timeout=60)
    try:
        named = [[ToolCall(front + call.name, call.arguments) for call in turn] for turn in turns]
        if prefix:  # a gate in a hook, which knows the tool by its own name, lets it through
            agent_of([client], named[:1], hooks=[HookGate(desk)])("hi")
            assert len(ran.read_text("utf-8").splitlines()) == 1
            ran.unlink()
        agent = play(desk, named, tools=[client])
    finally:
        client.stop(None, None, None)
    assert "no decision" in told(agent)[0]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == [{"ticket_id": TICKET, "body": BODY}]


# The example, the page, the cost -------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    said = run_example("strands")
    assert said.startswith(
        "sent on HC-1201: Hello, line 3 is the service fee.\nfirst told: Denied, nothing was done: no"
    )


def test_the_page_s_code_runs() -> None:
    denied = run_page("strands.md")["agent"].tool.reply(ticket_id=TICKET, body=BODY)
    assert denied["content"][0]["text"].startswith("Denied")


def test_without_its_runtime_the_adapter_says_what_to_install() -> None:
    assert "pip install 'preaction[strands]'" in import_without("strands.hooks", "strands")


async def test_what_the_adapter_adds_to_a_check() -> None:
    async def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Send a reply."""
        return "sent"

    desk = Desk().prepared()
    bare, guarded = tool(helpdesk_reply), tool(helpdesk_reply)
    install(agent_of([guarded, *tools_of(desk)[1:]], []), desk.gate, session=of_the_chat)
    use = {"name": REPLY, "toolUseId": "t", "input": {"ticket_id": TICKET, "body": BODY}}

    def run(one: Any) -> Any:
        async def once() -> list[Any]:
            return [event async for event in one.stream(use, {"chat": SESSION})]

        return once

    found = await cost(desk, run(guarded), run(bare))
    print(f"strands: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
