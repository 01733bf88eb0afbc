"""The hook for Claude Code's settings: one process for each event. The real CLI is in `test_claude_code_cli.py`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from adapters.contract import BODY, CHECK, DECIDE, OTHER, REPLY, SESSION, TICKET, Desk
from preaction.adapters._bridge import FAILED
from preaction.adapters.claude_code_hook import EVENTS, LOST, answer, names_of, settings
from preaction.authority import LocalAuthority
from preaction.cli.app import app
from preaction.errors import MisuseError
from preaction.stores.memory import MemoryStore
from preaction.stores.sqlite import SQLiteStore

ROOT = Path(__file__).resolve().parents[2]
FRONT = "mcp__desk__"
CALL = {"ticket_id": TICKET, "body": BODY}

FACTS = {"topic": "billing", "amount": 12.5, "charged_twice": False}
EVIDENCE = {name: {"value": value, "source": "human"} for name, value in FACTS.items()}

RULES = """\
origin: {origin}
agent_key_env: DESK_KEY
job: triage-ticket
decision_tool: get_job_decision
output_check_tool: check_output
deadline_s: 60
tools:
  helpdesk_reply:
    writes: billing-team-reply
    entity: {{field: ticket_id}}
    fields: [ticket_id, body]
    output_check: {{fields: [body]}}
store: {{sqlite: sessions.db}}
"""


class Cli:
    """What Claude Code tells its hooks, each to a gate of its own over one store."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.desk = Desk(options=options)
        self.path = folder / "sessions.db"
        self.options = options

    def tell(self, event: str, **given: Any) -> dict[str, Any] | None:
        store = SQLiteStore(self.path)
        gate = Desk(authority=self.desk.authority, options={"store": store, **self.options}).gate
        try:
            return answer(gate, store, {"hook_event_name": event, "session_id": SESSION, **given})
        finally:
            store.close()

    def before(self, tool: str, arguments: object, **given: Any) -> str | None:
        """The denial, or None."""
        said = self.tell("PreToolUse", tool_name=FRONT + tool, tool_input=arguments, **given)
        if said is None:
            return None
        assert said["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
        assert said["hookSpecificOutput"]["permissionDecision"] == "deny"
        reason = said["hookSpecificOutput"]["permissionDecisionReason"]
        assert isinstance(reason, str)
        return reason

    def after(self, tool: str, result: object, **given: Any) -> dict[str, Any] | None:
        return self.tell("PostToolUse", tool_name=FRONT + tool, tool_input={}, tool_response=result, **given)

    def decided(self, **given: Any) -> None:
        """The decision tool ran in the turn that goes on."""
        self.after(DECIDE, json.dumps(self.desk.get_job_decision(TICKET)), **given)

    def checked(self, **given: Any) -> None:
        result = json.dumps(self.desk.check_output(BODY))
        self.after(CHECK, [{"type": "text", "text": result}], **given)

    def next_turn(self, **given: Any) -> None:
        self.tell("PostToolBatch", **given)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_from_denied_to_allowed_over_processes_that_share_a_file(cli: Cli) -> None:
    assert "no decision" in str(cli.before(REPLY, CALL))
    assert cli.before(DECIDE, {"entity_id": TICKET}) is None
    cli.decided()
    cli.next_turn()
    assert "no output check" in str(cli.before(REPLY, CALL))
    cli.checked()
    cli.next_turn()
    assert cli.before(REPLY, CALL) is None
    assert "no decision" in str(cli.before(REPLY, {**CALL, "ticket_id": OTHER}))


def test_a_tool_without_a_rule_hears_nothing(cli: Cli) -> None:
    assert cli.before("look_up", {"ticket_id": TICKET}) is None
    assert cli.tell("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}) is None
    assert cli.after("look_up", "text") is None


def test_a_result_of_the_same_turn_does_not_count(cli: Cli) -> None:
    cli.decided()
    assert "no decision" in str(cli.before(REPLY, CALL))
    cli.next_turn()
    cli.checked()
    assert "no output check" in str(cli.before(REPLY, CALL))
    cli.tell("UserPromptSubmit", prompt="Go on")
    assert cli.before(REPLY, CALL) is None


def test_a_sub_agent_acts_on_what_it_decided_and_a_call_beside_it_does_not(cli: Cli) -> None:
    cli.decided(agent_id="a")
    cli.next_turn(agent_id="a")
    cli.checked(agent_id="a")
    cli.next_turn(agent_id="a")
    assert cli.before(REPLY, CALL, agent_id="a") is None
    assert "no decision" in str(cli.before(REPLY, CALL)), "its caller's turn still goes on"
    assert "no decision" in str(cli.before(REPLY, CALL, agent_id="b")), "so does the agent's beside it"
    cli.next_turn()
    assert cli.before(REPLY, CALL) is None
    assert cli.before(REPLY, CALL, agent_id="c") is None


def test_sessions_are_told_apart(cli: Cli) -> None:
    cli.decided()
    cli.checked()
    cli.next_turn()
    assert cli.before(REPLY, CALL) is None
    assert "no decision" in str(cli.before(REPLY, CALL, session_id="another"))


def test_a_rule_may_use_any_of_a_tool_s_names() -> None:
    assert names_of("mcp__desk__helpdesk_reply") == ("mcp__desk__helpdesk_reply", "desk__helpdesk_reply", REPLY)
    assert names_of("Bash") == ("Bash",)


@pytest.mark.parametrize("result", ["Error", [], None, {"isError": True, "content": []}, [{"type": "image"}]])
def test_what_is_no_result_of_the_authority_records_nothing(cli: Cli, result: object) -> None:
    assert cli.after(DECIDE, result) is None
    cli.next_turn()
    assert "no decision" in str(cli.before(REPLY, CALL))


@pytest.mark.parametrize("arguments", [None, "text", [1], {"ticket_id": TICKET}, {**CALL, "more": 1}])
def test_arguments_that_are_not_the_rule_s_are_denied(cli: Cli, arguments: object) -> None:
    cli.decided()
    cli.checked()
    cli.next_turn()
    assert cli.before(REPLY, arguments)


def test_a_result_that_cannot_be_recorded_ends_the_session(cli: Cli) -> None:
    class Full(MemoryStore):
        def put(self, session: str, slots: Any) -> bool:
            raise OSError("secret")

    store = Full()
    gate = Desk(authority=cli.desk.authority, options={"store": store}).gate
    given = {"hook_event_name": "PostToolUse", "session_id": SESSION, "tool_name": DECIDE}
    said = answer(gate, store, {**given, "tool_response": json.dumps(cli.desk.get_job_decision(TICKET))})
    assert said == {"continue": False, "stopReason": LOST}


def test_a_session_that_takes_no_more_records_ends(cli: Cli) -> None:
    store = MemoryStore(max_per_kind=1)
    gate = Desk(authority=cli.desk.authority, options={"store": store}).gate
    given = {"hook_event_name": "PostToolUse", "session_id": SESSION, "tool_name": DECIDE}
    for ticket, said in ((TICKET, None), (OTHER, None), (OTHER, {"continue": False, "stopReason": LOST})):
        result = json.dumps(cli.desk.get_job_decision(ticket))
        assert answer(gate, store, {**given, "tool_response": result}) == said


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"session_id": ""}, "no session_id"),
        ({"session_id": 7}, "no session_id"),
        ({"session_id": None}, "no session_id"),
        ({"hook_event_name": "Stop"}, "the hook is for PreToolUse"),
        ({"hook_event_name": None}, "the hook is for PreToolUse"),
    ],
)
def test_what_is_no_event_of_the_hook_is_an_error(cli: Cli, given: Mapping[str, Any], why: str) -> None:
    store = MemoryStore()
    event = {"hook_event_name": "PreToolUse", "session_id": SESSION, "tool_name": REPLY, **given}
    with pytest.raises(MisuseError, match=why):
        answer(Desk(options={"store": store}).gate, store, event)


