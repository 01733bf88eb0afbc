"""The help desk's four tools as an MCP server with FastMCP; the bodies are those of `official`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import official
from fastmcp import FastMCP

desk = FastMCP("fast desk", instructions="Answer tickets.")
for tool in (
    official.helpdesk_reply,
    official.get_job_decision,
    official.check_output,
    official.look_up,
    official.fail,
):
    desk.tool(tool)
desk.resource("desk://hours")(official.hours)
desk.prompt(official.greet)

if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        desk.run("http", port=int(sys.argv[2]), show_banner=False)
    else:
        desk.run("stdio", show_banner=False)
