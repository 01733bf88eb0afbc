"""Published releases, compiled once and kept. A release never changes; a row that did is no release."""

from typing import Final

import sqlalchemy as sa

from preaction.authority.packs.release import Release, load_release
from preaction.authority.refusal import Refused
from preaction.authority.storage.storage import RELEASES, Row, Storage
from preaction.wire.models import ReleaseSummary
from preaction.wire.times import read_time

_OF_PACK: Final = sa.select(RELEASES).where(RELEASES.c.pack == sa.bindparam("pack"))
_NEWEST_FIRST: Final = _OF_PACK.order_by(RELEASES.c.number.desc())
_CURRENT: Final = _NEWEST_FIRST.limit(1)
_PINNED: Final = _OF_PACK.where(RELEASES.c.release == sa.bindparam("release"))


class Shelf:
    """The releases of one database."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ready: dict[tuple[str, str], tuple[Row, Release]] = {}

    def current(self, connection: sa.Connection, pack: str) -> Release | None:
        """The newest release of a pack; None before the first. 503 when its row was altered."""
        row = self._storage.one(connection, _CURRENT, pack=pack)
        if row is None:
            return None
        release = self._compiled(row)
        if release is None:
            raise Refused(503, "The current release was altered in the database, so nothing is decided by it.")
        return release

    def pinned(self, connection: sa.Connection, pack: str, release: str) -> Release | None:
        """One release; None when there is none or its row was altered."""
        row = self._storage.one(connection, _PINNED, pack=pack, release=release)
        return None if row is None else self._compiled(row)

    def all(self, connection: sa.Connection, pack: str) -> list[ReleaseSummary]:
        """All releases of a pack, newest first, but for altered ones."""
        rows = (row._asdict() for row in connection.execute(_NEWEST_FIRST, {"pack": pack}))
        return [summary(row) for row in rows if self._storage.intact(RELEASES, row)]

    def publish(self, connection: sa.Connection, release: Release, published_at: str) -> tuple[ReleaseSummary, bool]:
        """Add a release, within `writing`; with True when it is new. 409 for other content under a known version."""
        names = {"pack": release.pack, "release": release.version}
        known = self._storage.one(connection, _PINNED, **names)
        if known is not None:
            if known["digest"] != release.digest or not self._storage.intact(RELEASES, known):
                raise Refused(409, "This version is published with other content; a release never changes.")
            return summary(known), False
        row = {
            **names,
            "number": self._storage.last(connection, RELEASES)[0] + 1,
            "digest": release.digest,
            "content": release.content,
            "published_at": published_at,
        }
        self._ready[release.pack, release.version] = self._storage.insert(connection, RELEASES, row), release
        return summary(row), True

    def _compiled(self, row: Row) -> Release | None:
        """Compile a row, or take what was compiled from exactly this row before."""
        known = self._ready.get((row["pack"], row["release"]))
        if known is not None and known[0] == row:
            return known[1]
        if not self._storage.intact(RELEASES, row):
            return None
        release = load_release(row["content"])
        self._ready[row["pack"], row["release"]] = row, release
        return release


def summary(row: Row) -> ReleaseSummary:
    """A release's row as the wire has it."""
    return ReleaseSummary(
        pack=row["pack"],
        release=row["release"],
        digest=row["digest"],
        published_at=read_time(row["published_at"]),
    )
