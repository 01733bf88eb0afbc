"""The tools of `official`, guarded by the gate in this very process: what the proxy's overhead is compared with.

`RULES` is the rules file. One process is one session.
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import official
from mcp.server.mcpserver import MCPServer

from preaction import ActionGate, denial_text

gate = ActionGate.from_file(os.environ["RULES"])
desk = MCPServer("guarded desk")


@desk.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    """Send a reply on a ticket."""
    arguments = {"ticket_id": ticket_id, "body": body}
    verdict = gate.check("one", "helpdesk_reply", arguments)
    return denial_text(verdict) if verdict.blocks else official.helpdesk_reply(**arguments)


@desk.tool()
def get_job_decision(entity_id: str) -> dict[str, Any]:
    """Ask for a decision on a ticket."""
    decision = official.get_job_decision(entity_id)
    gate.record_result("one", "get_job_decision", None, decision)
    return decision


@desk.tool()
def check_output(execution_id: str, body: str) -> dict[str, Any]:
    """Have a text checked for a decision."""
    checked = official.check_output(execution_id, body)
    gate.record_result("one", "check_output", None, checked)
    return checked


if __name__ == "__main__":
    desk.run("stdio")
