"""Who is signed in: a random id in the browser, its hash in the database, until it ends by itself or by its key.

The id has 256 random bits, so a plain SHA-256 keeps it. A session is its key's: every request asks anew whether that
key still stands, so revoking the key ends its sessions at once.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import sqlalchemy as sa

from preaction.authority.keys import Caller, Keyring
from preaction.authority.ledger.executions import column_time
from preaction.authority.storage.storage import Storage
from preaction.authority.storage.tables import SESSIONS
from preaction.wire.times import read_time

LASTS: Final = timedelta(hours=8)

_BY_ID: Final = sa.select(SESSIONS).where(SESSIONS.c.id == sa.bindparam("id"))


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in operator, and what a form of theirs must carry."""

    caller: Caller
    csrf: str


class Sessions:
    """The sessions of one database. Servers that share it share them, those of passing keys excepted."""

    def __init__(self, storage: Storage, keyring: Keyring, clock: Callable[[], datetime]) -> None:
        self._storage = storage
        self._keyring = keyring
        self._clock = clock

    def open(self, key: str, take: Callable[[str], None] | None = None) -> str | None:
        """A new session for an operator's key, as the id that its browser keeps; None for any other key.

        `take` refuses the id of a key that asks too often, before anything is written.
        """
        caller = self._keyring.caller(key)
        if caller is None or caller.role != "operator":
            return None
        if take is not None:
            take(caller.key_id)
        now, session_id = self._clock(), secrets.token_urlsafe(32)
        row = {
            "id": _hash(session_id),
            "key_id": caller.key_id,
            "created_at": column_time(now),
            "expires_at": column_time(now + LASTS),
        }
        with self._storage.writing() as connection:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at <= column_time(now)))
            self._storage.insert(connection, SESSIONS, row)
        return session_id

    def visitor(self, session_id: str) -> Visitor | None:
        """Who has this session; None when it ended, its key was revoked, or its row was altered."""
        if not session_id:
            return None
        with self._storage.reading() as connection:
            row = self._storage.one(connection, _BY_ID, id=_hash(session_id))
        if row is None or not self._storage.intact(SESSIONS, row) or read_time(row["expires_at"]) <= self._clock():
            return None
        caller = self._keyring.standing(row["key_id"])
        if caller is None or caller.role != "operator":
            return None
        return Visitor(caller, csrf_of(session_id))

    def close(self, session_id: str) -> None:
        """End a session; nothing happens when there is none."""
        with self._storage.writing() as connection:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.id == _hash(session_id)))


def csrf_of(secret: str) -> str:
    """The token that only a page of whoever holds this cookie can carry; it doesn't tell the cookie."""
    return sha256(b"csrf\0" + secret.encode("utf-8", "replace")).hexdigest()


def _hash(session_id: str) -> str:
    return sha256(b"session\0" + session_id.encode("utf-8", "replace")).hexdigest()
