"""The desk of `official` over HTTP, which breaks the stream off in the middle of each call.

    python resuming.py http PORT

The client has to come again with `Last-Event-ID`; what happened meanwhile is sent again then. The answer follows the
break at once, so that it is stored before the client is back.
"""

import itertools
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import anyio
import official
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore

desk = MCPServer("resuming desk")


class Kept(EventStore):
    """Every event, twice when it is asked for again: a client may not count an answer twice."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._events: list[tuple[int, str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        number = next(self._numbers)
        self._events.append((number, stream_id, message))
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        (stream,) = {stream for number, stream, _ in self._events if number == int(last_event_id)}
        official.ran("resumed")
        for _ in range(2):
            for number, of, message in self._events:
                if of == stream and number > int(last_event_id) and message is not None:
                    await send_callback(EventMessage(message, str(number)))
        return stream


@desk.tool()
async def helpdesk_reply(ctx: Context, ticket_id: str, body: str) -> str:
    """Send a reply on a ticket."""
    said = official.helpdesk_reply(ticket_id, body)
    await ctx.close_sse_stream()
    return said


@desk.tool()
async def get_job_decision(ctx: Context, entity_id: str) -> dict[str, Any]:
    """Ask for a decision on a ticket."""
    decision = await anyio.to_thread.run_sync(official.get_job_decision, entity_id)
    await ctx.close_sse_stream()
    return decision


@desk.tool()
async def check_output(ctx: Context, execution_id: str, body: str) -> dict[str, Any]:
    """Have a text checked for a decision."""
    check = await anyio.to_thread.run_sync(official.check_output, execution_id, body)
    await ctx.close_sse_stream()
    return check


if __name__ == "__main__":
    desk.run("streamable-http", port=int(sys.argv[2]), event_store=Kept(), retry_interval=200)
