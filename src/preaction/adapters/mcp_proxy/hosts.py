"""What to put into an MCP host's settings, so that it starts the proxy instead of the server."""

from collections.abc import Sequence
from typing import Any, Final

HOSTS: Final = ("claude-desktop", "cursor", "vscode", "claude-code")


def host_config(host: str, name: str, command: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    """The settings of one host, as JSON. `keys` are environment variables that the proxy needs, without their values.

    Claude Desktop can't refer to a variable: there the value has to be filled in.
    """
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    match host:
        case "claude-desktop":
            return {"mcpServers": {name: {**entry, "env": {key: f"<{key}>" for key in keys}}}}
        case "cursor":
            return {"mcpServers": {name: {**entry, "env": {key: f"${{env:{key}}}" for key in keys}}}}
        case "claude-code":
            env = {key: f"${{{key}}}" for key in keys}
            return {"mcpServers": {name: {"type": "stdio", **entry, "env": env}}}
        case _:
            env = {key: f"${{input:{key.lower()}}}" for key in keys}
            inputs = [{"type": "promptString", "id": key.lower(), "description": key, "password": True} for key in keys]
            return {"inputs": inputs, "servers": {name: {"type": "stdio", **entry, "env": env}}}
