"""A host whose model is a script: it replies too early, then does it right.

    python examples/fastmcp/host.py

Any MCP host can start the server in its place, with a real model: `python examples/fastmcp/server.py`.
"""

import asyncio
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

BODY = "Hello, line 3 is the service fee."
REPLY = ("reply", {"ticket_id": "HC-1201", "body": BODY})
CALLS = [REPLY, ("decide", {"entity_id": "HC-1201"}), ("check_output", {"body": BODY}), REPLY]


async def main():
    async with Client(StdioTransport(sys.executable, [str(Path(__file__).with_name("server.py"))])) as client:
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            if tool == "reply":
                print(result.content[0].text)


if __name__ == "__main__":
    asyncio.run(main())
