"""The Claude Agent SDK: the real SDK and its bundled CLI, with a scripted model on the loopback."""

import asyncio
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("claude_agent_sdk", reason="runs in its own environment: make test-runtimes")

from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    CLIConnectionError,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from adapters.anthropic_stub import Stub, Turns
from adapters.around import checks_of
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
    reply,
)
from preaction import ActionGate, ConfigurationError, create_action_gate
from preaction.adapters.claude_agent_sdk import CHANGED, install
from preaction.testing import FakeAuthority

FRONT = "mcp__desk__"
SCHEMAS = {
    "helpdesk_reply": {"ticket_id": str, "body": str},
    "get_job_decision": {"entity_id": str},
    "check_output": {"body": str},
    "look_up": {"ticket_id": str},
}


def server(desk: Desk) -> Any:
    """The desk as an in-process server."""

    def made(body: Any) -> Any:
        @tool(body.__name__, body.__doc__, SCHEMAS[body.__name__])
        async def run(arguments: dict[str, Any]) -> dict[str, Any]:
            result = body(**arguments)
            text = result if isinstance(result, str) else json.dumps(result)
            return {"content": [{"type": "text", "text": text}]}

        return run

    return create_sdk_mcp_server("desk", tools=[made(body) for body in desk.bodies])


def options(desk: Desk, **more: Any) -> ClaudeAgentOptions:
    given = {"mcp_servers": {"desk": server(desk)}, "tools": [], "setting_sources": []}
    return ClaudeAgentOptions(**{**given, "allowed_tools": [FRONT + name for name in SCHEMAS], **more})


@contextmanager
def alone(stub: Stub) -> Iterator[None]:
    """A clean environment, a dummy key, and no way out: all but the loopback goes to a proxy that isn't there."""
    with tempfile.TemporaryDirectory() as home:
        clean = {
            "PATH": os.defpath,
            "HOME": home,
            "CLAUDE_CONFIG_DIR": str(Path(home) / "claude"),
            "ANTHROPIC_BASE_URL": stub.url,
            "ANTHROPIC_API_KEY": "sk-ant-api03-dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HTTPS_PROXY": "http://127.0.0.1:9",
            "HTTP_PROXY": "http://127.0.0.1:9",
            "NO_PROXY": "127.0.0.1",
        }
        with patch.dict(os.environ, clean, clear=True):
            yield


def play(
    given: ClaudeAgentOptions, turns: Turns, others: Mapping[str, Turns] | None = None
) -> tuple[Stub, ResultMessage | None]:
    """Play the script in the real CLI."""

    async def ask() -> ResultMessage | None:
        last = None
        async for message in query(prompt="Answer the ticket.", options=given):
            last = message if isinstance(message, ResultMessage) else last
        return last

    with Stub(turns, others) as stub, alone(stub):
        return stub, asyncio.run(ask())


def told(stub: Stub) -> list[str]:
    """What the model was told, without what the CLI puts before a hook's denial."""
    return [text.partition(" hook error: ")[2] if text.startswith("PreToolUse:") else text for text in stub.results]


def named(turns: Turns) -> list[list[ToolCall]]:
    return [[ToolCall(FRONT + call.name, call.arguments) for call in calls] for calls in turns]


class ClaudeHarness(Harness):
    shows_plain_text = False

    def run(
        self, desk: Desk, turns: Sequence[Sequence[ToolCall]], *, mode: str, session: str | None = SESSION
    ) -> Transcript:
        given = install(options(desk), desk.gate, session=lambda _: session or "")
        stub, last = play(given, named(turns))
        return Transcript(told(stub), ended=last is not None and last.result == "done")


class TestClaudeAgentSdk(Contract):
    harness = ClaudeHarness()


# What the bare runtime lets through, and the adapter does not ---------------------------------------------------------


def deny(text: str = "no") -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": text,
        }
    }


async def denies(*_: Any) -> dict[str, Any]:
    return deny()


def says_no_too_early(*_: Any) -> dict[str, Any]:
    return deny()  # no coroutine


IN_CAPITALS = {"hookEventName": "PreToolUse", "permissionDecision": "Deny"}
OTHER_EVENT = {"hookEventName": "PostToolUse", "permissionDecision": "deny"}
ASKS = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}

