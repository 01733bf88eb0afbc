"""The tools of an MCP server, as it lists them. Needs the MCP SDK, which the extra `proxy` brings."""

import os
import shlex
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError

from preaction.errors import ConfigurationError
from preaction.lint.tools import Tool, listed_tool

LIMIT_S: Final = 30.0
"""How long a server may take to start and to list its tools."""
MAX_PAGES: Final = 1_000


def list_tools(where: str, headers: Mapping[str, str], hidden: str | None = None) -> list[Tool]:
    """The tools of the server at a URL, or of the one that a command starts.

    The command gets this process's environment without `hidden`. `ConfigurationError` where the server can't be
    started or asked, or doesn't answer within `LIMIT_S`.
    """
    try:
        return anyio.run(_listed, where, headers, hidden)
    except ExceptionGroup as group:
        raise ConfigurationError(_why(group)) from None
    except (OSError, MCPError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        raise ConfigurationError(_why(error)) from None


def is_url(where: str) -> bool:
    """Whether `where` is a URL rather than a command."""
    return where.startswith(("http://", "https://"))


async def _listed(where: str, headers: Mapping[str, str], hidden: str | None) -> list[Tool]:
    tools: list[Tool] = []
    with anyio.move_on_after(LIMIT_S) as limit:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(await _client(stack, where, headers, hidden))
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                tools += [listed_tool(each.model_dump(mode="json", by_alias=True)) for each in page.tools]
                cursor = page.next_cursor
                if cursor is None:
                    break
    if limit.cancelled_caught:
        raise ConfigurationError(f"the MCP server did not list its tools within {LIMIT_S:.0f} s")
    return tools


async def _client(stack: AsyncExitStack, where: str, headers: Mapping[str, str], hidden: str | None) -> Any:
    if is_url(where):
        http = await stack.enter_async_context(create_mcp_http_client(headers=dict(headers)))
        return Client(streamable_http_client(where, http_client=http))
    words = shlex.split(where)
    if not words:
        raise ConfigurationError("the command of the MCP server is empty")
    environ = {name: value for name, value in os.environ.items() if name != hidden}
    return Client(StdioServerParameters(command=words[0], args=words[1:], env=environ))


def _why(error: BaseException) -> str:
    """One line; an error's own words could hold what came over the network."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ConfigurationError):
        return str(error)
    detail = f" ({error.strerror})" if isinstance(error, OSError) and error.strerror else ""
    return f"the MCP server can't be asked for its tools: {type(error).__name__}{detail}"
