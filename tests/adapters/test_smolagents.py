"""smolagents: the contract in a tool-calling agent and in one that writes code, and its traps."""

import copy
import inspect
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("smolagents", reason="runs in its own environment: make test-runtimes")

import smolagents
from smolagents import (
    ActionStep,
    ChatMessage,
    CodeAgent,
    FinalAnswerTool,
    LocalPythonExecutor,
    MessageRole,
    Model,
    MultiStepAgent,
    PythonInterpreterTool,
    Tool,
    ToolCallingAgent,
    tool,
)
from smolagents.agents import ToolOutput
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
from smolagents.tools import BaseTool, get_tools_definition_code

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
from preaction import ActionDenied, ConfigurationError, create_action_gate
from preaction._core.facts import Verify
from preaction.adapters.smolagents import install

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

DONE = "All done."


class Stub(Model):
    """Plays its script: calls of tools, or code; then it is done."""

    def __init__(self, script: Sequence[Any], *, code: bool = False) -> None:
        super().__init__(model_id="stub")
        self.script, self.code, self.said = list(script), code, list[Any]()

    def generate(self, messages: Any, **options: Any) -> ChatMessage:
        self.said.append("\n".join(str(message.content) for message in messages))
        place = len(self.said) - 1
        if place < len(self.script):
            turn = self.script[place]
        else:
            turn = f"final_answer({DONE!r})" if self.code else [ToolCall("final_answer", {"answer": DONE})]
        if isinstance(turn, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: I act.\n<code>\n{turn}\n</code>")
        calls = [
            ChatMessageToolCall(
                id=f"call-{place}-{number}",
                type="function",
                function=ChatMessageToolCallFunction(name=call.name, arguments=as_json(call.arguments)),
            )
            for number, call in enumerate(turn)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)


class Body(Tool):
    """A tool from a plain function, of which `@tool` would want the source."""

    def __init__(self, body: Callable[..., Any], **more: Any) -> None:
        self.name, self.description, self.forward = body.__name__, str(body.__doc__), body
        signature = inspect.signature(body)
        self.inputs = {
            name: {"type": "string", "description": name, **({} if one.default is one.empty else {"nullable": True})}
            for name, one in signature.parameters.items()
        }
        self.output_type = "string" if signature.return_annotation is str else "object"
        self.skip_forward_signature_validation = True
        super().__init__()
        for name, value in more.items():
            setattr(self, name, value)


def tools_of(desk: Desk) -> list[Tool]:
    return [Body(body) for body in desk.bodies]


def calling(tools: Sequence[Any], turns: Sequence[Any], **options: Any) -> Any:
    return ToolCallingAgent(tools=list(tools), model=Stub(turns), verbosity_level=-1, **options)


def coding(tools: Sequence[Any], turns: Sequence[Any], **options: Any) -> Any:
    return CodeAgent(tools=list(tools), model=Stub(turns, code=True), verbosity_level=-1, **options)


def told(agent: Any) -> list[str]:
    """Per step, what its model was given back: what the tools or the code said, or the error that stopped it."""
    steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    return [str(step.error.message if step.error else step.observations) for step in steps]


def reason(error: str) -> str:
    """The text of the exception that stopped a piece of code."""
    return error.partition(" due to: ")[2].partition(": ")[2]


class CallingHarness(Harness):
    modes = ("sync", "stream")

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        agent = calling(tools_of(desk), turns)
        install(agent, desk.gate, session=lambda _: session)
        if mode == "sync" and all(len(turn) == 1 for turn in turns):
            answer = agent.run("Please answer the ticket.")
            return Transcript(told(agent)[: len(turns)], ended=answer == DONE)
        outputs: dict[str, str] = {}
        answer = None
        for event in agent.run("Please answer the ticket.", stream=True):
            if isinstance(event, ToolOutput):
                outputs[event.id] = event.observation
            answer = getattr(event, "output", answer)
        in_order = [outputs[call] for call in sorted(outputs) if outputs[call] != DONE]
        errors = [str(step.error.message) for step in agent.memory.steps if getattr(step, "error", None)]
        return Transcript(in_order or errors, ended=answer == DONE)


def as_code(call: ToolCall) -> str:
    given = call.arguments if isinstance(call.arguments, str) else f"**{call.arguments!r}"
    return f"print({call.name}({given}))"


class CodingHarness(Harness):
    """Each turn is one piece of code. A denial stops it, in an error that says where."""

    modes = ("sync", "stream")
    shows_plain_text = False

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        agent = coding(tools_of(desk), ["\n".join(as_code(call) for call in turn) for turn in turns])
        install(agent, desk.gate)
        if session is None:
            answer = self.play(agent, mode)
        else:
            with desk.gate.session(session):
                answer = self.play(agent, mode)
        said: list[str] = []
        for step in [step for step in agent.memory.steps if isinstance(step, ActionStep)][: len(turns)]:
            logs = (step.observations or "").partition("Execution logs:\n")[2].partition("Last output from")[0]
            said += logs.strip().splitlines()
            said += [reason(str(step.error.message))] if step.error else []
        return Transcript(said, ended=answer == DONE)

    @staticmethod
    def play(agent: Any, mode: str) -> Any:
        if mode == "sync":
            return agent.run("Please answer the ticket.")
        return [getattr(event, "output", None) for event in agent.run("Please answer the ticket.", stream=True)][-1]


class TestToolCallingAgent(Contract):
    harness = CallingHarness()


class TestCodeAgent(Contract):
    harness = CodingHarness()


# Traps ----------------------------------------------------------------------------------------------------------------
#
# Each shows the trap open in the bare runtime first, where there is something to show, then closed.

WRONG = [reply(OTHER)]
WRONG_CODE = as_code(reply(OTHER))
DECIDES = ToolCall(DECIDE, {"entity_id": TICKET})
CHECKS = ToolCall(CHECK, {"body": BODY})


def play(desk: Desk, agent: Any, task: str = "Please answer the ticket.", **options: Any) -> Any:
    """Install, and run in the desk's session."""
    install(agent, desk.gate, **options)
    with desk.gate.session(SESSION):
        return agent.run(task)


class DeniesBeforehand(ToolCallingAgent):
    """The override that stands in the place of the hook which the runtime hasn't got."""

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        if tool_name == REPLY and arguments["ticket_id"] == OTHER:
            return "no"
        return super().execute_tool_call(tool_name, arguments)


def test_state_variables_are_filled_in_before_the_gate_and_after_an_override() -> None:
    def run(desk: Desk, named: str, *, guarded: bool) -> Any:
        agent = DeniesBeforehand(tools=tools_of(desk), model=Stub([[reply("ticket")]]), verbosity_level=-1)
        if guarded:
            install(agent, desk.gate, session=lambda _: SESSION)
        agent.run("hi", additional_args={"ticket": named})
        return agent

    bare, desk = Desk().prepared(), Desk().prepared()
    run(bare, OTHER, guarded=False)
    assert bare.replies() == [{"ticket_id": OTHER, "body": BODY}]  # it saw "ticket"
    agent = run(desk, OTHER, guarded=True)
    assert desk.replies() == []
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)
    run(desk, TICKET, guarded=True)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def test_an_override_of_one_agent_object_stays_inside_the_gate() -> None:
    desk, seen = Desk().prepared(), list[Any]()
    agent = calling(tools_of(desk), [WRONG, [reply()]])
    run = agent.execute_tool_call

    def watched(tool_name: str, arguments: Any) -> Any:
        seen.append(tool_name)
        return run(tool_name, arguments)

    agent.execute_tool_call = watched
    play(desk, agent)
    assert seen == [REPLY, REPLY, "final_answer"]
    assert told(agent)[:2] == [desk.denial(ticket_id=OTHER, body=BODY), f"sent on {TICKET}"]


