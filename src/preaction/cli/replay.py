"""`preaction replay`: recorded calls judged again, offline, by what their records hold."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from preaction.cli.failing import EXIT_CODE, fail, say, told
from preaction.cli.screen import ascii_safe

if TYPE_CHECKING:
    from preaction.audit.record import AuditRecord

OTHERWISE = 1
"""The exit code where a record gives another verdict than it says."""


def replay(
    record: Annotated[
        Path, typer.Argument(help="A log of the gate's audit, with its earlier parts; - for stdin.")
    ] = Path("-"),
    identity: Annotated[str | None, typer.Option("--id", help="Only the record with this id.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each record, and a summary as the last.")
    ] = False,
) -> None:
    """Judge recorded calls again, by the rules and answers in their records: does each give the verdict that it says?

    Nobody is asked, and nothing runs. What gives another verdict is named, and what can't be replayed, with the reason.
    """
    from preaction.audit.reading import records

    counts = {"same": 0, "different": 0, "notReplayed": 0}
    with told():
        for each in records(record):
            if identity is None or each.id == identity:
                result, line = _again(each)
                counts[result] += 1
                if as_json:
                    say(json.dumps({"id": each.id, "tool": each.tool, "result": result, **line}))
                elif result != "same":
                    say(f"{ascii_safe(each.id)} {ascii_safe(each.tool)}: {_words(result, line)}")
    if not sum(counts.values()):
        fail("preaction: there is no such record, so there is nothing to replay")
    say(json.dumps(counts) if as_json else _summary(counts))
    if counts["different"] or counts["notReplayed"]:
        raise typer.Exit(OTHERWISE if counts["different"] else EXIT_CODE)


_Result = Literal["same", "different", "notReplayed"]


def _again(record: "AuditRecord") -> tuple[_Result, dict[str, Any]]:
    from preaction.audit.replaying import differences, replay_record
    from preaction.errors import RecordMismatch

    try:
        verdict = replay_record(record)
    except RecordMismatch as error:
        return "notReplayed", {"why": str(error)}
    found = differences(record, verdict)
    line = {"recorded": record.verdict.code, "again": verdict.code, "differences": found}
    return "different" if found else "same", line


def _words(result: _Result, line: dict[str, Any]) -> str:
    if result == "notReplayed":
        return f"it can't be replayed: {ascii_safe(line['why'])}"
    return (
        f"recorded as {line['recorded']}, judged again as {line['again']}; different: {', '.join(line['differences'])}"
    )


def _summary(counts: dict[str, int]) -> str:
    words = f"{counts['same']} gave the same verdict again"
    if counts["different"]:
        words += f", {counts['different']} another"
    return words + (f", {counts['notReplayed']} could not be replayed" if counts["notReplayed"] else "")
