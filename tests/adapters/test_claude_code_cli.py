"""Claude Code's own CLI with `preaction hook` in its settings: real processes, a scripted model on the loopback."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="runs in its own environment: make test-runtimes")

import claude_agent_sdk

from adapters.anthropic_stub import Stub, Turns
from adapters.contract import BODY, CHECK, DECIDE, OTHER, REPLY, TICKET, ToolCall, reply
from adapters.test_claude_code_hook import EVIDENCE, RULES
from preaction.adapters.claude_code_hook import settings
from preaction.authority import LocalAuthority

ROOT = Path(__file__).resolve().parents[2]
CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
FRONT = "mcp__desk__"
HOOK = [sys.executable, "-c", "from preaction.cli import main; main()", "hook", "--rules"]
DECIDES, CHECKS = ToolCall(DECIDE, {"entity_id": TICKET}), ToolCall(CHECK, {"body": BODY})


@pytest.fixture(scope="module")
def authority() -> Iterator[tuple[LocalAuthority, str]]:
    pack = (ROOT / "examples/helpdesk/pack.yaml").read_text("utf-8")
    told = pack.replace("from: lookup, lookup: ledger", "from: caller")  # here the servers say what was charged
    with LocalAuthority.from_pack(told) as local, local.serve() as served:
        yield local, served.origin


class World:
    """A folder with rules, settings and an MCP server; `play` runs the CLI in it."""

    def __init__(self, folder: Path, authority: tuple[LocalAuthority, str]) -> None:
        local, origin = authority
        self.folder = folder
        self.rules = folder / "gate.yaml"
        self.rules.write_text(RULES.format(origin=origin))
        decision = local.decide("triage-ticket", entity_id=TICKET, evidence=EVIDENCE)
        check = local.check_output(decision["executionId"], output="billing-team-reply", content={"body": BODY})
        self.key = local.agent_key
        self._ran = folder / "ran"
        self.answers = {"DECISION": json.dumps(decision), "CHECK": json.dumps(check), "RAN": str(self._ran)}
        self.hooks: dict[str, Any] = settings(shlex.join([*HOOK, str(self.rules)]))

    @property
    def ran(self) -> list[Any]:
        lines = self._ran.read_text().splitlines() if self._ran.exists() else []
        return [json.loads(line) for line in lines]

    def play(self, turns: Turns, others: Mapping[str, Turns] | None = None, *options: str) -> list[str]:
        """What the model was told, call by call, without what the CLI puts before a hook's denial."""
        server = {"command": sys.executable, "args": [str(Path(__file__).with_name("canned_desk.py"))]}
        servers = {"mcpServers": {"desk": {**server, "env": {"PATH": os.environ["PATH"], **self.answers}}}}
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        with Stub(named(turns), {name: named(one) for name, one in (others or {}).items()}) as stub:
            environ = {
                "PATH": os.defpath, "HOME": str(home), "DESK_KEY": self.key, "CLAUDE_CONFIG_DIR": str(home / "claude"),
                "ANTHROPIC_BASE_URL": stub.url, "ANTHROPIC_API_KEY": "sk-ant-api03-dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                "HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
            }  # fmt: skip
            command = [
                str(CLI), "-p", "Answer the ticket.", "--output-format", "json",
                "--settings", json.dumps(self.hooks), "--mcp-config", json.dumps(servers), "--strict-mcp-config",
                "--tools", "", "--setting-sources", "",
                "--allowedTools", ",".join([f"{FRONT}{name}" for name in (REPLY, DECIDE, CHECK)] + ["Agent", "Task"]),
                *options,
            ]  # fmt: skip
            done = subprocess.run(
                command, env=environ, cwd=self.folder, capture_output=True, text=True, check=False, timeout=300,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            self.said = done.stdout + done.stderr
            return [text.partition(" hook error: ")[2] if " hook error: " in text else text for text in stub.results]


@pytest.fixture
def world(tmp_path: Path, authority: tuple[LocalAuthority, str]) -> World:
    return World(tmp_path, authority)


def named(turns: Turns) -> list[list[ToolCall]]:
    return [[ToolCall(FRONT + call.name, call.arguments) if call.name in (REPLY, DECIDE, CHECK) else call
             for call in calls] for calls in turns]  # fmt: skip


def test_denied_then_decided_checked_and_allowed(world: World) -> None:
    told = world.play([[reply()], [DECIDES], [reply()], [CHECKS], [reply(OTHER)], [reply()]])
    assert len(told) == 6, world.said
    assert told[0].startswith('Denied, nothing was done: no decision was made in this session on "HC-1201"')
    assert "no output check" in told[2]
    assert 'no decision was made in this session on "HC-9999"' in told[4]
    assert world.ran == [{"ticket_id": TICKET, "body": BODY}]


def test_decided_and_acted_in_one_turn_is_denied(world: World) -> None:
    told = world.play([[DECIDES], [CHECKS, reply()], [reply()]])
    assert "no output check" in told[2], (told, world.said)
    assert world.ran == [{"ticket_id": TICKET, "body": BODY}], "only in the turn after"


@pytest.mark.parametrize("broken", ["exit 1", "no-such-command", "kill -9 $$", "python3 -c 'raise SystemExit(3)'"])
def test_a_hook_that_fails_lets_the_tool_run_and_ours_blocks_it(world: World, broken: str) -> None:
    command = f"sh -c {shlex.quote(broken)}"
    bare = {"type": "command", "command": command, "timeout": 60}
    world.hooks = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [bare]}]}}
    world.play([[reply()]])
    assert len(world.ran) == 1, "open in the bare CLI"
    world.hooks = settings(command)
    world.play([[reply()]])
    assert len(world.ran) == 1, "closed as the settings are printed"


