"""`preaction keys revoke`: a key opens nothing any more, from the next request on."""

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Annotated

import typer

from preaction.cli.database import Db, SigningKey
from preaction.cli.failing import Json, fail, needs_authority, say, told


def revoke(
    db: Db,
    key_id: Annotated[str, typer.Argument(help="Its third part: 4f0c… of pa_agent_4f0c…_…; the console lists them.")],
    signing_key: SigningKey = None,
    as_json: Json = False,
) -> None:
    """End a key at once, for every server of the database. What was decided with it stays.

    Prints `{"keyId": "…"}`. One whose row was altered opens nothing, and can't be revoked.
    """
    with needs_authority():
        from preaction.authority.keys import Keyring, key_id_of
        from preaction.authority.storage.storage import Storage

    named = key_id_of(key_id) or key_id  # who pastes the whole key means it too
    with told(), closing(Storage(db, signing_key, create=False)) as storage:
        if not Keyring(storage).revoke(named, datetime.now(UTC)):
            fail("preaction: the database has no intact key of that id; one that was altered opens nothing")
    say(json.dumps({"keyId": named}))