ANSWERS: dict[str, tuple[Any, str]] = {
    "raises": (RuntimeError("the user's own gate broke"), "unless it blocks"),
    "none": (None, "unless it blocks"),
    "text": ("no", "unless it blocks"),
    "list": ([], "unless it blocks"),
    "capitals": ({"hookSpecificOutput": IN_CAPITALS}, "unless it blocks"),
    "no event": ({"hookSpecificOutput": {"permissionDecision": "deny"}}, "unless it blocks"),
    "top level": ({"permissionDecision": "deny"}, "always"),
    "typo": ({"hookSpecificOutputs": deny()["hookSpecificOutput"]}, "always"),
    "snake case": ({"hook_specific_output": {"permission_decision": "deny"}}, "always"),
    "later": ({"async_": True}, "always"),
    "other event": ({"hookSpecificOutput": OTHER_EVENT}, "never"),
    "empty": (deny(""), "never"),
    "asks": ({"hookSpecificOutput": ASKS}, "never"),
    "hangs": (TimeoutError(), "never"),
    "stops": ({"continue_": False}, "always"),
}
"""What a hook of one's own answers, and when the CLI runs the tool all the same; the last ends the run."""


@pytest.mark.parametrize("blocks", [False, True])
def test_a02_a_hook_that_fails_or_speaks_wrongly_lets_the_tool_run(blocks: bool) -> None:
    async def answers(given: Any, tool_use_id: str | None, context: Any) -> Any:
        answer = ANSWERS[given["tool_input"]["ticket_id"]][0]
        if isinstance(answer, TimeoutError):
            await asyncio.sleep(6)
        if isinstance(answer, Exception):
            raise answer
        return answer

    failure: dict[str, Any] = {"on_failure": "block"} if blocks else {}
    own = HookMatcher(matcher=FRONT + REPLY, hooks=[answers], timeout=3, **failure)
    early = HookMatcher(matcher=FRONT + LOOK, hooks=[says_no_too_early], **failure)
    turns = [[ToolCall(LOOK, {"ticket_id": TICKET})], *([reply(how)] for how in ANSWERS)]
    for installed in (False, True):
        desk = Desk()
        given = options(desk, hooks={"PreToolUse": [own, early]})
        play(install(given, desk.gate) if installed else given, named(turns))
        runs = {how for how, (_, when) in ANSWERS.items() if when == "always" or (when != "never" and not blocks)}
        assert {one["ticket_id"] for one in desk.replies()} == (set() if installed else runs)
        assert ((LOOK, {"ticket_id": TICKET}) in desk.ran) is not blocks


def test_a07_a_matcher_that_is_not_the_whole_name_and_a_hook_in_the_wrong_place_are_never_called() -> None:
    matchers = ["helpdesk_reply", "mcp__desk", "mcp__desk__helpdesk", "MCP__DESK__HELPDESK_REPLY", "("]
    listed: list[Any] = [*(HookMatcher(matcher=one, hooks=[denies]) for one in matchers), {"hooks": [denies]}]
    hooks: Any = {"PreToolUse": listed, "PreTooluse": [HookMatcher(hooks=[denies])]}
    for installed in (False, True):
        desk = Desk()
        given = options(desk, hooks=hooks)
        play(install(given, desk.gate) if installed else given, named([[reply(OTHER)]]))
        assert len(desk.replies()) == (0 if installed else 1)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"allowed_tools": [], "permission_mode": "bypassPermissions", "env": {"IS_SANDBOX": "1"}},
        {"allowed_tools": [], "settings": json.dumps({"permissions": {"allow": [FRONT + REPLY]}})},
        {"allowed_tools": [], "hooks": {"PreToolUse": [HookMatcher(hooks=[lambda *_: allows()])]}},
    ],
    ids=["allowed_tools", "bypassPermissions", "settings", "hook"],
)
@pytest.mark.filterwarnings("ignore:can_use_tool will not be invoked")
def test_can_use_tool_is_not_asked_about_what_is_allowed_and_the_gate_is(more: dict[str, Any]) -> None:
    async def never(name: str, given: dict[str, Any], context: Any) -> PermissionResultDeny:
        asked.append(name)
        return PermissionResultDeny(message="no")

    for installed in (False, True):
        desk, asked = Desk().prepared(), list[str]()
        given = options(desk, can_use_tool=never, **more)
        given = install(given, desk.gate, session=lambda _: SESSION) if installed else given
        stub, _ = play(given, named([[reply(OTHER)]]))
        assert asked == []
        assert len(desk.replies()) == (0 if installed else 1)
    assert told(stub) == [desk.denial(ticket_id=OTHER, body=BODY)]


