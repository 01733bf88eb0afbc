"""`preaction audit-chain`: whether the database holds what was written, and which rows it doesn't."""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from preaction.cli.database import Db, SigningKey
from preaction.cli.failing import fail, needs_authority, say, told
from preaction.cli.input import read_bytes

if TYPE_CHECKING:
    from preaction.authority.ledger.chain import Audit, Finding, Witness
    from preaction.authority.storage.storage import Storage

BROKEN: Final = 1


def audit_chain(
    db: Db,
    signing_key: SigningKey = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(help="A receipt that was kept elsewhere, and that the chain must hold; may be given repeatedly."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each finding as a line of JSON, and a summary as the last.")
    ] = False,
) -> None:
    """Name each row that was altered, dropped, reordered, inserted or replaced."""
    with needs_authority():
        from preaction.authority.ledger.chain import Audit
        from preaction.authority.storage.storage import Storage

    count = 0
    with told(), closing(Storage(db, signing_key, create=False)) as storage:
        audit = Audit(storage, [_witness(storage, path) for path in receipt or ()])
        for finding in audit.findings():
            count += 1
            say(json.dumps(asdict(finding)) if as_json else _line(finding))
    say(json.dumps({"findings": count, **_summary(audit)}) if as_json else _words(audit, count))
    if count:
        raise typer.Exit(BROKEN)


def _witness(storage: "Storage", path: Path) -> "Witness":
    from preaction.authority.ledger.chain import Witness
    from preaction.authority.signing.offline import MAX_BYTES

    signed = storage.records.signed(read_bytes(path, MAX_BYTES).decode("ascii", "replace").strip())
    if signed is None or "ruling" not in signed[0]:
        fail(f"preaction: {path.name} is no decision's receipt that was signed by a key of this database")
    record, texts = signed
    return Witness(path.name, record["number"], texts["digest"], record["executionId"])


def _line(finding: "Finding") -> str:
    # ASCII only: the values of an altered row may be anything.
    place = "" if finding.number is None else f" {finding.number}"
    if finding.last is not None and finding.last != finding.number:
        place += f" to {finding.last}"
    name = "" if finding.id is None else f" {json.dumps(finding.id)[1:-1]}"
    return f"{finding.kind}: {finding.table}{place}{name}: {json.dumps(finding.detail)[1:-1]}"


def _summary(audit: "Audit") -> dict[str, object]:
    head = audit.head
    ends = None if head is None else {"number": head["number"], "digest": head["digest"]}
    return {"executions": audit.executions, "removed": audit.removed, "head": ends}


def _words(audit: "Audit", count: int) -> str:
    rows = f"{audit.executions} executions and {audit.removed} that retention removed"
    if count:
        return f"{rows}; {count} findings"
    assert audit.head is not None  # noqa: S101 - else there were a finding
    return f"{rows}; the chain is whole, and ends at number {audit.head['number']} {audit.head['digest']}".rstrip()
