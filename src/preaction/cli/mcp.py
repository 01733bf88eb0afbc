"""`preaction mcp`: the authority's tools for an MCP host, over stdin and stdout."""

import logging
import os
import signal
from typing import Annotated

import typer

from preaction.cli.failing import fail, told


def mcp(
    origin: Annotated[str, typer.Option(help="Where the authority is: https://host, or http on loopback.")],
    agent_key_env: Annotated[
        str, typer.Option(help="The environment variable that holds the agent key.")
    ] = "PREACTION_AGENT_KEY",
) -> None:
    """Offer get_job_decision, check_output and describe_job of a running authority, until stdin ends."""
    try:
        from preaction.adapters.mcp_proxy.authority import AuthorityTools, serve_tools
    except ImportError:
        fail("preaction: this command needs more packages: pip install 'preaction[proxy]'")
    import anyio

    from preaction.rest.felspar import Felspar

    key = os.environ.get(agent_key_env)
    if not key:
        fail(f"preaction: --agent-key-env: the environment has no {agent_key_env}")
    logging.basicConfig(level=logging.WARNING, format="preaction: %(message)s")
    for number in (signal.SIGTERM, signal.SIGINT):  # a thread that waits for stdin could keep this process
        signal.signal(number, signal.SIG_DFL)
    with told(), Felspar(origin, key) as felspar:
        anyio.run(serve_tools, AuthorityTools(felspar))