async def allows(*_: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}


async def test_a02_every_hook_of_the_adapter_blocks_when_it_fails_and_a_cancellation_leaves_as_it_came() -> None:
    async def cancelled(*_: Any, **__: Any) -> Any:
        raise asyncio.CancelledError

    desk = Desk()
    hooks = install(options(desk), desk.gate).hooks
    own = [matcher for matchers in hooks.values() for matcher in matchers]
    assert [(one.matcher, one.on_failure, one.timeout > 0) for one in own] == [(None, "block", True)] * len(own)
    vars(desk.gate).update(acheck=cancelled)
    given = {"session_id": "s", "tool_name": FRONT + REPLY, "tool_input": {}, "tool_use_id": "t"}
    with pytest.raises(asyncio.CancelledError):  # no reply: the CLI blocks when the time is over
        await hooks["PreToolUse"][0].hooks[0](given, "t", None)


SKIPS_HOOKS = pytest.mark.parametrize(
    "more", [{"extra_args": {"bare": None}}, {"env": {"CLAUDE_CODE_SIMPLE": "1"}}], ids=["bare", "simple"]
)


@SKIPS_HOOKS
def test_bare_the_cli_can_be_told_to_skip_hooks_even_those_that_block(more: dict[str, Any]) -> None:
    desk = Desk()
    hooks = {"PreToolUse": [HookMatcher(hooks=[denies], on_failure="block")]}
    play(options(desk, hooks=hooks, **more), named([[reply(OTHER)]]))
    assert len(desk.replies()) == 1


@SKIPS_HOOKS
def test_a08_options_that_skip_hooks_are_refused(more: dict[str, Any]) -> None:
    desk = Desk()
    with pytest.raises(ConfigurationError, match="skips hooks"):
        install(options(desk, **more), desk.gate)


def test_a08_an_inherited_variable_that_skips_hooks_is_refused_and_a_later_one_overruled() -> None:
    desk = Desk().prepared()
    with patch.dict(os.environ, {"CLAUDE_CODE_SIMPLE": "1"}), pytest.raises(ConfigurationError, match="skips hooks"):
        install(options(desk), desk.gate)
    given = install(options(desk), desk.gate, session=lambda _: SESSION)
    with (
        Stub(named([[reply(OTHER)], [reply()]])) as stub,
        alone(stub),
        patch.dict(os.environ, {"CLAUDE_CODE_SIMPLE": "1"}),
    ):
        asyncio.run(drain(given))
    assert told(stub)[0] == desk.denial(ticket_id=OTHER, body=BODY)
    assert len(desk.replies()) == 1


async def drain(given: ClaudeAgentOptions) -> None:
    async for _ in query(prompt="Answer the ticket.", options=given):
        pass


def test_in_process_tools_are_held_even_where_the_cli_skips_hooks() -> None:
    desk = Desk().prepared()
    given = install(options(desk), desk.gate, session=lambda _: SESSION)
    given.extra_args["bare"] = None  # after `install` looked
    stub, _ = play(given, named([[reply(OTHER)], [reply()]]))
    assert told(stub)[0] == desk.denial(ticket_id=OTHER, body=BODY)
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


def rewrites(arguments: dict[str, Any]) -> Any:
    async def hook(given: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        changed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": arguments}
        return {"hookSpecificOutput": changed}

    return hook


EVIL = {"ticket_id": OTHER, "body": "Changed."}


async def permits(name: str, given: dict[str, Any], context: Any) -> PermissionResultAllow:
    return PermissionResultAllow(updated_input=EVIL)


def in_settings() -> str:
    changed = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": EVIL}
    command = f"echo {shlex.quote(json.dumps({'hookSpecificOutput': changed}))}"
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]}})


