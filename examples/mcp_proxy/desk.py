"""A host, the proxy and a help desk's MCP server; a script plays the model. Run: python examples/mcp_proxy/desk.py"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from mcp import Client, StdioServerParameters

from preaction.authority import FixedLookup, LocalAuthority

HERE = Path(__file__).parent
BODY = "Hello, line 3 is the service fee. The billing team"


async def host(command: list[str], environ: dict[str, str]) -> None:
    """What any MCP host does: start a command, and call tools."""
    async with Client(StdioServerParameters(command=command[0], args=command[1:], env=environ)) as client:

        async def call(tool: str, **arguments: str) -> str:
            result = await client.call_tool(tool, arguments)
            print(f"{tool}: {result.content[0].text if result.is_error or 'reply' in tool else 'done'}")
            return result.content[0].text

        await call("helpdesk_reply", ticket_id="HC-1204", body=BODY)
        decision = json.loads(await call("get_job_decision", entity_id="HC-1204"))
        await call("check_output", execution_id=decision["executionId"], body=BODY)
        await call("helpdesk_reply", ticket_id="HC-1205", body=BODY)
        await call("helpdesk_reply", ticket_id="HC-1204", body=BODY)


def main() -> None:
    pack = HERE.parent / "helpdesk" / "pack.yaml"
    ledger = FixedLookup({"HC-1204": {"amount": 19.0, "charged_twice": False}})  # in place of the help desk's database
    local = LocalAuthority.from_pack(pack, lookups={"ledger": ledger})
    with TemporaryDirectory() as folder, local as authority, authority.serve() as served:
        rules = Path(folder, "gate.yaml")  # the file beside this one, with the origin of this run
        rules.write_text((HERE / "gate.yaml").read_text().replace("http://127.0.0.1:8000", served.origin))
        keys = {"FELSPAR_AGENT_KEY": authority.agent_key, "AUTHORITY_KEY": authority.agent_key}
        server = [sys.executable, str(HERE / "server.py")]
        preaction = [sys.executable, "-c", "from preaction.cli import main; main()"]  # or just: preaction
        command = [*preaction, "proxy", "--rules", str(rules), "--", *server]
        anyio.run(host, command, {**os.environ, **keys, "AUTHORITY": served.origin})


if __name__ == "__main__":
    main()
