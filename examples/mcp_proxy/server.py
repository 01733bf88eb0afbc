"""A help desk as an MCP server. It knows nothing of a gate."""

import os

from mcp.server.mcpserver import MCPServer

from preaction import Felspar

desk = MCPServer("help desk")
authority = Felspar(os.environ["AUTHORITY"], os.environ["AUTHORITY_KEY"])


@desk.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    """Send a reply on a ticket."""
    return f"sent on {ticket_id}: {body}"


@desk.tool()
def get_job_decision(entity_id: str) -> dict:
    """Ask for a decision on a ticket."""
    evidence = {"topic": {"value": "billing", "source": "human"}}
    return authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence)


@desk.tool()
def check_output(execution_id: str, body: str) -> dict:
    """Have a text checked for a decision."""
    return authority.check_output(execution_id, output="billing-team-reply", content={"body": body})


desk.run("stdio")
