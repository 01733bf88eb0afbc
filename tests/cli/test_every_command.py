"""What holds for every command: `--json`, exit codes, help. A new command has it too, or says here why not."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from docs.pages import ROOT
from kit import REPLY, SESSION, decided, helpdesk, reply
from preaction.authority import FixedLookup, LocalAuthority
from preaction.cli.app import COMMANDS, app
from preaction.cli.exit_codes import EXIT_CODES
from preaction.pipeline import JsonlAudit

NO_JSON = {
    "hook": "its stdout is what Claude Code reads",
    "mcp": "its stdout is the protocol's",
    "proxy": "its stdout is the protocol's",
}
LINES = {"watch", "replay", "backtest", "audit-chain", "audit verify"}
"""Commands whose JSON is one document on each line."""

ELSEWHERE = {
    ("watch", 130): ("cli/test_watch.py", "(130, "),
    ("serve", 0): ("cli/test_commands.py", 'assert (process.returncode, out, err) == (0, "", "")'),
    ("conformance", 1): ("conformance/test_conformance.py", "assert done.exit_code == 1"),
    ("proxy", 0): ("adapters/test_mcp_proxy.py", "assert proxy.returncode == 0"),
    ("proxy", 1): ("adapters/test_mcp_proxy.py", "proxy_and_its_exit_code_says_so"),
    ("mcp", 0): ("adapters/test_authority_mcp.py", 'assert (done.returncode, done.stdout, done.stderr) == (0, "", "")'),
}
"""What needs a process of its own, another authority or a runtime: the test that shows it, and by what."""


def walked(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from walked(command, f"{before}{name} ")
        else:
            yield before + name, command


ALL = dict(walked(typer.main.get_command(app)))


def run(words: list[str], **options: Any) -> Any:
    done = CliRunner().invoke(app, words, **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def options_of(name: str) -> set[str]:
    return {option for each in ALL[name].params for option in each.opts}


# ---------------------------------------------------------------- what each command has


def test_every_command_has_its_exit_codes() -> None:
    assert ALL.keys() == COMMANDS.keys() == EXIT_CODES.keys()
    assert all(set(codes) >= {0, 2} for codes in EXIT_CODES.values())


@pytest.mark.parametrize("name", ALL)
def test_its_help_says_all_of_its_docstring_and_its_exit_codes(name: str) -> None:
    said = " ".join(run([*name.split(), "--help"], env={"COLUMNS": "300", "TERM": "dumb"}).stdout.split())
    for paragraph in (COMMANDS[name].__doc__ or "").split("\n\n"):
        assert " ".join(paragraph.split()) in said
    for code, means in EXIT_CODES[name].items():
        assert f" {code} {means}" in said
    assert "xit code" not in said.replace("Exit codes:", "")


def test_the_page_has_one_table_of_them() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    table = page[page.index("## Exit codes") : page.index("## Completion")]
    rows = re.findall(r"^\| `([a-z -]+)` \| (.+) \| (.*) \| (.+) \|$", table, re.MULTILINE)
    assert rows == [(name, codes[0], codes.get(1, ""), codes[2]) for name, codes in EXIT_CODES.items()]
    assert {code for codes in EXIT_CODES.values() for code in codes} - {0, 1, 2} == {130}
    assert "130" in table


def test_every_command_stands_on_a_page_with_what_it_prints() -> None:
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md")]
    blocks = [
        block for page in pages for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    ]
    printed = [
        line
        for block in blocks
        for line in re.findall(r"^\$ (?:\w+=\S+ )?preaction (.+)\n(?!\$ )", block, re.MULTILINE)
    ]
    shown = {name for name in COMMANDS for line in printed if f"{line} ".startswith(f"{name} ")}
    assert shown == COMMANDS.keys()


def test_every_command_has_json_or_a_reason_why_not() -> None:
    assert {name for name in ALL if "--json" not in options_of(name)} == NO_JSON.keys()


# ---------------------------------------------------------------- the help desk


RULES = """\
origin: {}
agent_key_env: DESK_KEY
job: triage-ticket
decision_tool: get_job_decision
output_check_tool: check_output
tools:
  helpdesk__reply:
    writes: billing-team-reply
    entity: {{field: ticketId}}
    fields: [ticketId, body]
    output_check: {{fields: [body]}}
    recipients: []
