"""An MCP proxy with the gate in it: any MCP host, no code.

    preaction proxy --rules gate.yaml -- UPSTREAM COMMAND …

It passes JSON-RPC messages on, in whatever protocol version client and server agree on, and judges `tools/call` on the
way. Read in this order: `relay` (one client and one server, message by message), `offered` (the server's tools, held
against the rules), `rounds` (calls that take several messages), `upstream` (the server: a process, or a URL), `fronts`
and `http` (the client: this process's stdin and stdout, or HTTP), `hosts` (what to put into a host's settings).
"""

try:
    import mcp_types  # noqa: F401
except ImportError:
    raise ImportError("the MCP proxy needs more packages: pip install 'preaction[proxy]'") from None
