"""`preaction serve`: publish a pack and answer by it over HTTP."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from preaction.cli.database import DbOrBeside, SigningKey
from preaction.cli.failing import fail, needs_authority, say, told

if TYPE_CHECKING:
    from preaction.authority.serve import Served


def serve(
    pack: Annotated[Path, typer.Option(help="The pack's YAML file.")],
    db: DbOrBeside = None,
    signing_key: SigningKey = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    lookups: Annotated[Path | None, typer.Option(help="The YAML file of what facts are looked up by.")] = None,
    dev_keys: Annotated[bool, typer.Option("--dev-keys", help="New keys for this run; loopback hosts only.")] = False,
) -> None:
    """Publish a pack and serve it. When ready, print one line of JSON with the origin (and the dev keys)."""
    with needs_authority():
        from preaction.authority import LocalAuthority, read_lookups
        from preaction.authority.serve import is_loopback, serve_forever

    if dev_keys and not is_loopback(host):
        fail(f"preaction: --dev-keys is for this machine only, and {host} can be reached from others")
    where = db or f"sqlite:///{pack.with_suffix('.db')}"
    with told(str(lookups)):
        read = read_lookups(lookups)
    with told(str(pack)), LocalAuthority.from_pack(pack, where, signing_key=signing_key, lookups=read) as authority:

        def ready(served: "Served") -> None:
            keys = {"agentKey": authority.agent_key, "operatorKey": authority.operator_key} if dev_keys else {}
            say(json.dumps({"origin": served.origin, **keys}))

        serve_forever(authority.app, host, port, ready)
