"""Keys: random, shown once, kept as hashes, for one pack and some or all of its jobs.

A key is `pa_<role>_<id>_<secret>`. The id finds the row, the secret has 256 random bits, so a plain SHA-256 keeps it.
"""

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Final, Literal, TypeAlias

import sqlalchemy as sa

from preaction.authority.storage.storage import KEYS, Row, Storage
from preaction.wire.times import write_time

Role: TypeAlias = Literal["agent", "operator"]

_BY_ID: Final = sa.select(KEYS).where(KEYS.c.id == sa.bindparam("id"))
_NEWEST_FIRST: Final = sa.select(KEYS).order_by(KEYS.c.created_at.desc(), KEYS.c.id)
_NOBODY: Final = sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the holder of a key. `jobs` None means all of the pack's."""

    key_id: str
    role: Role
    pack: str
    jobs: frozenset[str] | None = None

    def sees(self, pack: object, job: object) -> bool:
        """Whether something of that pack and job may be shown to this caller."""
        return pack == self.pack and (self.jobs is None or job in self.jobs)


@dataclass(frozen=True, slots=True)
class KeySummary:
    """What may be shown of a key. `created_at` is None for one that ends with its process; `altered`: its row was."""

    key_id: str
    role: str = ""
    jobs: frozenset[str] | None = None
    created_at: str | None = None
    revoked_at: str | None = None
    altered: bool = False


class Keyring:
    """The keys of one database, and those that end with this process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._passing: dict[str, tuple[str, Caller]] = {}

    def create(self, role: Role, pack: str, jobs: Collection[str] | None, now: datetime) -> str:
        """A new key, kept as its hash. It is returned here and never again."""
        key_id, key, hashed = _new(role)
        row = {
            "id": key_id,
            "hash": hashed,
            "role": role,
            "pack": pack,
            "jobs": None if jobs is None else json.dumps(sorted(set(jobs))),
            "created_at": write_time(now),
            "revoked_at": None,
        }
        with self._storage.writing() as connection:
            self._storage.insert(connection, KEYS, row)
        return key

    def create_passing(self, role: Role, pack: str) -> str:
        """A new key for all jobs of a pack that ends with this process and is stored nowhere."""
        key_id, key, hashed = _new(role)
        self._passing[key_id] = hashed, Caller(key_id, role, pack)
        return key

    def revoke(self, key_id: str, now: datetime) -> bool:
        """End a key at once; False when there is none of that id."""
        if self._passing.pop(key_id, None):
            return True
        with self._storage.writing() as connection:
            row = self._storage.one(connection, _BY_ID, id=key_id)
            if row is None or not self._storage.intact(KEYS, row):
                return False
            self._storage.replace(connection, KEYS, {**row, "revoked_at": row["revoked_at"] or write_time(now)})
        return True

    def caller(self, key: str) -> Caller | None:
        """Whose key it is; None for one that is unknown, revoked, or whose row was altered."""
        key_id = key_id_of(key)
        passing = self._passing.get(key_id)
        row = None if passing else self._row(key_id)
        hashed = passing[0] if passing else row["hash"] if row else _NOBODY
        # Compared before anything else is looked at, so that time doesn't tell which ids there are.
        if not compare_digest(hashed.encode("utf-8", "replace"), _hash(key).encode()):
            return None
        return passing[1] if passing else self._holder(row)

    def standing(self, key_id: str) -> Caller | None:
        """The holder of the key of that id, while it stands: to be asked by whoever saw the key itself before."""
        passing = self._passing.get(key_id)
        return passing[1] if passing else self._holder(self._row(key_id))

    def listed(self, caller: Caller) -> list[KeySummary]:
        """The keys of the caller's pack, newest first: those of no other jobs than the caller's own."""
        statement = _NEWEST_FIRST.where(KEYS.c.pack == caller.pack)
        with self._storage.reading() as connection:
            rows = [dict(row) for row in connection.execute(statement).mappings()]
        found = [
            KeySummary(each.key_id, each.role, each.jobs)
            for _, each in list(self._passing.values())
            if each.pack == caller.pack
        ]
        found += [self._summary(row) for row in rows]
        return [
            each
            for each in found
            if caller.jobs is None or (not each.altered and each.jobs is not None and each.jobs <= caller.jobs)
        ]

    def _summary(self, row: Row) -> KeySummary:
        if not self._storage.intact(KEYS, row):
            return KeySummary(row["id"], altered=True)
        return KeySummary(row["id"], row["role"], _caller(row).jobs, row["created_at"], row["revoked_at"])

    def _row(self, key_id: str) -> Row | None:
        if not key_id:
            return None
        with self._storage.reading() as connection:
            return self._storage.one(connection, _BY_ID, id=key_id)

    def _holder(self, row: Row | None) -> Caller | None:
        """Who holds the key of a row; None when it was revoked or altered."""
        if row is None or row["revoked_at"] is not None or not self._storage.intact(KEYS, row):
            return None
        return _caller(row)


def key_id_of(key: str) -> str:
    """The public part of a key, fit for a log; empty for what is no key."""
    parts: Sequence[str] = key.split("_", 3)
    return parts[2] if len(parts) == 4 and parts[0] == "pa" and parts[2].isalnum() else ""


def _caller(row: Row) -> Caller:
    jobs = None if row["jobs"] is None else frozenset(json.loads(row["jobs"]))
    return Caller(row["id"], row["role"], row["pack"], jobs)


def _new(role: Role) -> tuple[str, str, str]:
    key_id = secrets.token_hex(8)
    key = f"pa_{role}_{key_id}_{secrets.token_urlsafe(32)}"
    return key_id, key, _hash(key)


def _hash(key: str) -> str:
    return sha256(key.encode("utf-8", "replace")).hexdigest()