@pytest.mark.parametrize(
    "more",
    [
        {"hooks": {"PreToolUse": [HookMatcher(hooks=[rewrites(EVIL)])]}},
        {"can_use_tool": permits, "allowed_tools": []},
        {"settings": in_settings()},
    ],
    ids=["hook", "can_use_tool", "settings"],
)
def test_what_rewrites_the_arguments_does_not_get_past_the_handler(more: dict[str, Any]) -> None:
    bare = Desk()
    play(options(bare, **more), named([[reply()]]))
    assert bare.replies() == [EVIL]  # whatever the other hooks were shown

    desk = Desk().prepared()
    stub, last = play(install(options(desk, **more), desk.gate, session=lambda _: SESSION), named([[reply()]]))
    assert desk.replies() == []
    assert told(stub) == [CHANGED]
    assert last is not None
    assert last.result == "done"

    desk = Desk(options={"mode": "observe"}).prepared()
    play(install(options(desk, **more), desk.gate, session=lambda _: SESSION), named([[reply()]]))
    assert desk.replies() == [EVIL]


@pytest.mark.parametrize("mode", ["enforce", "observe"])
async def test_a_call_that_the_hook_or_the_handler_cannot_read_is_denied_unless_the_gate_observes(mode: str) -> None:
    desk = Desk(options={"mode": mode}).prepared()
    before = install(options(desk), desk.gate).hooks["PreToolUse"][0].hooks[0]
    denied = mode == "enforce"
    assert bool(await before({"tool_name": FRONT + REPLY}, "t", None)) is denied  # nothing else of what it needs

    async def run(arguments: dict[str, Any]) -> str:
        return "ran"

    unreadable = SimpleNamespace(arguments={"ticket_id": TICKET}, meta=["no object"])
    assert (await before.__self__.call(FRONT + REPLY, unreadable, run) == "ran") is not denied


def test_the_cli_shows_the_denial_as_an_error_with_a_front_of_its_own() -> None:
    desk = Desk().prepared()
    stub, last = play(install(options(desk), desk.gate, session=lambda _: SESSION), named([[reply(OTHER)]]))
    denial = desk.denial(ticket_id=OTHER, body=BODY)
    assert list(stub.told.values()) == [(f"PreToolUse:{FRONT}{REPLY} hook error: {denial}", True)]
    assert last is not None
    assert [one["tool_name"] for one in last.permission_denials or ()] == [FRONT + REPLY]


# Sub-agents, sessions, servers outside -------------------------------------------------------------------------------


def agents(desk: Desk) -> ClaudeAgentOptions:
    helper = AgentDefinition(description="Answers tickets.", prompt="You answer tickets.")
    return options(
        desk, agents={"helper": helper}, tools=["Agent"], allowed_tools=["Agent", *(FRONT + name for name in SCHEMAS)]
    )


def spawn(marker: str) -> ToolCall:
    return ToolCall(
        "Agent", {"description": "Answer it", "prompt": marker, "subagent_type": "helper", "run_in_background": False}
    )


def test_a_sub_agent_passes_the_same_gate_in_the_same_session() -> None:
    desk = Desk()
    inner = named(
        [
            [ToolCall(DECIDE, {"entity_id": TICKET})],
            [ToolCall(CHECK, {"body": BODY})],
            [reply(OTHER)],
            [reply()],
        ]
    )
    given = install(agents(desk), desk.gate)
    play(given, [[spawn("SUB-1")], *named([[reply()]])], {"SUB-1": inner})
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}] * 2  # once each: inside, and outside afterwards


def test_a05_what_a_sub_agent_gets_last_does_not_count_for_a_call_beside_it() -> None:
    desk = Desk()
    inner = named([[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})]])
    stub, _ = play(
        install(agents(desk), desk.gate),
        [[spawn("SUB-1"), *named([[reply()]])[0]], *named([[reply()]])],
        {"SUB-1": inner},
    )
    assert len(desk.replies()) == 1
    assert told(stub)[1].startswith("Denied, nothing was done: no decision")  # the call beside; later it counts


