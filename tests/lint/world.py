"""A help desk to be linted: a rules file that is right, the tools it is for, and an authority with two releases."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from preaction.authority import LocalAuthority

ROOT = Path(__file__).resolve().parents[2]

PACK = (ROOT / "examples/helpdesk/pack.yaml").read_text("utf-8").replace("from: lookup, lookup: ledger", "from: caller")
FIRST, CURRENT = "2026-11-03.1", "2026-11-04.1"
MORE = """\
  greet-company:
    title: Greet a company
    subject: {kind: company, identity: provided, match: case-insensitive}
    facts: {known: {type: boolean, from: caller}}
    outcomes:
      - {id: greet, when: facts.known, next_step: Greet it.}
    when_unresolved: {next_step: Leave it.}
"""

RULES = """\
origin: {origin}
agent_key_env: DESK_KEY
job: triage-ticket
decision_tool: get_job_decision
output_check_tool: check_output
tools:
  helpdesk_reply:
    writes: billing-team-reply
    entity: {{field: ticket_id}}
    fields: [ticket_id, body, cc]
    output_check: {{fields: [body]}}
    recipients: [cc]
    recipients_at: [desk.example]
  helpdesk_note:
    outcomes: [billing-question, refund-due]
    entity: {{field: ticket_id}}
    fields: [ticket_id, text]
    fixed: {{public: false}}
    recipients: []
  helpdesk_refund:
    outcomes: [refund-due]
    entity: {{field: ticket_id}}
    fields: [ticket_id]
    recipients: []
"""

TEXT = {"type": "string"}
OBJECT = {"type": "object", "properties": {"color": TEXT}}


def tool(name: str, *needed: str, hints: Mapping[str, bool] | None = None, **optional: Any) -> dict[str, Any]:
    """An entry of MCP's `tools/list`; the needed fields are texts."""
    schema = {"type": "object", "properties": {**dict.fromkeys(needed, TEXT), **optional}, "required": [*needed]}
    return {"name": name, "inputSchema": schema, **({} if hints is None else {"annotations": hints})}


LISTED = {
    entry["name"]: entry
    for entry in (
        tool("helpdesk_reply", "ticket_id", "body", cc={"type": "array", "items": TEXT}, subject=TEXT, to=TEXT),
        tool("helpdesk_note", "ticket_id", "text", public={"type": "boolean", "default": True}, options=OBJECT),
        tool("helpdesk_refund", "ticket_id", reason=TEXT),
        tool("helpdesk_status", "ticket_id", hints={"readOnlyHint": True}),
        tool("get_job_decision", "entity_id"),
        tool("check_output", "execution_id", "body"),
    )
}


def listed(**fields: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tools, with changes to the fields of some: tool → field → its schema, None to drop it."""
    tools = copy.deepcopy(LISTED)
    for name, changes in fields.items():
        properties = tools[name]["inputSchema"]["properties"]
        properties |= changes
        for field in [field for field, schema in changes.items() if schema is None]:
            del properties[field]
            tools[name]["inputSchema"]["required"].remove(field)
    return tools


def authority() -> LocalAuthority:
    """An authority with two releases of the pack, which has more jobs and outputs than the rules need."""
    outputs = """\
      letter:
        fields: [subject, body]
      internal-note:
        fields: [body]
    escalations:
"""
    first = PACK.replace("    escalations:\n", outputs).replace(
        "outputs: [billing-team-reply]", "outputs: [billing-team-reply, letter]", 1
    )
    local = LocalAuthority.from_pack(first + MORE)
    local.publish((first + MORE).replace(FIRST, CURRENT))
    return local
