"""`preaction keys rotate`: sign by a new key from now on."""

import json
from contextlib import closing

from preaction.cli.database import Db, SigningKey
from preaction.cli.failing import Json, needs_authority, say, told


def rotate(db: Db, signing_key: SigningKey = None, as_json: Json = False) -> None:
    """Make a new signing key. Old receipts and rows stay good; the old key's private half is deleted.

    Servers that run take the new key by themselves; where they have a key file of their own, copy the new one there.
    Prints `{"kid": "…", "before": "…"}`.
    """
    with needs_authority():
        from preaction.authority.ledger.rotation import rotate as change
        from preaction.authority.storage.storage import Storage

    with told(), closing(Storage(db, signing_key, create=False)) as storage:
        before, kid = change(storage)
    say(json.dumps({"kid": kid, "before": before}))