def test_a08_rules_hold_for_the_cli_s_own_tools_and_for_the_one_that_starts_sub_agents(tmp_path: Path) -> None:
    made = tmp_path / "made"
    shell = ToolCall("Bash", {"command": f"touch {shlex.quote(str(made))}", "description": "-"})
    for installed in (False, True):
        desk = Desk()
        given = agents(desk)
        given.tools, given.allowed_tools = ["Agent", "Bash"], [*given.allowed_tools, "Bash"]
        if installed:
            given = install(given, rules({"Bash": {}, "Agent": {}}))
        stub, _ = play(given, [[shell], [spawn("SUB-1")]], {"SUB-1": named([[reply()]])})
        assert (made.exists(), len(desk.replies())) == ((False, 0) if installed else (True, 1))
        made.unlink(missing_ok=True)
    assert [text.startswith("Denied, nothing was done") for text in told(stub)] == [True, True]


def test_a06_a_session_goes_on_when_it_is_resumed_and_a_fork_is_a_new_one() -> None:
    desk = Desk()

    async def talk() -> list[str]:
        ids: list[str] = []
        for more in ({}, {"resume": 0}, {"resume": 0, "fork_session": True}):
            taken = {"resume": ids[0]} if more else {}
            given = install(options(desk, **{**more, **taken}), desk.gate)
            async for message in query(prompt="Go on.", options=given):
                ids += [message.session_id] if isinstance(message, ResultMessage) else []
        return ids

    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [], [reply()], [], [reply()]]
    with Stub(named(turns)) as stub, alone(stub):
        first, resumed, forked = asyncio.run(talk())
    assert first == resumed != forked
    assert len(desk.replies()) == 1
    assert "no decision" in told(stub)[-1]


def test_a06_a_session_is_the_cli_s_own_and_lasts_over_turns() -> None:
    desk, seen = Desk(), []

    def session(given: Mapping[str, Any]) -> None:
        seen.append(given["session_id"])

    async def talk() -> list[str]:
        ids = []
        async with ClaudeSDKClient(options=install(options(desk), desk.gate, session=session)) as client:
            for _ in range(2):
                await client.query("Go on.")
                ids += [one.session_id async for one in client.receive_response() if isinstance(one, ResultMessage)]
        return ids

    turns = [[ToolCall(DECIDE, {"entity_id": TICKET})], [ToolCall(CHECK, {"body": BODY})], [], [reply()], []]
    with Stub(named(turns)) as stub, alone(stub):
        ids = asyncio.run(talk())
    assert {*seen} == {*ids}
    assert len({*ids}) == 1
    assert desk.replies() == [{"ticket_id": TICKET, "body": BODY}]


OUTSIDE = """
import json, sys
log, decision = sys.argv[1], json.loads(sys.argv[2])
for line in sys.stdin:
    asked = json.loads(line)
    kind, params = asked.get("method"), asked.get("params", {})
    if kind == "initialize":
        info = {"name": "out", "version": "1"}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    elif kind == "tools/list":
        schema = {"type": "object"}
        result = {"tools": [{"name": name, "inputSchema": schema} for name in ("helpdesk_reply", "get_job_decision")]}
    elif kind == "tools/call":
        with open(log, "a") as ran:
            ran.write(json.dumps(params["arguments"]) + "\\n")
        result = {"content": [{"type": "text", "text": "see structured"}], "structuredContent": decision}
        result["isError"] = params["arguments"].get("entity_id") == "HC-0"
    else:
        result = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def outside(desk: Desk, path: Path, **more: Any) -> tuple[ClaudeAgentOptions, Any]:
    """The same desk as a server that the CLI starts; its decision tool answers in structured content."""
    decision = desk.authority.decide(TICKET)
    check = desk.authority.check_output(decision, {"body": BODY})
    script = path / "server.py"
    script.write_text(OUTSIDE)
    config = {
        "type": "stdio",
        "command": sys.executable,
        "args": [str(script), str(path / "ran"), json.dumps(decision)],
    }
    allowed = [FRONT + name for name in SCHEMAS]
    return options(desk, mcp_servers={"desk": config}, allowed_tools=allowed, **more), check


def test_a_server_outside_is_gated_by_the_hook_and_its_results_are_recorded(tmp_path: Path) -> None:
    desk = Desk()
    given, check = outside(desk, tmp_path)
    with pytest.raises(ConfigurationError, match="no tool here is called"):
        install(given, desk.gate)  # nobody can see from here what that server calls its tools

    async def shows_another(*_: Any) -> dict[str, Any]:
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "made up"}}

    given.hooks = {"PostToolUse": [HookMatcher(hooks=[shows_another])]}
    given = install(given, desk.gate, session=lambda _: SESSION, accept=[REPLY, DECIDE, CHECK])
    desk.gate.output_checks.record(SESSION, check)
    failed, right = ToolCall(DECIDE, {"entity_id": "HC-0"}), ToolCall(DECIDE, {"entity_id": TICKET})
    play(given, named([[failed], [reply()], [right], [reply(OTHER)], [reply()]]))
    assert ran_in(tmp_path) == [{"entity_id": "HC-0"}, {"entity_id": TICKET}, {"ticket_id": TICKET, "body": BODY}]


def test_what_accept_leaves_open_for_a_server_outside(tmp_path: Path) -> None:
    desk = Desk().prepared()
    given, _ = outside(desk, tmp_path, hooks={"PreToolUse": [HookMatcher(hooks=[rewrites(EVIL)])]})
    accept = [REPLY, DECIDE, CHECK, "PreToolUse"]
    play(install(given, desk.gate, session=lambda _: SESSION, accept=accept), named([[reply()]]))
    assert ran_in(tmp_path) == [EVIL]


def ran_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in (path / "ran").read_text().splitlines()]


OLD = """#!{python}
import json, sys
if "-v" in sys.argv or "--version" in sys.argv:
    print("2.1.0 (Claude Code)")
    sys.exit()
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("type") == "control_request":
        answer = {{"subtype": "success", "request_id": asked["request_id"], "response": {{"commands": []}}}}
        print(json.dumps({{"type": "control_response", "response": answer}}), flush=True)
