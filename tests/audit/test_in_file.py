"""The key `audit` of a rules file: the records go where it says, and what can't be has its line and column."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kit import REPLY, SESSION, decided, reply, reply_rule
from preaction import ActionGate, ConfigurationError
from preaction.audit import records
from preaction.audit.chain_check import Check
from preaction.audit.parts import standing
from preaction.cli.app import app
from preaction.rules_file import CALLABLES
from preaction.testing import FakeAuthority

KEY = "k" * 32


def rules(folder: Path, audit: object) -> Path:
    path = folder / "gate.json"
    given = {"job": "triage-ticket", "tools": {REPLY: reply_rule()}, "audit": audit}
    path.write_text(json.dumps(given, indent=1))
    return path


def gate_of(path: Path, **environ: str) -> tuple[ActionGate, FakeAuthority]:
    authority = FakeAuthority()
    functions = dict.fromkeys(CALLABLES, authority)
    gate = ActionGate.from_file(path, environ=environ, clock=authority.clock, **functions)
    decided(gate, authority)
    return gate, authority


def test_the_records_go_to_the_file_beside_the_rules_with_its_key(tmp_path: Path) -> None:
    audit = {"jsonl": "trail.jsonl", "key_env": "TRAIL_KEY", "daily": True, "max_bytes": 1_000_000, "keep": ["body"]}
    gate, _ = gate_of(rules(tmp_path, audit), TRAIL_KEY=KEY)
    assert gate.check(SESSION, REPLY, reply()).allow
    trail = tmp_path / "trail.jsonl"
    (record,) = records(trail)
    assert record.arguments is not None
    assert record.arguments.view == reply()
    assert list(Check(KEY).findings("trail.jsonl", standing(trail))) == []
    with pytest.raises(ConfigurationError, match="this log has a key"):
        list(Check().findings("trail.jsonl", standing(trail)))


@pytest.mark.parametrize(("required", "code"), [(True, "gate_error"), (False, "allowed")])
def test_a_file_that_is_gone_denies_unless_it_is_not_required(tmp_path: Path, required: bool, code: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    gate, _ = gate_of(rules(tmp_path, {"jsonl": "logs/trail.jsonl", "required": required}))
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert gate.check(SESSION, REPLY, reply()).code == code


@pytest.mark.parametrize(
    ("audit", "why"),
    [
        ({}, "'jsonl' is needed"),
        ({"jsonl": ""}, "at least 1 character"),
        ({"jsonl": "a", "more": 1}, "unknown key 'more'"),
        ({"jsonl": "a", "required": "no"}, "valid boolean"),
        ({"jsonl": "a", "max_bytes": 0}, "greater than 0"),
        ({"jsonl": "a", "arguments": "all"}, "'redacted' or 'whole'"),
        ({"jsonl": "a", "key_env": "the key itself!"}, "should match pattern"),
        ({"jsonl": "a", "key_env": "NOT_SET"}, "the environment variable that is named here is not set"),
        ({"jsonl": "a", "key_env": "SHORT"}, "32 bytes at least"),
        ({"jsonl": "none/trail.jsonl"}, "can't be a log"),
        ({"jsonl": "a", "keep": [" to"]}, "is not a name"),
    ],
)
def test_what_cannot_be_has_its_place(tmp_path: Path, audit: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as caught:
        gate_of(rules(tmp_path, audit), SHORT="s3cr3t")
    assert "gate.json:" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert "the key itself" not in str(caught.value)


def test_without_its_package_the_rules_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "preaction.audit.jsonl_audit", None)
    with pytest.raises(ConfigurationError, match=r"gate\.json:.* pip install 'preaction\[pipeline\]'"):
        gate_of(rules(tmp_path, {"jsonl": "trail.jsonl"}))


def test_looking_at_rules_makes_no_trail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rules(tmp_path, {"jsonl": "trail.jsonl", "key_env": "NOT_SET"})
    given = json.loads(path.read_text())
    path.write_text(json.dumps({**given, "origin": "http://127.0.0.1:9", "agent_key_env": "AGENT_KEY"}))
    monkeypatch.setenv("AGENT_KEY", "k" * 40)
    call = tmp_path / "call.json"
    call.write_text(json.dumps({"tool": REPLY, "arguments": reply()}))
    for line in (["lint", "--offline", path], ["check", path, call]):
        done = CliRunner().invoke(app, [*map(str, line)])
        assert done.exit_code in (0, 1), done.output
        assert "NOT_SET" not in done.output
    assert {each.name for each in tmp_path.iterdir()} == {"gate.json", "call.json"}
