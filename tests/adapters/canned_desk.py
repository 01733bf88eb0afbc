"""A help desk as an MCP server whose answers were prepared beforehand: for adapters that reach tools through a client.

`DECISION` and `CHECK` are what its two tools of the authority return, as JSON; `RAN` is a file that gets one line of
JSON for each reply that was sent. Runs with either major version of `mcp`.
"""

import json
import os
from pathlib import Path
from typing import Any

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # mcp 1.x
    from mcp.server.fastmcp import FastMCP as Server

desk = Server("desk")


@desk.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    """Send a reply on a ticket."""
    with Path(os.environ["RAN"]).open("a") as file:
        file.write(json.dumps({"ticket_id": ticket_id, "body": body}) + "\n")
    return f"sent on {ticket_id}"


@desk.tool()
def get_job_decision(entity_id: str) -> dict[str, Any]:
    """Ask for a decision on a ticket."""
    if entity_id != "HC-1201":
        raise ValueError("no such ticket")
    return json.loads(os.environ["DECISION"])


@desk.tool()
def check_output(body: str) -> dict[str, Any]:
    """Have a text checked for the latest decision."""
    return json.loads(os.environ["CHECK"])


if __name__ == "__main__":
    desk.run("stdio")
