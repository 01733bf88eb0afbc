"""`preaction lint`, run as a command: what it prints, its exit codes, and that the examples' rules are right."""

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lint.world import CURRENT, ROOT, RULES, authority
from preaction.authority import FixedLookup, LocalAuthority
from preaction.cli.app import app

EXAMPLES = ROOT / "examples"
OWN_TOOLS = ("--accept", "get_job_decision", "--accept", "check_output")
FUNCTIONS = """\
def helpdesk_reply(ticket_id: str, body: str, cc: list[str] = ()): ...
def helpdesk_note(ticket_id: str, text: str, public: bool = True): ...
def helpdesk_refund(ticket_id: str): ...
"""


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["lint", *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with authority() as local, local.serve() as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_KEY", local.agent_key)
        yield served.origin


@pytest.fixture
def rules(origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A good file and its tools, in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lint_tools.py").write_text(FUNCTIONS)
    monkeypatch.delitem(sys.modules, "lint_tools", raising=False)
    path = tmp_path / "gate.yaml"
    path.write_text(RULES.format(origin=origin))
    return path


def seeded(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


def test_good_rules_and_what_was_looked_at(rules: Path) -> None:
    said = f"nothing is wrong\nlooked at: the file by itself, release {CURRENT}"
    assert run("gate.yaml") == (0, f"{said}; not at: the tools (--mcp, --tools)\n", "")
    assert run("gate.yaml", "--tools", "lint_tools", *OWN_TOOLS) == (0, f"{said}, 3 tools\n", "")
    offline = (
        "nothing is wrong\nlooked at: the file by itself; not at: the release (--offline), the tools (--mcp, --tools)\n"
    )
    assert run("gate.yaml", "--offline") == (0, offline, "")


def test_findings_are_told_with_their_place_and_what_to_do(rules: Path) -> None:
    seeded(rules, ("writes: billing-team-reply", "writes: billing-reply"), ("    recipients_at: [desk.example]\n", ""))
    code, out, err = run("gate.yaml")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "gate.yaml:7:3: warning recipients-unlimited",
        "    the case comes from a field, so its recipients can be anyone; limit them with 'recipients_at'",
        "    do: list in 'recipients_at' the domains or addresses that it may write to",
        "gate.yaml:8:13: error unknown-output",
        '    the job has no output "billing-reply"',
        '    do: write "billing-team-reply"',
        "1 error, 1 warning",
        f"looked at: the file by itself, release {CURRENT}; not at: the tools (--mcp, --tools)",
    ]


def test_findings_as_json(rules: Path) -> None:
    seeded(rules, ("tools:", "mode: observe\ntools:"))
    code, out, _ = run("gate.yaml", "--json")
    assert code == 0
    assert json.loads(out) == {
        "file": "gate.yaml",
        "releases": [CURRENT],
        "tools": None,
        "findings": [
            {
                "code": "not-enforced",
                "severity": "warning",
                "line": 6,
                "column": 7,
                "problem": "every call goes through, whatever the verdict",
                "remedy": "leave 'mode' out as soon as the verdicts are what you want",
            }
        ],
    }


def test_warnings_count_when_they_shall_and_hints_never(rules: Path) -> None:
    seeded(rules, ("output_check_tool: check_output\n", ""))
    assert run("gate.yaml", "--strict")[0] == 0
    seeded(rules, ("    recipients_at: [desk.example]\n", ""))
    assert run("gate.yaml")[0] == 0
    assert run("gate.yaml", "--strict")[0] == 1


def test_a_file_of_another_format_has_places_too(rules: Path) -> None:
    toml = rules.with_suffix(".toml")
    toml.write_text('job = "triage-ticket"\n[tools.reply]\nwrites = "a"\nfields = ["body"]\nrecipients_at = []\n')
    code, out, _ = run("gate.toml", "--offline")
    assert code == 1
    assert "gate.toml:5:17: error no-recipient" in out.splitlines()


def test_names_from_a_file_are_plain_ascii(rules: Path) -> None:
    seeded(rules, ("fields: [ticket_id, text]", 'fields: [ticket_id, text, "\\u202eétat.*"]'))
    code, out, _ = run("gate.yaml", "--offline")
    assert (code, out.isascii()) == (0, True)
    assert "    '\\u202e\\xe9tat.*' lets anything through below it" in out.splitlines()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["none.yaml"], "preaction: none.yaml: it can't be read (No such file or directory)"),
        (["gate.yaml", "--tools", "lint_none"], "preaction: the module lint_none can't be imported: "),
        (["gate.yaml", "--mcp", "a", "--tools", "b"], "preaction: --mcp and --tools are two places"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line(rules: Path, words: list[str], says: str) -> None:
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(says)


def test_an_mcp_server_needs_the_sdk(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "preaction.lint.mcp_listing", raising=False)
    said = "preaction: --mcp needs more packages: pip install 'preaction[proxy]'\n"
    assert run("gate.yaml", "--mcp", "python server.py") == (2, "", said)


def test_a_file_that_cannot_be_right_names_each_place(rules: Path) -> None:
    seeded(rules, ("fields: [ticket_id, text]", "feilds: [ticket_id, text]"))
    code, out, err = run("gate.yaml")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "gate.yaml:15:5: 'fields' is needed",
        "gate.yaml:17:5: unknown key 'feilds'; did you mean 'fields'?",
    ]


def test_an_authority_that_cannot_be_asked_is_one_line(rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_KEY", "another")
    code, out, err = run("gate.yaml")
    assert (code, out) == (2, "")
    assert err == "preaction: describe_job: the authority answered with status 401\n"
    monkeypatch.delenv("DESK_KEY")
    assert run("gate.yaml")[0] == 2
    seeded(rules, ("origin: http", "origin: http://127.0.0.1:9 #"))
    monkeypatch.setenv("DESK_KEY", "key")
    code, out, err = run("gate.yaml")
    assert (code, out, err.count("\n")) == (2, "", 1)
    seeded(rules, ("origin", "# origin"))
    assert run("gate.yaml") == (2, "", "gate.yaml:2:1: 'origin' is needed: where the authority is\n")


def test_looking_makes_no_store(rules: Path) -> None:
    seeded(rules, ("tools:", "store: {sqlite: sessions.db}\ntools:"))
    assert run("gate.yaml")[0] == 0
    assert not (rules.parent / "sessions.db").exists()


# ---------------------------------------------------------------- the examples

RULE_FILES = sorted(path.relative_to(ROOT).as_posix() for path in EXAMPLES.glob("*/gate.*"))
JOBS = {"helpdesk": "triage-ticket", "email": "qualify-company", "nightly_job": "renew-contract"}


def rules_in_python(folder: str) -> dict[str, Any]:
    """The rules that stand in an example's program."""
    sys.path.insert(0, str(EXAMPLES / folder))
    try:
        if folder == "helpdesk":
            tools: dict[str, Any] = runpy.run_path(str(EXAMPLES / folder / "rules.py"))["TOOLS"]
        elif folder == "email":
            tools = runpy.run_path(str(EXAMPLES / folder / "send.py"))["TOOLS"]
        else:
            rule = runpy.run_path(str(EXAMPLES / folder / "night.py"))["RENEW"]
            tools = {"renew": rule.model_dump(exclude_unset=True)}
    finally:
        sys.path.remove(str(EXAMPLES / folder))
    return tools


def test_there_are_rule_files_among_the_examples() -> None:
    assert {"examples/claude_code/gate.yaml", "examples/mcp_proxy/gate.yaml"} <= set(RULE_FILES)


@pytest.mark.parametrize("file", RULE_FILES)
def test_the_rule_files_of_the_examples_are_right(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = LocalAuthority.from_pack(EXAMPLES / "helpdesk/pack.yaml", lookups={"ledger": FixedLookup({})})
    with desk as local, local.serve() as served:
        monkeypatch.setenv("FELSPAR_AGENT_KEY", local.agent_key)
        path = tmp_path / Path(file).name
        path.write_text((ROOT / file).read_text("utf-8").replace("http://127.0.0.1:8000", served.origin))
        code, out, _ = run(str(path))
    assert (code, out.splitlines()[0]) == (0, "nothing is wrong")


@pytest.mark.parametrize("folder", JOBS)
def test_the_rules_in_the_programs_of_the_examples_are_right(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"decision_tool": "get_job_decision", "output_check_tool": "check_output", "unlisted": "deny"}
    rules = {"agent_key_env": "DESK_KEY", "job": JOBS[folder], "tools": rules_in_python(folder), **own}
    tools: list[str] = []
    if folder == "helpdesk":
        monkeypatch.syspath_prepend(EXAMPLES / folder)
        tools = ["--tools", "desk:HelpDesk", "--prefix", "helpdesk__", *OWN_TOOLS]
    pack = LocalAuthority.from_pack(EXAMPLES / folder / "pack.yaml", lookups={"ledger": FixedLookup({})})
    with pack as local, local.serve() as served:
        monkeypatch.setenv("DESK_KEY", local.agent_key)
        path = tmp_path / "gate.json"
        path.write_text(json.dumps({"origin": served.origin, **rules}))
        code, out, _ = run(str(path), *tools)
    assert (code, out.splitlines()[0]) == (0, "nothing is wrong")