def test_what_traces_all_calls_of_tools_is_no_call_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    class Traced:
        """As tracing libraries do it: another object at each access."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __get__(self, thing: Any, kind: Any) -> Any:
            return self.inner.__get__(thing, kind) if thing is not None else lambda *args: self.inner(*args)

    monkeypatch.setattr(Tool, "__call__", Traced(Tool.__call__))
    desk = Desk().prepared()
    play(desk, agent := calling(tools_of(desk), [WRONG]))
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_an_override_that_code_never_comes_to() -> None:
    class Denies(CodeAgent):
        def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
            return "no"

    def build(desk: Desk) -> Any:
        return Denies(tools=tools_of(desk), model=Stub([WRONG_CODE], code=True), verbosity_level=-1)

    bare, desk = Desk().prepared(), Desk().prepared()
    build(bare).run("hi")
    assert len(bare.replies()) == 1
    play(desk, agent := build(desk))
    assert desk.replies() == []
    assert reason(told(agent)[0]) == desk.denial(ticket_id=OTHER, body=BODY)


def test_a_step_callback_comes_too_late() -> None:
    def stop(step: Any, agent: Any = None) -> None:
        raise RuntimeError("no")

    bare, desk = Desk().prepared(), Desk().prepared()
    with pytest.raises(RuntimeError, match="no"):
        calling(tools_of(bare), [WRONG], step_callbacks=[stop]).run("hi")
    assert len(bare.replies()) == 1
    with pytest.raises(RuntimeError, match="no"):
        play(desk, calling(tools_of(desk), [WRONG], step_callbacks=[stop]))
    assert desk.replies() == []


def test_code_does_not_run_on_as_if_the_act_had_happened() -> None:
    code = f"{as_code(reply(OTHER)).removeprefix('print')}\nfinal_answer('I have sent it.')"

    def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Deny in the way of a hook: with a text."""
        return "Denied, nothing was done."

    assert coding([Body(helpdesk_reply)], [code]).run("hi") == "I have sent it."  # and the model never read the denial

    desk = Desk().prepared()
    agent = coding(tools_of(desk), [code])
    assert play(desk, agent) == DONE
    assert desk.replies() == []
    assert reason(told(agent)[0]) == desk.denial(ticket_id=OTHER, body=BODY)
    assert desk.denial(ticket_id=OTHER, body=BODY) in agent.model.said[1]


def test_code_may_catch_a_denial_and_say_it() -> None:
    code = f"try:\n    {WRONG_CODE}\nexcept Exception as error:\n    print('caught:', error)"
    desk = Desk().prepared()
    play(desk, agent := coding(tools_of(desk), [code]))
    assert desk.replies() == []
    assert f"caught: {desk.denial(ticket_id=OTHER, body=BODY)}" in told(agent)[0]


def test_code_runs_in_a_thread_that_knows_no_session() -> None:
    threads, sessions = [], []
    desk = Desk()

    def look_up(ticket_id: str) -> str:
        """Read a ticket."""
        threads.append(threading.current_thread())
        sessions.append(desk.gate.current_session)
        return ticket_id

    code = as_code(ToolCall(LOOK, {"ticket_id": TICKET}))
    with desk.gate.session(SESSION):
        coding([Body(look_up)], [code]).run("hi")
    in_a_thread = threads[0] is not threading.current_thread()  # from 1.24 on
    assert sessions == [None if in_a_thread else SESSION]
    play(desk, coding([Body(look_up), *tools_of(desk)[:3]], [code]))
    assert sessions[1] == SESSION


async def test_a_run_in_a_thread_of_its_own_keeps_the_session() -> None:
    import asyncio

    desk = Desk().prepared()
    agent = calling(tools_of(desk), [[reply()]])
    install(agent, desk.gate)
    with desk.gate.session(SESSION):
        await asyncio.to_thread(agent.run, "hi")
    assert len(desk.replies()) == 1


@tool
def helpdesk_reply(ticket_id: str, body: str) -> str:
    """Send a reply.

    Args:
        ticket_id: the ticket
        body: the text
    """
    from pathlib import Path

    Path(body).write_text(ticket_id, "utf-8")
    return "sent"


