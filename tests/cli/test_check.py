"""`preaction check`, run as a command: the verdict on one call, in words and as JSON."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from preaction._core.denied import Code
from preaction.authority import FixedLookup, LocalAuthority
from preaction.cli.app import app
from preaction.cli.verdict_words import WHAT_TO_DO
from preaction.gate import ActionGate

ROOT = Path(__file__).resolve().parents[2]
BODY = "Hello, line 3 is the service fee. The billing team"
BILLING = {"topic": {"value": "billing", "source": "human"}}
LEDGER = {
    "HC-1204": {"amount": 19.0, "charged_twice": False},
    "HC-1202": {"amount": 240.0, "charged_twice": True},
}


def run(*words: object, stdin: str | None = None) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["check", *map(str, words)], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def desk() -> Iterator[tuple[LocalAuthority, str]]:
    """The help desk's authority, over HTTP."""
    local = LocalAuthority.from_pack(ROOT / "examples/helpdesk/pack.yaml", lookups={"ledger": FixedLookup(LEDGER)})
    with local, local.serve() as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FELSPAR_AGENT_KEY", local.agent_key)
        yield local, served.origin


@pytest.fixture
def rules(desk: tuple[LocalAuthority, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "gate.yaml"
    example = (ROOT / "examples/mcp_proxy/gate.yaml").read_text("utf-8")
    path.write_text(example.replace("http://127.0.0.1:8000", desk[1]))
    return path


def call(*results: Any, tool: str = "helpdesk_reply", **arguments: Any) -> str:
    fields = {"ticket_id": "HC-1204", "body": BODY, **arguments}
    return json.dumps({"results": list(results), "tool": tool, "arguments": fields}, indent=2)


@pytest.fixture
def results(desk: tuple[LocalAuthority, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A decision on HC-1204 and an output check of `BODY`."""
    decision = desk[0].decide("triage-ticket", entity_id="HC-1204", evidence=BILLING)
    checked = desk[0].check_output(decision["executionId"], output="billing-team-reply", content={"body": BODY})
    return decision, checked


def test_an_allowed_call(rules: Path, results: tuple[dict[str, Any], dict[str, Any]]) -> None:
    decision, checked = results
    Path("call.json").write_text(call(decision, checked))
    code, out, err = run(rules, "call.json")
    assert (code, err) == (0, "")
    lines = [re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "…", line) for line in out.splitlines()]
    assert lines == [
        "helpdesk_reply: allowed",
        "  ✓ fields    sets body, ticket_id",
        "  ✓ case      it is about HC-1204",
        "  ✓ fresh     decided at …, its evidence counts until …",
        f"  ✓ verified  the authority confirms {decision['executionId']}",
        "  ✓ pack      under release 2026-11-03.1 the outcome billing-question may write billing-team-reply",
        f"  ✓ text      exactly this text passed {checked['checkId']}",
    ]


def test_a_denied_call_says_why_and_what_to_do(rules: Path, results: tuple[dict[str, Any], dict[str, Any]]) -> None:
    code, out, _ = run(rules, stdin=call(results[0]))
    assert code == 1
    assert out.splitlines()[0] == "helpdesk_reply: denied, output_check_missing"
    assert out.splitlines()[-3:] == [
        "  ✗ text      no output check was made of exactly this text for this decision.",
        "  next step   Fix what check_output flagged, check it again, then retry.",
        "  what to do  have exactly this text checked for this decision, then send it unchanged",
    ]


def test_the_policys_own_words_are_quoted(rules: Path, desk: tuple[LocalAuthority, str]) -> None:
    decision = desk[0].decide("triage-ticket", entity_id="HC-1202", evidence=BILLING)
    code, out, _ = run(rules, stdin=call(decision, ticket_id="HC-1202"))
    assert code == 1
    assert out.splitlines()[4:] == [
        f"  ✓ verified  the authority confirms {decision['executionId']}",
        "  ✗ pack      the decision on this case does not let this tool do that.",
        "  - text      not reached",
        "  next step   Hand the ticket to the refunds lead. Don't reply.",
        "  escalation  refunds-lead: a refund of 100 or more. A refund of this size needs a person's name on it.",
        "  what to do  follow the next step: the rule or the pack lets other outcomes do this",
    ]


def test_without_a_decision(rules: Path) -> None:
    text = json.dumps({"tool": "helpdesk_reply", "arguments": {"ticket_id": "HC-1204", "body": BODY}})
    code, out, _ = run(rules, "-", stdin=text)
    assert (code, out.splitlines()[0]) == (1, "helpdesk_reply: denied, case_not_decided")


def test_as_json(rules: Path, results: tuple[dict[str, Any], dict[str, Any]]) -> None:
    decision, checked = results
    code, out, _ = run(rules, "--json", stdin=call(decision, checked, cc="x@y.example"))
    said = json.loads(out)
    assert (code, said["allow"], said["code"], said["failed"]) == (1, False, "field_not_allowed", "fields")
    assert said["checks"]["case"] == {"state": "not reached", "saw": {}}
    assert BODY not in out
    code, out, _ = run(rules, "--json", stdin=call(decision, checked))
    said = json.loads(out)
    assert (code, said["allow"], said["executionId"]) == (0, True, decision["executionId"])
    assert [each["state"] for each in said["checks"].values()] == ["passed"] * 6


def test_results_as_a_runtime_hands_them_over(rules: Path, results: tuple[dict[str, Any], dict[str, Any]]) -> None:
    decision, checked = results
    block = {"content": [{"type": "text", "text": json.dumps(checked)}], "isError": False}
    assert run(rules, stdin=call({"structuredContent": decision}, block))[0] == 0
    assert run(rules, stdin=call(json.dumps(decision), json.dumps(checked)))[0] == 0


def test_a_decision_of_another_job_is_said_not_to_count(
    rules: Path, results: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    code, out, _ = run(rules, stdin=call({**results[0], "job": "other"}))
    assert code == 1
    assert (
        "  note        a decision of the job 'other' doesn't count: the rules go by 'triage-ticket'" in out.splitlines()
    )


def test_tools_without_a_rule(rules: Path) -> None:
    code, out, _ = run(rules, stdin=call(tool="helpdesk_status"))
    assert (code, out.splitlines()[0]) == (0, "helpdesk_status: let through, not_gated")
    code, out, _ = run(rules, stdin=call(tool="Helpdesk-Reply"))
    assert (code, out.splitlines()[0]) == (1, "Helpdesk-Reply: denied, tool_name_suspect")


def test_a_rule_with_once_says_what_is_not_known(rules: Path, results: tuple[dict[str, Any], dict[str, Any]]) -> None:
    rules.write_text(rules.read_text() + "    once: decision\n")
    code, out, _ = run(rules, stdin=call(*results))
    assert code == 0
    assert "whether its one use is still free is not known here" in out


def test_observe_mode_denies_here_and_says_that_it_would_run(rules: Path) -> None:
    rules.write_text(rules.read_text() + "mode: observe\n")
    code, out, _ = run(rules, stdin=call())
    assert code == 1
    assert "  note        mode is 'observe': the call would run all the same" in out.splitlines()


def test_what_a_session_recorded_in_the_store(
    rules: Path, desk: tuple[LocalAuthority, str], results: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    decision, checked = results
    rules.write_text(rules.read_text() + "    once: decision\nstore: {sqlite: sessions.db}\n")
    arguments = {"ticket_id": "HC-1204", "body": BODY}
    bare = json.dumps({"tool": "helpdesk_reply", "arguments": arguments})
    code, out, err = run(rules, "--session", "chat-7", stdin=bare)
    assert (code, out) == (2, "")
    assert "isn't there, so it holds no session" in err
    assert not Path("sessions.db").exists()
    gate = ActionGate.from_file(rules)
    gate.decisions.record("chat-7", result=decision)
    gate.output_checks.record("chat-7", checked)
    for _ in range(2):  # nothing is used up by looking
        assert run(rules, "--session", "chat-7", stdin=bare)[0] == 0
    assert gate.check("chat-7", "helpdesk_reply", arguments).allow
    code, out, _ = run(rules, "--session", "chat-7", stdin=bare)
    assert (code, out.splitlines()[0]) == (1, "helpdesk_reply: denied, already_used")
    assert run(rules, "--session", "chat-8", stdin=bare)[0] == 1
    code, _, err = run(rules, "--session", "chat-7", stdin=call(decision))
    assert (code, "leave 'results' out" in err) == (2, True)


def test_a_session_needs_a_store(rules: Path) -> None:
    code, out, err = run(rules, "--session", "chat-7", stdin=call())
    assert (code, out, err) == (
        2,
        "",
        f"preaction: --session: {rules} names no store, so no session can be looked up\n",
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "stdin:1:1: not strict JSON: "),
        ('{"tool": "a",\n "arguments": {"a": 01}}', "stdin:2:22: not strict JSON: "),
        ("[]", "stdin:1:1: an object is needed: results, tool and arguments"),
        ('{"tool": "a", "tool": "b", "arguments": {}}', "stdin:1:15: the key 'tool' is repeated"),
        (
            '{"tool": "a",\n "args": {}, "arguments": {}}',
            "stdin:2:2: unknown key 'args'; there are results, tool, arguments",
        ),
        ('{"arguments": {}}', "stdin:1:1: 'tool' is needed: the name of the tool, as the rules have it"),
        ('{"tool": "a", "arguments": 5}', "stdin:1:28: 'arguments' is needed: an object"),
        ('{"tool": "a", "arguments": {}, "results": {}}', "stdin:1:43: a list is needed: "),
        ('{"tool": "a", "arguments": {}, "results": [5]}', "stdin:1:44: no decision and no output check can be read"),
        (
            '{"tool": "a", "arguments": {}, "results": [{"isError": true}]}',
            "stdin:1:44: the result is marked as an error",
        ),
        (
            '{"tool": "a", "arguments": {}, "results": [{"executionId": "exe_1", "job": 5}]}',
            "stdin:1:76: not a decision as the authority returns it: job: Input should be a valid string",
        ),
        (
            '{"tool": "a", "arguments": {}, "results": [{"checkId": "chk_1"}]}',
            "stdin:1:44: not an output check as the authority returns it: executionId: Field required",
        ),
    ],
)
def test_a_call_that_cannot_be_read_names_the_place(rules: Path, text: str, says: str) -> None:
    code, out, err = run(rules, stdin=text)
    assert (code, out) == (2, "")
    assert err.startswith(says), err


def test_a_file_that_is_not_there(rules: Path) -> None:
    code, out, err = run(rules, "none.json")
    assert (code, out, err) == (2, "", "preaction: none.json can't be read: No such file or directory\n")


def test_an_authority_that_cannot_be_asked_judges_nothing(
    rules: Path, results: tuple[dict[str, Any], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FELSPAR_AGENT_KEY", "another")
    code, out, _ = run(rules, stdin=call(*results))
    assert (code, out.splitlines()[0]) == (2, "helpdesk_reply: denied, verify_failed")
    monkeypatch.delenv("FELSPAR_AGENT_KEY")
    code, out, err = run(rules, stdin=call(*results))
    assert (code, out) == (2, "")
    assert "gate.yaml:3:16: the environment variable that is named here is not set" in err


def test_what_stands_in_a_call_moves_no_cursor(rules: Path) -> None:
    code, out, _ = run(rules, stdin=call(**{"\u202ea\x1b[2J": 1}, tool="helpdesk_reply"))
    assert code == 1
    assert out.isprintable() or out.replace("\n", "").replace("✓", "").replace("✗", "").isascii()
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_every_code_has_something_to_do() -> None:
    assert set(WHAT_TO_DO) == set(get_args(Code))
