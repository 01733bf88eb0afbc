"""`preaction serve`: publish a pack and answer by it over HTTP."""

import json
import os
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from preaction.cli.database import DbOrBeside, SigningKey
from preaction.cli.failing import Json, fail, needs_authority, say, told

if TYPE_CHECKING:
    from preaction.authority.server.metrics import Metrics
    from preaction.authority.server.serve import Served


class Log(Enum):
    """What of each request is written to stderr."""

    off = "off"
    json = "json"


def serve(
    pack: Annotated[Path, typer.Option(help="The pack's YAML file.")],
    db: DbOrBeside = None,
    signing_key: SigningKey = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    lookups: Annotated[Path | None, typer.Option(help="The YAML file of what facts are looked up by.")] = None,
    dev_keys: Annotated[bool, typer.Option("--dev-keys", help="New keys for this run; loopback hosts only.")] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer, on one listener.")] = 1,
    rate: Annotated[
        str | None, typer.Option(help="How many requests each key may send, such as 50/s; any number by default.")
    ] = None,
    log: Annotated[Log, typer.Option(help="`json`: a line on stderr for each request, without its values.")] = Log.off,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Also serve /metrics to Prometheus, on a port of its own.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of that port; it asks for no key.")] = "127.0.0.1",
    as_json: Json = False,
) -> None:
    """Publish a pack and serve it. When ready, print one line of JSON with the origin (and the dev keys)."""
    with needs_authority():
        from preaction.authority import LocalAuthority, read_lookups
        from preaction.authority.hosts import is_loopback
        from preaction.authority.server.limits import read_rate
        from preaction.authority.server.logs import log_as_json, log_request
        from preaction.authority.server.serve import serve_forever
        from preaction.authority.server.watch import Watch, Watcher

    if dev_keys and not is_loopback(host):
        fail(f"preaction: --dev-keys is for this machine only, and {host} can be reached from others")
    where = db or f"sqlite:///{pack.with_suffix('.db')}"
    if workers > 1 and where == "sqlite://":
        fail("preaction: several workers can't share a database in memory")
    with told(str(lookups)):
        read = read_lookups(lookups)
    with ExitStack() as opened, told(str(pack)):
        watchers: list[Watcher] = []
        if log is Log.json:
            log_as_json()
            watchers.append(log_request)
        metrics = None
        if metrics_port is not None:
            metrics = _metrics(opened, shared=workers > 1)
            watchers.append(metrics.count)
        allowed = None if rate is None else read_rate(rate, share=workers)
        authority = opened.enter_context(
            LocalAuthority.from_pack(pack, where, signing_key=signing_key, lookups=read, rate=allowed)
        )

        def ready(served: "Served") -> None:
            line = {"origin": served.origin}
            if dev_keys:
                line |= {"agentKey": authority.agent_key, "operatorKey": authority.operator_key}
            if metrics is not None and metrics_port is not None:
                line["metrics"] = opened.enter_context(metrics.serving(metrics_host, metrics_port))
            say(json.dumps(line))

        app = Watch(authority.app, watchers) if watchers else authority.app
        if workers > 1:
            authority.before_fork()
        serve_forever(app, host, port, ready, workers=workers)


def _metrics(opened: ExitStack, *, shared: bool) -> "Metrics":
    """The counters; those of several processes are in a folder, which the library is told of before it is imported."""
    if shared:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = opened.enter_context(TemporaryDirectory(prefix="preaction-metrics-"))
    with needs_authority():
        from preaction.authority.server.metrics import Metrics

    return Metrics()
