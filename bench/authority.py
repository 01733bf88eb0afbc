"""The embedded authority in a process of its own, for the benchmark: `authority.py DELAY_MS plain|include`.

`DELAY_MS` are added to each answer; `plain` plays an authority that knows nothing of `include`. Prints one JSON line.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from preaction.authority import LocalAuthority


def slowed(app, delay_s: float, knows_include: bool):
    """`app` with a delay before each answer, and deaf to `include` if it shall not know it."""

    async def wrapped(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if delay_s:
            await asyncio.sleep(delay_s)
        if not knows_include and scope["path"].endswith("/verify"):
            await receive()

            async def empty():
                return {"type": "http.request", "body": b"{}", "more_body": False}

            scope["headers"] = [
                (name, b"2" if name == b"content-length" else value) for name, value in scope["headers"]
            ]
            await app(scope, empty, send)
            return
        await app(scope, receive, send)

    return wrapped


def main() -> None:
    """Serve until the standard input closes."""
    delay_s, knows_include = float(sys.argv[1]) / 1000, sys.argv[2] == "include"
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    with LocalAuthority.from_pack(Path(__file__).with_name("pack.yaml")) as authority:
        authority.app = slowed(authority.app, delay_s, knows_include)
        with authority.serve() as served:
            print(json.dumps({"origin": served.origin, "agentKey": authority.agent_key}), flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
