"""Each mistake that somebody makes in a rules file, alone: lint finds it at its place, and nothing else."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lint.world import CURRENT, FIRST, LISTED, OBJECT, RULES, TEXT, authority, listed, tool
from preaction.lint.notes import CODES
from preaction.lint.report import Report, lint
from preaction.lint.tools import listed_tool
from preaction.rest.felspar import Felspar
from preaction.rules_file import read_rules_file


@dataclass(frozen=True)
class Seed:
    """`old` is replaced by `new` in the rules; `at` is where the finding stands, a `|` before its place."""

    code: str
    old: str
    new: str
    at: str
    says: str = ""
    tools: Mapping[str, Any] = field(default_factory=lambda: LISTED)


REFUND = "    outcomes: [refund-due]\n    entity: {field: ticket_id}\n    fields: [ticket_id]"
NOTE = "outcomes: [billing-question, refund-due]"
REPLY = "fields: [ticket_id, body, cc]"
CHECKED = "output_check: {fields: [body]}"
WRITES = f"writes: billing-team-reply\n    entity: {{field: ticket_id}}\n    {REPLY}\n    {CHECKED}"
COMPANY = """\
job: greet-company
decision_tool: get_job_decision
unlisted: deny
tools:
  helpdesk_refund:
    outcomes: [greet]
    fields: [ticket_id]
    recipients: []