unlisted: deny
store: {{sqlite: sessions.db}}
"""
BODY = {"body": "Line 3 is the service fee.\nThe billing team"}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the help desk's files; the authority of its pack answers meanwhile."""
    folder = tmp_path_factory.mktemp("desk")
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _packs()
        _databases()
        _trails()
        ledger = FixedLookup({"HC-1204": {"amount": 19.0, "charged_twice": False}})
        authority = opened.enter_context(LocalAuthority.from_pack(Path("pack.yaml"), DB, lookups={"ledger": ledger}))
        patch.setenv("ORIGIN", opened.enter_context(authority.serve()).origin)
        patch.setenv("DESK_KEY", authority.agent_key)
        _decided(authority, patch)
        yield folder


DB = "sqlite:///desk.db"


def _packs() -> None:
    text = (ROOT / "examples/helpdesk/pack.yaml").read_text("utf-8")
    newer = text.replace("2026-11-03.1", "2026-12-01")
    packs = {
        "pack": text,
        "narrower": newer.replace("max_chars: 1200", "max_chars: 600"),
        "wider": newer.replace("facts.amount >= 100.0", "facts.amount >= 500.0"),
        "wrong": "pack: 1\n",
    }
    for name, content in packs.items():
        Path(f"{name}.yaml").write_text(content, "utf-8")
    Path("empty").touch()


def _databases() -> None:
    """One in which a row was altered behind the authority's back."""
    with LocalAuthority.from_pack(
        Path("pack.yaml"), "sqlite:///altered.db", lookups={"ledger": FixedLookup({})}
    ) as one:
        one.decide("triage-ticket", entity_id="HC-1", evidence={})
    with closing(sqlite3.connect("altered.db")) as connection, connection:
        connection.execute("UPDATE executions SET release = 'other'")


def _trails() -> None:
    gate, authority = helpdesk(audit=JsonlAudit("trail.jsonl", durable=False))
    decided(gate, authority)
    for body in (BODY["body"], reply()["body"]):
        gate.check(SESSION, REPLY, reply(body=body))
    text = Path("trail.jsonl").read_text("utf-8")
    Path("altered.jsonl").write_text(text.replace('"allow": true', '"allow": false'), "utf-8")
    Path("half.jsonl").write_text(text + "no record\n", "utf-8")


def _decided(authority: LocalAuthority, patch: pytest.MonkeyPatch) -> None:
    evidence = {"topic": {"value": "billing", "source": "human"}}
    decision = authority.decide("triage-ticket", entity_id="HC-1204", evidence=evidence)
    checked = authority.check_output(decision["executionId"], output="billing-team-reply", content=BODY)
    revoked = authority.decide("triage-ticket", entity_id="HC-9", evidence={})["executionId"]
    authority.revoke(revoked)
    call = {"tool": REPLY, "arguments": {"ticketId": "HC-1204", **BODY}}
    for name, results in {"allowed": [decision, checked], "denied": [decision]}.items():
        Path(f"{name}.json").write_text(json.dumps({"results": results, **call}), "utf-8")
    rules = RULES.format(os.environ["ORIGIN"])
    Path("gate.yaml").write_text(rules, "utf-8")
    Path("mistaken.yaml").write_text(rules.replace("team-reply", "team-replay"), "utf-8")
    Path("jwks.json").write_text(json.dumps(authority._storage.jwks()), "utf-8")
    Path("receipt.jws").write_text(decision["receipt"], "utf-8")
    Path("forged.jws").write_text(decision["receipt"][:-8] + "AAAAAAAA", "utf-8")
    patch.setenv("DECISION", decision["executionId"])
    patch.setenv("REVOKED", revoked)
    patch.setenv("KEY", json.loads(run(["keys", "create", "--db", DB, "--pack", "helpdesk"]).stdout)["key"])