"""


def test_a08_a_cli_that_can_not_block_is_not_started(tmp_path: Path) -> None:
    desk, cli = Desk(), tmp_path / "claude"
    cli.write_text(OLD.format(python=sys.executable))
    cli.chmod(0o755)
    with pytest.raises(CLIConnectionError, match="on_failure"):
        asyncio.run(drain(install(options(desk, cli_path=str(cli)), desk.gate)))


def rules(tools: Mapping[str, Mapping[str, Any]], **options: Any) -> ActionGate:
    authority = FakeAuthority()
    given = {tool: {"outcomes": ["billing-question"], "fields": [], **rule} for tool, rule in tools.items()}
    return create_action_gate(job=authority.job, tools=given, verify=authority, describe=authority, **options)


@pytest.mark.parametrize(
    ("more", "named_in_error"),
    [
        ({"hooks": {"PreToolUse": [HookMatcher(hooks=[denies])]}}, "PreToolUse"),
        ({"can_use_tool": denies}, "can_use_tool"),
        ({"permission_prompt_tool_name": "mcp__x__ask"}, "permission_prompt_tool_name"),
        ({"setting_sources": None}, "setting_sources"),
        ({"setting_sources": ["project"]}, "setting_sources"),
        ({"settings": "{}"}, "settings"),
        ({"plugins": [{"type": "local", "path": "p"}]}, "plugins"),
        ({"extra_args": {"settings": "{}"}}, "extra_args"),
    ],
)
def test_a08_what_could_change_a_call_outside_after_its_check_is_refused(
    more: dict[str, Any], named_in_error: str
) -> None:
    desk = Desk()
    desk.gate = rules({"desk__reply": {}}, decision_tool=f"desk__{DECIDE}", output_check_tool=f"{FRONT}{CHECK}")
    config = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    given = options(desk, mcp_servers={"desk": config}, **more)
    with pytest.raises(ConfigurationError, match=f"not covered .*{named_in_error}"):
        install(given, desk.gate)
    install(given, desk.gate, accept=[named_in_error])
    install(options(desk, **more), Desk().gate)  # in this process it makes no difference


def test_a08_a_rule_that_names_no_tool_is_refused() -> None:
    desk = Desk()
    given = options(desk, mcp_servers={"other": create_sdk_mcp_server("other", tools=[])})
    with pytest.raises(ConfigurationError, match=f"no tool here is called {CHECK}, {DECIDE}, {REPLY}"):
        install(given, desk.gate)


def test_a08_one_gate_is_installed_once() -> None:
    desk = Desk()
    given = install(options(desk), desk.gate)
    with pytest.raises(ConfigurationError, match="already"):
        install(given, desk.gate)
    install(given, Desk().gate)


def test_installing_leaves_the_user_s_own_options_and_server_as_they_were() -> None:
    desk = Desk()
    given = options(desk)
    install(given, desk.gate)
    assert given.hooks is None
    play(given, named([[reply(OTHER)]]))
    assert len(desk.replies()) == 1  # the ungated options stay ungated


def test_a07_names_that_the_cli_makes_equal_are_refused() -> None:
    desk = Desk()

    @tool("send.it", "…", {"a": str})
    async def first(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": []}

    @tool("send it", "…", {"a": str})
    async def second(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": []}

    servers = {"desk": server(desk), "x": create_sdk_mcp_server("x", tools=[first, second])}
    with pytest.raises(ConfigurationError, match="two in-process tools are called mcp__x__send_it"):
        install(options(desk, mcp_servers=servers), desk.gate)


def test_a07_a_rule_by_the_name_as_written_holds_for_the_name_that_the_cli_makes_of_it() -> None:
    desk = Desk()
    gate = rules({"my desk__send.it": {"fields": ["a"]}})

    @tool("send.it", "…", {"a": str})
    async def send(arguments: dict[str, Any]) -> dict[str, Any]:
        desk.ran.append((REPLY, arguments))
        return {"content": [{"type": "text", "text": "sent"}]}

    servers = {"my desk": create_sdk_mcp_server("my desk", tools=[send])}
    given = options(desk, mcp_servers=servers, allowed_tools=["mcp__my_desk__send_it"])
    as_written = {"PreToolUse": [HookMatcher(matcher="mcp__my desk__send.it", hooks=[denies])]}
    play(replace(given, hooks=as_written), [[ToolCall("mcp__my_desk__send_it", {"a": "b"})]])
    assert desk.ran.pop() == (REPLY, {"a": "b"})
    stub, _ = play(install(given, gate), [[ToolCall("mcp__my_desk__send_it", {"a": "b"})]])
    assert desk.ran == []
    assert told(stub)[0].startswith("Denied, nothing was done")


def test_a10_without_the_sdk_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['claude_agent_sdk'] = None; import preaction.adapters.claude_agent_sdk"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'preaction[claude-agent-sdk]'" in failed.stderr


# The example, the page, the cost --------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs() -> None:
    path = ROOT / "examples" / "claude_agent_sdk" / "desk.py"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, env=clean, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "no decision was made in this session" in ran.stdout
    assert ran.stdout.endswith("sent on HC-1201: Hello, line 3 is the service fee.\n")


def test_the_page_s_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = Path("docs/adapters/claude-agent-sdk.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "claude-agent-sdk.md", "exec"), names)
    assert names["options"].hooks.keys() >= {"PreToolUse", "PostToolUse", "PostToolBatch"}


def test_what_the_adapter_adds_to_a_check() -> None:
    """Hook, handler and result against one plain check; the CLI's own two round trips over a pipe are not in it."""
    desk = Desk().prepared()
    guarded = install(options(desk), desk.gate, session=lambda _: SESSION)
    arguments = {"ticket_id": TICKET, "body": BODY}
    before = guarded.hooks["PreToolUse"][0].hooks[0]
    guard = before.__self__
    params = SimpleNamespace(arguments=arguments, meta={"claudecode/toolUseId": "t"})
    given = {"session_id": "s", "tool_name": FRONT + REPLY, "tool_input": arguments, "tool_use_id": "t"}

    async def run(arguments: dict[str, Any]) -> str:
        return "sent"

    async def through(_: int) -> None:
        assert await before(given, "t", None) == {}
        assert await guard.call(FRONT + REPLY, params, run) == "sent"

    async def plain(_: int) -> None:
        assert (await desk.gate.acheck(SESSION, REPLY, arguments)).allow

    async def timed(step: Any) -> float:
        start = time.perf_counter()
        for turn in range(50):
            await step(turn)
        return time.perf_counter() - start

    async def ratio() -> float:
        return statistics.median([await timed(through) / await timed(plain) for _ in range(15)])

    asked = checks_of(desk)
    asyncio.run(through(0))
    assert asked == [REPLY], "hook and handler ask once between them"
    found = asyncio.run(ratio())
    print(f"claude_agent_sdk: hook and handler cost {found:.2f} x one gate.acheck")
