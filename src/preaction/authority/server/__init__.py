"""The authority over HTTP and MCP: which operations, at what rate, by how many processes, and how that is watched."""
