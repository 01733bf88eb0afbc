"""CrewAI: the contract in a crew, in an agent alone and with a model that writes its calls as text, and its traps."""

import asyncio
import copy
import functools
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Before the import: the runtime reads them once. Where it isn't, others' tests tell OpenTelemetry.
if find_spec("crewai") is not None:
    os.environ.update(CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="true", CREWAI_TRACING_ENABLED="false")

pytest.importorskip("crewai", reason="runs in its own environment: make test-runtimes")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.agents.step_executor import StepExecutor
from crewai.hooks import (
    clear_all_tool_call_hooks,
    register_after_tool_call_hook,
    register_before_tool_call_hook,
)
from crewai.mcp import MCPServerStdio
from crewai.tools import BaseTool, tool
from crewai.utilities.planning_types import TodoItem
from crewai.utilities.step_execution_context import StepExecutionContext
from pydantic import Field, ValidationError

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
from preaction.adapters import crewai as adapter
from preaction.adapters.crewai import Call, install

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the runtime's own

DONE = "All done."
REMINDER = "\n\n\nYou ONLY have access to"  # the runtime's own, after every third call


class Stub(BaseLLM):
    """Plays its script, as calls or as a text of the ReAct form."""

    script: list[Any] = Field(default_factory=list)
    said: list[Any] = Field(default_factory=list)
    calls: bool = True
    turns: int = 0

    def supports_function_calling(self) -> bool:
        return self.calls

    def supports_stop_words(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.said.append([dict(message) for message in messages])
        self.turns += 1
        if self.turns > len(self.script) or not self.script[self.turns - 1]:
            return DONE if self.calls else f"Thought: I now can give a great answer\nFinal Answer: {DONE}"
        turn = self.script[self.turns - 1]
        if not self.calls:
            return f"Thought: I act.\nAction: {turn[0].name}\nAction Input: {as_json(turn[0].arguments)}"
        return [
            {
                "id": f"call-{self.turns}-{place}",
                "type": "function",
                "function": {"name": one.name, "arguments": as_json(one.arguments)},
            }
            for place, one in enumerate(turn)
        ]

    async def acall(self, messages: Any, *args: Any, **options: Any) -> Any:
        return self.call(messages)

    @property
    def told(self) -> list[str]:
        """What the model was given back, call for call."""
        if self.calls:
            return [message["content"] for message in self.said[-1] if message["role"] == "tool"]
        texts = [message["content"] for message in self.said[-1] if message["role"] == "assistant"]
        return [text.partition("\nObservation:")[2].partition(REMINDER)[0].strip() for text in texts]


def stub(turns: Sequence[Sequence[ToolCall]], *, calls: bool = True) -> Stub:
    return Stub(model="stub", script=list(turns), said=[], calls=calls)


def tools_of(desk: Desk, *, coroutines: bool = False) -> list[Any]:
    def made(body: Callable[..., Any]) -> Any:
        @functools.wraps(body)
        async def awaited(**arguments: Any) -> Any:
            return body(**arguments)

        return tool(body.__name__)(awaited if coroutines else body)

    return [made(body) for body in desk.bodies]


def agent(model: Stub, tools: Sequence[Any], *, role: str = "desk", **options: Any) -> Any:
    return Agent(role=role, goal="g", backstory="b", llm=model, tools=list(tools), max_iter=30, **options)


def crew(*agents: Any, **options: Any) -> Any:
    tasks = [Task(description=f"Task of {one.role}.", expected_output="e", agent=one) for one in agents]
    return Crew(agents=list(agents), tasks=tasks, **options)


def play(runner: Any, desk: Desk, *, mode: str = "sync", session: str | None = SESSION) -> Transcript:
    """Run a crew or an agent; what the model of the (first) agent was told."""
    model = (runner if isinstance(runner, Agent) else runner.agents[0]).llm
    with nullcontext() if session is None else desk.gate.session(session):
        if isinstance(runner, Agent):
            said = runner.kickoff("Go.") if mode == "sync" else asyncio.run(runner.kickoff_async("Go."))
        elif mode == "stream":
            chunks = runner.kickoff()
            list(chunks)
            said = chunks.result
        else:
            said = runner.kickoff() if mode == "sync" else asyncio.run(runner.akickoff())
    return Transcript(model.told, ended=said.raw == DONE)


class CrewHarness(Harness):
    def __init__(self, *, alone: bool = False, calls: bool = True) -> None:
        self.alone, self.calls = alone, calls
        self.modes = ("sync", "async") if alone else ("sync", "async", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        one = agent(stub(turns, calls=self.calls), tools_of(desk, coroutines=mode == "async"))
        runner = one if self.alone else crew(one, stream=mode == "stream")
        try:
            return play(install(runner, desk.gate), desk, mode=mode, session=session)
        except ValidationError:  # the runtime's own end of a call whose arguments are a list
            return Transcript([], ended=False)


class CrewContract(Contract):
    def test_a03_the_loop_goes_on_after_many_denials(self, mode: str) -> None:
        """Each with another text: the runtime stops a model that makes the same call again and again."""
        desk = Desk().prepared()
        bodies = [f"Hello {number}" for number in range(5)]
        seen = self.harness.run(desk, [[reply(OTHER, body)] for body in bodies] + [[reply()]], mode=mode)
        assert len(desk.replies()) == 1
        assert seen.told[:5] == [desk.denial(ticket_id=OTHER, body=body) for body in bodies]
        assert seen.ended


class TestCrew(CrewContract):
    harness = CrewHarness()


class TestAgentAlone(CrewContract):
    harness = CrewHarness(alone=True)


class TestModelThatWritesItsCalls(CrewContract):
    """A model without tool calls: it writes them as text, one at a time."""

    harness = CrewHarness(calls=False)

    test_a05_a_decision_of_the_same_batch_does_not_count = None  # type: ignore[assignment]
    test_two_allowed_and_denied_calls_of_one_turn_each_meet_their_own_verdict = None  # type: ignore[assignment]


# Traps --------------------------------------------------------------------------------------------------------------
#
# Each shows the trap open in the bare runtime first, where there is something to show, then closed.

WRONG = [reply(OTHER)]
DECIDES, CHECKS = [ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})]