def other_reply(path: Path) -> str:
    return f"(ticket_id={OTHER!r}, body={str(path)!r})"


@pytest.mark.parametrize("how", ["type(helper.tools['s']).forward", "helper.tools['s'].forward"])
def test_code_that_takes_the_body_off_the_tool(how: str, tmp_path: Path) -> None:
    fresh = type(helpdesk_reply)()  # each has the body on its class

    def build(tools: Sequence[Any]) -> Any:
        helper = calling([], [], name="helper", description="A helper.")
        helper.tools["s"] = fresh
        return coding(tools, [how + other_reply(tmp_path / "sent")], managed_agents=[helper])

    build([fresh]).run("hi")
    assert (tmp_path / "sent").read_text("utf-8") == OTHER
    (tmp_path / "sent").unlink()

    desk = Desk().prepared()
    play(desk, agent := build([fresh, *tools_of(desk)[1:]]))
    assert not (tmp_path / "sent").exists()
    assert "has no attribute" in told(agent)[0]


class Elsewhere:
    """What the remote executors do: they send the source of the tools, and run it there."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def send_variables(self, variables: Any) -> None:
        self.names.update(variables)

    def send_tools(self, tools: Any) -> None:
        sent = {name: one for name, one in tools.items() if name == REPLY}
        exec(get_tools_definition_code(sent), self.names)

    def __call__(self, code: str) -> Any:
        exec(code.replace("final_answer", "str"), self.names)
        return smolagents.local_python_executor.CodeOutput(None, "", "final_answer" in code)


def test_a_remote_executor_gets_the_source_without_what_was_put_around_it(tmp_path: Path) -> None:
    def build(tools: Sequence[Any]) -> Any:
        agent = coding(tools, [REPLY + other_reply(tmp_path / "sent")])
        agent.python_executor = Elsewhere()
        return agent

    desk, asked = Desk().prepared(), []
    wrapped = type(helpdesk_reply)()
    wrapped.forward = lambda **sent: asked.append(sent)
    build([wrapped]).run("hi")
    assert asked == []
    assert (tmp_path / "sent").exists()
    with pytest.raises(ConfigurationError, match="accept=: Elsewhere"):
        install(build([type(helpdesk_reply)(), *tools_of(desk)[1:]]), desk.gate)
    install(build([type(helpdesk_reply)(), *tools_of(desk)[1:]]), desk.gate, accept=["Elsewhere"])


def test_code_that_imports_what_acts_needs_no_tool() -> None:
    code = "import os\nprint(os.sep)"
    agent = coding([], [code], additional_authorized_imports=["os"])
    agent.run("hi")
    assert "/" in told(agent)[0]

    desk = Desk()

    def refused(*more: Any, **options: Any) -> str:
        with pytest.raises(ConfigurationError, match="not covered by the gate") as error:
            install(coding([*tools_of(desk), *more], [], **options), desk.gate)
        return str(error.value)

    assert "import os, import requests" in refused(additional_authorized_imports=["requests", "os"])
    assert "import *" in refused(additional_authorized_imports=["*"])
    assert "import os" in refused(PythonInterpreterTool(authorized_imports=["os"]))
    accepted = coding(tools_of(desk), [], additional_authorized_imports=["os", "math"])
    install(accepted, desk.gate, accept=["import os"])


# Arguments


def test_what_code_passes_by_position_is_checked_by_name() -> None:
    desk = Desk().prepared()
    lines = [
        f"print(helpdesk_reply({OTHER!r}, {BODY!r}))",
        f"print(helpdesk_reply({TICKET!r}, body={BODY!r}))",
        f"print(helpdesk_reply({{'ticket_id': {TICKET!r}, 'body': {BODY!r}}}))",
        f"print(helpdesk_reply({TICKET!r}, {BODY!r}, 'more'))",
        f"print(helpdesk_reply({TICKET!r}, {BODY!r}, body='twice'))",
        f"print(helpdesk_reply({{'ticket_id': {TICKET!r}, 'body': {BODY!r}, 'to': 'x'}}))",
    ]
    play(desk, agent := coding(tools_of(desk), lines))
    said = told(agent)
    assert reason(said[0]) == desk.denial(ticket_id=OTHER, body=BODY)
    assert all(f"sent on {TICKET}" in one for one in said[1:3])
    assert all("Denied, nothing was done" in one for one in said[3:6])
    assert len(desk.replies()) == 2


@pytest.mark.parametrize("text", ["[]", "null", '""', "0"])
def test_what_is_no_object_becomes_an_empty_call(text: str) -> None:
    ran: list[str] = []

    def helpdesk_reply(ticket_id: str = OTHER, body: str = BODY) -> str:
        """Send a reply."""
        ran.append(ticket_id)
        return "sent"

    calling([Body(helpdesk_reply)], [[ToolCall(REPLY, text)]]).run("hi")
    assert ran == [OTHER]
    desk = Desk().prepared()
    play(desk, agent := calling([Body(helpdesk_reply), *tools_of(desk)[1:]], [[ToolCall(REPLY, text)]]))
    assert ran == [OTHER]
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)  # what would have run, by the defaults


def test_a_text_in_place_of_the_arguments_goes_to_the_first_of_them() -> None:
    ran: list[str] = []

    def helpdesk_reply(ticket_id: str, body: str = BODY) -> str:
        """Send a reply."""
        ran.append(ticket_id)
        return "sent"

    turns = [[ToolCall(REPLY, OTHER)], [ToolCall(REPLY, TICKET)]]
    calling([Body(helpdesk_reply)], turns[:1]).run("hi")
    assert ran == [OTHER]
    desk = Desk().prepared()
    play(desk, agent := calling([Body(helpdesk_reply), *tools_of(desk)[1:]], turns))
    assert ran == [OTHER, TICKET]
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_defaults_that_the_model_does_not_send_are_checked_too() -> None:
    sent: list[str] = []

    def helpdesk_reply(ticket_id: str, body: str, public: str = "yes") -> str:
        """Send a reply."""
        sent.append(public)
        return "sent"

    desk = Desk().prepared()
    play(desk, agent := calling([Body(helpdesk_reply), *tools_of(desk)[1:]], [[reply()]]))
    assert sent == []
    assert "public" in told(agent)[0]


class Forwards(Tool):
    """As the tools of MCP and of other frameworks: the names are only in the schema."""

    name, description, output_type = REPLY, "Send a reply.", "string"
    inputs: ClassVar = {name: {"type": "string", "description": name} for name in ("ticket_id", "body")}
    skip_forward_signature_validation = True

    def __init__(self, sent: list[Any]) -> None:
        super().__init__()
        self.sent = sent

    def forward(self, *args: Any, **kwargs: Any) -> str:
        self.sent.append(args[0] if args else kwargs)
        return "sent"


def test_a_tool_that_only_forwards_is_checked_by_the_names_of_its_schema() -> None:
    right = {"ticket_id": TICKET, "body": BODY}
    bare: list[Any] = []
    Forwards(bare)({**right, "attachment_url": "https://files.example/x"})
    assert "attachment_url" in bare[0]  # a field that its schema doesn't have is forwarded

    desk, sent = Desk().prepared(), list[Any]()
    guarded = Forwards(sent)
    install([guarded, *tools_of(desk)[1:]], desk.gate)
    with desk.gate.session(SESSION):
        for args in ([{**right, "attachment_url": "x"}], [OTHER, BODY], [TICKET, BODY, "more"]):
            with pytest.raises(ActionDenied):
                guarded(*args)
        with pytest.raises(ActionDenied):
            guarded(TICKET, BODY, body="twice")
        assert sent == []
        assert [guarded(TICKET, BODY), guarded(right), guarded(TICKET, body=BODY), guarded(**right)] == ["sent"] * 4
    assert sent == [right] * 4


def test_arguments_that_change_during_the_check_do_not_reach_the_body() -> None:
    desk = Desk()
    to = ["lee@acme.example"]

    def verify(execution_id: str) -> Any:
        to.append("billing@elsewhere.example")
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

    install([guarded := Body(pay), *tools_of(desk)], desk.gate)
    with desk.gate.session(SESSION):
        assert guarded(ticket_id=TICKET, body=BODY, to=to) == "paid"
    assert ran == [["lee@acme.example"]]


# Names


def test_a_tool_under_another_name_than_its_own() -> None:
    def send(ticket_id: str, body: str) -> str:
        """Send a reply."""
        return desk.helpdesk_reply(ticket_id, body)

    desk = Desk().prepared()
    agent = calling([Body(send), *tools_of(desk)], [WRONG, [reply()]])
    agent.tools[REPLY] = agent.tools["send"]
    play(desk, agent)
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]

    coder = coding([Body(send), *tools_of(desk)], [WRONG_CODE])
    coder.tools[REPLY] = coder.tools["send"]
    play(desk, coder)
    assert len(desk.replies()) == 1


def test_a_tool_that_is_renamed_is_known_by_its_old_name() -> None:
    desk = Desk().prepared()
    tools = tools_of(desk)
    agent = calling(tools, [[ToolCall("send", {"ticket_id": OTHER, "body": BODY})]])
    install(agent, desk.gate)
    tools[0].name = "send"
    agent.tools["send"] = tools[0]
    with desk.gate.session(SESSION):
        agent.run("hi")
    assert desk.replies() == []
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


# Results


def test_a_denial_is_read_whatever_the_tool_should_have_given() -> None:
    desk = Desk().prepared()
    tools = [Body(desk.helpdesk_reply, output_type="image"), *tools_of(desk)[1:]]
    play(desk, agent := calling(tools, [WRONG]))
    assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)


def test_a_denial_beside_other_calls_leaves_what_they_say() -> None:
    def helpdesk_reply(ticket_id: str, body: str) -> str:
        """Deny in the way of `gate.wrap`: with an exception."""
        raise RuntimeError("denied")

    turn = [ToolCall(LOOK, {"ticket_id": TICKET}), reply(OTHER)]
    bare, desk = Desk(), Desk().prepared()
    agent = calling([Body(helpdesk_reply), *tools_of(bare)[1:]], [turn])
    agent.run("hi")
    assert len(bare.ran) == 1
    assert "a question on an invoice" not in told(agent)[0]  # it ran, and the model never heard of it
    play(desk, agent := calling(tools_of(desk), [turn]))
    assert told(agent)[0].splitlines()[0] == f"{TICKET}: a question on an invoice"
    assert desk.denial(ticket_id=OTHER, body=BODY) in told(agent)[0]


# Turns and sessions


def test_a05_what_one_piece_of_code_decides_counts_for_the_next() -> None:
    lines = [as_code(call) for call in (DECIDES, CHECKS, reply())]
    desk = Desk()
    play(desk, coding(tools_of(desk), ["\n".join(lines)]))
    assert desk.replies() == []  # its model wrote the reply before it could have seen the decision
    desk = Desk()
    play(desk, coding(tools_of(desk), ["\n".join(lines[:2]), lines[2]]))
    assert len(desk.replies()) == 1


def test_a05_what_calls_of_one_turn_decide_counts_for_the_next() -> None:
    desk = Desk()
    turns = [[DECIDES, CHECKS, reply()], [reply()]]
    play(desk, agent := calling(tools_of(desk), turns, max_tool_threads=1))  # one after the other, in threads still
    assert [name for name, _ in desk.ran] == [DECIDE, CHECK, REPLY]
    assert "no decision" in told(agent)[0]
    assert told(agent)[1] == f"sent on {TICKET}"


def test_a05_the_first_turn_of_the_next_run_is_another_turn() -> None:
    desk = Desk()
    agent = calling(tools_of(desk), [[DECIDES, CHECKS], [ToolCall("final_answer", {"answer": "x"})], [reply()]])
    play(desk, agent)
    assert desk.replies() == []
    with desk.gate.session(SESSION):
        agent.run("Please answer the ticket.")
    assert len(desk.replies()) == 1


def test_what_code_keeps_for_later_is_called_in_the_step_and_the_session_that_call_it() -> None:
    desk = Desk()
    code = [
        "def send(ticket, text):\n    return helpdesk_reply(ticket_id=ticket, body=text)\nkept = helpdesk_reply",
        f"{as_code(DECIDES)}\n{as_code(CHECKS)}\nprint(kept({TICKET!r}, {BODY!r}))",
        f"print(send({TICKET!r}, {BODY!r}))",
        f"final_answer({DONE!r})",
        f"print(kept({TICKET!r}, {BODY!r}))",
    ]
    agent = coding(tools_of(desk), code)
    play(desk, agent)
    assert "no decision" in told(agent)[1]
    assert f"sent on {TICKET}" in told(agent)[2]
    with desk.gate.session("another"):
        agent.run("hi", reset=False)
    assert "no decision" in told(agent)[4]
    assert len(desk.replies()) == 1


def test_two_runs_at_once_of_an_agent_that_writes_code_are_not_taken_for_each_other() -> None:
    desk = Desk().prepared()
    agent = coding(tools_of(desk), [])
    install(agent, desk.gate)
    agent.python_executor.send_tools(agent.tools)
    inside, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        go_on.wait(60)

    agent.python_executor.send_tools({**agent.tools, "wait": wait})
    thread = threading.Thread(target=agent.python_executor, args=("wait()",))
    thread.start()
    assert inside.wait(60)
    try:
        with desk.gate.session(SESSION), pytest.raises(Exception, match="runs twice at once"):
            agent.python_executor(as_code(reply()))
    finally:
        go_on.set()
        thread.join()
    assert desk.replies() == []


def test_a06_the_resolver_is_given_the_agent() -> None:
    desk = Desk().prepared()
    sessions = {"desk": SESSION, "other": "another"}
    for name in sessions:
        for build, script in ((calling, [reply()]), (coding, as_code(reply()))):
            agent = build(tools_of(desk), [script], name=name, description="A desk.")
            install(agent, desk.gate, session=lambda agent: sessions[agent.name])
            with desk.gate.session("yet another"):
                agent.run("hi")
    assert len(desk.replies()) == 2


def test_a06_a_stream_is_in_the_session_in_which_it_is_read() -> None:
    desk = Desk().prepared()
    agent = calling(tools_of(desk), [[reply()]])
    install(agent, desk.gate)
    with desk.gate.session(SESSION):
        steps = agent.run("hi", stream=True)
    list(steps)
    assert desk.replies() == []
    assert "session" in told(agent)[0]


# Agents that others call


def helped(desk: Desk, kind: str, helper: Any, turns: int = 1, **more: Any) -> Any:
    """A lead whose every turn is a task for the helper."""
    call = ToolCall("helper", {"task": "reply"})
    if kind == "code":
        return coding(tools_of(desk), [as_code(call)] * turns, managed_agents=[helper], **more)
    return calling(tools_of(desk), [[call]] * turns, managed_agents=[helper], **more)


def helper_of(tools: Sequence[Any], kind: str, script: Sequence[Sequence[ToolCall]]) -> Any:
    about = {"name": "helper", "description": "A helper."}
    if kind == "code":
        return coding(tools, ["\n".join(as_code(call) for call in turn) for turn in script], **about)
    return calling(tools, script, **about)


@pytest.mark.parametrize("lead", ["calls", "code"])
@pytest.mark.parametrize("inner", ["calls", "code"])
def test_a08_managed_agents_are_covered_and_share_the_session_of_the_call(lead: str, inner: str) -> None:
    bare, desk = Desk().prepared(), Desk().prepared()
    helped(bare, lead, helper_of(tools_of(bare), inner, [WRONG])).run("hi")
    assert len(bare.replies()) == 1

    helper = helper_of(tools_of(desk), inner, [WRONG, [reply()]])
    agent = helped(desk, lead, helper)
    play(desk, agent)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    assert desk.denial(ticket_id=OTHER, body=BODY) in told(helper)[0]
    assert DONE in told(agent)[0]  # what the helper answered


def test_a06_a_resolver_that_knows_only_the_lead() -> None:
    desk = Desk().prepared()
    agent = helped(desk, "code", helper_of(tools_of(desk), "code", [[reply()]]))
    install(agent, desk.gate, session=lambda one: SESSION if one is agent else None)
    agent.run("hi")
    assert len(desk.replies()) == 1


@pytest.mark.parametrize("lead", ["calls", "code"])
@pytest.mark.parametrize("inner", ["calls", "code"])
def test_a05_what_a_helper_decides_counts_from_the_lead_s_next_turn_on(lead: str, inner: str) -> None:
    desk = Desk()
    helper = helper_of(tools_of(desk), inner, [[DECIDES, CHECKS], [reply()]])
    task, act = ToolCall("helper", {"task": "decide"}), reply()
    if lead == "code":
        agent = coding(tools_of(desk), [f"{as_code(task)}\n{as_code(act)}"], managed_agents=[helper])
    else:
        agent = calling(tools_of(desk), [[task, act]], managed_agents=[helper])
    play(desk, agent)
    assert len(desk.replies()) == 1  # the helper's own next turn had seen it, the lead had not
    assert "no decision" in told(agent)[0]


@pytest.mark.parametrize("lead", ["calls", "code"])
def test_a_managed_agent_may_have_a_rule_of_its_own(lead: str) -> None:
    rule = {"outcomes": ["billing-question"], "entity": {"field": "task"}, "fields": ["task", "additional_args"]}
    desk = Desk(options={"tools": {REPLY: RULE, "helper": rule}}).prepared()
    helper = helper_of(tools_of(desk), "calls", [])
    calls = [ToolCall("helper", {"task": OTHER}), ToolCall("helper", {"task": TICKET})]
    if lead == "code":
        agent = coding(tools_of(desk), [as_code(call) for call in calls], managed_agents=[helper])
    else:
        agent = calling(tools_of(desk), [[call] for call in calls], managed_agents=[helper])
    play(desk, agent)
    assert "Denied, nothing was done" in told(agent)[0]
    assert DONE in told(agent)[1]
    assert len(helper.model.said) == 1
    with pytest.raises(ActionDenied):
        helper(OTHER)


def test_a_managed_agent_is_no_decision_tool() -> None:
    desk = Desk()
    desk.gate = create_action_gate(
        job=desk.authority.job, decision_tool="helper", tools={LOOK: {"outcomes": ["x"], "fields": ["ticket_id"]}},
        verify=desk.authority, describe=desk.authority,
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="no tool here is called helper"):
        install(helped(desk, "calls", helper_of(tools_of(desk), "calls", [])), desk.gate)


def test_a08_an_agent_that_a_tool_holds_is_covered() -> None:
    def build(desk: Desk) -> Any:
        helper = helper_of(tools_of(desk), "calls", [WRONG])

        def delegate(task: str) -> str:
            """Give a task to a colleague."""
            return str(helper.run(task))

        return calling([Body(delegate), *tools_of(desk)], [[ToolCall("delegate", {"task": "reply"})]])

    bare, desk = Desk().prepared(), Desk().prepared()
    build(bare).run("hi")
    assert len(bare.replies()) == 1
    play(desk, build(desk))
    assert desk.replies() == []


def test_a_tool_that_another_tool_calls_is_guarded_and_denied_with_an_exception() -> None:
    def build(desk: Desk) -> tuple[Any, list[str]]:
        inner, caught = Body(desk.helpdesk_reply), list[str]()

        def sends(ticket_id: str) -> str:
            """Send."""
            try:
                return str(inner(ticket_id=ticket_id, body=BODY))
            except ActionDenied as denied:
                caught.append(str(denied))
                return "not sent"

        turns = [[ToolCall("sends", {"ticket_id": OTHER})], [ToolCall("sends", {"ticket_id": TICKET})]]
        return calling([Body(sends), *tools_of(desk)[1:]], turns), caught

    bare, desk = Desk().prepared(), Desk().prepared()
    build(bare)[0].run("hi")
    assert len(bare.replies()) == 2
    agent, caught = build(desk)
    play(desk, agent)
    assert caught == [desk.denial(ticket_id=OTHER, body=BODY)]
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


# The answer


def test_the_answer_of_a_run_that_comes_to_its_end_goes_past_every_tool() -> None:
    ran: list[str] = []

    class Answer(FinalAnswerTool):
        def forward(self, answer: Any) -> Any:
            ran.append(answer)
            return answer

    look = [ToolCall(LOOK, {"ticket_id": TICKET})]
    agent = calling([Answer(), *tools_of(Desk())], [look, "free text"], max_steps=1)
    assert "free text" in agent.run("hi")
    assert ran == []

    rule = {"outcomes": ["billing-question"], "entity": {"field": "answer"}, "fields": ["answer"]}
    desk = Desk(options={"tools": {"final_answer": rule}}).prepared()
    with pytest.raises(ConfigurationError, match="accept=: final_answer"):
        install(calling([Answer(), *tools_of(desk)], []), desk.gate)


def test_an_answer_that_names_a_state_variable_is_filled_in_after_every_tool() -> None:
    agent = calling([], [[ToolCall("final_answer", {"answer": "first"})]])
    assert agent.run("hi", additional_args={"first": "second", "second": "what no tool saw"}) == "what no tool saw"


@pytest.mark.parametrize("kind", ["calls", "code"])
def test_a_denied_answer_does_not_end_the_run(kind: str) -> None:
    rule = {"outcomes": ["billing-question"], "entity": {"field": "answer"}, "fields": ["answer"]}
    desk = Desk(options={"tools": {"final_answer": rule}}).prepared()
    answers = [ToolCall("final_answer", {"answer": answer}) for answer in (OTHER, TICKET)]
    if kind == "code":
        agent = coding(tools_of(desk), [as_code(answer) for answer in answers])
    else:
        agent = calling(tools_of(desk), [[answer] for answer in answers])
    assert play(desk, agent, accept=["final_answer"]) == TICKET
    assert "Denied, nothing was done" in told(agent)[0]


def test_a_run_can_end_where_tools_without_a_rule_are_denied() -> None:
    desk = Desk(options={"unlisted": "deny"}).prepared()
    for build, script in ((calling, [ToolCall(LOOK, {"ticket_id": TICKET})]), (coding, "print(look_up('x'))")):
        agent = build(tools_of(desk), [script])
        assert play(desk, agent) == DONE
        assert "Denied, nothing was done" in told(agent)[0]
    assert desk.ran == []


# What is installed, and what is refused


def test_a08_tools_that_come_later_are_guarded() -> None:
    for build, script in ((calling, WRONG), (coding, WRONG_CODE)):
        desk = Desk().prepared()
        tools = tools_of(desk)
        agent = build(tools[1:], [script])
        with pytest.raises(ConfigurationError, match=f"no tool here is called {REPLY}"):
            install(agent, desk.gate)
        install(agent, desk.gate, accept=[REPLY])
        agent.tools[REPLY] = tools[0]
        with desk.gate.session(SESSION):
            agent.run("hi")
        assert desk.replies() == []
        assert desk.denial(ticket_id=OTHER, body=BODY) in told(agent)[0]


class OwnCall(Forwards):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return "sent"


class Plain(BaseTool):
    name, description, inputs, output_type = "plain", "Acts.", dict[str, Any](), "string"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return "done"

    def to_tool_calling_prompt(self) -> str:
        return "plain: Acts."

    to_code_prompt = to_tool_calling_prompt


class Odd(MultiStepAgent):
    def initialize_system_prompt(self) -> str:
        return ""


class Friend:
    """Something that can be called, and is no agent of smolagents."""

    name, description = "friend", "A friend."
    inputs: ClassVar[dict[str, Any]] = {}

    def __call__(self, task: str, **more: Any) -> str:
        return "done"


async def later(ticket_id: str, body: str) -> str:
    """Send later."""
    return "sent"


def piecewise(ticket_id: str, body: str) -> Any:
    """Send piece by piece."""
    yield "sent"


def test_a08_what_comes_in_the_middle_of_a_run_is_guarded() -> None:
    desk = Desk().prepared()
    helper = helper_of(tools_of(desk), "calls", [WRONG])
    helper.inputs, helper.output_type = {"task": {"type": "string", "description": "t"}}, "string"

    def more(step: Any, agent: Any = None) -> None:
        agent.managed_agents["helper"] = helper
        agent.tools["send"] = Body(desk.helpdesk_reply)

    send = ToolCall("send", {"ticket_id": OTHER, "body": BODY})
    turns = [[ToolCall(LOOK, {"ticket_id": TICKET})], [ToolCall("helper", {"task": "reply"})], [send]]
    play(desk, agent := calling(tools_of(desk), turns, step_callbacks=[more]))
    assert desk.replies() == []
    assert told(helper)[0] == told(agent)[2] == desk.denial(ticket_id=OTHER, body=BODY)


def test_a08_what_cannot_be_covered_is_refused_by_name() -> None:
    desk = Desk()

    def refused(*more: Any, build: Any = calling, **options: Any) -> str:
        with pytest.raises(ConfigurationError) as error:
            install(build([*tools_of(desk), *more], [], **options), desk.gate)
        return str(error.value).partition("accept=: ")[2]

    assert refused(Plain()) == "plain"
    assert refused(Body(later)) == "later"
    assert refused(Body(piecewise)) == "piecewise"
    assert refused(managed_agents=[Friend()]) == "friend"
    own = OwnCall([])
    with pytest.raises(ConfigurationError, match=f"accept=: {REPLY}"):
        install(calling([own, *tools_of(desk)[1:]], []), desk.gate)
    with pytest.raises(ConfigurationError, match="accept=: Odd"):
        install(Odd(tools=tools_of(desk), model=Stub([]), verbosity_level=-1), desk.gate)
    shared = LocalPythonExecutor([])
    agents = [coding(tools_of(desk), [], executor=shared) for _ in range(2)]
    with pytest.raises(ConfigurationError, match="LocalPythonExecutor"):
        install(agents, desk.gate)
    install(calling([*tools_of(desk), Plain()], []), desk.gate, accept=["plain"])
    with pytest.raises(ConfigurationError, match="the tools are: none"):
        install([], desk.gate)


def test_a08_what_cannot_be_covered_and_comes_later_ends_the_run() -> None:
    for build, script in ((calling, [ToolCall("plain", {})]), (coding, "plain()")):
        desk = Desk()
        agent = build(tools_of(desk), [script])
        install(agent, desk.gate)
        agent.tools["plain"] = Plain()
        with pytest.raises(ConfigurationError, match="plain"):
            agent.run("hi")


def test_a08_an_executor_that_comes_later() -> None:
    desk = Desk().prepared()
    agent = coding(tools_of(desk), [WRONG_CODE, as_code(reply())])
    install(agent, desk.gate)
    agent.python_executor = LocalPythonExecutor([])
    with desk.gate.session(SESSION):
        agent.run("hi")
    assert reason(told(agent)[0]) == desk.denial(ticket_id=OTHER, body=BODY)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]
    agent.python_executor = Elsewhere()
    with pytest.raises(ConfigurationError, match="Elsewhere"):
        agent.run("hi")


def test_a_copy_of_an_installed_agent_is_another_agent() -> None:
    desk = Desk().prepared()
    sessions = dict[Any, str]()
    for build, script in ((calling, [reply()]), (coding, as_code(reply()))):
        agent = build(tools_of(desk), [script])
        install(agent, desk.gate, session=lambda agent: sessions[id(agent)])
        sessions[id(agent)] = SESSION
        twin = copy.copy(agent)
        sessions[id(twin)] = "another"
        with pytest.raises(ConfigurationError, match="install it as well"):
            twin.run("hi")
        twin.memory, twin.model = copy.deepcopy(agent.memory), Stub([script], code=build is coding)
        if build is coding:
            with pytest.raises(ConfigurationError, match="LocalPythonExecutor"):
                install(twin, desk.gate)
            twin.python_executor = LocalPythonExecutor([])
        install(twin, desk.gate)
        twin.run("hi")
        assert "no decision" in told(twin)[0]
        agent.run("hi")
    assert len(desk.replies()) == 2


def test_a_tool_of_another_framework_makes_something_else_of_its_arguments() -> None:
    ran: list[Any] = []

    class Pays:
        """A LangChain tool, of which smolagents uses this much: its schema turns texts into numbers."""

        name, description = "pays", "Pay."
        args: ClassVar = {"amount": {"type": "integer"}, "ticket_id": {"type": "string"}}

        def run(self, given: Any) -> str:
            ran.append(int(given["amount"]))
            return "paid"

    coding([Tool.from_langchain(Pays())], ["pays(amount='5', ticket_id='HC-1201')"]).run("hi")
    assert ran == [5]
    rule = {"outcomes": ["billing-question"], "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "amount"]}
    desk = Desk(options={"tools": {REPLY: RULE, "pays": rule}}).prepared()
    agent = coding([Tool.from_langchain(Pays()), *tools_of(desk)], ["pays(amount=5, ticket_id='HC-9999')"])
    with pytest.raises(ConfigurationError, match="accept=: pays"):
        install(agent, desk.gate)
    play(desk, agent, accept=["pays"])
    assert ran == [5]
    assert "Denied, nothing was done" in told(agent)[0]
    install(coding([Tool.from_langchain(Pays()), *tools_of(Desk())], []), Desk().gate)  # without a rule it may stay


def test_functions_given_to_the_code_s_executor_know_the_session() -> None:
    desk = Desk().prepared()
    sends = desk.gate.wrap(REPLY, desk.helpdesk_reply)

    def build(desk: Desk) -> Any:
        executor = LocalPythonExecutor([], additional_functions={"sends": sends, "Kind": dict})
        script = f"print(sends({TICKET!r}, {BODY!r}))\nprint(isinstance(Kind(), Kind))"
        return coding(tools_of(desk), [script], executor=executor)

    play(desk, agent := build(desk))
    assert len(desk.replies()) == 1
    assert "True" in told(agent)[0]


def test_what_your_own_code_calls_is_guarded_too() -> None:
    desk = Desk().prepared()
    tools = tools_of(desk)
    install(tools, desk.gate)
    wrong, right = {"ticket_id": OTHER, "body": BODY}, {"ticket_id": TICKET, "body": BODY}
    with desk.gate.session(SESSION):
        for run in (tools[0], tools[0].forward):
            with pytest.raises(ActionDenied) as denied:
                run(**wrong)
            assert str(denied.value) == desk.denial(**wrong)
        assert tools[0](**right) == f"sent on {TICKET}"
    with pytest.raises(ActionDenied, match="session"):
        tools[0](**right)


def test_an_agent_that_is_installed_twice_asks_once() -> None:
    desk = Desk(options={"tools": {REPLY: {**RULE, "once": "decision"}}}).prepared()
    helper = helper_of(tools_of(desk), "code", [[reply()]])
    install(helper, desk.gate)
    agent = helped(desk, "code", helper)
    install(agent, desk.gate)
    play(desk, agent)
    assert len(desk.replies()) == 1


def test_two_gates_both_decide() -> None:
    desk, strict = Desk().prepared(), Desk()
    tools = tools_of(desk)
    for script, build in (([reply()], calling), (as_code(reply()), coding)):
        agent = build(tools, [script])
        install(agent, strict.gate)
        play(desk, agent)
        assert "no decision" in told(agent)[0]
    assert desk.replies() == []


def test_g42_in_observe_mode_the_call_runs_as_it_came() -> None:
    desk = Desk(options={"mode": "observe"}).prepared()
    play(desk, calling(tools_of(desk), [WRONG]))
    play(desk, coding(tools_of(desk), [WRONG_CODE]))
    assert [sent["ticket_id"] for sent in desk.replies()] == [OTHER, OTHER]


def test_an_installed_agent_is_still_what_it_was() -> None:
    desk = Desk()
    sends = type(helpdesk_reply)()
    before, text = coding([sends], [], name="desk", description="d"), sends.to_dict()
    described = before.to_dict()
    install([before, *tools_of(desk)], desk.gate)
    assert sends.to_dict() == text
    assert before.to_dict() == described
    assert isinstance(before, CodeAgent)
    assert isinstance(before.python_executor, LocalPythonExecutor)


# MCP


@pytest.mark.parametrize("structured", [True, False])
def test_mcp_tools_are_gated_and_their_results_recorded(structured: bool, tmp_path: Path) -> None:
    from mcp import StdioServerParameters

    desk, ran = Desk(), tmp_path / "ran"
    turns = [
        [ToolCall(DECIDE, {"entity_id": "HC-0"})],  # an error, which the client hands on as if it were none
        [reply()],
        [DECIDES],
        [CHECKS],
        [reply(OTHER)],
        [reply()],
    ]
    options: Any = {"structured_output": structured}
    with smolagents.MCPClient(StdioServerParameters(**canned_server(desk, ran)), **options) as tools:
        agent = calling(tools, turns)
        play(desk, agent)
    assert "no decision" in told(agent)[1]
    assert "Denied, nothing was done" in told(agent)[4]
    assert f"sent on {TICKET}" in told(agent)[5]
    assert [json.loads(line) for line in ran.read_text("utf-8").splitlines()] == [{"ticket_id": TICKET, "body": BODY}]


DASHES = """
from mcp.server.fastmcp import FastMCP
server = FastMCP("desk")
@server.tool(name="helpdesk-reply")
def reply(ticket_id: str, body: str) -> str:
    return "sent on " + ticket_id
