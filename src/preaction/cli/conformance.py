"""`preaction conformance`: whether an authority keeps the wire contract."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from preaction.cli.failing import fail, say, told

if TYPE_CHECKING:
    from preaction.conformance.asking import Who


def conformance(
    origin: Annotated[str, typer.Option(help="Where the authority is: https://host, or http on loopback.")],
    agent_key_env: Annotated[str, typer.Option(help="The environment variable that holds an agent's key.")],
    operator_key_env: Annotated[str | None, typer.Option(help="That of an operator's key.")] = None,
    other_key_env: Annotated[str | None, typer.Option(help="That of an agent's key of another tenant.")] = None,
    job: Annotated[list[str] | None, typer.Option(help="A job to check; all of the key's, when left out.")] = None,
    samples: Annotated[
        Path | None, typer.Option(help="What decides, and which texts pass: a YAML or JSON file.")
    ] = None,
    line: Annotated[list[str] | None, typer.Option(help="A line to check; all, when left out.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Decide, check and revoke nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Check an authority line by line. It makes decisions on cases of its own, and revokes one of them."""
    from preaction.conformance.report import examine, rows
    from preaction.conformance.sample import Samples, read_samples
    from preaction.rest.origin import read_origin

    keys: dict[Who, str] = {"agent": _key("--agent-key-env", agent_key_env)}
    if operator_key_env is not None:
        keys["operator"] = _key("--operator-key-env", operator_key_env)
    if other_key_env is not None:
        keys["other"] = _key("--other-key-env", other_key_env)
    with told():
        known = Samples() if samples is None else read_samples(samples)
        where = str(read_origin(origin))
        report = examine(where, keys, jobs=job or (), samples=known, lines=line or (), read_only=read_only)
    if as_json:
        say(report.as_json())
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for style, text in rows(report):
            typer.echo(typer.style(text, fg=style or None) if colour else text)
    if not report.conforms:
        raise typer.Exit(1)


def _key(option: str, variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        fail(f"preaction: {option}: the environment has no {variable}")
    return value
