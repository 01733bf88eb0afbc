"""A help desk's MCP server, with the gate before the one tool that acts. `host.py` plays a host over stdio."""

from fastmcp import FastMCP

from preaction import create_action_gate
from preaction.adapters.fastmcp import install
from preaction.testing import FakeAuthority

authority, decided = FakeAuthority(), {}  # in its place stands the service that decides
server = FastMCP("desk")


@server.tool
def reply(ticket_id: str, body: str) -> str:
    """Send a checked reply on a decided ticket."""
    return f"sent on {ticket_id}"


@server.tool
def decide(entity_id: str) -> dict:
    """Get the decision on a ticket."""
    decided.update(authority.decide(entity_id))
    return decided


@server.tool
def check_output(body: str) -> dict:
    """Have the text of a reply checked."""
    return authority.check_output(decided, {"body": body})


rule = {"writes": "billing-team-reply", "entity": {"field": "ticket_id"}, "fields": ["ticket_id", "body"]}
gate = create_action_gate(
    job=authority.job,
    decision_tool="decide",
    output_check_tool="check_output",
    tools={"reply": {**rule, "output_check": {"fields": ["body"]}}},
    verify=authority,
    describe=authority,
    verify_output_check=authority,
    clock=authority.clock,
)
install(server, gate)

if __name__ == "__main__":
    server.run("stdio", show_banner=False)