def test_a_gate_that_fails_denies_with_a_text(cli: Cli) -> None:
    store = SQLiteStore(cli.path)
    gate = Desk(options={"store": store}).gate
    vars(gate).update(check=None)
    said = answer(gate, store, {"hook_event_name": "PreToolUse", "session_id": SESSION, "tool_name": REPLY})
    assert said is not None
    assert said["hookSpecificOutput"]["permissionDecisionReason"] == FAILED


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def authority() -> Iterator[tuple[LocalAuthority, str]]:
    pack = (ROOT / "examples/helpdesk/pack.yaml").read_text("utf-8")
    told = pack.replace("from: lookup, lookup: ledger", "from: caller")  # here the servers say what was charged
    with LocalAuthority.from_pack(told) as local, local.serve() as served:
        yield local, served.origin


@pytest.fixture
def rules(tmp_path: Path, authority: tuple[LocalAuthority, str]) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text(RULES.format(origin=authority[1]))
    return path


def ran(rules: Path, given: object, *options: str, key: str = "") -> Result:
    """The command, in this process."""
    text = given if isinstance(given, str) else json.dumps(given)
    arguments = ["hook", "--rules", str(rules), *options]
    return CliRunner().invoke(app, arguments, input=text.encode("utf-8", "surrogateescape"), env={"DESK_KEY": key})


