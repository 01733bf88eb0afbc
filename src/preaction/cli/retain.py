"""`preaction retain`: remove the content of old decisions."""

import json
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from preaction.cli.database import Db, SigningKey
from preaction.cli.failing import Json, fail, needs_authority, say, told
from preaction.wire.times import write_time


def retain(
    db: Db,
    older_than: Annotated[str, typer.Option(help="An age in ISO 8601, such as P400D.")],
    whole_cases: Annotated[
        bool, typer.Option("--whole-cases", help="Also what a case's last decision says, where that is old too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; print what would go.")] = False,
    signing_key: SigningKey = None,
    as_json: Json = False,
) -> None:
    """Remove records, receipts, checked texts, first answers and reported verdicts that are older than an age.

    The chain of receipts stays whole: of each decision that goes, its id and digests stay. Prints what went as JSON.
    """
    with needs_authority():
        from pydantic import TypeAdapter, ValidationError

        from preaction.authority.ledger.retention import retain as remove
        from preaction.authority.packs.pack import Duration
        from preaction.authority.storage.storage import Storage

    now = datetime.now(UTC)
    try:
        before = now - TypeAdapter(Duration).validate_python(older_than)
    except (ValidationError, OverflowError):
        fail("preaction: --older-than is an age in ISO 8601 that is longer than zero, such as P400D")
    with told(), closing(Storage(db, signing_key, create=False)) as storage:
        removed = remove(storage, before, now, whole_cases=whole_cases, dry_run=dry_run)
    say(json.dumps({"before": write_time(before), "dry_run": dry_run, **asdict(removed)}))