def test_rules_that_cannot_be_read_block(world: World) -> None:
    world.rules.write_text("job: [")
    told = world.play([[reply()]])
    assert (told, world.ran) == ([], []), "not even the user's words go through"
    assert "gate.yaml:1:" in world.said


def test_without_the_event_that_ends_a_turn_nothing_ever_counts(world: World) -> None:
    del world.hooks["hooks"]["PostToolBatch"]
    told = world.play([[DECIDES], [CHECKS], [reply()]])
    assert world.ran == []
    assert "no decision" in told[2]


def test_a_result_that_cannot_be_recorded_ends_the_session(world: World) -> None:
    spoil = "for kept in sessions.db*; do echo nothing > $kept; done"
    after = {"matcher": f"{FRONT}{DECIDE}", "hooks": [{"type": "command", "command": spoil, "timeout": 60}]}
    told = world.play([[DECIDES], [reply()]])
    assert "no output check" in told[1]
    world.hooks["hooks"]["PreToolUse"].append(after)
    told = world.play([[DECIDES], [CHECKS], [reply()]])
    assert world.ran == []


def test_a_hook_that_hangs_is_over_before_the_cli_ends_it(world: World) -> None:
    """The CLI takes a hook that it has to end for one without an opinion; ours ends itself before."""
    (hook,) = settings("true")["hooks"]["PreToolUse"][0]["hooks"]
    from preaction.cli import hook as command

    assert hook["timeout"] > command.LIMIT_S + 10
    bare = {"type": "command", "command": "sleep 30", "timeout": 1}
    world.hooks = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [bare]}]}}
    world.play([[reply()]])
    assert len(world.ran) == 1


def test_what_one_event_costs(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a Python that only starts: the hook is a process for each event."""
    environ = {**os.environ, "DESK_KEY": world.key}
    given = json.dumps({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {}})

    def took(command: Sequence[str]) -> float:
        start = time.perf_counter()
        subprocess.run(command, input=given, env=environ, text=True, check=True, capture_output=True)
        return time.perf_counter() - start

    ours, bare = (min(took(command) for _ in range(5)) for command in ([*HOOK, str(world.rules)], [sys.executable, "-c", ""]))  # fmt: skip  # noqa: E501
    with capsys.disabled():
        print(f"\none event of the hook: {ours / bare:.1f} x a Python that only starts ({bare * 1000:.0f} ms)")