def event(name: str, tool: str, **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": SESSION, "tool_name": FRONT + tool, **more}


def test_the_command_denies_and_allows_over_a_real_authority(
    rules: Path, authority: tuple[LocalAuthority, str]
) -> None:
    local, _ = authority
    call = event("PreToolUse", REPLY, tool_input=CALL)
    first = ran(rules, call, key=local.agent_key)
    assert first.exit_code == 0, first.stderr
    denial = json.loads(first.stdout)["hookSpecificOutput"]
    assert denial["permissionDecision"] == "deny"
    assert denial["permissionDecisionReason"].startswith("Denied, nothing was done: no decision")
    decision = local.decide("triage-ticket", entity_id=TICKET, evidence=EVIDENCE)
    check = local.check_output(decision["executionId"], output="billing-team-reply", content={"body": BODY})
    for tool, result in ((DECIDE, decision), (CHECK, check)):
        for given in (event("PostToolUse", tool, tool_response=json.dumps(result)), event("PostToolBatch", "")):
            done = ran(rules, given, key=local.agent_key)
            assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    allowed = ran(rules, call, key=local.agent_key)
    assert (allowed.exit_code, allowed.stdout, allowed.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "text", ["", "{bad", "[1]", "null", '"text"', "{}", '{"hook_event_name": "PreToolUse"}', "\xff"]
)
def test_what_is_no_event_blocks(rules: Path, text: str) -> None:
    done = ran(rules, text, key="fsp_agent_1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("preaction: ")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("store: {sqlite: sessions.db}", "", "the hook needs a store"),
        ("sessions.db", "none/sessions.db", "can't be a store"),
        ("writes:", "wries:", "did you mean 'writes'?"),
        ("DESK_KEY", "NO_KEY", "not set"),
    ],
)
def test_rules_that_cannot_be_right_block_and_say_where(rules: Path, old: str, new: str, why: str) -> None:
    rules.write_text(rules.read_text().replace(old, new))
    done = ran(rules, event("PreToolUse", REPLY, tool_input=CALL), key="fsp_agent_1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr
    assert str(rules) in done.stderr


def test_as_a_process_it_blocks_with_exit_code_2_and_denies_with_0(rules: Path) -> None:
    command = [sys.executable, "-c", "from preaction.cli import main; main()", "hook", "--rules", str(rules)]
    call = json.dumps(event("PreToolUse", REPLY, tool_input=CALL))
    for text, status in (("{bad", 2), (call, 0)):
        done = subprocess.run(
            command, input=text, env={**os.environ, "DESK_KEY": "fsp_agent_1"}, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert bool(done.stdout) is (status == 0)


def test_an_authority_that_is_away_denies(rules: Path) -> None:
    rules.write_text(rules.read_text().replace(rules.read_text().split()[1], "http://127.0.0.1:9"))
    done = ran(rules, event("PreToolUse", REPLY, tool_input=CALL), key="fsp_agent_1")
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_hook_that_hangs_ends_itself_and_blocks(rules: Path) -> None:
    code = f"""
import sys, time
import preaction.cli.hook as hook
hook.LIMIT_S = 0.5
hook._gate = lambda rules: time.sleep(60)
sys.argv = ["preaction", "hook", "--rules", {str(rules)!r}]
from preaction.cli.app import app
app()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input="{}", capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 2
    assert "did not come to an end" in done.stderr


def test_the_printed_settings_name_every_event_and_block_on_any_failure(rules: Path) -> None:
    done = ran(rules, "", "--print-config")
    assert done.exit_code == 0, done.stderr
    hooks = json.loads(done.stdout)["hooks"]
    assert tuple(hooks) == EVENTS
    commands = {hook["command"] for entries in hooks.values() for entry in entries for hook in entry["hooks"]}
    (command,) = commands
    assert command.endswith(f"hook --rules {rules} || exit 2")
    for broken in ("exit 1", "exit 127", "kill -9 $$", "no-such-command"):
        (one,) = settings(f"sh -c '{broken}'")["hooks"]["PreToolUse"][0]["hooks"]
        assert subprocess.run(one["command"], shell=True, check=False, capture_output=True).returncode == 2


def test_settings_need_a_store_too(rules: Path) -> None:
    rules.write_text(rules.read_text().replace("store: {sqlite: sessions.db}", ""))
    done = ran(rules, "", "--print-config")
    assert (done.exit_code, done.stdout) == (2, "")


def test_the_example_and_the_page_are_rules_that_the_hook_takes(tmp_path: Path) -> None:
    page = (ROOT / "docs/adapters/claude-code.md").read_text("utf-8")
    (on_page,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    example = (ROOT / "examples/claude_code/gate.yaml").read_text("utf-8")
    for text in (on_page, example):
        path = tmp_path / "gate.yaml"
        path.write_text(text)
        printed = json.loads(ran(path, "", "--print-config").stdout)["hooks"]["PreToolUse"]
        hook = json.loads(shown)["hooks"]["PreToolUse"][0]["hooks"][0]
        assert printed[0]["hooks"][0].keys() == hook.keys()
        assert hook["command"].endswith(" || exit 2")
