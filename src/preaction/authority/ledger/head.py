"""The head of the chain: a sealed row with the number and digest of the newest execution.

A new execution follows what the head says, not the newest row: else dropping rows at the end would leave no trace. The
head counts revocations too, so that putting back an old copy of a row, from before it was revoked, shows in the count.
"""

from typing import Final

import sqlalchemy as sa

from preaction.authority.refusal import Refused
from preaction.authority.storage.storage import Row, Storage
from preaction.authority.storage.tables import CHAIN

_HEAD: Final = sa.select(CHAIN)


def sealed_head(storage: Storage, connection: sa.Connection) -> Row | None:
    """The head; None when it is missing or was altered."""
    row = storage.one(connection, _HEAD)
    return row if row is not None and storage.intact(CHAIN, row) else None


def head(storage: Storage, connection: sa.Connection) -> Row:
    """The head, to go on from. 503 when it is missing or was altered: nothing is added to a broken chain's end."""
    row = sealed_head(storage, connection)
    if row is None:
        raise Refused(503, "The head of the chain was altered, so nothing is added to it; see preaction audit-chain.")
    return row


def advance(storage: Storage, connection: sa.Connection, head: Row, number: int, digest: str) -> None:
    """Move the head on to a new execution; within `writing`."""
    storage.replace(connection, CHAIN, {**head, "number": number, "digest": digest})


def count_revocation(storage: Storage, connection: sa.Connection) -> None:
    """Count one more revoked execution; within `writing`."""
    found = head(storage, connection)
    storage.replace(connection, CHAIN, {**found, "revoked": found["revoked"] + 1})
