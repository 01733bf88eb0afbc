"""`preaction keys create`: a new key, shown once."""

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from preaction.cli.database import Db, SigningKey
from preaction.cli.failing import Json, fail, needs_authority, say, told


def create(
    db: Db,
    pack: Annotated[str, typer.Option(help="The pack that the key is for.")],
    signing_key: SigningKey = None,
    jobs: Annotated[str | None, typer.Option(help="The pack's jobs, separated by commas; all, when left out.")] = None,
    operator: Annotated[bool, typer.Option("--operator", help="An operator's key instead of an agent's.")] = False,
    as_json: Json = False,
) -> None:
    """Create a key and print it as `{"key": "…"}`. It is stored as a hash and can't be shown again."""
    with needs_authority():
        from preaction.authority.keys import Keyring
        from preaction.authority.storage.storage import Storage

    names = None if jobs is None else [name.strip() for name in jobs.split(",")]
    if names is not None and not all(names):
        fail("preaction: --jobs has an empty name")
    with told(), closing(Storage(db, signing_key)) as storage:
        key = Keyring(storage).create("operator" if operator else "agent", pack, names, datetime.now(UTC))
    say(json.dumps({"key": key}))