"""
ALL = RULES.replace("{{", "{").replace("}}", "}").split("agent_key_env: DESK_KEY\n")[1]


def acting(outcomes: str) -> str:
    """`WRITES` as a rule with outcomes."""
    named = CHECKED.replace("]}", "], output: billing-team-reply}")
    return WRITES.replace("writes: billing-team-reply", f"outcomes: [{outcomes}]").replace(CHECKED, named)


UNNAMED = acting("refund-due").replace(", output: billing-team-reply", "")


def also(*entries: dict[str, Any]) -> dict[str, Any]:
    return {**LISTED, **{entry["name"]: entry for entry in entries}}


SEEDS = [
    # by itself
    Seed(
        "writes-or-outcomes",
        "  helpdesk_reply:\n",
        "  helpdesk_reply:\n    outcomes: [refund-due]\n",
        "|helpdesk_reply:",
    ),
    Seed("no-outcome", REFUND, REFUND.replace("[refund-due]", "[]"), "outcomes: |[]"),
    Seed("entity-not-listed", REFUND, REFUND.replace("field: ticket_id", "field: ticket"), "field: |ticket}"),
    Seed("checked-field-not-listed", CHECKED, "output_check: {fields: [body, text]}", "[body, |text]"),
    Seed("two-outputs", CHECKED, "output_check: {fields: [body], output: letter}", "output: |letter"),
    Seed("no-recipient", "[desk.example]", "[]", "recipients_at: |[]"),
    Seed("field-refused", "tools:", "refuse_fields: [Text]\ntools:", "[ticket_id, |text]", '"text" is refused'),
    Seed("field-refused", "tools:", "refuse_fields: [PUBLIC]\ntools:", "{public: |false}"),
    Seed("open-field", "[ticket_id, text]", "[ticket_id, text, options.*]", "text, |options.*"),
    Seed("text-not-checked", REPLY, "fields: [ticket_id, body, cc, subject]", "cc, |subject]"),
    Seed("recipient-not-listed", REPLY, "fields: [ticket_id, body, cc, to]", "cc, |to]"),
    Seed("recipients-unlimited", "    recipients_at: [desk.example]\n", "", "|helpdesk_reply:"),
    Seed("output-not-named", WRITES, UNNAMED, "output_check: |{fields: [body]}"),
    Seed("shared-domain", "[desk.example]", "[desk.example, gmail.com]", "|gmail.com"),
    Seed("shared-domain", "[desk.example]", "[co.uk]", "|co.uk"),
    Seed("not-enforced", "tools:", "mode: observe\ntools:", "mode: |observe"),
    Seed("test-mode", "tools:", "test_recipients: []\ntools:", "|test_recipients", "nobody only"),
    Seed("no-decision-tool", "decision_tool: get_job_decision\n", "", "|origin"),
    Seed("no-output-check-tool", "output_check_tool: check_output\n", "", "|origin"),
    # against the release
    Seed("unknown-job", "job: triage-ticket", "job: triage-tickets", "job: |triage", 'write "triage-ticket"'),
    Seed(
        "unknown-release",
        "tools:",
        f"releases: ['{CURRENT}', '2026-11-05.1']\ntools:",
        ", |'2026",
        f'write "{CURRENT}"',
    ),
    Seed("release-not-current", "tools:", f"releases: ['{FIRST}']\ntools:", "releases: |[", f'add "{CURRENT}"'),
    Seed(
        "unknown-output",
        "writes: billing-team-reply",
        "writes: billing-team-replay",
        "writes: |bill",
        'write "billing-team-reply"',
    ),
    Seed("output-never-allowed", "writes: billing-team-reply", "writes: internal-note", "writes: |internal"),
    Seed("unknown-outcome", NOTE, "outcomes: [billing-question, refund-dew]", ", |refund-dew", 'write "refund-due"'),
    Seed("checked-fields-differ", "writes: billing-team-reply", "writes: letter", "output_check: {fields: |[body]"),
    Seed("text-never-checked", WRITES, acting("refund-review"), "output_check: |{"),
    Seed(
        "text-seldom-checked",
        WRITES,
        acting("refund-review, refund-due"),
        "output_check: |{",
        '"refund-review" doesn\'t list',
    ),
    Seed("company-without-recipients", ALL, COMPANY, "|helpdesk_refund:"),
    Seed("case-not-named", REFUND, REFUND.replace("    entity: {field: ticket_id}\n", ""), "|helpdesk_refund:"),
    Seed("age-without-effect", "tools:", "max_decision_age: P1D\ntools:", "|P1D", "PT1H"),
    # against the tools
    Seed("unknown-tool", "helpdesk_refund:", "helpdesk_refnud:", "|helpdesk_refnud", 'write "helpdesk_refund"'),
    Seed("unknown-tool", "helpdesk_refund:", "helpdesk-refund:", "|helpdesk-refund", 'write "helpdesk_refund"'),
    Seed(
        "unknown-tool", "decision_tool: get_job_decision", "decision_tool: get_decision", "decision_tool: |get_decision"
    ),
    Seed(
        "destructive-tool-without-rule", "", "", "|tools:", "", also(tool("tickets", hints={"destructiveHint": True}))
    ),
    Seed("entity-not-in-tool", REFUND, REFUND.replace("ticket_id", "ticket"), "field: |ticket}", 'write "ticket_id"'),
    Seed("entity-no-id", "", "", "field: |ticket_id", "", listed(helpdesk_reply={"ticket_id": OBJECT})),
    Seed(
        "checked-field-not-in-tool",
        "",
        "",
        "output_check: {fields: [|body",
        'write "reply_body"',
        listed(helpdesk_reply={"body": None, "reply_body": TEXT}),
    ),
    Seed("checked-field-no-text", "", "", "output_check: {fields: [|body", "", listed(helpdesk_reply={"body": OBJECT})),
    Seed("fixed-not-in-tool", "{public: false}", "{publik: false}", "publik: |false", 'write "public"'),
    Seed("fixed-not-taken", "{public: false}", "{public: 'no'}", "public: |'no'"),
    Seed(
        "fixed-not-taken",
        "{public: false}",
        "{public: red}",
        "public: |red",
        "",
        listed(helpdesk_note={"public": {"enum": ["green"]}}),
    ),
    Seed("needed-field-not-listed", "[ticket_id, text]", "[ticket_id]", "fields: |[ticket_id]\n    fixed"),
    Seed("look-alike-tool", "", "", "|helpdesk_reply:", '"Helpdesk-Reply"', also(tool("Helpdesk-Reply", "body"))),
    Seed("acting-tool-without-rule", "", "", "|tools:", '"sendSurvey"', also(tool("sendSurvey", "body"))),
    Seed("acting-tool-without-rule", "", "", "|tools:", '"inbox"', also(tool("inbox", hints={"readOnlyHint": False}))),
    Seed("field-not-in-tool", REPLY, "fields: [ticket_id, body, cc, priority]", "cc, |priority"),
    Seed("field-holds-more", "[ticket_id, text]", "[ticket_id, text, options]", "text, |options"),
    Seed(
        "field-holds-more",
        "[ticket_id, text]",
        "[ticket_id, text, parts]",
        "text, |parts",
        "",
        listed(helpdesk_note={"parts": {"type": "array", "items": {"anyOf": [OBJECT, {"type": "null"}]}}}),
    ),
    Seed(
        "recipient-not-listed",
        "[ticket_id, text]",
        "[ticket_id, text, watcher]",
        "text, |watcher",
        "",
        listed(helpdesk_note={"watcher": {"type": ["string", "null"], "format": "email"}}),
    ),
    Seed("read-only-doubted", "", "", "|tools:", "", also(tool("delete_draft", hints={"readOnlyHint": True}))),
    Seed("default-left-open", "    fixed: {public: false}\n", "", "[ticket_id, text]", '"public" is true'),
]


@pytest.fixture(scope="module")
def desk() -> Iterator[tuple[str, Felspar]]:
    with authority() as local, local.serve() as served, Felspar(served.origin, local.agent_key) as felspar:
        yield served.origin, felspar


def looked_at(path: Path, text: str, felspar: Felspar, tools: Mapping[str, Any]) -> Report:
    path.write_text(text, "utf-8")
    return lint(read_rules_file(path), felspar, [listed_tool(each) for each in tools.values()])


def test_nothing_is_found_in_good_rules(desk: tuple[str, Felspar], tmp_path: Path) -> None:
    origin, felspar = desk
    report = looked_at(tmp_path / "gate.yaml", RULES.format(origin=origin), felspar, LISTED)
    assert (report.findings, report.releases, report.tools) == ([], [CURRENT], 6)


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"{seed.code} {seed.at}")
def test_a_mistake_alone_is_found_alone(seed: Seed, desk: tuple[str, Felspar], tmp_path: Path) -> None:
    origin, felspar = desk
    good = RULES.format(origin=origin)
    assert seed.old in good
    text = good.replace(seed.old, seed.new, 1)
    (found,) = looked_at(tmp_path / "gate.yaml", text, felspar, seed.tools).findings
    assert (found.code, found.severity) == (seed.code, CODES[seed.code])
    assert seed.says in f"{found.problem}; {found.remedy}"
    before, _, after = seed.at.rpartition("|")
    offset = text.index(before + after) + len(before) if after != "[ticket_id, text]" else text.index(after)
    assert (found.line, found.column) == (text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
    assert f"{found.problem} {found.remedy}".isascii()


def test_every_code_has_a_mistake() -> None:
    assert {seed.code for seed in SEEDS} == set(CODES)


def test_an_output_that_is_not_named_must_be_one_with_these_fields(desk: tuple[str, Felspar], tmp_path: Path) -> None:
    text = RULES.format(origin=desk[0]).replace(NOTE, f"{NOTE}\n    output_check: {{fields: [text]}}")
    found = looked_at(tmp_path / "gate.yaml", text, desk[1], LISTED).findings
    assert [each.code for each in found] == ["output-not-named", "checked-fields-differ"]


def test_of_several_accepted_releases_each_is_named(desk: tuple[str, Felspar], tmp_path: Path) -> None:
    text = RULES.format(origin=desk[0]).replace("tools:", f"releases: ['{FIRST}', '{CURRENT}']\ntools:")
    text = text.replace("writes: billing-team-reply", "writes: none")
    report = looked_at(tmp_path / "gate.yaml", text, desk[1], LISTED)
    assert report.releases == [FIRST, CURRENT]
    assert [each.problem for each in report.findings] == [
        f'the job of release "{release}" has no output "none"' for release in (FIRST, CURRENT)
    ]


@pytest.mark.parametrize("name", ["../jobs", "a/b", "."])
def test_a_name_that_cannot_be_asked_for_is_not_there(name: str, desk: tuple[str, Felspar], tmp_path: Path) -> None:
    text = RULES.format(origin=desk[0])
    for changed, code in (
        (text.replace("job: triage-ticket", f"job: {name}"), "unknown-job"),
        (text.replace("tools:", f"releases: ['{name}', '{CURRENT}']\ntools:"), "unknown-release"),
    ):
        found = looked_at(tmp_path / "gate.yaml", changed, desk[1], LISTED).findings
        assert [each.code for each in found] == [code]
