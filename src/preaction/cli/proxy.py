"""`preaction proxy`: the gate between an MCP host and an MCP server."""

import json
import logging
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from preaction.cli.failing import fail, say, told

if TYPE_CHECKING:
    from preaction.adapters.mcp_proxy.upstream import Upstream

NOT_STARTED: Final = "preaction: the server can't be started: {}"


def proxy(
    rules: Annotated[Path, typer.Option(help="The rules file: gate.yaml, .toml or .json.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="The server's command, after --.", metavar="UPSTREAM COMMAND")
    ] = None,
    upstream_url: Annotated[str | None, typer.Option(help="The server's URL instead, over streamable HTTP.")] = None,
    upstream_header: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: a header for that URL, its value from the environment.")
    ] = None,
    http: Annotated[str | None, typer.Option(help="[HOST:]PORT: serve over HTTP instead of stdin and stdout.")] = None,
    unsafe_any_host: Annotated[
        bool, typer.Option("--unsafe-any-host", help="Let --http listen where other machines reach it, without a key.")
    ] = False,
    session: Annotated[str | None, typer.Option(help="The session's id, over stdin and stdout; else random.")] = None,
    session_from_meta: Annotated[
        bool, typer.Option("--session-from-meta", help="Believe the session in _meta; for hosts of your own.")
    ] = False,
    accept: Annotated[
        list[str] | None, typer.Option(help="A tool that the rules name and that this server need not have.")
    ] = None,
    with_authority: Annotated[
        bool, typer.Option("--with-authority", help="Offer the authority's own tools as well, with the rules' key.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may wait without progress.")] = 600.0,
    print_config: Annotated[
        str | None, typer.Option(help="Print the settings for claude-desktop, cursor, vscode or claude-code, and end.")
    ] = None,
    name: Annotated[str, typer.Option(help="The server's name in those settings.")] = "gated",
) -> None:
    """Gate the tools of an MCP server, for any MCP host. Everything else that the server offers passes as it is."""
    if (command is None) == (upstream_url is None):
        fail("preaction: give the server's command after --, or its --upstream-url")
    with told(str(rules)):
        from preaction.rules_file import read_rules_file

        key = read_rules_file(rules).given.agent_key_env
    headers = [each.partition("=")[::2] for each in upstream_header or ()]
    keys = [*([key] if key else []), *(variable for _, variable in headers)]
    if print_config is not None:
        server = ["--", *command] if command else ["--upstream-url", str(upstream_url)]
        for header in upstream_header or ():
            server = ["--upstream-header", header, *server]
        for tool in accept or ():
            server = ["--accept", tool, *server]
        if with_authority:
            server = ["--with-authority", *server]
        _print_config(print_config, name, rules, server, keys)
        return
    if missing := [variable for _, variable in headers if not os.environ.get(variable)]:
        fail(f"preaction: --upstream-header: the environment has no {missing[0] or 'NAME=VARIABLE'}")
    upstream: Upstream = _upstream(command, upstream_url, {n: os.environ[v] for n, v in headers}, key)
    if with_authority:
        upstream = _with_authority(rules, upstream)
    logging.basicConfig(level=logging.WARNING, format="preaction: %(message)s")
    _serve(rules, upstream, http, unsafe_any_host, session, session_from_meta, timeout, accept or [])


def _upstream(command: list[str] | None, url: str | None, headers: dict[str, str], key: str | None) -> "Upstream":
    try:
        from preaction.adapters.mcp_proxy.upstream import Command, Url
    except ImportError:
        fail("preaction: this command needs more packages: pip install 'preaction[proxy]'")
    if command is None:
        return Url(str(url), headers)
    return Command(command, {name: value for name, value in os.environ.items() if name != key})  # it has no use for it


def _with_authority(rules: Path, upstream: "Upstream") -> "Upstream":
    from preaction.adapters.mcp_proxy.authority import AuthorityTools, WithAuthority
    from preaction.rest.felspar import Felspar
    from preaction.rules_file import read_rules_file

    with told(str(rules)):
        given = read_rules_file(rules).given
        key = os.environ.get(given.agent_key_env or "")
        if given.origin is None or not key:
            fail(f"preaction: --with-authority: {rules} needs an origin, and the environment the key that it names")
        return WithAuthority(upstream, AuthorityTools(Felspar(given.origin, key)))


def _serve(
    rules: Path,
    upstream: "Upstream",
    http: str | None,
    any_host: bool,
    session: str | None,
    from_meta: bool,
    timeout: float,
    accept: list[str],
) -> None:
    import anyio

    from preaction.adapters.mcp_proxy.fronts import serve_stdio, session_from_meta
    from preaction.errors import ConfigurationError
    from preaction.gate import ActionGate

    session_of = session_from_meta if from_meta else None
    options: dict[str, Any] = {"session_of": session_of, "silence_s": timeout, "accept": accept}
    with told(str(rules)):
        gate = ActionGate.from_file(rules)
    for line in (*gate.problems, *gate.warnings):
        typer.echo(f"preaction: {line}", err=True)
    if http is not None:
        from preaction.adapters.mcp_proxy.http import serve_http

        with _listener(http, any_host) as listener, told():
            try:
                anyio.run(
                    lambda: serve_http(gate, upstream, listener, lambda url: say(json.dumps({"url": url})), **options)
                )
            except OSError as error:
                fail(NOT_STARTED.format(error.strerror))
        return

    failed: list[str] = []

    async def until_told() -> bool:
        async with anyio.create_task_group() as tasks:
            left = True

            async def told_to_end() -> None:
                with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as numbers:
                    async for _ in numbers:
                        tasks.cancel_scope.cancel()

            tasks.start_soon(told_to_end)
            try:
                left = await serve_stdio(gate, upstream, session=session, **options)
            except OSError as error:
                failed.append(NOT_STARTED.format(error.strerror))
            except ConfigurationError as error:
                failed.append(f"preaction: {error}")
            tasks.cancel_scope.cancel()
        return left

    left = anyio.run(until_told)
    if failed:
        fail(*failed)
    # A thread that waits for the client to read could keep this process.
    os._exit(0 if left else 1)


def _listener(where: str, any_host: bool) -> socket.socket:
    from ipaddress import ip_address

    host, _, port = where.rpartition(":")
    host = {"": "127.0.0.1", "localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        fail(f"preaction: --http: {where!r} is not [HOST:]PORT with an IP address")
    if not loopback and not any_host:
        fail(f"preaction: --http: other machines reach {host}, and nobody asks them for a key; see --unsafe-any-host")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
    except (OSError, ValueError, OverflowError) as error:
        listener.close()
        fail(f"preaction: can't listen on {where}: {error}")
    return listener


def _print_config(host: str, name: str, rules: Path, server: list[str], keys: list[str]) -> None:
    from preaction.adapters.mcp_proxy.hosts import HOSTS, host_config

    if host not in HOSTS:
        fail(f"preaction: --print-config is one of {', '.join(HOSTS)}")
    command = [shutil.which("preaction") or "preaction", "proxy", "--rules", str(rules.resolve()), *server]
    say(json.dumps(host_config(host, name, command, keys), indent=2))
