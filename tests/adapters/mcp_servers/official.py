"""A help desk as an MCP server with the official SDK: four tools, and one of everything else that a server can offer.

    python official.py [stdio | http PORT]

`AUTHORITY` is the origin and `AUTHORITY_KEY` the key of the authority that its two tools ask; `RAN` is a file that
gets one line of JSON for each body that ran.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import (
    Completion,
    CompletionArgument,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

from preaction import Felspar

desk = MCPServer("help desk", instructions="Answer tickets.", version="7.1")


def ran(tool: str, **arguments: Any) -> None:
    with Path(os.environ["RAN"]).open("a") as file:
        file.write(json.dumps([tool, arguments]) + "\n")


def felspar() -> Felspar:
    return Felspar(os.environ["AUTHORITY"], os.environ["AUTHORITY_KEY"])


@desk.tool()
def helpdesk_reply(ticket_id: str, body: str) -> str:
    """Send a reply on a ticket."""
    ran("helpdesk_reply", ticket_id=ticket_id, body=body)
    return f"sent on {ticket_id}"


@desk.tool()
def get_job_decision(entity_id: str) -> dict[str, Any]:
    """Ask for a decision on a ticket."""
    ran("get_job_decision", entity_id=entity_id)
    facts = {"topic": "billing", "amount": 19.0, "charged_twice": False}
    with felspar() as authority:
        evidence = {name: {"value": value, "source": "human"} for name, value in facts.items()}
        return authority.decide("triage-ticket", entity_id=entity_id, evidence=evidence)


@desk.tool()
def check_output(execution_id: str, body: str) -> dict[str, Any]:
    """Have a text checked for a decision."""
    ran("check_output", execution_id=execution_id, body=body)
    with felspar() as authority:
        return authority.check_output(execution_id, output="billing-team-reply", content={"body": body})


@desk.tool()
def look_up(ticket_id: str) -> str:
    """Read a ticket."""
    ran("look_up", ticket_id=ticket_id)
    return f"{ticket_id}: a question on an invoice"


@desk.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("the desk is closed")


@desk.tool()
async def slow(ctx: Context, seconds: float) -> str:
    """Take a while, with progress and a log line."""
    await ctx.report_progress(1, 2, "half")
    await ctx.info("half way")
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        ran("slow-cancelled")
        raise
    await ctx.report_progress(2, 2, "done")
    return "done"


class Answer(BaseModel):
    """What a person is asked for."""

    name: str


async def _ask(ctx: Context) -> Elicit[Answer]:
    return Elicit("Your name?", Answer)


@desk.tool()
async def sign(ticket_id: str, answer: Annotated[Answer, Resolve(_ask)]) -> str:
    """Ask a person for a name: within the call, or in rounds since 2026-07-28."""
    ran("sign", ticket_id=ticket_id, name=answer.name)
    return f"signed by {answer.name}"


@desk.tool()
async def consult(ctx: Context) -> str:
    """Ask the client's model and for its roots, as servers did before 2026-07-28."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Hello?"))
    said = await ctx.session.create_message([message], max_tokens=10)
    roots = await ctx.session.list_roots()
    return f"{said.content.text} {[str(root.uri) for root in roots.roots]}"


@desk.tool()
async def grow(ctx: Context) -> str:
    """Add a tool, and say so."""
    desk.add_tool(lambda: "more", name="more", description="More.")
    await ctx.session.send_tool_list_changed()
    return "grown"


@desk.tool()
def die() -> str:
    """End the server at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


@desk.tool()
def hang() -> str:
    """Block the server."""
    time.sleep(60)
    return ""


@desk.tool()
def flood(size: int) -> str:
    """Write a line without an end."""
    wire = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _is_wire(fd)]
    left = size
    while left > 0:
        left -= os.write(wire[-1], b"x" * min(left, 65_536))
    return ""


def _is_wire(fd: int) -> bool:
    """Whether this is where our stdout went when the transport took it."""
    try:
        return fd > 2 and os.readlink(f"/proc/self/fd/{fd}") == os.environ["WIRE"]
    except OSError:
        return False


@desk.resource("desk://hours")
def hours() -> str:
    """When the desk is open."""
    return "9 to 5"


@desk.resource("desk://tickets/{ticket_id}")
def ticket(ticket_id: str) -> str:
    """A ticket."""
    return f"{ticket_id}: open"


@desk.prompt()
def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}."


@desk.completion()
async def complete(ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: Any) -> Any:
    return Completion(values=[argument.value + "!"], total=1, has_more=False)


if __name__ == "__main__":
    os.environ["WIRE"] = os.readlink("/proc/self/fd/1")
    if sys.argv[1:2] == ["http"]:
        desk.run("streamable-http", port=int(sys.argv[2]))
    else:
        desk.run("stdio")