server.run()
"""


def test_a07_a_name_that_the_mcp_client_changes_is_asked_for_as_it_is_here(tmp_path: Path) -> None:
    from mcp import StdioServerParameters

    (tmp_path / "server.py").write_text(DASHES, "utf-8")
    server = StdioServerParameters(command=sys.executable, args=[str(tmp_path / "server.py")])
    with smolagents.MCPClient(server, structured_output=False) as tools:
        desk = Desk(options={"tools": {"helpdesk-reply": RULE}})
        with pytest.raises(ConfigurationError, match=r"called helpdesk-reply; the tools are: .*helpdesk_reply"):
            install(calling([*tools, *tools_of(desk)[1:]], []), desk.gate)
        desk = Desk().prepared()
        play(desk, agent := calling([*tools, *tools_of(desk)[1:]], [WRONG, [reply()]]))
        assert told(agent)[0] == desk.denial(ticket_id=OTHER, body=BODY)
        assert f"sent on {TICKET}" in told(agent)[1]


# Around it


def test_a10_without_the_runtime_the_import_says_what_to_install() -> None:
    assert "pip install 'preaction[smolagents]'" in import_without("smolagents", "smolagents")


def test_the_example_runs() -> None:
    said = run_example("smolagents").splitlines()
    assert "sent on HC-1201: Hello, line 3 is the service fee." in said
    heard = [line for line in said if line.startswith("told: ")]
    assert heard[0].startswith("told: Denied, nothing was done: no decision was made in this session")
    assert heard[3] == "told: sent"


def test_the_page_s_code_runs() -> None:
    assert run_page("smolagents.md")["gate"].is_gated("reply")


async def test_what_the_adapter_adds_to_a_check() -> None:
    desk = Desk().prepared()
    bare, guarded = tools_of(desk)[0], tools_of(desk)
    install(guarded, desk.gate)

    def call(tool: Any) -> Any:
        async def one() -> None:
            tool(ticket_id=TICKET, body=BODY)

        return one

    with desk.gate.session(SESSION):
        found = await cost(desk, call(guarded[0]), call(bare))
    print(f"smolagents: a guarded tool costs {found:.2f} x one gate.acheck more than a bare one")
