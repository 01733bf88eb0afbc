"""`preaction lint`: what is wrong with a rules file, before it bites."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from preaction.cli.failing import fail, say, told
from preaction.cli.screen import Row, ascii_safe, show

if TYPE_CHECKING:
    from preaction.lint.report import Report
    from preaction.lint.tools import Tool


def lint(
    rules: Annotated[Path, typer.Argument(help="The rules file: gate.yaml, .toml or .json.")],
    mcp: Annotated[str | None, typer.Option(help="The command or the URL of the MCP server with the tools.")] = None,
    mcp_header: Annotated[
        list[str] | None, typer.Option(help="NAME=VARIABLE: a header for that URL, its value from the environment.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option(help="MODULE:ATTRIBUTE of Python functions: a list, mapping, class or object.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="What the runtime puts before the tools' names, as mcp__desk__.")] = "",
    ignore: Annotated[list[str] | None, typer.Option(help="A parameter of functions that a runtime injects.")] = None,
    accept: Annotated[
        list[str] | None, typer.Option(help="A name of the rules that these tools need not have.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Don't ask the authority.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Count warnings as errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON object.")] = False,
) -> None:
    """Hold a rules file against the released description of its job and, if given, against the real tools.

    Hints never count.
    """
    with told(str(rules)):
        from preaction.lint.report import lint as look
        from preaction.rules_file import read_rules_file

        file = read_rules_file(rules)
        # A store is not needed, and opening one could make its file.
        felspar = None if offline else file.options(None, {"audit": None, "store": None})["describe"].source
        real = _tools(mcp, mcp_header or [], tools, prefix, ignore or [], file.given.agent_key_env)
        report = look(file, felspar, real, accept or [])
    if as_json:
        say(json.dumps(_as_json(report), indent=2))
    else:
        show(*_rows(report))
    if report.count("error") or (strict and report.count("warning")):
        raise typer.Exit(1)


def _tools(
    mcp: str | None, headers: Sequence[str], where: str | None, prefix: str, ignore: Sequence[str], hidden: str | None
) -> "list[Tool] | None":
    from dataclasses import replace

    if mcp is not None and where is not None:
        fail("preaction: --mcp and --tools are two places; give the one where the tools are")
    if mcp is not None:
        found = _listed(mcp, headers, hidden)
    elif where is not None:
        from preaction.lint.tools import load_tools

        found = load_tools(where, ignore)
    else:
        return None
    return [replace(tool, name=prefix + tool.name) for tool in found]


def _listed(mcp: str, headers: Sequence[str], hidden: str | None) -> "list[Tool]":
    try:
        from preaction.lint.mcp_listing import list_tools
    except ImportError:
        fail("preaction: --mcp needs more packages: pip install 'preaction[proxy]'")
    named = [each.partition("=")[::2] for each in headers]
    if missing := [variable for _, variable in named if not os.environ.get(variable)]:
        fail(f"preaction: --mcp-header: the environment has no {missing[0] or 'NAME=VARIABLE'}")
    return list_tools(mcp, {name: os.environ[variable] for name, variable in named}, hidden)


def _rows(report: "Report") -> Iterator[Row]:
    for each in report.findings:
        place = f"{ascii_safe(report.file)}:{each.line}:{each.column}: {each.severity} {each.code}"
        yield Row(place, style=each.severity)
        yield Row("", ascii_safe(each.problem), indent=4)
        yield Row("do: ", ascii_safe(each.remedy), indent=4, width=4)
    yield Row(_summary(report), style="" if report.findings else "good")
    yield Row(_held_against(report))


def _summary(report: "Report") -> str:
    counts = [(report.count(name), name) for name in ("error", "warning", "hint")]
    said = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    return ", ".join(said) or "nothing is wrong"


def _held_against(report: "Report") -> str:
    """What the file was held against, and what wasn't looked at."""
    seen = ["the file by itself"]
    left = []
    if report.releases:
        names = ", ".join(map(ascii_safe, report.releases))
        seen.append(f"{'release' if len(report.releases) == 1 else 'releases'} {names}")
    else:
        left.append("the release" + (" (--offline)" if report.releases is None else ""))
    if report.tools is None:
        left.append("the tools (--mcp, --tools)")
    else:
        seen.append(f"{report.tools} tool{'' if report.tools == 1 else 's'}")
    return f"looked at: {', '.join(seen)}" + (f"; not at: {', '.join(left)}" if left else "")


def _as_json(report: "Report") -> dict[str, Any]:
    return {
        "file": report.file,
        "releases": report.releases,
        "tools": report.tools,
        "findings": [asdict(each) for each in report.findings],
    }