ENDS = [
    ("init", 0, "new --yes"),
    ("init", 2, "new"),
    ("lint", 0, "gate.yaml"),
    ("lint", 1, "mistaken.yaml"),
    ("lint", 2, "none.yaml"),
    ("check", 0, "gate.yaml allowed.json"),
    ("check", 1, "gate.yaml denied.json"),
    ("check", 2, "gate.yaml empty"),
    ("explain", 0, "trail.jsonl"),
    ("explain", 2, "empty"),
    ("watch", 0, "trail.jsonl --once"),
    ("watch", 1, "half.jsonl --once"),
    ("watch", 2, "none.jsonl --once"),
    ("replay", 0, "trail.jsonl"),
    ("replay", 1, "altered.jsonl"),
    ("replay", 2, "empty"),
    ("backtest", 0, "trail.jsonl --rules gate.yaml"),
    ("backtest", 1, "trail.jsonl --rules mistaken.yaml"),
    ("backtest", 2, "trail.jsonl --rules empty"),
    ("report", 0, "trail.jsonl --output report.html"),
    ("report", 2, "empty --output report.html"),
    ("serve", 2, "--pack wrong.yaml"),
    ("proxy", 2, "--rules empty -- true"),
    ("mcp", 2, "--origin $ORIGIN --agent-key-env NO_KEY"),
    ("conformance", 0, "--origin $ORIGIN --agent-key-env DESK_KEY --line jwks"),
    ("conformance", 2, "--origin http://127.0.0.1:9 --agent-key-env DESK_KEY"),
    ("hook", 0, "--rules gate.yaml --print-config"),
    ("hook", 2, "--rules gate.yaml"),
    ("retain", 0, f"--db {DB} --older-than P1D --dry-run"),
    ("retain", 2, f"--db {DB} --older-than soon"),
    ("verify", 0, "$DECISION --origin $ORIGIN --agent-key-env DESK_KEY"),
    ("verify", 0, "--offline receipt.jws --jwks jwks.json"),
    ("verify", 1, "$REVOKED --origin $ORIGIN --agent-key-env DESK_KEY"),
    ("verify", 1, "--offline forged.jws --jwks jwks.json"),
    ("verify", 2, "$DECISION --origin http://127.0.0.1:9 --agent-key-env DESK_KEY"),
    ("audit-chain", 0, f"--db {DB}"),
    ("audit-chain", 1, "--db sqlite:///altered.db"),
    ("audit-chain", 2, "--db sqlite:///none.db"),
    ("audit verify", 0, "trail.jsonl"),
    ("audit verify", 1, "altered.jsonl"),
    ("audit verify", 2, "empty"),
    ("pack check", 0, "pack.yaml"),
    ("pack check", 2, "wrong.yaml"),
    ("pack diff", 0, "pack.yaml narrower.yaml"),
    ("pack diff", 1, "pack.yaml wider.yaml"),
    ("pack diff", 2, "pack.yaml wrong.yaml"),
    ("keys create", 0, f"--db {DB} --pack helpdesk"),
    ("keys create", 2, f"--db {DB} --pack helpdesk --jobs ,"),
    ("keys revoke", 0, f"--db {DB} $KEY"),
    ("keys revoke", 2, f"--db {DB} none"),
    ("keys rotate", 0, f"--db {DB}"),
    ("keys rotate", 2, "--db sqlite:///none.db"),
]


def test_every_exit_code_is_tried_here_or_elsewhere() -> None:
    here = {(name, code) for name, code, _ in ENDS}
    assert here | ELSEWHERE.keys() == {(name, code) for name, codes in EXIT_CODES.items() for code in codes}
    assert not here & ELSEWHERE.keys()
    for file, shows in ELSEWHERE.values():
        assert shows in (ROOT / "tests" / file).read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "code", "words"), ENDS, ids=[f"{name} {code} {words[:30]}" for name, code, words in ENDS]
)
def test_the_help_desk_gets_this_exit_code_and_json_alone(desk: Path, name: str, code: int, words: str) -> None:
    given = [*name.split(), *os.path.expandvars(words).split()]
    if name != "init":
        assert run(given, input="").exit_code == code
    if name in NO_JSON:
        return
    at = given.index("--") if "--" in given else len(given)
    done = run([*given[:at], "--json", *given[at:]], input="")
    assert done.exit_code == code
    said = [json.loads(line) for line in done.stdout.splitlines()] if name in LINES else [json.loads(done.stdout)]
    assert all(isinstance(each, dict) for each in said)
    assert ("errors" in said[-1]) is (code == 2)
    assert all(each["message"] in done.stderr for each in said[-1].get("errors", ()))