@pytest.fixture(autouse=True, scope="module")
def storage() -> Any:
    """Where the runtime writes; else it is below the user's home."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CREWAI_STORAGE_DIR", place)
        yield


@pytest.fixture(autouse=True)
def hooks() -> Any:
    """Hooks belong to the process."""
    yield
    clear_all_tool_call_hooks()


def desk_crew(desk: Desk, *turns: Any, calls: bool = True, guarded: bool = True, **options: Any) -> Any:
    runner = crew(agent(stub(turns, calls=calls), tools_of(desk), **options))
    return install(runner, desk.gate) if guarded else runner


def played(desk: Desk, *turns: Any, **options: Any) -> Transcript:
    return play(desk_crew(desk, *turns, **options), desk)


def raises(context: Any) -> Any:
    raise RuntimeError("the gate crashed")


async def forgotten(context: Any) -> Any:
    return False


@pytest.mark.parametrize("calls", [True, False])
@pytest.mark.parametrize(
    "hook", [raises, forgotten, lambda _: None, lambda _: "denied", lambda _: 0, lambda _: {"deny": True}]
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the coroutine that nobody awaits
def test_a_hook_that_fails_or_says_it_wrongly_lets_the_call_through(hook: Any, calls: bool) -> None:
    register_before_tool_call_hook(hook)
    bare, desk = Desk().prepared(), Desk().prepared()
    played(bare, WRONG, calls=calls, guarded=False)
    assert len(bare.replies()) == 1
    seen = played(desk, WRONG, calls=calls)
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_hook_that_denies_can_t_say_why() -> None:
    def denies(context: Any) -> Any:
        try:
            from crewai.hooks.dispatch import HookAborted
        except ImportError:  # 1.14 knows only False
            return False
        raise HookAborted(reason="get a decision first", source="gate")

    register_before_tool_call_hook(denies)
    assert "get a decision first" not in played(Desk(), WRONG, guarded=False).told[0]
    clear_all_tool_call_hooks()
    desk = Desk()
    assert played(desk, WRONG).told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_a_hook_that_rewrites_the_arguments_comes_before_the_check() -> None:
    def rewrites(context: Any) -> None:
        if context.tool_name == REPLY:
            context.tool_input["ticket_id"] = OTHER

    register_before_tool_call_hook(rewrites)
    bare, desk = Desk().prepared(), Desk().prepared()
    played(bare, [reply()], guarded=False)
    assert [sent["ticket_id"] for sent in bare.replies()] == [OTHER]
    seen = played(desk, [reply()])
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


def test_clearing_all_hooks_does_not_open_the_gate() -> None:
    desk = Desk().prepared()
    runner = desk_crew(desk, WRONG)
    clear_all_tool_call_hooks()
    play(runner, desk)
    assert desk.replies() == []


def test_what_an_after_hook_makes_of_a_result_is_not_what_is_recorded() -> None:
    desk = Desk()
    forged = Desk().authority.decide(OTHER)
    register_after_tool_call_hook(lambda context: json.dumps(forged) if context.tool_name == DECIDE else None)
    seen = played(desk, DECIDES, CHECKS, [reply()], WRONG)
    assert len(desk.replies()) == 1
    assert "no decision" in seen.told[3]


def test_a_decision_that_another_hook_blocked_is_none() -> None:
    desk = Desk()
    desk.decided = desk.authority.decide(TICKET)
    register_before_tool_call_hook(lambda context: context.tool_name != DECIDE)
    register_after_tool_call_hook(lambda context: json.dumps(desk.decided) if context.tool_name == DECIDE else None)
    seen = played(desk, DECIDES, [reply()])
    assert json.loads(seen.told[0]) == desk.decided
    assert "no decision" in seen.told[1]


@pytest.mark.parametrize("calls", [True, False])
def test_a_known_tool_is_never_answered_from_the_cache(calls: bool) -> None:
    look = [ToolCall(LOOK, {"ticket_id": TICKET})]
    turns = [DECIDES, look, DECIDES, look, [reply()], CHECKS, [reply()], look, [reply()]]
    bare, desk = Desk(), Desk()
    played(bare, *turns, calls=calls, cache=True, guarded=False)
    assert [name for name, _ in bare.ran] == [DECIDE, LOOK, REPLY, CHECK]
    seen = played(desk, *turns, calls=calls, cache=True)
    # A text model's last call is again the one that ran last: the runtime itself refuses to repeat it.
    assert [name for name, _ in desk.ran] == [DECIDE, LOOK, DECIDE, CHECK, REPLY, *[REPLY] * calls]
    assert "no output check" in seen.told[4]


def test_a_denial_of_a_tool_without_a_rule_is_not_cached_either() -> None:
    look = [ToolCall(LOOK, {"ticket_id": TICKET})]
    desk = Desk(options={"unlisted": "deny"})
    runner = desk_crew(desk, look, cache=True)
    assert "Denied, nothing was done" in play(runner, desk).told[0]
    assert runner.agents[0].tools[3].cache_function({}, desk.look_up(TICKET))
    assert not runner.agents[0].tools[3].cache_function({}, adapter._Denial("Denied"))


def test_every_way_to_the_tool_object_is_guarded() -> None:
    def ways(desk: Desk) -> tuple[list[Any], Any]:
        one = tools_of(desk)[0]
        structured = one.to_structured_tool()
        by_model = functools.partial(stub([])._handle_tool_execution, REPLY)
        return [
            one.run, one._run, lambda **sent: one.func(**sent), lambda **sent: one.run(*sent.values()),
            lambda **sent: structured.invoke(sent), structured.func,
            lambda **sent: by_model(sent, {REPLY: one.run}),
            lambda **sent: copy.copy(one).run(**sent),
            lambda **sent: one.model_copy(update={"name": "renamed"}).run(**sent),
        ], one  # fmt: skip

    bare, desk = Desk().prepared(), Desk().prepared()
    found, _ = ways(bare)
    for way in found:
        way(ticket_id=OTHER, body=BODY)
    assert len(bare.replies()) == len(found)
    found, one = ways(desk)
    install([one, *tools_of(desk)[1:]], desk.gate)
    with desk.gate.session(SESSION):
        for way in found:
            assert way(ticket_id=OTHER, body=BODY) == desk.denial(ticket_id=OTHER, body=BODY)
        assert desk.replies() == []
        for way in found:
            assert way(ticket_id=TICKET, body=BODY) == f"sent on {TICKET}"
    assert len(desk.replies()) == len(found)
    assert "session" in found[0](ticket_id=TICKET, body=BODY)


def test_what_a_text_model_wrote_badly_is_judged_as_the_runtime_repairs_it() -> None:
    broken = [ToolCall(REPLY, f'{{"ticket_id": "{OTHER}", "body": "unterminated')]
    bare, desk = Desk().prepared(), Desk().prepared()
    played(bare, broken, calls=False, guarded=False)
    assert bare.replies() == [{"ticket_id": OTHER, "body": "unterminated"}]
    seen = played(desk, broken, calls=False)
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body="unterminated")]


@pytest.mark.parametrize("written", ["Helpdesk Reply", "helpdesk_repl", "HELPDESK_REPLY"])
def test_a_name_that_the_runtime_takes_for_the_tool_is_gated_as_the_tool(written: str) -> None:
    call = [ToolCall(written, {"ticket_id": OTHER, "body": BODY})]
    bare, desk = Desk().prepared(), Desk().prepared()
    played(bare, call, calls=False, guarded=False)
    assert len(bare.replies()) == 1
    seen = played(desk, call, calls=False)
    assert desk.replies() == []
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY)]


@pytest.mark.parametrize("ruled", ["Send a Reply", "send_a_reply"])
def test_a07_a_rule_may_name_the_tool_or_what_the_model_is_shown(ruled: str) -> None:
    desk = Desk(options={"tools": {ruled: RULE}}).prepared()
    tools = [tool("Send a Reply")(desk.helpdesk_reply), *tools_of(desk)[1:]]
    turns = [[ToolCall("send_a_reply", dict(one.arguments))] for one in (reply(OTHER), reply())]  # type: ignore[arg-type]
    seen = play(install(crew(agent(stub(turns), tools)), desk.gate), desk)
    assert len(desk.replies()) == 1
    assert "no decision" in seen.told[0]


def test_of_a_name_said_twice_the_last_is_checked_and_runs() -> None:
    twice = f'{{"ticket_id": "{OTHER}", "ticket_id": "{TICKET}", "body": {json.dumps(BODY)}}}'
    desk = Desk().prepared()
    played(desk, [ToolCall(REPLY, twice)])
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def test_a_default_is_checked_as_it_runs() -> None:
    def run(**more: Any) -> Desk:
        desk = Desk(options={"tools": {REPLY: {**RULE, **more}}}).prepared()

        @tool(REPLY)
        def helpdesk_reply(ticket_id: str, body: str, public: bool = True) -> str:
            """Send a reply."""
            return desk.helpdesk_reply(ticket_id, body)

        play(install(crew(agent(stub([[reply()]]), [helpdesk_reply, *tools_of(desk)[1:]])), desk.gate), desk)
        return desk

    assert run().replies() == []
    assert run(fixed={"public": False}).replies() == []
    assert len(run(fixed={"public": True}).replies()) == 1


def test_a_body_that_fails_is_run_again_by_the_runtime_and_checked_again() -> None:
    def run(rule: dict[str, Any], *, guarded: bool = True) -> int:
        desk = Desk(options={"tools": {REPLY: {**RULE, **rule}}}).prepared()

        @tool(REPLY)
        def helpdesk_reply(ticket_id: str, body: str) -> str:
            """Send a reply."""
            desk.helpdesk_reply(ticket_id, body)
            raise TimeoutError("sent, but nobody said so")

        runner = crew(agent(stub([[reply()]], calls=False), [helpdesk_reply, *tools_of(desk)[1:]]))
        play(install(runner, desk.gate) if guarded else runner, desk)
        return len(desk.replies())

    assert run({}, guarded=False) > 1
    assert run({}) > 1
    assert run({"once": "decision"}) == 1


def test_a_denial_does_not_become_the_answer_of_the_run() -> None:
    desk = Desk().prepared()
    one = tools_of(desk)[0]
    one.result_as_answer = True
    runner = crew(agent(stub([WRONG, [reply()]]), [one, *tools_of(desk)[1:]]))
    if adapter.ToolFailure is None:
        with pytest.raises(ConfigurationError, match=REPLY):
            install(runner, desk.gate)
        return
    install(runner, desk.gate)
    with desk.gate.session(SESSION):
        assert runner.kickoff().raw == f"sent on {TICKET}"
    assert runner.agents[0].llm.told[0] == desk.denial(ticket_id=OTHER, body=BODY)


class Plain(BaseTool):
    """A tool that is a class."""

    name: str = REPLY
    description: str = "Send a reply."
    desk: Any = None

    def _run(self, ticket_id: str, body: str) -> str:
        return str(self.desk.helpdesk_reply(ticket_id, body))

    async def _arun(self, ticket_id: str, body: str) -> str:
        return str(self.desk.helpdesk_reply(ticket_id, body))


@pytest.mark.parametrize("calls", [True, False])
def test_a_tool_that_is_a_class_is_guarded_too(calls: bool) -> None:
    desk = Desk().prepared()
    one = Plain(desk=desk)
    seen = play(
        install(crew(agent(stub([WRONG, [reply()]], calls=calls), [one, *tools_of(desk)[1:]])), desk.gate), desk
    )
    assert seen.told == [desk.denial(ticket_id=OTHER, body=BODY), f"sent on {TICKET}"]
    with desk.gate.session(SESSION):
        assert asyncio.run(one.arun(ticket_id=OTHER, body=BODY)) == desk.denial(ticket_id=OTHER, body=BODY)
    assert len(desk.replies()) == 1
    assert set(one.model_dump()) == set(Plain(desk=desk).model_dump())


def test_a_tool_class_with_a_run_of_its_own_is_refused() -> None:
    class Odd(Plain):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return self.desk.helpdesk_reply(**kwargs)

    desk = Desk()
    with pytest.raises(ConfigurationError, match=f"not covered.*{REPLY}"):
        install([Odd(desk=desk), *tools_of(desk)[1:]], desk.gate)
    install([Odd(desk=desk), *tools_of(desk)[1:]], desk.gate, accept=[REPLY])


def test_a06_a_crew_s_id_is_no_session_but_a_resolver_may_say_one() -> None:
    desk, asked = Desk().prepared(), list[Call]()

    def session(call: Call) -> str:
        asked.append(call)
        return SESSION

    runner = crew(agent(stub([[reply()], [], WRONG]), tools_of(desk)))
    play(install(runner, desk.gate, session=session), desk, session=None)
    assert len(desk.replies()) == 1
    assert (asked[0].agent, asked[0].task, asked[0].crew) == (runner.agents[0], runner.tasks[0], runner)
    crew_id = runner.id
    assert "no decision" in play(runner, desk, session=None).told[-1]
    assert asked[-1].crew.id == crew_id  # one id for every conversation
    alone = agent(stub([[reply()]]), tools_of(desk))
    play(install(alone, desk.gate, session=session), desk, session="another")
    assert len(desk.replies()) == 2
    assert (asked[-1].agent, asked[-1].crew) == (alone, None)


def test_a06_a_task_in_a_thread_of_its_own_has_the_session() -> None:
    desk = Desk().prepared()
    one = agent(stub([[reply()]]), tools_of(desk))
    task = Task(description="d", expected_output="e", agent=one, async_execution=True)
    with desk.gate.session(SESSION):
        install(Crew(agents=[one], tasks=[task]), desk.gate).kickoff()
    assert len(desk.replies()) == 1


@pytest.mark.parametrize("calls", [True, False])
def test_a05_the_first_turn_of_the_next_run_is_another_batch(calls: bool) -> None:
    desk = Desk()
    desk.decided = desk.authority.decide(TICKET)
    desk.gate.decisions.record(SESSION, result=desk.decided)
    runner = desk_crew(desk, CHECKS, [], [reply()], calls=calls)
    play(runner, desk)
    play(runner, desk)
    assert len(desk.replies()) == 1


@pytest.mark.parametrize("calls", [True, False])
def test_a05_the_older_executor_has_turns_too(calls: bool) -> None:
    older = pytest.importorskip("crewai.agents.crew_agent_executor", reason="CrewAI no longer has it")
    desk = Desk()
    turns = [DECIDES, CHECKS, [reply()]] if not calls else [[*DECIDES, reply()], CHECKS, [reply()]]
    seen = played(desk, *turns, calls=calls, executor_class=older.CrewAgentExecutor)
    assert len(desk.replies()) == 1
    assert calls == ("no decision" in seen.told[1])


def test_a05_a_step_of_a_plan_has_turns_of_its_own() -> None:
    desk = Desk()
    tools = install(tools_of(desk), desk.gate)
    desk.decided = desk.authority.decide(TICKET)
    desk.gate.decisions.record(SESSION, result=desk.decided)
    model = stub([[*CHECKS, reply()], [reply()]])
    one = agent(model, tools)
    executor = StepExecutor(
        llm=model, agent=one, original_tools=tools, tools=[each.to_structured_tool() for each in tools]
    )
    with desk.gate.session(SESSION):
        executor.execute(TodoItem(step_number=1, description="d"), StepExecutionContext("d", "g"))
    assert "no output check" in model.told[1]
    assert len(desk.replies()) == 1


def test_a05_an_agent_that_a_tool_runs_decides_within_the_outer_turn() -> None:
    desk = Desk()
    child = agent(stub([DECIDES, CHECKS]), tools_of(desk), role="child")

    @tool("delegate")
    def delegate(task: str) -> str:
        """Give a task to a colleague."""
        return str(child.kickoff(task).raw)

    turns = [[ToolCall("delegate", {"task": "decide"}), reply()], [reply()]]
    outer = agent(stub(turns), [delegate, *tools_of(desk)])
    seen = play(install(crew(outer), desk.gate), desk)
    assert "no decision" in seen.told[1]
    assert len(desk.replies()) == 1


def test_a05_what_a_tool_s_own_code_calls_one_after_the_other_counts_there_and_not_beside_it() -> None:
    desk, said = Desk(), list[str]()
    tools = tools_of(desk)

    @tool("answer")
    def answer(ticket_id: str) -> str:
        """Decide, check and reply."""
        tools[1].run(entity_id=ticket_id)
        tools[2].run(body=BODY)
        said.append(tools[0].run(ticket_id=ticket_id, body=BODY))
        return said[-1]

    runner = crew(agent(stub([[ToolCall("answer", {"ticket_id": TICKET}), reply()]]), [answer, *tools]))
    seen = play(install(runner, desk.gate), desk)
    assert said == [f"sent on {TICKET}"]
    assert "no decision" in seen.told[1]


def test_a08_agents_tasks_managers_and_what_a_tool_holds_are_covered() -> None:
    def build(desk: Desk) -> Any:
        child = crew(agent(stub([WRONG]), tools_of(desk), role="child"))

        @tool("delegate")
        def delegate(task: str) -> str:
            """Give a task to a crew."""
            return str(child.kickoff().raw)

        first = agent(stub([[ToolCall("delegate", {"task": "t"})]]), [delegate], role="first")
        second = agent(stub([WRONG]), [], role="second")
        tasks = [
            Task(description="d", expected_output="e", agent=first),
            Task(description="d", expected_output="e", agent=second, tools=tools_of(desk)),
        ]
        return Crew(agents=[first, second], tasks=tasks)

    bare, desk = Desk().prepared(), Desk().prepared()
    play(build(bare), bare)
    assert len(bare.replies()) == 2
    play(install(build(desk), desk.gate), desk)
    assert desk.replies() == []


def test_a08_a_coworker_s_tools_are_covered() -> None:
    def build(desk: Desk) -> Any:
        asks = ToolCall("delegate_work_to_coworker", {"task": "t", "context": "c", "coworker": "second"})
        first = agent(stub([[asks]]), [], role="first", allow_delegation=True)
        second = agent(stub([WRONG]), tools_of(desk), role="second")
        task = Task(description="d", expected_output="e", agent=first)
        return Crew(agents=[first, second], tasks=[task])

    bare, desk = Desk().prepared(), Desk().prepared()
    play(build(bare), bare)
    assert len(bare.replies()) == 1
    play(install(build(desk), desk.gate), desk)
    assert desk.replies() == []


def test_a08_copies_that_the_runtime_makes_are_covered() -> None:
    bare, desk = Desk().prepared(), Desk().prepared()
    for one, guarded in ((bare, False), (desk, True)):
        with one.gate.session(SESSION):
            desk_crew(one, WRONG, guarded=guarded).kickoff_for_each([{"a": "1"}])
    assert len(bare.replies()) == 1
    assert desk.replies() == []


def test_a08_what_is_missing_or_runs_elsewhere_is_refused() -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match=f"no tool here is called {REPLY}"):
        install(crew(agent(stub([]), tools_of(desk)[1:])), desk.gate)
    with pytest.raises(ConfigurationError, match="a crew, an agent"):
        install(desk.helpdesk_reply, desk.gate)
    one = agent(stub([]), tools_of(desk))
    one.__dict__["apps"] = ["gmail"]
    with pytest.raises(ConfigurationError, match=r"desk\.apps"):
        install(one, desk.gate)
    install(one, desk.gate, accept=["desk.apps"])


@pytest.mark.parametrize("copied", [False, True])
def test_a07_mcp_tools_are_gated_by_their_own_names_and_their_results_recorded(tmp_path: Path, copied: bool) -> None:
    def build(desk: Desk, ran: Path) -> Any:
        server = canned_server(desk, ran)
        one = agent(stub([]), [], mcps=[MCPServerStdio(**server)])
        shown = {each.original_tool_name: each.name for each in one.get_mcp_tools(one.mcps)}
        turns = [
            [ToolCall(shown[DECIDE], {"entity_id": "HC-0"})],
            [ToolCall(shown[REPLY], reply().arguments)],
            [ToolCall(shown[DECIDE], {"entity_id": TICKET})],
            [ToolCall(shown[CHECK], {"body": BODY})],
            [ToolCall(shown[REPLY], reply(OTHER).arguments)],
            [ToolCall(shown[REPLY], reply().arguments)],
        ]
        assert REPLY not in shown.values()
        one.llm = stub(turns)
        return crew(one)

    bare, desk = Desk(), Desk()
    play(build(bare, tmp_path / "bare"), bare)
    assert OTHER in (tmp_path / "bare").read_text("utf-8")
    runner = install(build(desk, tmp_path / "ran"), desk.gate)
    told = play(runner.copy() if copied else runner, desk).told
    assert "no decision" in told[1]
    assert "no decision" in told[4]
    sent = [json.loads(line) for line in (tmp_path / "ran").read_text("utf-8").splitlines()]
    assert sent == [{"ticket_id": TICKET, "body": BODY}]


def test_arguments_that_change_during_the_check_do_not_reach_the_body() -> None:
    desk, ran = Desk(), list[Any]()
    sent: dict[str, Any] = {"ticket_id": TICKET, "body": BODY, "to": ["lee@acme.example"]}

    def verify(execution_id: str) -> Any:
        sent["to"].append("billing@elsewhere.example")
        return desk.authority.good_answer(Verify(execution_id))

    rule = {**RULE, "fields": ["ticket_id", "body", "to"], "recipients_at": ["acme.example"]}
    desk.options.update(tools={"pay": rule}, verify=verify)
    desk.__post_init__()
    desk.prepared()

    @tool("pay")
    def pay(ticket_id: str, body: str, to: list[str]) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    install([pay, *tools_of(desk)[1:]], desk.gate)
    with desk.gate.session(SESSION):
        assert pay.func(**sent) == "paid"
    assert ran == [["lee@acme.example"]]


async def test_a02_a_cancellation_leaves_as_it_came() -> None:
    asked = asyncio.Event()

    async def verify(execution_id: str) -> Any:
        asked.set()
        await asyncio.sleep(30)

    desk = Desk(options={"verify": verify, "deadline_s": 20}).prepared()
    tools = install(tools_of(desk, coroutines=True), desk.gate)
    with desk.gate.session(SESSION):
        running = asyncio.create_task(tools[0].arun(ticket_id=TICKET, body=BODY))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert desk.replies() == []


async def test_a_plain_function_that_gives_a_coroutine_is_recorded_when_it_has_run() -> None:
    desk = Desk()

    async def later(entity_id: str) -> Any:
        return desk.get_job_decision(entity_id)

    @tool(DECIDE)
    def get_job_decision(entity_id: str) -> Any:
        """Decide."""
        return later(entity_id)

    tools = install([*tools_of(desk)[:1], get_job_decision, *tools_of(desk)[2:]], desk.gate)
    with desk.gate.session(SESSION):
        await get_job_decision.arun(entity_id=TICKET)
        assert "no output check" in tools[0].run(ticket_id=TICKET, body=BODY)


def test_g42_in_observe_mode_the_call_runs_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    played(desk, WRONG)
    assert [sent["ticket_id"] for sent in desk.replies()] == [OTHER]


def test_a10_without_the_runtime_the_import_says_what_to_install() -> None:
    assert "pip install 'preaction[crewai]'" in import_without("crewai", "crewai")


def test_the_example_runs() -> None:
    said = run_example("crewai").splitlines()
    assert "sent on HC-1201: Hello, line 3 is the service fee." in said
    told = [line for line in said if line.startswith("told: ")]
    assert told[0].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert told[-1] == "told: sent"


def test_the_page_s_code_runs() -> None:
    assert run_page("crewai.md")["gate"].is_gated("reply")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare, guarded = tools_of(desk, coroutines=True)[0], install(tools_of(desk, coroutines=True), desk.gate)[0]

    def call(one: Any) -> Any:
        return lambda: one.arun(ticket_id=TICKET, body=BODY)

    with desk.gate.session(SESSION):
        found = await cost(desk, call(guarded), call(bare))
    print(f"crewai: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
