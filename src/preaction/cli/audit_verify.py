"""`preaction audit verify`: whether an audit, of the pipeline or a gate, holds what was written, and where not."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from preaction.cli.failing import fail, needs, say, told

if TYPE_CHECKING:
    from preaction.audit.chain_check import Check, Finding

BROKEN: Final = 1


def verify(
    log: Annotated[
        str,
        typer.Argument(
            metavar="PATH_OR_URL",
            envvar="PREACTION_AUDIT",
            help="The file of the log, beside which its parts are; or the URL of its database: sqlite:///audit.db.",
        ),
    ],
    head: Annotated[
        list[str] | None,
        typer.Option(help="A digest that was kept elsewhere, and that the log must hold; may be given repeatedly."),
    ] = None,
    key_env: Annotated[
        str, typer.Option(help="The environment variable that holds the key of a keyed log.")
    ] = "PREACTION_AUDIT_KEY",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each finding as a line of JSON, and a summary as the last.")
    ] = False,
) -> None:
    """Name each entry that was altered, dropped, reordered, inserted or replaced.

    An end that was cut off shows by a --head alone, and so does, without a key, a log that was written anew.
    """
    from preaction.audit.chain_check import Check

    count = 0
    with told():
        check = Check(os.environ.get(key_env) or None, head or ())
        for finding in _findings(log, check):
            count += 1
            say(json.dumps(asdict(finding)) if as_json else _line(finding))
    if not check.entries and not count:
        fail("preaction: there is no entry in this log, so there is nothing to verify")
    say(json.dumps({"findings": count, **_summary(check)}) if as_json else _words(check, count))
    if count:
        raise typer.Exit(BROKEN)


def _findings(log: str, check: "Check") -> "Iterator[Finding]":
    if "://" in log:
        with needs("pipeline-sql"):
            from preaction.pipeline.sql_audit import SqlAudit

        with closing(SqlAudit(log, create=False)) as audit:
            yield from audit.findings(check)
        return
    from preaction.audit.parts import standing

    path = Path(log)
    try:
        yield from check.findings(path.name, standing(path))
    except OSError as error:
        fail(f"preaction: {_ascii(path.name)} can't be read: {error.strerror}")


def _line(finding: "Finding") -> str:
    # ASCII only: the values of an altered entry may be anything.
    place = "" if finding.number is None else f" number {finding.number}"
    if finding.last is not None and finding.last != finding.number:
        place += f" to {finding.last}"
    name = "" if finding.id is None else f" {_ascii(finding.id)}"
    return f"{finding.kind}: {_ascii(finding.place)}{place}{name}: {_ascii(finding.detail)}"


def _summary(check: "Check") -> dict[str, object]:
    head = None if check.head is None else asdict(check.head)
    return {"entries": check.entries, "removed": check.removed, "cut": check.cut, "head": head}


def _words(check: "Check", count: int) -> str:
    rows = f"{check.entries} entries"
    if check.removed:
        rows += f", after {check.removed} that were removed as asked for"
    if check.cut is not None:
        rows += f"; {_ascii(check.cut)} is unfinished, as a crash or a full disk leaves a line"
    if count or check.head is None:
        return f"{rows}; {count} findings"
    return f"{rows}; the chain is whole, and ends at number {check.head.number} {check.head.digest}"


def _ascii(text: str) -> str:
    return json.dumps(text)[1:-1]
